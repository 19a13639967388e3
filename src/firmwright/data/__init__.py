"""Reads data for a network's inputs from the sources that a recipe states."""
