"""Cluster parameters of a kept draw, from a mixture's sampler."""

from __future__ import annotations

import numpy as np

from cavity.priors.partition import (
    DirichletState,
    FiniteState,
    FixedWeightsState,
    PitmanYorState,
)
from cavity.sampling.sampler import PartitionSampler


def _clean_weights(sampler: PartitionSampler) -> np.ndarray:
    """Predictive weights of the occupied slots given the sizes; NaN for empty ones."""
    counts = sampler.counts.astype(float)
    prior = sampler.prior
    if isinstance(prior, FixedWeightsState):
        weight = prior.weights.copy()
    elif isinstance(prior, DirichletState):
        weight = counts + prior.concentration[0] * prior.shape
    else:
        discount = prior.discount[0] if isinstance(prior, PitmanYorState) else 0.0
        if isinstance(prior, FiniteState):
            discount = -prior.concentration[0]
        weight = counts - discount
        weight = np.where(counts > 0, weight, 0.0)
    return np.where(counts > 0, weight / weight.sum(), np.nan)


def describe(sampler: PartitionSampler) -> dict[str, np.ndarray]:
    """Weight, mean and covariance (scale matrix) of every slot; NaN where it is empty."""
    parameters = sampler.parameters
    whiten = np.moveaxis(parameters.whiten, 2, 0)
    occupied = sampler.counts > 0
    root = np.full(whiten.shape, np.nan)
    root[occupied] = np.linalg.solve(
        whiten[occupied], np.broadcast_to(np.eye(whiten.shape[1]), whiten[occupied].shape)
    )
    return {
        "weight": _clean_weights(sampler),
        "mean": parameters.mean.T,
        "covariance": root @ np.swapaxes(root, 1, 2),
    }
