"""Updates that learn the prior of the clusters' means and covariances.

`ClusterHyperpriors` is for full covariances: the parts in `covariance_scale`, `covariance_df` and
`mean_spread` are one kernel, which reads the clusters' parameters once. `DiagonalHyperpriors` and
`MeanSpreadUpdate` are for structured covariances.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, NamedTuple, Self

import numpy as np

from cavity._numba.arrays import fitting, saved_array
from cavity._numba.jit import jit, verb
from cavity.conjugate.common import first_occupied
from cavity.conjugate.nig import read_diagonal, write_diagonal
from cavity.conjugate.normal import Factors, Tied, length_of
from cavity.interface import is_scored, log_weight, show, step
from cavity.priors.cluster import Common, common_of, read_common, read_prior, write_common
from cavity.priors.covariance_df import draw_df, spare_log_density
from cavity.priors.covariance_scale import (
    DIAGONAL,
    FIXED,
    FULL,
    ScalePrior,
    draw_scale,
    draw_variances,
    draw_widths,
    scale_prior,
    variances_log_density,
    widths_log_density,
    wishart_log_density,
)
from cavity.priors.mean_spread import SpreadPrior, draw_centre, draw_spread, spread_log_density
from cavity.updates import CLUSTER_PRIOR, Chain, Update


class HeldUpdate(Update):
    """An update of hyperparameters that waits for the first sweeps to pass.

    While labels are still random, all clusters look alike, and a prior that has learned this
    would keep them so.

    Parameters
    ----------
    d : int
        Number of columns.
    scale : ScalePrior, optional
        Prior of the mean covariance; None leaves it.
    typical : float, optional
        Prior median of the degrees of freedom beyond the least possible; None leaves them.
    spread : SpreadPrior, optional
        Prior of kappa and the center; None leaves both.
    n_held : int
        Number of draws at the beginning that are skipped.
    """

    changes = frozenset({CLUSTER_PRIOR})

    def __init__(
        self,
        d: int,
        scale: ScalePrior | None = None,
        typical: float | None = None,
        spread: SpreadPrior | None = None,
        n_held: int = 0,
    ) -> None:
        self._given = d, scale, typical, spread, n_held
        self.d = d
        given = scale_prior(FIXED, 1.0, np.ones(d)) if scale is None else scale
        # A learned mean belongs to the chain.
        self.scale = given._replace(mean=given.typical.copy())
        self.typical = 0.0 if typical is None else float(typical)
        self.spread = SpreadPrior(0.0, 1.0, 1.0) if spread is None else spread
        self.n_held = n_held
        self.n_drawn = np.zeros(1, dtype=np.int64)

    def fresh(self) -> Self:
        """Return one that has drawn nothing yet."""
        return type(self)(*self._given)

    def shapes(self, chain: Chain) -> dict[str, tuple[int, ...]]:
        """Return shapes of all that is learned."""
        out: dict[str, tuple[int, ...]] = {}
        if self.scale.form != FIXED:
            out["covariance_prior_scale"] = (self.d,)
        if self.typical > 0.0:
            out["covariance_prior_df"] = ()
        if self.spread.shape > 0.0:
            out |= {"mean_prior_centre": (self.d,), "mean_prior_strength": ()}
        return out

    def arrays(self) -> dict[str, np.ndarray]:
        """Return the number of draws, and the mean of the scale's prior."""
        return {"n_drawn": self.n_drawn.copy(), "expected": self.scale.mean.copy()}

    def restore(self, arrays: Mapping[str, np.ndarray], chain: Chain) -> None:
        """Continue from ``arrays``."""
        self.n_drawn[:] = fitting(saved_array(arrays, "n_drawn"), self.n_drawn, "n_drawn")
        self.scale.mean[:] = fitting(saved_array(arrays, "expected"), self.scale.mean, "expected")


