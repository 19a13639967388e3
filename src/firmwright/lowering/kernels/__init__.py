"""Operators on integers, a family a file."""
