"""Reads users' YAML files with the position of each value, and checks values with a schema."""
