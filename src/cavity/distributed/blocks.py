"""Rows in blocks of fixed size: what random streams and sums are keyed to.

A draw must not depend on how rows are spread over workers. So every block of rows has a stream of
its own, found by counting (seed, sweep, block), and sums over blocks are added in the order of one
binary tree over all blocks, whichever of its nodes were summed where.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

BLOCK = 8192
# What a stream is for.
SWEEP, STEPS, PROPOSAL = 0, 1, 3  # and upwards, one for each proposal


class Piece(NamedTuple):
    """Rows ``start`` to ``stop`` of one part (a file, an array) of the data."""

    part: int
    start: int
    stop: int


class Layout(NamedTuple):
    """Consecutive blocks of rows, from the first block on; no block reaches over two parts.

    ``edges[b]`` is the first row of block b, counted from the first row of the first piece.
    """

    first_block: int
    first_row: int
    pieces: tuple[Piece, ...]
    edges: np.ndarray

    @property
    def n_rows(self) -> int:
        """Rows in all blocks."""
        return int(self.edges[-1])

    @property
    def n_blocks(self) -> int:
        """How many blocks there are."""
        return len(self.edges) - 1


def layouts(sizes: Sequence[int], n_shards: int, block: int = BLOCK) -> list[Layout]:
    """Parts of these sizes as shards: runs of blocks, about equally many rows in each.

    Examples
    --------
    >>> [shard.pieces for shard in layouts([10, 3], 2, block=4)]
    [(Piece(part=0, start=0, stop=8),), (Piece(part=0, start=8, stop=10), Piece(part=1, start=0, stop=3))]
    """  # noqa: E501
    cuts = [
        Piece(part, start, min(start + block, size))
        for part, size in enumerate(sizes)
        for start in range(0, size, block)
    ]
    ends = np.cumsum([piece.stop - piece.start for piece in cuts])
    n_shards = max(1, min(n_shards, len(cuts)))
    # A shard ends with the block that comes nearest to its share of the rows.
    wanted = ends[-1] * np.arange(1, n_shards) / n_shards
    at = np.unique(np.searchsorted(ends, wanted) + 1)
    bounds = [0, *at[at < len(cuts)].tolist(), len(cuts)]
    out = []
    for low, high in itertools.pairwise(bounds):
        before = int(ends[low - 1]) if low else 0
        edges = np.concatenate([[0], ends[low:high] - before])
        out.append(Layout(low, before, _joined(cuts[low:high]), edges))
    return out


def _joined(pieces: Iterable[Piece]) -> tuple[Piece, ...]:
    out: list[Piece] = []
    for piece in pieces:
        if out and out[-1].part == piece.part:
            out[-1] = out[-1]._replace(stop=piece.stop)
        else:
            out.append(piece)
    return tuple(out)


def stream(key: Sequence[int], block: int, sweep: int, purpose: int) -> np.random.Generator:
    """The generator of one block in one sweep: Philox, at a place of its own.

    Examples
    --------
    >>> a, b = (stream((1, 2), block, 0, SWEEP).random() for block in (3, 4))
    >>> a == b, a == stream((1, 2), 3, 0, SWEEP).random()
    (False, True)
    """
    place = np.array([0, block, sweep, purpose], dtype=np.uint64)
    words = np.array(key, dtype=np.uint64)
    return np.random.Generator(np.random.Philox(key=words, counter=place))


def quick_stream(key: Sequence[int], block: int, sweep: int, purpose: int) -> np.random.Generator:
    """A generator of the same place whose numbers cost a third: its seed is what Philox has there.

    For blocks that need very many of them, where making it takes no time beside.

    Examples
    --------
    >>> a, b = (quick_stream((1, 2), block, 0, SWEEP).random() for block in (3, 4))
    >>> a == b, a == quick_stream((1, 2), 3, 0, SWEEP).random()
    (False, True)
    """
    words = stream(key, block, sweep, purpose).integers(0, 2**63, size=4)
    return np.random.Generator(np.random.SFC64(np.random.SeedSequence(words.tolist())))


class Node(NamedTuple):
    """The sum over the blocks ``place * 2**level`` to ``(place + 1) * 2**level``."""

    level: int
    place: int
    value: np.ndarray


def partial_sums(first_block: int, leaves: np.ndarray) -> list[Node]:
    """The fewest nodes of the tree that together sum these consecutive blocks."""
    nodes: list[Node] = []
    level, index, values = 0, first_block, leaves
    while len(values):
        if index % 2:
            nodes.append(Node(level, index, values[0]))
            index, values = index + 1, values[1:]
        if len(values) % 2:
            nodes.append(Node(level, index + len(values) - 1, values[-1]))
            values = values[:-1]
        values = values[0::2] + values[1::2]
        level, index = level + 1, index // 2
    return nodes


def total(nodes: Iterable[Node], n_blocks: int) -> np.ndarray:
    """The sum over all blocks, in the order of the tree.

    Examples
    --------
    >>> leaves = np.arange(5.0)[:, None]
    >>> parts = [*partial_sums(0, leaves[:3]), *partial_sums(3, leaves[3:])]
    >>> total(parts, 5)
    array([10.])
    """
    known = {(node.level, node.place): node.value for node in nodes}
    width, level = n_blocks, 0
    while width > 1:
        for index in range(0, width, 2):
            left, right = known.get((level, index)), known.get((level, index + 1))
            if left is not None:
                known[level + 1, index // 2] = left if right is None else left + right
        width, level = (width + 1) // 2, level + 1
    return known[level, 0]
