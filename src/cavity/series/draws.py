"""Conditional draws of the series model's parameters."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from cavity._numba.jit import jit
from cavity.series.kalman import cell_precision, residual, within_scatter
from cavity.series.state import A_MEAN, A_PRECISION, LOADING_MEAN, LOADING_PRECISION


class Hyperprior(NamedTuple):
    """Of a population's mean, N(0, 1 / precision), and variance, inverse gamma; if learned."""

    learned: bool
    precision: float
    shape: float
    scale: float


KNOWN = Hyperprior(False, 1.0, 1.0, 1.0)


class SeriesPriors(NamedTuple):
    """Hyper-parameters, in the model's units."""

    var_x_shape: float
    var_x_scale: float
    var_y_shape: float
    var_y_scale: float
    beta_mean: np.ndarray  # (p,) mean of the hyper-mean of each coefficient
    beta_precision: np.ndarray  # (p,) its precision
    beta_shape: np.ndarray  # (p,) inverse-gamma prior of the hyper-variance
    beta_scale: np.ndarray  # (p,)
    a: Hyperprior = KNOWN
    loading: Hyperprior = KNOWN
    common: Hyperprior = KNOWN
    var_x0_shape: float = 2.0
    var_x0_scale: float = 1.0


class Moving(NamedTuple):
    """Which parameters are drawn; the others keep the value they have."""

    a: bool
    loading: bool
    var_x: bool
    var_y: bool
    beta: bool
    var_x0: bool
    common: bool


EVERYTHING = Moving(*[True] * len(Moving._fields))
NOTHING = Moving(*[False] * len(Moving._fields))


# Each proposal below is taken with a probability of a third at least; so many refusals mean
# numbers that are none, and a kernel must come back from those too.
_MOST_TRIES = 1000


@jit(internal=True)
def _tail(rng, low, high):
    """Standard normal given low < Z < high, low > 0: an exponential proposal (Robert 1995)."""
    rate = 0.5 * (low + math.sqrt(low * low + 4.0))
    width = -math.expm1(-rate * (high - low))
    for _ in range(_MOST_TRIES):
        z = low - math.log1p(-rng.random() * width) / rate
        if rng.random() <= math.exp(-0.5 * (z - rate) * (z - rate)):
            return z
    return low


@jit
def truncated_normal(rng, mean, sd, low, high):
    """Draw from N(mean, sd^2) given low < value < high; exact however far out the interval is."""
    alpha = (low - mean) / sd
    beta = (high - mean) / sd
    if alpha > 0.3 and beta - alpha > 1.0 / alpha:
        z = _tail(rng, alpha, beta)
    elif beta < -0.3 and beta - alpha > -1.0 / beta:
        z = -_tail(rng, -beta, -alpha)
    elif beta - alpha < 1.5 or alpha > 0.3 or beta < -0.3:
        # The density varies little over the interval: a uniform proposal.
        nearest = alpha if alpha > 0.0 else (beta if beta < 0.0 else 0.0)
        z = nearest
        for _ in range(_MOST_TRIES):
            proposal = alpha + (beta - alpha) * rng.random()
            if rng.random() <= math.exp(0.5 * (nearest * nearest - proposal * proposal)):
                z = proposal
                break
    else:
        z = 0.5 * (alpha + beta)
        for _ in range(_MOST_TRIES):
            proposal = rng.standard_normal()
            if alpha < proposal < beta:
                z = proposal
                break
    value = mean + sd * z
    # A sum may round onto the end of the interval, where a unit root would divide by zero.
    return min(max(value, np.nextafter(low, high)), np.nextafter(high, low))


# Variances in units of the data's: beyond, filters and sums of squares lose all their digits.
LEAST_VARIANCE, MOST_VARIANCE = 1e-12, 1e12


@jit(internal=True)
def inverse_gamma(rng, shape, scale):
    """Draw from the inverse gamma distribution with density ~ v^(-shape-1) exp(-scale/v).

    Kept within the range of variances: a tiny shape has draws that are no numbers.
    """
    gamma = rng.standard_gamma(shape)
    if not gamma * MOST_VARIANCE > scale:
        return MOST_VARIANCE
    return max(scale / gamma, LEAST_VARIANCE)


