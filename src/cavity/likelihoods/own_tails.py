"""Degrees of freedom, and the scales of rows that are their own whichever cluster they are in."""

from __future__ import annotations

from typing import Any

import numpy as np

from cavity.conjugate.nig import DiagonalParameters
from cavity.conjugate.normal import Tied
from cavity.likelihoods.degrees_of_freedom import TailUpdate, slice_df_of_weighted
from cavity.updates import Chain


def filled_distances(y: np.ndarray, parameters: Any, z: np.ndarray) -> np.ndarray:
    """Squared distance of every row, its gaps filled, from its own cluster.

    Examples
    --------
    >>> from cavity.conjugate.nig import DiagonalParameters
    >>> two = DiagonalParameters(np.array([[0.0, 5.0]]), np.array([[1.0, 4.0]]))
    >>> filled_distances(np.array([[3.0], [3.0]]), two, np.array([0, 1])).tolist()
    [9.0, 1.0]
    """
    away = y - parameters.mean.T[z]
    if isinstance(parameters, DiagonalParameters):
        return np.asarray((away * away / parameters.variance.T[z]).sum(axis=1))
    covariance = parameters.covariance
    if isinstance(covariance, Tied):
        return np.square(away @ covariance.whiten.T).sum(axis=1)
    out = np.empty(len(y))
    order = np.argsort(z, kind="stable")
    ends = np.searchsorted(z[order], np.arange(parameters.mean.shape[1] + 1))
    for k in np.flatnonzero(np.diff(ends)):
        own = order[ends[k] : ends[k + 1]]
        white = away[own] * covariance.root[:, k]
        inside = white @ covariance.project[:, :, k].T
        out[own] = np.square(white).sum(axis=1) - np.square(inside).sum(axis=1)
    return np.maximum(out, 0.0)


class OwnTailUpdate(TailUpdate):
    """Draws degrees of freedom with scales integrated out, then scales, given the parameters.

    The scale of a row outside every cluster has its prior.
    """

    def draw(self, chain: Chain, rng: np.random.Generator) -> None:
        """Degrees of freedom (if they are learned) given cluster parameters, then scales."""
        model: Any = chain.model
        d = model.y.shape[1]
        z, alpha = chain.z, model.alpha
        outside = z == model.noise_slot[0]
        distance = np.where(outside, 0.0, filled_distances(model.y, chain.parameters, z))
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
