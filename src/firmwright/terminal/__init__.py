"""Prints the output of a build: stages, progress, and results."""
