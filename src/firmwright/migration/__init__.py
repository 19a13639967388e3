"""Converts configurations of other tools to recipes. No code of the user runs."""
