"""Series on a Dask cluster: what they have is the result of a task upon what they had before.

A worker that is lost takes the parameters of its series with it. They are drawn again elsewhere,
pass by pass from where they are known, with the same result. Every so many passes they are fetched
and sent out again, so that this is never far back.
"""

from __future__ import annotations

import time
from typing import Any

import dask

from cavity.distributed.dask_engine import RETRIES, DaskEngine
from cavity.series.shard_crews import added, portions
from cavity.series.shard_pass import (
    Own,
    SeriesGathered,
    SeriesOrder,
    SeriesShard,
    SeriesTotal,
    joined,
    run_series_pass,
)

# Passes from one fetch of what series have to the next.
FETCHED_EVERY = 20


Pair = tuple[Own, SeriesGathered | None]


def begun(shard: SeriesShard) -> Pair:
    """What the series of a shard have at first."""
    return shard.begun, None


def sent(own: Own) -> Pair:
    """What they have been sent."""
    return own, None


def swept(shard: SeriesShard, before: Pair, order: SeriesOrder) -> Pair:
    """One pass over a shard."""
    return run_series_pass(shard, before[0], order)


def own_of(pair: Pair) -> Own:
    """What series have after a pass."""
    return pair[0]


def sums_of(pair: Pair) -> SeriesGathered | None:
    """What the pass has summed."""
    return pair[1]


class DaskSeries:
    """The shards of an engine, for one chain.

    Parameters
    ----------
    engine : DaskEngine
        With its series loaded.
    chain : int
        Number of the chain, for the names of tasks.
    """

    def __init__(self, engine: DaskEngine, chain: int) -> None:
        self._engine, self._client = engine, engine.client
        self._name = f"{engine.run_name}-{chain}"
        self._serial = self._n_passes = 0
        self._pairs = self._asked("begun", begun, [(shard,) for shard in engine.shards])

    def _asked(self, what: str, work: Any, arguments: list[tuple[Any, ...]]) -> list[Any]:
        """One task for each shard."""
        self._serial += 1
        name = f"cavity-{what}-{self._name}-{self._serial}"
        with dask.config.set({"distributed.admin.large-graph-warning-threshold": "1TB"}):
            return [
                self._client.submit(work, *told, key=f"{name}-{s}", retries=RETRIES)
                for s, told in enumerate(arguments)
            ]

    def _told(self, futures: list[Any]) -> list[Any]:
        return self._engine.gathered(futures, "with the series of")

    def run(self, order: SeriesOrder) -> SeriesTotal:
        """One pass over all series."""
        engine, start = self._engine, time.monotonic()
        self._n_passes += 1
        if self._n_passes % FETCHED_EVERY == 0:
            self.put(self.fetch())
        told = zip(engine.shards, self._pairs, strict=True)
        self._pairs = self._asked("series", swept, [(*both, order) for both in told])
        parts = self._told(self._asked("sums", sums_of, [(pair,) for pair in self._pairs]))
        for s, part in enumerate(parts):
            engine.note(s, part.token)
        engine.timed(start)
        return added(parts, order, engine.n_blocks)

    def fetch(self) -> Own:
        """What all series have."""
        return joined(self._told(self._asked("own", own_of, [(pair,) for pair in self._pairs])))

    def put(self, own: Own) -> None:
        """Let all series have this."""
        parts = portions(own, self._engine.shard_sizes)
        self._pairs = self._asked("sent", sent, [(part,) for part in parts])

    def news(self) -> str:
        """Series per second, and workers lost."""
        return self._engine.news()

    def events(self) -> dict[str, float]:
        """Workers lost, and shards that were read again for it."""
        return self._engine.events()
