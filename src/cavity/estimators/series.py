"""`SeriesMixture`: cluster many short, noisy, gappy series that share latent factors."""

from __future__ import annotations

import platform
import warnings
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.base import BaseEstimator, ClusterMixin
from sklearn.utils.validation import check_is_fitted

from cavity import __version__, _progress
from cavity._jit import cache_directory
from cavity.estimators.series_data import SeriesData, from_rows, from_wide, locate_rows
from cavity.estimators.series_model import (
    Units,
    beta_in_users_units,
    build_model,
    build_priors,
    find_units,
    moving_parameters,
)
from cavity.estimators.series_results import (
    AlignedFactors,
    Band,
    TrendMoments,
    align_factors,
    forecast_moments,
    normal_quantile,
    pool_trends,
    typical_members,
)
from cavity.estimators.validation import check_choice, check_count, check_labels, check_number
from cavity.models.series.exact import ROUTES
from cavity.models.series.sampler import COLLAPSES, DRAWS, SeriesSampler, Settings
from cavity.models.series.state import FactorSeries
from cavity.posterior.posterior import Posterior
from cavity.priors import (
    Dirichlet,
    DirichletProcess,
    FixedWeights,
    PartitionPrior,
    PitmanYor,
    dirichlet,
    dirichlet_process,
    fixed_weights,
    is_open,
    pitman_yor,
)
from cavity.sampling.chains import run_chains
from cavity.sampling.fingerprint import data_digest

if TYPE_CHECKING:
    import pandas as pd

PRIORS = ("fixed", "dirichlet", "dp", "pitman-yor")
_FIXABLE = ("a", "loading", "var_x", "var_y", "beta")
_PAIRS = {
    "a_prior": "mean and standard deviation",
    "loading_prior": "mean and standard deviation",
    "var_x_prior": "shape and scale",
    "var_y_prior": "shape and scale",
}
_TRIPLES = ("intercept_prior", "beta_prior")


