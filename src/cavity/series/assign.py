"""Clusters of new series, with probabilities, given the draws of a fit.

Given the factors, new series are independent of the old ones and of each other: each is a small
Gibbs sampler over its label and its own parameters, states integrated out of the label's draw.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from cavity._numba.jit import jit
from cavity._numba.simd import whole_vectors
from cavity.interface import pick_given
from cavity.posterior.units import SeriesUnits
from cavity.predict.draws import spread_draws
from cavity.priors.series import SeriesPrior
from cavity.series.coefficients import coefficients
from cavity.series.data import SeriesData, from_rows, from_wide, with_terms
from cavity.series.gibbs import refresh_series
from cavity.series.initialization import own_spreads, scatter_in_units, starting_levels
from cavity.series.likelihood import factor_paths
from cavity.series.moves import state_sums
from cavity.series.parameters import NOTHING, SeriesPriors, draw_noise_weights
from cavity.series.problem import build_priors, common_population_of, population_of, start_df
from cavity.series.state_space import FactorSeries, factor_series, own_copy
from cavity.series.time_axis import TimeAxis

if TYPE_CHECKING:
    import pandas as pd

    from cavity.posterior.estimate import Partition
    from cavity.posterior.posterior import Posterior

# Draws of the fit that are visited, and steps at the first of them before any is counted.
MAX_DRAWS, BURN_IN, PER_DRAW = 100, 60, 3
# Parameters of a new series that are drawn; the variances that all series share are the fit's.
_OWN = NOTHING._replace(a=True, loading=True, var_y=True, common=True)


@jit
def draw_labels(model, paths, weights, scores, mass, z, rng):
    """Draw every label, and the sign of its series' loading, given all else, in place."""
    for i in range(z.shape[0]):
        z[i] = pick_given(model, paths, i, weights, scores, mass, rng)


class FittedDraw(NamedTuple):
    """One draw of a fit: its factors and everything that its series share."""

    factors: np.ndarray  # (T, slots)
    sizes: np.ndarray  # (slots,) of the clusters
    var_x: float
    var_x0: float
    df: float
    population: np.ndarray  # (4,) of the a_i and the loadings
    hyper: np.ndarray  # (2, p) means and variances of the coefficients
    common_factor: np.ndarray  # (T,) or (0,)
    common_population: np.ndarray  # (2,) of its loadings


class Assigner(NamedTuple):
    """Draws of a fit, ready to assign series to its clusters in any process."""

    draws: tuple[FittedDraw, ...]
    targets: np.ndarray  # (draw, slot), the cluster of the estimate, -1 for none
    n_clusters: int
    axis: TimeAxis
    units: SeriesUnits
    prior: SeriesPrior
    df: float

    def table(self, data: SeriesData, rng: np.random.Generator) -> pd.DataFrame:
        """Return a row for each series: cluster, probability, p_unmatched, p_0, ..."""
        import pandas as pd

        model, priors = self._model(data)
        z = np.full(len(data.y), -1, dtype=np.int64)
        count = np.zeros((len(data.y), self.n_clusters + 1))
        for place, draw in enumerate(self.draws):
            model = _visit(model, priors, draw, z, BURN_IN if place == 0 else PER_DRAW, rng)
            # Targets are -1, the last column, where no cluster of the estimate matches.
            count[np.arange(len(z)), self.targets[place, z]] += 1.0
        probability = count / len(self.draws)
        cluster = probability[:, :-1].argmax(axis=1)
        table = {
            "cluster": cluster,
            "probability": probability[np.arange(len(cluster)), cluster],
            "p_unmatched": probability[:, -1],
        }
        table |= {f"p_{k}": probability[:, k] for k in range(self.n_clusters)}
        return pd.DataFrame(table, index=data.series)

    def _model(self, data: SeriesData) -> tuple[FactorSeries, SeriesPriors]:
        """New series with their starting values, and the priors of their parameters."""
        units, prior = self.units, self.prior
        p = data.covariates.shape[2] + units.intercept
        # New series are measured as the fit's were: by themselves, or as all of those.
        scale = np.full(len(data.y), np.median(units.scale))
        if np.ptp(units.scale) > 0:
            scale = own_spreads(data, 1.0, float(scale[0]))
        beta = np.zeros((len(data.y), p))
        if units.intercept:
            beta[:, 0] = starting_levels(data.y, data.count, units.centre, scale)
        model = factor_series(
            data.y,
            data.count,
            (data.covariates - units.covariate_centre) / units.covariate_scale,
            scatter_in_units(data, replace(units, scale=scale)),
            a=0.8,
            loading=0.4,
            var_x=0.05,
            var_y=0.2,
            population=population_of(prior),
            df=self.df,
            common=0.4 if self.draws[0].common_factor.size else None,
            free_signs=True,
            beta=beta,
            centre=units.centre,
            scale=scale,
            intercept=units.intercept,
        )
        return model, build_priors(prior, p, units.intercept)