@jit(internal=True)
def draw_hyperparameters(natural, parameters, counts, scale, typical, spread, common, rng):
    """Draw the hyperparameters given the occupied clusters; return 0, or the part that failed."""
    read_common(common, natural, parameters, counts)
    # Degrees of freedom first: the mean covariance is integrated out of their draw.
    if typical > 0.0 and not draw_df(typical, scale, common, rng):
        return 2
    if scale.form != FIXED and not draw_scale(scale, common, rng):
        return 1
    if scale.form != FIXED:
        variance = common.work[0, 0]
        for j in range(variance.shape[0]):
            variance[j] = common.scale[j, j]
        weight = scale.strength if scale.form == DIAGONAL else 0.5 * scale.strength
        draw_widths(scale, weight, variance, rng)
    if spread.shape > 0.0 and not draw_spread(spread, common, parameters, counts, rng):
        return 3
    write_common(common, natural)
    return 0


class HyperpriorsStep(NamedTuple):
    """`ClusterHyperpriors` for kernels."""

    scale: ScalePrior
    typical: float
    spread: SpreadPrior
    room: Common
    n_drawn: np.ndarray  # (1,)
    n_held: int


@step.register(HyperpriorsStep)
def _(update, model, family, parameters, prior, z, counts, rng):
    update.n_drawn[0] += 1
    if update.n_drawn[0] <= update.n_held:
        return 0
    return draw_hyperparameters(
        family.prior,
        parameters,
        counts,
        update.scale,
        update.typical,
        update.spread,
        update.room,
        rng,
    )


@jit(internal=True)
def _prior_of(update, natural):
    """Return the prior that the family holds, which the last draw may have replaced."""
    room = update.room
    if room.kappa[0] != natural[0] or room.nu[0] != natural[1]:
        read_prior(room, natural)
    return room


@log_weight.register(HyperpriorsStep)
def _(update, model, family, parameters, prior, counts):
    room, scale, spread = _prior_of(update, family.prior), update.scale, update.spread
    d = room.centre.shape[0]
    total = 0.0
    if scale.form == FULL:
        total += wishart_log_density(scale, room.scale, room.work[0])
    elif scale.form == DIAGONAL:
        variance = room.work[0, 0]
        for j in range(d):
            variance[j] = room.scale[j, j]
        total += variances_log_density(scale, variance)
    if scale.form != FIXED:
        total += widths_log_density(scale)
    if update.typical > 0.0:
        total += spare_log_density(update.typical, room.nu[0] - d - 1.0)
    if spread.shape > 0.0:
        total += spread_log_density(
            spread.shape, spread.rate, spread.spread, room.centre, room.kappa[0]
        )
    return total


@show.register(HyperpriorsStep)
def _(update, model, family, parameters, prior, counts, out):
    room = _prior_of(update, family.prior)
    d = room.centre.shape[0]
    at = 0
    if update.scale.form != FIXED:
        for j in range(d):
            out[at + j] = room.scale[j, j]
        at += d
    if update.typical > 0.0:
        out[at] = room.nu[0]
        at += 1
    if update.spread.shape > 0.0:
        for j in range(d):
            out[at + j] = room.centre[j]
        out[at + d] = room.kappa[0]
        at += d + 1
    return at


