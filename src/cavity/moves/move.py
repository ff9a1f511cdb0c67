"""What a move is to the chain: so many tries after each sweep, counted."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from typing import Any, ClassVar, NamedTuple

import numpy as np

from cavity._numba.arrays import fitting, saved_array
from cavity._numba.jit import Kernels, jit
from cavity.interface import attempt
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


class Pace(NamedTuple):
    """Tries and acceptances of each kind; see `Move`."""

    tally: np.ndarray  # (kinds, 3)
    rate: np.ndarray  # (kinds,), tries per sweep
    due: np.ndarray  # (kinds,), what of them is left from earlier sweeps
    drawn: np.ndarray  # (kinds,), tries begun
    n_tries: np.ndarray  # (kinds,), tries of this sweep
    n_sweeps: np.ndarray  # (1,)
    shares: np.ndarray  # (kinds,)
    worth: np.ndarray  # (kinds,)
    least_cost: np.ndarray  # (kinds,)
    many: float
    effort: float
    least: float
    most: float
    n_adapted: int


class Tries(NamedTuple):
    """A move as kernels see it; each has a subclass, by which its `attempt` is found."""

    anchors: Anchors
    room: Room
    pace: Pace


@jit(internal=True)
def begin_tries(pace):
    """Count a sweep and set how many tries are due; False as long as there are none."""
    pace.n_sweeps[0] += 1
    if pace.n_sweeps[0] <= min(WAITING, pace.n_adapted // 4):
        return False
    for kind in range(pace.rate.shape[0]):
        pace.due[kind] += pace.rate[kind]
        whole = np.int64(math.floor(pace.due[kind]))
        pace.n_tries[kind] = whole
        pace.due[kind] -= whole
        pace.drawn[kind] += whole
    return True


@jit(internal=True)
def end_tries(pace, counts, n):
    """Set how often each kind is tried from here on, as long as it is adapted."""
    if pace.n_sweeps[0] > pace.n_adapted:
        return
    n_clusters = 0
    for k in range(counts.shape[0]):
        n_clusters += counts[k] > 0
    n_clusters = max(n_clusters, 1)  # none, where all rows are noise
    crowd = 1.0 + n_clusters / pace.many / (1.0 + n / (n_clusters * _LARGE))
    usual = pace.effort * (crowd + _SMALL / n)
    scans = max(_IN_VAIN * min(1.0, 1000 / n), _IN_VAIN_OF_MANY)
    shares = 0.0
    gains = 0.0
    for kind in range(pace.rate.shape[0]):
        shares += usual * pace.shares[kind]
        gains += _gain(pace, kind, n)
    for kind in range(pace.rate.shape[0]):
        share = 0.5 * usual * pace.shares[kind] + 0.5 * shares * _gain(pace, kind, n) / gains
        if pace.tally[kind, ACCEPTED] == 0 and pace.tally[kind, WORK] > scans * n:
            share *= _KEPT_SHARE
        cost = (pace.tally[kind, WORK] + n) / (pace.drawn[kind] + 1.0)
        cost = max(cost, n * pace.least_cost[kind] + _FEW_EVIDENCES)
        pace.rate[kind] = min(max(share * n / cost, pace.least), pace.most)


@jit(internal=True)
def _gain(pace, kind, n):
    """Worth of the acceptances for what they cost."""
    gain = (pace.tally[kind, ACCEPTED] + 1.0) / (pace.tally[kind, WORK] + n)
    return gain * pace.worth[kind]


def attempt_alone(move, state, prior, z, counts, rng):
    """``attempt`` as an entry kernel."""
    attempt(move, state, prior, z, counts, rng)


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
    kernel : type
        Of `Tries`, with an ``attempt`` that tries each kind as often as is due and adds to the
        tally the tries that found a proposal, those accepted, and the evidences computed.
    """

    name: ClassVar[str]
    kinds: ClassVar[tuple[str, ...]]
    shares: ClassVar[tuple[float, ...]]
    worth: ClassVar[tuple[float, ...] | float] = 1.0
    many: ClassVar[float] = np.inf
    least_cost: ClassVar[tuple[float, ...] | float] = 0.05
    least: ClassVar[float] = 0.02
    most: ClassVar[float] = 1000.0
    kernel: ClassVar[type[Tries]]

    def __init__(
        self, anchors: Anchors, n_adapted: int, *, approximate: bool = False, effort: float = 1.0
    ) -> None:
        n_kinds = len(self.kinds)
        self.anchors = anchors
        self.approximate = approximate
        self.seconds = np.zeros(1)
        self.pace = Pace(
            tally=np.zeros((n_kinds, 3), dtype=np.int64),
            rate=np.ones(n_kinds),
            due=np.zeros(n_kinds),
            drawn=np.zeros(n_kinds, dtype=np.int64),
            n_tries=np.zeros(n_kinds, dtype=np.int64),
            n_sweeps=np.zeros(1, dtype=np.int64),
            shares=np.array(self.shares, dtype=float),
            worth=np.full(n_kinds, self.worth, dtype=float),
            least_cost=np.full(n_kinds, self.least_cost, dtype=float),
            many=float(self.many),
            effort=float(effort),
            least=float(self.least),
            most=float(self.most),
            n_adapted=int(n_adapted),
        )
        self._tries: Tries | None = None
        self._kernels = Kernels()

    @property
    def tally(self) -> np.ndarray:
        """Tries, acceptances and evidences of each kind."""
        return self.pace.tally

    def tries(self, chain: Any) -> Tries:
        """Return the move as kernels see it."""
        if self._tries is None:
            width = chain.collapse.family.natural.shape[1]
            room = room_for(chain.z.size, width, chain.collapse.own_width)
            self._tries = self.kernel(self.anchors, room, self.pace)
        return self._tries

    def attempt(self, chain: Any, rng: np.random.Generator) -> None:
        """Try every kind as often as is due, in place."""
        start = time.perf_counter()
        self._kernels.run(
            attempt_alone, self.tries(chain), chain.collapse.state, chain.prior, chain.z,
            chain.counts, rng,
        )  # fmt: skip
        self.seconds += time.perf_counter() - start

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

    def _kept(self) -> dict[str, np.ndarray]:
        kept = {name: getattr(self.pace, name) for name in _KEPT}
        return {**kept, "seconds": self.seconds}

    def arrays(self) -> dict[str, np.ndarray]:
        """What it keeps between sweeps, for a checkpoint."""
        return {name: array.copy() for name, array in self._kept().items()}

    def restore(self, arrays: Mapping[str, np.ndarray]) -> None:
        """Continue from ``arrays``."""
        for name, array in self._kept().items():
            array[:] = fitting(saved_array(arrays, name), array, name)


_KEPT = ("tally", "rate", "due", "drawn", "n_sweeps")
