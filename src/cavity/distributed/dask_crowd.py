"""Shards under expectation propagation on a Dask cluster, as they come.

What a shard has is the result of a task upon what it had before: a worker that is lost has its
shards swept again from where they are known, elsewhere, with the same result. Every so many sweeps
a shard's labels are fetched and it begins anew from these, so that this is never far back.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from cavity.distributed.dask_engine import RETRIES, DaskEngine
from cavity.distributed.dask_workers import wait_for
from cavity.distributed.ep_shard import Answer, Told, answer_of, begin, labels_of, sweep_once
from cavity.distributed.passes import Order
from distributed import as_completed

# Sweeps of a shard from one fetch of its labels to the next.
FETCHED_EVERY = 50


class DaskCrowd:
    """The shards of an engine, for one chain.

    Parameters
    ----------
    engine : DaskEngine
        With its rows loaded.
    chain : int
        Number of the chain, for the names of tasks.
    """

    def __init__(self, engine: DaskEngine, chain: int) -> None:
        self._engine, self._client = engine, engine.client
        self._name = f"{engine.run_name}-{chain}"
        self._serial = 0
        self._own: list[Any] = [None] * len(engine.shards)
        self._swept = [0] * len(engine.shards)
        self._asked: dict[Any, tuple[int, Any]] = {}
        self._coming = as_completed(with_results=True, raise_errors=False)
        self.sizes = engine.shard_sizes

    def _ask(self, shard: int, work: Any, *arguments: Any) -> None:
        self._serial += 1
        name = f"{self._name}-{self._serial}-{shard}"
        own = self._client.submit(
            work, self._engine.shards[shard], *arguments, key=f"cavity-sites-{name}",
            retries=RETRIES,
        )  # fmt: skip
        answer = self._client.submit(answer_of, own, key=f"cavity-answer-{name}")
        self._own[shard] = own
        self._asked[answer.key] = shard, answer
        self._coming.add(answer)

    def begin(
        self, shard: int, told: Told, labels: np.ndarray | Order | None, n_sweeps: int
    ) -> None:
        """Let a shard make labels and sites."""
        self._swept[shard] = n_sweeps
        self._ask(shard, begin, told, labels, n_sweeps)

    def sweep(self, shard: int, told: Told) -> None:
        """Let a shard sweep, from its labels alone when these have just been fetched."""
        own = self._own[shard]
        swept = self._swept[shard]
        self._swept[shard] += 1
        if swept and swept % FETCHED_EVERY == 0:
            labels = self._engine.gathered([self._client.submit(labels_of, own)], "with rows of")[0]
            serial = f"{self._name}-{self._serial}-{shard}"
            own = self._client.submit(
                begin, self._engine.shards[shard], told, labels, swept,
                key=f"cavity-again-{serial}", retries=RETRIES,
            )  # fmt: skip
        self._ask(shard, sweep_once, own, told)

    def answer(self) -> tuple[int, Answer]:
        """The answer that is there first."""
        asked = [future for _, future in self._asked.values()]
        wait_for(self._client, asked, "FIRST_COMPLETED")
        future, _ = next(self._coming)
        shard, _ = self._asked.pop(future.key)
        (answer,) = self._engine.gathered([future], "with the rows of")
        self._engine.note(shard, answer.token)
        return shard, answer

    def labels(self) -> list[np.ndarray]:
        """Labels of all rows."""
        futures = [self._client.submit(labels_of, own) for own in self._own]
        return self._engine.gathered(futures, "with the rows of")

    def news(self) -> str:
        """Workers lost."""
        return self._engine.news()

    def events(self) -> dict[str, float]:
        """Workers lost, and shards that were read again for it."""
        return self._engine.events()
