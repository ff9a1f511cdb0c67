"""Updates that learn the prior of the clusters' means and covariances.

`ClusterHyperpriors` is for full covariances: the parts in `covariance_scale`, `covariance_df` and
`mean_spread` are one kernel, which reads the clusters' parameters once. `DiagonalHyperpriors` and
`MeanSpreadUpdate` are for structured covariances.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple, Self

import numpy as np

from cavity._numba.arrays import fitting, saved_array
from cavity._numba.jit import Kernels, jit
from cavity.conjugate.nig import pack_diagonal, unpack_diagonal
from cavity.conjugate.normal import Tied
from cavity.interface import log_weight, show, step
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


class Shared(NamedTuple):
    """Hyperparameters that the clusters share."""

    centre: np.ndarray  # (d,)
    kappa: float
    nu: float
    scale: np.ndarray  # (d, d), or (d,) for independent columns


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

    def waits(self) -> bool:
        """Count a draw; return whether it is skipped."""
        self.n_drawn += 1
        return bool(self.n_drawn[0] <= self.n_held)

    def shared(self, chain: Chain) -> Shared:
        """Return the present hyperparameters."""
        raise NotImplementedError

    def scale_log_density(self, scale: np.ndarray) -> float:
        """Return the log density of a learned mean covariance, and of its prior's mean."""
        variances = np.array(scale if scale.ndim == 1 else scale.diagonal())
        total = variances_log_density(self.scale.strength, self.scale.mean, variances)
        return float(total) + self.widths_log_density()

    def widths_log_density(self) -> float:
        """Return the log density of the mean of the scale's prior, where it is learned."""
        if self.scale.tail == 0.0:
            return 0.0
        return float(widths_log_density(self.scale.mean, self.scale.typical, self.scale.tail))

    def log_density(self, chain: Chain) -> float:
        """Return the log prior density of all that is learned."""
        centre, kappa, nu, scale = self.shared(chain)
        total = 0.0
        if self.scale.form != FIXED:
            total += self.scale_log_density(scale)
        if self.typical > 0.0:
            least = self.d + 1.0 if scale.ndim == 2 else 2.0
            total += spare_log_density(self.typical, nu - least)
        if self.spread.shape > 0.0:
            total += spread_log_density(*self.spread, np.array(centre), kappa)
        return float(total)

    def record(self, chain: Chain) -> dict[str, np.ndarray]:
        """Return all that is learned."""
        centre, kappa, nu, scale = self.shared(chain)
        out: dict[str, np.ndarray] = {}
        if self.scale.form != FIXED:
            out["covariance_prior_scale"] = np.array(scale if scale.ndim == 1 else scale.diagonal())
        if self.typical > 0.0:
            out["covariance_prior_df"] = np.array(nu)
        if self.spread.shape > 0.0:
            out |= {"mean_prior_centre": np.array(centre), "mean_prior_strength": np.array(kappa)}
        return out

    def arrays(self) -> dict[str, np.ndarray]:
        """Return the number of draws, and the mean of the scale's prior."""
        return {"n_drawn": self.n_drawn.copy(), "expected": self.scale.mean.copy()}

    def restore(self, arrays: Mapping[str, np.ndarray], chain: Chain) -> None:
        """Continue from ``arrays``."""
        self.n_drawn[:] = fitting(saved_array(arrays, "n_drawn"), self.n_drawn, "n_drawn")
        self.scale.mean[:] = fitting(saved_array(arrays, "expected"), self.scale.mean, "expected")


