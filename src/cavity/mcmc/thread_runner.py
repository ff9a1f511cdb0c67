"""The threads of a run and the chains that they take turns over."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from cavity._numba.arrays import StateError
from cavity.mcmc.checkpoint import Snapshot
from cavity.mcmc.draws import Draws, current_draw

if TYPE_CHECKING:
    from cavity.mcmc.runner import Sampler
    from cavity.mcmc.schedule import Stage

# How long a thread stays with one chain where there are fewer threads than chains.
_TURN_SECONDS = 0.25
TICK_SECONDS = 0.1


class Chain:
    """One chain and all it has drawn; touched by one thread at a time.

    Parameters
    ----------
    index : int
        Its number, from 0.
    rng : numpy.random.Generator
        Its own.
    make_sampler : callable
        Given the two, returns a started sampler.
    stage : Stage
        What it is to do first.
    limit : int
        The most sweeps it does.
    n_warmup : int or None
        Sweeps, from the first, whose labels are kept beside the draws; None for none.
    saved : Snapshot or None
        What to continue from.
    check : callable
        Refuses, given the started sampler, what there is no memory for.
    """

    def __init__(
        self,
        index: int,
        rng: np.random.Generator,
        make_sampler: Callable[[int, np.random.Generator], Sampler],
        stage: Stage,
        limit: int,
        n_warmup: int | None,
        saved: Snapshot | None,
        check: Callable[[Sampler], None],
    ) -> None:
        self.index = index
        self.sampler: Sampler | None = None
        self.draws: Draws | None = None
        self.snapshot_wanted = False
        self.snapshot = saved
        self.n_sweeps = saved.n_sweeps if saved is not None else 0
        self._rng = rng
        self._make_sampler = make_sampler
        self._stage = stage
        self._limit = limit
        self._n_warmup = n_warmup
        self._saved = saved
        self._check = check
        self._beginning = False

    @property
    def finished(self) -> bool:
        """Whether nothing is left to do in this stage."""
        return self.n_sweeps >= min(self._stage.end, self._limit)

    @property
    def n_draws(self) -> int:
        """Draws at hand."""
        return self.draws.n_draws if self.draws is not None else 0

    @property
    def has_saved_draws(self) -> bool:
        """Whether a checkpoint holds draws of this chain that have not been taken over yet."""
        return self._saved is not None and len(self._saved.draws.get("log_joint", ())) > 0

    @property
    def news(self) -> str:
        """What its sampler would have a progress bar say, if anything."""
        if self.sampler is None and self._beginning:
            return "choosing where to start"
        return getattr(self.sampler, "news", str)()

    def begin(self) -> None:
        """Start the sampler, or take it over from a checkpoint."""
        saved = self._saved
        self._beginning = True
        self.sampler = self._make_sampler(self.index, self._rng)
        self._check(self.sampler)
        self.draws = Draws(
            len(self.sampler.labels()),
            self._stage,
            n_warmup=self._n_warmup,
            cluster_parameters=self.sampler.cluster_parameters,
        )
        if saved is not None:
            try:
                self.sampler.restore(saved.state)
                self._rng.bit_generator.state = saved.rng
                self.sampler.log_joint()  # parts of it are recorded
                self.draws.load(saved.draws, self.sampler.record())
            except (ValueError, TypeError, KeyError, IndexError) as error:
                raise StateError(str(error)) from error
            self._saved = None

    def enter(self, stage: Stage) -> None:
        """Go from the end of one stage to the beginning of the next."""
        assert self.sampler is not None
        assert self.draws is not None
        start = max(self._stage.begin, self._stage.n_warmup)
        self.draws.add_block(start, self.sampler.summaries())
        self.sampler.forget()
        self.draws.enter(stage)
        self._stage = stage

    def sweep(self) -> None:
        """Do one sweep, or a block of them, and keep what is to be kept."""
        assert self.sampler is not None
        assert self.draws is not None
        sampler: Any = self.sampler
        draws = self.draws
        length = self._block_length()
        sweeps = np.arange(self.n_sweeps + 1, self.n_sweeps + length + 1)
        keeps = np.asarray(self._stage.keeps(sweeps))
        in_blocks = getattr(sampler, "in_blocks", False)
        start = time.perf_counter()
        if in_blocks:
            found = sampler.advance(keeps, self._rng)
        else:
            sampler.sweep(self._rng)
        draws.add_sweeps(length, time.perf_counter() - start)
        self.n_sweeps += length
        draws.add_warmup(sampler.labels())
        if in_blocks:
            kept = iter(np.split(sweeps[keeps], np.cumsum([len(d.labels) for d in found])))
            for drawn in found:
                draws.add_draws(next(kept), drawn)
        elif keeps[0]:
            self.keep()

    def keep(self) -> None:
        """Make the present state a draw."""
        assert self.sampler is not None
        assert self.draws is not None
        self.draws.add_draws([self.n_sweeps], current_draw(self.sampler))

    def _block_length(self) -> int:
        """Sweeps to the next multiple of the sampler's, the stage's end or the limit."""
        usual = getattr(self.sampler, "block_length", 1)
        if self.n_sweeps < (self._n_warmup or 0):
            return 1  # labels of every sweep are kept
        end = min(self._stage.end, self._limit)
        return max(min(usual - self.n_sweeps % usual, end - self.n_sweeps), 1)

    def summaries(self) -> list[dict[str, np.ndarray]]:
        """Running summaries of its draws, in stretches."""
        assert self.sampler is not None
        assert self.draws is not None
        return [*self.draws.blocks(), self.sampler.summaries()]

    def take_snapshot(self) -> None:
        """Note the state between two sweeps."""
        self.snapshot_wanted = False
        if self.sampler is not None and self.draws is not None:
            self.snapshot = Snapshot(
                self.n_sweeps,
                dict(self._rng.bit_generator.state),
                dict(self.sampler.state()),
                self.draws.arrays(),
            )


class ThreadRunner:
    """Threads that take turns over the chains until all are at their stage's end, or stopped."""

    def __init__(self, chains: Sequence[Chain], n_threads: int, keep_snapshots: bool) -> None:
        self._waiting = list(chains)
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._all_left = threading.Event()
        self._n_working = n_threads
        self._keep_snapshots = keep_snapshots
        self._take_turns = n_threads < len(chains)
        self.failure: tuple[int, int, BaseException] | None = None
        self._threads = [
            threading.Thread(target=self._work, name=f"cavity-{i}", daemon=True)
            for i in range(n_threads)
        ]

    def start(self) -> None:
        """Begin the work."""
        for thread in self._threads:
            thread.start()

    def wait(self, seconds: float) -> bool:
        """Wait a while; True once no thread works any more."""
        return self._all_left.wait(seconds)

    def stop(self) -> None:
        """Let every thread leave after the sweep it is in."""
        self._stop.set()
        for thread in self._threads:
            # Waiting in pieces lets a second Ctrl-C through on every system.
            while thread.is_alive():
                thread.join(TICK_SECONDS)

    def begin_chains_with_draws(self) -> None:
        """Take over the draws of an earlier run where no thread had come to a chain yet."""
        for chain in self._waiting:
            if chain.sampler is None and chain.has_saved_draws:
                try:
                    chain.begin()
                except Exception as error:
                    self.failure = (chain.index, chain.n_sweeps, error)
                    return

    def _next(self) -> Chain | None:
        with self._lock:
            if not self._waiting or self._stop.is_set():
                return None
            chain = min(self._waiting, key=lambda c: c.n_sweeps)
            self._waiting.remove(chain)
            return chain

    def _work(self) -> None:
        try:
            while (chain := self._next()) is not None:
                try:
                    self._turn(chain)
                except BaseException as error:
                    with self._lock:
                        self.failure = self.failure or (chain.index, chain.n_sweeps, error)
                    self._stop.set()
                if not chain.finished:
                    with self._lock:
                        self._waiting.append(chain)
        finally:
            with self._lock:
                self._n_working -= 1
                if self._n_working == 0:
                    self._all_left.set()

    def _turn(self, chain: Chain) -> None:
        if chain.sampler is None:
            chain.begin()
        end = time.perf_counter() + _TURN_SECONDS
        while not (chain.finished or self._stop.is_set()):
            chain.sweep()
            if chain.snapshot_wanted:
                chain.take_snapshot()
            if self._take_turns and time.perf_counter() > end:
                break
        if chain.finished and self._keep_snapshots:
            chain.take_snapshot()


def uninterrupted(work: Callable[[], None]) -> bool:
    """Do something that Ctrl-C must not cut in two; return whether it came meanwhile."""
    failures: list[BaseException] = []

    def guarded() -> None:
        try:
            work()
        except BaseException as error:
            failures.append(error)

    thread = threading.Thread(target=guarded, name="cavity-between", daemon=True)
    interrupted = False
    try:
        thread.start()
        thread.join()
    except KeyboardInterrupt:
        interrupted = True
    finally:
        while thread.is_alive():
            thread.join(TICK_SECONDS)
    if failures:
        raise failures[0]
    return interrupted
