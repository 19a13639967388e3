"""Contains data files of firmwright that importlib.resources finds."""
