"""Builds many recipes on many workers: the matrix, the workers, and the results."""
