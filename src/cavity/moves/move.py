"""What a move is to the chain: so many tries after each sweep, counted."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any, ClassVar

import numpy as np

from cavity._numba.arrays import fitting, saved_array
from cavity._numba.jit import Kernels
from cavity.moves.allocation import ACCEPTED, TRIES, WORK, Room, room_for
from cavity.moves.anchors import Anchors

# Sweeps before the first try, if the warm-up is long enough.
WAITING = 50
# So many observations' scan takes as long as all else that a sweep does.
_SMALL = 500
# Clusters of more members are hardly ever split or merged by a move.
_LARGE = 200
# What the cheapest try that finds a proposal computes.
_FEW_EVIDENCES = 20
# A kind never accepted after the evidences of so many scans keeps this part of its share. Of more
# than a thousand observations fewer scans tell, for a try's chance is soon all or nothing there.
_IN_VAIN, _IN_VAIN_OF_MANY, _KEPT_SHARE = 100, 10, 0.25


class Move:
    """Proposals for many labels at once, of one kind or of several that share a kernel.

    How often each kind is tried is set while the chain warms up and then frozen: a number that
    went on following the state would bias the draws. The evidences computed are about the sum of
    the shares times the number of observations, and more with many small clusters; kinds whose
    acceptances are worth more for what they cost get more of them, and none gets less than half
    its share, or an eighth if it was never accepted. A number of tries need not be whole: half a
    try is one after every second sweep.

    Parameters
    ----------
    anchors : Anchors
        Pairs to start from.
    n_adapted : int
        Sweeps in which the numbers of tries may change; none is tried in the first quarter of
        them, or the first fifty. A move that is accepted while tails and prior are still far from
        what they come to may lead where none leads back.
    approximate : bool
        Whether the evidence that accepts is an approximation; ``events`` says so.
    effort : float
        How many times the shares below are spent.

    Attributes
    ----------
    name : str
        For checkpoints.
    kinds : tuple of str
        For diagnostics.
    shares : tuple of float
        Of each kind: evidences per sweep and observation; of fewer observations more, for there
        a sweep has other costs.
    worth : tuple of float or float
        Of each kind: what an acceptance is worth beside those of the others.
    many : float
        Occupied clusters that double the evidences, if they are small: a scan then computes more
        of them as well, and there is more to split and merge.
    least_cost : float
        Evidences that a try of any kind is taken to cost, at the least, over the number of
        observations: warm-up may not have met a state in which a kind has anything to propose.
    least, most : float
        Tries of a kind per sweep, at the least and at the most.
    kernel : callable
        ``kernel(state, prior, z, counts, anchors, room, n_tries, tally, rng)`` tries each kind
        ``n_tries[kind]`` times and adds to ``tally[kind]`` the tries that found a proposal, those
        accepted, and the evidences computed.
    """

    name: ClassVar[str]
    kinds: ClassVar[tuple[str, ...]]
    shares: ClassVar[tuple[float, ...]]
    worth: ClassVar[tuple[float, ...] | float] = 1.0
    many: ClassVar[float] = np.inf
    least_cost: ClassVar[tuple[float, ...] | float] = 0.05
    least: ClassVar[float] = 0.02
    most: ClassVar[float] = 1000.0
    kernel: ClassVar[Callable[..., None]]

    def __init__(
        self, anchors: Anchors, n_adapted: int, *, approximate: bool = False, effort: float = 1.0
    ) -> None:
        self.anchors = anchors
        self.n_adapted = n_adapted
        self.approximate = approximate
        self.effort = effort
        self.tally = np.zeros((len(self.kinds), 3), dtype=np.int64)
        self.rate = np.ones(len(self.kinds))  # tries per sweep
        self.due = np.zeros(len(self.kinds))  # what of them is left from earlier sweeps
        self.drawn = np.zeros(len(self.kinds), dtype=np.int64)  # tries begun
        self.n_sweeps = np.zeros(1, dtype=np.int64)
        self._tries = np.zeros(len(self.kinds), dtype=np.int64)
        self.seconds = np.zeros(1)
        self._room: Room | None = None
        self._kernels = Kernels()

    def attempt(self, chain: Any, rng: np.random.Generator) -> None:
        """Try every kind as often as is due, in place."""
        self.n_sweeps += 1
        if self.n_sweeps[0] <= min(WAITING, self.n_adapted // 4):
            return
        state = chain.collapse.state
        n = chain.z.size
        if self._room is None:
            width = state.family.natural.shape[1]
            self._room = room_for(n, width, chain.collapse.own_width)
        self.due += self.rate
        np.floor(self.due, out=self._tries, casting="unsafe")
        self.due -= self._tries
        self.drawn += self._tries
        start = time.perf_counter()
        self._kernels.run(
            type(self).kernel, state, chain.prior, chain.z, chain.counts, self.anchors,
            self._room, self._tries, self.tally, rng,
        )  # fmt: skip
        self.seconds += time.perf_counter() - start
        if self.n_sweeps[0] <= self.n_adapted:
            # None, where all rows are noise.
            n_clusters = max(int(np.count_nonzero(chain.counts)), 1)
            crowd = 1.0 + n_clusters / self.many / (1.0 + n / (n_clusters * _LARGE))
            shares = self.effort * (crowd + _SMALL / n) * np.array(self.shares)
            gain = (self.tally[:, ACCEPTED] + 1.0) / (self.tally[:, WORK] + n)
            gain *= np.array(self.worth)
            shares = 0.5 * shares + 0.5 * shares.sum() * gain / gain.sum()
            scans = max(_IN_VAIN * min(1.0, 1000 / n), _IN_VAIN_OF_MANY)
            vain = (self.tally[:, ACCEPTED] == 0) & (self.tally[:, WORK] > scans * n)
            shares[vain] *= _KEPT_SHARE
            cost = (self.tally[:, WORK] + n) / (self.drawn + 1.0)
            cost = np.maximum(cost, n * np.array(self.least_cost) + _FEW_EVIDENCES)
            self.rate = np.clip(shares * n / cost, self.least, self.most)

    def events(self) -> dict[str, float]:
        """Tries that found a proposal, acceptances and evidences of each kind; seconds of all."""
        out: dict[str, float] = {}
        for kind, row in zip(self.kinds, self.tally.tolist(), strict=True):
            kind = f"approximate_{kind}" if self.approximate else kind
            out |= {
                f"{kind}_tries": row[TRIES],
                f"{kind}_accepted": row[ACCEPTED],
                f"{kind}_evidences": row[WORK],
            }
        return {**out, "move_seconds": float(self.seconds[0])}

    def arrays(self) -> dict[str, np.ndarray]:
        """What it keeps between sweeps, for a checkpoint."""
        return {name: getattr(self, name).copy() for name in _KEPT}

    def restore(self, arrays: Mapping[str, np.ndarray]) -> None:
        """Continue from ``arrays``."""
        for name in _KEPT:
            setattr(self, name, fitting(saved_array(arrays, name), getattr(self, name), name))


_KEPT = ("tally", "rate", "due", "drawn", "n_sweeps", "seconds")
