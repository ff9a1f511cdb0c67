"""What a move is to the chain: so many tries after each sweep, counted."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar

import numpy as np

from cavity.core.arrays import fitting, saved_array
from cavity.core.compile import compiled
from cavity.moves.allocation import Room, room_for
from cavity.moves.anchors import Anchors

TRIES, ACCEPTED = 0, 1


class Move:
    """A proposal for many labels at once; a subclass names its kernel.

    The number of tries after a sweep is set while the chain warms up, so that the evidences
    computed are about ``share`` times the number of observations, and is then frozen: a number
    that went on following the state would bias the draws.

    Parameters
    ----------
    anchors : Anchors
        Pairs to start from.
    n_adapted : int
        Sweeps in which the number of tries may change.

    Attributes
    ----------
    name : str
        For checkpoints and diagnostics.
    share : float
        Evidences per sweep and observation.
    most : int
        Most tries after one sweep.
    kernel : callable
        ``kernel(state, prior, z, counts, anchors, room, n_tries, tally, rng)``: adds the tries
        that found a proposal and those accepted to ``tally``.
    """

    name: ClassVar[str]
    share: ClassVar[float] = 1.0
    most: ClassVar[int] = 1000
    kernel: ClassVar[Callable[..., None]]

    def __init__(self, anchors: Anchors, n_adapted: int) -> None:
        self.anchors = anchors
        self.n_adapted = n_adapted
        self.tally = np.zeros(2, dtype=np.int64)
        self.progress = np.array([0, 1], dtype=np.int64)  # sweeps done, tries after the next one
        self._room: Room | None = None

    def attempt(self, chain: Any, rng: np.random.Generator) -> None:
        """Try it as often as is due, in place."""
        state = chain.collapse.state
        n = chain.z.size
        if self._room is None:
            self._room = room_for(n, state.family.natural.shape[1])
        room, n_tries = self._room, int(self.progress[1])
        room.work[0] = 0
        kernel = compiled(type(self).kernel, (state, chain.prior))
        kernel(
            state, chain.prior, chain.z, chain.counts, self.anchors, room, n_tries, self.tally, rng
        )
        self.progress[0] += 1
        if self.progress[0] <= self.n_adapted:
            # Halfway towards the number that would have done the work aimed at.
            aim = self.share * n * n_tries / max(int(room.work[0]), 1)
            self.progress[1] = int(np.clip(round((n_tries * aim) ** 0.5), 1, self.most))

    def events(self) -> dict[str, float]:
        """Tries that found a proposal, and how many were accepted."""
        tries, accepted = self.tally.tolist()
        return {f"{self.name}_tries": tries, f"{self.name}_accepted": accepted}

    def arrays(self) -> dict[str, np.ndarray]:
        """What it keeps between sweeps, for a checkpoint."""
        return {"tally": self.tally.copy(), "progress": self.progress.copy()}

    def restore(self, arrays: Mapping[str, np.ndarray]) -> None:
        """Continue from ``arrays``."""
        for name in ("tally", "progress"):
            setattr(self, name, fitting(saved_array(arrays, name), getattr(self, name), name))