def _visit(
    model: FactorSeries,
    priors: SeriesPriors,
    draw: FittedDraw,
    z: np.ndarray,
    n_steps: int,
    rng: np.random.Generator,
) -> FactorSeries:
    """Run some Gibbs steps at one draw of the fit; `z` receives the labels they end with."""
    n_times, n_slots = draw.factors.shape
    width = whole_vectors(n_slots)
    if model.scratch.lanes.shape[1] != width:
        model = own_copy(model, width)
    own = model.own
    own.var_x[0], own.var_x0[0], own.df[0] = draw.var_x, draw.var_x0, draw.df
    own.population[:] = draw.population
    own.common_factor[:], own.common_population[:] = draw.common_factor, draw.common_population
    paths = factor_paths(n_times, width)
    paths.value[:, :n_slots] = draw.factors
    weights = np.zeros(width)
    weights[:n_slots] = draw.sizes
    p = own.beta.shape[1]
    moving = _OWN._replace(beta=p > 0)
    sums = state_sums(n_times, width, common=bool(own.common.size))
    hyper = draw.hyper.copy()
    c = coefficients(hyper, free=p > 0)
    for _ in range(n_steps):
        draw_labels(model, paths, weights, np.zeros(width), np.zeros(width), z, rng)
        refresh_series(
            model, z, paths, c, priors, moving, np.empty(n_times + 1), np.empty(len(z)),
            np.empty((0, 0), dtype=np.float32), sums, rng,
        )  # fmt: skip
        if own.tails.size:
            draw_noise_weights(model, 0, False, rng)
        # The regression's hyper-parameters are the fit's: what the step drew is discarded.
        hyper[:] = draw.hyper
    return model


def assigner(
    posterior: Posterior,
    partition: Partition,
    axis: TimeAxis,
    prior: SeriesPrior,
    df: float | str | None,
    n_draws: int = MAX_DRAWS,
) -> Assigner:
    """Collect some draws of a fit, for series that were not in it."""
    units, drawn = posterior.units, posterior.drawn
    assert isinstance(units, SeriesUnits)

    def flat(name: str) -> np.ndarray:
        return drawn[name].reshape(-1, *drawn[name].shape[2:])

    def population(name: str, known: tuple[float, float]) -> np.ndarray:
        """Mean and precision in every draw; `known` where they are not learned."""
        if f"{name}_mean" not in drawn:
            return np.tile(known, (len(factor), 1))
        return np.column_stack([flat(f"{name}_mean"), flat(f"{name}_sd") ** -2.0])

    factor = flat("factor")
    n_slots = factor.shape[1]
    known = population_of(prior)
    populations = np.hstack([population("a", known[:2]), population("loading", known[2:])])
    common_populations = population("common", common_population_of(prior))
    df_draws = flat("df") if "df" in drawn else np.full(len(factor), start_df(df))
    chosen = spread_draws(len(factor), n_draws)
    draws = []
    for s in chosen:
        sizes = np.bincount(posterior.flat_labels[s], minlength=n_slots).astype(float)
        if "size" in drawn:  # of all series, where not all are followed
            sizes = np.where(sizes > 0.0, np.nan_to_num(flat("size")[s]), 0.0)
        hyper = np.zeros((2, 0))
        if "beta" in drawn:
            hyper = np.array([flat("beta_mean")[s], flat("beta_var")[s]])
        draws.append(
            FittedDraw(
                np.where(sizes[:, None] > 0, factor[s], 0.0).T,
                sizes,
                float(flat("var_x")[s]),
                float(flat("var_x0")[s]),
                float(df_draws[s]),
                populations[s],
                hyper,
                flat("common_factor")[s] if "common" in drawn else np.zeros(0),
                common_populations[s],
            )
        )
    targets = posterior.relabel(partition).targets(n_slots)[chosen]
    return Assigner(
        tuple(draws), targets, int(partition.n_clusters), axis, units, prior, start_df(df)
    )


def new_series(fitted: SeriesData, Y: Any, series: Any, time: Any, value: Any) -> SeriesData:
    """Read series that were not in the fit, on the times of the fit."""
    if fitted.given_covariates or fitted.offset_column is not None:
        raise ValueError(
            "New series must be values alone, but this model was fitted with covariates or an "
            "offset. Fit the new series together with the others."
        )
    size = fitted.axis.size
    names = (series, time, value)
    if all(name is None for name in names):
        data = from_wide(Y)
        if not hasattr(Y, "columns"):
            if data.y.shape[1] != size:
                raise ValueError(
                    f"Y has {data.y.shape[1]} times, the fit had {size}: an array must cover the "
                    "same times. Use NaN where nothing was observed."
                )
            return with_terms(data, fitted.season, fitted.end is not None)
    elif any(name is None for name in names):
        raise ValueError("a long frame needs series=, time= and value=.")
    else:
        data = from_rows(Y, series, time, value)
    position = fitted.axis.locate(data.axis.labels())
    if position.max() >= size:
        raise ValueError(
            f"the new series reach beyond the fit's last time, {fitted.axis.labels()[-1]}. Only "
            "times of the fit determine which factor a series follows; drop the later ones."
        )
    y = np.full((len(data.y), size), np.nan)
    count = np.zeros((len(data.y), size), dtype=data.count.dtype)
    y[:, position] = data.y
    count[:, position] = data.count
    empty = np.zeros((len(y), size, 0))
    own = SeriesData(y, count, empty, data.scatter, data.series, fitted.axis)
    return with_terms(own, fitted.season, fitted.end is not None)
