"""Builds every model of a folder as a newcomer does, and writes a table of the outcomes."""
