"""What clusters' rates of counts have in common, and the dispersion of counts, learned.

Rates of a column ~ Gamma(a, a / m): m is the mean over clusters, a says how alike these are.
log m ~ N(log c, 1.5^2), c the mean of the column's counts plus a half, and a has density
1 / (1 + a)^2 between 0.1 and 1e4. The dispersion r of a negative binomial column has density
t / (t + r)^2 with median t = 10, between 0.05 and 1e4.

For Poisson counts a and m are drawn with the rates integrated out, given the number n_k and sum
S_k of every cluster's cells, by slice steps on their logarithms: with b = a / m,

    sum over clusters of  a log b - lnGamma(a) + lnGamma(a + S_k) - (a + S_k) log(b + n_k).

Of negative binomial counts the rates are given instead, as drawn; so is the dispersion's step.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, NamedTuple, Self

import numpy as np

from cavity._numba.arrays import fitting, saved_array
from cavity._numba.jit import jit, verb
from cavity._numba.slice_sampler import log_target, slice_step
from cavity.conjugate.common import shift_slots
from cavity.conjugate.selected import pool_counts
from cavity.interface import log_weight, show, step
from cavity.likelihoods.missing import rows_of, weight_of
from cavity.likelihoods.negative_binomial import set_base
from cavity.updates import CLUSTER_PRIOR, LIKELIHOOD, Chain, Update

LEAST_SHAPE, MOST_SHAPE = 0.1, 1e4
TYPICAL_SHAPE = 1.0
MEAN_SPREAD = 1.5
LEAST_DISPERSION, MOST_DISPERSION = 0.05, 1e4
TYPICAL_DISPERSION = 10.0


class LogGamma(NamedTuple):
    """Density of log a (``which`` = 0) or of log m (1) given the clusters of one column."""

    which: int
    other: float  # the one that is given
    centre: float  # log c
    totals: np.ndarray  # (2, slots): cells and their sum; or rate and its logarithm
    counts: np.ndarray  # (slots,)
    given: bool  # whether the rates are given


@log_target.register(LogGamma)
def _(density, x):
    a = math.exp(x) if density.which == 0 else density.other
    m = density.other if density.which == 0 else math.exp(x)
    if a < LEAST_SHAPE or a > MOST_SHAPE:
        return -math.inf
    away = (math.log(m) - density.centre) / MEAN_SPREAD
    value = -0.5 * away * away
    if density.which == 0:
        value += x - 2.0 * math.log(TYPICAL_SHAPE + a)
    b = a / m
    own = a * math.log(b) - math.lgamma(a)
    for k in range(density.counts.shape[0]):
        if density.counts[k] == 0:
            continue
        if density.given:
            value += own + a * density.totals[1, k] - b * density.totals[0, k]
        elif density.totals[0, k] > 0.0:
            after = a + density.totals[1, k]
            value += own + math.lgamma(after) - after * math.log(b + density.totals[0, k])
    return value


@jit(internal=True)
def draw_gammas(prior, centre, totals, counts, given, rng):
    """Draw shape and mean of every column's rates in place."""
    for j in range(centre.shape[0]):
        a = prior[2 * j]
        m = a / prior[2 * j + 1]
        density = LogGamma(0, m, centre[j], totals[j], counts, given)
        a = math.exp(slice_step(density, math.log(a), 1.0, rng))
        density = LogGamma(1, a, centre[j], totals[j], counts, given)
        m = math.exp(slice_step(density, math.log(m), 1.0, rng))
        prior[2 * j] = a
        prior[2 * j + 1] = a / m


@jit(internal=True)
def count_totals(model, z, out):
    """Write the cells of every cluster and their sum, (columns, 2, slots)."""
    y = rows_of(model).y
    for j in range(out.shape[0]):
        for part in range(2):
            for k in range(out.shape[2]):
                out[j, part, k] = 0.0
    for i in range(y.shape[0]):
        weight = weight_of(model, z, i)
        for j in range(y.shape[1]):
            if y[i, j] >= 0.0:
                out[j, 0, z[i]] += weight
                out[j, 1, z[i]] += weight * y[i, j]


