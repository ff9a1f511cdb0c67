"""Clusters of correlated, gappy time series: `SeriesMixture`."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np

from cavity.estimators.base import Estimator
from cavity.estimators.fitting import Plan, run_plan
from cavity.estimators.rehearsal import request_of
from cavity.estimators.sharded import check_client
from cavity.estimators.validation import check_labels, check_names
from cavity.mcmc.fingerprint import data_digest
from cavity.moves.anchors import nearest_anchors
from cavity.posterior.units import SeriesUnits
from cavity.priors.series import SeriesPrior
from cavity.series.answers import SeriesAnswers
from cavity.series.append import SeriesExtension
from cavity.series.collapses import affordable_collapse
from cavity.series.common_factor import move_together
from cavity.series.data import SeriesData, check_season, from_rows, from_wide, with_season
from cavity.series.exact import ROUTES
from cavity.series.initialization import find_units, smoothed_paths
from cavity.series.problem import (
    DRAWS,
    check_df,
    check_hold,
    check_priors,
    check_scales,
    own_scales,
    series_problem,
)
from cavity.series.results import Band, details_of, pool_trends, summaries_of
from cavity.series.spread import PARALLEL, SeriesSpread


@dataclass(repr=False, eq=False, kw_only=True)
class SeriesMixture(SeriesAnswers, SeriesSpread, SeriesExtension, Estimator):
    """Bayesian clustering of time series whose clusters share a latent factor.

    Each series is an autoregression driven by its cluster's factor, seen through noise::

        x_it  = a_i x_i,t-1 + loading_i eta_kt + common_i g_t + N(0, var_x),   k = z_i
        y_itl = offset_itl + beta_i' f_itl + x_it + N(0, var_y_i)
        x_i0  ~ N(0, var_x0),   eta_kt ~ N(0, 1),   g_t ~ N(0, 1)

    with any number of observations l per series and time: none, one or many; g is there where all
    series move together (`common_factor`). Cluster labels, factors, states and all parameters are
    drawn by MCMC; states are always integrated out of the label draws, and the clusters' factors
    exactly (``"corrected"``, ``"collapsed"``), by expectation propagation (``"ep"``), or not
    (``"naive"``).

    Parameters
    ----------
    n_clusters : int
        The most clusters there may be; under an open prior, where to start.
    collapse : {"auto", "corrected", "ep", "collapsed", "naive", "parallel"}
        How factors are dealt with when labels are drawn. ``"corrected"`` proposes labels by a
        cheap score and accepts them by the exact posterior; ``"collapsed"`` scores all exactly,
        at many times the price; ``"ep"`` is an approximation, whose distance from exact the
        diagnostics show. ``"auto"`` is ``"corrected"`` up to 500 times and as many series as
        leave the longest sweep below about a second (57,000 of 50 times, 15,000 of 100, 2,600 of
        200, 200 of 500) and the matrices of the clusters below 200 MB, and ``"ep"`` beyond.
        ``"parallel"`` is for many series, in memory or in files: given drawn factors series are
        independent, so that threads or workers share every sweep. It is exact and follows a
        sample of 1,000 series; see docs/scaling.md.
    prior, n_chains, n_warmup, n_draws, thin, max_sweeps, max_seconds, n_jobs, random_state, \
