"""Fitting of any model: from a checked problem to chains.

Mixtures, series and likelihoods of a user's own all come through here: the settings of the run,
the partition prior, the compile step, the chains.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import nullcontext
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from cavity._numba.cache import kernels_are_kept
from cavity.collapse.driver import AssembledModel
from cavity.estimators.start import StartingRuns
from cavity.mcmc.chain import (
    Describe,
    PartitionSampler,
    slots_for,
)
from cavity.mcmc.draws import ChainRun
from cavity.mcmc.runner import count_jobs, run_chains
from cavity.mcmc.schedule import (
    AUTO,
    LEAST_WARMUP,
    TO_A_DRAFT,
    TO_A_REPORT,
    AutomaticSchedule,
    FixedSchedule,
    Schedule,
    StoppingRule,
)
from cavity.moves.anchors import Anchors, all_anchors
from cavity.moves.move import Move
from cavity.moves.standard import StandardMoves, WholeClusterMoves
from cavity.posterior.convergence import DRAFT, LOG_MARGINAL, PRECISIONS, REPORT, stopping_rule
from cavity.posterior.posterior import Posterior
from cavity.posterior.record import RunRecord, versions
from cavity.posterior.units import Units
from cavity.priors.specifications import PartitionSpecification
from cavity.utils.progress import say

if TYPE_CHECKING:
    from cavity.priors.rows import RowPlaces

# With more observations a sweep is slow and informative, so chains are checked sooner.
MANY = 20_000


@dataclass(frozen=True)
class RunSettings:
    """Number and length of chains, checkpoints and progress."""

    n_chains: int = 4
    n_warmup: int = 200
    n_draws: int | str = AUTO
    thin: int = 1
    max_sweeps: int = 20_000
    max_seconds: float | None = None
    precision: str = REPORT.name
    n_jobs: int | None = None
    random_state: Any = None
    progress: bool | None = None
    checkpoint: Any = None
    keep_warmup: bool = False

    def least_warmup(self, n: int) -> int:
        """Return the number of warm-up sweeps, halved for many observations.

        Examples
        --------
        >>> RunSettings().least_warmup(1_000), RunSettings().least_warmup(100_000)
        (200, 100)
        """
        if self.n_draws != AUTO or n <= MANY:
            return self.n_warmup
        return max(self.n_warmup // 2, LEAST_WARMUP)

    def length(self, judge: StoppingRule, n: int) -> Schedule:
        """Return the schedule of the chains."""
        early = self.max_seconds is not None
        if self.n_draws == AUTO:
            typical = TO_A_DRAFT if self.precision == DRAFT.name else TO_A_REPORT
            return AutomaticSchedule(
                judge, self.least_warmup(n), self.max_sweeps, self.thin, early, typical
            )
        return FixedSchedule(self.n_warmup, int(self.n_draws), self.thin, early)

    def run(self, make_sampler: Any, rule: StoppingRule, n: int, **how: Any) -> ChainRun:
        """Run all chains over n observations to their end or an interrupt; see `run_chains`."""
        return run_chains(
            make_sampler,
            self.length(rule, n),
            n_chains=self.n_chains,
            max_seconds=self.max_seconds,
            random_state=self.random_state,
            progress=self.progress,
            checkpoint=self.checkpoint,
            keep_warmup=self.keep_warmup,
            **how,
        )


@dataclass(frozen=True)
class Plan:
    """A checked problem, and the functions that make its chains.

    Attributes
    ----------
    name : str
        Name of the estimator or model, for the progress bar and the record.
    n : int
        Observations.
    n_clusters : int
        Number of clusters of a closed prior; start of an open one.
    assemble : callable
        ``assemble(n_slots)``: a new model under its collapse, for each chain.
    assemble_few : callable
        The same for a few observations, to compile with: returns their number and the parts.
    prior : specification
        The partition prior.
    start : callable
        ``start(chain, rng)``: labels that a chain begins with, from 0.
    n_start : int
        Largest number of clusters among these.
    n_runs : int
        Most short runs that the chains start from; ``start`` is then asked for each of them.
    fingerprint : mapping
        Identity of the run, for its checkpoint.
    describe, cluster_parameters, marginal, from_slots
        See `cavity.mcmc.chain.PartitionSampler`.
    anchors : callable, optional
        Gives the pairs that moves of many labels start from; None for no moves.
    places : RowPlaces, optional
        Known labels and noise, where not all observations are plain.
    """

    name: str
    n: int
    n_clusters: int
    assemble: Callable[[int], AssembledModel]
    assemble_few: Callable[[int], tuple[int, AssembledModel]]
    prior: PartitionSpecification
    start: Callable[[int, np.random.Generator], np.ndarray]
    n_start: int
    fingerprint: Mapping[str, Any]
    describe: Describe | None = None
    cluster_parameters: tuple[str, ...] = ()
    marginal: bool = False
    from_slots: bool = False
    anchors: Callable[[], Anchors] | None = None
    places: RowPlaces | None = None
    n_runs: int = 0

    @property
    def n_slots(self) -> int:
        """Initial number of slots of a chain."""
        if self.prior.is_open:
            return slots_for(max(self.n_start, 1) + self.noisy, True)
        return self.n_clusters + self.noisy

    @property
    def noisy(self) -> bool:
        """Whether the first slot is noise."""
        return self.places is not None and self.places.noise is not None

    @property
    def max_clusters(self) -> int | None:
        """Most clusters that the prior allows; noise counts as one."""
        return None if self.prior.is_open else self.n_clusters + self.noisy

    def sampler(
        self,
        parts: AssembledModel,
        z: np.ndarray,
        rng: np.random.Generator,
        moves: Iterable[Move] = (),
    ) -> PartitionSampler:
        """A started chain."""
        n_slots = parts.collapse.family.natural.shape[0]
        return PartitionSampler(
            parts,
            prior_of_rows(self.prior, self.n_clusters, n_slots, z.size, self.places),
            z,
            rng,
            updates=self.prior.updates(),
            moves=moves,
            describe=self.describe,
            cluster_parameters=self.cluster_parameters,
            marginal=self.marginal,
            from_slots=self.from_slots,
        )

    def posterior(self, run: ChainRun, **more: Any) -> Posterior:
        """Return the posterior; see `posterior_of`."""
        return posterior_of(run, self.name, self.max_clusters, noise=self.noisy, **more)


def posterior_of(
    run: ChainRun,
    name: str,
    max_clusters: int | None,
    *,
    names: Any = None,
    units: Units | None = None,
    volume: float = 0.0,
    summaries: Mapping[str, Any] | None = None,
    **record: Any,
) -> Posterior:
    """Return the posterior with its units and run record.

    Parameters
    ----------
    run : ChainRun
    name : str
        Name of the estimator or model.
    max_clusters : int or None
        Most clusters that the prior allows.
    names : sequence, optional
        Names of the observations.
    units : Units, optional
        Units of the draws; densities are converted to the data's here, all else when shown.
    volume : float
        Amount that the log likelihood loses by conversion to the data's units.
    summaries : mapping, optional
        Other values that the estimator stores.
    **record
        Fields of the record that the estimator sets.
    """
    parameters = dict(run.parameters)
    for quantity in {"log_likelihood", LOG_MARGINAL} & set(parameters):
        parameters[quantity] = parameters[quantity] - volume
    return Posterior(
        run.labels,
        log_joint=run.log_joint - volume,
        sweep_seconds=run.sweep_seconds,
        labels_warmup=run.labels_warmup,
        parameters=parameters,
        cluster_parameters=run.cluster_parameters,
        events=run.events,
        names=names,
        units=units,
        summaries=summaries,
        record=RunRecord(
            model=name,
            max_clusters=max_clusters,
            n_sweeps=run.sweep_seconds.shape[1],
            n_warmup=int(run.n_warmup),
            thin=int(run.thin),
            stopped=run.stopped,
            set_aside=tuple({"chain": c, **facts} for c, facts in run.aside.items()),
            unvisited=run.unvisited,
            seed=run.entropy,
            versions=versions(),
            **record,
        ),
    )


def prior_of_rows(
    prior: PartitionSpecification,
    n_clusters: int,
    n_slots: int,
    n: int,
    places: RowPlaces | None = None,
) -> Any:
    """Return a chain's partition prior for n observations, with known labels and noise."""
    if places is None:
        return prior.state(n_clusters, n_slots, n)
    if places.home.size > n:
        places = places.first(n)
    return places.around(prior.state(n_clusters, n_slots, n), n_slots)


