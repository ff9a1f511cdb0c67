"""The diagonal normal family: independent normals for each coordinate of a cluster's parameter.

Natural parameters, packed in a row: the precisions, then precision times mean.
Working parameters (mean, variance) have the slots last: a model that runs over the coordinates in
turn (such as a filter over time) treats all clusters as vector lanes.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from cavity._numba.arrays import declare
from cavity._numba.jit import jit
from cavity.interface import divergence, draw, load, log_partition, prior_density


class DiagonalNormal(NamedTuple):
    """One product of independent normals per slot."""

    prior: np.ndarray  # (2 T,)
    natural: np.ndarray  # (slots, 2 T)
    mean: np.ndarray  # (T, slots)
    variance: np.ndarray  # (T, slots)


declare(DiagonalNormal, slots={"natural": 0, "mean": 1, "variance": 1})


class VectorParameters(NamedTuple):
    """One vector per slot, as drawn by the samplers that condition on it."""

    value: np.ndarray  # (T, slots)


declare(VectorParameters, slots={"value": 1})


def diagonal_normal(mean: np.ndarray, variance: np.ndarray, n_slots: int) -> DiagonalNormal:
    """Return a family with every slot at independent normals of these means and variances.

    Examples
    --------
    >>> q = diagonal_normal([0.0, 1.0], [1.0, 4.0], n_slots=3)
    >>> q.mean[:, 2].tolist(), q.variance[:, 2].tolist()
    ([0.0, 1.0], [1.0, 4.0])
    """
    mean = np.atleast_1d(np.asarray(mean, dtype=float))
    variance = np.broadcast_to(np.asarray(variance, dtype=float), mean.shape)
    prior = np.concatenate([1.0 / variance, mean / variance])
    return DiagonalNormal(
        prior=prior,
        natural=np.tile(prior, (n_slots, 1)),
        mean=np.tile(mean[:, None], (1, n_slots)),
        variance=np.tile(variance[:, None], (1, n_slots)),
    )


def vector_parameters(dim: int, n_slots: int) -> VectorParameters:
    """Storage for one vector per slot, at zero."""
    return VectorParameters(np.zeros((dim, n_slots)))


@load.register(DiagonalNormal)
def _(q, k):
    dim = q.mean.shape[0]
    for t in range(dim):
        if not q.natural[k, t] > 0.0:
            return False
    for t in range(dim):
        variance = 1.0 / q.natural[k, t]
        q.variance[t, k] = variance
        q.mean[t, k] = q.natural[k, dim + t] * variance
    return True


@jit(forceinline=True)
def set_moments(q, k, t, mean, variance):
    """Set coordinate t of slot k to a normal with this mean and variance."""
    q.mean[t, k] = mean
    q.variance[t, k] = variance
    q.natural[k, t] = 1.0 / variance
    q.natural[k, q.mean.shape[0] + t] = mean / variance


@log_partition.register(DiagonalNormal)
def _(q, k):
    total = 0.0
    for t in range(q.mean.shape[0]):
        total += math.log(2.0 * math.pi * q.variance[t, k])
        total += q.mean[t, k] * q.mean[t, k] / q.variance[t, k]
    return 0.5 * total


@prior_density.register(DiagonalNormal)
def _(q, parameters, k):
    dim = q.mean.shape[0]
    total = 0.0
    for t in range(dim):
        x = parameters.value[t, k]
        total += x * (q.prior[dim + t] - 0.5 * q.prior[t] * x)
    return total


@divergence.register(DiagonalNormal)
def _(q, k, r, j):
    total = 0.0
    for t in range(q.mean.shape[0]):
        ratio = q.variance[t, k] / r.variance[t, j]
        shift = q.mean[t, k] - r.mean[t, j]
        total += ratio - 1.0 - math.log(ratio) + shift * shift / r.variance[t, j]
    return 0.5 * total


@draw.register(DiagonalNormal)
def _(q, k, parameters, rng):
    for t in range(q.mean.shape[0]):
        noise = rng.standard_normal()
        parameters.value[t, k] = q.mean[t, k] + math.sqrt(q.variance[t, k]) * noise
