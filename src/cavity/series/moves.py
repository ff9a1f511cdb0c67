"""Moves along directions in which the plain conditional draws are slow.

Every series of a cluster leans on the same factor, so the factor can make up for a common change
of their parameters, and a Gibbs step that holds it fixed moves little. Three exact remedies:

* ``shift_autoregressions``: one common shift of a cluster's a_i, the factor integrated out, and
  one of all a_i with the mean of their population.
* ``rescale_factors``: eta -> c eta, loadings -> loadings / c, cluster by cluster, and all at once
  with the population of the loadings; the likelihood does not change.
* ``rescale_own_noise``: var_x with the *standardized* noise held instead of the states
  (interweaving, Yu & Meng 2011), for data too noisy to show the states' own movement.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from cavity._numba.jit import jit
from cavity._numba.numerics import truncated_normal
from cavity._numba.slice_sampler import log_target, slice_step
from cavity.series.kalman import (
    cell_precision,
    draw_states,
    dynamics,
    filter_forward,
    prepare,
    residual,
)
from cavity.series.parameters import (
    LEAST_VARIANCE,
    MOST_VARIANCE,
    log_mass_inside,
)
from cavity.series.state_space import A_MEAN, A_PRECISION, LOADING_MEAN, LOADING_PRECISION

# Columns of the sums per cluster: e = x_t - a x_{t-1} - common g_t runs over members and times.
LOADING_SQUARE, EX, XX, LOW, HIGH, PRIOR_PULL, SIZE, LOADING, LOADING_COMMON, COMMON_SQUARE = range(
    10
)


class StateSums(NamedTuple):
    """Sums over the members of each cluster, given their states."""

    pull: np.ndarray  # (T, slots) of loading e_t
    back: np.ndarray  # (T, slots) of loading x_{t-1}
    common_pull: np.ndarray  # (T, slots) of common e_t, or (0, 0) without a common factor
    common_back: np.ndarray  # (T, slots) of common x_{t-1}, or (0, 0)
    scalars: np.ndarray  # (slots, 10)


def state_sums(n_times: int, n_slots: int, *, common: bool = False) -> StateSums:
    """Room for the sums of `n_slots` clusters."""
    shape = (n_times, n_slots)
    shared = shape if common else (0, 0)
    return StateSums(
        np.zeros(shape), np.zeros(shape), np.zeros(shared), np.zeros(shared),
        np.zeros((n_slots, 10)),
    )  # fmt: skip


@jit(internal=True)
def clear_sums(sums):
    """Set all sums to those of no member."""
    n_times, n_slots = sums.pull.shape
    for t in range(n_times):
        for k in range(n_slots):
            sums.pull[t, k] = 0.0
            sums.back[t, k] = 0.0
    for t in range(sums.common_pull.shape[0]):
        for k in range(n_slots):
            sums.common_pull[t, k] = 0.0
            sums.common_back[t, k] = 0.0
    for k in range(n_slots):
        for j in range(10):
            sums.scalars[k, j] = 0.0
        sums.scalars[k, LOW] = -math.inf
        sums.scalars[k, HIGH] = math.inf


@jit(internal=True)
def add_to_sums(m, i, k, x, sums):
    """Add series i with states x_0..x_T to cluster k's sums."""
    a = m.own.a[i]
    b = m.own.loading[i]
    shared = sums.common_pull.shape[0] > 0
    c = m.own.common[i] if shared else 0.0
    ex = 0.0
    xx = 0.0
    for t in range(sums.pull.shape[0]):
        e = x[t + 1] - a * x[t]
        if shared:
            e -= c * m.own.common_factor[t]
            sums.common_pull[t, k] += c * e
            sums.common_back[t, k] += c * x[t]
        sums.pull[t, k] += b * e
        sums.back[t, k] += b * x[t]
        ex += e * x[t]
        xx += x[t] * x[t]
    own = sums.scalars[k]
    own[LOADING_SQUARE] += b * b
    own[EX] += ex
    own[XX] += xx
    own[LOW] = max(own[LOW], -1.0 - a)
    own[HIGH] = min(own[HIGH], 1.0 - a)
    own[PRIOR_PULL] += a
    own[SIZE] += 1.0
    own[LOADING] += b
    own[LOADING_COMMON] += b * c
    own[COMMON_SQUARE] += c * c


class CommonShift(NamedTuple):
    """Density of a shift of all a_i and of their population's mean."""

    information: float
    pull: float
    low: float
    high: float
    n: float
    mean: float
    variance: float
    precision: float


