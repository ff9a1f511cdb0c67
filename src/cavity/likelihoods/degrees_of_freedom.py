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

from cavity._numba.jit import Kernels, jit, verb
from cavity._numba.numerics import fast_log
from cavity._numba.slice_sampler import log_target, slice_step
from cavity.conjugate.nig import DiagonalParameters
from cavity.conjugate.normal import Tied
from cavity.interface import follow_df, log_weight, show, step
from cavity.likelihoods.gaussian import (
    ScaledGaussian,
    distances,
    draw_scales,
    log_norm,
    set_log_norms,
)
from cavity.likelihoods.missing import MissingOrWeightedRows, follow_tails, plain_rows
from cavity.likelihoods.sampled_student_t import (
    MarginalStudentT,
    SampledStudentT,
    set_score_rule,
)
from cavity.likelihoods.student_t import StudentT, set_rules
from cavity.updates import LIKELIHOOD, Chain, Update

LOWEST, HIGHEST = 0.5, 200.0
# Shape and rate of the gamma prior.
DF_PRIOR = (2.0, 0.1)
_NO_SCALES = np.empty(0)


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


FIXED, SHARED, EACH = 0, 1, 2


@jit
def draw_tails(y, alpha, scale, parameters, z, counts, distance, learn, shape, rate, rng):
    """Draw degrees of freedom given cluster parameters, then scales given both.

    `distance` is room for a number per observation; without observations `scale` is not drawn.
    """
    n, d = y.shape
    distances(y, parameters, z, distance)
    if learn == SHARED:
        shared = 0.5 * slice_df(2.0 * alpha[0], distance, z, -1, n, d, shape, rate, rng)
        for k in range(alpha.shape[0]):
            alpha[k] = shared
    elif learn == EACH:
        for k in range(alpha.shape[0]):
            df = 2.0 * alpha[k]
            alpha[k] = 0.5 * slice_df(df, distance, z, k, counts[k], d, shape, rate, rng)
    if scale.shape[0] > 0:
        draw_scales(scale, alpha, distance, z, d, rng)


@jit
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


@jit(internal=True)
def learn_weighted(alpha, distance, weight, z, noise, sizes, d, learn, shape, rate, rng):
    """Draw degrees of freedom given distances of weighted rows; those that are noise say nothing.

    `weight` gets zeros there, `sizes` is room for the clusters'.
    """
    n_slots = alpha.shape[0]
    total = 0.0
    for k in range(n_slots):
        sizes[k] = 0.0
    for i in range(z.shape[0]):
        if z[i] == noise:
            weight[i] = 0.0
        sizes[z[i]] += weight[i]
        total += weight[i]
    if learn == SHARED:
        df = 2.0 * alpha[0]
        df = slice_df_of_weighted(df, distance, weight, z, -1, total, d, shape, rate, rng)
        for k in range(n_slots):
            alpha[k] = 0.5 * df
    elif learn == EACH:
        for k in range(n_slots):
            df = 2.0 * alpha[k]
            df = slice_df_of_weighted(df, distance, weight, z, k, sizes[k], d, shape, rate, rng)
            alpha[k] = 0.5 * df


@jit(internal=True)
def draw_weighted_tails(model, parameters, z, distance, room, sizes, learn, shape, rate, rng):
    """``draw_tails`` of rows with weights, of which some may be noise."""
    base = model.base
    d = model.y.shape[1]
    distances(model.y, parameters, z, distance)
    for i in range(z.shape[0]):
        room[i] = model.weight[i]
    noise = model.noise_slot[0]
    learn_weighted(base.alpha, distance, room, z, noise, sizes, d, learn, shape, rate, rng)
    draw_sums_of_scales(base.scale, base.alpha, distance, model.weight, z, d, rng)


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


@verb
def draw_tails_of(model, update, parameters, z, counts, rng):
    """Draw a model's degrees of freedom given cluster parameters, then scales given both."""


