"""Degrees of freedom and scale variables of Student-t clusters, drawn given cluster parameters.

The degrees of freedom have a Gamma(2, 0.1) prior by default (mean 20: it allows both heavy tails
and near-Gaussian clusters), cut to [0.5, 200]. They are drawn with the scale variables integrated
out, by a slice step on their logarithm; scale variables are drawn afterwards.
"""

from __future__ import annotations

import functools
import math
from typing import Any, NamedTuple

import numpy as np
from scipy.special import gammainc

from cavity._numba.jit import jit, verb
from cavity._numba.numerics import fast_log
from cavity._numba.slice_sampler import log_target, slice_step
from cavity.conjugate.nig import DiagonalParameters
from cavity.conjugate.normal import MeanParameters, length_of
from cavity.interface import follow_df, log_weight, show, step
from cavity.likelihoods.gaussian import distances, draw_scales, log_norm
from cavity.likelihoods.missing import MissingOrWeightedRows
from cavity.likelihoods.scale_mixture_rows import ScaleMixtureRows
from cavity.likelihoods.student_t import StudentT
from cavity.priors.cluster import DF_PRIOR
from cavity.updates import LIKELIHOOD, Chain, Update

LOWEST, HIGHEST = 0.5, 200.0


def draw_df(shape: float, rate: float, n: int, rng: np.random.Generator) -> np.ndarray:
    """N degrees of freedom from their prior."""
    out = rng.gamma(shape, 1.0 / rate, n)
    while (outside := (out < LOWEST) | (out > HIGHEST)).any():
        out[outside] = rng.gamma(shape, 1.0 / rate, int(outside.sum()))
    return out


@functools.cache
def _log_normaliser(shape: float, rate: float) -> float:
    """Of the truncated gamma prior of one cluster's degrees of freedom."""
    low, high = gammainc(shape, [rate * LOWEST, rate * HIGHEST])
    return shape * math.log(rate) - math.lgamma(shape) - math.log(high - low)


@jit(reassoc=True, internal=True)
def log_tail(distance, z, k, df):
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
        tail = log_tail(density.distance, density.z, density.k, df)
        value += density.n * log_norm(0.5 * df, density.d) - 0.5 * (df + density.d) * tail
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
    tail = 0.0
    for i in range(density.distance.shape[0]):
        if density.k < 0 or density.z[i] == density.k:
            tail += density.weight[i] * math.log1p(density.distance[i] / df)
    value = density.shape * x - density.rate * df
    value += density.n * log_norm(0.5 * df, density.d)
    return value - 0.5 * (df + density.d) * tail


@jit(internal=True)
def slice_df_of_weighted(df, distance, weight, z, k, n, d, shape, rate, rng):
    """One slice-sampling step on log(df)."""
    density = LogDfOfWeighted(distance, weight, z, k, n, d, shape, rate)
    return math.exp(slice_step(density, math.log(df), 0.5, rng))


@jit(internal=True)
def draw_sums_of_scales(scale, alpha, distance, weight, z, d, rng):
    """``draw_scales`` for observations of weight w: the sum of w scales."""
    for i in range(z.shape[0]):
        a = alpha[z[i]]
        scale[i] = rng.standard_gamma(weight[i] * (a + 0.5 * d)) / (a + 0.5 * distance[i])


FIXED, SHARED, EACH = 0, 1, 2


@jit(internal=True)
def df_log_density(alpha, counts, learn, shape, rate, constant):
    """Log density of the degrees of freedom (of occupied clusters) under their prior."""
    if learn == FIXED:
        return 0.0
    total = 0.0
    for k in range(alpha.shape[0]):
        if learn == SHARED or counts[k] > 0:
            df = 2.0 * alpha[k]
            total += constant + (shape - 1.0) * math.log(df) - rate * df
            if learn == SHARED:
                break
    return total


@verb
def filled_distance(parameters, k, y):
    """Squared distance of a row, its gaps filled, from cluster k."""


@filled_distance.register(DiagonalParameters)
def _(parameters, k, y):
    total = 0.0
    for c in range(y.shape[0]):
        away = y[c] - parameters.mean[c, k]
        total += away * away / parameters.variance[c, k]
    return total


@filled_distance.register(MeanParameters)
def _(parameters, k, y):
    return length_of(parameters.covariance, k, y, parameters.mean[:, k], 1.0)[0]


@jit(internal=True)
def distance_of_filled(parameters, k, y):
    """``filled_distance`` as a call."""
    return filled_distance(parameters, k, y)


class TailStep(NamedTuple):
    """`TailUpdate` for kernels."""

    alpha: np.ndarray  # (slots,), the model's
    learn: int
    shape: float
    rate: float
    constant: float  # log normalizer of the prior
    distance: np.ndarray  # (n,)
    weight: np.ndarray  # (n,)
    sizes: np.ndarray  # (slots,)


@jit(internal=True)
def draw_tails(model, scale, update, parameters, z, counts, rng):
    """Draw degrees of freedom given cluster parameters, then any scales given both."""
    alpha, distance = update.alpha, update.distance
    n, d = model.y.shape
    shape, rate = update.shape, update.rate
    distances(model.y, parameters, z, distance)
    if update.learn == SHARED:
        df = slice_df(2.0 * alpha[0], distance, z, -1, n, d, shape, rate, rng)
        for k in range(alpha.shape[0]):
            alpha[k] = 0.5 * df
    elif update.learn == EACH:
        for k in range(alpha.shape[0]):
            df = slice_df(2.0 * alpha[k], distance, z, k, counts[k], d, shape, rate, rng)
            alpha[k] = 0.5 * df
    if scale.shape[0] > 0:
        draw_scales(scale, alpha, distance, z, d, rng)


