"""Imports the user's Python files and reports their errors with file and line."""
