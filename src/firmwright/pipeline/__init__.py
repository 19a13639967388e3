"""Runs the stages of a build.

The package contains jobs, freshness, the lock and the command line. Only this package imports doit.
"""
