"""The generated C project: its files and their templates' variables."""
