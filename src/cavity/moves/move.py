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
# Every kind has at least this part of the evidences.
FLOOR = 0.1
# Half as many evidences are computed where one proposal is accepted for those of so many scans.
_IN_VAIN = 300.0
# Acceptances per evidence are shrunk towards two for those of so many scans.
_SHRUNK = 100.0
# What a try takes in any case, in evidences.
_LEAST_WORK = 10


class Pace(NamedTuple):
    """Tries and acceptances of each kind; see `Move`."""

    tally: np.ndarray  # (kinds, 3)
    rate: np.ndarray  # (kinds,), tries per sweep
    due: np.ndarray  # (kinds,), what of them is left from earlier sweeps
    drawn: np.ndarray  # (kinds,), tries begun
    n_tries: np.ndarray  # (kinds,), tries of this sweep
    n_sweeps: np.ndarray  # (1,)
    scans: float
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
def end_tries(pace, n):
    """Set how often each kind is tried from here on, as long as it is adapted."""
    if pace.n_sweeps[0] > pace.n_adapted:
        return
    kinds = pace.rate.shape[0]
    accepted, work, gains = 1.0, 0.0, 0.0
    for kind in range(kinds):
        accepted += pace.tally[kind, ACCEPTED]
        work += _work(pace, kind)
        gains += _gain(pace, kind, n)
    evidences = pace.scans * n * accepted / (accepted + work / (_IN_VAIN * n))
    for kind in range(kinds):
        share = FLOOR + (1.0 - kinds * FLOOR) * _gain(pace, kind, n) / gains
        cost = (_work(pace, kind) + n) / (pace.drawn[kind] + 1.0)
        pace.rate[kind] = evidences * share / cost


@jit(internal=True)
def _work(pace, kind):
    """Evidences that a kind has taken."""
    return pace.tally[kind, WORK] + _LEAST_WORK * pace.drawn[kind]


@jit(internal=True)
def _gain(pace, kind, n):
    """Acceptances per evidence, shrunk: a kind that had bad luck early on is not given up."""
    return (pace.tally[kind, ACCEPTED] + 2.0) / (_work(pace, kind) + _SHRUNK * n)


def attempt_alone(move, state, prior, z, counts, rng):
    """``attempt`` as an entry kernel."""
    attempt(move, state, prior, z, counts, rng)


class Move:
    """Proposals for many labels at once, of one kind or of several that share a kernel.

    How often each kind is tried is set while the chain warms up and then frozen: a number that
    went on following the state would bias the draws. All kinds together compute so many evidences
    in a sweep, fewer where hardly anything is accepted. Each kind has a tenth of them, and the rest
    is divided by acceptances per evidence. A number of tries need not be whole: half a try is one
    after every second sweep.

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
        How many times the usual number of evidences is computed.

    Attributes
    ----------
    name : str
        For checkpoints.
    kinds : tuple of str
        For diagnostics.
    scans : float
        Evidences that all kinds compute in a sweep, at the most, over the number of observations.
    kernel : type
        Of `Tries`, with an ``attempt`` that tries each kind as often as is due and adds to the
        tally the tries that found a proposal, those accepted, and the evidences computed.
    """

    name: ClassVar[str]
    kinds: ClassVar[tuple[str, ...]]
    scans: ClassVar[float]
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
            scans=float(effort * self.scans),
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
