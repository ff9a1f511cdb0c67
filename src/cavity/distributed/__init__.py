"""Past one machine: one chain's sweep over rows in blocks, on threads or on a Dask cluster."""
