"""Kernels of the clustered factor model for time series."""