@jit(internal=True)
def draw_dynamics(m, i, x, mean, k, moving, rng):
    """Draw (a, loading, common) of series i given its states x_0..x_T and both factors.

    Returns the sum of squares that remains.

    A regression of x_t on (x_{t-1}, eta_t, g_t) with a truncated to (-1, 1): the marginal of `a` is
    a truncated normal, the loading given `a` is normal, and so is that of the common factor given
    both.
    """
    own = m.own
    n_times = mean.shape[0]
    shared = own.common.shape[0] > 0
    a = own.a[i]
    b = own.loading[i]
    c = own.common[i] if shared else 0.0
    paa = pab = pac = pbb = pbc = pcc = ha = hb = hc = 0.0
    for t in range(n_times):
        before = x[t]
        now = x[t + 1]
        eta = mean[t, k]
        g = own.common_factor[t] if shared else 0.0
        paa += before * before
        pab += before * eta
        pac += before * g
        pbb += eta * eta
        pbc += eta * g
        pcc += g * g
        ha += before * now
        hb += eta * now
        hc += g * now
    noise = 1.0 / own.var_x[0]
    paa = paa * noise + own.population[A_PRECISION]
    pbb = pbb * noise + own.population[LOADING_PRECISION]
    pcc = pcc * noise + own.common_population[1]
    pab *= noise
    pac *= noise
    pbc *= noise
    ha = ha * noise + own.population[A_PRECISION] * own.population[A_MEAN]
    hb = hb * noise + own.population[LOADING_PRECISION] * own.population[LOADING_MEAN]
    hc = hc * noise + own.common_population[1] * own.common_population[0]
    # What is held goes to the right-hand side.
    if not (moving.common and shared):
        ha -= pac * c
        hb -= pbc * c
        pac = pbc = hc = 0.0
        pcc = 1.0
    if not moving.loading:
        ha -= pab * b
        hc -= pbc * b
        pab = pbc = hb = 0.0
        pbb = 1.0
    # Given a and the loading; then given a alone; then a.
    bb = pbb - pbc * pbc / pcc
    ab = pab - pac * pbc / pcc
    b_pull = hb - pbc * hc / pcc
    if moving.a:
        information = paa - pac * pac / pcc - ab * ab / bb
        pull = ha - pac * hc / pcc - ab * b_pull / bb
        a = truncated_normal(rng, pull / information, 1.0 / math.sqrt(information), -1.0, 1.0)
    if moving.loading:
        b = (b_pull - ab * a) / bb + rng.standard_normal() / math.sqrt(bb)
    if moving.common and shared:
        c = (hc - pac * a - pbc * b) / pcc + rng.standard_normal() / math.sqrt(pcc)
        own.common[i] = c
    own.a[i] = a
    own.loading[i] = b
    total = 0.0
    for t in range(n_times):
        e = x[t + 1] - a * x[t] - b * mean[t, k]
        if shared:
            e -= c * own.common_factor[t]
        total += e * e
    return total


@jit(internal=True)
def draw_noise(m, i, x, prior, rng):
    """Draw var_y_i given the states."""
    total = within_scatter(m, i)
    for t in range(m.cells.y.shape[1]):
        if m.cells.repeats[i, t] > 0:
            e = residual(m, i, t) - x[t + 1]
            total += cell_precision(m, i, t) * m.own.var_y[i] * e * e
    m.own.var_y[i] = inverse_gamma(
        rng, prior.var_y_shape + 0.5 * m.cells.totals[i, 0], prior.var_y_scale + 0.5 * total
    )


@jit(internal=True)
def keep_noise(m, i, x):
    """Put the squared noise of series i's cells, in units of its variance, where their w was."""
    for t in range(m.cells.y.shape[1]):
        value = 0.0
        if m.cells.repeats[i, t] > 0:
            e = residual(m, i, t) - x[t + 1]
            value = m.cells.repeats[i, t] / m.own.var_y[i] * e * e
        m.own.tails[i, t] = value