@log_target.register(CommonShift)
def _(density, shift):
    mean = density.mean + shift
    if not (density.low < shift < density.high and -1.0 < mean < 1.0):
        return -math.inf
    likelihood = (density.pull - 0.5 * density.information * shift) * shift
    own = -0.5 * density.precision * mean * mean
    return likelihood + own - density.n * log_mass_inside(mean, density.variance)


@jit(internal=True)
def _shift_likelihood(var_x, sums, k):
    """Information and pull of a shift of cluster k's a_i, given the states, its factor integrated.

    With e_t the members' steps and x_{t-1} their states before, e_t - shift x_{t-1} is normal
    with covariance var_x I + loading loading'.
    """
    own = sums.scalars[k]
    share = 1.0 / (var_x + own[LOADING_SQUARE])
    back_square = 0.0
    back_pull = 0.0
    for t in range(sums.pull.shape[0]):
        back_square += sums.back[t, k] * sums.back[t, k]
        back_pull += sums.back[t, k] * sums.pull[t, k]
    return max(own[XX] - share * back_square, 0.0) / var_x, (own[EX] - share * back_pull) / var_x


@jit(internal=True)
def _shift_sums(sums, k, shift):
    """Bring the sums of cluster k up to date with a shift of its a_i."""
    for t in range(sums.pull.shape[0]):
        sums.pull[t, k] -= shift * sums.back[t, k]
    for t in range(sums.common_pull.shape[0]):
        sums.common_pull[t, k] -= shift * sums.common_back[t, k]
    own = sums.scalars[k]
    own[EX] -= shift * own[XX]
    own[LOW] -= shift
    own[HIGH] -= shift
    own[PRIOR_PULL] += shift * own[SIZE]


@jit
def draw_shifts(var_x, n, sums, population, hyper, shifts, rng):
    """Draw one shift of all a_i of each cluster given the states, its factor integrated out.

    It is a truncated normal. Where their population is learned (`hyper`), one more shift is drawn
    of all `n` a_i together with the population's mean. The sums are updated, and
    the factors must be drawn next.
    """
    n_slots = shifts.shape[0]
    for k in range(n_slots):
        own = sums.scalars[k]
        shifts[k] = 0.0
        if own[SIZE] == 0.0:
            continue
        information, pull = _shift_likelihood(var_x, sums, k)
        information += own[SIZE] * population[A_PRECISION]
        pull += population[A_PRECISION] * (own[SIZE] * population[A_MEAN] - own[PRIOR_PULL])
        if not information > 0.0 or not own[LOW] < own[HIGH]:
            continue
        sd = 1.0 / math.sqrt(information)
        shifts[k] = truncated_normal(rng, pull / information, sd, own[LOW], own[HIGH])
        _shift_sums(sums, k, shifts[k])
    if hyper.learned:
        information = 0.0
        pull = 0.0
        low = -math.inf
        high = math.inf
        for k in range(n_slots):
            own = sums.scalars[k]
            if own[SIZE] > 0.0:
                one, two = _shift_likelihood(var_x, sums, k)
                information += one
                pull += two
                low = max(low, own[LOW])
                high = min(high, own[HIGH])
        density = CommonShift(
            information, pull, low, high, float(n), population[A_MEAN],
            1.0 / population[A_PRECISION], hyper.precision,
        )  # fmt: skip
        common = slice_step(density, 0.0, 1.0 / math.sqrt(information + 100.0), rng)
        population[A_MEAN] += common
        for k in range(n_slots):
            shifts[k] += common
            if sums.scalars[k, SIZE] > 0.0:
                _shift_sums(sums, k, common)


@jit
def shift_autoregressions(a, var_x, z, sums, population, hyper, shifts, rng):
    """Draw shifts of the a_i (``draw_shifts``), and shift them."""
    draw_shifts(var_x, z.shape[0], sums, population, hyper, shifts, rng)
    for i in range(z.shape[0]):
        shifted = a[i] + shifts[z[i]]
        if -1.0 < shifted < 1.0:
            a[i] = shifted


class LogScale(NamedTuple):
    """Density of a log scale u: c u + square e^2u + once e^u + inverse_square e^-2u + inverse e^-u.

    Both scales below have this form.
    """

    power: float
    square: float
    once: float
    inverse_square: float
    inverse: float


@log_target.register(LogScale)
def _(density, u):
    up = math.exp(u)
    down = 1.0 / up
    return (
        density.power * u
        + density.square * up * up
        + density.once * up
        + density.inverse_square * down * down
        + density.inverse * down
    )


