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
from cavity._numba.jit import Kernels, jit
from cavity._numba.slice_sampler import log_target, slice_step
from cavity.conjugate.common import shift_slots
from cavity.likelihoods.missing import member_weights, plain_rows
from cavity.likelihoods.negative_binomial import set_base
from cavity.likelihoods.poisson import count_totals
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


@jit
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
        self._kernels = Kernels()

    @property
    def name(self) -> str:  # type: ignore[override]
        """One name for each kind of counts, since a table may have both."""
        return "mean_hyperpriors" if self.given_rates else "rate_hyperpriors"

    def fresh(self) -> Self:
        """One that counts its own draws."""
        return type(self)(self.centre, self.given_rates, self.n_held)

    def draw(self, chain: Any, rng: np.random.Generator) -> None:
        """Draw shapes and means; set the family's prior."""
        self.n_drawn += 1
        if self.n_drawn[0] <= self.n_held:
            return
        family: Any = chain.family
        totals = np.empty((self.centre.size, 2, family.shape.shape[1]))
        if self.given_rates:
            totals[:, 0] = chain.parameters.rate
            totals[:, 1] = chain.parameters.log_rate
        elif (known := getattr(chain.model, "members", None)) is not None:
            totals[:, 0], totals[:, 1] = known[:, 1::2].T, known[:, 0::2].T
        else:
            y, weight = plain_rows(chain.model).y, member_weights(chain.model, chain.z)
            count_totals(y, weight, chain.z, totals)
        before = family.prior.copy()
        draw_gammas(family.prior, np.log(self.centre), totals, chain.counts, self.given_rates, rng)
        if not self.given_rates:
            self._kernels.run(shift_slots, family, before)
            chain.collapse.note_prior()

    def log_density(self, chain: Chain) -> float:
        """Of shapes and means under their priors."""
        a, b = chain.family.prior[0::2], chain.family.prior[1::2]
        ends = np.array([LEAST_SHAPE, MOST_SHAPE])
        inside = float(np.diff(ends / (TYPICAL_SHAPE + ends))[0])
        away = (np.log(a / b) - np.log(self.centre)) / MEAN_SPREAD
        shapes = math.log(TYPICAL_SHAPE / inside) - 2.0 * np.log(TYPICAL_SHAPE + a)
        means = -0.5 * away**2 - math.log(MEAN_SPREAD * math.sqrt(2.0 * math.pi)) - np.log(a / b)
        return float((shapes + means).sum())

    def record(self, chain: Chain) -> dict[str, np.ndarray]:
        """Shape and mean of every column's rates over clusters."""
        a, b = chain.family.prior[0::2], chain.family.prior[1::2]
        what = "mean_count" if self.given_rates else "rate"
        return {f"{what}_prior_shape": a.copy(), f"{what}_prior_mean": a / b}

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


@jit
def draw_dispersion(r, values, times, totals, rate, rng):
    """One slice step on log r."""
    density = LogDispersion(values, times, totals, rate)
    return math.exp(slice_step(density, math.log(r), 0.5, rng))


class DispersionUpdate(Update):
    """Draws the dispersion of every column of negative binomial counts given the drawn rates."""

    name = "dispersion"
    changes = frozenset({LIKELIHOOD})

    def __init__(self) -> None:
        self._values: list[tuple[np.ndarray, np.ndarray]] = []

    def fresh(self) -> Self:
        """One for another chain."""
        return type(self)()

    def draw(self, chain: Chain, rng: np.random.Generator) -> None:
        """Draw them, and bring the densities' constants in line."""
        model: Any = chain.model
        if not self._values:
            for y in model.y.T:
                values, times = np.unique(y[y >= 0.0], return_counts=True)
                self._values.append((values, times.astype(float)))
        totals = np.empty((model.y.shape[1], 2, chain.counts.size))
        count_totals(model.y, np.ones(chain.z.size), chain.z, totals)
        for j, (values, times) in enumerate(self._values):
            rate = np.ascontiguousarray(chain.parameters.rate[j])
            model.dispersion[j] = draw_dispersion(
                model.dispersion[j], values, times, totals[j], rate, rng
            )
        set_base(model)

    def log_density(self, chain: Chain) -> float:
        """Of the dispersions under their prior."""
        r = chain.model.dispersion
        ends = np.array([LEAST_DISPERSION, MOST_DISPERSION])
        inside = float(np.diff(ends / (TYPICAL_DISPERSION + ends))[0])
        constant = math.log(TYPICAL_DISPERSION / inside)
        return float((constant - 2.0 * np.log(TYPICAL_DISPERSION + r)).sum())

    def record(self, chain: Chain) -> dict[str, np.ndarray]:
        """The dispersion of every column."""
        return {"dispersion": chain.model.dispersion.copy()}
