"""Jobs that are programs of their own, on this machine or on the workers of a dask cluster."""
