"""Runs the stages of a build: jobs, freshness, the lock and the command line.

Only this package imports doit.
"""
