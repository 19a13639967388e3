"""Runs the stages of a build.

Only this package imports doit.
"""
