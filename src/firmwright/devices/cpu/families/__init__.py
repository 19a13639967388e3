"""Families: the forms of cores that have the same instructions."""
