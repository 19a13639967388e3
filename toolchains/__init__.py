"""Data files of firmwright, found with importlib.resources."""
