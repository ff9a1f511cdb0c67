"""Clustering with honest uncertainty for heavy-tailed data and correlated time series."""

__version__ = "0.1.0"
