"""Who runs shards under expectation propagation: threads here, a cluster in `dask_crowd`.

Shards are told to sweep one by one, and answer when they have. Threads' answers are taken in the
order in which they were asked, so that the draws depend on the seed and the shards alone.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, Protocol

import numpy as np

from cavity.distributed.ep_shard import Answer, Own, Told, begin, labels_of, sweep_once
from cavity.distributed.passes import Order, Shard


class Crowd(Protocol):
    """What a chain under expectation propagation needs of its shards."""

    @property
    def sizes(self) -> list[int]:
        """Rows of each shard."""

    def begin(
        self, shard: int, told: Told, labels: np.ndarray | Order | None, n_sweeps: int
    ) -> None:
        """Let a shard make labels, unless they are given, and sites; it answers in time."""

    def sweep(self, shard: int, told: Told) -> None:
        """Let a shard sweep; it answers in time."""

    def answer(self) -> tuple[int, Answer]:
        """Wait for the next answer, and say which shard's it is."""

    def labels(self) -> list[np.ndarray]:
        """Labels of all rows, shard by shard; none of them may be sweeping."""

    def news(self) -> str:
        """What a progress bar should say of the workers."""

    def events(self) -> dict[str, float]:
        """Counters since the crowd began."""


class ThreadCrowd:
    """Shards of this process.

    Parameters
    ----------
    shards : list of Shard
    pool : executor, optional
        None to sweep in the calling thread.
    """

    def __init__(self, shards: list[Shard], pool: ThreadPoolExecutor | None = None) -> None:
        self._shards, self._pool = shards, pool
        self._own: list[Own | None] = [None] * len(shards)
        self._asked: deque[tuple[int, Future[Own] | Own]] = deque()
        self.sizes = [shard.layout.n_rows for shard in shards]

    def _do(self, shard: int, work: Callable[..., Own], *arguments: Any) -> None:
        if self._pool is None:
            self._asked.append((shard, work(*arguments)))
        else:
            self._asked.append((shard, self._pool.submit(work, *arguments)))

    def begin(
        self, shard: int, told: Told, labels: np.ndarray | Order | None, n_sweeps: int
    ) -> None:
        """Let a shard make labels and sites."""
        self._do(shard, begin, self._shards[shard], told, labels, n_sweeps)

    def sweep(self, shard: int, told: Told) -> None:
        """Let a shard sweep."""
        self._do(shard, sweep_once, self._shards[shard], self._own[shard], told)

    def answer(self) -> tuple[int, Answer]:
        """The answer of the shard that was asked first."""
        shard, found = self._asked.popleft()
        own = found.result() if isinstance(found, Future) else found
        self._own[shard] = own
        return shard, own.answer

    def labels(self) -> list[np.ndarray]:
        """Labels of all rows."""
        return [labels_of(own) for own in self._own if own is not None]

    def news(self) -> str:
        """Nothing can be lost."""
        return ""

    def events(self) -> dict[str, float]:
        """Nothing happens."""
        return {}
