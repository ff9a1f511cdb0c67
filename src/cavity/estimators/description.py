"""Cluster parameters of a kept draw, from a mixture's sampler."""

from __future__ import annotations

import numpy as np

from cavity.priors.partition import Dirichlet, FixedWeights, PitmanYor, is_open
from cavity.sampling.sampler import PartitionSampler


def _clean_weights(sampler: PartitionSampler) -> np.ndarray:
    """Predictive weights of the occupied slots given the sizes; NaN for empty ones."""
    counts = sampler.counts.astype(float)
    prior = sampler.prior
    if isinstance(prior, FixedWeights):
        weight = prior.weights.copy()
    elif isinstance(prior, Dirichlet):
        weight = counts + prior.concentration[0] * prior.shape
    else:
        discount = prior.discount[0] if isinstance(prior, PitmanYor) else 0.0
        weight = counts - discount
    weight = weight / weight.sum() if not is_open(prior) else weight / counts.sum()
    return np.where(counts > 0, weight, np.nan)


def describe(sampler: PartitionSampler) -> dict[str, np.ndarray]:
    """Weight, mean, covariance (scale matrix), degrees of freedom of every occupied slot.

    And the scale of the covariances, if it is learned.
    """
    parameters = sampler.collapse.parameters
    whiten = np.moveaxis(parameters.whiten, 2, 0)
    occupied = sampler.counts > 0
    root = np.full(whiten.shape, np.nan)
    root[occupied] = np.linalg.solve(
        whiten[occupied], np.broadcast_to(np.eye(whiten.shape[1]), whiten[occupied].shape)
    )
    mean = np.where(occupied[:, None], parameters.mean.T, np.nan)
    out = {
        "weight": _clean_weights(sampler),
        "mean": mean,
        "covariance": root @ np.swapaxes(root, 1, 2),
    }
    alpha = sampler.collapse.state.model.alpha
    if np.isfinite(alpha[0]):
        out["df"] = np.where(occupied, 2.0 * alpha, np.nan)
    if sampler.collapse.prior_update is not None:
        out |= sampler.collapse.prior_update.record(sampler.collapse.family)
    return out
