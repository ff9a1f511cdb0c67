"""Sweeps, the chains that repeat them, and the checkpoints from which they continue."""
