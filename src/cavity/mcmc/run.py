"""Chains on their way through the stages of a run, and what they have drawn in the end."""

from __future__ import annotations

import time
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from cavity._numba.arrays import StateError
from cavity.mcmc.checkpoint import Checkpoint, CheckpointError
from cavity.mcmc.draws import stack_labels, stack_parameter
from cavity.mcmc.schedule import (
    ASKED,
    CONVERGED,
    INTERRUPTED,
    MAX_SECONDS,
    MAX_SWEEPS,
    Judge,
    Judgement,
    Length,
    Stage,
)
from cavity.mcmc.thread_runner import TICK_SECONDS, Chain, Crew, uninterrupted
from cavity.utils.progress import Silent

if TYPE_CHECKING:
    from cavity.mcmc.runner import Sampler


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
    summaries : list of lists of dicts of arrays
        Each chain's running summaries of its kept draws, in stretches.
    entropy : int
        What the chains' generators were spawned from: the seed, drawn if none was given.
    stopped : {"n_draws", "converged", "max_sweeps", "max_seconds", "interrupted"}
        Why the run ended.
    n_warmup, thin : int
        Sweeps before the first draw, and sweeps per draw.
    aside : dict of int to dict
        Chains that were set aside, by their number, and what is known of them; all else is of the
        others.
    """

    labels: np.ndarray
    log_joint: np.ndarray
    sweep_seconds: np.ndarray
    labels_warmup: np.ndarray | None
    parameters: dict[str, np.ndarray]
    cluster_parameters: tuple[str, ...]
    events: dict[str, np.ndarray]
    samplers: list[Sampler]
    summaries: list[list[dict[str, np.ndarray]]]
    entropy: int
    stopped: str
    n_warmup: int
    thin: int
    aside: dict[int, Mapping[str, Any]]

    @property
    def interrupted(self) -> bool:
        """Whether Ctrl-C ended it."""
        return self.stopped == INTERRUPTED


class Run:
    """Chains on their way through the stages.

    Parameters
    ----------
    chains : sequence of Chain
    n_threads : int
    length : Length
        How many sweeps there are, and which of them are draws.
    stage : Stage
        The one that the chains are in.
    file : Checkpoint or None
    reporter : Silent
        Of progress.
    deadline : float
        When to stop, on the monotonic clock.
    """

    def __init__(
        self,
        chains: Sequence[Chain],
        n_threads: int,
        length: Length,
        stage: Stage,
        file: Checkpoint | None,
        reporter: Silent,
        deadline: float,
    ) -> None:
        self.chains = chains
        self.n_threads = n_threads
        self.length = length
        self.stage = stage
        self.file = file
        self.reporter = reporter
        self.deadline = deadline
        self.stopped = ""
        self.aside: Mapping[int, Mapping[str, Any]] = {}

    def through(self) -> None:
        """Stage after stage until there is a reason to stop."""
        if self.length.judge is not None:
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
        crew = Crew(chains, self.n_threads, keep_snapshots=file is not None)
        asked = False
        stopped = ""
        try:
            crew.start()
            while not crew.wait(TICK_SECONDS):
                self._report()
                if time.monotonic() > self.deadline:
                    stopped = MAX_SECONDS
                    break
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
            stopped = INTERRUPTED
        finally:
            crew.stop()
        if stopped and crew.failure is None:
            crew.begin_chains_with_draws()
        if crew.failure is not None:
            self._raise(*crew.failure)
        return "" if all(chain.finished for chain in chains) else stopped

    def _raise(self, index: int, n_sweeps: int, error: BaseException) -> None:
        if self.file is not None and isinstance(error, StateError):
            raise CheckpointError(
                f"The checkpoint {self.file.path} cannot be continued: the state of chain "
                f"{index + 1} does not fit this run ({error}). Delete it, or give another path, to "
                "start afresh."
            ) from error
        error.add_note(f"In chain {index + 1} of {len(self.chains)}, after {n_sweeps} sweeps.")
        raise error

    def _look(self) -> str:
        """All chains stand at the stage's end, or the limit: enter the next, or say why to stop."""
        length, stage = self.length, self.stage
        at_limit = self.chains[0].n_sweeps >= length.limit
        share = 1.0
        try:
            if length.judge is not None and (at_limit or length.judges(stage)):
                found = self._judged(length.judge, self.chains)
                share, self.aside = found.share, found.aside
                if found.settled:
                    return CONVERGED
        except KeyboardInterrupt:
            return INTERRUPTED
        if at_limit:
            return ASKED if length.judge is None else MAX_SWEEPS
        self._expect(share)
        return INTERRUPTED if uninterrupted(self._enter) else ""

    def _expect(self, share: float) -> None:
        expected = self.length.expected(self.stage, share)
        for task in range(len(self.chains)):
            self.reporter.expect(task, expected)

    @staticmethod
    def _judged(judge: Judge, chains: Sequence[Chain], n_draws: int | None = None) -> Judgement:
        sampler = chains[0].sampler
        assert sampler is not None
        return judge([_of_draws(chain, n_draws) for chain in chains], sampler.cluster_parameters)

    def _enter(self) -> None:
        self.stage = self.length.following(self.stage, _bytes_per_draw(self.chains))
        for chain in self.chains:
            chain.enter(self.stage)
        if self.file is not None:
            # All snapshots with the stage, so that no file has chains of two stages.
            for chain in self.chains:
                chain.take_snapshot()
            self.file.stage = self.stage

    def _report(self) -> None:
        for task, chain in enumerate(self.chains):
            stage = "warm-up" if chain.n_sweeps < self.stage.n_warmup else ""
            note = ", ".join(part for part in (stage, chain.news) if part)
            self.reporter.update(task, chain.n_sweeps, f"({note})" if note else "")

    # ------------------------------------------------------------------ what comes of it

    def collected(self, entropy: int, max_seconds: float | None) -> ChainRun:
        """The draws that all chains have, without those set aside."""
        begun = [chain for chain in self.chains if chain.n_draws > 0]
        early = self.stopped in (INTERRUPTED, MAX_SECONDS)
        again = ""
        if self.file is not None:
            again = f" The checkpoint {self.file.path} holds its state: run it again to continue."
        if not begun:
            n_sweeps = max(chain.n_sweeps for chain in self.chains)
            if self.stopped == INTERRUPTED:
                raise KeyboardInterrupt(
                    f"stopped after {n_sweeps} sweeps, before any chain had a draw to give.{again}"
                )
            raise ValueError(
                f"max_seconds={max_seconds:g} had passed after {n_sweeps} sweeps, before any chain "
                f"had a draw to give: give it more time.{again}"
            )
        n_draws = min(chain.n_draws for chain in begun)
        if self.stopped == INTERRUPTED:
            self._warn(len(begun), n_draws, again)
        if early and self.length.judge is not None:
            found = self._judged(self.length.judge, begun, n_draws).aside
            self.aside = {begun[c].index: facts for c, facts in found.items()}
        kept = [chain for chain in begun if chain.index not in self.aside]
        samplers = [chain.sampler for chain in kept if chain.sampler is not None]
        summaries = [chain.summaries() for chain in kept]
        arrays = [chain.draws.arrays() for chain in kept if chain.draws is not None]
        for chain in self.chains:
            # The arrays are handed over one by one, so that the draws are never in memory twice.
            chain.draws = chain.snapshot = None
        return _assemble(
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

    def _warn(self, n_chains: int, n_draws: int, again: str) -> None:
        left_out = len(self.chains) - n_chains
        without = f" ({left_out} more had none yet and are left out)" if left_out else ""
        of = f" of {self.stage.n_draws()}" if self.length.judge is None else ""
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


def _assemble(
    samplers: list[Sampler], arrays: list[dict[str, np.ndarray]], n_draws: int, **more: Any
) -> ChainRun:
    cluster_parameters = tuple(samplers[0].cluster_parameters)
    parameters = {
        name.partition("/")[2]: stack_parameter(
            [part.pop(name)[:n_draws] for part in arrays],
            has_clusters=name.partition("/")[2] in cluster_parameters,
        )
        for name in [key for key in arrays[0] if key.startswith("parameters/")]
    }
    warmup = None
    if "labels_warmup" in arrays[0]:
        warmup = stack_labels([part.pop("labels_warmup") for part in arrays])
    events = [sampler.events() for sampler in samplers]
    n_sweeps = int(arrays[0]["sweeps"][n_draws - 1])
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
        **more,
    )
