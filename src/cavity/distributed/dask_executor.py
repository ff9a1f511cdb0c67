"""Shards on the workers of a Dask cluster.

A shard is the result of a task that reads it, so the scheduler reads it again when its worker is
lost. A pass is a task on the shard, and a state the result of a task on the state before it.
Repeating any of them gives the same bits. The client adds up sums in a fixed order, so the draws
do not depend on the workers or their number.
"""

from __future__ import annotations

import itertools
import time
import uuid
from collections.abc import Callable
from typing import Any, NamedTuple, Self

import dask
import numpy as np
from distributed.scheduler import KilledWorker

from cavity.distributed.blocks import BLOCK, layouts
from cavity.distributed.dask_workers import expect_losses, results_of, workers_of
from cavity.distributed.executor import LEAST_ROWS, PER_THREAD, local_rows
from cavity.distributed.sources import Source
from distributed import Client

RETRIES = 3
# Seconds between two looks at the list of workers.
LOOK_SECONDS = 1.0
# Steps from one fetch of the states to the next: those since the last one are repeated at a loss.
FETCHED_EVERY = 20


class _Loaded(NamedTuple):
    """A shard, and a token that differs each time it is read."""

    shard: Any
    token: str


class _Stepped(NamedTuple):
    """A shard's state, with the token and the result of the step that made it."""

    state: Any
    token: str = ""
    result: Any = None


class _States(NamedTuple):
    """Futures of the states, and steps since these were last fetched."""

    futures: list[Any]
    age: int = 0


def _sample(reader: Callable[..., np.ndarray], needed: list[Any], own: np.ndarray) -> np.ndarray:
    return reader(*needed)[own]


def _load(
    make: Callable[..., Any], reader: Callable[..., np.ndarray], needed: list[Any], *rest: Any
) -> _Loaded:
    return _Loaded(make(rest[0], reader(*needed), *rest[1:]), uuid.uuid4().hex)


def _map(loaded: _Loaded, work: Callable[..., Any], *args: Any) -> tuple[str, Any]:
    return loaded.token, work(loaded.shard, *args)


def _begin(loaded: _Loaded, work: Callable[[Any], Any]) -> _Stepped:
    return _Stepped(work(loaded.shard))


def _step(loaded: _Loaded, before: _Stepped, work: Callable[..., Any], request: Any) -> _Stepped:
    state, result = work(loaded.shard, before.state, request)
    return _Stepped(state, loaded.token, result)


def _result(stepped: _Stepped) -> tuple[str, Any]:
    return stepped.token, stepped.result


def _state(stepped: _Stepped) -> Any:
    return stepped.state


