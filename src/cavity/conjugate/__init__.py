"""Exponential families for cluster parameters."""
