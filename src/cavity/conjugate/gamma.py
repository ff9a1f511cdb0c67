"""A gamma distribution for each of several columns: a cluster's rates of counts.

Natural parameters, packed in a row: shape and rate of the first column, of the second, and so on.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from cavity._numba.arrays import declare
from cavity._numba.jit import jit
from cavity._numba.numerics import digamma, trigamma
from cavity.interface import divergence, draw, load, log_partition, prior_density


class Gammas(NamedTuple):
    """One gamma distribution per slot and column."""

    prior: np.ndarray  # (2 columns,)
    natural: np.ndarray  # (slots, 2 columns)
    shape: np.ndarray  # (columns, slots)
    rate: np.ndarray  # (columns, slots)
    log_gamma: np.ndarray  # (columns, slots), lnGamma(shape)
    log_more: np.ndarray  # (columns, slots), log(rate + 1)
    log_less: np.ndarray  # (columns, slots), log(rate / (rate + 1))


_ARRAYS = ("shape", "rate", "log_gamma", "log_more", "log_less")
declare(Gammas, slots={"natural": 0, **dict.fromkeys(_ARRAYS, 1)})


class Rates(NamedTuple):
    """The rate of every column in every slot, as drawn."""

    rate: np.ndarray  # (columns, slots)
    log_rate: np.ndarray  # (columns, slots)


declare(Rates, slots={"rate": 1, "log_rate": 1})


def gammas(shape: np.ndarray, rate: np.ndarray, n_slots: int) -> Gammas:
    """Return a family with every slot at Gamma(shape, rate), column by column.

    Examples
    --------
    >>> q = gammas([2.0, 3.0], [1.0, 0.5], n_slots=8)
    >>> (q.shape / q.rate)[:, 0].tolist()
    [2.0, 6.0]
    """
    shape, rate = np.asarray(shape, dtype=float), np.asarray(rate, dtype=float)
    prior = np.stack([shape, rate], axis=1).ravel()
    log_gamma = np.array([math.lgamma(a) for a in shape])
    columns = (shape, rate, log_gamma, np.log1p(rate), np.log(rate) - np.log1p(rate))
    return Gammas(
        prior,
        np.tile(prior, (n_slots, 1)),
        *(np.tile(column[:, None], (1, n_slots)) for column in columns),
    )


def rates(n_columns: int, n_slots: int) -> Rates:
    """Storage for the rates of every slot."""
    return Rates(np.ones((n_columns, n_slots)), np.zeros((n_columns, n_slots)))


@jit(forceinline=True, internal=True)
def set_gamma(q, j, k, shape, rate):
    """Set column j of slot k to Gamma(shape, rate)."""
    q.natural[k, 2 * j] = shape
    q.natural[k, 2 * j + 1] = rate
    q.shape[j, k] = shape
    q.rate[j, k] = rate
    q.log_gamma[j, k] = math.lgamma(shape)
    q.log_more[j, k] = math.log1p(rate)
    q.log_less[j, k] = math.log(rate) - q.log_more[j, k]


@load.register(Gammas)
def _(q, k):
    for p in range(q.natural.shape[1]):
        if not (q.natural[k, p] > 0.0 and q.natural[k, p] < math.inf):
            return False
    for j in range(q.shape.shape[0]):
        set_gamma(q, j, k, q.natural[k, 2 * j], q.natural[k, 2 * j + 1])
    return True


@log_partition.register(Gammas)
def _(q, k):
    value = 0.0
    for j in range(q.shape.shape[0]):
        value += q.log_gamma[j, k] - q.shape[j, k] * math.log(q.rate[j, k])
    return value


@prior_density.register(Gammas)
def _(q, parameters, k):
    value = 0.0
    for j in range(q.shape.shape[0]):
        value += (q.prior[2 * j] - 1.0) * parameters.log_rate[j, k]
        value -= q.prior[2 * j + 1] * parameters.rate[j, k]
    return value


@divergence.register(Gammas)
def _(q, k, r, j):
    value = log_partition(r, j) - log_partition(q, k)
    for c in range(q.shape.shape[0]):
        shape, rate = q.shape[c, k], q.rate[c, k]
        value += (shape - r.shape[c, j]) * (digamma(shape) - math.log(rate))
        value -= (rate - r.rate[c, j]) * shape / rate
    return value


@draw.register(Gammas)
def _(q, k, parameters, rng):
    for j in range(q.shape.shape[0]):
        a = q.shape[j, k]
        x = math.log(rng.standard_gamma(a + 1.0)) - math.log(q.rate[j, k])
        x += math.log1p(-rng.random()) / a
        parameters.log_rate[j, k] = x
        parameters.rate[j, k] = math.exp(x)


@jit(internal=True)
def shape_of_gap(gap):
    """Solve log(shape) - digamma(shape) = `gap` by Newton's method in log(shape)."""
    shape = (3.0 - gap + math.sqrt((gap - 3.0) * (gap - 3.0) + 24.0 * gap)) / (12.0 * gap)
    for _ in range(50):
        value = math.log(shape) - digamma(shape) - gap
        # The derivative with respect to the logarithm is negative everywhere.
        slope = 1.0 - shape * trigamma(shape)
        step = -value / slope
        shape *= math.exp(min(max(step, -2.0), 2.0))
        if abs(step) < 1e-9:
            break
    return shape
