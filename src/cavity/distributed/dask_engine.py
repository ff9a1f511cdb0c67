"""Rows on the workers of a Dask cluster: futures as state, nothing that cannot be made again.

A shard is a task that reads it, so that the scheduler reads it again elsewhere when its worker is
lost; a pass is a task upon it. Neither holds anything that a repetition would not give again. The
client adds up sums in a fixed order, so that neither workers nor their number leave a trace.
"""

from __future__ import annotations

import itertools
import re
import time
import uuid
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from distributed.scheduler import KilledWorker

from cavity.distributed.blocks import BLOCK, Layout, layouts
from cavity.distributed.clusters import Shape
from cavity.distributed.dask_workers import expect_losses, results_of, workers_of
from cavity.distributed.engines import gather, local_rows
from cavity.distributed.passes import Gathered, Order, Shard, Total, make_shard, run_pass
from cavity.distributed.rehearsal import rehearse
from cavity.distributed.sources import Source
from distributed import Client

# Shards for each thread of the cluster, where rows are enough; fewer make shorter queues, more
# spread the rows of a lost worker better.
PER_THREAD = 4
LEAST_ROWS = 250_000
RETRIES = 3
# Seconds between two looks at which workers there are.
LOOK_SECONDS = 1.0


def read_shard(
    make: Callable[..., Any], reader: Callable[..., np.ndarray], needed: list[Any], *rest: Any
) -> Any:
    """A shard from what reads it, on a worker."""
    return make(rest[0], reader(*needed), *rest[1:])


def sample_shard(reader: Callable[..., np.ndarray], needed: list[Any], own: Any) -> np.ndarray:
    """Some rows of a shard, after all have been looked at."""
    return reader(*needed)[own]


def take_rows(shard: Shard, own: np.ndarray) -> np.ndarray:
    """Some rows of a shard in the model's units."""
    return shard.take(own)


def pass_over(shard: Shard, order: Order) -> Gathered:
    """One pass over a shard."""
    return run_pass(shard, order)


def _host(address: str) -> str:
    """The machine that an address is on.

    Examples
    --------
    >>> _host("tcp://10.0.0.7:41313")
    '10.0.0.7'
    """
    return re.split("[:/]", address.partition("://")[2])[0]


