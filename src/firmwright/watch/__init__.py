"""Repeats builds when a file changes."""
