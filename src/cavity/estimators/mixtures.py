"""Mixture estimators with scikit-learn's interface: `StudentTMixture` and `GaussianMixture`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.base import BaseEstimator, ClusterMixin, DensityMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from cavity.core.compile import cache_directory
from cavity.core.progress import say
from cavity.estimators.checks import STATISTICS, predictive_check
from cavity.estimators.cluster_prior import ClusterPrior, cluster_prior
from cavity.estimators.description import describe
from cavity.estimators.partition_settings import PartitionSettings
from cavity.estimators.predictive import (
    MAX_DRAWS,
    MixtureDraws,
    mixture_draws,
    predict,
    spread_draws,
)
from cavity.estimators.start import initial_labels
from cavity.estimators.validation import (
    check_choice,
    check_count,
    check_finite,
    check_labels,
    check_number,
    check_numeric,
    robust_standardiser,
)
from cavity.models.mixtures import gaussian_collapse, student_t_collapse
from cavity.posterior.partition import Partition
from cavity.posterior.posterior import Posterior
from cavity.posterior.record import RunRecord, versions
from cavity.sampling.chains import run_chains
from cavity.sampling.fingerprint import data_digest
from cavity.sampling.sampler import PartitionSampler, slots_for

if TYPE_CHECKING:
    import pandas as pd

# A cluster's Dirichlet parameter of 20 expects sizes of the same order, and mixes well; much
# smaller ones let clusters die. Under an open prior it is the mass of a new cluster.
CONCENTRATION, CONCENTRATION_OPEN = 20.0, 1.0
CONCENTRATION_PRIOR, CONCENTRATION_PRIOR_OPEN = (1.0, 0.1), (1.0, 1.0)


class _Mixture(PartitionSettings, ClusterMixin, DensityMixin, BaseEstimator):
    """What the two mixtures share: validation, running chains, summaries, prediction."""

    # Set by the estimators' constructors.
    collapse: str
    concentration: Any
    init: Any
    n_jobs: int | None
    random_state: Any
    progress: bool | None
    checkpoint: Any
    keep_warmup: bool
    mean_prior_strength: float
    covariance_prior_df: float | None
    covariance_prior_scale: float | str

    _collapses: tuple[str, ...] = ()
    _cluster_parameters: tuple[str, ...] = ("weight", "mean", "covariance")

    # ------------------------------------------------------------------ settings

    def _check_settings(self) -> None:
        self._check_run_and_prior()
        check_choice("collapse", self.collapse, self._collapses)
        check_number("mean_prior_strength", self.mean_prior_strength, 0.0)
        if isinstance(self.covariance_prior_scale, str):
            check_choice("covariance_prior_scale", self.covariance_prior_scale, ("learn",))
        else:
            check_number("covariance_prior_scale", self.covariance_prior_scale, 0.0)
        if isinstance(self.init, str):
            check_choice("init", self.init, ("kmeans++", "random"))

    def _start_concentration(self) -> float:
        return CONCENTRATION_OPEN if self._open() else CONCENTRATION

    def _cluster_prior(self, standard: np.ndarray) -> ClusterPrior:
        """Prior of each cluster's mean and covariance, in standardised units."""
        return cluster_prior(
            standard,
            self.n_clusters,
            self.mean_prior_strength,
            self.covariance_prior_df,
            self.covariance_prior_scale,
        )

    def _make_collapse(self, y: np.ndarray, prior: ClusterPrior, n_slots: int) -> Any:
        raise TypeError("an estimator says how its collapse is made")

    # ------------------------------------------------------------------ data

    def _check_data(self, X: Any, *, reset: bool) -> np.ndarray:
        check_numeric(X)
        X = validate_data(
            self, X, reset=reset, dtype=np.float64, ensure_all_finite=False, ensure_min_samples=1
        )
        check_finite(X, getattr(self, "feature_names_in_", None))
        return X

    # ------------------------------------------------------------------ fitting

    def fit(self, X: Any, y: Any = None) -> _Mixture:
        """Sample the posterior over partitions of the rows of X.

        Parameters
        ----------
        X : array or DataFrame of shape (n, d)
            Finite numbers. Columns need no scaling.
        y : ignored

        Returns
        -------
        self
        """
        self._check_settings()
        names = [str(v) for v in X.index] if hasattr(X, "index") and hasattr(X, "columns") else None
        X = self._check_data(X, reset=True)
        n, d = X.shape
        if n < 2:
            raise ValueError(
                f"X has n_samples={n}: clustering needs at least 2 rows. Give more data."
            )
        if n < self.n_clusters and not self._open():
            raise ValueError(
                f"X has n_samples={n} rows, fewer than n_clusters={self.n_clusters}. Lower "
                "n_clusters, or use prior='dp'."
            )
        start: Any = self.init
        if not isinstance(self.init, str):
            start = check_labels(self.init, n, self.n_clusters, self._open())
        centre, scale = robust_standardiser(X, getattr(self, "feature_names_in_", None))
        standard = np.ascontiguousarray((X - centre) / scale)
        n_start = min(self.n_clusters, n) if isinstance(self.init, str) else int(start.max()) + 1
        n_slots = slots_for(max(n_start, 1), True) if self._open() else self.n_clusters
        prior = self._cluster_prior(standard)
        learn = None
        if self.concentration == "learn":
            learn = CONCENTRATION_PRIOR_OPEN if self._open() else CONCENTRATION_PRIOR

        def make_sampler(chain: int, rng: np.random.Generator) -> PartitionSampler:
            z = initial_labels(standard, n_start, start, rng)
            return self._sampler(standard, prior, n_slots, z, learn, rng)

        self._compile(standard, prior, n_slots, learn)
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
                "settings": {
                    k: v for k, v in self.get_params().items() if k not in ("checkpoint",)
                },
                "data": data_digest(X),
            },
            label=type(self).__name__,
        )
        self._centre, self._scale = centre, scale
        parameters = dict(run.parameters)
        parameters["mean"] = parameters["mean"] * scale + centre
        with np.errstate(over="ignore", under="ignore"):
            unit = np.outer(scale, scale)
            covariance = parameters["covariance"] * unit
        # Squares of values near 1e300 or 1e-300 are not numbers of any use: prediction then needs
        # the covariances as they were drawn.
        representable = bool(np.all((np.diag(unit) > 1e-290) & (np.diag(unit) < 1e290)))
        self._standard_covariance = None if representable else parameters["covariance"]
        parameters["covariance"] = covariance
        self.posterior_ = Posterior(
            run.labels,
            log_joint=run.log_joint - n * np.log(scale).sum(),
            sweep_seconds=run.sweep_seconds,
            labels_warmup=run.labels_warmup,
            parameters=parameters,
            cluster_parameters=run.cluster_parameters,
            events=run.events,
            names=names,
            record=self._record(d, run),
        )
        self._settle(self.posterior_.partition("vi"))
        return self

    def _settle(self, partition: Partition) -> None:
        """Set what follows from the posterior and its point estimate."""
        self.partition_ = partition
        self.labels_ = partition.labels.astype(np.int64)
        self.n_clusters_ = int(partition.n_clusters)
        self.cluster_centers_ = self.posterior_.parameter_summary("mean", partition)["mean"]

    def _sampler(
        self,
        y: np.ndarray,
        prior: ClusterPrior,
        n_slots: int,
        z: np.ndarray,
        learn: tuple[float, float] | None,
        rng: np.random.Generator,
    ) -> PartitionSampler:
        return PartitionSampler(
            self._make_collapse(y, prior, n_slots),
            self._partition_prior(n_slots),
            z,
            rng,
            concentration_prior=learn,
            describe=describe,
            cluster_parameters=self._cluster_parameters,
        )

    def _compile(
        self, y: np.ndarray, prior: ClusterPrior, n_slots: int, learn: tuple[float, float] | None
    ) -> None:
        """Run two sweeps over a few rows, so that no chain's clock shows compilation."""
        folder = cache_directory()
        if folder is None or not any(folder.iterdir()):
            say("compiling kernels: once on this machine, about 20 seconds")
        rng = np.random.default_rng(0)
        few = np.ascontiguousarray(y[: max(2, min(len(y), 4))])
        sampler = self._sampler(few, prior, n_slots, np.zeros(len(few), dtype=int), learn, rng)
        sampler.sweep(rng)
        sampler.log_joint()
        if hasattr(sampler.collapse, "staleness"):
            sampler.collapse.staleness(sampler.z, sampler.counts)

    def _record(self, d: int, run: Any) -> RunRecord:
        names = getattr(self, "feature_names_in_", None)
        return RunRecord(
            model=type(self).__name__,
            settings={k: v for k, v in self.get_params().items() if k != "checkpoint"},
            columns=tuple(f"x{j}" for j in range(d)) if names is None else tuple(map(str, names)),
            columns_named=names is not None,
            max_clusters=None if self._open() else int(self.n_clusters),
            n_warmup=int(run.n_warmup),
            thin=int(run.thin),
            interrupted=bool(run.interrupted),
            versions=versions(),
            details={"centre": self._centre, "scale": self._scale},
        )

    # ------------------------------------------------------------------ prediction

    def _mixtures(self, chosen: np.ndarray) -> MixtureDraws:
        posterior = self.posterior_
        n_total = posterior.n_chains * posterior.n_draws

        def flat(name: str) -> np.ndarray:
            values = posterior.parameters[name]
            return values.reshape(n_total, *values.shape[2:])[chosen]

        # In standardised units, whose squares neither overflow nor vanish.
        scale = self._scale
        if self._standard_covariance is None:
            covariance = flat("covariance") / np.outer(scale, scale)
        else:
            covariance = self._standard_covariance.reshape(n_total, -1, *2 * scale.shape)[chosen]
        return mixture_draws(
            posterior.labels.reshape(n_total, -1)[chosen],
            self.labels_,
            flat("weight"),
            (flat("mean") - self._centre) / scale,
            covariance,
            flat("df") if "df" in posterior.parameters else None,
        )

    def _evaluate(self, X: Any) -> tuple[np.ndarray, np.ndarray]:
        check_is_fitted(self)
        X = self._check_data(X, reset=False)
        posterior = self.posterior_
        chosen = spread_draws(posterior.n_chains * posterior.n_draws)
        standard = (X - self._centre) / self._scale
        log_density, probability = predict(self._mixtures(chosen), standard, self.n_clusters_)
        return log_density - np.log(self._scale).sum(), probability

    def predict(self, X: Any) -> np.ndarray:
        """Most probable cluster of the point estimate for each row of X."""
        return self.predict_proba(X).argmax(axis=1)

    def predict_proba(self, X: Any) -> np.ndarray:
        """Probability of each cluster of the point estimate for each row of X.

        Averaged over (at most 200, evenly spread) draws; a draw's cluster counts for the
        cluster of the estimate that shares most members with it.
        """
        return self._evaluate(X)[1]

    def score_samples(self, X: Any) -> np.ndarray:
        """Log posterior predictive density of each row of X, its cluster integrated out."""
        log_density = self._evaluate(X)[0]
        top = log_density.max(axis=0)
        # So far out that no draw gives a density above zero, the answer is minus infinity.
        lift = np.where(np.isfinite(top), top, 0.0)
        with np.errstate(divide="ignore"):
            return lift + np.log(np.mean(np.exp(log_density - lift), axis=0))

    def score(self, X: Any, y: Any = None) -> float:
        """Mean log posterior predictive density of the rows of X: a held-out log score."""
        return float(self.score_samples(X).mean())

    # ------------------------------------------------------------------ checks

    def loo(self, X: Any, **options: Any) -> Any:
        """PSIS-LOO of the fitted data through ArviZ, each row's cluster integrated out.

        Parameters
        ----------
        X : array or DataFrame
            The data that the model was fitted to.
        options
            Passed to ``arviz.loo``, such as ``pointwise=True``.
        """
        check_is_fitted(self)
        X = self._check_data(X, reset=False)
        posterior = self.posterior_
        if len(X) != posterior.n_observations:
            raise ValueError(
                f"X has {len(X)} rows, the fit had {posterior.n_observations}: leave-one-out needs "
                "the data that the model was fitted to. For other rows use score_samples."
            )
        per_chain = spread_draws(posterior.n_draws, MAX_DRAWS)
        chosen = np.add.outer(np.arange(posterior.n_chains) * posterior.n_draws, per_chain)
        standard = (X - self._centre) / self._scale
        density = predict(self._mixtures(chosen.ravel()), standard, self.n_clusters_)[0]
        thinned = Posterior(
            posterior.labels[:, per_chain],
            point_log_lik=density.reshape(*chosen.shape, -1) - np.log(self._scale).sum(),
        )
        return thinned.loo(**options)

    def predictive_check(
        self, X: Any, n_replicates: int = 200, random_state: Any = 0
    ) -> pd.DataFrame:
        """Does replicated data look like the data? One row per column and statistic.

        A posterior predictive p-value near 0 says that the model cannot produce what is in X:
        the centre and spread of a column, its bulk (95% reach) or its farthest value, the last
        two in units of the quartiles' spread.

        Parameters
        ----------
        X : array or DataFrame
            The data that the model was fitted to, or other data of the same kind.
        n_replicates : int
            Replicated data sets.
        random_state : None, int or Generator

        Returns
        -------
        DataFrame
            ``observed``, and ``mean``, ``lower``, ``upper`` of the replicates, and ``p``.
        """
        check_is_fitted(self)
        check_count("n_replicates", n_replicates, 20)
        X = self._check_data(X, reset=False)
        posterior = self.posterior_
        chosen = spread_draws(posterior.n_chains * posterior.n_draws)
        table = predictive_check(
            self._mixtures(chosen),
            (X - self._centre) / self._scale,
            list(posterior.record.columns),
            n_replicates,
            random_state,
        )
        # Back to the data's units: medians move and scale, spreads scale, ratios stay.
        shown = ["observed", "mean", "lower", "upper"]
        values = np.array(table[shown]).reshape(X.shape[1], len(STATISTICS), len(shown))
        values[:, :2] *= self._scale[:, None, None]
        values[:, 0] += self._centre[:, None]
        table[shown] = values.reshape(len(table), -1)
        return table


