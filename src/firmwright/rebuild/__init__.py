"""Repeats builds, and compares the results with a bundle, a revision, or a second build."""
