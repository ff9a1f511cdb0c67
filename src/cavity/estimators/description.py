"""Cluster parameters of a kept draw, from a mixture's sampler, and the prior of those to come."""

from __future__ import annotations

import numpy as np

from cavity._numba.jit import Kernels
from cavity.estimators.structures import describe_block, describe_prior
from cavity.likelihoods.predictive import CLUSTER_PRIOR, NOISE_WEIGHT
from cavity.mcmc.chain import PartitionSampler
from cavity.priors.partition import seat_weight

_kernels = Kernels()


def seat_weights(prior, counts, n_clusters, out):
    """Prior weight of one more observation in every slot, as an entry kernel."""
    for k in range(out.shape[0]):
        out[k] = seat_weight(prior, counts, n_clusters, np.int64(k))


def describe_weights(sampler: PartitionSampler) -> np.ndarray:
    """Predictive weights of the occupied slots given the sizes; NaN for empty ones.

    What they lack of one is the share of clusters that are empty or still to come.
    """
    # Under an open prior all clusters to come are one choice; a closed one's have a slot each.
    prior = sampler.prior
    counts = np.append(sampler.counts, [0.0] * prior.is_open)
    occupied = counts > 0
    seats = np.empty(counts.size)
    _kernels.run(seat_weights, prior, counts, np.count_nonzero(occupied), seats)
    if prior.is_open:
        seats[:-1][~occupied[:-1]] = 0.0
    return np.where(occupied, seats / seats.sum(), np.nan)[: sampler.n_slots]


def describe_sizes(sampler: PartitionSampler) -> dict[str, np.ndarray]:
    """Predictive weight of every slot, and of noise where there may be some."""
    prior = sampler.prior
    weight = describe_weights(sampler)
    if prior.noise_slot < 0:
        return {"weight": weight}
    a, b = prior.noise_prior
    n = prior.noise_size[0] + sampler.counts.sum()
    noise = (prior.noise_size[0] + a) / (n + a + b)
    return {NOISE_WEIGHT: np.array(noise), "weight": (1.0 - noise) * weight}


def describe(sampler: PartitionSampler) -> dict[str, np.ndarray]:
    """Weight, mean and covariance (scale matrix) of every slot, NaN where it is empty.

    A covariance that has a structure is described by its own parts. And what says the prior that
    the parameters of a new cluster would have.
    """
    return {
        **describe_sizes(sampler),
        **describe_block(sampler.parameters, sampler.counts),
        CLUSTER_PRIOR: describe_prior(sampler.family),
    }