def moves_for(
    parts: AssembledModel, anchors: Anchors, n_adapted: int, noise: bool = False
) -> tuple[Move, ...]:
    """Return the moves of a chain, if its collapse supports them."""
    if parts.movable == "never":
        return ()
    if parts.movable == "exactly":
        kinds: tuple[type[Move], ...] = (StandardMoves,)
        if noise:
            from cavity.moves.noise import NoiseMoves

            kinds += (NoiseMoves,)
        return tuple(kind(anchors, n_adapted, effort=parts.effort) for kind in kinds)
    approximate = parts.movable == "approximately"
    return (WholeClusterMoves(anchors, n_adapted, approximate=approximate, effort=parts.effort),)


def compile_kernels(plan: Plan) -> None:
    """Compile kernels by a sweep over a few observations."""
    if not kernels_are_kept():
        say("compiling kernels: once on this machine, about 30 seconds")
    n, parts = plan.assemble_few(plan.n_slots)
    for update in parts.updates:
        if hasattr(update, "n_held"):
            update.n_held = 0
    rng = np.random.default_rng(0)
    moves = () if plan.anchors is None else moves_for(parts, all_anchors(n), 1, plan.noisy)
    sampler = plan.sampler(parts, np.zeros(n, dtype=int), rng, moves)
    sampler.sweep(rng)
    sampler.log_joint()
    sampler.record()
    sampler.keep()
    collapse: Any = sampler.collapse
    if getattr(collapse, "staleness_every", 0):
        collapse.staleness(sampler.z, sampler.counts)


