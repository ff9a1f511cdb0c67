"""Fits of sharded rows, on threads or the workers of a Dask cluster.

Everything beyond the labels is held by the process that calls ``fit``; the posterior is that of
the rows that are followed, a uniform sample.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from cavity.collapse.problems import FULL
from cavity.distributed.executor import ShardExecutor, ThreadExecutor, make_executor
from cavity.distributed.mixture_weights import is_supported
from cavity.distributed.passes import followed_rows, make_shard
from cavity.distributed.pilot import PilotSample
from cavity.distributed.sampler import SPARE, ShardedMixture, ShardedSampler
from cavity.distributed.sources import ArraySource, Source, parquet_source
from cavity.estimators.dequantize import LEAST_STEP, recording_steps
from cavity.estimators.fitting import RunSettings, posterior_of
from cavity.estimators.shard_problems import component_priors_of, df_settings_of, updates_of
from cavity.estimators.sharding import is_dask_frame
from cavity.estimators.start import STARTS, initial_labels
from cavity.estimators.validation import check_labels, robust_standardiser
from cavity.likelihoods.gaussian import first_scales
from cavity.mcmc.draws import ChainRun
from cavity.posterior.convergence import PRECISIONS, stopping_rule
from cavity.posterior.posterior import Posterior
from cavity.posterior.record import FOLLOWED, ROWS_BEHIND_WEIGHTS, VALUES
from cavity.posterior.units import ColumnUnits
from cavity.predict.noise import asks_for_noise
from cavity.priors.specifications import PartitionSpecification

# The sampler over rows in blocks: labels given drawn parameters, with splits and merges.
PARALLEL = "parallel"
# Collapses of sharded rows, all of which mean that sampler.
SPREAD = ("auto", "collapsed", PARALLEL)
N_FOLLOWED = 5_000
# Sweeps over the followed rows alone before all rows are looked at, where the number of clusters
# is open and each of them stands for several rows.
PILOT_SWEEPS = 300
_SEED = 20_180_720


def source_of(X: Any, client: Any, columns: tuple[str, ...] | None, named: bool) -> Source:
    """Return the source of the rows.

    Parameters
    ----------
    X : path, Dask DataFrame or array
        An array has been checked.
    client : distributed.Client or None
    columns : tuple of str, optional
        Columns to use, or names of an array's.
    named : bool
        Whether an array's columns have names of their own.
    """
    if isinstance(X, str | os.PathLike):
        return parquet_source(X, columns)
    if is_dask_frame(X):
        from cavity.distributed.dask_frames import frame_source

        if client is None:
            raise ValueError(
                "A Dask DataFrame needs the client of its cluster: fit(X, client=client)."
            )
        return frame_source(X, client, columns)
    return ArraySource(X, tuple(columns or ()), named)


@dataclass(frozen=True)
class ShardProblem:
    """Mixture to fit to rows in shards.

    Attributes
    ----------
    build : callable
        ``build(rows)`` returns the problem of rows in the model's units.
    prior : specification
    n_clusters : int
    init : str or array of labels
    moves : bool
        Whether splits and merges are tried.
    points : callable
        ``points(rows)`` returns the same rows as points, for initial labels.
    describe : callable
        ``describe(problem)`` returns a function of a kept draw's parameters, and the names of those
        that have a cluster axis.
    """

    build: Callable[[np.ndarray], Any]
    prior: PartitionSpecification
    n_clusters: int
    init: Any
    moves: bool
    points: Callable[[np.ndarray], np.ndarray]
    describe: Callable[[Any], Any]

    @property
    def most(self) -> int | None:
        """Largest number of clusters; None if it is open."""
        return None if self.prior.is_open else self.n_clusters


@dataclass(frozen=True)
class ShardRun:
    """Settings of a run over shards.

    Attributes
    ----------
    name : str
        Name of the estimator.
    settings : RunSettings
    fingerprint : mapping
        Identifies the run.
    client : distributed.Client or None
        None for threads of this process.
    n_jobs : int or None
        Threads, without a client.
    """

    name: str
    settings: RunSettings
    fingerprint: Mapping[str, Any]
    client: Any = None
    n_jobs: int | None = None

    def chains(self, make_sampler: Any, most: int | None) -> ChainRun:
        """Run all chains to their end or an interrupt; `most` clusters are allowed."""
        import warnings

        from sklearn.exceptions import ConvergenceWarning
        from threadpoolctl import threadpool_limits

        precision = PRECISIONS[self.settings.precision]
        with threadpool_limits(1, user_api="blas"), warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            return self.settings.run(
                make_sampler,
                stopping_rule(most, False, precision),
                0,
                n_jobs=1 if self.client is None and self.n_jobs == 1 else self.settings.n_chains,
                fingerprint=self.fingerprint,
                label=self.name,
            )


def fit_shards(
    problem: ShardProblem,
    source: Source,
    run: ShardRun,
    *,
    follow: int = N_FOLLOWED,
    recorded: Mapping[str, Any],
    details: Mapping[str, Any] | None = None,
) -> Posterior:
    """Sample the posterior over partitions of rows in shards.

    Parameters
    ----------
    problem : ShardProblem
    source : Source
    run : ShardRun
    follow : int
        Rows whose labels are kept, a uniform sample.
    recorded : mapping
        Entries of the record that describe the estimator.
    details : mapping, optional
        Further entries.
    """
    n = sum(source.sizes)
    if n < 2:
        raise ValueError(f"There are {n} rows: clustering needs at least 2. Give more data.")
    if n < problem.n_clusters and not problem.prior.is_open:
        raise ValueError(
            f"There are {n} rows, fewer than n_clusters={problem.n_clusters}. Lower n_clusters, or "
            "use prior='dp'."
        )
    rng = np.random.default_rng(_SEED)
    followed = np.sort(rng.choice(n, size=min(n, follow), replace=False))
    names = np.array(source.columns, dtype=object) if source.named else None
    shape = source.shape
    with make_executor(source, run.client, run.n_jobs) as executor:
        raw = executor.sample(followed)
        measured = raw[:, : shape.d]
        units = ColumnUnits(np.zeros(0), np.ones(0))
        width = np.zeros(0)
        standard = raw.copy()
        if shape.d:
            own = None if names is None else names[: shape.d]
            units = ColumnUnits(*robust_standardiser(measured, own))
            standard[:, : shape.d] = units.standardise(measured)
            width = np.maximum(recording_steps(standard[:, : shape.d]), LEAST_STEP)
            width[measured.min(axis=0) == measured.max(axis=0)] = -1.0
        executor.load(make_shard, units.centre, units.scale, width, followed, shape)
        pilot = PilotSample(np.concatenate(executor.map(followed_rows)), n, shape)
        init = problem.init if isinstance(problem.init, str) else np.asarray(problem.init)[followed]
        chains = _Chains(
            executor, pilot, replace(problem, init=init), problem.points(standard),
            run.settings.n_warmup,
        )  # fmt: skip
        found = run.chains(chains.sampler, problem.most)
    return posterior_of(
        found,
        run.name,
        problem.most,
        names=[str(row) for row in followed],
        units=units,
        volume=n * units.log_volume,
        summaries={FOLLOWED: followed, VALUES: raw},
        noun="row",
        columns_named=source.named,
        **{"columns": source.columns, **recorded},
        details={ROWS_BEHIND_WEIGHTS: float(n), **(details or {})},
    )


class _Chains:
    """Makes chains over the rows of an executor."""

    def __init__(
        self,
        executor: ShardExecutor,
        pilot: PilotSample,
        problem: ShardProblem,
        points: np.ndarray,
        n_warmup: int,
    ) -> None:
        self.executor, self.pilot, self.problem = executor, pilot, problem
        self.points, self.n_warmup = points, n_warmup
        self.stated = problem.build(pilot.rows)
        self.component_priors, self.tails = (
            component_priors_of(self.stated),
            df_settings_of(self.stated),
        )

    def sampler(self, chain: int, rng: np.random.Generator) -> ShardedSampler:
        """Return a started chain."""
        problem, init = self.problem, self.problem.init
        n_start = min(problem.n_clusters, len(self.points))
        if not isinstance(init, str):
            n_start = int(init.max()) + 1
        z = initial_labels(self.points, n_start, init, chain, rng)
        asked = isinstance(init, str) and problem.moves
        if asked and problem.prior.is_open and self.pilot.worth > 1.0:
            z = self._pilot_labels(z, n_start, rng)
            n_start = int(z.max()) + 1
        n_slots = n_start + SPARE if problem.prior.is_open else problem.n_clusters
        return self._started(
            self.executor, self.pilot, z, n_slots, rng, self.n_warmup, problem.moves
        )

    def _started(
        self,
        executor: ShardExecutor,
        pilot: PilotSample,
        z: np.ndarray,
        n_slots: int,
        rng: np.random.Generator,
        n_adapted: int,
        moves: bool,
    ) -> ShardedSampler:
        """Return a chain over an executor's rows, started from labels of the followed rows."""
        problem = self.problem
        scale = first_scales(pilot.y, 0.5 * self.tails.df) if pilot.d else np.ones(len(z))
        mixture = ShardedMixture(
            self.component_priors,
            problem.prior.state(problem.n_clusters, n_slots, executor.n_rows),
            self.tails,
            (*updates_of(self.stated, self.component_priors), *problem.prior.updates()),
            *problem.describe(self.stated),
        )
        start = pilot.begun(z, n_slots, scale)
        return ShardedSampler(
            executor, pilot, start, mixture, rng, n_adapted=n_adapted, moves=moves
        )

    def _pilot_labels(self, z: np.ndarray, n_start: int, rng: np.random.Generator) -> np.ndarray:
        """Return the point estimate of a short run over the followed rows.

        With few rows, clusters that are badly split or duplicated are merged
        within some sweeps; among a million that takes hundreds of passes. A single draw will not
        do: under an open prior one in a few has a group in two pieces, which are one again some
        sweeps later, but not among a million.
        """
        n, shape = len(z), self.pilot.shape
        still = np.zeros(shape.d)
        columns = tuple(map(str, range(shape.n_columns)))
        few = ThreadExecutor(ArraySource(self.pilot.rows, columns, kinds=shape, gaps=True))
        few.load(make_shard, still, still + 1.0, still, np.arange(n), shape)
        alone = PilotSample(self.pilot.rows, n, shape)
        sampler = self._started(few, alone, z, n_start + SPARE, rng, PILOT_SWEEPS, True)
        draws = []
        for sweep in range(PILOT_SWEEPS):
            sampler.sweep(rng)
            if 3 * sweep >= 2 * PILOT_SWEEPS:
                draws.append(sampler.z.copy())
        return Posterior.from_labels(np.array(draws)).partition(n_restarts=0).labels


