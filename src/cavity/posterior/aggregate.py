"""Similarity of large data as a picture needs it: averaged over cells, straight from the draws."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from cavity.posterior._draws import iter_canonical

_DRAW_CELLS = 200_000_000
_DENSE_COLUMNS = 4_096


def even_draws(flat: np.ndarray) -> np.ndarray:
    """All draws, or an even subset where there are more labels than a picture can use."""
    most = max(1, _DRAW_CELLS // flat.shape[1])
    if len(flat) <= most:
        return flat
    return flat[np.linspace(0, len(flat) - 1, most).round().astype(int)]


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

    flat = even_draws(flat)
    n = flat.shape[1]
    cell = np.arange(n) * n_cells // n
    size = np.bincount(cell, minlength=n_cells).astype(np.float32)
    total = np.zeros((n_cells, n_cells), np.float32)
    pending: list[np.ndarray] = []
    columns = 0
    for row, k in _canonical(flat):
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


def _canonical(flat: np.ndarray) -> Iterator[tuple[np.ndarray, int]]:
    """Each draw with its labels renamed 0, 1, ..., and how many there are."""
    for _, rows, n_clusters in iter_canonical(flat):
        yield from zip(rows, n_clusters.tolist(), strict=True)


def _gram(counts: list[np.ndarray]) -> np.ndarray:
    wide = np.concatenate(counts, axis=1).astype(np.float32)
    return wide @ wide.T
