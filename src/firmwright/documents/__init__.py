"""Reads the user's YAML files with the position of each value, and checks them by a schema."""