class SeriesMixture(ClusterMixin, BaseEstimator):
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
    concentration : float or "learn"
        Dirichlet parameter of each cluster, or mass of a new cluster under an open prior. A
        learned one has a Gamma(1, 1) prior.
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

    # ------------------------------------------------------------------ settings

    def _check_settings(self) -> None:
        check_count("n_clusters", self.n_clusters, 1)
        check_choice("collapse", self.collapse, COLLAPSES)
        check_choice("draw", self.draw, DRAWS)
        check_choice("route", self.route, tuple(ROUTES))
        check_count("n_chains", self.n_chains, 1)
        check_count("n_warmup", self.n_warmup, 0)
        check_count("n_draws", self.n_draws, 1)
        check_count("thin", self.thin, 1)
        check_number("ep_fraction", self.ep_fraction, 0.0, 1.0)
        check_number("ep_damping", self.ep_damping, 0.0, 1.0)
        check_count("ep_pass_every", self.ep_pass_every, 0)
        if self.collapse == "collapsed" and self.draw == "alternate":
            raise ValueError(
                "draw='alternate' would not leave the posterior unchanged under "
                "collapse='collapsed', whose label draws integrate factors and states out. Use "
                "draw='auto'."
            )
        if isinstance(self.init, str):
            check_choice("init", self.init, ("random",))
        if isinstance(self.prior, str):
            check_choice("prior", self.prior, PRIORS)
        elif not isinstance(self.prior, FixedWeights | Dirichlet | DirichletProcess | PitmanYor):
            raise ValueError(
                f"prior must be one of {', '.join(map(repr, PRIORS))} or a prior object from "
                f"cavity.priors, not {self.prior!r}."
            )
        if isinstance(self.concentration, str):
            if self.concentration != "learn":
                raise ValueError(
                    "concentration must be a positive number or 'learn', not "
                    f"{self.concentration!r}."
                )
            if self.prior == "fixed" or isinstance(self.prior, FixedWeights):
                raise ValueError("concentration='learn' needs a prior that has one, not 'fixed'.")
        else:
            check_number("concentration", self.concentration, 0.0)
        for name, meaning in _PAIRS.items():
            self._check_hyper(name, 2, meaning)
        for name in _TRIPLES:
            self._check_hyper(name, 3, "standard deviation, shape and scale")

    def _check_hyper(self, name: str, size: int, meaning: str) -> None:
        value = getattr(self, name)
        try:
            numbers = [float(v) for v in value]
        except (TypeError, ValueError):
            numbers = []
        free = name in ("a_prior", "loading_prior")
        ok = len(numbers) == size and all(v > 0 for v in numbers[int(free) :])
        ok = ok and all(np.isfinite(v) for v in numbers[: 1 if name == "a_prior" else size])
        if not ok:
            positive = "" if free else ", all positive"
            raise ValueError(
                f"{name} must hold {size} numbers ({meaning}{positive}), not {value!r}."
            )

    def _partition_prior(self) -> PartitionPrior:
        start = 1.0 if self.concentration == "learn" else float(self.concentration)
        if isinstance(self.prior, str):
            shape = None
            if self.weights is not None:
                shape = np.asarray(self.weights, dtype=float)
                if shape.shape != (self.n_clusters,) or not (shape > 0).all():
                    raise ValueError(
                        f"weights must hold n_clusters={self.n_clusters} positive numbers, not "
                        f"{self.weights!r}."
                    )
            if self.prior == "fixed":
                return fixed_weights(np.ones(self.n_clusters) if shape is None else shape)
            if self.prior == "dirichlet":
                return dirichlet(self.n_clusters, start, shape)
            if self.prior == "dp":
                return dirichlet_process(self.n_clusters, start)
            check_number("discount", self.discount, 0.0, strict=False)
            if self.discount >= 1.0:
                raise ValueError(f"discount must be below 1, not {self.discount!r}.")
            return pitman_yor(self.n_clusters, start, self.discount)
        given: Any = self.prior
        if not is_open(given) and given[0].size != self.n_clusters:
            raise ValueError(
                f"prior is over {given[0].size} clusters, but n_clusters={self.n_clusters}. Make "
                "them agree."
            )
        return given

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
        fixed = {name: getattr(self, name) for name in _FIXABLE}
        model = build_model(data, units, fixed, self.var_x0)
        p = model.beta.shape[1]
        priors = build_priors(
            {name: getattr(self, name) for name in (*_PAIRS, *_TRIPLES)}, p, units.intercept
        )
        hyper = np.array([np.zeros(p), priors.beta_scale / (priors.beta_shape + 1.0)])
        prior = self._partition_prior()
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
            start = check_labels(start, n, self.n_clusters, is_open(prior))

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
        self._aligned: AlignedFactors | None = None
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
            info=self._info(run, data, units),
        )

    def _info(self, run: Any, data: SeriesData, units: Units) -> dict[str, Any]:
        settings = {
            k: v if isinstance(v, str | int | float | bool | None) else repr(v)
            for k, v in self.get_params().items()
        }
        times = data.axis.labels()
        return {
            "model": type(self).__name__,
            "settings": settings,
            "n_series": len(data.y),
            "n_times": data.axis.size,
            "n_observations": int(data.count.sum(dtype=float)),
            "times": [str(times[0]), str(times[-1])],
            "covariates": list(data.covariate_names),
            "standardisation": {"centre": float(units.centre), "scale": float(units.scale)},
            "interrupted": bool(run.interrupted),
            "n_warmup": int(run.n_warmup),
            "thin": int(run.thin),
            "versions": {
                "cavity": __version__,
                "numpy": np.__version__,
                "python": platform.python_version(),
            },
        }

    # ------------------------------------------------------------------ answers

    def _flat(self, name: str) -> np.ndarray:
        values = self.posterior_.parameters[name]
        return values.reshape(-1, *values.shape[2:])

    def _band(
        self, mean: np.ndarray, sd: np.ndarray, index: Any, columns: Any, level: float
    ) -> Band:
        import pandas as pd

        half = normal_quantile(level) * sd
        return Band(
            *(
                pd.DataFrame(v, index=index, columns=columns)
                for v in (mean, mean - half, mean + half)
            )
        )

    def trends(self, level: float = 0.9) -> Band:
        """Posterior mean and interval of each series' trend: state plus level, without noise."""
        check_is_fitted(self)
        mean = self._moments.mean * self._units.scale + self._units.centre
        sd = np.sqrt(self._moments.variance) * self._units.scale
        return self._band(mean, sd, self._data.series, self._data.axis.labels(), level)

    def factors(self, level: float = 0.9) -> Band:
        """Posterior mean and interval of each cluster's factor, with the sign of most loadings."""
        aligned = self._align()
        return self._band(
            aligned.mean, np.sqrt(aligned.variance), np.arange(self.n_clusters_),
            self._data.axis.labels(), level,
        )  # fmt: skip

    @property
    def trends_(self) -> Band:
        """Trends with 90% intervals."""
        return self.trends()

    @property
    def factors_(self) -> Band:
        """Factors with 90% intervals."""
        return self.factors()

    def _align(self) -> AlignedFactors:
        check_is_fitted(self)
        if self._aligned is None:
            self._aligned = align_factors(
                self.posterior_.flat_labels,
                self._flat("factor"),
                self._flat("loading"),
                self.labels_,
            )
        return self._aligned

    @property
    def series_(self) -> pd.DataFrame:
        """Per series: cluster, number of observations, posterior means of its parameters."""
        import pandas as pd

        aligned = self._align()
        table = {
            "cluster": self.labels_,
            "n_observations": self._data.count.sum(1, dtype=float).astype(np.int64),
            "a": self._flat("a").mean(0),
            "loading": aligned.loading,
            "loading_sd": aligned.loading_sd,
            "var_y": self._flat("var_y").mean(0),
        }
        if "beta" in self.posterior_.parameters:
            names = ["intercept"] * self._units.intercept + list(self._data.covariate_names)
            for j, name in enumerate(names):
                table[f"beta[{name}]"] = self._flat("beta")[:, :, j].mean(0)
        return pd.DataFrame(table, index=self._data.series)

    def typical_series(self, n: int = 3) -> pd.DataFrame:
        """The `n` series of each cluster most often found with its other members."""
        import pandas as pd

        check_is_fitted(self)
        members = typical_members(np.asarray(self.posterior_.similarity()), self.labels_, n)
        rows = [
            (k, rank, self._data.series[i]) for k, own in enumerate(members)
            for rank, i in enumerate(own)
        ]  # fmt: skip
        table = pd.DataFrame(rows, columns=["cluster", "rank", "series"])
        return table.pivot(index="cluster", columns="rank", values="series")

    # ------------------------------------------------------------------ pictures

    def plot_clusters(self, **options: Any) -> Any:
        """Draw the series of each cluster with their factor; see `report.series_plots`."""
        from cavity.report.series_plots import plot_clusters

        check_is_fitted(self)
        return plot_clusters(self, **options)

    def plot_factors(self, **options: Any) -> Any:
        """Draw the factors with their intervals; see `report.series_plots`."""
        from cavity.report.series_plots import plot_factors

        check_is_fitted(self)
        return plot_factors(self, **options)

    def plot_series(self, name: Any, **options: Any) -> Any:
        """Draw one series with data, trend, interval, gaps and forecast."""
        from cavity.report.series_plots import plot_series

        check_is_fitted(self)
        return plot_series(self, name, **options)

    # ------------------------------------------------------------------ prediction

    def forecast(self, steps: int = 1, *, level: float = 0.9, noise: bool = False) -> Band:
        """Trends beyond the data: mean and interval for the next `steps` times.

        Parameters
        ----------
        steps : int
        level : float
            Probability of the interval.
        noise : bool
            Of one new observation (without covariates' part) instead of the trend.
        """
        check_is_fitted(self)
        check_count("steps", steps, 1)
        mean, variance = self._ahead(np.arange(1, steps + 1))
        if noise:
            variance = variance + self._flat("var_y").mean(0)[:, None]
        labels = self._data.axis.labels(self._data.axis.size, steps)
        return self._band(mean, np.sqrt(variance), self._data.series, labels, level)

    def _ahead(self, steps: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Mean and variance of all trends some steps beyond the data, in the user's units."""
        last = self._flat("state_last").astype(float)
        level: Any = np.zeros_like(last)
        if self._units.intercept:
            # At the covariates' centre, as the trends are.
            beta = self._flat("beta")
            level = beta[..., 0] + beta[..., 1:] @ self._units.covariate_centre
        return forecast_moments(
            steps, self._flat("a"), self._flat("loading"), self._flat("var_x"), last, level
        )

    def _predictive(self, rows: Any, with_value: bool) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Mean and variance (noise included) of each new row, and its value."""
        check_is_fitted(self)
        if not hasattr(rows, "columns"):
            raise ValueError(
                "rows must be a DataFrame with columns "
                f"{', '.join(repr(c) for c in self._data.columns[:2])} and the covariates."
            )
        i, t, u, shift, y = locate_rows(rows, self._data, with_value=with_value)
        units, moments = self._units, self._moments
        size = self._data.axis.size
        inside = t < size
        at = np.minimum(t, size - 1)
        mean = moments.mean[i, at].astype(float) * units.scale + units.centre
        variance = moments.variance[i, at].astype(float) * units.scale**2
        if not inside.all():
            steps, which = np.unique(t[~inside] - size + 1, return_inverse=True)
            ahead_mean, ahead_variance = self._ahead(steps)
            mean[~inside] = ahead_mean[i[~inside], which]
            variance[~inside] = ahead_variance[i[~inside], which]
        if u.shape[1]:
            apart = u - units.covariate_centre
            slopes = self._flat("beta")[:, :, int(units.intercept) :]
            in_units = apart / units.covariate_scale
            cross = moments.cross[i, at].astype(float) * inside[:, None]
            variance += 2.0 * units.scale**2 * (cross * in_units).sum(1)
            for s in np.unique(i):
                own = i == s
                draws = slopes[:, s] @ apart[own].T
                mean[own] += draws.mean(0)
                variance[own] += draws.var(0)
        floor = self._flat("var_y").mean(0)[i]
        return mean + shift, np.maximum(variance, 0.0) + floor, y

    def predict(self, rows: Any, *, level: float = 0.9) -> pd.DataFrame:
        """Predict observations: mean and interval per row, observation noise included.

        Parameters
        ----------
        rows : DataFrame
            The columns of series and time (``"series"`` and ``"time"`` after a wide fit), and
            the covariates and offset of the fit. Times may lie beyond the data.
        level : float
            Probability of the interval.
        """
        import pandas as pd

        mean, variance, _ = self._predictive(rows, False)
        sd = np.sqrt(variance)
        half = normal_quantile(level) * sd
        return pd.DataFrame(
            {"mean": mean, "lower": mean - half, "upper": mean + half, "sd": sd}, index=rows.index
        )

    def score_samples(self, rows: Any) -> np.ndarray:
        """Log predictive density of held-out rows (with their values).

        The predictive distribution of a row is taken as normal with its exact posterior mean and
        variance.
        """
        mean, variance, y = self._predictive(rows, True)
        return -0.5 * (np.log(2.0 * np.pi * variance) + (y - mean) ** 2 / variance)

    def score(self, rows: Any, y: Any = None) -> float:
        """Mean log predictive density of held-out rows: a held-out log score."""
        return float(self.score_samples(rows).mean())


def _compile(
    model: FactorSeries, prior: PartitionPrior, priors: Any, hyper: np.ndarray, settings: Settings
) -> None:
    """Run a sweep over a few series and times, so that no chain's clock shows compilation."""
    folder = cache_directory()
    if folder is None or not any(folder.iterdir()):
        _progress.say("compiling kernels: once on this machine, about 20 s")
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


__all__ = ["Band", "SeriesMixture", "TrendMoments"]
