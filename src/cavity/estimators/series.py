"""`SeriesMixture`: cluster many short, noisy, gappy series that share latent factors."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, ClusterMixin

from cavity.core.compile import cache_directory
from cavity.core.progress import say
from cavity.estimators.series_answers import SeriesAnswers
from cavity.estimators.series_data import SeriesData, from_rows, from_wide
from cavity.estimators.series_model import (
    Units,
    beta_in_users_units,
    build_model,
    build_priors,
    find_units,
    moving_parameters,
)
from cavity.estimators.series_results import Band, pool_trends
from cavity.estimators.series_settings import FIXABLE, PAIRS, TRIPLES, SeriesSettings
from cavity.estimators.validation import check_labels
from cavity.models.series.sampler import SeriesSampler, Settings
from cavity.models.series.state import FactorSeries
from cavity.posterior.posterior import Posterior
from cavity.posterior.record import RunRecord, versions
from cavity.priors.partition import PartitionPrior
from cavity.sampling.chains import run_chains
from cavity.sampling.fingerprint import data_digest


class SeriesMixture(SeriesAnswers, SeriesSettings, ClusterMixin, BaseEstimator):
    """Bayesian clustering of time series whose clusters share a latent factor.

    Each series is an autoregression driven by its cluster's factor, seen through noise::

        x_it  = a_i x_i,t-1 + loading_i eta_kt + N(0, var_x),   k = z_i,  eta_kt ~ N(0, 1)
        y_itl = offset_itl + beta_i' u_itl + x_it + N(0, var_y_i)
        x_i0  ~ N(0, var_x0)

    with any number of observations l per series and time: none, one or many. Cluster labels,
    factors, states and all parameters are drawn by MCMC; states are always integrated out of the
    label draws, and the factors exactly (``"collapsed"``), by expectation propagation (``"ep"``),
    or not (``"naive"``).

    Parameters
    ----------
    n_clusters : int
        Number of clusters; under an open prior, where to start.
    collapse : {"ep", "collapsed", "naive"}
        How factors are dealt with when labels are drawn.
    prior : {"dirichlet", "fixed", "dp", "pitman-yor"} or object from cavity.priors
        Prior over partitions; the last two leave the number of clusters open.
    concentration : float, "learn" or None
        Dirichlet parameter of each cluster, or mass of a new cluster under an open prior; None is
        1. A learned one has a Gamma(1, 1) prior.
    n_chains, n_warmup, n_draws, thin : int
        Chains; sweeps before the first draw; draws per chain; sweeps per draw.
    init : "random" or array of labels
        Where chains start.
    n_jobs : int or None
        Threads. The draws do not depend on it.
    random_state : int, Generator or None
        Seed.
    progress : bool or None
        Progress bars: None shows them on a terminal.
    checkpoint : path, optional
        File to continue from if it exists and to write to.
    keep_warmup : bool
        Keep the labels of warm-up sweeps.
    weights : array of n_clusters, optional
        Weights of the ``"fixed"`` prior, or relative shape of the Dirichlet prior.
    discount : float
        Discount of the Pitman-Yor prior.
    intercept : bool
        Give each series a level of its own (a coefficient of a constant, shrunk towards a common
        mean). Without it the model has mean zero, offset and covariates apart.
    a, loading, var_y : "learn", float, or one float per series
        Draw the parameter, or hold it at this value (in the data's units).
    var_x : "learn" or float
        The same, for all series together.
    beta : "learn" or array of shape (p,) or (n_series, p)
        The same for the coefficients, the intercept first.
    var_x0 : float, optional
        Variance of the state before the first time; by default the variance of the data.
    a_prior : (float, float)
        Mean and standard deviation of a normal, truncated to (-1, 1); a standard deviation of
        infinity makes it uniform.
    loading_prior : (float, float)
        Mean and standard deviation of a normal, in units of the data's standard deviation.
    var_x_prior, var_y_prior : (float, float)
        Shape and scale of inverse gamma distributions, in units of the data's variance.
    intercept_prior, beta_prior : (float, float, float)
        For the coefficients beta_ij ~ N(m_j, v_j): standard deviation of m_j's normal prior around
        zero, then shape and scale of v_j's inverse gamma prior, in standardised units.
    draw : {"auto", "joint", "alternate"}
        Draw factors and states as one block, exactly, or in turns. ``"auto"`` takes the block for
        series of at most 500 times. The exact collapse always takes the block.
    route : {"auto", "information", "filter"}
        How the exact collapse computes a cluster's likelihood; ``"auto"`` takes the cheaper.
    keep_trends : bool
        Keep every draw of every state (``posterior_.parameters["trend"]``), rather than their
        means and variances only.
    ep_fraction, ep_damping : float
        Power-EP fraction and damping of site updates.
    ep_pass_every : int
        Full EP passes every so many sweeps; 0 for none.

    Attributes
    ----------
    labels_ : array of int, shape (n_series,)
        The partition that minimises the posterior expected variation of information.
    n_clusters_ : int
        Its number of clusters.
    partition_ : Partition
        The same with its expected loss and ``credible_ball``.
    posterior_ : Posterior
        All draws, with summaries, diagnostics and plots; parameters are in the data's units.
    trends_, factors_ : Band
        Posterior mean and 90% interval of each series' trend (state plus level) and of each
        cluster's factor, as tables indexed by the user's series and times.
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

    def __init__(
        self,
        n_clusters: int = 10,
        *,
        collapse: str = "ep",
        prior: Any = "dirichlet",
        concentration: float | str = 1.0,
        n_chains: int = 4,
        n_warmup: int = 200,
        n_draws: int = 300,
        thin: int = 1,
        init: Any = "random",
        n_jobs: int | None = None,
        random_state: Any = None,
        progress: bool | None = None,
        checkpoint: Any = None,
        keep_warmup: bool = False,
        weights: Any = None,
        discount: float = 0.25,
        intercept: bool = True,
        a: Any = "learn",
        loading: Any = "learn",
        var_x: Any = "learn",
        var_y: Any = "learn",
        beta: Any = "learn",
        var_x0: float | None = None,
        a_prior: tuple[float, float] = (0.9, 0.1),
        loading_prior: tuple[float, float] = (0.0, 0.5),
        var_x_prior: tuple[float, float] = (1.0, 0.01),
        var_y_prior: tuple[float, float] = (1.0, 0.1),
        intercept_prior: tuple[float, float, float] = (1.0, 2.0, 0.5),
        beta_prior: tuple[float, float, float] = (1.0, 2.0, 0.1),
        draw: str = "auto",
        route: str = "auto",
        keep_trends: bool = False,
        ep_fraction: float = 1.0,
        ep_damping: float = 1.0,
        ep_pass_every: int = 0,
    ) -> None:
        self.n_clusters = n_clusters
        self.collapse = collapse
        self.prior = prior
        self.concentration = concentration
        self.n_chains = n_chains
        self.n_warmup = n_warmup
        self.n_draws = n_draws
        self.thin = thin
        self.init = init
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.progress = progress
        self.checkpoint = checkpoint
        self.keep_warmup = keep_warmup
        self.weights = weights
        self.discount = discount
        self.intercept = intercept
        self.a = a
        self.loading = loading
        self.var_x = var_x
        self.var_y = var_y
        self.beta = beta
        self.var_x0 = var_x0
        self.a_prior = a_prior
        self.loading_prior = loading_prior
        self.var_x_prior = var_x_prior
        self.var_y_prior = var_y_prior
        self.intercept_prior = intercept_prior
        self.beta_prior = beta_prior
        self.draw = draw
        self.route = route
        self.keep_trends = keep_trends
        self.ep_fraction = ep_fraction
        self.ep_damping = ep_damping
        self.ep_pass_every = ep_pass_every

    # ------------------------------------------------------------------ fitting

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
    ) -> SeriesMixture:
        """Sample the posterior over partitions of the series.

        Parameters
        ----------
        Y : array or DataFrame
            Either a wide table of shape (n_series, n_times), NaN where nothing was observed, or
            a long frame with one row per observation, in any order.
        y : ignored
        series, time, value : str
            Columns of a long frame.
        covariates : sequence of str
            Columns of a long frame to regress on, with coefficients per series.
        offset : array or str, optional
            Known trend to be subtracted: an array like Y, or a column of the long frame.
        freq : str, optional
            Pandas frequency, such as ``"M"``: timestamps are put into periods of this length.

        Returns
        -------
        self
        """
        self._check_settings()
        data = self._read(Y, series, time, value, covariates, offset, freq)
        units = find_units(data, bool(self.intercept))
        fixed = {name: getattr(self, name) for name in FIXABLE}
        model = build_model(data, units, fixed, self.var_x0)
        p = model.beta.shape[1]
        priors = build_priors(
            {name: getattr(self, name) for name in (*PAIRS, *TRIPLES)}, p, units.intercept
        )
        hyper = np.array([np.zeros(p), priors.beta_scale / (priors.beta_shape + 1.0)])
        prior = self._partition_prior(self.n_clusters)
        settings = Settings(
            collapse=self.collapse,
            draw=self.draw,
            route=self.route,
            moving=moving_parameters(fixed),
            concentration_prior=(1.0, 1.0) if self.concentration == "learn" else None,
            keep_trends=bool(self.keep_trends),
            ep={
                "fraction": float(self.ep_fraction),
                "damping": float(self.ep_damping),
                "pass_every": int(self.ep_pass_every),
            },
        )
        n = len(data.y)
        start: Any = self.init
        if not isinstance(start, str):
            start = check_labels(start, n, self.n_clusters, self._open())

        def make_sampler(chain: int, rng: np.random.Generator) -> SeriesSampler:
            labels = rng.integers(self.n_clusters, size=n) if isinstance(start, str) else start
            return SeriesSampler(model, labels, prior, priors, hyper, settings, rng)

        from threadpoolctl import threadpool_limits

        # Chains are the threads: a factorisation that starts more of its own only waits for them.
        with threadpool_limits(1, user_api="blas"):
            _compile(model, prior, priors, hyper, settings)
            run = run_chains(
                make_sampler,
                n_chains=self.n_chains,
                n_warmup=self.n_warmup,
                n_draws=self.n_draws,
                thin=self.thin,
                n_jobs=self.n_jobs,
                random_state=self.random_state,
                progress=self.progress,
                checkpoint=self.checkpoint,
                keep_warmup=self.keep_warmup,
                fingerprint={
                    "model": type(self).__name__,
                    "settings": {k: v for k, v in self.get_params().items() if k != "checkpoint"},
                    "data": data_digest(data.y, data.count, data.covariates, data.scatter),
                },
                label=type(self).__name__,
            )
        self._data, self._units = data, units
        self._moments = pool_trends([sampler.update for sampler in run.samplers])  # type: ignore[attr-defined]
        self.posterior_ = self._posterior(run, data, units)
        self.partition_ = self.posterior_.partition("vi")
        self.labels_ = self.partition_.labels.astype(np.int64)
        self.n_clusters_ = int(self.partition_.n_clusters)
        self._aligned = None
        return self

    def _read(
        self,
        Y: Any,
        series: str | None,
        time: str | None,
        value: str | None,
        covariates: Sequence[str],
        offset: Any,
        freq: str | None,
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

    def _posterior(self, run: Any, data: SeriesData, units: Units) -> Posterior:
        parameters = dict(run.parameters)
        scale = units.scale
        parameters["loading"] = parameters["loading"] * np.float32(scale)
        parameters["state_last"] = parameters["state_last"] * np.float32(scale)
        for name in ("var_x", "var_y"):
            parameters[name] = parameters[name].astype(float) * scale**2
        if "beta" in parameters:
            parameters["beta"] = beta_in_users_units(parameters["beta"], units)
        if "trend" in parameters:
            parameters["trend"] = parameters["trend"] * scale + units.centre
        n_obs = float(data.count.sum(dtype=float))
        parameters["log_likelihood"] = parameters["log_likelihood"] - n_obs * np.log(scale)
        return Posterior(
            run.labels,
            log_joint=run.log_joint - n_obs * np.log(scale),
            sweep_seconds=run.sweep_seconds,
            labels_warmup=run.labels_warmup,
            parameters=parameters,
            cluster_parameters=run.cluster_parameters,
            events=run.events,
            names=[str(v) for v in data.series],
            record=self._record(run, data),
        )

    def _record(self, run: Any, data: SeriesData) -> RunRecord:
        times = data.axis.labels()
        return RunRecord(
            model=type(self).__name__,
            settings={k: v for k, v in self.get_params().items() if k != "checkpoint"},
            noun="series",
            max_clusters=None if self._open() else int(self.n_clusters),
            n_warmup=int(run.n_warmup),
            thin=int(run.thin),
            interrupted=bool(run.interrupted),
            versions=versions(),
            details={
                "n_times": data.axis.size,
                "n_values": int(data.count.sum(dtype=float)),
                "times": [str(times[0]), str(times[-1])],
                "covariates": list(data.covariate_names),
            },
        )


def _compile(
    model: FactorSeries, prior: PartitionPrior, priors: Any, hyper: np.ndarray, settings: Settings
) -> None:
    """Run a sweep over a few series and times, so that no chain's clock shows compilation."""
    folder = cache_directory()
    if folder is None or not any(folder.iterdir()):
        say("compiling kernels: once on this machine, about half a minute")
    n, n_times = min(3, len(model.y)), min(3, model.y.shape[1])
    own = ("totals", "scatter", "a", "loading", "var_y", "beta")
    few = model._replace(
        y=np.ascontiguousarray(model.y[:n, :n_times]),
        repeats=np.ascontiguousarray(model.repeats[:n, :n_times]),
        covariates=np.ascontiguousarray(model.covariates[:n, :n_times]),
        row=np.zeros((len(model.row), n_times)),
        **{name: getattr(model, name)[:n] for name in own},
    )
    rng = np.random.default_rng(0)
    sampler = SeriesSampler(few, np.zeros(n, dtype=int), prior, priors, hyper, settings, rng)
    sampler.sweep(rng)
    sampler.log_joint()
    sampler.keep()


__all__ = ["Band", "SeriesMixture"]
