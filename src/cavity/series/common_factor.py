"""The common factor g of all series: the rule that finds one, its draws and its moves.

    x_it = a_i x_i,t-1 + loading_i eta_kt + common_i g_t + N(0, var_x),   g_t ~ N(0, 1)
    common_i ~ N(m, v), m and v learned

Its loadings are drawn with the series' autoregression and loading (``parameters.draw_dynamics``).
The factor itself is drawn twice in a sweep: given the clusters' factors with the states integrated
out, and given the states with the clusters' factors integrated out. Movements shared by all
clusters can then pass from their factors to it. Three moves leave the likelihood unchanged and are
drawn exactly:

* ``tilt_clusters``: common_i -> common_i + d loading_i, eta_k -> eta_k - d g, for a whole cluster;
* ``rescale_common``: the scale of g against its loadings, their population with them;
* the sign of both.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from cavity._numba.arrays import fitting, saved_array
from cavity._numba.jit import jit
from cavity._numba.slice_sampler import slice_step
from cavity.posterior.units import SeriesUnits
from cavity.series.cluster_information import (
    add_information,
    describe_prepared,
    draw_factor,
    factorize,
    start_information,
)
from cavity.series.data import SeriesData
from cavity.series.initialization import starting_dynamics, starting_levels, starting_waves
from cavity.series.kalman import Dynamics, prepare
from cavity.series.moves import (
    COMMON_SQUARE,
    LOADING_COMMON,
    LOADING_SQUARE,
    LogScale,
    scale_with_population,
)
from cavity.series.parameters import (
    LEAST_VARIANCE,
    MOST_VARIANCE,
    Hyperprior,
    Moving,
    SeriesPriors,
    draw_normal_population,
    log_inverse_gamma,
    log_normal,
)
from cavity.series.state_space import DRIFT, FactorSeries
from cavity.updates import LIKELIHOOD, Chain, Update

# Series looked at, spread evenly; times that a pair must have in common, on average.
_MOST_SERIES, _FEWEST_TIMES = 400, 20
# The strongest direction of the steps against the next one, and how evenly all take part in it.
_STRONGER, _EVEN = 2.0, 0.9


def common_factor_words(asked: bool | str, has_one: bool, n_times: int) -> str:
    """Describe whether a common movement was removed, and why; empty if it was not requested.

    Parameters
    ----------
    asked : bool or "auto"
        The estimator's `common_factor`.
    has_one : bool
    n_times : int

    Examples
    --------
    >>> print(common_factor_words("auto", False, 17))
    17 times are too few to detect a movement that all series share (21 are needed). None was
    removed.
    """
    removed = "was removed. Clusters describe the rest."
    if has_one:
        if asked == "auto":
            return f"All series share a movement. It {removed}"
        return f"As requested, a movement that all series share {removed}"
    if asked != "auto":
        return ""
    if n_times <= _FEWEST_TIMES:
        return (
            f"{n_times} times are too few to detect a movement that all series share "
            f"({_FEWEST_TIMES + 1} are needed). None was removed."
        )
    return (
        "No movement that all series share was detected, or the series have too few times in "
        "common. None was removed."
    )


def move_together(data: SeriesData, units: SeriesUnits) -> bool:
    """Return whether one movement is shared by nearly all series.

    The leading eigenvalue of the correlations between the series' steps, outliers clipped, is
    compared with the next: clusters without a common factor have several of about the same size,
    and a single large cluster has few series in its own. docs/studies.md has the evidence.
    """
    n = len(data.y)
    if n < 4:
        return False
    chosen = np.unique(np.linspace(0, n - 1, min(n, _MOST_SERIES)).astype(int))
    y, count = data.y[chosen], data.count[chosen]
    scale = units.scale[chosen]
    n_given = len(data.given_covariates)
    levels = units.centre + starting_levels(y, count, units.centre, scale) * scale
    a = starting_dynamics(y, count, levels, scale)["a"]
    with np.errstate(invalid="ignore"):
        e = np.clip((y - levels[:, None]) / scale[:, None], -3.0, 3.0)
    if n_given < data.covariates.shape[2]:
        # A season that is in the model already is no common factor.
        waves = data.covariates[chosen][..., n_given:] - units.covariate_centre[n_given:]
        part = replace(data, y=y, count=count)
        e -= np.einsum("itc,ic->it", waves, starting_waves(part, levels, scale, waves, a))
    steps = e[:, 1:] - a * e[:, :-1]
    known = (count[:, 1:] > 0) & (count[:, :-1] > 0)
    shared = known.astype(float) @ known.T
    if not known.size or np.median(shared) < _FEWEST_TIMES:
        return False
    total = np.maximum(known.sum(1, keepdims=True), 1)
    steps = np.where(known, steps, 0.0)
    steps = np.where(known, steps - steps.sum(1, keepdims=True) / total, 0.0)
    spread = np.sqrt((steps**2).sum(1, keepdims=True) / total)
    varied = spread[:, 0] > 1e-9
    if varied.sum() < 4:
        return False
    steps = steps[varied] / spread[varied]
    correlation = steps @ steps.T / np.maximum(shared[np.ix_(varied, varied)], 1.0)
    np.fill_diagonal(correlation, 1.0)
    values, vectors = np.linalg.eigh(correlation)
    evenness = np.abs(vectors[:, -1]).sum() ** 2 / len(vectors)
    return bool(values[-1] > _STRONGER * values[-2] and evenness > _EVEN)


# Sweeps in which all series have the same loading of g. A factor whose loadings are free before the
# labels have settled becomes that of one cluster, and two others are merged for good.
SETTLING = 40


@jit
def draw_common_jointly(m, z, paths, matrix, products, rng):
    """Draw g given the clusters' factors, every state integrated out: exact."""
    own = m.own
    row = m.scratch.row
    start_information(matrix)
    for i in range(z.shape[0]):
        k = np.int64(z[i])
        prepare(m, row, i)
        # Now the cluster's factor is what is known of the drift, and the common one is not.
        for t in range(row.shape[1]):
            row[DRIFT, t] += own.common[i] * own.common_factor[t]
            row[DRIFT, t] -= own.loading[i] * paths.value[t, k]
        describe_prepared(row, Dynamics(own.a[i], own.common[i], own.var_x[0], own.var_x0[0]), 0.0)
        add_information(row, matrix, matrix, 1.0, products)
    factorize(matrix)
    draw_factor(matrix, own.common_factor, rng)


