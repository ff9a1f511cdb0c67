"""Parameters of the series: priors, conditional draws, log densities, learned populations.

Mean and spread of the autoregressions and of the loadings are learned::

    a_i       ~ N(m, v) truncated to (-1, 1),   m ~ N(0, s^2) truncated to (-1, 1)
    loading_i ~ N(m, v),                        m ~ N(0, s^2)
    v ~ inverse gamma, for both

A fixed prior would pull every series the same way, autoregressions of returns towards those of
prices, for instance.

The noise of the observations is Student-t, with a weight for each cell::

    mean of cell (i, t) = state + regression + N(0, var_y_i / (n_it w_it))
    w_it ~ Gamma(df / 2, df / 2)

An outlier has a small w: it has little influence on the state and makes no cluster. With one
observation per cell this is Student-t noise; the observations of a cell differ among themselves by
Gaussian noise. The degrees of freedom are drawn with the w integrated out, and these given them.

The w are as many as the cells, and a density that has them in it compares nothing. Since
p(noise | w) p(w) / p(w | noise) is the Student-t density of the noise, the sum over all cells of
log p(w) - log p(w | noise), added to a log density that is given w, takes them out again: on
average up to the information that noise and w have about each other, which does not depend on
the other parameters.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from cavity._numba.arrays import fitting, saved_array
from cavity._numba.jit import Kernels, jit
from cavity._numba.numerics import fast_log_pair, truncated_normal
from cavity._numba.slice_sampler import log_target, slice_step
from cavity.likelihoods.degrees_of_freedom import HIGHEST, LOWEST, slice_df
from cavity.series.kalman import cell_precision, residual, within_scatter
from cavity.series.state_space import (
    A_MEAN,
    A_PRECISION,
    LOADING_MEAN,
    LOADING_PRECISION,
    SeriesParameters,
)
from cavity.updates import Chain, Update


class Hyperprior(NamedTuple):
    """Prior of a learned population: mean N(0, 1 / precision), variance inverse gamma."""

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
    """Flags of the parameters that are drawn; the others are held."""

    a: bool
    loading: bool
    var_x: bool
    var_y: bool
    beta: bool
    var_x0: bool
    common: bool


EVERYTHING = Moving(*[True] * len(Moving._fields))
NOTHING = Moving(*[False] * len(Moving._fields))


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
def store_squared_noise(m, i, x):
    """Put the squared noise of series i's cells, in units of its variance, where their w was."""
    for t in range(m.cells.y.shape[1]):
        value = 0.0
        if m.cells.repeats[i, t] > 0:
            e = residual(m, i, t) - x[t + 1]
            value = m.cells.repeats[i, t] / m.own.var_y[i] * e * e
        m.own.tails[i, t] = value


def log_inverse_gamma(v: Any, shape: Any, scale: Any) -> float:
    """Sum of log densities of inverse gamma distributions."""
    from scipy.special import gammaln

    terms = shape * np.log(scale) - gammaln(shape) - (shape + 1) * np.log(v) - scale / v
    return float(np.sum(terms))


def log_normal(x: Any, mean: Any, precision: Any) -> float:
    """Sum of log densities of normal distributions."""
    terms = 0.5 * np.log(precision / (2 * math.pi)) - 0.5 * precision * (x - mean) ** 2
    return float(np.sum(terms))


def log_mass(low: float, high: float) -> float:
    """Logarithm of a standard normal's probability between two ends, however far out they are."""
    from scipy.special import log_ndtr

    if low <= 0.0 <= high:  # nothing cancels
        root = math.sqrt(2.0)
        return math.log(0.5 * (math.erf(high / root) - math.erf(low / root)))
    if low > 0.0:
        low, high = -high, -low
    top = log_ndtr(high)
    return float(top + np.log(-np.expm1(log_ndtr(low) - top)))


def log_prior_of_series(
    own: SeriesParameters, hyper: np.ndarray, prior: SeriesPriors, moving: Moving
) -> float:
    """Log prior density of the parameters that move, but for the coefficients given theirs."""
    total = 0.0
    a_mean, a_precision, loading_mean, loading_precision = own.population
    if moving.a:
        if a_precision > 0:
            root = math.sqrt(a_precision)
            total += log_normal(own.a, a_mean, a_precision)
            total -= own.a.size * log_mass((-1 - a_mean) * root, (1 - a_mean) * root)
        else:
            total -= own.a.size * math.log(2.0)
    if moving.loading:
        total += log_normal(own.loading, loading_mean, loading_precision)
    if moving.var_x:
        total += log_inverse_gamma(own.var_x, prior.var_x_shape, prior.var_x_scale)
    if moving.var_x0:
        total += log_inverse_gamma(own.var_x0, prior.var_x0_shape, prior.var_x0_scale)
    if moving.var_y:
        total += log_inverse_gamma(own.var_y, prior.var_y_shape, prior.var_y_scale)
    if moving.beta and own.beta.shape[1]:
        total += log_normal(hyper[0], prior.beta_mean, prior.beta_precision)
        total += log_inverse_gamma(hyper[1], prior.beta_shape, prior.beta_scale)
    return total


