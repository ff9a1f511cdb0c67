"""What runs a pass over all rows: threads of this process here, a cluster in `dask_engine`."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Protocol

import numpy as np

from cavity.distributed.blocks import BLOCK, Layout, layouts, total
from cavity.distributed.clusters import Shape
from cavity.distributed.kernel import N_TOTALS
from cavity.distributed.passes import (
    Gathered,
    Mapper,
    Order,
    Total,
    make_shard,
    on_threads,
    run_pass,
)
from cavity.distributed.sources import Source


class Engine(Protocol):
    """What a chain over rows in shards needs."""

    @property
    def n_rows(self) -> int:
        """All rows."""

    def sample(self, rows: np.ndarray) -> np.ndarray:
        """The values of some rows (in ascending order), after every row has been looked at."""

    def load(
        self,
        centre: np.ndarray,
        scale: np.ndarray,
        width: np.ndarray,
        followed: np.ndarray,
        shape: Shape | None = None,
    ) -> None:
        """Bring all rows into the model's units; see `cavity.distributed.passes.make_shard`."""

    def take(self, rows: np.ndarray) -> np.ndarray:
        """Some rows (in ascending order) in the model's units."""

    def run(self, order: Order) -> Total:
        """One pass over all rows."""

    def news(self) -> str:
        """What a progress bar should say of the workers."""

    def events(self) -> dict[str, float]:
        """Counters since the engine began."""

    def close(self) -> None:
        """Let everything go."""


def gather(parts: Iterable[Gathered], order: Order, n_blocks: int) -> Total:
    """One whole from what the shards gave, in the order of the shards."""
    parts = list(parts)
    values = total([node for part in parts for node in part.nodes], n_blocks)
    n_atoms, size = len(order.atoms.constant), order.rungs.size
    cut = values.size - size
    bad = int(values[cut - 1])
    if bad:
        raise FloatingPointError(
            f"{bad} rows have no finite density in any cluster; check their values against the "
            "scale of the others"
        )
    return Total(
        values[: cut - N_TOTALS].reshape(n_atoms, -1),
        float(values[cut - N_TOTALS]),
        values[cut:].reshape(order.rungs.shape),
        np.concatenate([part.labels for part in parts]),
    )


def local_rows(layout: Layout, rows: np.ndarray) -> np.ndarray:
    """Those of the given rows of all data that a shard has, counted in the shard."""
    own = rows[(rows >= layout.first_row) & (rows < layout.first_row + layout.n_rows)]
    return own - layout.first_row


class ThreadEngine:
    """All rows in this process; threads share every pass.

    Parameters
    ----------
    source : Source
    n_threads : int
    n_shards : int
        Cut the rows into so many shards: the draws are the same whatever their number.
    block : int
        Rows of a block.
    """

    def __init__(
        self, source: Source, n_threads: int = 1, n_shards: int = 1, block: int = BLOCK
    ) -> None:
        self._layouts = layouts(source.sizes, n_shards, block)
        self._readers = [source.reader(layout) for layout in self._layouts]
        self.shards: list[Any] = []
        self._pool = ThreadPoolExecutor(n_threads, "cavity-rows") if n_threads > 1 else None
        self.n_rows = sum(source.sizes)
        self.n_blocks = sum(layout.n_blocks for layout in self._layouts)

    def sample(self, rows: np.ndarray) -> np.ndarray:
        """The values of some rows."""
        found = [
            reader()[local_rows(layout, rows)]
            for layout, reader in zip(self._layouts, self._readers, strict=True)
        ]
        return np.concatenate(found)

    def load(
        self,
        centre: np.ndarray,
        scale: np.ndarray,
        width: np.ndarray,
        followed: np.ndarray,
        shape: Shape | None = None,
    ) -> None:
        """Bring all rows into the model's units."""
        self.load_by(make_shard, centre, scale, width, followed, shape)

    def load_by(self, make: Callable[..., Any], *told: Any) -> None:
        """Make every shard by ``make(layout, rows, *told)``."""
        self.shards = [
            make(layout, reader(), *told)
            for layout, reader in zip(self._layouts, self._readers, strict=True)
        ]

    def each(self, work: Callable[[Any], Any]) -> list[Any]:
        """What some work upon every shard gives."""
        return [work(shard) for shard in self.shards]

    def take(self, rows: np.ndarray) -> np.ndarray:
        """Some rows in the model's units."""
        found = [
            shard.take(local_rows(layout, rows))
            for layout, shard in zip(self._layouts, self.shards, strict=True)
        ]
        return np.concatenate(found)

    def run(self, order: Order) -> Total:
        """One pass over all rows."""
        parts = [run_pass(shard, order, self.mapper) for shard in self.shards]
        return gather(parts, order, self.n_blocks)

    @property
    def mapper(self) -> Mapper:
        """What does several blocks at once, if there are several threads."""
        return map if self._pool is None else on_threads(self._pool)

    def news(self) -> str:
        """Nothing can be lost."""
        return ""

    def events(self) -> dict[str, float]:
        """Nothing happens."""
        return {}

    def close(self) -> None:
        """Let the threads go."""
        if self._pool is not None:
            self._pool.shutdown()