@jit
def draw_hyperparameters(natural, parameters, counts, scale, typical, spread, common, rng):
    """Draw the hyperparameters given the occupied clusters; return 0, or the part that failed."""
    read_common(common, natural, parameters, counts)
    # Degrees of freedom first: the mean covariance is integrated out of their draw.
    if typical > 0.0 and not draw_df(typical, scale, common, rng):
        return 2
    if scale.form != FIXED and not draw_scale(scale, common, rng):
        return 1
    if scale.form != FIXED and scale.tail > 0.0:
        variance = common.work[0, 0]
        for j in range(variance.shape[0]):
            variance[j] = common.scale[j, j]
        weight = scale.strength if scale.form == DIAGONAL else 0.5 * scale.strength
        draw_widths(scale.mean, scale.typical, scale.tail, weight, variance, rng)
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
def _(update, state, parameters, prior, z, counts, rng):
    update.n_drawn[0] += 1
    if update.n_drawn[0] <= update.n_held:
        return 0
    return draw_hyperparameters(
        state.family.prior,
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
def _(update, state, parameters, prior, counts):
    room, scale, spread = _prior_of(update, state.family.prior), update.scale, update.spread
    d = room.centre.shape[0]
    total = 0.0
    if scale.form == FULL:
        total += wishart_log_density(scale, room.scale, room.work[0])
    elif scale.form == DIAGONAL:
        variance = room.work[0, 0]
        for j in range(d):
            variance[j] = room.scale[j, j]
        total += variances_log_density(scale.strength, scale.mean, variance)
    if scale.form != FIXED and scale.tail > 0.0:
        total += widths_log_density(scale.mean, scale.typical, scale.tail)
    if update.typical > 0.0:
        total += spare_log_density(update.typical, room.nu[0] - d - 1.0)
    if spread.shape > 0.0:
        total += spread_log_density(
            spread.shape, spread.rate, spread.spread, room.centre, room.kappa[0]
        )
    return total


@show.register(HyperpriorsStep)
def _(update, state, parameters, prior, counts, out):
    room = _prior_of(update, state.family.prior)
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
        self._kernels = Kernels()
        # NaN is the state of no prior before the first draw.
        self._room = common_of(np.full(2 + d * (d + 3) // 2, np.nan), d)

    def draw(self, chain: Chain, rng: np.random.Generator) -> None:
        """Draw given the occupied clusters' parameters; set the family's prior."""
        if self.waits():
            return
        failed = self._kernels.run(
            draw_hyperparameters, chain.family.prior, chain.parameters, chain.counts, self.scale,
            self.typical, self.spread, self._room, rng,
        )  # fmt: skip
        if failed:
            raise FloatingPointError(self.explain(failed))

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

    def shapes(self, chain: Chain) -> dict[str, tuple[int, ...]]:
        """Return shapes of all that is learned."""
        return {name: value.shape for name, value in self.record(chain).items()}

    def shared(self, chain: Chain) -> Shared:
        """Return the hyperparameters of the family's packed prior."""
        natural = chain.family.prior
        common: Common = self._room
        if common.kappa[0] != natural[0] or common.nu[0] != natural[1]:
            common = common_of(natural, self.d)
        return Shared(common.centre, float(common.kappa[0]), float(common.nu[0]), common.scale)

    def scale_log_density(self, scale: np.ndarray) -> float:
        """Return the log density of a learned mean covariance, and of its prior's mean."""
        if self.scale.form != FULL:
            return super().scale_log_density(scale)
        total = self._kernels.run(wishart_log_density, self.scale, scale, self._room.work[0])
        return float(total) + self.widths_log_density()


class DiagonalHyperpriors(HeldUpdate):
    """Learns the prior of clusters of independent columns, given their parameters."""

    name = "hyperpriors"

    def draw(self, chain: Chain, rng: np.random.Generator) -> None:
        """Draw scale, strength and center; set the family's prior."""
        if self.waits():
            return
        centre, kappa, nu, scale = self.shared(chain)
        used = chain.counts > 0
        mean, variance = chain.parameters.mean.T[used], chain.parameters.variance.T[used]
        if self.scale.form != FIXED:
            scale = draw_variances(self.scale, nu, variance, rng)
        if self.spread.shape > 0.0:
            centre, kappa = draw_centre(
                self.spread,
                len(mean),
                float(((mean - centre) ** 2 / variance).sum()),
                (1.0 / variance).sum(axis=0),
                (mean / variance).sum(axis=0),
                rng,
            )
        chain.family.prior[:] = pack_diagonal(centre, kappa, nu, (nu - 2.0) * scale)

    def shared(self, chain: Chain) -> Shared:
        """Return the hyperparameters of the family's packed prior."""
        centre, kappa, nu, psi = unpack_diagonal(chain.family.prior)
        return Shared(centre, kappa, nu, psi / (nu - 2.0))


class MeanSpreadUpdate(HeldUpdate):
    """Learns center and spread of the means, if another update draws the covariances."""

    name = "mean_spread"

    def draw(self, chain: Chain, rng: np.random.Generator) -> None:
        """Draw strength and center given the occupied clusters' means and covariances."""
        if self.waits():
            return
        natural = chain.family.prior
        used = np.flatnonzero(chain.counts > 0)
        mean = chain.parameters.mean.T[used]
        precision, weighed, form = sums_of_precisions(
            chain.parameters.covariance, used, mean, natural[1:] / natural[0]
        )
        centre, kappa = draw_centre(self.spread, used.size, form, precision, weighed, rng)
        natural[0], natural[1:] = kappa, kappa * centre

    def shared(self, chain: Chain) -> Shared:
        """Return center and strength only."""
        natural = chain.family.prior
        return Shared(natural[1:] / natural[0], float(natural[0]), np.nan, np.empty(0))


def sums_of_precisions(
    covariance: Any, slots: np.ndarray, mean: np.ndarray, centre: np.ndarray
) -> tuple[np.ndarray, np.ndarray, float]:
    """Sum precisions, precisions times means, and distances from the center over some slots."""
    away = mean - centre
    if isinstance(covariance, Tied):
        one = covariance.whiten.T @ covariance.whiten
        form = float(np.square(away @ covariance.whiten.T).sum())
        return slots.size * one, one @ mean.sum(axis=0), form
    root = covariance.root[:, slots].T
    inner = np.moveaxis(covariance.project[:, :, slots], 2, 0) * root[:, None]
    low = inner.reshape(-1, inner.shape[2])
    precision = np.diag(np.square(root).sum(axis=0)) - low.T @ low
    within = np.einsum("kfi,ki->kf", inner, mean)
    weighed = (root * root * mean).sum(axis=0) - within.ravel() @ low
    apart = np.einsum("kfi,ki->kf", inner, away)
    form = float(np.square(root * away).sum() - np.square(apart).sum())
    return precision, weighed, max(form, 0.0)