# --------------------------------------------------------------------------- estimators


def refuse_unsupported(estimator: Any, sample_weight: Any, known_labels: Any, errors: Any) -> None:
    """Refuse rows and settings that sharded data do not support."""
    for given, word in (
        (known_labels is not None, "known_labels"),
        (sample_weight is not None, "sample_weight"),
        (errors is not None, "errors"),
        (asks_for_noise(estimator.noise), "noise=True"),
        (estimator.select_columns, "select_columns=True"),
        (
            estimator.covariance_type != FULL,
            f"covariance_type={estimator.covariance_type!r}",
        ),
    ):
        if given:
            raise ValueError(f"{word} is not supported for sharded data, or {PARALLEL!r}.")


def check_sampler(estimator: Any) -> None:
    """Refuse samplers and priors that sharded data do not support."""
    if estimator.collapse not in SPREAD:
        raise ValueError(
            f"collapse={estimator.collapse!r} is not supported for sharded data. "
            f"Use collapse={PARALLEL!r}, which is exact."
        )
    prior = estimator._specification()
    if not is_supported(prior.state(estimator.n_clusters, estimator.n_clusters, 1)):
        raise ValueError(
            "Over rows in shards, prior must be 'finite', 'dirichlet', 'fixed' or 'dp', not "
            f"{type(prior).__name__}."
        )


def check_start(estimator: Any, n: int | None) -> Any:
    """Return the checked `init` of an estimator of `n` rows, or of files (None)."""
    if isinstance(estimator.init, str):
        return estimator.init
    if n is None:
        raise ValueError(
            "init must be one of " + ", ".join(map(repr, STARTS)) + " for rows in shards."
        )
    is_open = estimator._specification().is_open
    return check_labels(estimator.init, n, estimator.n_clusters, is_open)


def run_of(estimator: Any, source: Source, client: Any) -> ShardRun:
    """Return the settings of an estimator's run over shards."""
    name = type(estimator).__name__
    fingerprint = {
        "model": name,
        "settings": {**estimator._settings(), "collapse": PARALLEL},
        "data": source.digest,
    }
    return ShardRun(name, estimator._run_settings(), fingerprint, client, estimator.n_jobs)