@jit
def draw_common_given_states(m, sums, rng):
    """Draw g given the states, the clusters' factors integrated out; these must be drawn next.

    With e_i the steps of a cluster's members, e - common g is normal with covariance
    var_x I + loading loading'. The sums are brought up to date.
    """
    g = m.own.common_factor
    n_slots = sums.scalars.shape[0]
    var_x = m.own.var_x[0]
    precision = 1.0
    for k in range(n_slots):
        own = sums.scalars[k]
        share = own[LOADING_COMMON] / (var_x + own[LOADING_SQUARE])
        precision += max(own[COMMON_SQUARE] - share * own[LOADING_COMMON], 0.0) / var_x
    sd = 1.0 / math.sqrt(precision)
    for t in range(g.shape[0]):
        # The sums are of steps less the present g: this draws the change.
        pull = -g[t]
        for k in range(n_slots):
            own = sums.scalars[k]
            share = own[LOADING_COMMON] / (var_x + own[LOADING_SQUARE])
            pull += (sums.common_pull[t, k] - share * sums.pull[t, k]) / var_x
        step = pull / precision + sd * rng.standard_normal()
        g[t] += step
        for k in range(n_slots):
            sums.pull[t, k] -= sums.scalars[k, LOADING_COMMON] * step
            sums.common_pull[t, k] -= sums.scalars[k, COMMON_SQUARE] * step


@jit
def tilt_clusters(m, z, paths, sizes, tilts, rng):
    """Draw, for each cluster, how much of g its own factor holds: a normal distribution.

    Only priors decide: those of the members' loadings of g and of the cluster's factor.
    """
    own = m.own
    g = own.common_factor
    mean = own.common_population[0]
    precision = own.common_population[1]
    n_slots = tilts.shape[0]
    square = 0.0
    for t in range(g.shape[0]):
        square += g[t] * g[t]
    for k in range(n_slots):
        # The pull first, replaced by the tilt below; sizes has the information.
        tilts[k] = 0.0
        sizes[k] = 0.0
    for i in range(z.shape[0]):
        k = z[i]
        sizes[k] += precision * own.loading[i] * own.loading[i]
        tilts[k] -= precision * own.loading[i] * (own.common[i] - mean)
    for k in range(n_slots):
        if sizes[k] == 0.0:
            tilts[k] = 0.0
            continue
        for t in range(g.shape[0]):
            tilts[k] += paths.value[t, k] * g[t]
        information = sizes[k] + square
        tilts[k] = tilts[k] / information + rng.standard_normal() / math.sqrt(information)
        for t in range(g.shape[0]):
            paths.value[t, k] -= tilts[k] * g[t]
    for i in range(z.shape[0]):
        own.common[i] += tilts[z[i]] * own.loading[i]