@draw_tails_of.register(None)
def _(model, update, parameters, z, counts, rng):
    draw_tails(
        model.y,
        model.alpha,
        model.scale,
        parameters,
        z,
        counts,
        update.distance,
        update.learn,
        update.shape,
        update.rate,
        rng,
    )


@draw_tails_of.register(MissingOrWeightedRows)
def _(model, update, parameters, z, counts, rng):
    if update.weight.shape[0] > 0:
        draw_weighted_tails(
            model,
            parameters,
            z,
            update.distance,
            update.weight,
            update.sizes,
            update.learn,
            update.shape,
            update.rate,
            rng,
        )
    else:
        draw_tails_of(model.base, update, parameters, z, counts, rng)


@step.register(TailStep)
def _(update, state, parameters, prior, z, counts, rng):
    draw_tails_of(state.model, update, parameters, z, counts, rng)
    if update.learn != FIXED:
        follow_df(state.model)
    return 0


@log_weight.register(TailStep)
def _(update, state, parameters, prior, counts):
    alpha = update.alpha
    return df_log_density(alpha, counts, update.learn, update.shape, update.rate, update.constant)


@show.register(TailStep)
def _(update, state, parameters, prior, counts, out):
    alpha = update.alpha
    for k in range(alpha.shape[0]):
        out[k] = 2.0 * alpha[k]
    return alpha.shape[0]


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
        self._how = {None: FIXED, "shared": SHARED, "each": EACH}[learn]
        self._kernels = Kernels()
        self._distance = self._weight = np.empty(0)

    def draw(self, chain: Chain, rng: np.random.Generator) -> None:
        """Degrees of freedom given cluster parameters, then scales given both."""
        model = chain.model
        scale = getattr(model, "scale", _NO_SCALES)
        if self.learn is None and scale is _NO_SCALES:
            return
        if self._distance.size != len(model.y):
            self._distance = np.empty(len(model.y))
        if isinstance(model, MissingOrWeightedRows) and not model.alike:
            distances(model.y, chain.parameters, chain.z, self._distance)
            self._draw_weighted(model, chain.z, self._distance, rng)
            return
        self._kernels.run(
            draw_tails, model.y, model.alpha, scale, chain.parameters, chain.z, chain.counts,
            self._distance, self._how, self.shape, self.rate, rng,
        )  # fmt: skip
        if self.learn is not None:
            self.follow(model)

    def _draw_weighted(
        self,
        model: MissingOrWeightedRows,
        z: np.ndarray,
        distance: np.ndarray,
        rng: np.random.Generator,
    ) -> None:
        """``draw`` for rows with weights; one outside every cluster says nothing of tails."""
        d = model.y.shape[1]
        inside = np.where(z == model.noise_slot[0], 0.0, model.weight)
        self._learn(model.alpha, distance, inside, z, d, rng)
        draw_sums_of_scales(model.scale, model.alpha, distance, model.weight, z, d, rng)
        if self.learn is not None:
            self.follow(model)

    def _learn(
        self,
        alpha: np.ndarray,
        distance: np.ndarray,
        weight: np.ndarray,
        z: np.ndarray,
        d: int,
        rng: np.random.Generator,
    ) -> None:
        """Draw degrees of freedom, where they are learned, given distances of weighted rows."""
        rest = d, self.shape, self.rate, rng
        if self.learn == "shared":
            df = 2.0 * alpha[0]
            alpha[:] = 0.5 * slice_df_of_weighted(df, distance, weight, z, -1, weight.sum(), *rest)
        elif self.learn == "each":
            sizes = np.bincount(z, weight, alpha.size)
            for k in range(alpha.size):
                df = 2.0 * alpha[k]
                alpha[k] = 0.5 * slice_df_of_weighted(df, distance, weight, z, k, sizes[k], *rest)

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
        constant = _log_normaliser(self.shape, self.rate)
        given = self._how, self.shape, self.rate, constant
        return float(df_log_density(chain.model.alpha, chain.counts, *given))

    def kernel(self, chain: Chain) -> TailStep | None:
        """Return it for kernels, of models whose rows have a scale each."""
        model: Any = chain.model
        if not isinstance(plain_rows(model), SampledStudentT | ScaledGaussian):
            return None
        if self._distance.size != len(model.y):
            self._distance = np.empty(len(model.y))
            alike = not isinstance(model, MissingOrWeightedRows) or model.alike
            self._weight = np.empty(0 if alike else len(model.y))
        return TailStep(
            model.alpha, self._how, self.shape, self.rate, _log_normaliser(self.shape, self.rate),
            self._distance, self._weight, np.empty(chain.counts.size),
        )  # fmt: skip

    def shapes(self, chain: Chain) -> dict[str, tuple[int, ...]]:
        """Return the shape of the degrees of freedom per cluster."""
        return {"df": chain.model.alpha.shape}

    def record(self, chain: Chain) -> dict[str, np.ndarray]:
        """Degrees of freedom per cluster."""
        return {"df": 2.0 * chain.model.alpha}

    def follow(self, model: Any) -> None:
        """Bring in line what a model keeps ready for its degrees of freedom."""
        if isinstance(model, MissingOrWeightedRows):
            self._kernels.run(follow_tails, model)
            model = model.base
        if isinstance(model, StudentT):
            set_rules(model, self.fraction)
        elif isinstance(model, SampledStudentT):
            set_score_rule(model)
        elif isinstance(model, MarginalStudentT):
            set_log_norms(model.alpha, model.y.shape[1], model.log_norm)


