"""Clusters of correlated, gappy time series: `SeriesMixture`."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from sklearn.base import clone
from sklearn.utils.validation import check_is_fitted

from cavity.base import Estimator
from cavity.estimators.fitting import Plan, run_plan
from cavity.estimators.sharding import check_client
from cavity.estimators.validation import check_count, check_labels, check_names
from cavity.mcmc.fingerprint import data_digest
from cavity.mcmc.runner import seed_entropy
from cavity.moves.anchors import nearest_anchors
from cavity.posterior.posterior import Posterior
from cavity.posterior.units import SeriesUnits
from cavity.predict.predictor import given_matched
from cavity.priors.series import SeriesPrior
from cavity.series.append import append_times, appended
from cavity.series.assign import MAX_DRAWS, Assigner, assigner, new_series
from cavity.series.collapses import LONGEST_EXACT, affordable_collapse
from cavity.series.common_factor import move_together
from cavity.series.data import (
    SeriesData,
    check_season,
    read_series,
    with_terms,
)
from cavity.series.initialization import find_units, smoothed_paths
from cavity.series.predictions import OBSERVATION, TRENDING, SeriesForecaster
from cavity.series.problem import (
    DRAWS,
    check_df,
    check_hold,
    check_priors,
    check_scales,
    own_scales,
    series_problem,
)
from cavity.series.results import LEVEL, Band, data_from, details_of, pool_trends, summaries_of
from cavity.series.shards import (
    PARALLEL,
    check_spread,
    fit_spread,
    is_spread,
    predict_series,
)
from cavity.series.summary import SeriesSummary

if TYPE_CHECKING:
    import pandas as pd

    from cavity.posterior.estimate import Partition


@dataclass(frozen=True)
class PreparedSeries:
    """Checked series and the problem made of them: `check` returns it, `fit` takes it.

    Attributes
    ----------
    Y : array, DataFrame or path
    columns : mapping
        Names of columns, offset and frequency, as given.
    settings : mapping
        Parameters of the estimator.
    data, names, plan, units
        The series as read, their names, how chains over them are made, and the units of the draws.
        None for sharded series, which `fit` reads.
    """

    Y: Any
    columns: Mapping[str, Any]
    settings: Mapping[str, Any]
    data: SeriesData | None = None
    names: list[str] | None = None
    plan: Any = None
    units: Any = None


@dataclass(repr=False, eq=False, kw_only=True)
class SeriesMixture(Estimator):
    """Bayesian clustering of time series whose clusters share a latent factor.

    Each series is an autoregression driven by its cluster's factor, seen through noise::

        x_it  = a_i x_i,t-1 + loading_i eta_kt + common_i g_t + N(0, var_x),   k = z_i
        y_itl = offset_itl + beta_i' f_itl + x_it + N(0, var_y_i)
        x_i0  ~ N(0, var_x0),   eta_kt ~ N(0, 1),   g_t ~ N(0, 1)

    with any number of observations l per series and time. The common factor g is optional
    (`common_factor`). Labels, factors, states and all parameters are drawn by MCMC. Labels are
    drawn with states integrated out, and with the clusters' factors integrated out exactly
    (``"corrected"``, ``"collapsed"``), by expectation propagation (``"ep"``), or given
    (``"naive"``).

    Parameters
    ----------
    n_clusters : int
        Maximum number of clusters. For priors without a limit, the number to start with.
    collapse : {"auto", "corrected", "ep", "collapsed", "naive", "parallel"}
        Method for the factors. ``"corrected"`` proposes labels by a fast approximation and accepts
        them with the exact posterior. ``"collapsed"`` scores every cluster exactly, at many times
        the cost. ``"ep"`` is approximate; the diagnostics measure its error. ``"auto"`` is
        ``"corrected"`` if series have at most 500 time points, a sweep takes less than about a
        second (57,000 series of 50 time points, 15,000 of 100, 2,600 of 200, 200 of 500) and the
        clusters' matrices fit in 200 MB, and otherwise ``"ep"``. ``"parallel"`` is for many series,
        in memory or in files: threads or workers share every sweep. It is exact and follows a
        sample of 1,000 series; see the page on many rows.
    prior, n_chains, n_warmup, n_draws, thin, max_sweeps, max_seconds, precision, n_jobs, \
