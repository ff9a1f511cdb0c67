"""Draws of factors, states and parameters after each scan, whatever the collapse.

Nothing of size (series x time) is kept: the states of one series live in scratch space while
everything that depends on them is drawn or summed.
"""

from __future__ import annotations

import math

import numpy as np

from cavity._numba.jit import jit
from cavity._numba.simd import WIDTH
from cavity.series.batched_filter import (
    columns_are_cheaper,
    describe_batch,
    integrate_coefficients,
)
from cavity.series.cluster_information import (
    LARGEST,
    add_slopes,
    add_to_matrix,
    columns_of,
    draw_factor,
    expand,
    factorize,
    factorize_semiseparable,
    put_columns,
    start_information,
    start_semiseparable,
)
from cavity.series.coefficients import close_equations, draw_coefficients, draw_hyper
from cavity.series.kalman import (
    draw_states,
    dynamics,
    filter_forward,
    observation_constant,
    prepare,
)
from cavity.series.moves import LOADING_SQUARE, add_to_sums, clear_sums
from cavity.series.parameters import draw_dynamics, draw_noise, inverse_gamma, store_squared_noise
from cavity.series.state_space import CENTRE, DRIFT, STATE, VARIANCE


@jit(internal=True)
def cluster_marginal(m, z, k, c, equations, matrix, room):
    """Cluster k's log density; its information and factorized matrix are left in `matrix`.

    States and factor are integrated out, and so are coefficients that are free. The constants of
    the observations (`kalman.observation_constant`) are left out.
    """
    slopes = equations.slopes[min(k, equations.slopes.shape[0] - 1)]
    for j in range(slopes.shape[0]):
        for t in range(slopes.shape[1]):
            slopes[j, t] = 0.0
    n = 0
    for i in range(z.shape[0]):
        if z[i] == k:
            room.members[n] = i
            n += 1
    p = c.centre.shape[0] if c.free else 0
    n_times = m.cells.y.shape[1]
    n_members = -(-n // WIDTH) * WIDTH
    by_columns = columns_are_cheaper(n_members * (1 + p), n_times)
    if by_columns:
        start_semiseparable(matrix, n_members * (1 + p))
    else:
        start_information(matrix)
    h = matrix[n_times, :n_times]
    total = 0.0
    most = 0.0
    for start in range(0, n, WIDTH):
        count = min(n - start, WIDTH)
        total += describe_batch(m, m.scratch.row, room, start, count)
        add_slopes(room, h)
        if p:
            total += integrate_coefficients(m, room, start, count, c, h, equations, slopes)
        if by_columns:
            most = max(most, put_columns(room, matrix, start, n_members, p))
        else:
            add_to_matrix(room, matrix, p)
    if by_columns and not most < LARGEST:
        expand(matrix, n_members, room.columns[0])
    if columns_of(matrix):
        total += factorize_semiseparable(matrix, n_members, room.square, room.sums)
    else:
        total += factorize(matrix)[0]
    if p:
        close_equations(matrix, equations, slopes)
    return total


@jit
def marginal_likelihood(m, z, counts, c, equations, matrices, room):
    """Log density of the data given assignments and parameters; all else is integrated out.

    That is factors, states and, if they are free, the coefficients given their means and
    variances; ``all_constants`` is to be added. Where `equations` have room they receive what the
    data say of these means. The clusters' factorized matrices are left in `matrices`, or that of
    the last one if it has room for one only.
    """
    total = 0.0
    last = matrices.shape[0] - 1
    for k in range(counts.shape[0]):
        if counts[k] > 0:
            total += cluster_marginal(m, z, k, c, equations, matrices[min(k, last)], room)
    return total


@jit
def all_constants(m):
    """Return the part of the log density that neither labels nor dynamics change."""
    total = 0.0
    for i in range(m.cells.y.shape[0]):
        total += observation_constant(m, i)
    return total


@jit
def draw_factors_jointly(m, z, counts, paths, c, equations, matrices, room, eta, rng):
    """Draw every factor given data and assignments, states and coefficients integrated out: exact.

    Followed by draws of the coefficients given the factors, and of the states given both, this is
    one joint draw. Returns ``marginal_likelihood``.
    """
    n_times = m.cells.y.shape[1]
    total = 0.0
    for k in range(counts.shape[0]):
        if counts[k] == 0:
            for t in range(n_times):
                paths.value[t, k] = rng.standard_normal()
            continue
        total += cluster_marginal(m, z, k, c, equations, matrices[0], room)
        draw_factor(matrices[0], eta, rng)
        for t in range(n_times):
            paths.value[t, k] = eta[t]
    return total


@jit
def draw_factorized(counts, paths, matrices, eta, rng):
    """Draw every factor from the factorized matrices that ``marginal_likelihood`` left."""
    for k in range(counts.shape[0]):
        if counts[k] == 0:
            for t in range(eta.shape[0]):
                paths.value[t, k] = rng.standard_normal()
            continue
        draw_factor(matrices[k], eta, rng)
        for t in range(eta.shape[0]):
            paths.value[t, k] = eta[t]


@jit
def draw_factors_given_states(var_x, paths, sums, rng):
    """Draw every factor given the sums over its members' states."""
    noise = 1.0 / var_x
    n_times, n_slots = sums.pull.shape
    for k in range(n_slots):
        precision = 1.0 + sums.scalars[k, LOADING_SQUARE] * noise
        sd = 1.0 / math.sqrt(precision)
        for t in range(n_times):
            value = sums.pull[t, k] * noise / precision
            paths.value[t, k] = value + sd * rng.standard_normal()


@jit
def refresh_each(m, z, paths, c, prior, moving, x, last, kept, sums, rng):
    """Draw by series: coefficients, states, (a, loading, common), var_y.

    Returns the sums of squares that var_x and var_x0 are drawn from.

    Parameters
    ----------
    c : Coefficients
        The population of the coefficients.
    x : (T + 1,) array
        Scratch for the states.
    last : (n,) array
        Receives x_iT.
    kept : (n, T) or (0, 0) array
        Receives all states, if it has room.
    sums : StateSums
        Receives, per cluster, the sums that the draws given all states need.
    """
    row = m.scratch.row
    n, n_times = m.cells.y.shape
    clear_sums(sums)
    total = 0.0
    start = 0.0
    for i in range(n):
        k = np.int64(z[i])
        draw_coefficients(m, i, paths.value, k, c, moving.loading, rng)
        prepare(m, row, i)
        dyn = dynamics(m, i)
        filter_forward(row, dyn, paths.value, paths.none, k)
        draw_states(row, dyn, paths.value, paths.none, k, x, rng)
        total += draw_dynamics(m, i, x, paths.value, k, moving, rng)
        start += x[0] * x[0]
        if moving.var_y:
            draw_noise(m, i, x, prior, rng)
        if m.own.tails.shape[0] > 0:
            store_squared_noise(m, i, x)
        last[i] = x[n_times]
        if kept.shape[0] > 0:
            for t in range(n_times):
                kept[i, t] = x[t + 1]
        add_to_sums(m, i, k, x, sums)
    return total, start


@jit
def refresh_series(m, z, paths, c, prior, moving, x, last, kept, sums, rng):
    """Draw by series (``refresh_each``), then draw the parameters that all series share."""
    n, n_times = m.cells.y.shape
    total, start = refresh_each(m, z, paths, c, prior, moving, x, last, kept, sums, rng)
    if moving.var_x:
        m.own.var_x[0] = inverse_gamma(
            rng, prior.var_x_shape + 0.5 * n * n_times, prior.var_x_scale + 0.5 * total
        )
    if moving.var_x0:
        m.own.var_x0[0] = inverse_gamma(
            rng, prior.var_x0_shape + 0.5 * n, prior.var_x0_scale + 0.5 * start
        )
    if c.free:
        draw_hyper(m.own.beta, c.centre, c.spread, prior, rng)


@jit
def summarize_trends(m, z, paths, n_before, mean, square, cross, beta_mean):
    """Add one draw to the running moments of every trend (state plus intercept).

    Given the draw's factors and parameters the states are known up to a normal distribution,
    whose mean and variance are added instead of one draw from it (Rao-Blackwell).

    Parameters
    ----------
    n_before : int
        Number of draws summarized before this one.
    mean, square : (n, T) arrays
        Running mean, and running sum of squares about it.
    cross : (n, T, c) array
        Running sum of products with the coefficients of the covariates.
    beta_mean : (n, c) array
        Running mean of those coefficients.
    """
    n, n_times = m.cells.y.shape
    row = m.scratch.row
    n_covariates = m.cells.covariates.shape[2]
    first = m.own.beta.shape[1] - n_covariates
    share = 1.0 / (n_before + 1.0)
    for i in range(n):
        k = np.int64(z[i])
        a = m.own.a[i]
        b = m.own.loading[i]
        prepare(m, row, i)
        filter_forward(row, dynamics(m, i), paths.value, paths.none, k)
        drift = row[DRIFT]
        state = row[STATE]
        var = row[VARIANCE]
        level = m.own.beta[i, 0] if first else 0.0
        for j in range(n_covariates):
            beta_mean[i, j] += (m.own.beta[i, first + j] - beta_mean[i, j]) * share
        later = 0.0
        later_var = 0.0
        for t in range(n_times - 1, -1, -1):
            x = state[t]
            v = var[t]
            if t < n_times - 1:
                predicted = a * a * v + m.own.var_x[0]
                gain = a * v / predicted
                step = later - a * x - (b * paths.value[t + 1, k] - drift[t + 1])
                x += gain * step
                # Two non-negative terms: the sum cannot turn negative by rounding.
                v = v * m.own.var_x[0] / predicted + gain * gain * later_var
            later = x
            later_var = v
            trend = x + row[CENTRE, t] + level
            before = trend - mean[i, t]
            mean[i, t] += before * share
            # A product of itself: rounding of the mean cannot make it negative.
            square[i, t] += before * before * (1.0 - share) + v
            for j in range(n_covariates):
                cross[i, t, j] += before * (m.own.beta[i, first + j] - beta_mean[i, j])
