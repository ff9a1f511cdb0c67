"""Some columns of a slot alone: distances and determinants with the other columns integrated out.

Where columns M of a row are missing and the others, O, are there, the whitener W of the whole
(P = W'W, the inverse of Psi or of Sigma) still gives all that is needed. With e zero at M and
r = W e,

    distance of O  =  r'r - x' P_MM^-1 x,   x = W_M' r,
    log det of the block of O  =  log det of the whole + log|P_MM|,
    the values at M nearest to the slot's mean, given O, are  -P_MM^-1 x  from it.

P_MM = L D L' has as many rows as there are gaps, so that a row with few gaps costs little more
than a whole one.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from cavity._numba.jit import jit
from cavity._numba.numerics import fast_log
from cavity._numba.simd import WIDTH, load8, splat8, store8


class Reduction(NamedTuple):
    """Room for what the gaps of one row come to, for one slot or for eight."""

    columns: np.ndarray  # (most gaps,), those of the row at hand, rising
    whitened: np.ndarray  # (d, 8), r
    residual: np.ndarray  # (d, 8), e
    lower: np.ndarray  # (most gaps, most gaps, 8), L below the diagonal
    scaled: np.ndarray  # (most gaps, 8), a row of L D
    pivot: np.ndarray  # (most gaps, 8), D
    solved: np.ndarray  # (most gaps, 8), L^-1 x


def reduction_room(d: int, most: int) -> Reduction:
    """Room for rows of d columns with at most so many gaps."""
    return Reduction(
        np.zeros(most, dtype=np.int64),
        np.zeros((d, WIDTH)),
        np.zeros((d, WIDTH)),
        np.zeros((most, most, WIDTH)),
        np.zeros((most, WIDTH)),
        np.ones((most, WIDTH)),
        np.zeros((most, WIDTH)),
    )


@jit(internal=True)
def reduce_slot(whiten, mean, y, room, m):
    """Distance of the columns that are there, and half the log determinant of P_MM.

    The columns that are missing are the first m of ``room.columns``. L, D and L^-1 x are left in
    the first lane of the room.
    """
    d = mean.shape[0]
    columns = room.columns
    for c in range(d):
        room.residual[c, 0] = y[c] - mean[c]
    for a in range(m):
        room.residual[columns[a], 0] = 0.0
    total = 0.0
    for r in range(d):
        s = 0.0
        for c in range(r + 1):
            s += whiten[r, c] * room.residual[c, 0]
        room.whitened[r, 0] = s
        total += s * s
    log_det = 0.0
    for a in range(m):
        at = columns[a]
        pivot = 0.0
        s = 0.0
        for r in range(at, d):
            w = whiten[r, at]
            pivot += w * w
            s += w * room.whitened[r, 0]
        for b in range(a):
            g = 0.0
            for r in range(at, d):
                g += whiten[r, at] * whiten[r, columns[b]]
            for j in range(b):
                g -= room.scaled[j, 0] * room.lower[b, j, 0]
            room.scaled[b, 0] = g
            room.lower[a, b, 0] = g / room.pivot[b, 0]
            pivot -= g * room.lower[a, b, 0]
            s -= room.lower[a, b, 0] * room.solved[b, 0]
        room.pivot[a, 0] = pivot
        room.solved[a, 0] = s
        total -= s * s / pivot
        log_det += math.log(pivot)
    return max(total, 0.0), 0.5 * log_det


@jit(forceinline=True, internal=True)
def reduce_eight(q, j, y, room, m):
    """``reduce_slot`` for the eight slots from j on, side by side."""
    d = q.mean.shape[0]
    columns = room.columns
    for c in range(d):
        store8(room.residual[c], 0, y[c] - load8(q.mean[c], j))
    for a in range(m):
        store8(room.residual[columns[a]], 0, splat8(0.0))
    total = splat8(0.0)
    for r in range(d):
        row = q.whiten[r]
        s = load8(row[0], j) * load8(room.residual[0], 0)
        for c in range(1, r + 1):
            s = s + load8(row[c], j) * load8(room.residual[c], 0)
        store8(room.whitened[r], 0, s)
        total = total + s * s
    log_det = splat8(0.0)
    for a in range(m):
        at = columns[a]
        pivot = splat8(0.0)
        s = splat8(0.0)
        for r in range(at, d):
            w = load8(q.whiten[r, at], j)
            pivot = pivot + w * w
            s = s + w * load8(room.whitened[r], 0)
        for b in range(a):
            other = columns[b]
            g = splat8(0.0)
            for r in range(at, d):
                g = g + load8(q.whiten[r, at], j) * load8(q.whiten[r, other], j)
            for p in range(b):
                g = g - load8(room.scaled[p], 0) * load8(room.lower[b, p], 0)
            ratio = g / load8(room.pivot[b], 0)
            store8(room.scaled[b], 0, g)
            store8(room.lower[a, b], 0, ratio)
            pivot = pivot - g * ratio
            s = s - ratio * load8(room.solved[b], 0)
        store8(room.pivot[a], 0, pivot)
        store8(room.solved[a], 0, s)
        total = total - s * s / pivot
        log_det = log_det + fast_log(pivot)
    return total, 0.5 * log_det


@jit(internal=True)
def fill_gaps(y, mean, spread, room, m, rng):
    """Draw the values at the gaps around the slot's mean, after ``reduce_slot``.

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
def log_gamma_steps8(x, m):
    """``lnGamma(x) - lnGamma(x - m/2)`` for eight x > m/2, side by side.

    Whole steps are factors of a product; an odd m leaves a half step, done by the asymptotic series
    of lnGamma(y + 1/2) - lnGamma(y) after twelve steps upwards.
    """
    total = splat8(0.0)
    product = splat8(1.0)
    y = x
    for step in range(m // 2):
        y = y - 1.0
        product = product * y
        if step % 16 == 15:
            total = total + fast_log(product)
            product = splat8(1.0)
    total = total + fast_log(product)
    if m % 2 == 1:
        y = y - 0.5
        above = splat8(1.0)
        below = splat8(1.0)
        for _ in range(12):
            above = above * y
            below = below * (y + 0.5)
            y = y + 1.0
        w = 1.0 / (y * y)
        series = w * (1.0 / 192.0 - w * (1.0 / 640.0 - w * (17.0 / 14336.0 - w * 31.0 / 18432.0)))
        ratio = above / below
        total = total + 0.5 * fast_log(ratio * ratio * y) - (0.125 - series) / y
    return total


@jit(internal=True)
def log_multigamma_gain(x, more, d):
    """Log of the ratio of multivariate gamma functions of dimension d at x + more and at x."""
    total = 0.0
    for j in range(d):
        total += math.lgamma(x + more - 0.5 * j) - math.lgamma(x - 0.5 * j)
    return total
