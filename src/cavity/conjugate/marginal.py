"""Marginal distances and determinants of some columns of a slot.

Where columns M of a row are missing and the others, O, are there, the whitener W of the whole
(P = W'W, the inverse of Psi or of Sigma) still gives all that is needed. With e zero at M and
r = W e,

    distance of O  =  r'r - x' P_MM^-1 x,   x = W_M' r,
    log det of the block of O  =  log det of the whole + log|P_MM|,
    the values at M nearest to the slot's mean, given O, are  -P_MM^-1 x  from it.

P_MM = L D L' has one row per missing value, so a row with few of them costs little more
than a whole one.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from cavity._numba.jit import jit
from cavity._numba.numerics import fast_log, log_gamma
from cavity._numba.simd import WIDTH, select
from cavity._numba.slots import get, put, take, zero


class Reduction(NamedTuple):
    """Working memory for the missing values of one row, for one slot or for eight."""

    columns: np.ndarray  # (most missing,), those of the present row, ascending
    whitened: np.ndarray  # (d, 8), r
    residual: np.ndarray  # (d, 8), e
    lower: np.ndarray  # (most missing, most missing, 8), L below the diagonal
    scaled: np.ndarray  # (most missing, 8), a row of L D
    pivot: np.ndarray  # (most missing, 8), D
    solved: np.ndarray  # (most missing, 8), L^-1 x


def reduction_room(d: int, most: int) -> Reduction:
    """Allocate working memory for rows of d columns with at most so many missing values."""
    return Reduction(
        np.zeros(most, dtype=np.int64),
        np.zeros((d, WIDTH)),
        np.zeros((d, WIDTH)),
        np.zeros((most, most, WIDTH)),
        np.zeros((most, WIDTH)),
        np.ones((most, WIDTH)),
        np.zeros((most, WIDTH)),
    )


@jit(forceinline=True, internal=True)
def reduce_slot(whiten, mean, k, y, room, m):
    """Return the distance of the observed columns, and half the log determinant of P_MM.

    The missing columns are the first m of ``room.columns``. L, D and L^-1 x stay in `room`.
    """
    d = mean.shape[0]
    columns = room.columns
    for c in range(d):
        put(k, room.residual[c], y[c] - take(k, mean[c]))
    for a in range(m):
        put(k, room.residual[columns[a]], zero(k))
    total = zero(k)
    for r in range(d):
        row = whiten[r]
        s = zero(k)
        for c in range(r + 1):
            s = s + take(k, row[c]) * get(k, room.residual[c])
        put(k, room.whitened[r], s)
        total = total + s * s
    log_det = zero(k)
    for a in range(m):
        at = columns[a]
        pivot = zero(k)
        s = zero(k)
        for r in range(at, d):
            w = take(k, whiten[r, at])
            pivot = pivot + w * w
            s = s + w * get(k, room.whitened[r])
        for b in range(a):
            g = zero(k)
            for r in range(at, d):
                g = g + take(k, whiten[r, at]) * take(k, whiten[r, columns[b]])
            for j in range(b):
                g = g - get(k, room.scaled[j]) * get(k, room.lower[b, j])
            ratio = g / get(k, room.pivot[b])
            put(k, room.scaled[b], g)
            put(k, room.lower[a, b], ratio)
            pivot = pivot - g * ratio
            s = s - ratio * get(k, room.solved[b])
        put(k, room.pivot[a], pivot)
        put(k, room.solved[a], s)
        total = total - s * s / pivot
        log_det = log_det + fast_log(pivot)
    return select(total > 0.0, total, 0.0), 0.5 * log_det


@jit(internal=True)
def fill_gaps(y, mean, spread, room, m, rng):
    """Draw the missing values around the slot's mean, after ``reduce_slot``.

    Given the other columns they are normal with covariance spread^2 P_MM^-1.
    """
    for a in range(m):
        shift = -room.solved[a, 0] / room.pivot[a, 0]
        noise = rng.standard_normal() * spread / math.sqrt(room.pivot[a, 0])
        room.residual[a, 0] = shift + noise
    for a in range(m - 1, -1, -1):
        s = room.residual[a, 0]
        for b in range(a + 1, m):
            s -= room.lower[b, a, 0] * room.residual[b, 0]
        room.residual[a, 0] = s
    for a in range(m):
        y[room.columns[a]] = mean[room.columns[a]] + room.residual[a, 0]


@jit(forceinline=True, internal=True)
def log_multigamma_gain(x, more, d):
    """Return the log ratio of multivariate gamma functions of dimension d at x + more and at x."""
    total = 0.0 * x
    for j in range(d):
        total = total + (log_gamma(x + more - 0.5 * j) - log_gamma(x - 0.5 * j))
    return total
