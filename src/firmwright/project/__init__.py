"""Generates the files of the C project, and the variables of the templates."""
