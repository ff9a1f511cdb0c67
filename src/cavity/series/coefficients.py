"""Regression coefficients of the series, the intercept among them, integrated out or drawn.

    y_itl = beta_i' u_itl + x_it + noise,   beta_ij ~ N(m_j, v_j)

A slow movement of a cluster's factor is nearly confounded with the levels of its members, and so
are the levels of all series with their mean: draws of each given the others would take thousands of
sweeps. The factors are therefore drawn with states *and* coefficients integrated out, the
means m_j with the factors integrated out as well, and the coefficients then given the factors.

All of it is Gaussian. With H the information that unit coefficients have about the factor, Q the
precision of the coefficients given it and b what pulls them, a series' (J, h, c) of
`cavity.series.cluster_information` become J - H' Q^{-1} H, h - H' Q^{-1} b and
c + b' Q^{-1} b / 2 - log|Q| / 2, up to the coefficients' prior. Coefficients are measured from
where they are, which keeps digits when levels are far above the movement of their series.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from cavity._numba.jit import jit
from cavity.series.batched_filter import factor_in_place
from cavity.series.cluster_information import columns_of, solve_semiseparable
from cavity.series.kalman import cell_precision, residual
from cavity.series.parameters import inverse_gamma
from cavity.series.state_space import LOADING_MEAN, LOADING_PRECISION


class Coefficients(NamedTuple):
    """The population of the coefficients, and room to integrate them out of a series."""

    centre: np.ndarray  # (p,) means m
    spread: np.ndarray  # (p,) variances v
    free: bool  # whether they are drawn, rather than held
    work: np.ndarray  # (p + 4, p + 2) normal equations


class MeanEquations(NamedTuple):
    """Normal equations of the means m, with all else but parameters integrated out.

    As a function of a change d of the means the log density is pull' d - d' information d / 2.
    """

    information: np.ndarray  # (p, p)
    pull: np.ndarray  # (p,)
    slopes: np.ndarray  # (slots or 1, p, T) change of L^{-1} h of each cluster, or the last one


def coefficients(hyper: np.ndarray, *, free: bool) -> Coefficients:
    """The population that rows of `hyper` (means, variances) state, with room for one series."""
    p = hyper.shape[1]
    return Coefficients(hyper[0], hyper[1], bool(free and p), np.zeros((p + 4, p + 2)))


def mean_equations(p: int, n_times: int, n_slots: int = 1) -> MeanEquations:
    """Equations without any series."""
    return MeanEquations(np.zeros((p, p)), np.zeros(p), np.zeros((n_slots, p, n_times)))


@jit(internal=True)
def _covariate(m, i, t, j, first):
    """Covariate j of a cell; the intercept's, if there is one, is 1."""
    return 1.0 if j < first else m.cells.covariates[i, t, j - first]


@jit(internal=True)
def close_equations(matrix, equations, slopes):
    """After a cluster's members, its matrix factorized: the factor's part; slopes become L^{-1}."""
    p, n_times = slopes.shape
    for j in range(p):
        line = slopes[j]
        if columns_of(matrix):
            solve_semiseparable(matrix, line)
        else:
            for t in range(n_times):
                value = line[t]
                for s in range(t):
                    value -= matrix[t, s] * line[s]
                line[t] = value / matrix[t, t]
        for t in range(n_times):
            equations.pull[j] += line[t] * matrix[n_times, t]
        for o in range(j + 1):
            total = 0.0
            for t in range(n_times):
                total += line[t] * slopes[o, t]
            equations.information[j, o] -= total
            if o < j:
                equations.information[o, j] -= total


@jit
def log_without_means(c, equations, prior_mean, prior_precision):
    """Return the gain in log density from integrating the means out, up to a constant.

    Minus infinity where rounding leaves no equations to integrate by.
    """
    p = c.centre.shape[0]
    work = c.work
    total = 0.0
    for j in range(p):
        away = prior_mean[j] - c.centre[j]
        for o in range(j + 1):
            work[j, o] = equations.information[j, o]
        work[j, j] += prior_precision[j]
        work[p, j] = equations.pull[j] + prior_precision[j] * away
        total -= 0.5 * away * away * prior_precision[j]
    factor_in_place(work, p)
    for j in range(p):
        # Data can only add to the prior's precision.
        if not work[j, j] * work[j, j] >= prior_precision[j]:
            return -math.inf
        total += 0.5 * work[p, j] * work[p, j] - math.log(work[j, j])
    return total


