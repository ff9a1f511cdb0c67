"""Run work on every shard: on threads of this process here, on a Dask cluster in `dask_executor`.

An executor holds the data in shards and nothing else that matters to a draw. Work that keeps a
state between passes (series do, rows do not) gets it back from the executor at the next step.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Protocol, Self

import numpy as np

from cavity.distributed.blocks import BLOCK, Layout, layouts
from cavity.distributed.sources import Source
from cavity.mcmc.runner import count_jobs
from cavity.utils.progress import say

# Shards per thread: fewer make shorter queues, more spread the work (and lost rows) better.
PER_THREAD = 4
# Rows that a shard on a cluster should have at least.
LEAST_ROWS = 250_000


class ShardExecutor(Protocol):
    """Shards and the workers that hold them."""

    n_rows: int  # in all shards
    n_blocks: int  # in all shards
    shard_sizes: list[int]  # rows of each shard

    def sample(self, rows: np.ndarray) -> np.ndarray:
        """Return the recorded values of some rows (ascending), after reading all of them."""

    def load(self, make: Callable[..., Any], *args: Any) -> None:
        """Build every shard as ``make(layout, rows, *args)``."""

    def map(self, work: Callable[..., Any], *args: Any) -> list[Any]:
        """Return ``work(shard, *args)`` for every shard, in order."""

    def begin(self, work: Callable[[Any], Any]) -> Any:
        """Return states to `step` from: ``work(shard)`` for every shard."""

    def step(self, states: Any, work: Callable[..., Any], request: Any) -> tuple[Any, list[Any]]:
        """Return new states and results: ``work(shard, state, request)`` for every shard."""

    def fetch(self, states: Any) -> list[Any]:
        """Return the states themselves."""

    def scatter(self, values: list[Any]) -> Any:
        """Return states to `step` from, given their values."""

    def status(self) -> str:
        """Return a few words for a progress bar."""

    def events(self) -> dict[str, float]:
        """Return counters of lost workers."""

    def __enter__(self) -> Self: ...

    def __exit__(self, *error: object) -> None: ...


def make_executor(
    source: Source,
    client: Any,
    n_jobs: int | None,
    block: int = BLOCK,
    least: int = LEAST_ROWS,
    noun: str = "rows",
) -> ShardExecutor:
    """Return the executor of a Dask client, or of threads where it is None.

    Parameters
    ----------
    source : Source
    client : distributed.Client or None
    n_jobs : int or None
        Threads, without a client.
    block : int
        Rows of a block.
    least : int
        Rows that a shard on a cluster should have at least.
    noun : str
        Name of the rows in the progress bar.
    """
    if client is None:
        return ThreadExecutor(source, count_jobs(n_jobs, 10**6), block=block)
    from cavity.distributed.dask_executor import DaskExecutor

    say(f"Dask's dashboard: {client.dashboard_link}")
    return DaskExecutor(source, client, block=block, least=least, noun=noun)


def local_rows(layout: Layout, rows: np.ndarray) -> np.ndarray:
    """Those of the given rows that a shard holds, counted from its first row."""
    own = rows[(rows >= layout.first_row) & (rows < layout.first_row + layout.n_rows)]
    return own - layout.first_row


class ThreadExecutor:
    """All rows in this process, shards shared by threads.

    Parameters
    ----------
    source : Source
    n_threads : int
    n_shards : int, optional
        The draws do not depend on it.
    block : int
        Rows of a block.
    """

    def __init__(
        self, source: Source, n_threads: int = 1, n_shards: int | None = None, block: int = BLOCK
    ) -> None:
        if n_shards is None:
            n_shards = PER_THREAD * n_threads if n_threads > 1 else 1
        self._layouts = layouts(source.sizes, n_shards, block)
        self._readers = [source.reader(layout) for layout in self._layouts]
        self._pool = ThreadPoolExecutor(n_threads, "cavity-rows") if n_threads > 1 else None
        self._map: Callable[..., Any] = map if self._pool is None else self._pool.map
        self.shards: list[Any] = []
        self.shard_sizes = [layout.n_rows for layout in self._layouts]
        self.n_rows = sum(self.shard_sizes)
        self.n_blocks = sum(layout.n_blocks for layout in self._layouts)

    def sample(self, rows: np.ndarray) -> np.ndarray:
        """Return the recorded values of some rows."""
        found = self._map(
            lambda layout, reader: reader()[local_rows(layout, rows)], self._layouts, self._readers
        )
        return np.concatenate(list(found))

    def load(self, make: Callable[..., Any], *args: Any) -> None:
        """Build every shard."""
        self.shards = list(
            self._map(
                lambda layout, reader: make(layout, reader(), *args), self._layouts, self._readers
            )
        )

    def map(self, work: Callable[..., Any], *args: Any) -> list[Any]:
        """Return the result of some work for every shard."""
        return list(self._map(lambda shard: work(shard, *args), self.shards))

    def begin(self, work: Callable[[Any], Any]) -> list[Any]:
        """Return states to step from."""
        return self.map(work)

    def step(
        self, states: list[Any], work: Callable[..., Any], request: Any
    ) -> tuple[list[Any], list[Any]]:
        """Return new states and results."""
        found = self._map(lambda shard, own: work(shard, own, request), self.shards, states)
        after, results = zip(*found, strict=True)
        return list(after), list(results)

    def fetch(self, states: list[Any]) -> list[Any]:
        """Return the states themselves."""
        return states

    def scatter(self, values: list[Any]) -> list[Any]:
        """Return states to step from."""
        return values

    def status(self) -> str:
        """Return nothing: threads are not lost."""
        return ""

    def events(self) -> dict[str, float]:
        """Return nothing: threads are not lost."""
        return {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        if self._pool is not None:
            self._pool.shutdown()
