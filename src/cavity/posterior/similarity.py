"""Posterior similarity: how often two observations share a cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from cavity._numba.jit import jit
from cavity.mcmc.memory import available_bytes
from cavity.posterior.draws import Draws, distinct, evenly, iter_canonical
from cavity.utils.text import readable_bytes

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix

_BLOCK_CELLS = 8_000_000
# Rows of the matrix that are summed at once: their sums stay in the processor's cache.
_TILE = 8
_FALLBACK_BYTES = 4 * 2**30


@jit(reassoc=True)
def _rows_similarity(by_item, counts, total, rows, out):
    """out[r, j] = share of draws in which observation rows[r] sits with observation j."""
    n, n_draws = by_item.shape
    for r in range(rows.shape[0]):
        i = rows[r]
        for j in range(n):
            together = 0
            for d in range(n_draws):
                if by_item[i, d] == by_item[j, d]:
                    together += counts[d]
            out[r, j] = together / total


@jit
def _all_similarity(rows, counts, total, together, out):
    """Write the whole symmetric matrix, as many rows at a time as `together` has room for."""
    n_draws, n = rows.shape
    for first in range(0, n, together.shape[0]):
        last = min(first + together.shape[0], n)
        together[:] = 0
        for d in range(n_draws):
            row, count = rows[d], counts[d]
            for i in range(first, last):
                label, sums = row[i], together[i - first]
                for j in range(last):
                    sums[j] += count if row[j] == label else np.int32(0)
        for i in range(first, last):
            for j in range(i + 1):
                out[i, j] = together[i - first, j] / total
                out[j, i] = out[i, j]


def _check_rows(rows: Any, n: int) -> np.ndarray:
    chosen = np.asarray(rows)
    if chosen.dtype == bool:
        if chosen.shape != (n,):
            raise ValueError(f"rows: a mask must have one entry per observation ({n})")
        chosen = np.flatnonzero(chosen)
    if chosen.ndim != 1 or chosen.dtype.kind not in "iu":
        raise TypeError("rows must be a one-dimensional array of positions or a mask")
    if chosen.size and (chosen.min() < -n or chosen.max() >= n):
        raise IndexError(f"rows: positions must lie in [0, {n - 1}]")
    return (chosen.astype(np.int64) + n) % n


def _counts(draws: Draws) -> tuple[np.ndarray, int]:
    return np.bincount(draws.which, minlength=len(draws.labels)).astype(np.int32), len(draws.which)


def similarity_of_distinct(draws: Draws) -> np.ndarray:
    """Dense similarity of draws whose repeats are already merged."""
    n = draws.labels.shape[1]
    out = np.empty((n, n), np.float32)
    _all_similarity(draws.labels, *_counts(draws), np.empty((_TILE, n), np.int32), out)
    return out


def similarity(
    flat: np.ndarray,
    *,
    rows: Any = None,
    sparse: bool = False,
    threshold: float = 0.05,
    max_bytes: int | None = None,
) -> np.ndarray | csr_matrix:
    """Similarity from draws of shape (draw, n); see `Posterior.similarity`.

    Examples
    --------
    >>> similarity(np.array([[0, 0, 1], [0, 1, 1]])).tolist()
    [[1.0, 0.5, 0.0], [0.5, 1.0, 0.5], [0.0, 0.5, 1.0]]
    """
    n = flat.shape[1]
    chosen = np.arange(n) if rows is None else _check_rows(rows, n)
    if max_bytes is None:
        max_bytes = int(0.7 * (available_bytes() or _FALLBACK_BYTES))
    limit = max_bytes
    needed = 4 * len(chosen) * n
    if not sparse and needed > limit:
        raise MemoryError(
            f"a dense similarity of {len(chosen):,} by {n:,} observations takes "
            f"{readable_bytes(needed)} and {readable_bytes(limit)} may be used; ask for chosen "
            "rows with similarity(rows=[...]), or for its large entries only with "
            "similarity(sparse=True, threshold=0.05)"
        )
    draws = distinct(flat)
    if rows is None and not sparse:
        return similarity_of_distinct(draws)
    by_item = np.ascontiguousarray(draws.labels.T)
    if sparse:
        return _sparse_similarity(by_item, *_counts(draws), chosen, threshold)
    out = np.empty((len(chosen), n), np.float32)
    _rows_similarity(by_item, *_counts(draws), chosen, out)
    return out


def _sparse_similarity(
    by_item: np.ndarray, counts: np.ndarray, total: int, chosen: np.ndarray, threshold: float
) -> csr_matrix:
    from scipy.sparse import csr_matrix, vstack

    if not 0 < threshold <= 1:
        raise ValueError(f"threshold must lie in (0, 1]; got {threshold}")
    n = len(by_item)
    step = max(1, _BLOCK_CELLS // n)
    blocks = []
    for start in range(0, len(chosen), step):
        part = chosen[start : start + step]
        block = np.empty((len(part), n), np.float32)
        _rows_similarity(by_item, counts, total, part, block)
        block[block < np.float32(threshold)] = 0.0
        blocks.append(csr_matrix(block))
    return vstack(blocks, format="csr")


_DRAW_CELLS = 200_000_000
_DENSE_COLUMNS = 4_096


def cell_similarity(flat: np.ndarray, order: np.ndarray, n_cells: int) -> np.ndarray:
    """Mean similarity of all pairs between cells of consecutive observations, (cell, cell).

    The mean over the pairs of two cells is, draw by draw, the product of the cells' counts in each
    cluster: no similarity matrix of all observations is ever formed.

    Examples
    --------
    >>> cell_similarity(np.array([[0, 0, 1, 1]]), np.arange(4), 2).tolist()
    [[1.0, 0.0], [0.0, 1.0]]
    """
    from scipy import sparse

    flat = evenly(flat, max(1, _DRAW_CELLS // flat.shape[1]))
    n = flat.shape[1]
    cell = np.arange(n) * n_cells // n
    size = np.bincount(cell, minlength=n_cells).astype(np.float32)
    total = np.zeros((n_cells, n_cells), np.float32)
    pending: list[np.ndarray] = []
    columns = 0
    for _, rows, n_clusters in iter_canonical(flat):
        for row, k in zip(rows, n_clusters.tolist(), strict=True):
            z = row[order].astype(np.int64)
            if k > n_cells:
                # Many small clusters: few cells meet in any one of them.
                counts = sparse.coo_array((np.ones(n, np.float32), (cell, z)), shape=(n_cells, k))
                total += (counts.tocsr() @ counts.tocsr().T).toarray()
                continue
            pending.append(np.bincount(cell * k + z, minlength=n_cells * k).reshape(n_cells, k))
            columns += k
            if columns > _DENSE_COLUMNS:
                total += _gram(pending)
                pending, columns = [], 0
    if pending:
        total += _gram(pending)
    return total / (len(flat) * np.outer(size, size))


def _gram(counts: list[np.ndarray]) -> np.ndarray:
    wide = np.concatenate(counts, axis=1).astype(np.float32)
    return wide @ wide.T