progress, checkpoint, keep_warmup
        As for `StudentTMixture`.
    concentration : float, "learn" or None
        Of the prior over partitions, as for `StudentTMixture`.
    moves : bool
        Try moves of whole groups of series after each sweep (split, merge, exchange), confirmed
        by exact evidence; for ``"corrected"``.
    init : "random" or array of labels
        Where chains start.
    intercept : bool
        Give each series a level of its own (a coefficient of a constant, shrunk towards a common
        mean). Without it the model has mean zero, offset and covariates apart.
    priors : SeriesPrior, optional
        Priors of the series' parameters: ``cavity.priors.SeriesPrior(a=(0.9, 0.1), ...)``. They
        are in the units that `scales` says.
    scales : {"auto", "each", "all"}
        What the data are divided by: each series by its own robust spread, so that neither loud
        series nor wild values decide, or all by their standard deviation. By default each, but
        for models with covariates, whose coefficients are alike in the data's units, or with a
        variance in `hold` that all series share.
    df : "learn", float or None
        Degrees of freedom of the observations' noise: Student-t, so that single wild values make
        no clusters, with learned (a Gamma(2, 0.1) prior) or known degrees; None is Gaussian.
    common_factor : bool or "auto"
        Let all series share a factor g beside those of their clusters: the market of stock returns,
        the economy. Clusters are then of what it does not explain. By default where one movement
        of nearly all series stands out of their correlations.
    season : int, optional
        Number of times in a season, such as 12 for months: each series has a seasonal pattern of
        its own, of up to three waves, shrunk towards what all have in common. Trends are
        without it; predictions and forecasts of observations include it.
    hold : dict, optional
        Parameters that are known rather than drawn, in the data's units: ``a``, ``loading``,
        ``common`` and ``var_y`` (a number, or one per series), ``var_x`` and ``var_x0`` (a number),
        ``beta`` (p numbers, or a row per series, the intercept first).
    keep_trends : bool
        Keep every draw of every state (``posterior_.parameters["trend"]``), rather than their
        means and variances only.
    collapse_options : dict, optional
        ``draw``: draw factors and states as one block, exactly (``"joint"``), or in turns
        (``"alternate"``); ``"auto"`` takes the block for series of at most 500 times, and the exact
        collapses always do. For ``collapse="collapsed"``, ``route``: ``"information"``,
        ``"filter"`` or ``"auto"``, the cheaper. For ``"ep"``: ``fraction`` and ``damping`` of site
        updates, ``pass_every``: full EP passes every so many sweeps.
    loss : {"omari", "vi", "binder"} or Loss
        As for `StudentTMixture`.

    Attributes
    ----------
    labels_, n_clusters_, partition_, converged_, posterior_
        As for `StudentTMixture`, of series; parameters are in the data's units.
    trends_, factors_, common_factor_, seasons_ : Band
        Posterior mean and 90% interval of each series' trend (state plus level), of each
        cluster's factor, of the factor that all share and of each series' season (where the model
        has them), as tables indexed by the user's series and times.
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
    _options: ClassVar[dict[str, tuple[str, ...]]] = {"draw": DRAWS, "route": tuple(ROUTES)}

    collapse: str = "auto"
    moves: bool = True
    intercept: bool = True
    priors: SeriesPrior | None = None
    scales: str = "auto"
    df: float | str | None = "learn"
    common_factor: bool | str = "auto"
    season: int | None = None
    hold: Any = None
    keep_trends: bool = False

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
                "collapse_options['draw']='alternate' would not leave the posterior unchanged "
                f"under collapse={self.collapse!r}, whose label draws integrate factors and "
                "states out. Use 'auto'."
            )
        if options.get("refresh_every", 1) != 1:
            raise ValueError(
                "collapse_options['refresh_every'] must be 1 for series: their parameters are "
                "drawn after every sweep, and every site follows them."
            )
        if self.collapse != "collapsed" and "route" in options:
            raise ValueError("collapse_options['route'] is one of collapse='collapsed' alone.")

    def _collapses(self) -> tuple[str, ...]:
        return ("auto", *super()._collapses(), PARALLEL)

    def _collapse_for(self, n: int, n_times: int) -> str:
        """The collapse of so many series of such a length."""
        if self.collapse != "auto":
            return self.collapse
        if self._collapse_options().get("draw") == "alternate":
            return "ep"
        return affordable_collapse(n, n_times, self.n_clusters)

    # ------------------------------------------------------------------ fitting

    def check(self, Y: Any, **names: Any) -> Self:
        """Refuse settings and data that `fit` would refuse, without fitting; returns self.

        Parameters
        ----------
        Y : array, DataFrame or path
        **names
            ``series``, ``time``, ``value``, ``covariates``, ``offset`` and ``freq`` as in `fit`.
        """
        self._check_settings()
        if self._is_spread(Y):
            self._check_spread(Y, names.get("covariates", ()), names.get("offset"))
            return self
        data = with_season(self._read(Y, **names), self.season)
        check_names(data.series, "series")
        self._plan(data)
        return self

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
        Y : array, DataFrame or path
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
        self._check_settings()
        check_client(client)
        if self._is_spread(Y):
            self._fit_shards(
                Y, client, names=series, covariates=covariates, offset=offset,
                read=lambda: self._read(Y, series, time, value, covariates, offset, freq),
            )  # fmt: skip
            return self
        data = with_season(
            self._read(Y, series, time, value, covariates, offset, freq), self.season
        )
        names = check_names(data.series, "series")
        plan, units = self._plan(data)
        run = run_plan(plan, self._run_settings(), client)
        n, n_times = data.y.shape
        moments = pool_trends([part for chain in run.summaries for part in chain])
        self._data, self._moments = data, moments
        posterior = plan.posterior(
            run,
            names=names,
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
        common = self._has_common_factor(data, units)
        collapse = self._collapse_for(n, data.y.shape[1])
        problem = series_problem(
            data,
            units,
            check_priors(self.priors),
            hold,
            df=self.df,
            common=common,
            draw=draw,
            keep_trends=bool(self.keep_trends),
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
                if self.moves and n > 1
                else None
            ),
            request=request_of(
                type(self).__name__,
                {**self._settings(), "collapse": collapse, "common_factor": common},
            ),
        )
        return plan, units

    def _has_common_factor(self, data: SeriesData, units: SeriesUnits) -> bool:
        if self.common_factor == "auto":
            return move_together(data, units)
        return bool(self.common_factor)

    def _read(
        self,
        Y: Any,
        series: str | None = None,
        time: str | None = None,
        value: str | None = None,
        covariates: Sequence[str] = (),
        offset: Any = None,
        freq: str | None = None,
    ) -> SeriesData:
        names = {"series": series, "time": time, "value": value}
        given = [name for name, column in names.items() if column is not None]
        if not given:
            if len(covariates):
                raise ValueError(
                    "covariates need a long frame: name its columns by series=, time= and value=."
                )
            data = from_wide(Y, offset, freq)
        else:
            if len(given) < 3:
                missing = ", ".join(f"{n}=" for n in names if n not in given)
                raise ValueError(f"a long frame needs {missing} as well as {', '.join(given)}.")
            if not hasattr(Y, "columns"):
                raise ValueError("series=, time= and value= name columns, but Y is no DataFrame.")
            if isinstance(covariates, str):
                covariates = (covariates,)
            if offset is not None and not isinstance(offset, str):
                raise ValueError("offset must name a column of the long frame.")
            data = from_rows(Y, str(series), str(time), str(value), tuple(covariates), offset, freq)
        silent = np.flatnonzero(data.count.sum(1) == 0)
        if silent.size:
            listed = ", ".join(str(data.series[i]) for i in silent[:5])
            warnings.warn(
                f"{silent.size} series without any observation ({listed}"
                f"{' ...' if silent.size > 5 else ''}): their clusters are the prior's guess.",
                UserWarning,
                stacklevel=3,
            )
        return data


__all__ = ["Band", "SeriesMixture"]
