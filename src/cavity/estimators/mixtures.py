"""Mixture estimators with scikit-learn's interface: `StudentTMixture` and `GaussianMixture`."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import ClusterMixin, DensityMixin, clone
from sklearn.utils.validation import validate_data

from cavity.collapse.mixtures import GaussianProblem, StudentTProblem, refuse_uneven
from cavity.core.progress import say
from cavity.estimators.base import Estimator
from cavity.estimators.cluster_prior import ClusterPrior, cluster_prior
from cavity.estimators.coarse_columns import warn_of_coarse_columns
from cavity.estimators.description import describe
from cavity.estimators.fitting import Plan, prior_of_rows, run_plan
from cavity.estimators.gaps import filled, refuse_empty_columns, refuse_gaps
from cavity.estimators.known import (
    KNOWN,
    UNKNOWN,
    KnownLabels,
    check_known,
    check_weights,
    kept_of_rows,
    refuse_weighted_gaps,
    row_names,
    row_places,
    weighted_rows,
    with_known,
)
from cavity.estimators.mixture_answers import WEIGHTS
from cavity.estimators.noise import check_noise, noise_box
from cavity.estimators.recording import within_steps
from cavity.estimators.rehearsal import request_of
from cavity.estimators.shard_answers import ShardAnswers
from cavity.estimators.sharded import check_client, check_prior, fit_rows, is_in_shards, source_of
from cavity.estimators.start import STARTS, initial_labels, runs_of
from cavity.estimators.structures import (
    FULL,
    block_names,
    check_structure,
    factors_of,
    structured_problem,
    tails_of,
)
from cavity.estimators.validation import (
    check_choice,
    check_finite,
    check_labels,
    check_number,
    check_numeric,
    robust_standardiser,
)
from cavity.models.rows import RowTraits
from cavity.moves.anchors import nearest_anchors
from cavity.posterior.units import ColumnUnits
from cavity.sampling.fingerprint import data_digest
from cavity.scale.ep_sampler import REFRESHED_EVERY, Pace

# Sweeps until the prior of cluster parameters is learned, if the warm-up is long enough.
HELD = 50
# Rows that kernels are compiled with.
FEW = 4
# The sampler over rows in blocks: labels given drawn parameters, with splits and merges.
PARALLEL = "parallel"
EP = "ep"
# Collapses that rows in shards can be sampled under, and rows from which an array's are put there.
SPREAD, MANY = ("collapsed", PARALLEL, EP), 100_000


@dataclass(repr=False, eq=False, kw_only=True)
class _Mixture(ShardAnswers, ClusterMixin, DensityMixin, Estimator):
    """What the two mixtures share: validation, the problem that is sampled, its answers."""

    init: Any = "dispersed"
    moves: bool = True
    mean_prior_strength: float | str = "learn"
    covariance_prior_df: float | str = "learn"
    covariance_prior_scale: float | str = "full"
    noise: bool = False
    covariance: str = "full"
    n_factors: int | None = None

    _starts: ClassVar[tuple[str, ...]] = STARTS

    # ------------------------------------------------------------------ settings

    def _collapses(self) -> tuple[str, ...]:
        return (*super()._collapses(), PARALLEL)

    def _check_settings(self) -> None:
        super()._check_settings()
        check_noise(self.noise)
        check_structure(self.covariance, self.n_factors, self.collapse)
        for name, low, high, words in (
            ("mean_prior_strength", 1e-12, 1e12, ("learn",)),
            ("covariance_prior_df", 1.0, 1e9, ("learn",)),
            ("covariance_prior_scale", 1e-12, 1e12, ("full", "diagonal")),
        ):
            value = getattr(self, name)
            if isinstance(value, str):
                check_choice(name, value, words)
            else:
                check_number(name, value, low, high, strict=False)

    def _cluster_prior(self, d: int) -> ClusterPrior:
        """Prior of each cluster's mean and covariance, in standardised units."""
        return cluster_prior(
            d,
            self.n_clusters,
            self.mean_prior_strength,
            self.covariance_prior_df,
            self.covariance_prior_scale,
            min(HELD, self.n_warmup // 2),
        )

    def _problem(
        self, standard: np.ndarray, prior: ClusterPrior, rows: RowTraits | None = None
    ) -> Any:
        raise TypeError("an estimator says what its problem is")

    def _own_problem(self, seen: np.ndarray, weight: np.ndarray | None) -> Any:
        """The problem of data as the model sees them."""
        missing = np.isnan(seen)
        rows = None
        if weight is not None or missing.any() or self.noise:
            one = np.ones(len(seen))
            box = noise_box(seen) if self.noise else None
            rows = RowTraits(missing, one if weight is None else weight, box)
        standard = filled(seen)
        if self.covariance != FULL:
            n_held = min(HELD, self.n_warmup // 2)
            found = getattr(self, "posterior_", None)
            n_factors = None if found is None else factors_of(found)
            return structured_problem(self, standard, n_held, *self._tails(), rows, n_factors)
        return self._problem(standard, self._cluster_prior(seen.shape[1]), rows)

    def _tails(self) -> tuple[float | None, str | None]:
        """Degrees of freedom, or where they start, and how they are learned; Gaussian without."""
        return None, None

    def _problem_of_fit(self, X: Any) -> tuple[Any, np.ndarray]:
        X = self._check_data(X, reset=False)
        weight = self.posterior_.summaries.get(WEIGHTS)
        volumes = self._units.log_volumes(X) * (1.0 if weight is None else weight)
        return self._own_problem(within_steps(self._standardised(X)), weight), volumes

    def _prior_state(self, n_slots: int) -> Any:
        """The prior over partitions with which chains start."""
        n, kept = self.posterior_.n_observations, self.posterior_.summaries
        places = row_places(kept.get(WEIGHTS), kept.get(KNOWN), n, self.noise)
        return prior_of_rows(self._specification(), self.n_clusters, n_slots, n, places)

    # ------------------------------------------------------------------ data

    def __sklearn_tags__(self) -> Any:
        """Of scikit-learn: values may be missing."""
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        return tags

    def _check_data(self, X: Any, *, reset: bool) -> np.ndarray:
        X = check_numeric(X)
        X = validate_data(
            self, X, reset=reset, dtype=np.float64, ensure_all_finite=False, ensure_min_samples=1
        )
        check_finite(X, getattr(self, "feature_names_in_", None))
        return X

    # ------------------------------------------------------------------ fitting

    def check(
        self,
        X: Any,
        y: Any = None,
        sample_weight: Any = None,
        *,
        columns: Sequence[str] | None = None,
    ) -> Self:
        """Refuse settings and data that `fit` would refuse, without fitting; returns self.

        Of files only the footers are looked at.
        """
        self._check_settings()
        if is_in_shards(X):
            self._check_spread()
            if isinstance(X, str | os.PathLike):
                source_of(X, None, None if columns is None else tuple(columns), True)
            return self
        # On a copy: what the check learns of the data must not stay.
        other = clone(self)
        row_names(X)
        other.collapse = other._names_in_memory()
        other._plan(*other._check_rows(X, y, sample_weight))
        return self

    def _check_rows(
        self, X: Any, y: Any, sample_weight: Any
    ) -> tuple[np.ndarray, KnownLabels | None, np.ndarray | None]:
        X = self._check_data(X, reset=True)
        weight = check_weights(sample_weight, len(X))
        known = check_known(y, len(X), self.n_clusters, self._specification().is_open)
        refuse_weighted_gaps(X, weight, "gaps")
        return X, known, weight

    def _names_in_memory(self) -> str:
        """The sampler whose checks of data are those of this one."""
        return "collapsed" if self.collapse == PARALLEL else self.collapse

    def fit(
        self,
        X: Any,
        y: Any = None,
        sample_weight: Any = None,
        *,
        client: Any = None,
        columns: Sequence[str] | None = None,
    ) -> Self:
        """Sample the posterior over partitions of the rows of X.

        Parameters
        ----------
        X : array or DataFrame of shape (n, d), path, or Dask DataFrame
            Finite numbers, NaN where one is missing. Columns need no scaling. A path is that of a
            Parquet file, a folder of such files, or a pattern such as ``"rows/*.parquet"``.
        y : array of int, optional
            Labels that are known, -1 for those that are not. Rows of the same label stay together
            in every draw, rows of different ones apart. A `y` without any -1 is ignored, as it is
            by scikit-learn's clusterers.
        sample_weight : array of float, optional
            A row of weight w stands for w rows that share their label: whole weights are repeated
            rows that are never parted. Of others the likelihood is taken to that power, and sizes
            of clusters are sums of weights. Rows with gaps have weight one.
        client : distributed.Client, optional
            Cluster that does the work. Rows in files or a Dask DataFrame, and from 100,000 of
            them an array's, are spread over its workers; of smaller arrays each worker has whole
            chains, with the same draws as without. The page on scaling has more.
        columns : sequence of str, optional
            Which columns of a path or Dask DataFrame to use; all by default.

        Returns
        -------
        self

        Warns
        -----
        CoarseColumnsWarning
            If columns have few values, or one value in many rows.
        NotConvergedWarning
            If the chains are not shown to agree.
        """
        self._check_settings()
        check_client(client)
        if self._is_spread(X, client):
            self._refuse_uneven(y, sample_weight)
            return self._fit_rows(X, client, None if columns is None else tuple(columns))
        if columns is not None:
            raise ValueError("columns are chosen of a path or a Dask DataFrame; give X[columns].")
        names = row_names(X)
        X, known, weight = self._check_rows(X, y, sample_weight)
        plan, units, box = self._plan(X, known, weight)
        given = getattr(self, "feature_names_in_", None)
        columns = tuple((f"x{j}" for j in range(X.shape[1])) if given is None else map(str, given))
        warn_of_coarse_columns(X, columns)
        if len(X) >= MANY and self.collapse == "collapsed" and client is None:
            say(
                f"{len(X):,} rows: with collapse={PARALLEL!r} threads share every sweep of a chain."
            )
        run = run_plan(plan, self._run_settings(), client)
        posterior = plan.posterior(
            run,
            names=names,
            units=units,
            volume=float((units.log_volumes(X) * (1.0 if weight is None else weight)).sum()),
            summaries=kept_of_rows(data_digest(X), known, weight, box),
            settings=self._settings(),
            noun="row",
            columns=columns,
            columns_named=given is not None,
        )
        self._finish(posterior)
        return self

    def _is_spread(self, X: Any, client: Any) -> bool:
        """Whether the rows are put into blocks, or shards, rather than whole chains on workers."""
        if is_in_shards(X) or self.collapse == PARALLEL:
            return True
        many = client is not None and np.shape(X)[:1] >= (MANY,)
        return many and self.collapse in SPREAD

    def _refuse_uneven(self, y: Any, sample_weight: Any) -> None:
        """Refuse what rows in blocks cannot have."""
        known = y is not None and np.any(np.asarray(y) == UNKNOWN)
        for given, word in (
            (known, "labels that are known for some rows"),
            (sample_weight is not None, "sample_weight"),
            (self.noise, "noise=True"),
            (self.covariance != FULL, f"covariance={self.covariance!r}"),
        ):
            if given:
                raise ValueError(f"{word} cannot be had with rows in shards, or {PARALLEL!r}.")

    def _check_spread(self) -> None:
        """Refuse settings that rows in blocks cannot be sampled with."""
        if self.collapse not in SPREAD:
            raise ValueError(
                f"collapse={self.collapse!r} cannot be spread over shards; leave it out, or use "
                f"{PARALLEL!r}, which is exact as well."
            )
        if "pass_every" in self._collapse_options():
            raise ValueError(
                "collapse_options['pass_every'] cannot be had with rows in shards, which know "
                "their own sites alone; leave it out."
            )
        check_prior(self._specification(), self.n_clusters, self.collapse == EP)

    def _spread_collapse(self) -> str:
        """The sampler over rows in shards."""
        return EP if self.collapse == EP else PARALLEL

    def _pace(self) -> Pace | None:
        """How sites of shards are kept; None unless they have any."""
        if self.collapse != EP:
            return None
        options = self._collapse_options()
        every = options.pop("refresh_every", REFRESHED_EVERY)
        return Pace(every=every, **options)

    def _fit_rows(self, X: Any, client: Any, columns: tuple[str, ...] | None) -> Self:
        """Sample over rows in blocks, here or on a cluster."""
        self._check_spread()
        prior, start = self._specification(), self.init
        if is_in_shards(X):
            if not isinstance(self.init, str):
                raise ValueError(
                    "init must be one of " + ", ".join(map(repr, STARTS)) + " for rows in shards."
                )
            source = source_of(X, client, columns, True)
            self.n_features_in_ = len(source.columns)
            self.feature_names_in_ = np.array(source.columns, dtype=object)
        else:
            X = self._check_data(X, reset=True)
            given = getattr(self, "feature_names_in_", None)
            refuse_gaps(X, given)
            named = tuple(
                (f"x{j}" for j in range(X.shape[1])) if given is None else map(str, given)
            )
            source = source_of(X, client, named, given is not None)
            if not isinstance(self.init, str):
                start = check_labels(self.init, len(X), self.n_clusters, prior.is_open)
        posterior = fit_rows(
            source,
            client,
            name=type(self).__name__,
            problem=lambda standard: self._own_problem(standard, None),
            prior=prior,
            n_clusters=self.n_clusters,
            init=start,
            moves=self.moves,
            pace=self._pace(),
            settings=self._run_settings(),
            fingerprint={
                "model": type(self).__name__,
                "settings": {**self._settings(), "collapse": self._spread_collapse()},
                "data": source.digest,
            },
            n_jobs=self.n_jobs,
            recorded={"settings": self._settings()},
        )
        self._finish(posterior)
        return self

    def _plan(
        self,
        X: np.ndarray,
        known: KnownLabels | None = None,
        weight: np.ndarray | None = None,
    ) -> tuple[Plan, ColumnUnits, np.ndarray | None]:
        n = len(X)
        start, n_start = self._start_of_rows(n)
        names = getattr(self, "feature_names_in_", None)
        refuse_empty_columns(X, names)
        units = ColumnUnits(*robust_standardiser(weighted_rows(X, weight), names))
        problem = self._own_problem(within_steps(units.standardise(X)), weight)
        if problem.rows is not None:
            refuse_uneven(self.collapse)
        few = dataclasses.replace(
            problem,
            y=np.ascontiguousarray(problem.y[:FEW]),
            rows=None if problem.rows is None else problem.rows.first(FEW),
        )
        standard = filled(units.standardise(X))
        home = None if known is None else known.home
        told = [X, *(part for part in (weight, home) if part is not None)]

        def labels(chain: int, rng: np.random.Generator) -> np.ndarray:
            z = initial_labels(standard, n_start, start, chain, rng)
            z = z if home is None else with_known(z, home)
            # The first slot is that of noise, and no row starts there.
            return z + 1 if self.noise else z

        plan = self._planned(
            problem,
            few,
            data_digest(*told),
            self._collapse_options(),
            start=labels,
            n_start=n_start if known is None else max(n_start, known.names.size),
            n_runs=runs_of(start, X.shape, n_start, self.n_warmup),
            places=row_places(weight, home, n, self.noise),
            describe=describe,
            cluster_parameters=("weight", *block_names(self.covariance)),
            from_slots=self.covariance == FULL,
            anchors=(lambda: nearest_anchors(standard)) if self.moves else None,
            request=request_of(type(self).__name__, self._settings(), X.shape[1])
            if self.covariance == FULL
            else "",
        )
        return plan, units, None if problem.rows is None else problem.rows.box


@dataclass(repr=False, eq=False, kw_only=True)
class StudentTMixture(_Mixture):
    """Robust clustering: a mixture of multivariate Student-t distributions, by MCMC.

    Heavy-tailed clusters neither chase outliers nor spend clusters on them. The posterior over
    partitions is sampled by collapsed Gibbs, the intractable integral over each cluster's mean
    and covariance done by drawing each row's scale along with its label (or by expectation
    propagation).

    Parameters
    ----------
    n_clusters : int
        The most clusters there may be: a generous number is safe, for those that the data do not
        need stay empty. Under an open prior, where to start.
    df : "learn", "learn-each" or float
        Degrees of freedom: learned for all clusters together, one per cluster, or fixed. Learned
        ones have a Gamma(2, 0.1) prior. The default adapts to how wild the outliers are.
    collapse : {"collapsed", "ep", "blocked", "naive", "parallel"}
        How cluster parameters are dealt with: integrated out, exactly, given the scale variables
        of the other rows, with each row's own drawn along with its label (``"collapsed"``); by
        expectation propagation (``"ep"``), close and not exact; given scale variables that are
        drawn after each sweep (``"blocked"``); or not (``"naive"``). ``"parallel"`` draws all
        labels side by side given drawn parameters, with splits and merges: exact, for 100,000
        rows and more, shared by `n_jobs` threads or a cluster.
    prior : {"finite", "dirichlet", "fixed", "dp", "pitman-yor"} or a prior from `cavity.priors`
        Prior over partitions. Under ``"finite"`` the number of clusters is unknown, up to
        ``n_clusters``: each further one is half as likely, and how equal their sizes are is
        learned. ``"dirichlet"`` and ``"fixed"`` have ``n_clusters`` of them, some perhaps empty;
        the last two leave the number open.
    concentration : float, "learn" or None
        Dirichlet parameter of each cluster, or mass of a new cluster under the Dirichlet and
        Pitman-Yor processes. By default it is learned under ``"finite"``, one over ``n_clusters``
        under ``"dirichlet"``, so that clusters which the data do not need stay empty, and 1 under
        the others. A learned one has a Gamma(1, 0.1) prior under ``"finite"`` and
        ``"dirichlet"``, and Gamma(1, 1) under the others.
    n_chains : int
        Independent chains.
    n_warmup : int
        Sweeps before the first draw, at the least.
    n_draws : "auto" or int
        ``"auto"``: the chains run until they agree and 400 effective draws are there, or to
        `max_sweeps`; the first third of the sweeps is warm-up, draws are thinned so that at most
        2,000 of each chain are kept, and chains that end in a clustering of negligible mass are set
        aside. A number: so many draws of each chain after `n_warmup` sweeps, and nothing adapts.
    thin : int
        Sweeps per draw; with ``n_draws="auto"`` to begin with.
    max_sweeps : int
        The most sweeps of each chain with ``n_draws="auto"``.
    max_seconds : float, optional
        Stop sampling after so many seconds, with the draws there are by then. How many these are
        depends on the machine, so that the same seed need not give the same draws.
    init : {"dispersed", "k-means++", "random"} or array of labels
        Where chains start: from a k-means of their own, at random, or dispersed. Then each chain
        makes 4 to 16 short runs, every second one from a random start, and goes on with one,
        drawn by the mass of the place it came to; of more than 2,000 rows, or with a warm-up below
        120 sweeps, every second chain starts at random and the others from k-means. So chains
        which agree have not merely begun alike.
    n_jobs : int or None
        Threads. The draws do not depend on it.
    random_state : int, Generator or None
        Seed.
    progress : bool or None
        Progress bars: None shows them on a terminal.
    checkpoint : path, optional
        File to continue from if it exists and to write to; see the guide on long runs.
    keep_warmup : bool
        Keep the labels of the first `n_warmup` sweeps.
    moves : bool
        Try to split, merge, exchange and reshuffle whole clusters after each sweep, where the
        collapse allows it: chains leave modes that one label at a time cannot. They are exact
        under ``"collapsed"`` and approximate, by EP's evidence, under ``"ep"``.
    mean_prior_strength : "learn" or float
        How many observations the prior of a cluster's mean is worth (kappa), learned together
        with the centre of the means, or fixed around the middle of the data.
    covariance_prior_df : "learn" or float
        Degrees of freedom of the inverse Wishart prior (nu): the larger, the more alike the
        clusters' covariances. A fixed one must exceed the number of columns plus 1.
    covariance_prior_scale : {"full", "diagonal"} or float
        Mean of the clusters' covariances: learned as a matrix, or as one variance per column;
        or fixed, as a share of each column's robust variance. The guide has the priors.
    covariance : {"full", "diag", "tied", "factor"}
        Form of the clusters' covariances: a matrix each, a variance for every column (columns are
        independent within a cluster), one matrix that all clusters share, or a diagonal and
        `n_factors` factors each, for tables with tens or hundreds of columns. `loo` compares them.
    n_factors : int, optional
        Factors of every cluster with ``covariance="factor"``. By default as many as stand out
        within clusters of k-means, at most ten.
    noise : bool
        Whether rows may be outside every cluster, uniform over the box of the data, a fifth wider,
        with a share that has a Beta(1, 19) prior. Their label is -1.
    collapse_options : dict, optional
        For ``collapse="ep"``: ``fraction`` and ``damping`` of site updates (power EP; both 1),
        ``pass_every``: full EP passes every so many sweeps (0: none); ``refresh_every``: the site
        of a row that stays in its cluster is computed anew every so many sweeps (by default
        warm-up finds how many, by how stale the sites become).
    loss : {"omari", "vi", "binder"} or Loss
        What ``labels_`` minimises on average over the posterior: one minus the adjusted Rand
        index, variation of information, Binder's loss, or a `cavity.posterior.Loss` with unequal
        costs. It is no part of the draws: ``posterior_.partition(loss)`` gives any other.

    Attributes
    ----------
    labels_ : array of int, shape (n,)
        The partition that minimises the posterior expected loss; -1 for noise.
    noise_probability_ : array, shape (n,)
        Probability of each row that it is noise, with ``noise=True``; rows above a half are.
    n_clusters_ : int
        Its number of clusters.
    partition_ : Partition
        The same with its expected loss and ``credible_ball``.
    posterior_ : Posterior
        All draws, with summaries, diagnostics and plots.
    converged_ : bool
        Whether the diagnostics found the chains to agree.
    weights_, means_, covariances_, df_ : arrays, one row per cluster of ``labels_``
        Posterior means of the clusters' weights, locations, scale matrices and degrees of
        freedom, over the draws in which the cluster has a match.
    cluster_centers_ : array of shape ``(n_clusters_, d)``
        ``means_``, under the name that scikit-learn's clusterers give it.

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

    _model: ClassVar[str] = "student-t"

    collapse: str = "collapsed"
    df: float | str = "learn"

    def _check_settings(self) -> None:
        super()._check_settings()
        if isinstance(self.df, str):
            check_choice("df", self.df, ("learn", "learn-each"))
        else:
            check_number("df", self.df, 0.05, 1e6, strict=False)

    def _problem(
        self, standard: np.ndarray, prior: ClusterPrior, rows: RowTraits | None = None
    ) -> StudentTProblem:
        return StudentTProblem(standard, prior.niw, prior.updates, *self._tails(), rows=rows)

    def _tails(self) -> tuple[float, str | None]:
        return tails_of(self.df)


@dataclass(repr=False, eq=False, kw_only=True)
class GaussianMixture(_Mixture):
    """Bayesian Gaussian mixture by exactly collapsed (or naive) Gibbs sampling.

    Parameters
    ----------
    n_clusters : int
        The most clusters there may be; under an open prior, where to start.
    collapse : {"collapsed", "naive", "parallel"}
        Integrate cluster parameters out, condition on draws of them, or that with all labels
        drawn side by side, with splits and merges.
    prior, concentration, n_chains, n_warmup, n_draws, thin, max_sweeps, max_seconds, init, \
n_jobs, random_state, progress, checkpoint, keep_warmup, moves, mean_prior_strength, \
covariance_prior_df, covariance_prior_scale, covariance, n_factors, noise
        As for `StudentTMixture`.
    collapse_options : dict, optional
        None are known to these collapses.
    loss : {"vi", "binder", "omari"} or Loss
        As for `StudentTMixture`.

    Attributes
    ----------
    labels_, n_clusters_, partition_, posterior_, converged_, weights_, means_, covariances_, \
cluster_centers_
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

    _model: ClassVar[str] = "gaussian"

    collapse: str = "collapsed"

    def _problem(
        self, standard: np.ndarray, prior: ClusterPrior, rows: RowTraits | None = None
    ) -> GaussianProblem:
        return GaussianProblem(standard, prior.niw, prior.updates, rows)