@jit(internal=True)
def scale_with_population(n_values, square, mean, precision, hyper):
    """Density of the log scale of factors against loadings and their learned population.

    Loadings, mean and root of the variance are divided alike: the density of the loadings given
    the population makes up for their own Jacobian, and the hyperpriors decide. `n_values` numbers
    of the factors, with this sum of squares, are multiplied.
    """
    return LogScale(
        n_values - 3.0 + 2.0 * (hyper.shape + 1.0),
        -0.5 * square - hyper.scale * precision,
        0.0,
        -0.5 * hyper.precision * mean * mean,
        0.0,
    )


@jit
def draw_scales(paths, sums, population, hyper, scales, rng):
    """Draw the scale of each factor against that of its members' loadings, then that of all.

    Factors are multiplied by `scales`, by which the loadings are still to be divided.

    The likelihood depends on products only; the priors and the Jacobian c^(T - n) decide. The
    scale of all is drawn with the population of the loadings, if that is learned (`hyper`).
    """
    n_times = sums.pull.shape[0]
    n_values = 0.0
    all_squares = 0.0
    for k in range(scales.shape[0]):
        own = sums.scalars[k]
        scales[k] = 1.0
        if own[SIZE] == 0.0:
            continue
        square = 0.0
        for t in range(n_times):
            square += paths.value[t, k] * paths.value[t, k]
        width = 2.0 / math.sqrt(n_times + own[SIZE])
        density = LogScale(
            n_times - own[SIZE],
            -0.5 * square,
            0.0,
            -0.5 * population[LOADING_PRECISION] * own[LOADING_SQUARE],
            population[LOADING_PRECISION] * population[LOADING_MEAN] * own[LOADING],
        )
        u = slice_step(density, 0.0, width, rng)
        scales[k] = math.exp(u)
        for t in range(n_times):
            paths.value[t, k] *= scales[k]
        n_values += n_times
        all_squares += square * scales[k] * scales[k]
    common = 1.0
    if hyper.learned:
        precision = population[LOADING_PRECISION]
        every = scale_with_population(
            n_values, all_squares, population[LOADING_MEAN], precision, hyper
        )
        common = math.exp(slice_step(every, 0.0, 2.0 / math.sqrt(n_values), rng))
        if not LEAST_VARIANCE < 1.0 / (precision * common * common) < MOST_VARIANCE:
            common = 1.0
        population[LOADING_MEAN] /= common
        population[LOADING_PRECISION] *= common * common
        for k in range(scales.shape[0]):
            if sums.scalars[k, SIZE] > 0.0:
                for t in range(n_times):
                    paths.value[t, k] *= common
    for k in range(scales.shape[0]):
        scales[k] *= common


@jit
def rescale_factors(loading, z, paths, sums, population, hyper, scales, rng):
    """Draw scales of the factors (``draw_scales``), and divide the loadings by them."""
    draw_scales(paths, sums, population, hyper, scales, rng)
    for i in range(z.shape[0]):
        loading[i] /= scales[z[i]]


@jit
def rescale_own_noise(m, z, paths, prior, x, rng):
    """Draw var_x given the factors and every series' noise in units of its standard deviation.

    The states move with var_x, so they must be drawn afresh afterwards.
    """
    row = m.scratch.row
    n, n_times = m.cells.y.shape
    sd = math.sqrt(m.own.var_x[0])
    square = 0.0
    pull = 0.0
    for i in range(n):
        k = np.int64(z[i])
        prepare(m, row, i)
        dyn = dynamics(m, i)
        filter_forward(row, dyn, paths.value, paths.none, k)
        draw_states(row, dyn, paths.value, paths.none, k, x, rng)
        base = x[0]
        for t in range(n_times):
            base = m.own.a[i] * base + m.own.loading[i] * paths.value[t, k]
            if m.own.common.shape[0] > 0:
                base += m.own.common[i] * m.own.common_factor[t]
            if m.cells.repeats[i, t] > 0:
                w = cell_precision(m, i, t)
                g = (x[t + 1] - base) / sd
                square += w * g * g
                pull += w * g * (residual(m, i, t) - base)
    # Besides its prior, sd enters the likelihood through pull sd - square sd^2 / 2.
    density = LogScale(-2.0 * prior.var_x_shape, -0.5 * square, pull, -prior.var_x_scale, 0.0)
    u = slice_step(density, math.log(sd), 0.5, rng)
    m.own.var_x[0] = min(max(math.exp(2.0 * u), LEAST_VARIANCE), MOST_VARIANCE)
