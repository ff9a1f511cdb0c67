"""Kalman filters of eight series of one cluster at once, coefficients integrated out.

The recursions of `cavity.series.cluster_information` run along time and leave nothing to
vectorize, so eight series are filtered at once. The result for each, (u, phi) and the lines of its
coefficients, is then added to the cluster's information. The
integral over the coefficients is derived in `cavity.series.coefficients`.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from cavity._numba.jit import jit, wide_vectors
from cavity._numba.simd import WIDTH, load8, max8, splat8, store8, sum8, whole_vectors
from cavity.series.kalman import prepare
from cavity.series.state_space import DRIFT, WEIGHT

# Paths in the room; h takes the drift's place.
_WEIGHT, _DRIFT, _SHRINK, _PULL, BATCH_DIAGONAL, BATCH_PHI = 0, 1, 2, 3, 4, 5
BATCH_SLOPE = _DRIFT
_A, _B, _LANES, _FIRST = 0, 1, 2, 3  # rows of the small room; normal equations follow
_LEAST = 5  # rows of the small room that `cavity.series.cluster_information` needs


class SeriesBatch(NamedTuple):
    """Room for eight series, and for a cluster of them."""

    members: np.ndarray  # (n,) of the cluster at hand
    paths: np.ndarray  # (6, 8 T) weights, drifts, filter, u and phi; at 8 t + lane
    lines: np.ndarray  # (p, 8 T) of the coefficients
    small: np.ndarray  # (rows, 8) one number of each series
    columns: np.ndarray  # (8 (1 + p), padded T) products and lines, along time
    square: np.ndarray  # (widest, widest) of a matrix held by columns
    sums: np.ndarray  # (3, widest)


@jit
def columns_are_cheaper(width, n_times):
    """Return whether so many columns are less work than a matrix of so many times (measured)."""
    if 3 * width + 1 > n_times:
        return False
    return 0.5 * width * width + 60.0 < n_times * (n_times / 17.0 + width / 14.0)


def series_batch(n: int, n_times: int, p: int) -> SeriesBatch:
    """Room for clusters of up to n series with p coefficients."""
    widest = WIDTH
    while columns_are_cheaper(widest + WIDTH, n_times):
        widest += WIDTH
    return SeriesBatch(
        members=np.zeros(n, dtype=np.int64),
        paths=np.zeros((6, WIDTH * n_times)),
        lines=np.zeros((p, WIDTH * n_times)),
        small=np.zeros((max(_FIRST + 2 * p * p + p, _LEAST), WIDTH)),
        columns=np.zeros((WIDTH * (1 + p), whole_vectors(n_times + 2))),
        square=np.zeros((widest, widest)),
        sums=np.zeros((3, widest)),
    )


@jit(internal=True)
def describe_batch(m, row, room, start, n):
    """Filter members start..start + n - 1 at eta = 0 and return the sum of c without constants.

    ``kalman.observation_constant`` is left out. A lane without a series adds nothing. `row` is
    scratch as that of the model.
    """
    wide_vectors()
    n_times = m.cells.y.shape[1]
    size = WIDTH * n_times
    flat = room.paths.reshape(room.paths.size)
    small = room.small.reshape(room.small.size)
    for lane in range(WIDTH):
        small[_A * WIDTH + lane] = 0.0
        small[_B * WIDTH + lane] = 0.0
        if lane < n:
            i = room.members[start + lane]
            prepare(m, row, i)
            small[_A * WIDTH + lane] = m.own.a[i]
            small[_B * WIDTH + lane] = m.own.loading[i]
            for t in range(n_times):
                flat[_WEIGHT * size + WIDTH * t + lane] = row[WEIGHT, t]
                flat[_DRIFT * size + WIDTH * t + lane] = row[DRIFT, t]
        else:
            for t in range(n_times):
                flat[_WEIGHT * size + WIDTH * t + lane] = 0.0
                flat[_DRIFT * size + WIDTH * t + lane] = 0.0
    a = load8(small, _A * WIDTH)
    b = load8(small, _B * WIDTH)
    var_x = splat8(m.own.var_x[0])
    x = splat8(0.0)
    p = splat8(m.own.var_x0[0])
    quad = splat8(0.0)
    product = splat8(1.0)
    log_det = 0.0
    for t in range(n_times):
        at = WIDTH * t
        w = load8(flat, _WEIGHT * size + at)
        x = a * x - load8(flat, _DRIFT * size + at)
        p = a * a * p + var_x
        d = splat8(1.0) + w * p
        inverse = splat8(1.0) / d
        seen = w * inverse * x
        quad = quad + seen * x
        store8(flat, _SHRINK * size + at, inverse)
        store8(flat, _PULL * size + at, splat8(0.0) - seen)
        x = x * inverse
        p = p * inverse
        product = product * d
        # A step multiplies by 1e24 at most: variances and precisions have limits.
        if t % 4 == 3 and max8(product) > 1e150:
            log_det += _log_product(small, product)
            product = splat8(1.0)
    log_det += _log_product(small, product)
    r = splat8(0.0)
    info = splat8(0.0)
    for t in range(n_times - 1, -1, -1):
        at = WIDTH * t
        g = load8(flat, _SHRINK * size + at)
        r = load8(flat, _PULL * size + at) + g * r
        info = load8(flat, _WEIGHT * size + at) * g + g * g * info
        store8(flat, BATCH_SLOPE * size + at, b * r)
        store8(flat, BATCH_DIAGONAL * size + at, b * b * info)
        store8(flat, BATCH_PHI * size + at, a * g)
        r = a * r
        info = a * a * info
    return -0.5 * (log_det + sum8(quad))


@jit(internal=True)
def _log_product(small, product):
    """Sum of the logarithms of eight numbers."""
    store8(small, _LANES * WIDTH, product)
    total = 0.0
    for lane in range(WIDTH):
        total += math.log(small[_LANES * WIDTH + lane])
    return total


@jit(internal=True)
def integrate_coefficients(m, room, start, n, c, h, equations, slopes):
    """Integrate the coefficients of the described series out; returns what c gains.

    The lines are left in the room, `h` is corrected. Where `equations` have room (p > 0) the
    series' part of them is added; `slopes` are their cluster's.
    """
    wide_vectors()
    p = c.centre.shape[0]
    n_times = h.shape[0]
    size = WIDTH * n_times
    flat = room.paths.reshape(room.paths.size)
    wide = room.lines.reshape(room.lines.size)
    small = room.small.reshape(room.small.size)
    squares, pulls = _FIRST, _FIRST + p * p
    _copy_covariates(m, room, start, n)
    a = load8(small, _A * WIDTH)
    b = load8(small, _B * WIDTH)
    # The covariates' innovations, filtered as the data are, and the normal equations.
    for j in range(p):
        state = splat8(0.0)
        total = splat8(0.0)
        for t in range(n_times):
            at = WIDTH * t
            state = a * state
            line = load8(wide, j * size + at) - state
            state = state + line - load8(flat, _SHRINK * size + at) * line
            total = total + load8(flat, _PULL * size + at) * line
            store8(wide, j * size + at, line)
        store8(small, (pulls + j) * WIDTH, total)
        for o in range(j + 1):
            square = splat8(0.0)
            for t in range(n_times):
                at = WIDTH * t
                known = load8(flat, _WEIGHT * size + at) * load8(flat, _SHRINK * size + at)
                square = square + known * load8(wide, j * size + at) * load8(wide, o * size + at)
            store8(small, (squares + j * p + o) * WIDTH, square)
    gain = 0.0
    for lane in range(n):
        gain += _solve_series(m, room, room.members[start + lane], lane, c, equations)
    for lane in range(n, WIDTH):
        _clear_lane(room, lane, p)
    # Information of unit coefficients: the backward recursion of ``describe_batch``.
    pulled = pulls + p
    for j in range(p):
        r = splat8(0.0)
        for t in range(n_times - 1, -1, -1):
            at = WIDTH * t
            known = load8(flat, _WEIGHT * size + at) * load8(wide, j * size + at) + r
            r = load8(flat, _SHRINK * size + at) * known
            line = b * r
            for o in range(j):
                line = line - load8(small, (squares + j * p + o) * WIDTH) * load8(
                    wide, o * size + at
                )
            line = line * load8(small, (squares + j * p + j) * WIDTH)
            store8(wide, j * size + at, line)
            h[t] -= sum8(line * load8(small, (pulls + j) * WIDTH))
            r = a * r
    if equations.pull.shape[0] > 0:
        for j in range(p):
            for o in range(j, p):
                share = load8(small, (pulled + j * p + o) * WIDTH)
                for t in range(n_times):
                    slopes[j, t] -= sum8(share * load8(wide, o * size + WIDTH * t))
    return gain


@jit(internal=True)
def _copy_covariates(m, room, start, n):
    """Covariates of the members' cells, where the lines will be; the intercept's is 1."""
    p = room.lines.shape[0]
    first = p - m.cells.covariates.shape[2]
    n_times = m.cells.y.shape[1]
    for j in range(p):
        line = room.lines[j]
        for lane in range(WIDTH):
            for t in range(n_times):
                line[WIDTH * t + lane] = 0.0
            if lane < n:
                i = room.members[start + lane]
                for t in range(n_times):
                    if m.cells.repeats[i, t] > 0:
                        value = 1.0 if j < first else m.cells.covariates[i, t, j - first]
                        line[WIDTH * t + lane] = value


@jit(internal=True)
def _solve_series(m, room, i, lane, c, equations):
    """Normal equations of series i: their factor and pull into the small room; returns the gain."""
    p = c.centre.shape[0]
    work = c.work
    small = room.small
    squares, pulls = _FIRST, _FIRST + p * p
    precision = 1.0 / m.own.var_y[i]
    gain = 0.0
    for j in range(p):
        for o in range(j + 1):
            inside = m.cells.scatter[i, j, o] * precision
            work[j, o] = small[squares + j * p + o, lane] + inside
        within = m.cells.scatter[i, p, j]
        for o in range(p):
            within -= m.cells.scatter[i, j, o] * m.own.beta[i, o]
        away = (c.centre[j] - m.own.beta[i, j]) / c.spread[j]
        gain -= 0.5 * (away * away * c.spread[j] + math.log(c.spread[j]))
        work[j, j] += 1.0 / c.spread[j]
        work[p, j] = small[pulls + j, lane] + within * precision + away
    factor_in_place(work, p)
    for j in range(p):
        gain += 0.5 * work[p, j] * work[p, j] - math.log(work[j, j])
        small[pulls + j, lane] = work[p, j]
        small[squares + j * p + j, lane] = 1.0 / work[j, j]
        for o in range(j):
            small[squares + j * p + o, lane] = work[j, o]
    if equations.pull.shape[0] > 0:
        _add_to_equations(m, i, c, equations)
        for j in range(p):
            _solve_unit(work, p, j, 1.0 / c.spread[j], work[p + 1])
            for o in range(j, p):
                small[pulls + p + j * p + o, lane] = work[p + 1, o]
    return gain


@jit(internal=True)
def _clear_lane(room, lane, p):
    """Clear the results of a lane without a series."""
    for row in range(_FIRST, _FIRST + 2 * p * p + p):
        room.small[row, lane] = 0.0


@jit(internal=True)
def factor_in_place(work, n):
    """Cholesky factor of the first n rows, in place, and what it makes of row n."""
    for j in range(n + 1):
        for c in range(min(j + 1, n)):
            value = work[j, c]
            for o in range(c):
                value -= work[j, o] * work[c, o]
            work[j, c] = math.sqrt(value) if j == c else value / work[c, c]


@jit(internal=True)
def _add_to_equations(m, i, c, equations):
    """Add series i's part: a change d of the means moves its pull by d / v."""
    p = c.centre.shape[0]
    work = c.work
    inverse = work[p + 1]  # a column of L^{-1} V^{-1}
    other = work[p + 2]
    for j in range(p):
        _solve_unit(work, p, j, 1.0 / c.spread[j], inverse)
        equations.information[j, j] += 1.0 / c.spread[j]
        equations.pull[j] -= (c.centre[j] - m.own.beta[i, j]) / c.spread[j]
        for o in range(j, p):
            equations.pull[j] += inverse[o] * work[p, o]
        for o in range(j + 1):
            _solve_unit(work, p, o, 1.0 / c.spread[o], other)
            total = 0.0
            for e in range(j, p):
                total += inverse[e] * other[e]
            equations.information[j, o] -= total
            if o < j:
                equations.information[o, j] -= total


@jit(internal=True)
def _solve_unit(work, p, j, value, out):
    """L^{-1} times `value` at place j, L in the rows of `work`; zero before place j."""
    for o in range(p):
        out[o] = 0.0
    for e in range(j, p):
        total = value if e == j else 0.0
        for o in range(j, e):
            total -= work[e, o] * out[o]
        out[e] = total / work[e, e]
