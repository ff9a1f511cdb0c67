"""Degrees of freedom and scale variables of Student-t clusters, drawn given cluster parameters.

The degrees of freedom have a Gamma(2, 0.1) prior by default (mean 20: it allows both heavy tails
and near-Gaussian clusters), cut to [0.5, 200]. They are drawn with the scale variables integrated
out, by a slice step on their logarithm; scale variables are drawn afterwards.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from scipy.special import gammainc

from cavity.core.compile import jit
from cavity.core.numerics import fast_log
from cavity.core.slices import log_target, slice_step
from cavity.models.row_scores import follow_tails
from cavity.models.rows import UnevenRows
from cavity.models.sampled_student_t import (
    MarginalStudentT,
    SampledStudentT,
    set_log_norm,
    set_score_rule,
)
from cavity.models.scaled_gaussian import distances, draw_scales
from cavity.models.student_t import StudentT, set_rules
from cavity.updates import LIKELIHOOD, Chain, Update

LOWEST, HIGHEST = 0.5, 200.0
# Shape and rate of the gamma prior.
DF_PRIOR = (2.0, 0.1)


def draw_df(shape: float, rate: float, n: int, rng: np.random.Generator) -> np.ndarray:
    """N degrees of freedom from their prior."""
    out = rng.gamma(shape, 1.0 / rate, n)
    while (outside := (out < LOWEST) | (out > HIGHEST)).any():
        out[outside] = rng.gamma(shape, 1.0 / rate, int(outside.sum()))
    return out


@jit(reassoc=True, internal=True)
def _log_tail(distance, z, k, df):
    """Sum of log(1 + distance / df) over cluster k, or over all observations for k = -1."""
    total = 0.0
    inverse = 1.0 / df
    if k < 0:
        for i in range(distance.shape[0]):
            total += fast_log(1.0 + distance[i] * inverse)
    else:
        for i in range(distance.shape[0]):
            total += fast_log(1.0 + distance[i] * inverse) if z[i] == k else 0.0
    return total


class LogDf(NamedTuple):
    """Density of log(df) given n observations' distances, under a Gamma(shape, rate) prior."""

    distance: np.ndarray
    z: np.ndarray
    k: int  # the cluster, or -1 for all observations
    n: int
    d: int
    shape: float
    rate: float


@log_target.register(LogDf)
def _(density, x):
    df = math.exp(x)
    if df < LOWEST or df > HIGHEST:
        return -math.inf
    value = density.shape * x - density.rate * df
    if density.n > 0:
        d = density.d
        constant = math.lgamma(0.5 * (df + d)) - math.lgamma(0.5 * df) - 0.5 * d * x
        tail = _log_tail(density.distance, density.z, density.k, df)
        value += density.n * constant - 0.5 * (df + d) * tail
    return value


@jit
def slice_df(df, distance, z, k, n, d, shape, rate, rng):
    """One slice-sampling step on log(df)."""
    density = LogDf(distance, z, k, n, d, shape, rate)
    return math.exp(slice_step(density, math.log(df), 0.5, rng))


class LogDfOfWeighted(NamedTuple):
    """`LogDf` of observations with weights, n the sum of them."""

    distance: np.ndarray
    weight: np.ndarray
    z: np.ndarray
    k: int
    n: float
    d: int
    shape: float
    rate: float


@log_target.register(LogDfOfWeighted)
def _(density, x):
    df = math.exp(x)
    if df < LOWEST or df > HIGHEST:
        return -math.inf
    d = density.d
    tail = 0.0
    for i in range(density.distance.shape[0]):
        if density.k < 0 or density.z[i] == density.k:
            tail += density.weight[i] * math.log1p(density.distance[i] / df)
    constant = math.lgamma(0.5 * (df + d)) - math.lgamma(0.5 * df) - 0.5 * d * x
    value = density.shape * x - density.rate * df
    return value + density.n * constant - 0.5 * (df + d) * tail


@jit
def slice_df_of_weighted(df, distance, weight, z, k, n, d, shape, rate, rng):
    """One slice-sampling step on log(df)."""
    density = LogDfOfWeighted(distance, weight, z, k, n, d, shape, rate)
    return math.exp(slice_step(density, math.log(df), 0.5, rng))


@jit
def draw_sums_of_scales(scale, alpha, distance, weight, z, d, rng):
    """``draw_scales`` for observations of weight w: the sum of w scales."""
    for i in range(z.shape[0]):
        a = alpha[z[i]]
        scale[i] = rng.standard_gamma(weight[i] * (a + 0.5 * d)) / (a + 0.5 * distance[i])


