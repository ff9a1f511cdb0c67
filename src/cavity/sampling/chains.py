"""Runs chains of any sampler: warm-up, draws, thinning, threads, progress and checkpoints.

Chains run in threads, since the kernels release the interpreter's lock. Each has a generator of
its own, spawned from one seed, so that the draws do not depend on how many run at once. With
fewer threads than chains the threads take turns over the chains: stopped early, all chains have
come about equally far.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from cavity.core.arrays import StateError
from cavity.core.progress import Silent, reporting
from cavity.sampling.checkpoint import Checkpoint, CheckpointError, Snapshot, fresh_entropy
from cavity.sampling.crew import TICK_SECONDS, Chain, Crew, Schedule
from cavity.sampling.draws import stack_labels, stack_parameter
from cavity.sampling.memory import MemoryCheck


class Sampler(Protocol):
    """What the runner drives: one chain of any model, already started.

    Attributes
    ----------
    cluster_parameters : tuple of str
        Names in `record` whose first axis is the cluster slot.
    """

    cluster_parameters: tuple[str, ...]

    def sweep(self, rng: np.random.Generator) -> None:
        """Do one whole sweep in place; every random number comes from `rng`."""

    def labels(self) -> np.ndarray:
        """Current cluster slot of every observation, shape (n,)."""

    def log_joint(self) -> float:
        """Log joint density of the current state and the data."""

    def record(self) -> dict[str, np.ndarray]:
        """Further quantities of one kept draw.

        The first axis of a cluster parameter may change from draw to draw; every other shape is
        fixed.
        """

    def keep(self) -> None:
        """Take the current state into running summaries; called once per kept draw."""

    def events(self) -> dict[str, float]:
        """Counters since the chain began."""

    def summaries(self) -> dict[str, np.ndarray]:
        """Running summaries of the kept draws, by name."""

    def state(self) -> dict[str, np.ndarray]:
        """Copies of everything needed to continue bit for bit, counters and summaries included."""

    def restore(self, state: Mapping[str, np.ndarray]) -> None:
        """Take over what `state` gave."""


@dataclass(frozen=True)
class ChainRun:
    """What the chains drew.

    Attributes
    ----------
    labels : array of int, shape (chain, draw, n)
        In the smallest integer type that holds them.
    log_joint : array, shape (chain, draw)
    sweep_seconds : array, shape (chain, sweep)
        Wall time of every sweep, warm-up included.
    labels_warmup : array of int, shape (chain, sweep, n), or None
        Labels after each warm-up sweep, when these were kept.
    parameters : dict of arrays, each of shape (chain, draw, ...)
        Recorded quantities; NaN where a cluster did not exist.
    cluster_parameters : tuple of str
        Names in `parameters` whose third axis is the cluster.
    events : dict of arrays, each of shape (chain,)
        Counters of the samplers.
    samplers : list of Sampler
        The chains at their end. After an interrupt some may have gone a few sweeps further than
        the draws, which are cut to the number that all chains have.
    summaries : list of dict of arrays
        Each chain's running summaries of its kept draws.
    entropy : int
        What the chains' generators were spawned from: the seed, drawn if none was given.
    interrupted : bool
        Whether the run was stopped before its end.
    n_warmup, thin : int
        Warm-up sweeps, and sweeps per draw.
    """

    labels: np.ndarray
    log_joint: np.ndarray
    sweep_seconds: np.ndarray
    labels_warmup: np.ndarray | None
    parameters: dict[str, np.ndarray]
    cluster_parameters: tuple[str, ...]
    events: dict[str, np.ndarray]
    samplers: list[Sampler]
    summaries: list[dict[str, np.ndarray]]
    entropy: int
    interrupted: bool
    n_warmup: int
    thin: int


def seed_entropy(random_state: Any) -> int | None:
    """Entropy for the chains from a seed in any form that scikit-learn or NumPy knows.

    A generator is advanced, so that a second call with the same object gives other chains. None
    is returned for None.

    Examples
    --------
    >>> from cavity.sampling.chains import seed_entropy
    >>> seed_entropy(7)
    7
    """
    check_seed(random_state)
    if random_state is None:
        return None
    if isinstance(random_state, int | np.integer):
        return int(random_state)
    if isinstance(random_state, np.random.Generator):
        words = random_state.integers(0, 2**32, size=4, dtype=np.uint64)
    else:
        state = np.random.mtrand._rand if random_state is np.random else random_state
        words = state.randint(0, 2**32, size=4, dtype=np.uint64)
    return sum(int(word) << (32 * i) for i, word in enumerate(words))


def check_seed(random_state: Any) -> None:
    """Refuse what is no seed, without advancing one that is a generator."""
    whole = isinstance(random_state, int | np.integer) and not isinstance(random_state, bool)
    kinds = (np.random.Generator, np.random.RandomState)
    known = random_state is None or random_state is np.random or isinstance(random_state, kinds)
    if not known and not whole:
        raise ValueError(
            "random_state must be None, an int, a numpy Generator or a numpy RandomState, "
            f"not {random_state!r}"
        )
    if whole and random_state < 0:
        raise ValueError(f"random_state must not be negative, not {random_state}")


def count_jobs(n_jobs: int | None, n_chains: int) -> int:
    """Number of threads: None means one per chain as far as there are processors, -1 all."""
    if hasattr(os, "sched_getaffinity"):
        available = len(os.sched_getaffinity(0))
    else:
        available = os.cpu_count() or 1
    if n_jobs is None:
        return min(n_chains, available)
    if n_jobs == 0:
        raise ValueError("n_jobs must not be 0; use None, -1 or the number of threads")
    if n_jobs < 0:
        n_jobs = max(1, available + 1 + n_jobs)
    return min(n_chains, n_jobs)


def run_chains(
    make_sampler: Callable[[int, np.random.Generator], Sampler],
    *,
    n_chains: int,
    n_warmup: int,
    n_draws: int,
    thin: int = 1,
    n_jobs: int | None = None,
    random_state: Any = None,
    progress: bool | None = None,
    checkpoint: str | os.PathLike[str] | None = None,
    checkpoint_every: float | None = None,
    keep_warmup: bool = False,
    fingerprint: Mapping[str, Any],
    label: str = "sampling",
) -> ChainRun:
    """Run several chains to their end, an interrupt or an error.

    Parameters
    ----------
    make_sampler : callable
        Given the chain's index and generator, returns a started sampler.
    n_chains, n_warmup, n_draws, thin : int
        Chains; sweeps before the first draw; draws per chain; sweeps per draw.
    n_jobs : int or None
        Threads; see `count_jobs`. Does not change the draws.
    random_state : None, int, Generator or RandomState
        Seed; see `seed_entropy`.
    progress : bool or None
        True, False, or None: a bar on a terminal and nothing elsewhere.
    checkpoint : path-like, optional
        File to continue from if it exists, and to write to. Only `n_draws` (upwards), `n_jobs`
        and `progress` may differ from the run that wrote it.
    checkpoint_every : float, optional
        Seconds between checkpoints; by default ``CAVITY_CHECKPOINT_EVERY`` or 30.
    keep_warmup : bool
        Keep the labels of the warm-up sweeps.
    fingerprint : mapping
        What identifies the model, its settings and its data, for the checkpoint.
    label : str
        What the progress is called.

    Returns
    -------
    ChainRun

    Notes
    -----
    Ctrl-C stops every chain after its current sweep; the draws that all chains have are returned
    with a warning. Draws that would not fit in memory are refused before the first sweep.
    """
    for name, value, least in (
        ("n_chains", n_chains, 1),
        ("n_warmup", n_warmup, 0),
        ("n_draws", n_draws, 1),
        ("thin", thin, 1),
    ):
        if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < least:
            raise ValueError(f"{name} must be an integer of at least {least}, not {value!r}")
    n_threads = count_jobs(n_jobs, n_chains)
    schedule = Schedule(int(n_warmup), int(n_draws), int(thin), bool(keep_warmup))
    entropy = seed_entropy(random_state)

    file: Checkpoint | None = None
    saved: list[Snapshot | None] = [None] * n_chains
    if checkpoint is not None:
        settings = {
            "n_chains": int(n_chains),
            "n_warmup": schedule.n_warmup,
            "thin": schedule.thin,
            "keep_warmup": schedule.keep_warmup,
        }
        file = Checkpoint(
            checkpoint,
            fingerprint=fingerprint,
            settings=settings,
            entropy=entropy,
            every=checkpoint_every,
        )
        saved = file.open()
        entropy = file.entropy
        _refuse_fewer_draws(file, saved, schedule)
    if entropy is None:
        entropy = fresh_entropy()

    check = MemoryCheck(int(n_chains), schedule)
    chains = [
        Chain(
            i, np.random.Generator(np.random.PCG64(seed)), make_sampler, schedule, saved[i], check
        )
        for i, seed in enumerate(np.random.SeedSequence(entropy).spawn(n_chains))
    ]
    names = [f"chain {i + 1}" if n_chains > 1 else "" for i in range(n_chains)]
    totals, done = [schedule.n_sweeps] * n_chains, [chain.n_sweeps for chain in chains]
    with reporting(progress, label, names, totals, done=done) as reporter:
        interrupted = _drive(chains, n_threads, schedule, file, reporter)
    return _collect(chains, schedule, interrupted, file, entropy)


def _refuse_fewer_draws(
    file: Checkpoint, saved: Sequence[Snapshot | None], schedule: Schedule
) -> None:
    most = max((s.n_sweeps for s in saved if s is not None), default=0)
    if most > schedule.n_sweeps:
        n_draws = -(-(most - schedule.n_warmup) // schedule.thin)
        raise CheckpointError(
            f"The checkpoint {file.path} has already come to draw {n_draws} and this run asks for "
            f"n_draws={schedule.n_draws}. Ask for at least {n_draws} draws, or give another path."
        )


def _drive(
    chains: Sequence[Chain],
    n_threads: int,
    schedule: Schedule,
    file: Checkpoint | None,
    reporter: Silent,
) -> bool:
    """Run the threads from the main one; return whether Ctrl-C ended it."""
    crew = Crew(chains, n_threads, keep_snapshots=file is not None)
    asked = interrupted = False
    try:
        crew.start()
        while not crew.wait(TICK_SECONDS):
            _report(chains, schedule, reporter)
            if file is None or crew.failure is not None:
                continue
            if not asked and file.due():
                for chain in chains:
                    chain.snapshot_wanted = chain.sampler is not None and not chain.finished
                asked = True
            # A chain that finished meanwhile may never answer; its last snapshot will do.
            if asked and not any(c.snapshot_wanted and not c.finished for c in chains):
                file.write([chain.snapshot for chain in chains])
                asked = False
    except KeyboardInterrupt:
        interrupted = True
    finally:
        crew.stop()
    if interrupted and crew.failure is None:
        crew.begin_chains_with_draws()
    if crew.failure is not None:
        index, n_sweeps, error = crew.failure
        if file is not None and isinstance(error, StateError):
            raise CheckpointError(
                f"The checkpoint {file.path} cannot be continued: the state of chain {index + 1} "
                f"does not fit this run ({error}). Delete it, or give another path, to start "
                "afresh."
            ) from error
        error.add_note(f"In chain {index + 1} of {len(chains)}, after {n_sweeps} sweeps.")
        raise error
    _report(chains, schedule, reporter)
    if file is not None:
        for chain in chains:
            chain.take_snapshot()
        file.write([chain.snapshot for chain in chains])
    return interrupted and not all(chain.finished for chain in chains)


def _report(chains: Sequence[Chain], schedule: Schedule, reporter: Silent) -> None:
    for task, chain in enumerate(chains):
        note = "(warm-up)" if chain.n_sweeps < schedule.n_warmup else ""
        reporter.update(task, chain.n_sweeps, note)


def _collect(
    chains: Sequence[Chain],
    schedule: Schedule,
    interrupted: bool,
    file: Checkpoint | None,
    entropy: int,
) -> ChainRun:
    begun = [chain for chain in chains if chain.n_draws > 0]
    if interrupted:
        again = (
            f" The checkpoint {file.path} holds its state: run it again to continue."
            if file is not None
            else ""
        )
        if not begun:
            n_sweeps = max(chain.n_sweeps for chain in chains)
            raise KeyboardInterrupt(
                f"stopped after {n_sweeps} sweeps, before any chain had a draw to give.{again}"
            )
        n_draws = min(chain.n_draws for chain in begun)
        left_out = len(chains) - len(begun)
        without = f" ({left_out} more had none yet and are left out)" if left_out else ""
        warnings.warn(
            f"Stopped early: {n_draws} of {schedule.n_draws} draws exist in each of "
            f"{len(begun)} chain{'s' if len(begun) > 1 else ''}{without}.{again}",
            UserWarning,
            stacklevel=3,
        )
    else:
        n_draws = schedule.n_draws
    samplers = [chain.sampler for chain in begun if chain.sampler is not None]
    arrays = [chain.draws.arrays() for chain in begun if chain.draws is not None]
    for chain in chains:
        # The arrays are handed over one by one, so that the draws are never in memory twice.
        chain.draws = chain.snapshot = None
    return _assemble(samplers, arrays, schedule, n_draws, interrupted, entropy)


def _assemble(
    samplers: list[Sampler],
    arrays: list[dict[str, np.ndarray]],
    schedule: Schedule,
    n_draws: int,
    interrupted: bool,
    entropy: int,
) -> ChainRun:
    n_sweeps = schedule.n_warmup + n_draws * schedule.thin
    cluster_parameters = tuple(samplers[0].cluster_parameters)
    parameters = {
        name.partition("/")[2]: stack_parameter(
            [part.pop(name)[:n_draws] for part in arrays],
            has_clusters=name.partition("/")[2] in cluster_parameters,
        )
        for name in [key for key in arrays[0] if key.startswith("parameters/")]
    }
    warmup = None
    if schedule.keep_warmup:
        warmup = stack_labels([part.pop("labels_warmup") for part in arrays])
    events = [sampler.events() for sampler in samplers]
    return ChainRun(
        labels=stack_labels([part.pop("labels")[:n_draws] for part in arrays]),
        log_joint=np.stack([part["log_joint"][:n_draws] for part in arrays]),
        sweep_seconds=np.stack([part["sweep_seconds"][:n_sweeps] for part in arrays]),
        labels_warmup=warmup,
        parameters=parameters,
        cluster_parameters=cluster_parameters,
        events={
            name: np.array([float(event.get(name, 0.0)) for event in events]) for name in events[0]
        },
        samplers=samplers,
        summaries=[sampler.summaries() for sampler in samplers],
        entropy=entropy,
        interrupted=interrupted,
        n_warmup=schedule.n_warmup,
        thin=schedule.thin,
    )