_ROUNDS = 2  # the mean and the spread of the a_i are drawn in turns, so often in one sweep


@jit(internal=True)
def log_mass_inside(mean, variance):
    """Log probability of (-1, 1) under a normal whose mean lies inside."""
    root = math.sqrt(2.0 * variance)
    return math.log(0.5 * (math.erf((1.0 - mean) / root) + math.erf((1.0 + mean) / root)))


class AutoregressionMean(NamedTuple):
    """Density of m given n values with this sum, and v."""

    n: float
    total: float
    variance: float
    precision: float


@log_target.register(AutoregressionMean)
def _(density, mean):
    if not -1.0 < mean < 1.0:
        return -math.inf
    pull = (density.total - 0.5 * density.n * mean) * mean / density.variance
    own = -0.5 * density.precision * mean * mean
    return own + pull - density.n * log_mass_inside(mean, density.variance)


class AutoregressionSpread(NamedTuple):
    """Density of log v given n values with this sum of squares about m."""

    n: float
    square: float
    mean: float
    shape: float
    scale: float


@log_target.register(AutoregressionSpread)
def _(density, log_variance):
    variance = math.exp(log_variance)
    if not LEAST_VARIANCE < variance < MOST_VARIANCE:
        return -math.inf
    total = -(density.shape + 0.5 * density.n) * log_variance
    total -= (density.scale + 0.5 * density.square) / variance
    return total - density.n * log_mass_inside(density.mean, variance)


@jit(internal=True)
def _sums(values):
    """Sum of some values, and their squares about their mean."""
    total = 0.0
    for i in range(values.shape[0]):
        total += values[i]
    centre = total / max(values.shape[0], 1)
    square = 0.0
    for i in range(values.shape[0]):
        square += (values[i] - centre) * (values[i] - centre)
    return total, square


@jit
def draw_autoregression_population(a, population, hyper, rng):
    """Draw mean and precision of the a_i given the a_i, in place: slice steps."""
    total, square = _sums(a)
    draw_autoregressions_by_sums(a.shape[0], total, square, population, hyper, rng)


@jit
def draw_autoregressions_by_sums(n, total, about, population, hyper, rng):
    """Draw the population of the a_i from their number, sum and squares about their mean."""
    mean = population[A_MEAN]
    variance = 1.0 / population[A_PRECISION]
    for _ in range(_ROUNDS):
        density = AutoregressionMean(float(n), total, variance, hyper.precision)
        mean = slice_step(density, mean, 2.0 * math.sqrt(variance / n), rng)
        square = about + n * (total / n - mean) ** 2
        spread = AutoregressionSpread(float(n), square, mean, hyper.shape, hyper.scale)
        variance = math.exp(slice_step(spread, math.log(variance), 1.0, rng))
    population[A_MEAN] = mean
    population[A_PRECISION] = 1.0 / variance


@jit
def draw_normal_population(values, population, hyper, rng):
    """Draw mean and precision of normal values given them, into `population`: conjugate draws."""
    total, square = _sums(values)
    draw_normals_by_sums(values.shape[0], total, square, population, hyper, rng)


@jit
def draw_normals_by_sums(n, total, about, population, hyper, rng):
    """Draw the population of normal values from their number, sum and squares about the mean."""
    precision = n * population[1] + hyper.precision
    mean = total * population[1] / precision
    mean += rng.standard_normal() / math.sqrt(precision)
    square = about + n * (total / n - mean) ** 2
    population[0] = mean
    population[1] = 1.0 / inverse_gamma(rng, hyper.shape + 0.5 * n, hyper.scale + 0.5 * square)


