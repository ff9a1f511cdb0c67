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
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from cavity._numba.arrays import StateError
from cavity.mcmc.checkpoint import Checkpoint, CheckpointError, KeptChains, Snapshot, fresh_entropy
from cavity.mcmc.draws import ChainRun, assemble
from cavity.mcmc.memory import MemoryCheck
from cavity.mcmc.schedule import (
    ASKED,
    CONVERGED,
    INTERRUPTED,
    MAX_SECONDS,
    MAX_SWEEPS,
    MODES,
    TO_A_DRAFT,
    TO_A_REPORT,
    Assessment,
    AutomaticSchedule,
    Schedule,
    Stage,
)
from cavity.mcmc.thread_runner import TICK_SECONDS, Chain, ThreadRunner, uninterrupted
from cavity.utils.progress import Silent, reporting, roughly

if TYPE_CHECKING:
    from cavity.mcmc.remote import RunChunk

# Sweeps of a chain that the estimate of the time is made from; shorter runs need none.
TIMED_SWEEPS = 5
LONG_SECONDS = 30.0


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


@dataclass
class Run:
    """Chains on their way through the stages.

    Parameters
    ----------
    chains : sequence of Chain
    n_threads : int
    schedule : Schedule
        How many sweeps there are, and which of them are draws.
    stage : Stage
        The one that the chains are in.
    file : Checkpoint, KeptChains or None
    reporter : Silent
        Of progress.
    deadline : float
        When to stop, on the monotonic clock.
    """

    chains: Sequence[Chain]
    n_threads: int
    schedule: Schedule
    stage: Stage
    file: Checkpoint | KeptChains | None
    reporter: Silent
    deadline: float
    drafted: bool = False  # whether a look has found a draft
    forecast: bool = False  # whether to estimate the time from the first sweeps
    stopped: str = ""
    aside: Mapping[int, Mapping[str, Any]] = field(default_factory=dict)

    def through(self) -> None:
        """Stage after stage until there is a reason to stop."""
        if self.schedule.rule is not None:
            self._expect(1.0)
        while not self.stopped:
            self._report()
            self.stopped = self._drive()
            self._report()
            if not self.stopped:
                self.stopped = self._look()
        if self.file is not None:
            for chain in self.chains:
                chain.take_snapshot()
            self.file.write([chain.snapshot for chain in self.chains])

    def _drive(self) -> str:
        """Run the threads from the main one to the stage's end; return why it was not reached."""
        chains, file = self.chains, self.file
        threads = ThreadRunner(chains, self.n_threads, keep_snapshots=file is not None)
        asked = False
        stopped = ""
        try:
            threads.start()
            while not threads.wait(TICK_SECONDS):
                self._report()
                if time.monotonic() > self.deadline:
                    stopped = MAX_SECONDS
                    break
                if file is None or threads.failure is not None:
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
            stopped = INTERRUPTED
        finally:
            threads.stop()
        if stopped and threads.failure is None:
            threads.begin_chains_with_draws()
        if threads.failure is not None:
            self._raise(*threads.failure)
        return "" if all(chain.finished for chain in chains) else stopped

    def _raise(self, index: int, n_sweeps: int, error: BaseException) -> None:
        if self.file is not None and isinstance(error, StateError):
            raise CheckpointError(
                f"The {self.file} cannot be continued: the state of chain {index + 1} does not fit "
                f"this run ({error}). Delete it, or give another path, to start afresh."
            ) from error
        error.add_note(f"In chain {index + 1} of {len(self.chains)}, after {n_sweeps} sweeps.")
        raise error

    def _look(self) -> str:
        """All chains stand at the stage's end, or the limit: enter the next, or say why to stop."""
        schedule, stage = self.schedule, self.stage
        at_limit = self.chains[0].n_sweeps >= schedule.limit
        share = 1.0
        try:
            if schedule.rule is not None and (at_limit or schedule.is_checked(stage)):
                found = self._assess(self.chains)
                share, self.aside = found.share, found.aside
                if found.settled:
                    return CONVERGED
                if found.stuck:
                    return MODES
                if found.draft and not self.drafted:
                    self.drafted = True
                    self.reporter.say(
                        "a draft is ready (probabilities to about ±0.05); Ctrl-C stops with it"
                    )
        except KeyboardInterrupt:
            return INTERRUPTED
        if at_limit:
            return ASKED if schedule.rule is None else MAX_SWEEPS
        self._expect(share)
        return INTERRUPTED if uninterrupted(self._enter) else ""

    def _expect(self, share: float) -> None:
        self.reporter.expect(self.schedule.expected(self.stage, share))

    def _assess(self, chains: Sequence[Chain], n_draws: int | None = None) -> Assessment:
        rule, sampler = self.schedule.rule, chains[0].sampler
        assert rule is not None
        assert sampler is not None
        return rule([_of_draws(chain, n_draws) for chain in chains], sampler.cluster_parameters)

    def _enter(self) -> None:
        self.stage = self.schedule.following(self.stage, _bytes_per_draw(self.chains))
        for chain in self.chains:
            chain.enter(self.stage)
        if self.file is not None:
            # All snapshots with the stage, so that no file has chains of two stages.
            for chain in self.chains:
                chain.take_snapshot()
            self.file.stage = self.stage

    def _report(self) -> None:
        done = float(np.mean([chain.n_sweeps for chain in self.chains]))
        news = next((news for chain in self.chains if (news := chain.news)), "")
        self.reporter.update(done, f"({news})" if news else "")
        if self.forecast:
            self._tell_time()

    def _tell_time(self) -> None:
        """Estimate from the first sweeps how long a draft and a report take, where that is long."""
        seconds = [
            chain.draws.arrays()["sweep_seconds"][1:]
            for chain in self.chains
            if chain.draws is not None and chain.draws.n_sweeps >= TIMED_SWEEPS
        ]
        if len(seconds) < self.n_threads:
            return
        self.forecast = False
        assert isinstance(self.schedule, AutomaticSchedule)
        each = float(np.concatenate(seconds).mean()) * len(self.chains) / self.n_threads
        draft, report = (each * self.schedule.boundary(k) for k in (TO_A_DRAFT, TO_A_REPORT))
        if report >= LONG_SECONDS:
            self.reporter.say(
                f"about {roughly(draft)} to a draft, {roughly(report)} to a report on this machine"
            )

    def collected(self, entropy: int) -> ChainRun:
        """The draws that all chains have, without those set aside."""
        begun = [chain for chain in self.chains if chain.n_draws > 0]
        early = self.stopped in (INTERRUPTED, MAX_SECONDS)
        again = "" if self.file is None else self.file.again
        if not begun and self.stopped == INTERRUPTED:
            n_sweeps = max(chain.n_sweeps for chain in self.chains)
            raise KeyboardInterrupt(
                f"stopped after {n_sweeps} sweeps, before any chain had a draw to give.{again}"
            )
        if not begun:
            begun = self._as_they_stand()
        n_draws = min(chain.n_draws for chain in begun)
        if self.stopped == INTERRUPTED:
            self._warn(len(begun), n_draws, again)
        if early and self.schedule.rule is not None:
            found = self._assess(begun, n_draws).aside
            self.aside = {begun[c].index: facts for c, facts in found.items()}
        kept = [chain for chain in begun if chain.index not in self.aside]
        samplers = [chain.sampler for chain in kept if chain.sampler is not None]
        summaries = [chain.summaries() for chain in kept]
        arrays = [chain.draws.arrays() for chain in kept if chain.draws is not None]
        for chain in self.chains:
            # The arrays are handed over one by one, so that the draws are never in memory twice.
            chain.draws = chain.snapshot = None
        return assemble(
            samplers,
            arrays,
            n_draws,
            summaries=summaries,
            entropy=entropy,
            stopped=self.stopped,
            n_warmup=self.stage.n_warmup,
            thin=self.stage.thin,
            aside=dict(self.aside),
        )

    def _as_they_stand(self) -> list[Chain]:
        """Make the state of every chain that has begun its only draw."""
        if all(chain.sampler is None for chain in self.chains):
            self.chains[0].begin()
        begun = [chain for chain in self.chains if chain.sampler is not None]
        if any(chain.n_sweeps for chain in begun):
            begun = [chain for chain in begun if chain.n_sweeps]
        for chain in begun:
            chain.keep()
        return begun

    def _warn(self, n_chains: int, n_draws: int, again: str) -> None:
        left_out = len(self.chains) - n_chains
        without = f" ({left_out} more had none yet and are left out)" if left_out else ""
        of = f" of {self.stage.n_draws()}" if self.schedule.rule is None else ""
        warnings.warn(
            f"Stopped early: {n_draws}{of} draws exist in each of "
            f"{n_chains} chain{'s' if n_chains > 1 else ''}{without}.{again}",
            UserWarning,
            stacklevel=4,
        )


