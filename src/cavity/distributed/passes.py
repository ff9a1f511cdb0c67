"""What is done with one shard: its rows kept ready, and one pass over them.

A shard holds data and nothing else. Labels and scales are made by a pass, from parameters that it
is given and streams that it counts to, and only sums leave it: a shard that is lost is read again,
and a pass that is repeated gives the same bits.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

import numpy as np
from scipy.special import gammaln

from cavity._numba.simd import WIDTH
from cavity.distributed.blocks import STEPS, Layout, Node, partial_sums, stream
from cavity.distributed.clusters import Shape
from cavity.distributed.kernel import N_TOTALS, Atoms, Columns, draw_block, room_for

Mapper = Callable[[Callable[[int], None], Iterable[int]], Iterable[None]]
_STEP_KEY = (20_180_719, 0)


class Shard(NamedTuple):
    """Rows of consecutive blocks in the model's units.

    ``followed`` are the rows (counted in the shard) whose labels are wanted. ``token`` is another
    each time the shard is read, so that one can tell.
    """

    layout: Layout
    columns: Columns
    shape: Shape
    constant: np.ndarray  # (blocks,), what log densities have beside the clusters'
    followed: np.ndarray
    token: str

    @property
    def y(self) -> np.ndarray:
        """Measurements, (d, n + 8)."""
        return self.columns.y

    def take(self, rows: np.ndarray) -> np.ndarray:
        """Some rows, all columns side by side."""
        parts = [part[:, rows].T.astype(float) for part in self.columns]
        starts = np.array(self.shape.start[:-1])
        parts[1] = np.where(parts[1] < 0.0, -1.0, parts[1] - starts)
        return np.ascontiguousarray(np.hstack(parts))


class Order(NamedTuple):
    """What a pass is to draw, and by which streams."""

    atoms: Atoms
    rungs: np.ndarray
    key: tuple[int, int]
    sweep: int
    purpose: int


class Gathered(NamedTuple):
    """What a pass over all rows, or some blocks of them, gave."""

    nodes: list[Node]
    labels: np.ndarray  # of the followed rows
    token: str


class Total(NamedTuple):
    """The sums of a whole pass."""

    statistics: np.ndarray  # (K, P)
    log_mixture: float  # log density of all rows, labels summed out
    tails: np.ndarray
    labels: np.ndarray


def make_shard(
    layout: Layout,
    rows: np.ndarray,
    centre: np.ndarray,
    scale: np.ndarray,
    width: np.ndarray,
    followed: np.ndarray,
    shape: Shape | None = None,
) -> Shard:
    """A shard from its rows as recorded, each value somewhere within its step.

    Parameters
    ----------
    layout : Layout
    rows : array of shape (n, columns)
        Measurements, then codes, -1 where missing, then counts, negative where missing.
    centre, scale : arrays of shape (d,)
        Units of the model.
    width : array of shape (d,)
        Steps that values were recorded with, in those units; negative for a column of one value.
    followed : array of int
        Rows of all the data whose labels are wanted.
    shape : Shape, optional
        What the columns are; all of them measurements by default.
    """
    shape = Shape(rows.shape[1]) if shape is None else shape
    measured, codes, counts = shape.split(rows)
    n, d = measured.shape
    y = np.zeros((d, n + WIDTH))
    for c in range(d):
        y[c, :n] = (measured[:, c] - centre[c]) / scale[c]
    cells = np.full((shape.n_codes, n + WIDTH), -1, dtype=np.int32)
    cells[:, :n] = np.where(codes < 0, -1, codes + np.array(shape.start[:-1])).T
    tallied = np.full((shape.n_counts, n + WIDTH), -1.0)
    tallied[:, :n] = counts.T
    constant = np.zeros(layout.n_blocks)
    for b in range(layout.n_blocks):
        low, high = layout.edges[b], layout.edges[b + 1]
        rng = stream(_STEP_KEY, layout.first_block + b, 0, STEPS)
        noise = rng.random((d, high - low)) - 0.5
        for c in range(d):
            if width[c] < 0.0:
                noise[c] = 0.1 * rng.standard_normal(high - low)
            else:
                noise[c] *= width[c]
        y[:, low:high] += noise
        constant[b] = -gammaln(np.maximum(counts[low:high], 0.0) + 1.0).sum()
    own = followed[(followed >= layout.first_row) & (followed < layout.first_row + n)]
    token = uuid.uuid4().hex
    return Shard(layout, Columns(y, cells, tallied), shape, constant, own - layout.first_row, token)


def run_pass(shard: Shard, order: Order, mapper: Mapper = map) -> Gathered:
    """Draw the labels of every block of a shard; `mapper` may do several blocks at once."""
    layout, d = shard.layout, shard.shape.d
    n_atoms = len(order.atoms.constant)
    sizes = (n_atoms * shard.shape.width, N_TOTALS, order.rungs.size)
    places = np.cumsum(sizes)
    leaves = np.zeros((layout.n_blocks, places[-1]))
    labels = np.empty(len(shard.followed), dtype=np.int32)
    bounds = np.searchsorted(shard.followed, layout.edges)

    def one(b: int) -> None:
        low, high = int(layout.edges[b]), int(layout.edges[b + 1])
        found = np.empty(high - low, dtype=np.int32)
        sums, totals, tails = np.split(leaves[b], places[:-1])
        draw_block(
            shard.columns, low, high, order.atoms, order.rungs, found,
            sums.reshape(n_atoms, -1), totals, tails.reshape(order.rungs.shape),
            room_for(n_atoms, d),
            stream(order.key, layout.first_block + b, order.sweep, order.purpose),
        )  # fmt: skip
        totals[0] += shard.constant[b]
        here = slice(bounds[b], bounds[b + 1])
        labels[here] = found[shard.followed[here] - low]

    for _ in mapper(one, range(layout.n_blocks)):
        pass
    return Gathered(partial_sums(layout.first_block, leaves), labels, shard.token)


def on_threads(pool: ThreadPoolExecutor) -> Mapper:
    """A mapper that spreads blocks over the threads of a pool."""
    return lambda work, items: pool.map(work, items)