@jit(internal=True)
def learn_weighted(model, update, z, rng):
    """Draw degrees of freedom given distances of weighted rows; noise says nothing of them."""
    alpha, distance, weight, sizes = update.alpha, update.distance, update.weight, update.sizes
    d, shape, rate = model.y.shape[1], update.shape, update.rate
    total = 0.0
    for k in range(alpha.shape[0]):
        sizes[k] = 0.0
    for i in range(z.shape[0]):
        weight[i] = 0.0 if z[i] == model.noise_slot[0] else model.weight[i]
        sizes[z[i]] += weight[i]
        total += weight[i]
    if update.learn == SHARED:
        df = 2.0 * alpha[0]
        df = slice_df_of_weighted(df, distance, weight, z, -1, total, d, shape, rate, rng)
        for k in range(alpha.shape[0]):
            alpha[k] = 0.5 * df
    elif update.learn == EACH:
        for k in range(alpha.shape[0]):
            df = 2.0 * alpha[k]
            df = slice_df_of_weighted(df, distance, weight, z, k, sizes[k], d, shape, rate, rng)
            alpha[k] = 0.5 * df


@verb
def draw_tails_of(model, update, parameters, z, counts, rng):
    """Draw a model's degrees of freedom given cluster parameters, then scales given both."""


@draw_tails_of.register(None)
def _(model, update, parameters, z, counts, rng):
    draw_tails(model, model.scale, update, parameters, z, counts, rng)


@draw_tails_of.register(StudentT)
def _(model, update, parameters, z, counts, rng):
    # Its sites have the scales integrated out.
    if update.learn != FIXED:
        draw_tails(model, update.distance[:0], update, parameters, z, counts, rng)


@draw_tails_of.register(MissingOrWeightedRows)
def _(model, update, parameters, z, counts, rng):
    if update.weight.shape[0] == 0:
        draw_tails_of(model.base, update, parameters, z, counts, rng)
        return
    distances(model.y, parameters, z, update.distance)
    learn_weighted(model, update, z, rng)
    d = model.y.shape[1]
    scale, weight = model.base.scale, model.weight
    draw_sums_of_scales(scale, update.alpha, update.distance, weight, z, d, rng)


@draw_tails_of.register(ScaleMixtureRows)
def _(model, update, parameters, z, counts, rng):
    # A row outside every cluster has a scale from its prior.
    distance, noise = update.distance, model.noise_slot[0]
    for i in range(z.shape[0]):
        k = np.int64(z[i])
        distance[i] = 0.0 if k == noise else distance_of_filled(parameters, k, model.y[i])
    learn_weighted(model, update, z, rng)
    for i in range(z.shape[0]):
        a = update.alpha[z[i]]
        half = 0.0 if z[i] == noise else 0.5 * model.y.shape[1]
        drawn = rng.standard_gamma(model.weight[i] * (a + half)) / (a + 0.5 * distance[i])
        # A gamma of tiny shape can round to nought.
        model.scale[i] = max(drawn, 1e-280)


@step.register(TailStep)
def _(update, model, family, parameters, prior, z, counts, rng):
    draw_tails_of(model, update, parameters, z, counts, rng)
    if update.learn != FIXED:
        follow_df(model)
    return 0


@log_weight.register(TailStep)
def _(update, model, family, parameters, prior, counts):
    alpha = update.alpha
    return df_log_density(alpha, counts, update.learn, update.shape, update.rate, update.constant)


@show.register(TailStep)
def _(update, model, family, parameters, prior, counts, out):
    alpha = update.alpha
    for k in range(alpha.shape[0]):
        out[k] = 2.0 * alpha[k]
    return alpha.shape[0]


def follow_alone(model):
    """``follow_df`` as an entry kernel."""
    follow_df(model)


class TailUpdate(Update):
    """Draws degrees of freedom (if they are learned) and scale variables (if there are any).

    Parameters
    ----------
    learn : {None, "shared", "each"}
        Keep the degrees of freedom, learn one value for all clusters, or one per cluster.
    shape, rate : float
        Gamma prior of the degrees of freedom.
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
        *,
        first: bool = False,
    ) -> None:
        self.first = first
        self.learn = learn
        self.shape = shape
        self.rate = rate
        self._how = {None: FIXED, "shared": SHARED, "each": EACH}[learn]
        self._distance = self._weight = np.empty(0)

    def grow(self, chain: Chain, start: int, rng: np.random.Generator) -> None:
        """Degrees of freedom of new slots from their prior, where each cluster has its own."""
        if self.learn != "each":
            return
        model = chain.model
        n = model.alpha.size - start
        model.alpha[start:] = 0.5 * draw_df(self.shape, self.rate, n, rng)
        self.follow(model)

    def kernel(self, chain: Chain) -> TailStep:
        """Return it for kernels."""
        model: Any = chain.model
        if self._distance.size != len(model.y):
            alike = isinstance(model, MissingOrWeightedRows) and model.alike
            alike = alike or not isinstance(model, MissingOrWeightedRows | ScaleMixtureRows)
            self._distance = np.empty(len(model.y))
            self._weight = np.empty(0 if alike else len(model.y))
        return TailStep(
            model.alpha, self._how, self.shape, self.rate, _log_normaliser(self.shape, self.rate),
            self._distance, self._weight, np.empty(chain.counts.size),
        )  # fmt: skip

    def shapes(self, chain: Chain) -> dict[str, tuple[int, ...]]:
        """Return the shape of the degrees of freedom per cluster."""
        return {"df": chain.model.alpha.shape}

    def follow(self, model: Any) -> None:
        """Bring in line what a model keeps ready for its degrees of freedom."""
        self._kernels.run(follow_alone, model)
