"""Labels and parameters of new series, given the factors of one draw of a fit.

Given the factors, new series are independent of the old ones and of each other: each is a small
Gibbs sampler over its label and its own parameters, states integrated out of the label's draw.

New series put into the clusters of a fit, with probabilities.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from sklearn.utils.validation import check_is_fitted

from cavity._numba.jit import jit
from cavity._numba.simd import whole_vectors
from cavity.estimators.base import Fitted
from cavity.estimators.validation import check_count
from cavity.interface import pick_given
from cavity.likelihoods.predictive import spread_draws
from cavity.mcmc.runner import seed_entropy
from cavity.posterior.units import SeriesUnits
from cavity.priors.series import SeriesPrior
from cavity.series.coefficients import coefficients
from cavity.series.data import SeriesData, from_rows, from_wide, with_season
from cavity.series.gibbs import refresh_series
from cavity.series.initialization import own_spreads, scatter_in_units, starting_levels
from cavity.series.likelihood import FactorPaths, factor_paths
from cavity.series.moves import state_sums
from cavity.series.parameters import NOTHING, SeriesPriors
from cavity.series.problem import build_priors, common_population_of, population_of, start_df
from cavity.series.state_space import FactorSeries, factor_series, own_copy
from cavity.series.student_t_noise import draw_tails
from cavity.series.time_axis import TimeAxis

if TYPE_CHECKING:
    import pandas as pd


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


# Draws of the fit that are visited, and steps at the first of them before any is counted.
MAX_DRAWS, BURN_IN, PER_DRAW = 100, 60, 3


class SeriesAssignment(Fitted):
    """The verb that assigns new series."""

    priors: SeriesPrior | None
    df: float | str | None
    _data: SeriesData

    def assign(
        self,
        Y: Any,
        *,
        series: str | None = None,
        time: str | None = None,
        value: str | None = None,
        n_draws: int = MAX_DRAWS,
        random_state: Any = 0,
    ) -> pd.DataFrame:
        """Cluster probabilities of series that were not in the fit.

        The factors are those of the fit; a new series' own parameters (autoregression, loading,
        noise, level) are drawn with its label, under their priors. New series do not change the
        clusters.

        Parameters
        ----------
        Y : array or DataFrame
            As in `fit`: a wide table over the same times (an array has as many columns), or rows
            in long form with `series`, `time` and `value`, all within the fit's times. Models
            with covariates or an offset need a new fit.
        series, time, value : str, optional
            Columns of a long frame.
        n_draws : int
            Draws of the fit to average over.
        random_state : None, int or Generator

        Returns
        -------
        DataFrame
            One row per series: ``cluster``, its ``probability``, ``elsewhere`` (of a cluster that
            matches none of the estimate's), and ``p_0``, ``p_1``, ...

        Examples
        --------
        >>> from cavity import SeriesMixture
        >>> from cavity.datasets import make_series
        >>> Y, truth = make_series(31, 60, n_clusters=3, random_state=1)
        >>> s = SeriesMixture(3, n_chains=2, n_warmup=40, n_draws=40, random_state=0).fit(Y[:30])
        >>> found = s.assign(Y[30:])
        >>> bool(truth.labels[:30][s.labels_ == found["cluster"][0]][0] == truth.labels[30])
        True
        """
        check_is_fitted(self, "posterior_")
        check_count("n_draws", n_draws, 1)
        data = self._new_series(Y, series, time, value)
        rng = np.random.default_rng(seed_entropy(random_state))
        return self._assigner(n_draws).table(data, rng)

    def _assigner(self, n_draws: int) -> Assigner:
        """What some draws of the fit say of new series."""
        posterior = self.posterior_
        units = posterior.units
        assert isinstance(units, SeriesUnits)
        chosen = spread_draws(posterior.n_chains * posterior.n_draws, n_draws)

        def flat(name: str) -> np.ndarray:
            values = posterior.drawn[name]
            return values.reshape(-1, *values.shape[2:])

        factor, var_x, var_x0 = flat("factor"), flat("var_x"), flat("var_x0")
        targets = posterior.relabel(self.partition_).targets(factor.shape[1])
        populations = self._populations()
        df = flat("df") if "df" in posterior.drawn else np.full(len(var_x), start_df(self.df))
        has_beta = "beta" in posterior.drawn
        draws = []
        for s in chosen:
            sizes = np.bincount(posterior.flat_labels[s], minlength=factor.shape[1]).astype(float)
            if "size" in posterior.drawn:  # of all series, where not all are followed
                sizes = np.where(sizes > 0.0, np.nan_to_num(flat("size")[s]), 0.0)
            paths = np.where(sizes[:, None] > 0, factor[s], 0.0).T
            hyper = np.array([flat("beta_mean")[s], flat("beta_var")[s]]) if has_beta else None
            shared = float(var_x[s]), float(var_x0[s]), float(df[s])
            draws.append((paths, sizes, *shared, populations[s], hyper, self._common(s)))
        prior = SeriesPrior() if self.priors is None else self.priors
        return Assigner(
            tuple(draws), targets[chosen], self.n_clusters_, self._data.axis, units, prior,
            start_df(self.df), "common" in posterior.drawn,
        )  # fmt: skip

    def _common(self, s: int) -> tuple[np.ndarray, np.ndarray] | None:
        """The common factor of draw s, and mean and precision of its loadings."""
        drawn = self.posterior_.drawn
        if "common" not in drawn:
            return None
        factor = drawn["common_factor"]
        known = common_population_of(SeriesPrior() if self.priors is None else self.priors)
        if "common_mean" in drawn:
            known = drawn["common_mean"].ravel()[s], drawn["common_sd"].ravel()[s] ** -2.0
        return factor.reshape(-1, factor.shape[-1])[s], np.array(known)

    def _populations(self) -> np.ndarray:
        """Mean and precision of the a_i and of the loadings in every draw."""
        drawn = self.posterior_.drawn
        prior = SeriesPrior() if self.priors is None else self.priors
        out = np.tile(population_of(prior), (self.posterior_.flat_labels.shape[0], 1))
        for first, name in ((0, "a"), (2, "loading")):
            if f"{name}_mean" in drawn:
                out[:, first] = drawn[f"{name}_mean"].ravel()
                out[:, first + 1] = drawn[f"{name}_sd"].ravel() ** -2.0
        return out

    def _new_series(self, Y: Any, series: Any, time: Any, value: Any) -> SeriesData:
        fitted = self._data
        if fitted.given_covariates or fitted.offset_column is not None:
            raise ValueError(
                "assign takes series of values alone, and this model was fitted with covariates "
                "or an offset. Fit the new series together with the others."
            )
        size = fitted.axis.size
        if series is None and time is None and value is None:
            if not hasattr(Y, "columns"):
                data = from_wide(Y)
                if data.y.shape[1] != size:
                    raise ValueError(
                        f"Y has {data.y.shape[1]} times, the fit had {size}: an array must cover "
                        "the same times. Use NaN where nothing was observed."
                    )
                return with_season(data, fitted.season)
            data = from_wide(Y)
            position = fitted.axis.locate(data.axis.labels())
        else:
            if series is None or time is None or value is None:
                raise ValueError("a long frame needs series=, time= and value=.")
            data = from_rows(Y, series, time, value)
            position = fitted.axis.locate(data.axis.labels())
        if position.max() >= size:
            raise ValueError(
                f"the new series reach beyond the fit's last time, {fitted.axis.labels()[-1]}. "
                "Only times of the fit say which factor a series follows; drop the later ones."
            )
        y = np.full((len(data.y), size), np.nan)
        count = np.zeros((len(data.y), size), dtype=data.count.dtype)
        y[:, position] = data.y
        count[:, position] = data.count
        empty = np.zeros((len(y), size, 0))
        own = SeriesData(y, count, empty, data.scatter, data.series, fitted.axis)
        return with_season(own, fitted.season)


class Assigner(NamedTuple):
    """Draws of a fit, ready to put series into their clusters, wherever these are."""

    draws: tuple[tuple[Any, ...], ...]  # what `NewSeries.set_draw` takes
    targets: np.ndarray  # (draw, slot), the cluster of the estimate, -1 for none
    n_clusters: int
    axis: TimeAxis
    units: SeriesUnits
    prior: SeriesPrior
    df: float
    common: bool

    def table(self, data: SeriesData, rng: np.random.Generator) -> pd.DataFrame:
        """A row for each series: cluster, probability, elsewhere, p_0, ..."""
        import pandas as pd

        new = self._start(data)
        count = np.zeros((len(data.y), self.n_clusters + 1))
        for place, draw in enumerate(self.draws):
            new.set_draw(*draw)
            z = visit_draw(new, BURN_IN if place == 0 else PER_DRAW, rng)
            # The last column is elsewhere, where targets have -1.
            count[np.arange(len(z)), self.targets[place, z]] += 1.0
        probability = count / len(self.draws)
        cluster = probability[:, :-1].argmax(axis=1)
        table = {
            "cluster": cluster,
            "probability": probability[np.arange(len(cluster)), cluster],
            "elsewhere": probability[:, -1],
        }
        table |= {f"p_{k}": probability[:, k] for k in range(self.n_clusters)}
        return pd.DataFrame(table, index=data.series)

    def _start(self, data: SeriesData) -> NewSeries:
        units, prior = self.units, self.prior
        p = data.covariates.shape[2] + units.intercept
        priors = build_priors(prior, p, units.intercept)
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
            common=0.4 if self.common else None,
            free_signs=True,
            beta=beta,
            centre=units.centre,
            scale=scale,
            intercept=units.intercept,
        )
        return NewSeries(model, priors)
