"""Builds many recipes on many workers: defines the matrix, runs the jobs, reports the results."""