class ClusterHyperpriors(HeldUpdate):
    """Learns the prior of clusters that have a covariance matrix each."""

    name = "hyperpriors"

    def __init__(self, d: int, *given: Any, **named: Any) -> None:
        super().__init__(d, *given, **named)
        # NaN is the state of no prior before the first draw.
        self._room = common_of(np.full(2 + d * (d + 3) // 2, np.nan), d)

    def explain(self, failure: int) -> str:
        """Return the message for a failed draw."""
        what = ("mean covariance", "covariances' degrees of freedom", "means' center")
        return (
            f"The clusters' {what[failure - 1]} cannot be drawn: the covariances are singular. "
            "Leave out columns that repeat others, limit large sample_weight, or pass a "
            "cluster_prior with a fixed covariance_scale."
        )

    def kernel(self, chain: Chain) -> HyperpriorsStep:
        """Return the update for kernels."""
        return HyperpriorsStep(
            self.scale, self.typical, self.spread, self._room, self.n_drawn, int(self.n_held)
        )


class DiagonalStep(NamedTuple):
    """`DiagonalHyperpriors` for kernels."""

    scale: ScalePrior
    typical: float
    spread: SpreadPrior
    # (5, d): center, scale, sums of precisions and of these times means, number of clusters
    room: np.ndarray
    n_drawn: np.ndarray  # (1,)
    n_held: int


@step.register(DiagonalStep)
def _(update, model, family, parameters, prior, z, counts, rng):
    update.n_drawn[0] += 1
    if update.n_drawn[0] <= update.n_held:
        return 0
    natural, spread = family.prior, update.spread
    centre, scale = update.room[0], update.room[1]
    precision, weighed, n_clusters = update.room[2], update.room[3], update.room[4]
    d = centre.shape[0]
    kappa, nu = read_diagonal(natural, centre, scale)
    # A column that clusters share counts once.
    first = first_occupied(counts)
    n_drawn = 0
    form = 0.0
    for c in range(d):
        precision[c] = weighed[c] = n_clusters[c] = 0.0
    for k in range(counts.shape[0]):
        if counts[k] == 0:
            continue
        for c in range(d):
            if k == first or is_scored(family, c):
                n_drawn += 1
                n_clusters[c] += 1.0
                inverse = 1.0 / parameters.variance[c, k]
                away = parameters.mean[c, k] - centre[c]
                precision[c] += inverse
                weighed[c] += parameters.mean[c, k] * inverse
                form += away * away * inverse
    if update.scale.form != FIXED:
        draw_variances(update.scale, nu, n_clusters, precision, scale, rng)
    if spread.shape > 0.0:
        kappa = rng.standard_gamma(spread.shape + 0.5 * n_drawn) / (spread.rate + 0.5 * form)
        for c in range(d):
            total = 1.0 / (spread.spread * spread.spread) + kappa * precision[c]
            centre[c] = kappa * weighed[c] / total + rng.standard_normal() / math.sqrt(total)
    write_diagonal(natural, centre, kappa, nu, scale)
    return 0


@log_weight.register(DiagonalStep)
def _(update, model, family, parameters, prior, counts):
    own, spread = update.scale, update.spread
    centre, scale = update.room[0], update.room[1]
    kappa, nu = read_diagonal(family.prior, centre, scale)
    total = 0.0
    if own.form != FIXED:
        total += variances_log_density(own, scale) + widths_log_density(own)
    if update.typical > 0.0:
        total += spare_log_density(update.typical, nu - 2.0)
    if spread.shape > 0.0:
        total += spread_log_density(spread.shape, spread.rate, spread.spread, centre, kappa)
    return total


@show.register(DiagonalStep)
def _(update, model, family, parameters, prior, counts, out):
    centre, scale = update.room[0], update.room[1]
    d = centre.shape[0]
    kappa, nu = read_diagonal(family.prior, centre, scale)
    at = 0
    if update.scale.form != FIXED:
        for c in range(d):
            out[c] = scale[c]
        at += d
    if update.typical > 0.0:
        out[at] = nu
        at += 1
    if update.spread.shape > 0.0:
        for c in range(d):
            out[at + c] = centre[c]
        out[at + d] = kappa
        at += d + 1
    return at


class DiagonalHyperpriors(HeldUpdate):
    """Learns the prior of clusters of independent columns, given their parameters."""

    name = "hyperpriors"

    def kernel(self, chain: Chain) -> DiagonalStep:
        """Return it for kernels."""
        room = np.empty((5, self.d))
        return DiagonalStep(
            self.scale, self.typical, self.spread, room, self.n_drawn, int(self.n_held)
        )


@verb
def sum_precisions(covariance, mean, counts, precision, weighed, work):
    """Write sums over the occupied slots: of precisions (d, d), and of these times means (d,)."""


@sum_precisions.register(Tied)
def _(covariance, mean, counts, precision, weighed, work):
    d = weighed.shape[0]
    n_clusters = 0
    for c in range(d):
        work[c] = 0.0
    for k in range(counts.shape[0]):
        if counts[k] > 0:
            n_clusters += 1
            for c in range(d):
                work[c] += mean[c, k]
    for r in range(d):
        weighed[r] = 0.0
        for c in range(d):
            s = 0.0
            for m in range(max(r, c), d):
                s += covariance.whiten[m, r] * covariance.whiten[m, c]
            precision[r, c] = n_clusters * s
            weighed[r] += s * work[c]


@sum_precisions.register(Factors)
def _(covariance, mean, counts, precision, weighed, work):
    n_factors, d, n_slots = covariance.project.shape
    for r in range(d):
        weighed[r] = 0.0
        for c in range(d):
            precision[r, c] = 0.0
    for k in range(n_slots):
        if counts[k] == 0:
            continue
        for c in range(d):
            own = covariance.root[c, k] * covariance.root[c, k]
            precision[c, c] += own
            weighed[c] += own * mean[c, k]
        for f in range(n_factors):
            within = 0.0
            for c in range(d):
                work[c] = covariance.project[f, c, k] * covariance.root[c, k]
                within += work[c] * mean[c, k]
            for r in range(d):
                weighed[r] -= work[r] * within
                for c in range(d):
                    precision[r, c] -= work[r] * work[c]


class MeanSpreadStep(NamedTuple):
    """`MeanSpreadUpdate` for kernels."""

    spread: SpreadPrior
    room: np.ndarray  # (2, d, d)
    rows: np.ndarray  # (3, d)
    n_drawn: np.ndarray  # (1,)
    n_held: int


@step.register(MeanSpreadStep)
def _(update, model, family, parameters, prior, z, counts, rng):
    update.n_drawn[0] += 1
    if update.n_drawn[0] <= update.n_held:
        return 0
    natural, mean, covariance = family.prior, parameters.mean, parameters.covariance
    centre, weighed, work = update.rows[0], update.rows[1], update.rows[2]
    n_clusters = 0
    form = 0.0
    for k in range(counts.shape[0]):
        if counts[k] > 0:
            n_clusters += 1
            form += length_of(covariance, k, mean[:, k], natural[1:], natural[0])[0]
    sum_precisions(covariance, mean, counts, update.room[0], weighed, work)
    kappa = draw_centre(
        update.spread,
        n_clusters,
        form,
        update.room[0],
        weighed,
        update.room[1],
        work,
        centre,
        rng,
    )
    if kappa == 0.0:
        return 1
    natural[0] = kappa
    for c in range(centre.shape[0]):
        natural[1 + c] = kappa * centre[c]
    return 0


@log_weight.register(MeanSpreadStep)
def _(update, model, family, parameters, prior, counts):
    spread, centre = update.spread, update.rows[0]
    kappa = family.prior[0]
    for c in range(centre.shape[0]):
        centre[c] = family.prior[1 + c] / kappa
    return spread_log_density(spread.shape, spread.rate, spread.spread, centre, kappa)


@show.register(MeanSpreadStep)
def _(update, model, family, parameters, prior, counts, out):
    d = update.rows.shape[1]
    for c in range(d):
        out[c] = family.prior[1 + c] / family.prior[0]
    out[d] = family.prior[0]
    return d + 1


class MeanSpreadUpdate(HeldUpdate):
    """Learns center and spread of the means, if another update draws the covariances."""

    name = "mean_spread"

    def explain(self, failure: int) -> str:
        """Return what could not be drawn, and the way out."""
        return (
            "The clusters' means' center cannot be drawn: the covariances are singular. Leave out "
            "columns that repeat others, or limit large sample_weight."
        )

    def kernel(self, chain: Chain) -> MeanSpreadStep:
        """Return it for kernels."""
        d = self.d
        room = np.empty((2, d, d)), np.empty((3, d))
        return MeanSpreadStep(self.spread, *room, self.n_drawn, int(self.n_held))