class TailUpdate(Update):
    """Draws degrees of freedom (if they are learned) and scale variables (if there are any).

    Parameters
    ----------
    learn : {None, "shared", "each"}
        Keep the degrees of freedom, learn one value for all clusters, or one per cluster.
    shape, rate : float
        Gamma prior of the degrees of freedom.
    fraction : float
        Power-EP fraction, for the quadrature rules that depend on the degrees of freedom.
    first : bool
        Draw before the cluster parameters are drawn anew, given those of the sweep: for labels
        that were drawn with the scales integrated out, given parameters.
    """

    name = "tails"
    changes = frozenset({LIKELIHOOD})
    cluster_parameters = ("df",)

    def __init__(
        self,
        learn: str | None,
        shape: float = DF_PRIOR[0],
        rate: float = DF_PRIOR[1],
        fraction: float = 1.0,
        *,
        first: bool = False,
    ) -> None:
        self.first = first
        self.learn = learn
        self.shape = shape
        self.rate = rate
        self.fraction = fraction

    def draw(self, chain: Chain, rng: np.random.Generator) -> None:
        """Degrees of freedom given cluster parameters, then scales given both."""
        model, z, counts = chain.model, chain.z, chain.counts
        scaled = hasattr(model, "scale")
        if self.learn is None and not scaled:
            return
        n, d = model.y.shape
        distance = np.empty(n)
        distances(model.y, chain.parameters, z, distance)
        if isinstance(model, UnevenRows) and not model.alike:
            self._draw_weighted(model, z, distance, rng)
            return
        if self.learn == "shared":
            model.alpha[:] = 0.5 * slice_df(
                2.0 * model.alpha[0], distance, z, -1, n, d, self.shape, self.rate, rng
            )
        elif self.learn == "each":
            for k in range(model.alpha.size):
                model.alpha[k] = 0.5 * slice_df(
                    2.0 * model.alpha[k], distance, z, k, counts[k], d, self.shape, self.rate, rng
                )
        if scaled:
            draw_scales(model.scale, model.alpha, distance, z, d, rng)
        if self.learn is not None:
            self.follow(model)

    def _draw_weighted(
        self, model: UnevenRows, z: np.ndarray, distance: np.ndarray, rng: np.random.Generator
    ) -> None:
        """``draw`` for rows with weights; one outside every cluster says nothing of tails."""
        d = model.y.shape[1]
        told = np.where(z == model.noise_slot[0], 0.0, model.weight)
        prior = self.shape, self.rate
        alpha = model.alpha
        if self.learn == "shared":
            alpha[:] = 0.5 * slice_df_of_weighted(
                2.0 * alpha[0], distance, told, z, -1, told.sum(), d, *prior, rng
            )
        elif self.learn == "each":
            sizes = np.bincount(z, told, alpha.size)
            for k in range(alpha.size):
                alpha[k] = 0.5 * slice_df_of_weighted(
                    2.0 * alpha[k], distance, told, z, k, sizes[k], d, *prior, rng
                )
        draw_sums_of_scales(model.scale, alpha, distance, model.weight, z, d, rng)
        if self.learn is not None:
            self.follow(model)

    def grow(self, chain: Chain, start: int, rng: np.random.Generator) -> None:
        """Degrees of freedom of new slots from their prior, where each cluster has its own."""
        if self.learn != "each":
            return
        model = chain.model
        n = model.alpha.size - start
        model.alpha[start:] = 0.5 * draw_df(self.shape, self.rate, n, rng)
        self.follow(model)

    def log_density(self, chain: Chain) -> float:
        """Of the degrees of freedom (of occupied clusters) under their truncated gamma prior."""
        if self.learn is None:
            return 0.0
        alpha = chain.model.alpha
        df = 2.0 * (alpha[:1] if self.learn == "shared" else alpha[chain.counts > 0])
        ends = gammainc(self.shape, self.rate * np.array([LOWEST, HIGHEST]))
        constant = self.shape * math.log(self.rate) - math.lgamma(self.shape)
        constant -= math.log(ends[1] - ends[0])
        return float((constant + (self.shape - 1.0) * np.log(df) - self.rate * df).sum())

    def record(self, chain: Chain) -> dict[str, np.ndarray]:
        """Degrees of freedom per cluster."""
        return {"df": 2.0 * chain.model.alpha}

    def follow(self, model: Any) -> None:
        """Bring in line what a model keeps ready for its degrees of freedom."""
        if isinstance(model, UnevenRows):
            follow_tails(model)
            model = model.base
        if isinstance(model, StudentT):
            set_rules(model, self.fraction)
        elif isinstance(model, SampledStudentT):
            set_score_rule(model)
        elif isinstance(model, MarginalStudentT):
            set_log_norm(model.alpha, model.y.shape[1], model.log_norm)
