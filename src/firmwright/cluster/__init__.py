"""Runs jobs in copies of this process, or as programs on the workers of a dask cluster."""
