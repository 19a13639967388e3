"""Imports the Python files of a user and reports their errors with file and line."""
