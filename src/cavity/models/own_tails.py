"""Degrees of freedom, and the scales of rows that are their own whichever cluster they are in."""

from __future__ import annotations

from typing import Any

import numpy as np

from cavity.models.degrees_of_freedom import TailUpdate, slice_df_of_weighted
from cavity.models.own_scales import distances_of_rows
from cavity.updates import Chain


class OwnTailUpdate(TailUpdate):
    """Draws degrees of freedom with scales integrated out, then scales, given the parameters.

    The scale of a row outside every cluster has its prior.
    """

    def draw(self, chain: Chain, rng: np.random.Generator) -> None:
        """Degrees of freedom (if they are learned) given cluster parameters, then scales."""
        model: Any = chain.model
        n, d = model.y.shape
        z, alpha = chain.z, model.alpha
        distance = np.empty(n)
        self._kernels.run(distances_of_rows, model, chain.parameters, z, distance)
        outside = z == model.noise_slot[0]
        told = np.where(outside, 0.0, model.weight)
        if self.learn == "shared":
            alpha[:] = 0.5 * slice_df_of_weighted(
                2.0 * alpha[0], distance, told, z, -1, told.sum(), d, self.shape, self.rate, rng
            )
        elif self.learn == "each":
            sizes = np.bincount(z, told, alpha.size)
            for k in range(alpha.size):
                alpha[k] = 0.5 * slice_df_of_weighted(
                    2.0 * alpha[k], distance, told, z, k, sizes[k], d, self.shape, self.rate, rng
                )
        own = alpha[z]
        shape = model.weight * (own + np.where(outside, 0.0, 0.5 * d))
        drawn = rng.standard_gamma(shape) / (own + 0.5 * distance)
        # A gamma of tiny shape can round to nought.
        model.scale[:] = np.maximum(drawn, 1e-280)

    def follow(self, model: Any) -> None:
        """Nothing is kept ready for the degrees of freedom."""
