"""A checked problem of the series model: everything that its chains share."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from cavity.series.common import CommonFactorUpdate
from cavity.series.draws import EVERYTHING, Moving, SeriesPriors
from cavity.series.population import PopulationUpdate
from cavity.series.signs import ClusterFlips, Turn
from cavity.series.state import FactorSeries, own_copy, some_series
from cavity.series.update import SeriesUpdate
from cavity.updates import Update

DRAWS = ("auto", "joint", "alternate")

# Longest series whose factors are drawn jointly by default: docs/series.md has the figures.
LONGEST_JOINT = 500


@dataclass(frozen=True)
class SeriesProblem:
    """Series in clusters that share a latent factor.

    Attributes
    ----------
    data : FactorSeries
        Data and starting values; chains copy the parameters and share the data.
    priors : SeriesPriors
    hyper : (2, p) array
        Starting hyper-means and hyper-variances of the regression coefficients.
    moving : Moving
        Which parameters are drawn.
    draw : {"auto", "joint", "alternate"}
        How factors and states are drawn.
    keep_trends : bool
        Keep the states of every draw.
    learn_df : bool
        Draw the degrees of freedom of Student-t noise.
    """

    data: FactorSeries
    priors: SeriesPriors
    hyper: np.ndarray
    moving: Moving = EVERYTHING
    draw: str = "auto"
    keep_trends: bool = False
    learn_df: bool = False

    model: ClassVar[str] = "series"

    @property
    def n(self) -> int:
        """Number of series."""
        return len(self.data.cells.y)

    def likelihood(self, n_slots: int) -> FactorSeries:
        """The model of one chain."""
        return own_copy(self.data, n_slots)

    def updates(
        self, model: FactorSeries, *, exact: bool, approximate: bool, turn: Turn | None = None
    ) -> tuple[Update, ...]:
        """What draws factors, states and parameters in one chain.

        Parameters
        ----------
        model : FactorSeries
            That chain's.
        exact : bool
            The scan integrates factors and states out: only a joint draw of the two leaves the
            posterior unchanged.
        approximate : bool
            The scan leaves factors drawn from an approximation.
        turn : callable, optional
            See `ClusterFlips`.
        """
        n_times = self.data.cells.y.shape[1]
        joint = exact or self.draw == "joint"
        joint = joint or (self.draw == "auto" and n_times <= LONGEST_JOINT)
        series = SeriesUpdate(
            model,
            self.priors,
            self.hyper,
            self.moving,
            joint=joint,
            approximate=approximate,
            keep_trends=self.keep_trends,
            learn_df=self.learn_df,
        )
        population = PopulationUpdate(self.priors, self.moving)
        common = CommonFactorUpdate(model, self.priors, self.moving)
        flips = ClusterFlips(turn, together=population.loading is not None)
        return series, population, common, flips

    def few(self) -> SeriesProblem:
        """The same problem with few series and times, to compile kernels with."""
        n, n_times = self.data.cells.y.shape
        return replace(self, data=some_series(self.data, min(3, n), min(3, n_times)))
