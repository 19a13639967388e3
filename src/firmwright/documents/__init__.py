"""Reads YAML files of users with the position of each value, and checks them with a schema."""