class StudentTMixture(_Mixture):
    """Robust clustering: a mixture of multivariate Student-t distributions, by MCMC.

    Heavy-tailed clusters neither chase outliers nor spend clusters on them. The posterior over
    partitions is sampled by collapsed Gibbs, the intractable integral over each cluster's mean
    and covariance done by expectation propagation (or, for comparison, by data augmentation).

    Parameters
    ----------
    n_clusters : int
        Number of clusters; under an open prior, where to start.
    df : "learn", "learn-each" or float
        Degrees of freedom: learned for all clusters together, one per cluster, or fixed. Learned
        ones have a Gamma(2, 0.1) prior. The default adapts to how wild the outliers are.
    collapse : {"ep", "blocked", "naive"}
        How cluster parameters are dealt with.
    prior : {"dirichlet", "fixed", "dp", "pitman-yor"} or object from cavity.priors
        Prior over partitions; the last two leave the number of clusters open.
    concentration : float, "learn" or None
        Dirichlet parameter of each cluster (20 by default), or mass of a new cluster under an
        open prior (1 by default). A learned one has a Gamma(1, 0.1) or Gamma(1, 1) prior.
    n_chains, n_warmup, n_draws, thin : int
        Chains; sweeps before the first draw; draws per chain; sweeps per draw.
    init : {"kmeans++", "random"} or array of labels
        Where chains start; each chain has a k-means of its own.
    n_jobs : int or None
        Threads. The draws do not depend on it.
    random_state : int, Generator or None
        Seed.
    progress : bool or None
        Progress bars: None shows them on a terminal.
    checkpoint : path, optional
        File to continue from if it exists and to write to; see the guide on long runs.
    keep_warmup : bool
        Keep the labels of warm-up sweeps.
    weights : array of n_clusters, optional
        Weights of the ``"fixed"`` prior, or relative shape of the Dirichlet prior.
    discount : float
        Discount of the Pitman-Yor prior.
    mean_prior_strength : float
        How many observations the prior of a cluster's mean is worth (kappa).
    covariance_prior_df : float, optional
        Degrees of freedom of the inverse Wishart prior (nu); by default columns plus 2.
    covariance_prior_scale : "learn" or float
        Prior mean of a cluster's variance, as a share of the column's robust variance: learned
        with the rest, one per column and shared by the clusters, or fixed. A learned one has a
        gamma prior of shape 5 and mean ``d / (d + 8) * n_clusters ** (-2 / d)`` with d columns,
        cut below at the column's rounding variance (the guide says more).
    ep_fraction, ep_damping : float
        Power-EP fraction and damping of site updates.
    ep_pass_every : int
        Full EP passes every so many sweeps; 0 for none.

    Attributes
    ----------
    labels_ : array of int, shape (n,)
        The partition that minimises the posterior expected variation of information.
    n_clusters_ : int
        Its number of clusters.
    partition_ : Partition
        The same with its expected loss and ``credible_ball``.
    posterior_ : Posterior
        All draws, with summaries, diagnostics and plots.
    cluster_centers_ : array of shape (n_clusters_, d)
        Posterior means of the clusters' locations.

    Examples
    --------
    >>> from cavity import StudentTMixture
    >>> from cavity.datasets import make_student_t
    >>> X, truth = make_student_t(120, 3, 2, df=4, separation=20, random_state=1)
    >>> m = StudentTMixture(3, n_chains=2, n_warmup=50, n_draws=50, random_state=0).fit(X)
    >>> m.n_clusters_
    3
    >>> m.predict_proba(X[:1]).shape
    (1, 3)
    """

    _collapses = ("ep", "blocked", "naive")
    _cluster_parameters = ("weight", "mean", "covariance", "df")

    def __init__(
        self,
        n_clusters: int = 10,
        *,
        df: float | str = "learn",
        collapse: str = "ep",
        prior: Any = "dirichlet",
        concentration: float | str | None = None,
        n_chains: int = 4,
        n_warmup: int = 200,
        n_draws: int = 300,
        thin: int = 1,
        init: Any = "kmeans++",
        n_jobs: int | None = None,
        random_state: Any = None,
        progress: bool | None = None,
        checkpoint: Any = None,
        keep_warmup: bool = False,
        weights: Any = None,
        discount: float = 0.25,
        mean_prior_strength: float = 0.01,
        covariance_prior_df: float | None = None,
        covariance_prior_scale: float | str = "learn",
        ep_fraction: float = 1.0,
        ep_damping: float = 1.0,
        ep_pass_every: int = 0,
    ) -> None:
        self.n_clusters = n_clusters
        self.df = df
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
        self.mean_prior_strength = mean_prior_strength
        self.covariance_prior_df = covariance_prior_df
        self.covariance_prior_scale = covariance_prior_scale
        self.ep_fraction = ep_fraction
        self.ep_damping = ep_damping
        self.ep_pass_every = ep_pass_every

    def _check_settings(self) -> None:
        super()._check_settings()
        if isinstance(self.df, str):
            check_choice("df", self.df, ("learn", "learn-each"))
        else:
            check_number("df", self.df, 0.0, 1e6)
        check_number("ep_fraction", self.ep_fraction, 0.0, 1.0)
        check_number("ep_damping", self.ep_damping, 0.0, 1.0)
        check_count("ep_pass_every", self.ep_pass_every, 0)

    def _make_collapse(self, y: np.ndarray, prior: ClusterPrior, n_slots: int) -> Any:
        learn = {"learn": "shared", "learn-each": "each"}.get(str(self.df))
        df = 5.0 if learn is not None else float(self.df)
        options: dict[str, Any] = {}
        if self.collapse == "ep":
            options = {
                "fraction": float(self.ep_fraction),
                "damping": float(self.ep_damping),
                "pass_every": int(self.ep_pass_every),
            }
        return student_t_collapse(
            y,
            prior.niw,
            n_slots,
            self.collapse,
            df,
            learn,
            prior_update=prior.scale_update,
            **options,
        )