class DaskEngine:
    """All rows on a cluster.

    Parameters
    ----------
    source : Source
    client : distributed.Client
    n_shards : int, optional
        By default as many as keep all workers busy. The draws do not depend on it.
    block : int
        Rows of a block.
    rehearsal : callable, optional
        Compiles on a worker what shards need; by default what a pass over rows does.
    least : int
        Rows that a shard should have at least, where there is one for each thread.
    noun : str
        What the rows are, for the progress.
    """

    def __init__(
        self,
        source: Source,
        client: Client,
        n_shards: int | None = None,
        block: int = BLOCK,
        rehearsal: Callable[[], None] | None = None,
        least: int = LEAST_ROWS,
        noun: str = "rows",
    ) -> None:
        self.client = client
        self.source = source
        self._noun = noun
        self.n_rows = sum(source.sizes)
        expect_losses(client)
        self._known = workers_of(client)
        threads = sum(self._known.values())
        if n_shards is None:
            n_shards = max(threads, min(PER_THREAD * threads, self.n_rows // least))
        self._layouts = layouts(source.sizes, n_shards, block)
        self.run_name = uuid.uuid4().hex[:12]
        self._serial = itertools.count()
        self.shards: list[Any] = []
        self._tokens: dict[int, str] = {}
        self._n_lost = self._n_replayed = 0
        self._looked = time.monotonic()
        self._rows_per_second = 0.0
        self.n_blocks = sum(layout.n_blocks for layout in self._layouts)
        self._warm_up(partial(rehearse, source.shape) if rehearsal is None else rehearsal)

    def _warm_up(self, rehearsal: Callable[[], None]) -> None:
        """Let one worker of each host compile; the others find its cache."""
        hosts = {_host(address): address for address in self._known}
        done = [
            self.client.submit(
                rehearsal, key=f"cavity-rehearsal-{host}-{self.run_name}",
                workers=[address], allow_other_workers=True,
            )
            for host, address in hosts.items()
        ]  # fmt: skip
        self.gathered(done, "compiling the kernels for")

    def _spread(self) -> list[str]:
        """A worker for each shard, in turn."""
        addresses = sorted(self._known)
        return [addresses[s % len(addresses)] for s in range(len(self._layouts))]

    @property
    def shard_sizes(self) -> list[int]:
        """Rows of each shard."""
        return [layout.n_rows for layout in self._layouts]

    def note(self, shard: int, token: str) -> None:
        """Learn by which reading of a shard it has answered."""
        if self._tokens.setdefault(shard, token) != token:
            self._tokens[shard] = token
            self._n_replayed += 1

    def gathered(self, futures: list[Any], doing: str) -> list[Any]:
        """Results of tasks; a worker's death that was no accident is told in a sentence."""
        try:
            return results_of(self.client, futures)
        except KilledWorker as error:
            names = self._names(error)
            raise MemoryError(
                f"Workers died {doing} {names}, most likely for lack of memory; give them more, "
                "or write the data in smaller files."
            ) from error

    def _names(self, error: KilledWorker) -> str:
        """The parts of the data that a task was about, from its key."""
        key = str(error.task)
        for s, layout in enumerate(self._layouts):
            if key.endswith(f"-{s}"):
                return ", ".join(self.source.name(p.part) for p in layout.pieces[:3])
        return "some rows"

    def _mapped(self, what: str, work: Callable[..., Any], arguments: Callable[..., tuple]) -> list:
        """The results of one task for each shard."""
        futures = []
        for s, (layout, place) in enumerate(zip(self._layouts, self._spread(), strict=True)):
            futures.append(
                self.client.submit(
                    work, *arguments(s, layout), key=f"cavity-{what}-{self.run_name}-{s}",
                    workers=[place], allow_other_workers=True, pure=False,
                )
            )  # fmt: skip
        return futures

    def _reading(self, layout: Layout) -> tuple[Any, list[Any]]:
        reader = self.source.reader(layout)
        return reader, list(getattr(reader, "needed", ()))

    def sample(self, rows: np.ndarray) -> np.ndarray:
        """The values of some rows, after every row has been looked at."""
        futures = self._mapped(
            "look",
            sample_shard,
            lambda s, layout: (*self._reading(layout), local_rows(layout, rows)),
        )
        return np.concatenate(self.gathered(futures, "reading"))

    def load(
        self,
        centre: np.ndarray,
        scale: np.ndarray,
        width: np.ndarray,
        followed: np.ndarray,
        shape: Shape | None = None,
    ) -> None:
        """Bring all rows into the model's units, on the workers."""
        self.load_by(make_shard, centre, scale, width, followed, shape)

    def load_by(self, make: Callable[..., Any], *told: Any) -> None:
        """Make every shard by ``make(layout, rows, *told)``, on the workers."""
        self.shards = self._mapped(
            "rows",
            read_shard,
            lambda s, layout: (make, *self._reading(layout), layout, *told),
        )

    def each(self, work: Callable[[Any], Any]) -> list[Any]:
        """What some work upon every shard gives."""
        serial = next(self._serial)
        futures = [
            self.client.submit(work, shard, key=f"cavity-each-{self.run_name}-{serial}-{s}")
            for s, shard in enumerate(self.shards)
        ]
        return self.gathered(futures, "reading")

    def take(self, rows: np.ndarray) -> np.ndarray:
        """Some rows in the model's units."""
        futures = [
            self.client.submit(
                take_rows, shard, local_rows(layout, rows),
                key=f"cavity-take-{self.run_name}-{next(self._serial)}-{s}",
            )
            for s, (shard, layout) in enumerate(zip(self.shards, self._layouts, strict=True))
        ]  # fmt: skip
        return np.concatenate(self.gathered(futures, "reading"))

    def run(self, order: Order) -> Total:
        """One pass over all rows."""
        serial, begun = next(self._serial), time.monotonic()
        futures = [
            self.client.submit(
                pass_over, shard, order, key=f"cavity-pass-{self.run_name}-{serial}-{s}",
                retries=RETRIES,
            )
            for s, shard in enumerate(self.shards)
        ]  # fmt: skip
        parts = self.gathered(futures, "with the rows of")
        for s, part in enumerate(parts):
            self.note(s, part.token)
        self.timed(begun)
        return gather(parts, order, self.n_blocks)

    def timed(self, begun: float) -> None:
        """Learn when a pass that is done had begun."""
        self._rows_per_second = self.n_rows / max(time.monotonic() - begun, 1e-9)

    def _look(self) -> None:
        """Count the workers that have gone since the last look."""
        if time.monotonic() - self._looked < LOOK_SECONDS:
            return
        self._looked = time.monotonic()
        now = dict(self.client.nthreads())
        self._n_lost += len(set(self._known) - set(now))
        self._known = now

    def news(self) -> str:
        """Rows per second, and workers lost."""
        self._look()
        words = f"{self._rows_per_second:,.0f} {self._noun}/s"
        if self._n_lost or self._n_replayed:
            words += f", {self._n_lost} workers lost, {self._n_replayed} shards read again"
        return words

    def events(self) -> dict[str, float]:
        """Workers lost, and shards that were read again for it."""
        self._looked = 0.0
        self._look()
        return {"workers_lost": float(self._n_lost), "shards_reread": float(self._n_replayed)}

    def close(self) -> None:
        """Let the rows go."""
        self.shards = []
