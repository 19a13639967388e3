"""Searches for the type of each layer's weights that the limits of a recipe allow."""
