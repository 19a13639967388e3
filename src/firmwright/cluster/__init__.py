"""Runs jobs as separate programs, on this machine or on the workers of a dask cluster."""
