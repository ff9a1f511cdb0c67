"""Counts: each column of a row is Poisson with its cluster's rate, or missing.

With a gamma for a cluster's rate the collapse is exact: a count is negative binomial given the
other members.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from cavity._numba.arrays import declare
from cavity._numba.jit import jit
from cavity._numba.numerics import fast_log, log_gamma
from cavity._numba.simd import require_whole
from cavity._numba.slots import take, zero
from cavity.conjugate.gamma import set_gamma
from cavity.interface import accumulate, evidence, is_scored, log_density, observe
from cavity.likelihoods.selection import side_by_side

# Up to this count a rising product serves; beyond it Stirling's series, shifted upwards.
_SMALL = 12


class Poisson(NamedTuple):
    """Rows of counts."""

    y: np.ndarray  # (n, columns); negative where missing
    log_factorial: np.ndarray  # (n, columns)


declare(Poisson, slots={}, constant=("y", "log_factorial"))


def whole_counts(y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Counts with -1 for NaN, and the logarithms of their factorials."""
    from scipy.special import gammaln

    y = np.where(np.isnan(y), -1.0, y)
    return np.ascontiguousarray(y), np.ascontiguousarray(gammaln(np.maximum(y, 0.0) + 1.0))


def poisson(y: np.ndarray, n_slots: int) -> Poisson:
    """Model of whole numbers, NaN where missing; slots come in eights.

    Examples
    --------
    >>> poisson(np.array([[2.0], [np.nan]]), 8).y.ravel().tolist()
    [2.0, -1.0]
    """
    require_whole(n_slots)
    return Poisson(*whole_counts(np.asarray(y, dtype=float)))


@jit(forceinline=True, internal=True)
def log_rising(shape, at_shape, y):
    """Return lnGamma(shape + y) - lnGamma(shape), the last being `at_shape`."""
    if y <= _SMALL:
        product = shape * 0.0 + 1.0
        for t in range(int(y)):
            product = product * (shape + t)
        return fast_log(product)
    return log_gamma(shape + y) - at_shape


side_by_side(Poisson)


@evidence.register(Poisson)
def _(model, q, k, i):
    total = zero(k)
    for j in range(model.y.shape[1]):
        y = model.y[i, j]
        if y >= 0.0 and is_scored(q, j):
            shape = take(k, q.shape[j])
            rising = log_rising(shape, take(k, q.log_gamma[j]), y)
            total = total + (rising - model.log_factorial[i, j])
            total = total + (shape * take(k, q.log_less[j]) - y * take(k, q.log_more[j]))
    return total


@observe.register(Poisson)
def _(model, q, k, i, sign):
    proper = True
    for j in range(model.y.shape[1]):
        y = model.y[i, j]
        if y >= 0.0:
            shape = q.shape[j, k] + sign * y
            rate = q.rate[j, k] + sign
            if shape > 0.0 and rate > 0.0:
                set_gamma(q, j, k, shape, rate)
            else:
                proper = False
    return proper


@accumulate.register(Poisson)
def _(model, q, k, i):
    for j in range(model.y.shape[1]):
        if model.y[i, j] >= 0.0:
            q.natural[k, 2 * j] += model.y[i, j]
            q.natural[k, 2 * j + 1] += 1.0


@log_density.register(Poisson)
def _(model, parameters, k, i):
    total = zero(k)
    for j in range(model.y.shape[1]):
        y = model.y[i, j]
        if y >= 0.0:
            score = y * take(k, parameters.log_rate[j]) - take(k, parameters.rate[j])
            total = total + (score - model.log_factorial[i, j])
    return total