class GaussianMixture(_Mixture):
    """Bayesian Gaussian mixture by exactly collapsed (or naive) Gibbs sampling.

    Parameters
    ----------
    n_clusters : int
        Number of clusters; under an open prior, where to start.
    collapse : {"collapsed", "naive"}
        Integrate cluster parameters out, or condition on draws of them.
    prior, concentration, n_chains, n_warmup, n_draws, thin, init, n_jobs, random_state, progress, \
checkpoint, keep_warmup, weights, discount, mean_prior_strength, covariance_prior_df, \
covariance_prior_scale
        As for `StudentTMixture`.

    Attributes
    ----------
    labels_, n_clusters_, partition_, posterior_, cluster_centers_
        As for `StudentTMixture`.

    Examples
    --------
    >>> from cavity import GaussianMixture
    >>> from cavity.datasets import make_student_t
    >>> X, truth = make_student_t(120, 3, 2, df=float("inf"), separation=20, random_state=1)
    >>> m = GaussianMixture(3, n_chains=2, n_warmup=50, n_draws=50, random_state=0).fit(X)
    >>> m.n_clusters_
    3
    """

    _collapses = ("collapsed", "naive")

    def __init__(
        self,
        n_clusters: int = 10,
        *,
        collapse: str = "collapsed",
        prior: Any = "dirichlet",
        concentration: float | str | None = None,
        n_chains: int = 4,
        n_warmup: int = 200,
        n_draws: int = 300,
        thin: int = 1,
        init: Any = "kmeans++",
        n_jobs: int | None = None,
        random_state: Any = None,
        progress: bool | None = None,
        checkpoint: Any = None,
        keep_warmup: bool = False,
        weights: Any = None,
        discount: float = 0.25,
        mean_prior_strength: float = 0.01,
        covariance_prior_df: float | None = None,
        covariance_prior_scale: float | str = "learn",
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
        self.mean_prior_strength = mean_prior_strength
        self.covariance_prior_df = covariance_prior_df
        self.covariance_prior_scale = covariance_prior_scale

    def _make_collapse(self, y: np.ndarray, prior: ClusterPrior, n_slots: int) -> Any:
        return gaussian_collapse(y, prior.niw, n_slots, self.collapse, prior.scale_update)
