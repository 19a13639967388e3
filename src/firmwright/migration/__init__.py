"""Converts configurations of other tools to recipes, without running code of the user."""
