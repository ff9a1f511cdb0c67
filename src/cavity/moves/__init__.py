"""Moves of many labels at once, beside the sweep: one file each."""
