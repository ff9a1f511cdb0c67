"""Chains whose sweeps run on other machines, with the same draws as here.

A chain between two sweeps is its sampler's state and its generator's. These are sent out, a chunk
of sweeps is done where there is a processor for it, and the draws come back. A lost chunk is run
again, with the same result.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from cavity.mcmc.draws import Drawn, current_draw
from cavity.mcmc.thread_runner import Chain

if TYPE_CHECKING:
    from cavity.mcmc.runner import Sampler
    from cavity.mcmc.schedule import Stage

# Approximate seconds per chunk; a chunk in progress cannot be watched or stopped.
CHUNK_SECONDS = 3.0

MakeSampler = Callable[[int, np.random.Generator], "Sampler"]


class ChunkRequest(NamedTuple):
    """State of a chain and the sweep to run to."""

    chain: int
    n_sweeps: int
    stage: Stage
    end: int
    n_labels: int  # sweeps from the first whose labels are wanted, draws or not
    state: dict[str, np.ndarray]
    rng: dict[str, Any]


class ChunkResult(NamedTuple):
    """Draws and final state of a chunk of sweeps."""

    seconds: list[float]  # of every sweep
    labels: list[np.ndarray]  # of the first sweeps, where these are wanted
    draws: dict[int, Drawn]  # by the sweep they are of
    state: dict[str, np.ndarray]
    rng: dict[str, Any]


# Runs a chunk somewhere, and waits for it.
RunChunk = Callable[[ChunkRequest], ChunkResult]


class ChunkWorker:
    """Sampler that stays on a worker, so that the next chunk need not build it again.

    Parameters
    ----------
    make_sampler : callable
    chain : int
    """

    def __init__(self, make_sampler: MakeSampler, chain: int) -> None:
        self._rng = np.random.default_rng(0)
        self._sampler = make_sampler(chain, self._rng)
        self._rng = np.random.Generator(np.random.PCG64(0))
        self._at = -1

    def run(self, request: ChunkRequest, seconds: float = CHUNK_SECONDS) -> ChunkResult:
        """Sweep to the end or until the time is over."""
        sampler, rng, stage = self._sampler, self._rng, request.stage
        if self._at != request.n_sweeps or rng.bit_generator.state != request.rng:
            sampler.restore(request.state)
            rng.bit_generator.state = request.rng
        at = request.n_sweeps
        # A chunk that fails leaves nothing that the next could rely on.
        self._at = -1
        result = ChunkResult([], [], {}, {}, {})
        begun = time.perf_counter()
        while at < request.end and time.perf_counter() - begun < seconds:
            start = time.perf_counter()
            sampler.sweep(rng)
            result.seconds.append(time.perf_counter() - start)
            at += 1
            if at <= request.n_labels:
                result.labels.append(sampler.labels().copy())
            if stage.keeps(at):
                result.draws[at] = current_draw(sampler)
        self._at = at
        return result._replace(state=dict(sampler.state()), rng=dict(rng.bit_generator.state))


class RemoteChain(Chain):
    """Chain whose sweeps run remotely; the sampler here is updated after each chunk.

    Parameters
    ----------
    run_chunk : callable
        Runs a chunk of sweeps.
    *rest
        As for `Chain`.
    """

    def __init__(self, run_chunk: RunChunk, *rest: Any) -> None:
        super().__init__(*rest)
        self._run_chunk = run_chunk

    def sweep(self) -> None:
        """Run a chunk of sweeps and store its draws."""
        assert self.sampler is not None
        assert self.draws is not None
        request = ChunkRequest(
            self.index, self.n_sweeps, self._stage, min(self._stage.end, self._limit),
            self._n_warmup or 0, dict(self.sampler.state()), dict(self._rng.bit_generator.state),
        )  # fmt: skip
        result = self._run_chunk(request)
        for at, seconds in enumerate(result.seconds, 1):
            self.draws.add_sweeps(1, seconds)
            if at <= len(result.labels):
                self.draws.add_warmup(result.labels[at - 1])
        for at, drawn in result.draws.items():
            self.draws.add_draws([at], drawn)
        self.sampler.restore(result.state)
        self._rng.bit_generator.state = result.rng
        self.n_sweeps += len(result.seconds)