class DaskExecutor:
    """All rows on a cluster.

    Parameters
    ----------
    source : Source
    client : distributed.Client
    n_shards : int, optional
        By default as many as keep all workers busy. The draws do not depend on it.
    block : int
        Rows of a block.
    least : int
        Rows that a shard should have at least, where there is one for each thread.
    noun : str
        Name of the rows in the progress bar.
    """

    def __init__(
        self,
        source: Source,
        client: Client,
        n_shards: int | None = None,
        block: int = BLOCK,
        least: int = LEAST_ROWS,
        noun: str = "rows",
    ) -> None:
        self.client, self.source, self._noun = client, source, noun
        self.n_rows = sum(source.sizes)
        expect_losses(client)
        self._known = workers_of(client)
        threads = sum(self._known.values())
        if n_shards is None:
            n_shards = max(threads, min(PER_THREAD * threads, self.n_rows // least))
        self._layouts = layouts(source.sizes, n_shards, block)
        self.shard_sizes = [layout.n_rows for layout in self._layouts]
        self.n_blocks = sum(layout.n_blocks for layout in self._layouts)
        self._name = uuid.uuid4().hex[:12]
        self._serial = itertools.count()
        self.shards: list[Any] = []
        self._tokens: dict[int, str] = {}
        self._n_lost = self._n_reread = 0
        self._looked = time.monotonic()
        self._rows_per_second = 0.0

    def _submit(
        self, what: str, work: Callable[..., Any], *columns: Any, spread: bool = False
    ) -> list[Any]:
        """One task for each shard; `spread` prefers the workers in turn."""
        name = f"cavity-{what}-{self._name}-{next(self._serial)}"
        addresses = sorted(self._known)
        futures = []
        with dask.config.set({"distributed.admin.large-graph-warning-threshold": "1TB"}):
            for s, own in enumerate(zip(*columns, strict=True)):
                options: dict[str, Any] = {}
                if spread:
                    worker = addresses[s % len(addresses)]
                    options = {"workers": [worker], "allow_other_workers": True}
                future = self.client.submit(
                    work, *own, key=f"{name}-{s}", retries=RETRIES, **options
                )
                futures.append(future)
        return futures

    def _gather(self, futures: list[Any], doing: str) -> list[Any]:
        """Results of tasks; names the data whose task has killed its workers."""
        try:
            return results_of(self.client, futures)
        except KilledWorker as error:
            raise MemoryError(
                f"Workers died {doing} {self._part(error)}, most likely for lack of memory; give "
                "them more, or write the data in smaller files."
            ) from error

    def _part(self, error: KilledWorker) -> str:
        """Parts of the data that a task was about, from its key."""
        shard = str(error.task).rpartition("-")[2]
        if not shard.isdigit():
            return f"some {self._noun}"
        pieces = self._layouts[int(shard)].pieces[:3]
        return ", ".join(self.source.name(piece.part) for piece in pieces)

    def _passed(self, futures: list[Any], begun: float) -> list[Any]:
        """Results of a pass; counts the shards that were read again for it."""
        found = self._gather(futures, f"with the {self._noun} of")
        for s, (token, _) in enumerate(found):
            if self._tokens.setdefault(s, token) != token:
                self._tokens[s] = token
                self._n_reread += 1
        self._rows_per_second = self.n_rows / max(time.monotonic() - begun, 1e-9)
        return [result for _, result in found]

    def _reading(self) -> tuple[list[Any], list[list[Any]]]:
        """Readers of all shards, and the futures that each of them needs."""
        readers = [self.source.reader(layout) for layout in self._layouts]
        return readers, [list(getattr(reader, "needed", ())) for reader in readers]

    def sample(self, rows: np.ndarray) -> np.ndarray:
        """Return the recorded values of some rows."""
        own = [local_rows(layout, rows) for layout in self._layouts]
        futures = self._submit("sample", _sample, *self._reading(), own, spread=True)
        return np.concatenate(self._gather(futures, "reading"))

    def load(self, make: Callable[..., Any], *args: Any) -> None:
        """Build every shard on the workers."""
        same = (itertools.repeat(value, len(self._layouts)) for value in args)
        makes = [make] * len(self._layouts)
        self.shards = self._submit(
            "load", _load, makes, *self._reading(), self._layouts, *same, spread=True
        )

    def map(self, work: Callable[..., Any], *args: Any) -> list[Any]:
        """Return the result of some work for every shard."""
        begun = time.monotonic()
        same = (itertools.repeat(value, len(self.shards)) for value in (work, *args))
        return self._passed(self._submit("pass", _map, self.shards, *same), begun)

    def begin(self, work: Callable[[Any], Any]) -> _States:
        """Return states to step from."""
        return _States(self._submit("begin", _begin, self.shards, [work] * len(self.shards)))

    def step(
        self, states: _States, work: Callable[..., Any], request: Any
    ) -> tuple[_States, list[Any]]:
        """Return new states and results."""
        begun = time.monotonic()
        if states.age >= FETCHED_EVERY:
            states = self.scatter(self.fetch(states))
        same = (itertools.repeat(value, len(self.shards)) for value in (work, request))
        after = self._submit("step", _step, self.shards, states.futures, *same)
        results = self._passed(self._submit("result", _result, after), begun)
        return _States(after, states.age + 1), results

    def fetch(self, states: _States) -> list[Any]:
        """Return the states themselves."""
        return self._gather(self._submit("state", _state, states.futures), "with the state of")

    def scatter(self, values: list[Any]) -> _States:
        """Return states to step from."""
        return _States(self._submit("scatter", _Stepped, values))

    def _look(self) -> None:
        """Count the workers that have gone since the last look."""
        self._looked = time.monotonic()
        now = dict(self.client.nthreads())
        self._n_lost += len(set(self._known) - set(now))
        self._known = now

    def status(self) -> str:
        """Return rows per second and losses."""
        if time.monotonic() - self._looked >= LOOK_SECONDS:
            self._look()
        words = f"{self._rows_per_second:,.0f} {self._noun}/s"
        if self._n_lost or self._n_reread:
            words += f", {self._n_lost} workers lost, {self._n_reread} shards read again"
        return words

    def events(self) -> dict[str, float]:
        """Return the number of workers lost and of shards read again."""
        self._look()
        return {"workers_lost": float(self._n_lost), "shards_reread": float(self._n_reread)}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.shards = []
