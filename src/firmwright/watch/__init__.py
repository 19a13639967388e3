"""Builds that start again when a file changes."""