random_state, progress, checkpoint, warm_start
        As for `StudentTMixture`.
    concentration : float, "learn" or None
        Concentration of the prior over partitions, as for `StudentTMixture`.
    init : "random" or array of labels
        Starting labels of the chains.
    intercept : bool
        Give each series its own level, shrunk towards a common mean. Without it, series have mean
        zero after offset and covariates.
    priors : SeriesPrior, optional
        Priors of the series' parameters: ``cavity.priors.SeriesPrior(a=(0.9, 0.1), ...)``, in the
        units set by `scales`.
    scales : {"auto", "each", "all"}
        Divide each series by its own robust spread, or all by their common standard deviation.
        The default is ``"each"``, except for models with covariates or with a shared variance in
        `hold`.
    df : "learn", float or None
        Degrees of freedom of the observations' Student-t noise, learned (with a Gamma(2, 0.1)
        prior) or fixed. None is Gaussian noise.
    common_factor : bool or "auto"
        Include a factor g that all series share, such as the market in stock returns. Clusters
        then describe the rest. By default, it is included if nearly all series move together.
    season : int, optional
        Number of time points in a season, such as 12 for months. Each series has its own seasonal
        pattern of up to three waves, shrunk towards the average of all series. Trends exclude it;
        predictions and forecasts of observations include it.
    difference : bool
        Model the changes between consecutive time points, for series that trend. Clusters, trends
        and factors then describe changes. `forecast` returns levels: changes decay towards each
        series' drift and are added to its last value (a damped trend). Each missing value removes
        two changes.
    hold : dict, optional
        Fixed parameters, in the data's units: ``a``, ``loading``,
        ``common`` and ``var_y`` (a number, or one per series), ``var_x`` and ``var_x0`` (a number),
        ``beta`` (p numbers, or a row per series, the intercept first).
    options : dict, optional
        Details of the sampler. ``moves`` and ``keep_warmup`` as for `StudentTMixture`; moves
        require ``"corrected"``. ``keep_trends``: keep every draw of every state
        (``posterior_.parameters["trend"]``), not only means and variances. ``draw``: draw factors
        and states as one block (``"joint"``) or in turns (``"alternate"``); ``"auto"`` is the
        block for series of at most 500 time points, and for the exact methods always. For
        ``"ep"``: ``fraction`` and ``damping`` of site updates, and ``pass_every``: sweeps between
        full EP passes.
    loss : {"omari", "vi", "binder"} or Loss
        As for `StudentTMixture`.

    Attributes
    ----------
    labels_, n_clusters_, partition_, converged_, posterior_
        As for `StudentTMixture`, for series; parameters are in the data's units.
    trends_, factors_, common_factor_, seasons_ : Band
        Posterior mean and 90% interval of each series' trend (state plus level), of each cluster's
        factor, and, if the model has them, of the common factor and of each series' season, as
        tables indexed by series and time.
    series_ : pandas.DataFrame
        Per series: cluster, observations, posterior means of its parameters.

    Examples
    --------
    >>> from cavity import SeriesMixture
    >>> from cavity.datasets import make_series
    >>> Y, truth = make_series(30, 60, n_clusters=3, missing=0.2, random_state=1)
    >>> s = SeriesMixture(3, n_chains=2, n_warmup=40, n_draws=40, random_state=0).fit(Y)
    >>> s.n_clusters_
    3
    >>> s.forecast(4).mean.shape
    (30, 4)
    """

    _model: ClassVar[str] = "series"
    _starts: ClassVar[tuple[str, ...]] = ("random",)
    _defaults: ClassVar[dict[str, Any]] = {**Estimator._defaults, "keep_trends": False}
    _words: ClassVar[dict[str, tuple[str, ...]]] = {"draw": DRAWS}

    collapse: str = "auto"
    intercept: bool = True
    priors: SeriesPrior | None = None
    scales: str = "auto"
    df: float | str | None = "learn"
    common_factor: bool | str = "auto"
    season: int | None = None
    difference: bool = False
    hold: Any = None

    def _check_settings(self) -> None:
        super()._check_settings()
        options = self._collapse_options()
        check_priors(self.priors)
        hold = check_hold(self.hold)
        check_scales(self.scales, hold)
        check_df(self.df)
        check_season(self.season)
        if not (self.common_factor == "auto" or isinstance(self.common_factor, bool | np.bool_)):
            raise ValueError(
                f"common_factor must be True, False or 'auto', not {self.common_factor!r}."
            )
        if "common" in hold and self.common_factor is not True:
            raise ValueError("hold: loadings 'common' are there with common_factor=True alone.")
        if self.collapse in ("corrected", "collapsed") and options.get("draw") == "alternate":
            raise ValueError(
                "options['draw']='alternate' would not leave the posterior unchanged "
                f"under collapse={self.collapse!r}, whose label draws integrate factors and "
                "states out. Use 'auto'."
            )
        if options.get("refresh_every", 1) != 1:
            raise ValueError(
                "options['refresh_every'] must be 1 for series: their parameters are "
                "drawn after every sweep, and every site follows them."
            )

    def _collapses(self) -> tuple[str, ...]:
        return ("auto", *super()._collapses(), PARALLEL)

    def _collapse_for(self, n: int, n_times: int) -> str:
        """The collapse of so many series of such a length."""
        if self.collapse in ("corrected", "collapsed") and n_times > LONGEST_EXACT:
            raise ValueError(
                f"collapse={self.collapse!r} takes series of at most {LONGEST_EXACT} times, and "
                f"there are {n_times}. Use 'ep'."
            )
        if self.collapse != "auto":
            return self.collapse
        if self._collapse_options().get("draw") == "alternate":
            return "ep"
        return affordable_collapse(n, n_times, self.n_clusters)

    # ------------------------------------------------------------------ fitting

    def check(self, Y: Any, **names: Any) -> PreparedSeries:
        """Check settings and data as `fit` does, without fitting.

        Parameters
        ----------
        Y : array, DataFrame or path
        **names
            ``series``, ``time``, ``value``, ``covariates``, ``offset`` and ``freq`` as in `fit`.

        Returns
        -------
        PreparedSeries
            The prepared problem, which `fit` accepts in place of `Y`.
        """
        return self._prepare(Y, names)

    def _prepare(self, Y: Any, names: Mapping[str, Any]) -> PreparedSeries:
        self._check_settings()
        settings = self.get_params(deep=False)
        if is_spread(self, Y):
            check_spread(self, Y, names.get("covariates", ()), names.get("offset"))
            return PreparedSeries(Y, names, settings)
        data = with_terms(read_series(Y, **names), self.season, bool(self.difference))
        called = check_names(data.series, "series")
        return PreparedSeries(Y, names, settings, data, called, *self._plan(data))

    def fit(
        self,
        Y: Any,
        y: Any = None,
        *,
        series: str | None = None,
        time: str | None = None,
        value: str | None = None,
        covariates: Sequence[str] = (),
        offset: Any = None,
        freq: str | None = None,
        client: Any = None,
    ) -> Self:
        """Sample the posterior over partitions of the series.

        Parameters
        ----------
        Y : array, DataFrame, path or what `check` returned
            Either a wide table of shape (n_series, n_times), NaN where nothing was observed, or
            a long frame with one row per observation, in any order. A path is that of Parquet
            files in shards (a file, a folder, a pattern such as ``"rows/*.parquet"``), wide: a
            row per series and a column per time, whose name is the time; every sweep over these
            is shared, as by ``collapse="parallel"``.
        y : ignored
        series, time, value : str
            Columns of a long frame. Of Parquet files `series` alone: a column with names.
        covariates : sequence of str
            Columns of a long frame to regress on, with coefficients per series.
        offset : array or str, optional
            Known trend to be subtracted: an array like Y, or a column of the long frame.
        freq : str, optional
            Pandas frequency, such as ``"M"``: timestamps are put into periods of this length.
        client : distributed.Client, optional
            Dask cluster whose workers share every sweep over files, or by ``"parallel"``; whole
            chains run on them otherwise. The draws are the same.

        Returns
        -------
        self
        """
        check_client(client)
        if isinstance(Y, PreparedSeries):
            prepared = Y
            self._refuse_changed(prepared.settings)
        else:
            names = {"series": series, "time": time, "value": value, "covariates": covariates}
            prepared = self._prepare(Y, names | {"offset": offset, "freq": freq})
        if prepared.data is None:
            fit_spread(self, prepared.Y, client, prepared.columns)
            return self
        data, units, plan = prepared.data, prepared.units, prepared.plan
        run = run_plan(plan, self._run_settings(), client)
        n, n_times = data.y.shape
        moments = pool_trends([part for chain in run.summaries for part in chain])
        self._data, self._moments = data, moments
        posterior = plan.posterior(
            run,
            names=prepared.names,
            units=units,
            volume=float(data.count.sum(dtype=float)) * units.log_volume,
            summaries=summaries_of(data, moments),
            settings=self._settings(),
            noun="series",
            details=details_of(data) | {"collapse": self._collapse_for(n, n_times)},
        )
        self._finish(posterior)
        return self

    def _plan(self, data: SeriesData) -> tuple[Plan, SeriesUnits]:
        prior = self._specification()
        n = len(data.y)
        start: Any = self.init
        n_start = self.n_clusters
        if not isinstance(start, str):
            start = check_labels(start, n, self.n_clusters, prior.is_open)
            n_start = int(start.max()) + 1
        options = self._collapse_options()
        draw = options.pop("draw", "auto")
        hold = check_hold(self.hold)
        units = find_units(data, bool(self.intercept), each=own_scales(self.scales, data, hold))
        common = bool(self.common_factor)
        if self.common_factor == "auto":
            common = move_together(data, units)
        collapse = self._collapse_for(n, data.y.shape[1])
        problem = series_problem(
            data,
            units,
            check_priors(self.priors),
            hold,
            df=self.df,
            common=common,
            draw=draw,
            keep_trends=self._option("keep_trends"),
        )

        def labels(chain: int, rng: np.random.Generator) -> np.ndarray:
            return rng.integers(self.n_clusters, size=n) if isinstance(start, str) else start

        plan = self._planned(
            problem,
            problem.few(),
            data_digest(data.y, data.count, data.covariates, data.scatter),
            options,
            collapse,
            start=labels,
            n_start=n_start,
            anchors=(
                (lambda: nearest_anchors(smoothed_paths(data.y, data.count), mirrored=True))
                if self._option("moves") and n > 1
                else None
            ),
        )
        return plan, units

    # ------------------------------------------------------------------ results

    def _restore(self, posterior: Posterior) -> None:
        self._data, self._moments = data_from(posterior)

    def _settle(self, partition: Partition) -> None:
        super()._settle(partition)
        predictor = SeriesForecaster(self.posterior_, self._data, self._moments, self.df)
        self._summary = SeriesSummary(predictor, partition, self.common_factor)

    def _fitted(self) -> SeriesSummary:
        check_is_fitted(self, "posterior_")
        return self._summary

    @property
    def trends_(self) -> Band:
        """Trend of each series (state plus level, without noise), with 90% intervals.

        Intervals are those of normal distributions with the posterior means and variances.
        """
        return self._fitted().trends()

    @property
    def factors_(self) -> Band:
        """Factor of each cluster, with the sign of most loadings and 90% intervals."""
        return self._fitted().factors()

    @property
    def common_factor_(self) -> Band:
        """Factor that all series share, in one row, with 90% intervals."""
        return self._fitted().common_factor()

    @property
    def all_factors_(self) -> Band:
        """Factors of the clusters and, in a last row ``"common"``, the common factor."""
        return self._fitted().all_factors()

    @property
    def seasons_(self) -> Band:
        """Season of each series with 90% intervals, starting at the first time's position."""
        return self._fitted().seasons()

    @property
    def series_(self) -> pd.DataFrame:
        """Per series: cluster, number of observations, posterior means of its parameters."""
        return self._fitted().table()

    def typical_series(self, n: int = 3) -> pd.DataFrame:
        """Return the `n` most typical series of each cluster."""
        return self._fitted().typical_series(n)

    def distinguishing_features(self, most: int = 3) -> list[str]:
        """Describe when each cluster's series are high and low, and name the most typical.

        Trends are standardized, without the common factor's part, and reversed where a series
        moves against its cluster.
        """
        found = self._fitted()
        return found.distinguishing_features(found.picture(), found.typical_series(most))

    def common_factor_words(self) -> str:
        """Describe whether a common factor was removed, and why; empty if it was not to be."""
        return self._fitted().common_factor_words()

    # ------------------------------------------------------------------ predictions

    def forecast(self, steps: int = 1, *, of: str = OBSERVATION, level: float = LEVEL) -> Band:
        """Return mean and interval of every series at the next `steps` times.

        Intervals have quantiles of paths simulated from the draws. A warning is issued where most
        series trend: forecasts return to each series' level unless `difference` is set.

        Parameters
        ----------
        steps : int
        of : {"observation", "trend"}
            The interval is for one new observation (at the covariates' mean), or for the trend
            without noise.
        level : float
            Probability of the interval.
        """
        predictor = self._fitted().predictor
        band = predictor.forecast(steps, of, level)
        if (trend := predictor.trending()) > TRENDING:
            warnings.warn(
                f"Most series trend (median correlation with time {trend:.2f}), and forecasts "
                "return to each series' level. Fit with difference=True to forecast trends.",
                UserWarning,
                stacklevel=2,
            )
        return band

    def predict_values(
        self, rows: Any, *, of: str = OBSERVATION, level: float = LEVEL
    ) -> pd.DataFrame:
        """Return mean, interval and standard deviation at new rows.

        Within the data an interval is that of a normal distribution with the posterior mean and
        standard deviation. Beyond, it is the interval of `forecast`.

        Parameters
        ----------
        rows : DataFrame
            The columns of series and time (``"series"`` and ``"time"`` after a wide fit), and
            the covariates and offset of the fit. Times may lie beyond the data.
        of : {"observation", "trend"}
            The interval is for an observation, or for its expected value without noise.
        level : float
            Probability of the interval.
        """
        return self._fitted().predictor.predict_values(rows, of, level)

    def noise_variance(self) -> np.ndarray:
        """Return the variance of one observation about its trend, for each series.

        Student-t noise counts as the normal noise with the same 90% interval.
        """
        return self._fitted().predictor.noise_variance(LEVEL)

    def score_samples(self, rows: Any) -> np.ndarray:
        """Return the log predictive density of held-out rows (with their values).

        The expected value of a row is taken as normal with its exact posterior mean and variance.
        The noise added to it, Gaussian or Student-t, has the posterior means of its variance and
        degrees of freedom.
        """
        return self._fitted().predictor.score_samples(rows)

    def score(self, rows: Any, y: Any = None) -> float:
        """Return the mean log predictive density of held-out rows."""
        return float(self.score_samples(rows).mean())

    def membership(
        self,
        Y: Any,
        *,
        series: str | None = None,
        time: str | None = None,
        value: str | None = None,
        n_draws: int = MAX_DRAWS,
        random_state: Any = 0,
    ) -> pd.DataFrame:
        """Return cluster probabilities of series that were not in the fit, as a table.

        The factors are those of the fit. A new series' own parameters (autoregression, loading,
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
            One row per series: ``cluster``, its ``probability``, ``p_unmatched`` (probability of a
            cluster that matches none of the estimate's), and ``p_0``, ``p_1``, ...
        """
        check_is_fitted(self, "posterior_")
        check_count("n_draws", n_draws, 1)
        data = new_series(self._data, Y, series, time, value)
        return self._assigner(n_draws).table(
            data, np.random.default_rng(seed_entropy(random_state))
        )

    def predict(self, Y: Any, **options: Any) -> np.ndarray:
        """Return the most probable cluster of each new series; `options` as in `membership`.

        Examples
        --------
        >>> from cavity import SeriesMixture
        >>> from cavity.datasets import make_series
        >>> Y, truth = make_series(31, 60, n_clusters=3, random_state=1)
        >>> s = SeriesMixture(3, n_chains=2, n_warmup=40, n_draws=40, random_state=0).fit(Y[:30])
        >>> (label,) = s.predict(Y[30:])
        >>> bool(truth.labels[:30][s.labels_ == label][0] == truth.labels[30])
        True
        """
        return self.membership(Y, **options)["cluster"].to_numpy()

    def predict_proba(self, Y: Any, **options: Any) -> np.ndarray:
        """Return the probability of each cluster for each new series, an array (n, clusters).

        Given that the series is in one of these clusters: rows sum to one. `options` as in
        `membership`, which shows the probability of none of them.
        """
        table = self.membership(Y, **options)
        return given_matched(table[[f"p_{k}" for k in range(self.n_clusters_)]].to_numpy())

    def _assigner(self, n_draws: int) -> Assigner:
        prior, axis = check_priors(self.priors), self._data.axis
        return assigner(self.posterior_, self.partition_, axis, prior, self.df, n_draws)

    def predict_to_parquet(
        self,
        Y: str | os.PathLike[str],
        folder: str | os.PathLike[str],
        *,
        series: str | None = None,
        client: Any = None,
        n_draws: int = 50,
    ) -> list[Path]:
        """Write each series' cluster and its probabilities, one Parquet file for each of Y's.

        Works for series of the fit and new ones, each by itself given the clusters (`membership`).

        Parameters
        ----------
        Y : path
            Of a Parquet file, a folder or a pattern: a row per series, a column per time, over the
            times of the fit.
        folder : path
            Where to write; made if it is not there. Files have the names of Y's, and their rows
            are in the same order.
        series : str, optional
            A column with names, which goes with them.
        client : distributed.Client, optional
            Cluster that does it.
        n_draws : int
            Draws to average over.

        Returns
        -------
        list of Path
            The files, with the columns ``cluster``, ``probability``, ``p_unmatched``, ``p_0``, ...

        Examples
        --------
        >>> import pathlib, tempfile, pandas as pd
        >>> from cavity import SeriesMixture
        >>> from cavity.datasets import make_series
        >>> Y, truth = make_series(30, 60, n_clusters=3, random_state=1)
        >>> s = SeriesMixture(3, n_chains=2, n_warmup=40, n_draws=40, random_state=0).fit(Y)
        >>> folder = pathlib.Path(tempfile.mkdtemp())
        >>> frame = pd.DataFrame(Y, columns=[str(t) for t in range(60)])
        >>> frame.to_parquet(folder / "series.parquet")
        >>> (path,) = s.predict_to_parquet(folder / "series.parquet", folder / "placed")
        >>> pd.read_parquet(path)["cluster"].shape
        (30,)
        """
        check_is_fitted(self, "posterior_")
        check_client(client)
        return predict_series(self._assigner(n_draws), Y, Path(folder), series, client)

    def append(self, Y: Any, *, n_draws: int = 1000, random_state: Any = 0) -> Self:
        """Return a fitted estimator with later observations added, without a new fit.

        Labels and parameters stay those of the fit's draws. States and factors, old and new, are
        drawn again given these and all observations: trends end, and forecasts begin, where the
        data now end. Fit again when the new times are many compared with the old.

        Parameters
        ----------
        Y : array or DataFrame
            The times that follow: an array with a row per series and a column per time, a wide
            table of the same series with their times, or rows with the columns of the fit.
        n_draws : int
            Draws of the fit to keep, at most.
        random_state : None, int or Generator

        Examples
        --------
        >>> from cavity import SeriesMixture
        >>> from cavity.datasets import make_series
        >>> Y, truth = make_series(30, 66, n_clusters=3, random_state=1)
        >>> settings = {"n_chains": 2, "n_warmup": 40, "n_draws": 40, "random_state": 0}
        >>> s = SeriesMixture(3, **settings).fit(Y[:, :60])
        >>> later = s.append(Y[:, 60:])
        >>> later.trends_.mean.shape, s.trends_.mean.shape
        ((30, 66), (30, 60))
        """
        check_is_fitted(self, "posterior_")
        check_count("n_draws", n_draws, 1)
        other: Any = clone(self)
        other._data = appended(self._data, Y)
        rng = np.random.default_rng(seed_entropy(random_state))
        other.posterior_, other._moments = append_times(
            self.posterior_, self.labels_, other._data, self.priors, self.df, n_draws, rng
        )
        other._settle(self.partition_)
        if hasattr(self, "converged_"):
            other.converged_ = self.converged_
        return other

    # ------------------------------------------------------------------ plots and report

    def plot_clusters(self, **options: Any) -> Any:
        """Draw the series of each cluster and their mean; see `cavity.plotting.series`."""
        from cavity.plotting.series import plot_clusters

        return plot_clusters(self._fitted().picture(), **options)

    def plot_factors(self, **options: Any) -> Any:
        """Draw the factors with their intervals; see `cavity.plotting.series`."""
        from cavity.plotting.series import plot_factors

        return plot_factors(self._fitted().picture(), **options)

    def plot_common_factor(self, **options: Any) -> Any:
        """Draw the factor that all series share; see `cavity.plotting.series`."""
        from cavity.plotting.series import plot_common_factor

        return plot_common_factor(self._fitted().picture(), **options)

    def plot_dendrogram(self, **options: Any) -> Any:
        """Draw which series join first, by name; see `Posterior.plot_dendrogram`."""
        check_is_fitted(self, "posterior_")
        return self.posterior_.plot_dendrogram(self.partition_, **options)

    def plot_series(self, name: Any, *, steps: int = 0, **options: Any) -> Any:
        """Draw one series: data, trend, interval, missing values, a forecast of `steps` times."""
        from cavity.plotting.series import plot_series

        return plot_series(self._fitted().picture(steps), name, **options)

    def report(
        self,
        path: str | os.PathLike[str],
        *,
        title: str | None = None,
        settings: Mapping[str, Any] | None = None,
        sections: Iterable[Any] = (),
    ) -> Path:
        """Write an HTML report: summary in words, tables, pictures.

        Parameters
        ----------
        path : path
            File to write; an existing file is replaced.
        title : str, optional
        settings : mapping, optional
            Further lines of the list of settings, such as the data's file.
        sections : iterable, optional
            Further sections: what `posterior_.regress` and `posterior_.outcome` return, or
            (title, figure or axes, caption).
        """
        return self._fitted().report(path, title, settings, sections)
