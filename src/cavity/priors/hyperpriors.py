"""What learns the prior of the clusters' means and covariances, in one kernel.

The parts are in `covariance_scale`, `covariance_df` and `mean_spread`; together they are compiled
once, and read the clusters' parameters once.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Self

import numpy as np

from cavity._numba.arrays import fitting, saved_array
from cavity._numba.jit import Kernels
from cavity.priors.cluster import Common, common_of, read_common, write_common
from cavity.priors.column_widths import draw_widths, widths_log_density
from cavity.priors.covariance_df import draw_df, spare_log_density
from cavity.priors.covariance_scale import (
    DIAGONAL,
    FIXED,
    ScalePrior,
    draw_scale,
    scale_log_density,
    scale_prior,
)
from cavity.priors.mean_spread import SpreadPrior, draw_spread, spread_log_density
from cavity.updates import CLUSTER_PRIOR, Chain, Update


def draw_hyperparameters(natural, parameters, counts, scale, typical, spread, common, rng):
    """Draw what is learned given the occupied clusters' parameters; 0 or which part failed."""
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


class ClusterHyperpriors(Update):
    """Learns what the clusters have in common.

    Parameters
    ----------
    d : int
        Number of columns.
    scale : ScalePrior, optional
        Of the mean covariance; None leaves it.
    typical : float, optional
        Prior median of nu - d - 1; None leaves nu.
    spread : SpreadPrior, optional
        Of kappa and the centre; None leaves both.
    n_held : int
        Draws at the beginning that are left out. Labels that are still at random make all
        clusters look alike, and a prior that has learned this would keep them so.
    """

    name = "hyperpriors"
    changes = frozenset({CLUSTER_PRIOR})

    def __init__(
        self,
        d: int,
        scale: ScalePrior | None = None,
        typical: float | None = None,
        spread: SpreadPrior | None = None,
        n_held: int = 0,
    ) -> None:
        self.d = d
        given = scale_prior(FIXED, 1.0, np.ones(d)) if scale is None else scale
        # A mean that is learned is the chain's own.
        self.scale = given._replace(mean=given.typical.copy())
        self.typical = 0.0 if typical is None else float(typical)
        self.spread = SpreadPrior(0.0, 1.0, 1.0) if spread is None else spread
        self.n_held = n_held
        self._kernels = Kernels()
        self.n_drawn = np.zeros(1, dtype=np.int64)
        # Not a number: in line with no prior before the first draw.
        self._room = common_of(np.full(2 + d * (d + 3) // 2, np.nan), d)

    def fresh(self) -> Self:
        """One with room of its own."""
        return type(self)(
            self.d,
            None if self.scale.form == FIXED else self.scale,
            self.typical or None,
            self.spread if self.spread.shape > 0.0 else None,
            self.n_held,
        )

    def draw(self, chain: Chain, rng: np.random.Generator) -> None:
        """Draw it given the occupied clusters' parameters; set the family's prior."""
        self.n_drawn += 1
        if self.n_drawn[0] <= self.n_held:
            return
        natural = chain.family.prior
        failed = self._kernels.run(
            draw_hyperparameters, natural, chain.parameters, chain.counts, self.scale,
            self.typical, self.spread, self._room, rng,
        )  # fmt: skip
        if failed:
            what = ("mean covariance", "covariances' degrees of freedom", "means' centre")
            raise FloatingPointError(
                f"the clusters' {what[failed - 1]} cannot be drawn: the covariances are singular "
                "to rounding. Leave out columns that repeat others, or fix covariance_prior_scale."
            )

    def _common(self, natural: np.ndarray) -> Common:
        """What a family's packed prior says: as last drawn, where that is still so."""
        room = self._room
        if room.kappa[0] == natural[0] and room.nu[0] == natural[1]:
            return room
        return common_of(natural, self.d)

    def log_density(self, chain: Chain) -> float:
        """Of what is learned under its priors."""
        common = self._common(chain.family.prior)
        total = 0.0
        if self.scale.form != FIXED:
            total += self._kernels.run(scale_log_density, self.scale, common.scale, common.work[0])
            if self.scale.tail > 0.0:
                total += widths_log_density(self.scale.mean, self.scale.typical, self.scale.tail)
        if self.typical > 0.0:
            total += spare_log_density(self.typical, float(common.nu[0]) - self.d - 1.0)
        if self.spread.shape > 0.0:
            total += spread_log_density(self.spread, common.centre, float(common.kappa[0]))
        return total

    def record(self, chain: Chain) -> dict[str, np.ndarray]:
        """All that is learned."""
        common = self._common(chain.family.prior)
        out: dict[str, np.ndarray] = {}
        if self.scale.form != FIXED:
            out["covariance_prior_scale"] = common.scale.diagonal().copy()
        if self.typical > 0.0:
            out["covariance_prior_df"] = common.nu[0].copy()
        if self.spread.shape > 0.0:
            out["mean_prior_centre"] = common.centre.copy()
            out["mean_prior_strength"] = common.kappa[0].copy()
        return out

    def arrays(self) -> dict[str, np.ndarray]:
        """How often it was asked to draw, and the prior's mean of the mean covariance."""
        return {"n_drawn": self.n_drawn.copy(), "expected": self.scale.mean.copy()}

    def restore(self, arrays: Mapping[str, np.ndarray], chain: Chain) -> None:
        """Continue from ``arrays``."""
        self.n_drawn = fitting(saved_array(arrays, "n_drawn"), self.n_drawn, "n_drawn")
        self.scale.mean[:] = fitting(saved_array(arrays, "expected"), self.scale.mean, "expected")
