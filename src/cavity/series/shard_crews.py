"""Who runs passes over series: threads here, a cluster in `dask_series`.

A chain's series keep what is theirs from one pass to the next where they are (`Own`).
"""

from __future__ import annotations

from typing import Protocol

import numpy as np

from cavity.distributed.blocks import total
from cavity.distributed.engines import ThreadEngine
from cavity.series.shard_pass import (
    Own,
    SeriesGathered,
    SeriesOrder,
    SeriesTotal,
    joined,
    run_series_pass,
    whole,
)


class SeriesCrew(Protocol):
    """What a chain over series needs of its shards."""

    def run(self, order: SeriesOrder) -> SeriesTotal:
        """One pass over all series."""

    def fetch(self) -> Own:
        """What all series have, in their order."""

    def put(self, own: Own) -> None:
        """Let all series have this."""

    def news(self) -> str:
        """What a progress bar should say of the workers."""

    def events(self) -> dict[str, float]:
        """Counters since the crew began."""


def added(parts: list[SeriesGathered], order: SeriesOrder, n_blocks: int) -> SeriesTotal:
    """One whole from what the shards gave, in the order of the shards."""
    values = total([node for part in parts for node in part.nodes], n_blocks)
    return whole(parts, np.asarray(values), order)


def portions(own: Own, sizes: list[int]) -> list[Own]:
    """The parts of shards of such sizes."""
    ends = np.cumsum(sizes)
    return [own.part(slice(int(e - n), int(e))) for e, n in zip(ends, sizes, strict=True)]


class ThreadSeries:
    """Series of this process, for one chain.

    Parameters
    ----------
    engine : ThreadEngine
        With its series loaded.
    """

    def __init__(self, engine: ThreadEngine) -> None:
        self._engine = engine
        self._own: list[Own] = [shard.begun for shard in engine.shards]

    def run(self, order: SeriesOrder) -> SeriesTotal:
        """One pass over all series."""
        engine = self._engine
        found = [
            run_series_pass(shard, own, order, engine.mapper)
            for shard, own in zip(engine.shards, self._own, strict=True)
        ]
        self._own = [own for own, _ in found]
        return added([gathered for _, gathered in found], order, engine.n_blocks)

    def fetch(self) -> Own:
        """What all series have."""
        return joined(self._own)

    def put(self, own: Own) -> None:
        """Let all series have this."""
        self._own = portions(own, [shard.layout.n_rows for shard in self._engine.shards])

    def news(self) -> str:
        """Nothing can be lost."""
        return ""

    def events(self) -> dict[str, float]:
        """Nothing happens."""
        return {}
