"""Runs chains of any sampler: stages, draws, threads, limits, progress and checkpoints.

Chains run in threads, since the kernels release the interpreter's lock. Each has a generator of
its own, spawned from one seed, so that the draws do not depend on how many run at once. With
fewer threads than chains the threads take turns over the chains: stopped early, all chains have
come about equally far.
"""

from __future__ import annotations

import functools
import os
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

import numpy as np

from cavity.mcmc.checkpoint import Checkpoint, CheckpointError, Snapshot, fresh_entropy
from cavity.mcmc.memory import MemoryCheck
from cavity.mcmc.remote import Away, AwayChain
from cavity.mcmc.run import ChainRun, Run
from cavity.mcmc.schedule import Length
from cavity.mcmc.thread_runner import Chain
from cavity.utils.progress import reporting


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
        """Running summaries of what was kept since the chain began or `forget`, by name."""

    def forget(self) -> None:
        """Begin new running summaries."""

    def state(self) -> dict[str, np.ndarray]:
        """Copies of everything needed to continue bit for bit, counters and summaries included."""

    def restore(self, state: Mapping[str, np.ndarray]) -> None:
        """Take over what `state` gave."""


def seed_entropy(random_state: Any) -> int | None:
    """Entropy for the chains from a seed in any form that scikit-learn or NumPy knows.

    A generator is advanced, so that a second call with the same object gives other chains. None
    is returned for None.

    Examples
    --------
    >>> from cavity.mcmc.runner import seed_entropy
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
    length: Length,
    *,
    n_chains: int,
    max_seconds: float | None = None,
    n_jobs: int | None = None,
    random_state: Any = None,
    progress: bool | None = None,
    checkpoint: str | os.PathLike[str] | None = None,
    checkpoint_every: float | None = None,
    keep_warmup: bool = False,
    fingerprint: Mapping[str, Any],
    label: str = "sampling",
    away: Away | None = None,
) -> ChainRun:
    """Run several chains to their end, a limit, an interrupt or an error.

    Parameters
    ----------
    make_sampler : callable
        Given the chain's index and generator, returns a started sampler.
    length : Length
        How many sweeps there are, and which of them are draws.
    n_chains : int
        Number of chains.
    max_seconds : float, optional
        Stop after so many seconds, with the draws that there are. How many these are depends on
        the machine.
    n_jobs : int or None
        Threads; see `count_jobs`. Does not change the draws.
    random_state : None, int, Generator or RandomState
        Seed; see `seed_entropy`.
    progress : bool or None
        True, False, or None: a bar on a terminal and nothing elsewhere.
    checkpoint : path-like, optional
        File to continue from if it exists, and to write to. Only the number of draws or the limit
        (upwards), `max_seconds`, `n_jobs` and `progress` may differ from the run that wrote it.
    checkpoint_every : float, optional
        Seconds between checkpoints; by default ``CAVITY_CHECKPOINT_EVERY`` or 30.
    keep_warmup : bool
        Keep the labels of the warm-up sweeps, of an automatic run those of the least warm-up.
    fingerprint : mapping
        What identifies the model, its settings and its data, for the checkpoint.
    label : str
        What the progress is called.
    away : callable, optional
        Does the sweeps elsewhere, of all chains at once; see `cavity.mcmc.remote`.

    Returns
    -------
    ChainRun

    Notes
    -----
    Ctrl-C stops every chain after its current sweep; the draws that all chains have are returned
    with a warning. Draws that would not fit in memory are refused before the first sweep.
    """
    if isinstance(n_chains, bool) or not isinstance(n_chains, int | np.integer) or n_chains < 1:
        raise ValueError(f"n_chains must be an integer of at least 1, not {n_chains!r}")
    # Chains that are away have a thread each to wait in.
    n_threads = count_jobs(n_jobs, n_chains) if away is None else int(n_chains)
    make_chain = Chain if away is None else functools.partial(AwayChain, away)
    entropy = seed_entropy(random_state)
    deadline = np.inf if max_seconds is None else time.monotonic() + max_seconds
    stage = length.first()

    file: Checkpoint | None = None
    saved: list[Snapshot | None] = [None] * n_chains
    if checkpoint is not None:
        settings = {
            "n_chains": int(n_chains),
            "keep_warmup": bool(keep_warmup),
            **length.settings(),
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
        _refuse_shorter(file, saved, length)
        if file.stage is not None:
            stage = length.resumed(file.stage)
        file.stage = stage
    if entropy is None:
        entropy = fresh_entropy()

    n_warmup = length.n_warmup if keep_warmup else None
    check = MemoryCheck(int(n_chains), length.kept(n_warmup or 0))
    chains = [
        make_chain(
            i,
            np.random.Generator(np.random.PCG64(seed)),
            make_sampler,
            stage,
            length.limit,
            n_warmup,
            saved[i],
            check,
        )
        for i, seed in enumerate(np.random.SeedSequence(entropy).spawn(n_chains))
    ]
    names = [f"chain {i + 1}" if n_chains > 1 else "" for i in range(n_chains)]
    totals = [length.expected(stage, 1.0)] * n_chains
    done = [chain.n_sweeps for chain in chains]
    # A limit of sweeps is of each chain.
    of_all = "sweeps of all chains"
    with reporting(progress, label, names, totals, done=done, together=of_all) as reporter:
        run = Run(chains, n_threads, length, stage, file, reporter, deadline)
        run.through()
        reporter.finish()
    return run.collected(entropy, max_seconds)


def _refuse_shorter(file: Checkpoint, saved: Sequence[Snapshot | None], length: Length) -> None:
    most = max((s.n_sweeps for s in saved if s is not None), default=0)
    if most > length.limit:
        least = length.least(most)
        raise CheckpointError(
            f"The checkpoint {file.path} has already come to sweep {most} and this run asks for "
            f"{length.words()}. Ask for at least {least}, or give another path."
        )
