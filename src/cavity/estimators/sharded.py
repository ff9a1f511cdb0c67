"""A fit over rows in blocks: threads of this process, or the workers of a Dask cluster.

Everything beyond the labels is held by the process that calls ``fit``; the posterior is that of
the rows that are followed, a uniform sample.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

import numpy as np

from cavity.distributed.executor import ShardExecutor, ThreadExecutor, make_executor
from cavity.distributed.mixture_weights import is_supported
from cavity.distributed.passes import followed_rows, make_shard
from cavity.distributed.pilot import Scouts
from cavity.distributed.sampler import SPARE, ShardedSampler
from cavity.distributed.sources import ArraySource, Source, parquet_source
from cavity.estimators.dequantize import LEAST_STEP, recording_steps
from cavity.estimators.description import describe
from cavity.estimators.fitting import RunSettings, posterior_of
from cavity.estimators.kept import FOLLOWED, VALUES
from cavity.estimators.shard_problems import makeup_of, tails_of, updates_of
from cavity.estimators.start import initial_labels
from cavity.estimators.validation import robust_standardiser
from cavity.likelihoods.scaled_gaussian import first_scales
from cavity.mcmc.draws import ChainRun
from cavity.mcmc.runner import run_chains
from cavity.posterior.convergence import stopping_rule
from cavity.posterior.posterior import Posterior
from cavity.posterior.record import ROWS_BEHIND_WEIGHTS
from cavity.posterior.units import ColumnUnits
from cavity.priors.specifications import PartitionSpecification

N_FOLLOWED = 5_000
# Sweeps over the followed rows alone before all rows are looked at, where the number of clusters
# is open and each of them stands for several rows.
SCOUT_SWEEPS = 300
_SEED = 20_180_720
NEEDS = (
    "A fit on a Dask cluster needs Dask: pip install 'cavity[dask]', or leave client out to use "
    "the threads of this machine."
)


def is_dask_frame(X: Any) -> bool:
    """Whether X is a Dask DataFrame, without importing Dask."""
    return type(X).__module__.startswith(("dask.dataframe", "dask_expr"))


def is_in_shards(X: Any) -> bool:
    """Whether X is a path or a Dask DataFrame rather than a table in memory."""
    return isinstance(X, str | os.PathLike) or is_dask_frame(X)


def check_client(client: Any) -> None:
    """Refuse what is no client of a cluster."""
    if client is None:
        return
    try:
        import distributed
    except ImportError:
        raise ImportError(NEEDS) from None
    if not isinstance(client, distributed.Client):
        raise ValueError(
            f"client must be a distributed.Client, not {type(client).__name__}: "
            "from distributed import Client; client = Client(n_workers=4, threads_per_worker=1)."
        )


def source_of(X: Any, client: Any, columns: tuple[str, ...] | None, named: bool) -> Source:
    """Where the rows come from.

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


def check_prior(prior: PartitionSpecification, n_clusters: int) -> None:
    """Refuse priors whose weights cannot be drawn given the cluster sizes."""
    if not is_supported(prior.state(n_clusters, n_clusters, 1)):
        raise ValueError(
            "Over rows in shards, prior must be 'finite', 'dirichlet', 'fixed' or 'dp', not "
            f"{type(prior).__name__}."
        )