def draw_means(
    c: Coefficients,
    equations: MeanEquations,
    prior_mean: np.ndarray,
    prior_precision: np.ndarray,
    rng: np.random.Generator,
) -> float:
    """Draw the means of all coefficients, in place; returns the change of the log density."""
    information = equations.information + np.diag(prior_precision)
    root = np.linalg.cholesky(information)
    pull = equations.pull + prior_precision * (prior_mean - c.centre)
    step = np.linalg.solve(root.T, np.linalg.solve(root, pull) + rng.standard_normal(c.centre.size))
    c.centre[:] += step
    return float(equations.pull @ step - 0.5 * step @ equations.information @ step)


@jit
def draw_coefficients(m, i, mean, k, c, with_loading, rng):
    """Draw beta_i, if free, and the loading, if asked for, given the factor; states are out.

    The filter is run on the data, on every covariate and on what the factor does to the states of
    a unit loading (they share gains), which gives the generalised least squares equations;
    within-cell scatter adds its own.
    """
    p = c.centre.shape[0] if c.free else 0
    n = p + 1 if with_loading else p
    if n == 0:
        return
    work = c.work
    first = c.centre.shape[0] - m.cells.covariates.shape[2]
    own = m.own
    a = own.a[i]
    b = own.loading[i]
    precision = 1.0 / own.var_y[i]
    for j in range(p):
        for o in range(j + 1):
            work[j, o] = m.cells.scatter[i, j, o] * precision
        work[j, j] += 1.0 / c.spread[j]
        within = m.cells.scatter[i, p, j]
        for o in range(p):
            within -= m.cells.scatter[i, j, o] * own.beta[i, o]
        work[n, j] = within * precision + (c.centre[j] - own.beta[i, j]) / c.spread[j]
    if with_loading:
        for o in range(p):
            work[p, o] = 0.0
        work[p, p] = own.population[LOADING_PRECISION]
        work[n, p] = own.population[LOADING_PRECISION] * own.population[LOADING_MEAN]
    state = work[n + 1]
    innovation = work[n + 2]
    for j in range(n + 1):
        state[j] = 0.0
    var = own.var_x0[0]
    path = 0.0  # states of a unit loading, without noise
    for t in range(m.cells.y.shape[1]):
        for j in range(n + 1):
            state[j] *= a
        path = a * path + mean[t, k]
        if not with_loading:
            state[n] += b * mean[t, k]
        if own.common.shape[0] > 0:
            state[n] += own.common[i] * own.common_factor[t]
        var = a * a * var + own.var_x[0]
        if m.cells.repeats[i, t] == 0:
            continue
        w = cell_precision(m, i, t)
        d = 1.0 + w * var
        gain = w * var / d
        for j in range(p):
            innovation[j] = _covariate(m, i, t, j, first) - state[j]
        if with_loading:
            innovation[p] = path - state[p]
        innovation[n] = residual(m, i, t) - state[n]
        for j in range(n):
            scaled = innovation[j] * w / d
            for o in range(j + 1):
                work[j, o] += scaled * innovation[o]
            work[n, j] += scaled * innovation[n]
        for j in range(n + 1):
            state[j] += gain * innovation[j]
        var /= d
    # Cholesky factor in place, then L^{-1} h + noise, then the transposed solve.
    factor_in_place(work, n)
    for j in range(n - 1, -1, -1):
        value = work[n, j] + rng.standard_normal()
        for o in range(j + 1, n):
            value -= work[o, j] * work[n, o]
        work[n, j] = value / work[j, j]
    for j in range(p):
        own.beta[i, j] += work[n, j]
    if with_loading:
        own.loading[i] = work[n, p]


@jit
def draw_all_coefficients(m, z, paths, c, with_loading, rng):
    """Draw coefficients of every series."""
    for i in range(z.shape[0]):
        draw_coefficients(m, i, paths.value, np.int64(z[i]), c, with_loading, rng)


@jit(internal=True)
def draw_hyper(beta, centre, spread, prior, rng):
    """Draw the hyper-mean and hyper-variance of every coefficient given the series' values."""
    n = beta.shape[0]
    for j in range(beta.shape[1]):
        total = 0.0
        for i in range(n):
            total += beta[i, j]
        square = 0.0
        for i in range(n):
            square += (beta[i, j] - total / n) ** 2
        draw_hyper_by_sums(n, total, square, j, centre, spread, prior, rng)


@jit
def draw_hyper_by_sums(n, total, about, j, centre, spread, prior, rng):
    """Draw hyper-mean and hyper-variance of coefficient j from sums of the values."""
    precision = n / spread[j] + prior.beta_precision[j]
    shift = total / spread[j] + prior.beta_precision[j] * prior.beta_mean[j]
    centre[j] = shift / precision + rng.standard_normal() / math.sqrt(precision)
    square = about + n * (total / n - centre[j]) ** 2
    spread[j] = inverse_gamma(
        rng, prior.beta_shape[j] + 0.5 * n, prior.beta_scale[j] + 0.5 * square
    )