@verb
def total_members(model, z, out):
    """``count_totals``, or what stands in its place."""


@total_members.register(None)
def _(model, z, out):
    count_totals(model, z, out)


class RateStep(NamedTuple):
    """`RateHyperpriors` for kernels."""

    centre: np.ndarray  # (columns,), log c
    totals: np.ndarray  # (columns, 2, slots)
    before: np.ndarray  # (2 columns,)
    n_drawn: np.ndarray  # (1,)
    n_held: int
    given: bool  # whether the rates are given


@step.register(RateStep)
def _(update, model, family, parameters, prior, z, counts, rng):
    update.n_drawn[0] += 1
    if update.n_drawn[0] <= update.n_held:
        return 0
    natural, totals, before = family.prior, update.totals, update.before
    for p in range(before.shape[0]):
        before[p] = natural[p]
    if update.given:
        for j in range(totals.shape[0]):
            for k in range(totals.shape[2]):
                totals[j, 0, k] = parameters.rate[j, k]
                totals[j, 1, k] = parameters.log_rate[j, k]
    else:
        total_members(model, z, totals)
        pool_counts(family, totals, counts)
    draw_gammas(natural, update.centre, totals, counts, update.given, rng)
    if not update.given:
        shift_slots(family, before)
    return 0


@log_weight.register(RateStep)
def _(update, model, family, parameters, prior, counts):
    inside = MOST_SHAPE / (TYPICAL_SHAPE + MOST_SHAPE) - LEAST_SHAPE / (TYPICAL_SHAPE + LEAST_SHAPE)
    constant = math.log(TYPICAL_SHAPE / inside) - math.log(MEAN_SPREAD * math.sqrt(2.0 * math.pi))
    total = 0.0
    for j in range(update.centre.shape[0]):
        a = family.prior[2 * j]
        log_mean = math.log(a / family.prior[2 * j + 1])
        away = (log_mean - update.centre[j]) / MEAN_SPREAD
        total += constant - 2.0 * math.log(TYPICAL_SHAPE + a) - 0.5 * away * away - log_mean
    return total


@show.register(RateStep)
def _(update, model, family, parameters, prior, counts, out):
    n_columns = update.centre.shape[0]
    for j in range(n_columns):
        out[j] = family.prior[2 * j]
        out[n_columns + j] = out[j] / family.prior[2 * j + 1]
    return 2 * n_columns


class RateHyperpriors(Update):
    """Learns what the clusters' rates have in common, for a part of counts.

    Parameters
    ----------
    centre : array, shape (columns,)
        Prior medians of the mean rates.
    given_rates : bool
        Whether it is drawn given the drawn rates; else given the labels alone, before these.
    n_held : int
        Draws at the beginning that are left out.
    """

    changes = frozenset({CLUSTER_PRIOR})

    def __init__(self, centre: np.ndarray, given_rates: bool, n_held: int = 0) -> None:
        self.centre = np.asarray(centre, dtype=float)
        self.given_rates = given_rates
        self.first = not given_rates
        self.n_held = n_held
        self.n_drawn = np.zeros(1, dtype=np.int64)
        self._totals = np.empty((0, 2, 0))

    @property
    def name(self) -> str:  # type: ignore[override]
        """One name for each kind of counts, since a table may have both."""
        return "mean_hyperpriors" if self.given_rates else "rate_hyperpriors"

    def fresh(self) -> Self:
        """One that counts its own draws."""
        return type(self)(self.centre, self.given_rates, self.n_held)

    def kernel(self, chain: Chain) -> RateStep:
        """Return it for kernels."""
        shape = self.centre.size, 2, chain.family.shape.shape[1]
        if self._totals.shape != shape:
            self._totals = np.empty(shape)
        return RateStep(
            np.log(self.centre), self._totals, np.empty(2 * self.centre.size), self.n_drawn,
            self.n_held, self.given_rates,
        )  # fmt: skip

    def shapes(self, chain: Chain) -> dict[str, tuple[int, ...]]:
        """Return shapes of shape and mean of every column's rates over clusters."""
        what = "mean_count" if self.given_rates else "rate"
        return dict.fromkeys((f"{what}_prior_shape", f"{what}_prior_mean"), self.centre.shape)

    def arrays(self) -> dict[str, np.ndarray]:
        """How often it was asked to draw."""
        return {"n_drawn": self.n_drawn.copy()}

    def restore(self, arrays: Mapping[str, np.ndarray], chain: Chain) -> None:
        """Continue from ``arrays``."""
        self.n_drawn = fitting(saved_array(arrays, "n_drawn"), self.n_drawn, "n_drawn")


