"""Plots with matplotlib from plain arrays, independent of the posterior."""
