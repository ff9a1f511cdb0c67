"""The population of the series' parameters, learned: mean and spread of the a_i and the loadings.

    a_i       ~ N(m, v) truncated to (-1, 1),   m ~ N(0, s^2) truncated to (-1, 1)
    loading_i ~ N(m, v),                        m ~ N(0, s^2)
    v ~ inverse gamma, for both

A prior that is stated once and for all pulls every series the same way: autoregressions of returns
towards those of prices, say. What the series have in common is in the data.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from cavity._numba.arrays import fitting, saved_array
from cavity._numba.jit import Kernels, jit
from cavity._numba.slice_sampler import log_target, slice_step
from cavity.series.densities import log_inverse_gamma, log_mass, log_normal
from cavity.series.draws import (
    LEAST_VARIANCE,
    MOST_VARIANCE,
    Hyperprior,
    Moving,
    SeriesPriors,
    inverse_gamma,
)
from cavity.series.state import A_MEAN, A_PRECISION, LOADING_MEAN, LOADING_PRECISION
from cavity.updates import Chain, Update

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
    """The same from their number, sum and sum of squares about their mean."""
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
    """The same from their number, sum and sum of squares about their mean."""
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
        A population whose members are held tells nothing, and is held as well.
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
        """Whether it has begun; the population itself is among the model's parameters."""
        return {"started": np.array([self.started], dtype=int)}

    def restore(self, arrays: Mapping[str, np.ndarray], chain: Chain) -> None:
        """Continue from ``arrays``."""
        started = fitting(saved_array(arrays, "started"), np.zeros(1, dtype=int), "started")
        self.started = bool(started[0])
