"""Chains whose sweeps are done elsewhere, many at a time, with the same draws as here.

A chain between two sweeps is its sampler's state and its generator's: these go out, sweeps are done
where there is a processor for them, and what was drawn comes back. A trip that is lost on its way
is made again, with the same result.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from cavity.mcmc.thread_runner import Chain

if TYPE_CHECKING:
    from cavity.mcmc.runner import Sampler
    from cavity.mcmc.schedule import Stage

# Seconds that a trip takes, more or less: until then nothing is known of it, nor can it be stopped.
TRIP_SECONDS = 3.0

MakeSampler = Callable[[int, np.random.Generator], "Sampler"]


class Ticket(NamedTuple):
    """Where a chain stands, and how far it is to go."""

    chain: int
    n_sweeps: int
    stage: Stage
    end: int
    n_labels: int  # sweeps from the first whose labels are wanted, draws or not
    state: dict[str, np.ndarray]
    rng: dict[str, Any]


class Trip(NamedTuple):
    """What a chain did on its way."""

    seconds: list[float]  # of every sweep
    labels: list[np.ndarray]  # of the first sweeps, where these are wanted
    draws: dict[int, tuple[np.ndarray, float, dict[str, np.ndarray]]]  # by the sweep they are of
    state: dict[str, np.ndarray]
    rng: dict[str, Any]


# Makes a trip somewhere, and waits for it.
Away = Callable[[Ticket], Trip]


class Traveller:
    """A sampler that stays where trips are made, so that the next need not build it again.

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

    def go(self, ticket: Ticket, seconds: float = TRIP_SECONDS) -> Trip:
        """Sweep to the end or until the time is over."""
        sampler, rng, stage = self._sampler, self._rng, ticket.stage
        if self._at != ticket.n_sweeps or rng.bit_generator.state != ticket.rng:
            sampler.restore(ticket.state)
            rng.bit_generator.state = ticket.rng
        at = ticket.n_sweeps
        # Until it is through, a trip that fails leaves nothing that the next could rely on.
        self._at = -1
        trip = Trip([], [], {}, {}, {})
        begun = time.perf_counter()
        while at < ticket.end and time.perf_counter() - begun < seconds:
            start = time.perf_counter()
            sampler.sweep(rng)
            trip.seconds.append(time.perf_counter() - start)
            at += 1
            if at <= ticket.n_labels:
                trip.labels.append(sampler.labels().copy())
            if stage.keeps(at):
                labels = sampler.labels().copy()
                log_joint = float(sampler.log_joint())
                record = {name: np.array(v) for name, v in sampler.record().items()}
                trip.draws[at] = labels, log_joint, record
                sampler.keep()
        self._at = at
        return trip._replace(state=dict(sampler.state()), rng=dict(rng.bit_generator.state))


class AwayChain(Chain):
    """A chain whose sweeps are done elsewhere; its sampler here follows after each trip.

    Parameters
    ----------
    away : callable
        Makes a trip.
    *rest
        As for `Chain`.
    """

    def __init__(self, away: Away, *rest: Any) -> None:
        super().__init__(*rest)
        self._away = away

    def sweep(self) -> None:
        """Make a trip, and keep what is to be kept of it."""
        assert self.sampler is not None
        assert self.draws is not None
        ticket = Ticket(
            self.index, self.n_sweeps, self._stage, min(self._stage.end, self._limit),
            self._n_warmup or 0, dict(self.sampler.state()), dict(self._rng.bit_generator.state),
        )  # fmt: skip
        trip = self._away(ticket)
        for at, seconds in enumerate(trip.seconds, 1):
            self.draws.add_sweep(seconds)
            if at <= len(trip.labels):
                self.draws.add_warmup(trip.labels[at - 1])
            if ticket.n_sweeps + at in trip.draws:
                self.draws.add_draw(*trip.draws[ticket.n_sweeps + at])
        self.sampler.restore(trip.state)
        self._rng.bit_generator.state = trip.rng
        self.n_sweeps += len(trip.seconds)