@jit
def rescale_common(own, hyper, rng):
    """Draw the scale of g against its loadings, and their population's if that is learned."""
    g = own.common_factor
    n_times = g.shape[0]
    n = own.common.shape[0]
    square = 0.0
    for t in range(n_times):
        square += g[t] * g[t]
    mean = own.common_population[0]
    precision = own.common_population[1]
    if hyper.learned:
        density = scale_with_population(float(n_times), square, mean, precision, hyper)
    else:
        loading = 0.0
        loading_square = 0.0
        for i in range(n):
            loading += own.common[i]
            loading_square += own.common[i] * own.common[i]
        density = LogScale(
            float(n_times - n),
            -0.5 * square,
            0.0,
            -0.5 * precision * loading_square,
            precision * mean * loading,
        )
    scale = math.exp(slice_step(density, 0.0, 2.0 / math.sqrt(n_times + 1.0), rng))
    if hyper.learned:
        if not LEAST_VARIANCE < 1.0 / (precision * scale * scale) < MOST_VARIANCE:
            return
        own.common_population[0] /= scale
        own.common_population[1] *= scale * scale
    for t in range(n_times):
        g[t] *= scale
    for i in range(n):
        own.common[i] /= scale


class CommonFactorUpdate(Update):
    """Moves of the common factor, the population of its loadings, and its record.

    Parameters
    ----------
    model : FactorSeries
    priors : SeriesPriors
    moving : Moving
    """

    name = "common"
    changes = frozenset({LIKELIHOOD})

    def __init__(self, model: FactorSeries, priors: SeriesPriors, moving: Moving) -> None:
        self.there = bool(model.own.common.size)
        self.moves = moving.common and self.there
        self.hyper: Hyperprior = priors.common
        self.learned = self.moves and priors.common.learned
        self.n_done = 0

    def draw(self, chain: Chain, rng: np.random.Generator) -> None:
        """Draw population, scale, tilts and sign; not before the loadings have moved once."""
        self.n_done += 1
        if not self.moves or self.n_done <= SETTLING:
            return
        model, own = chain.model, chain.model.own
        room = np.empty(chain.counts.size)
        tilt_clusters(model, chain.z, chain.parameters, room, np.empty_like(room), rng)
        if self.learned:
            draw_normal_population(own.common, own.common_population, self.hyper, rng)
        rescale_common(own, self.hyper, rng)
        if self.learned and rng.random() < 0.5:
            for turned in (own.common, own.common_factor, own.common_population[:1]):
                turned *= -1.0

    def log_density(self, chain: Chain) -> float:
        """Return the log density of g, its loadings and their population."""
        if not self.there:
            return 0.0
        own = chain.model.own
        total = log_normal(own.common_factor, 0.0, 1.0)
        mean, precision = own.common_population
        if self.moves:
            total += log_normal(own.common, mean, precision)
        if self.learned:
            total += log_normal(mean, 0.0, self.hyper.precision)
            total += log_inverse_gamma(1.0 / precision, self.hyper.shape, self.hyper.scale)
        return total

    def record(self, chain: Chain) -> dict[str, np.ndarray]:
        """The factor and its loadings, with the sign that makes these positive on the whole."""
        if not self.there:
            return {}
        own = chain.model.own
        sign = -1.0 if self.learned and own.common.sum() < 0.0 else 1.0
        out = {
            "common_factor": (sign * own.common_factor).astype(np.float32),
            "common": (sign * own.common).astype(np.float32),
        }
        if self.learned:
            out["common_mean"] = np.array(sign * own.common_population[0])
            out["common_sd"] = own.common_population[1] ** -0.5
        return out

    def arrays(self) -> dict[str, np.ndarray]:
        """Return the number of sweeps; all else is among the model's parameters."""
        return {"progress": np.array([self.n_done], dtype=int)}

    def restore(self, arrays: Mapping[str, np.ndarray], chain: Chain) -> None:
        """Continue from ``arrays``."""
        progress = fitting(saved_array(arrays, "progress"), np.zeros(1, dtype=int), "progress")
        self.n_done = int(progress[0])