def fit_rows(
    source: Source,
    client: Any,
    *,
    name: str,
    problem: Any,
    points: Any = lambda rows: rows,
    describe: Any = lambda problem: (describe, ("weight", "mean", "covariance")),
    prior: PartitionSpecification,
    n_clusters: int,
    init: Any,
    moves: bool,
    settings: RunSettings,
    fingerprint: Mapping[str, Any],
    follow: int = N_FOLLOWED,
    n_jobs: int | None = None,
    recorded: Mapping[str, Any],
    details: Mapping[str, Any] | None = None,
) -> Posterior:
    """Sample the posterior over partitions of rows in blocks.

    Parameters
    ----------
    source : Source
    client : distributed.Client or None
        None for threads of this process.
    name : str
        Of the estimator.
    problem : callable
        ``problem(rows)``: the problem of rows in the model's units.
    points : callable
        ``points(rows)``: the same rows as points, for where chains start.
    describe : callable
        ``describe(problem)``: what gives a kept draw's parameters, and which of these have a
        cluster axis.
    prior : specification
    n_clusters : int
    init : str or array of labels
    moves : bool
        Whether splits and merges are tried.
    settings : RunSettings
    fingerprint : mapping
        What identifies the run.
    follow : int
        Rows whose labels are kept.
    n_jobs : int or None
        Threads, without a client.
    recorded : mapping
        What the record of the run says of the estimator.
    details : mapping, optional
        What it says beside that.
    """
    n = sum(source.sizes)
    if n < 2:
        raise ValueError(f"There are {n} rows: clustering needs at least 2. Give more data.")
    if n < n_clusters and not prior.is_open:
        raise ValueError(
            f"There are {n} rows, fewer than n_clusters={n_clusters}. Lower n_clusters, or use "
            "prior='dp'."
        )
    executor = make_executor(source, client, n_jobs)
    rng = np.random.default_rng(_SEED)
    followed = np.sort(rng.choice(n, size=min(n, follow), replace=False))
    raw = executor.sample(followed)
    names = np.array(source.columns, dtype=object) if source.named else None
    shape = source.shape
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
    with executor:
        executor.load(make_shard, units.centre, units.scale, width, followed, shape)
        taken = np.concatenate(executor.map(followed_rows))
        scouts = Scouts(taken, n, shape)
        start = init if isinstance(init, str) else np.asarray(init)[followed]
        stated = problem(taken)
        made = _Chains(
            executor, scouts, points(standard), stated, describe(stated), prior, n_clusters, start,
            moves, settings,
        )  # fmt: skip
        run = made.run(fingerprint, name, 1 if client is None and n_jobs == 1 else None)
    return posterior_of(
        run,
        name,
        None if prior.is_open else n_clusters,
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
    """Makes chains over an engine's rows."""

    def __init__(
        self,
        executor: ShardExecutor,
        scouts: Scouts,
        points: np.ndarray,
        problem: Any,
        describe: Any,
        prior: PartitionSpecification,
        n_clusters: int,
        init: Any,
        moves: bool,
        settings: RunSettings,
    ) -> None:
        self.executor, self.scouts, self.points = executor, scouts, points
        self.problem, self.makeup = problem, makeup_of(problem)
        self.describe, self.cluster_parameters = describe
        self.prior, self.n_clusters, self.init = prior, n_clusters, init
        self.moves, self.settings = moves, settings

    def sampler(self, chain: int, rng: np.random.Generator) -> ShardedSampler:
        """A started chain."""
        tails = tails_of(self.problem)
        n_start = min(self.n_clusters, len(self.points))
        if not isinstance(self.init, str):
            n_start = int(self.init.max()) + 1
        z = initial_labels(self.points, n_start, self.init, chain, rng)
        asked = isinstance(self.init, str) and self.moves
        if asked and self.prior.is_open and self.scouts.worth > 1.0:
            z = self._scouted(z, n_start, rng)
            n_start = int(z.max()) + 1
        n_slots = n_start + SPARE if self.prior.is_open else self.n_clusters
        prior = self.prior.state(self.n_clusters, n_slots, self.executor.n_rows)
        told: dict[str, Any] = {
            "describe": self.describe,
            "cluster_parameters": self.cluster_parameters,
        }
        scale = np.ones(len(z))
        if self.scouts.d:
            scale = first_scales(self.scouts.y, 0.5 * tails.df)
        learned = self.prior.updates()
        return ShardedSampler(
            self.executor,
            self.scouts,
            self.scouts.begun(z, n_slots, scale),
            self.makeup,
            prior,
            tails,
            (*updates_of(self.problem, self.makeup), *learned),
            rng,
            n_adapted=self.settings.n_warmup,
            moves=self.moves,
            **told,
        )

    def _scouted(self, z: np.ndarray, n_start: int, rng: np.random.Generator) -> np.ndarray:
        """The estimate from the end of a short run over the followed rows alone.

        Among few rows clusters that are split in the wrong place, or there twice, are merged
        within some sweeps; among a million that takes hundreds of passes. A single draw will not
        do: under an open prior one in a few has a group in two pieces, which are one again some
        sweeps later, but not among a million.
        """
        n, shape = len(z), self.scouts.shape
        still = np.zeros(shape.d)
        columns = tuple(map(str, range(shape.n_columns)))
        few = ThreadExecutor(ArraySource(self.scouts.rows, columns, kinds=shape, gaps=True))
        few.load(make_shard, still, still + 1.0, still, np.arange(n), shape)
        tails, n_slots = tails_of(self.problem), n_start + SPARE
        scale = first_scales(self.scouts.y, 0.5 * tails.df) if shape.d else np.ones(n)
        alone = Scouts(self.scouts.rows, n, shape)
        sampler = ShardedSampler(
            few,
            alone,
            alone.begun(z, n_slots, scale),
            self.makeup,
            self.prior.state(self.n_clusters, n_slots, n),
            tails,
            (*updates_of(self.problem, self.makeup), *self.prior.updates()),
            rng,
            n_adapted=SCOUT_SWEEPS,
        )
        draws = []
        for sweep in range(SCOUT_SWEEPS):
            sampler.sweep(rng)
            if 3 * sweep >= 2 * SCOUT_SWEEPS:
                draws.append(sampler.z.copy())
        return Posterior.from_labels(np.array(draws)).partition(n_restarts=0).labels

    def run(self, fingerprint: Mapping[str, Any], name: str, n_jobs: int | None) -> ChainRun:
        """All chains, to their end or an interrupt."""
        most = None if self.prior.is_open else self.n_clusters
        return run_over_shards(self.sampler, self.settings, most, fingerprint, name, n_jobs)


def run_over_shards(
    make_sampler: Any,
    settings: RunSettings,
    most: int | None,
    fingerprint: Mapping[str, Any],
    name: str,
    n_jobs: int | None,
) -> ChainRun:
    """All chains over shards, to their end or an interrupt; `most` clusters are allowed."""
    import warnings

    from sklearn.exceptions import ConvergenceWarning
    from threadpoolctl import threadpool_limits

    with threadpool_limits(1, user_api="blas"), warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return run_chains(
            make_sampler,
            settings.length(stopping_rule(most, False), 0),
            n_chains=settings.n_chains,
            max_seconds=settings.max_seconds,
            n_jobs=settings.n_chains if n_jobs is None else n_jobs,
            random_state=settings.random_state,
            progress=settings.progress,
            checkpoint=settings.checkpoint,
            keep_warmup=settings.keep_warmup,
            fingerprint=fingerprint,
            label=name,
        )
