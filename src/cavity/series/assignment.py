"""Labels and parameters of new series, given the factors of one draw of a fit.

Given the factors, new series are independent of the old ones and of each other: each is a small
Gibbs sampler over its label and its own parameters, states integrated out of the label's draw.
"""

from __future__ import annotations

import numpy as np

from cavity._numba.jit import jit
from cavity._numba.simd import whole_vectors
from cavity.interface import pick_given
from cavity.series.coefficients import coefficients
from cavity.series.draws import NOTHING, SeriesPriors
from cavity.series.likelihood import FactorPaths, factor_paths
from cavity.series.moves import state_sums
from cavity.series.refresh import refresh_series
from cavity.series.state import FactorSeries, own_copy
from cavity.series.tails import draw_tails

# The variances that all series share are the fit's.
_OWN = NOTHING._replace(a=True, loading=True, var_y=True, common=True)


@jit
def draw_labels(model, paths, weights, scores, mass, z, rng):
    """Draw every label, and the sign of its series' loading, given all else, in place."""
    for i in range(z.shape[0]):
        z[i] = pick_given(model, paths, i, weights, scores, mass, rng)


class NewSeries:
    """New series between two draws of the fit.

    Parameters
    ----------
    model : FactorSeries
        Their data and starting values.
    priors : SeriesPriors
    """

    def __init__(self, model: FactorSeries, priors: SeriesPriors) -> None:
        self.model = model
        self.priors = priors
        self.z = np.full(len(model.own.a), -1, dtype=np.int64)
        self.paths: FactorPaths = factor_paths(model.cells.y.shape[1], 1)
        self.weights = np.zeros(0)
        p = model.own.beta.shape[1]
        self.hyper = np.array([np.zeros(p), np.ones(p)])

    def set_draw(
        self,
        factors: np.ndarray,
        sizes: np.ndarray,
        var_x: float,
        var_x0: float,
        df: float,
        population: np.ndarray,
        hyper: np.ndarray | None,
        common: tuple[np.ndarray, np.ndarray] | None = None,
    ) -> None:
        """Take over a draw of the fit: factors (T, slots), cluster sizes, shared parameters.

        `common` is the common factor, and mean and precision of its loadings.
        """
        n_times, n_slots = factors.shape
        width = whole_vectors(n_slots)
        if self.model.scratch.lanes.shape[1] != width:
            self.model = own_copy(self.model, width)
        self.paths = factor_paths(n_times, width)
        self.paths.value[:, :n_slots] = factors
        self.weights = np.zeros(width)
        self.weights[:n_slots] = sizes
        self.model.own.var_x[0] = var_x
        self.model.own.var_x0[0] = var_x0
        self.model.own.df[0] = df
        self.model.own.population[:] = population
        if hyper is not None:
            self.hyper = hyper
        if common is not None:
            self.model.own.common_factor[:] = common[0]
            self.model.own.common_population[:] = common[1]


def visit_draw(new: NewSeries, n_steps: int, rng: np.random.Generator) -> np.ndarray:
    """Some Gibbs steps at one draw of the fit; returns the labels they end with."""
    model, paths = new.model, new.paths
    n, n_times = model.cells.y.shape
    width = new.weights.size
    scores, mass = np.zeros(width), np.zeros(width)
    p = model.own.beta.shape[1]
    moving = _OWN._replace(beta=p > 0)
    sums = state_sums(n_times, width, common=bool(model.own.common.size))
    hyper = new.hyper.copy()
    c = coefficients(hyper, free=p > 0)
    for _ in range(n_steps):
        draw_labels(model, paths, new.weights, scores, mass, new.z, rng)
        refresh_series(
            model, new.z, paths, c, new.priors, moving, np.empty(n_times + 1), np.empty(n),
            np.empty((0, 0), dtype=np.float32), sums, rng,
        )  # fmt: skip
        if model.own.tails.size:
            draw_tails(model, 0, False, rng)
        # The regression's hyper-parameters are the fit's: what the step drew is discarded.
        hyper[:] = new.hyper
    return new.z
