"""Generates the C project: its files and the variables of their templates."""