def _of_draws(chain: Chain, n_draws: int | None = None) -> dict[str, np.ndarray]:
    """Views of what a chain has drawn, cut to so many draws."""
    assert chain.draws is not None
    of_sweeps = ("sweep_seconds", "labels_warmup")
    return {
        name: rows[:n_draws]
        for name, rows in chain.draws.arrays().items()
        if name not in of_sweeps and not name.startswith("block/")
    }


def _bytes_per_draw(chains: Sequence[Chain]) -> float:
    """Bytes that one draw of every chain takes."""
    return sum(
        sum(rows.nbytes for rows in _of_draws(chain).values()) / max(chain.n_draws, 1)
        for chain in chains
    )


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
    if isinstance(n_jobs, bool) or not isinstance(n_jobs, int | np.integer) or n_jobs == 0:
        raise ValueError(
            f"n_jobs must be None, -1 or a number of threads, not {str(n_jobs)[:40]!r}."
        )
    if n_jobs < 0:
        n_jobs = max(1, available + 1 + n_jobs)
    return min(n_chains, n_jobs)


def run_chains(
    make_sampler: Callable[[int, np.random.Generator], Sampler],
    schedule: Schedule,
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
    run_chunk: RunChunk | None = None,
    make_restored: Callable[[int, np.random.Generator], Sampler] | None = None,
) -> ChainRun:
    """Run several chains to their end, a limit, an interrupt or an error.

    Parameters
    ----------
    make_sampler : callable
        Given the chain's index and generator, returns a started sampler.
    schedule : Schedule
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
    checkpoint : path-like or KeptChains, optional
        Chains in memory, or file, to continue from if it exists, and to write to. Only the number
        of draws or the limit (upwards), `max_seconds`, the rule's precision, `n_jobs` and
        `progress` may differ from the run that wrote it.
    checkpoint_every : float, optional
        Seconds between checkpoints; by default ``CAVITY_CHECKPOINT_EVERY`` or 30.
    keep_warmup : bool
        Keep the labels of the warm-up sweeps, of an automatic run those of the least warm-up.
    fingerprint : mapping
        What identifies the model, its settings and its data, for the checkpoint.
    label : str
        What the progress is called.
    run_chunk : callable, optional
        Runs sweeps remotely, of all chains at once; see `cavity.mcmc.remote`.
    make_restored : callable, optional
        Same as `make_sampler`, for a chain whose state is restored and needs no start of its own.

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
    # Each remote chain has a thread to wait in.
    n_threads = count_jobs(n_jobs, n_chains) if run_chunk is None else int(n_chains)
    make_chain: Callable[..., Chain] = Chain
    if run_chunk is not None:
        from cavity.mcmc.remote import RemoteChain

        make_chain = functools.partial(RemoteChain, run_chunk)
    entropy = seed_entropy(random_state)
    deadline = np.inf if max_seconds is None else time.monotonic() + max_seconds
    stage = schedule.first()

    file: Checkpoint | KeptChains | None = None
    saved: list[Snapshot | None] = [None] * n_chains
    if checkpoint is not None:
        settings = {
            "n_chains": int(n_chains),
            "keep_warmup": bool(keep_warmup),
            **schedule.settings(),
        }
        if isinstance(checkpoint, KeptChains):
            file = checkpoint
            # A generator gives another seed each time it is asked.
            file.begin(fingerprint, settings, entropy if isinstance(random_state, int) else None)
        else:
            file = Checkpoint(
                checkpoint,
                fingerprint=fingerprint,
                settings=settings,
                entropy=entropy,
                every=checkpoint_every,
            )
        saved = file.open()
        entropy = file.entropy
        _refuse_shorter(file, saved, schedule)
        if file.stage is not None:
            stage = schedule.resumed(file.stage)
        file.stage = stage
    if entropy is None:
        entropy = fresh_entropy()

    n_warmup = schedule.n_warmup if keep_warmup else None
    check = MemoryCheck(int(n_chains), schedule.stored(n_warmup or 0))
    chains = [
        make_chain(
            i,
            np.random.Generator(np.random.PCG64(seed)),
            make_sampler if saved[i] is None else make_restored or make_sampler,
            stage,
            schedule.limit,
            n_warmup,
            saved[i],
            check,
        )
        for i, seed in enumerate(np.random.SeedSequence(entropy).spawn(n_chains))
    ]
    total = schedule.expected(stage, 1.0)
    done = float(np.mean([chain.n_sweeps for chain in chains]))
    unit = "sweeps per chain" if n_chains > 1 else "sweeps"
    with reporting(progress, label, total, unit, done) as reporter:
        run = Run(chains, n_threads, schedule, stage, file, reporter, deadline)
        run.forecast = schedule.rule is not None and done == 0
        run.through()
        reporter.finish()
    return run.collected(entropy)


def _refuse_shorter(
    file: Checkpoint | KeptChains, saved: Sequence[Snapshot | None], schedule: Schedule
) -> None:
    most = max((s.n_sweeps for s in saved if s is not None), default=0)
    if most > schedule.limit:
        least = schedule.least(most)
        raise CheckpointError(
            f"The {file} has already come to sweep {most} and this run asks for "
            f"{schedule.words()}. Ask for at least {least}, or start afresh."
        )
