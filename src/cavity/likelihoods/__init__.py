"""Likelihoods: one file each."""
