"""What is done with one shard: its rows kept ready, and one pass over them.

A shard holds data and nothing else. Labels and scales are made by a pass, from parameters that it
is given and streams that it counts to, and only sums leave it: a shard that is lost is read again,
and a pass that is repeated gives the same bits.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.special import gammaln

from cavity._numba.simd import WIDTH
from cavity.distributed.blocks import STEPS, Layout, Node, partial_sums, stream, total
from cavity.distributed.clusters import Shape
from cavity.distributed.executor import ShardExecutor, local_rows
from cavity.distributed.kernel import N_TOTALS, Columns, Components, draw_block, scratch_for

_STEP_KEY = (20_180_719, 0)


class Shard(NamedTuple):
    """Rows of consecutive blocks in the model's units.

    ``followed`` are the rows (counted in the shard) whose labels are wanted.
    """

    layout: Layout
    columns: Columns
    shape: Shape
    constant: np.ndarray  # (blocks,), what log densities have beside the clusters'
    followed: np.ndarray

    @property
    def y(self) -> np.ndarray:
        """Measurements, (d, n + 8)."""
        return self.columns.y


class ShardRequest(NamedTuple):
    """Parameters and streams that a pass draws labels by."""

    components: Components
    inverse_df: np.ndarray
    key: tuple[int, int]
    sweep: int
    purpose: int


class ShardResult(NamedTuple):
    """Sums and followed labels of a pass over one shard."""

    nodes: list[Node]
    labels: np.ndarray  # of the followed rows


class PassTotal(NamedTuple):
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
    return Shard(layout, Columns(y, cells, tallied), shape, constant, local_rows(layout, followed))


def followed_rows(shard: Shard) -> np.ndarray:
    """Return the followed rows in the model's units, all columns side by side."""
    parts = [part[:, shard.followed].T.astype(float) for part in shard.columns]
    starts = np.array(shard.shape.start[:-1])
    parts[1] = np.where(parts[1] < 0.0, -1.0, parts[1] - starts)
    return np.ascontiguousarray(np.hstack(parts))


def run_pass(shard: Shard, request: ShardRequest) -> ShardResult:
    """Draw the labels of every block of a shard."""
    layout, d = shard.layout, shard.shape.d
    n_components = len(request.components.constant)
    sizes = (n_components * shard.shape.width, N_TOTALS, request.inverse_df.size)
    places = np.cumsum(sizes)
    leaves = np.zeros((layout.n_blocks, places[-1]))
    labels = np.empty(len(shard.followed), dtype=np.int32)
    bounds = np.searchsorted(shard.followed, layout.edges)

    for b in range(layout.n_blocks):
        low, high = int(layout.edges[b]), int(layout.edges[b + 1])
        found = np.empty(high - low, dtype=np.int32)
        sums, totals, tails = np.split(leaves[b], places[:-1])
        draw_block(
            shard.columns, low, high, request.components, request.inverse_df, found,
            sums.reshape(n_components, -1), totals, tails.reshape(request.inverse_df.shape),
            scratch_for(n_components, d),
            stream(request.key, layout.first_block + b, request.sweep, request.purpose),
        )  # fmt: skip
        totals[0] += shard.constant[b]
        here = slice(bounds[b], bounds[b + 1])
        labels[here] = found[shard.followed[here] - low]
    return ShardResult(partial_sums(layout.first_block, leaves), labels)


def run_all(executor: ShardExecutor, request: ShardRequest) -> PassTotal:
    """Draw the labels of all rows and add up the sums, in the order of the blocks."""
    parts = executor.map(run_pass, request)
    values = total([node for part in parts for node in part.nodes], executor.n_blocks)
    n_components, size = len(request.components.constant), request.inverse_df.size
    cut = values.size - size
    bad = int(values[cut - 1])
    if bad:
        raise FloatingPointError(
            f"{bad} rows have no finite density in any cluster; check their values against the "
            "scale of the others"
        )
    return PassTotal(
        values[: cut - N_TOTALS].reshape(n_components, -1),
        float(values[cut - N_TOTALS]),
        values[cut:].reshape(request.inverse_df.shape),
        np.concatenate([part.labels for part in parts]),
    )