class LogDispersion(NamedTuple):
    """Density of log r of one column given the rates of the clusters."""

    values: np.ndarray  # distinct counts
    times: np.ndarray  # how often each occurs
    totals: np.ndarray  # (2, slots): cells and their sum
    rate: np.ndarray  # (slots,)


@log_target.register(LogDispersion)
def _(density, x):
    r = math.exp(x)
    if r < LEAST_DISPERSION or r > MOST_DISPERSION:
        return -math.inf
    value = x - 2.0 * math.log(TYPICAL_DISPERSION + r)
    base = r * math.log(r) - math.lgamma(r)
    for v in range(density.values.shape[0]):
        value += density.times[v] * (base + math.lgamma(density.values[v] + r))
    for k in range(density.rate.shape[0]):
        cells = density.totals[0, k]
        if cells > 0.0:
            value -= (density.totals[1, k] + cells * r) * math.log(r + density.rate[k])
    return value


class DispersionStep(NamedTuple):
    """`DispersionUpdate` for kernels."""

    totals: np.ndarray  # (columns, 2, slots)
    values: np.ndarray  # distinct counts, column after column
    times: np.ndarray  # how often each occurs
    start: np.ndarray  # (columns + 1,), where those of each column begin


@step.register(DispersionStep)
def _(update, model, family, parameters, prior, z, counts, rng):
    count_totals(model, z, update.totals)
    for j in range(model.dispersion.shape[0]):
        own = slice(update.start[j], update.start[j + 1])
        density = LogDispersion(
            update.values[own], update.times[own], update.totals[j], parameters.rate[j]
        )
        x = slice_step(density, math.log(model.dispersion[j]), 0.5, rng)
        model.dispersion[j] = math.exp(x)
    set_base(model)
    return 0


@log_weight.register(DispersionStep)
def _(update, model, family, parameters, prior, counts):
    typical = TYPICAL_DISPERSION
    inside = MOST_DISPERSION / (typical + MOST_DISPERSION)
    inside -= LEAST_DISPERSION / (typical + LEAST_DISPERSION)
    total = 0.0
    for j in range(model.dispersion.shape[0]):
        total += math.log(typical / inside) - 2.0 * math.log(typical + model.dispersion[j])
    return total


@show.register(DispersionStep)
def _(update, model, family, parameters, prior, counts, out):
    for j in range(model.dispersion.shape[0]):
        out[j] = model.dispersion[j]
    return model.dispersion.shape[0]


class DispersionUpdate(Update):
    """Draws the dispersion of every column of negative binomial counts given the drawn rates."""

    name = "dispersion"
    changes = frozenset({LIKELIHOOD})

    def __init__(self) -> None:
        self._counted: tuple[Any, ...] = ()

    def fresh(self) -> Self:
        """One for another chain."""
        return type(self)()

    def kernel(self, chain: Chain) -> DispersionStep:
        """Return it for kernels."""
        model: Any = chain.model
        if not self._counted:
            found = [np.unique(y[y >= 0.0], return_counts=True) for y in model.y.T]
            start = np.cumsum([0, *(len(values) for values, _ in found)])
            both = (np.concatenate(part).astype(float) for part in zip(*found, strict=True))
            self._counted = *both, start
        totals = np.empty((model.y.shape[1], 2, chain.counts.size))
        return DispersionStep(totals, *self._counted)

    def shapes(self, chain: Chain) -> dict[str, tuple[int, ...]]:
        """Return the shape of the dispersions of all columns."""
        return {"dispersion": chain.model.dispersion.shape}