def run_plan(plan: Plan, settings: RunSettings, client: Any = None) -> ChainRun:
    """Compile, then run all chains until they finish or are interrupted."""
    import warnings

    from sklearn.exceptions import ConvergenceWarning
    from threadpoolctl import threadpool_limits

    anchors: Anchors | None = None
    n_warmup = settings.least_warmup(plan.n)

    def begun(z: np.ndarray, rng: np.random.Generator) -> PartitionSampler:
        parts = plan.assemble(plan.n_slots)
        parts.collapse.warm_up(n_warmup)
        moves = () if anchors is None else moves_for(parts, anchors, n_warmup, plan.noisy)
        return plan.sampler(parts, z, rng, moves)

    def make_sampler(chain: int, rng: np.random.Generator) -> PartitionSampler:
        return begun(plan.start(chain, rng), rng)

    n_threads = count_jobs(settings.n_jobs, settings.n_chains)
    starts = StartingRuns(
        plan.start, begun, plan.n_runs, settings.n_chains, n_threads, plan.max_clusters
    )
    # Chains are the threads; more threads for linear algebra would only wait for them.
    with threadpool_limits(1, user_api="blas"), warnings.catch_warnings():
        # Warnings of k-means about identical rows do not concern the fit. Filters belong to the
        # process, so they are set here, not in the chains' threads.
        warnings.simplefilter("ignore", ConvergenceWarning)
        compile_kernels(plan)
        if plan.anchors is not None:
            anchors = plan.anchors()
        judge = stopping_rule(
            plan.max_clusters, plan.marginal, PRECISIONS[settings.precision], starts.unvisited
        )
        # A worker is given the state of a chain that began here.
        with on_workers(client, make_sampler) as away:
            run = settings.run(
                starts.sampler,
                judge,
                plan.n,
                n_jobs=settings.n_jobs,
                fingerprint=plan.fingerprint,
                label=plan.name,
                run_chunk=away,
                make_restored=starts.restored,
            )
        return replace(run, unvisited=starts.unvisited(list(run.labels)))


def on_workers(client: Any, make_sampler: Any) -> Any:
    """Return a context that sends chains to a cluster; None without a client."""
    if client is None:
        return nullcontext()
    from cavity.distributed.dask_chains import ChainsAway

    say(f"Dask's dashboard: {client.dashboard_link}")
    return ChainsAway(client, make_sampler)
