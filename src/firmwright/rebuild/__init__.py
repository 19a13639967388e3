"""Repeats builds, and compares them with a bundle, a revision, or a second build."""