def filled_distances(y: np.ndarray, parameters: Any, z: np.ndarray) -> np.ndarray:
    """Squared distance of every row, its gaps filled, from its own cluster.

    Examples
    --------
    >>> from cavity.conjugate.nig import DiagonalParameters
    >>> two = DiagonalParameters(np.array([[0.0, 5.0]]), np.array([[1.0, 4.0]]))
    >>> filled_distances(np.array([[3.0], [3.0]]), two, np.array([0, 1])).tolist()
    [9.0, 1.0]
    """
    away = y - parameters.mean.T[z]
    if isinstance(parameters, DiagonalParameters):
        return np.asarray((away * away / parameters.variance.T[z]).sum(axis=1))
    covariance = parameters.covariance
    if isinstance(covariance, Tied):
        return np.square(away @ covariance.whiten.T).sum(axis=1)
    out = np.empty(len(y))
    order = np.argsort(z, kind="stable")
    ends = np.searchsorted(z[order], np.arange(parameters.mean.shape[1] + 1))
    for k in np.flatnonzero(np.diff(ends)):
        own = order[ends[k] : ends[k + 1]]
        white = away[own] * covariance.root[:, k]
        inside = white @ covariance.project[:, :, k].T
        out[own] = np.square(white).sum(axis=1) - np.square(inside).sum(axis=1)
    return np.maximum(out, 0.0)


class ScaleMixtureTailUpdate(TailUpdate):
    """Draws degrees of freedom with scales integrated out, then scales, given the parameters.

    The scale of a row outside every cluster has its prior.
    """

    def draw(self, chain: Chain, rng: np.random.Generator) -> None:
        """Degrees of freedom (if they are learned) given cluster parameters, then scales."""
        model: Any = chain.model
        d = model.y.shape[1]
        z, alpha = chain.z, model.alpha
        outside = z == model.noise_slot[0]
        distance = np.where(outside, 0.0, filled_distances(model.y, chain.parameters, z))
        inside = np.where(outside, 0.0, model.weight)
        self._learn(alpha, distance, inside, z, d, rng)
        own = alpha[z]
        shape = model.weight * (own + np.where(outside, 0.0, 0.5 * d))
        drawn = rng.standard_gamma(shape) / (own + 0.5 * distance)
        # A gamma of tiny shape can round to nought.
        model.scale[:] = np.maximum(drawn, 1e-280)

    def kernel(self, chain: Chain) -> None:
        """Return nothing: it draws in Python."""

    def follow(self, model: Any) -> None:
        """Nothing is kept ready for the degrees of freedom."""
