"""Known labels and noise of rows, for the partition priors of all chains."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from cavity.priors.partition import NO_SLOT, PartitionPrior, padded


class RowPlaces(NamedTuple):
    """Clusters that rows may be in.

    Attributes
    ----------
    home : array of int, shape (n,)
        The slot of a known label, -1 for none.
    noise : (float, float) or None
        Beta prior of the share of noise, which takes the first slot; None without noise.
    """

    home: np.ndarray
    noise: tuple[float, float] | None = None

    def first(self, n: int) -> RowPlaces:
        """Return the places of the first n rows, without known labels."""
        return RowPlaces(np.full(n, NO_SLOT), self.noise)

    def around(self, prior: PartitionPrior, n_slots: int) -> PartitionPrior:
        """Return a chain's prior over these rows; noise takes the slot before the clusters'."""
        prior = padded(prior, n_slots)
        noise = (1.0, 1.0) if self.noise is None else self.noise
        return prior._replace(
            weights=prior.weights if self.noise is None else np.roll(prior.weights, 1),
            home=np.ascontiguousarray(self.home, dtype=np.int64),
            noise_slot=NO_SLOT if self.noise is None else 0,
            noise_size=np.zeros(1),
            noise_prior=np.array(noise, dtype=float),
        )