class PopulationUpdate(Update):
    """Mean and spread of the a_i and of the loadings, where they are learned.

    Parameters
    ----------
    priors : SeriesPriors
    moving : Moving
        A population whose members are held is held as well.
    """

    name = "population"

    def __init__(self, priors: SeriesPriors, moving: Moving) -> None:
        self.a: Hyperprior | None = priors.a if priors.a.learned and moving.a else None
        learned = priors.loading.learned and moving.loading
        self.loading: Hyperprior | None = priors.loading if learned else None
        self.started = False
        self._run = Kernels().run

    def draw(self, chain: Chain, rng: np.random.Generator) -> None:
        """Draw them given the series' parameters; not before these have moved once."""
        if not self.started:
            # All loadings start alike: a population fitted to that would hold their signs.
            self.started = True
            return
        own = chain.model.own
        if self.a is not None:
            self._run(draw_autoregression_population, own.a, own.population, self.a, rng)
        if self.loading is not None:
            own_part = own.population[LOADING_MEAN:]
            self._run(draw_normal_population, own.loading, own_part, self.loading, rng)

    def log_density(self, chain: Chain) -> float:
        """Log prior density of what is learned."""
        population = chain.model.own.population
        total = 0.0
        for prior, mean, precision in (
            (self.a, population[A_MEAN], population[A_PRECISION]),
            (self.loading, population[LOADING_MEAN], population[LOADING_PRECISION]),
        ):
            if prior is not None:
                total += log_normal(mean, 0.0, prior.precision)
                total += log_inverse_gamma(1.0 / precision, prior.shape, prior.scale)
        if self.a is not None:
            root = math.sqrt(self.a.precision)
            total -= log_mass(-root, root)
        return total

    def record(self, chain: Chain) -> dict[str, np.ndarray]:
        """Means and standard deviations of what is learned."""
        population = chain.model.own.population
        out = {}
        if self.a is not None:
            out["a_mean"] = population[A_MEAN].copy()
            out["a_sd"] = population[A_PRECISION] ** -0.5
        if self.loading is not None:
            out["loading_mean"] = population[LOADING_MEAN].copy()
            out["loading_sd"] = population[LOADING_PRECISION] ** -0.5
        return out

    def arrays(self) -> dict[str, np.ndarray]:
        """Return whether it has begun; the population itself is among the model's parameters."""
        return {"started": np.array([self.started], dtype=int)}

    def restore(self, arrays: Mapping[str, np.ndarray], chain: Chain) -> None:
        """Continue from ``arrays``."""
        started = fitting(saved_array(arrays, "started"), np.zeros(1, dtype=int), "started")
        self.started = bool(started[0])


# ---------------------------------------------------------------------- weights of cells

SHAPE, RATE = 2.0, 0.1  # gamma prior of the degrees of freedom, as that of the mixtures
_LEAST, _MOST = 1e-12, 1e12
_NO_LABELS = np.zeros(0, dtype=np.int32)


@jit
def draw_weights(tails, repeats, df, rng):
    """Replace the squared noise of every cell, in units of its variance, by a draw of its w.

    Returns the sum of log p(w) - log p(w | noise).
    """
    n, n_times = tails.shape
    shape = 0.5 * (df + 1.0)
    half = 0.5 * df
    constant = half * math.log(half) - math.lgamma(half) + math.lgamma(shape)
    total = 0.0
    for i in range(n):
        for t in range(n_times):
            if repeats[i, t] > 0:
                noise = tails[i, t]
                rate = 0.5 * (df + noise)
                w = min(max(rng.standard_gamma(shape) / rate, _LEAST), _MOST)
                log_rate, log_w = fast_log_pair(rate, w)
                total += constant - shape * log_rate + 0.5 * (noise * w - log_w)
                tails[i, t] = w
            else:
                tails[i, t] = 1.0
    return total


def draw_noise_weights(model, n_cells: float, learn: bool, rng: np.random.Generator) -> float:
    """Draw the degrees of freedom, if they are learned, and every cell's weight.

    ``model.own.tails`` has the squared noise of `n_cells` observed cells, 0 elsewhere. Returns what
    a log density given the weights gains without them.
    """
    own = model.own
    if learn:
        noise = own.tails.reshape(-1)
        own.df[0] = slice_df(own.df[0], noise, _NO_LABELS, -1, n_cells, 1, SHAPE, RATE, rng)
    return float(draw_weights(own.tails, model.cells.repeats, own.df[0], rng))


def log_density_of_weights(model) -> float:
    """Log density of the weights given the degrees of freedom."""
    own = model.own
    w = own.tails[model.cells.repeats > 0]
    a = 0.5 * own.df[0]
    each = a * math.log(a) - math.lgamma(a)
    return float(w.size * each + ((a - 1.0) * np.log(w) - a * w).sum())


def log_density_of_df(df: float) -> float:
    """Log prior density of learned degrees of freedom."""
    from scipy.special import gammainc

    low, high = gammainc(SHAPE, RATE * np.array([LOWEST, HIGHEST]))
    total = SHAPE * math.log(RATE) - math.lgamma(SHAPE) - math.log(high - low)
    return float(total + (SHAPE - 1.0) * math.log(df) - RATE * df)
