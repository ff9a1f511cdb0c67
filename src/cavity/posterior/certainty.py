"""How sure the posterior is of each observation's place in the point estimate.

Two views, both probabilities:

* *similarity to a cluster*: the posterior probability of sharing a cluster with one of its members
  chosen at random (the observation itself left out). It needs no relabelling. For a cluster of one
  it is the probability of being alone.
* *allocation probability*: the share of draws in which the observation sits in the draw's cluster
  that is matched to the estimate's cluster.

``certainty`` is the similarity to the observation's own cluster; the *alternative* is the other
cluster to which it is most similar.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from cavity.core.compile import jit
from cavity.posterior._draws import iter_canonical

_DENSE_CELLS = 100_000_000


class ClusterSimilarity(NamedTuple):
    """Similarity of each observation to its own cluster and to the best other one."""

    own: np.ndarray
    alternative: np.ndarray  # -1 where no other cluster is ever shared
    to_alternative: np.ndarray


@jit(allocates=True)
def _add_overlap(c, n_c, rows, n_rows, totals, alone):
    """totals[i, k] += members of estimate cluster k in i's cluster, for each draw."""
    top = 1
    for d in range(rows.shape[0]):
        top = max(top, n_rows[d])
    table = np.zeros((top, n_c), np.int32)
    size = np.zeros(top, np.int64)
    for d in range(rows.shape[0]):
        for j in range(n_rows[d]):
            size[j] = 0
            for k in range(n_c):
                table[j, k] = 0
        for i in range(rows.shape[1]):
            table[rows[d, i], c[i]] += 1
            size[rows[d, i]] += 1
        for i in range(rows.shape[1]):
            j = rows[d, i]
            if size[j] == 1:
                alone[i] += 1.0
            for k in range(n_c):
                totals[i, k] += table[j, k]


@jit(allocates=True)
def _overlap_by_members(c, size_c, rows, n_rows, total_draws, own, best, to_best, alone):
    """The same, an observation at a time over the members of its clusters: no (n, K) table."""
    n_draws, n = rows.shape
    top = 0
    for d in range(n_draws):
        top = max(top, n_rows[d])
    starts = np.zeros((n_draws, top + 1), np.int32)
    order = np.empty((n_draws, n), np.int32)
    for d in range(n_draws):
        for i in range(n):
            starts[d, rows[d, i] + 1] += 1
        for j in range(top):
            starts[d, j + 1] += starts[d, j]
        fill = starts[d].copy()
        for i in range(n):
            order[d, fill[rows[d, i]]] = i
            fill[rows[d, i]] += 1
    count = np.zeros(size_c.shape[0], np.int64)
    touched = np.empty(size_c.shape[0], np.int64)
    for i in range(n):
        n_touched = 0
        for d in range(n_draws):
            j = rows[d, i]
            if starts[d, j + 1] - starts[d, j] == 1:
                alone[i] += 1.0
            for at in range(starts[d, j], starts[d, j + 1]):
                k = c[order[d, at]]
                if count[k] == 0:
                    touched[n_touched] = k
                    n_touched += 1
                count[k] += 1
        best[i] = -1
        for t in range(n_touched):
            k = touched[t]
            if k == c[i]:
                if size_c[k] > 1:
                    own[i] = (count[k] / total_draws - 1.0) / (size_c[k] - 1.0)
            else:
                share = count[k] / total_draws / size_c[k]
                if share > to_best[i] or (share == to_best[i] and k < best[i]):
                    to_best[i] = share
                    best[i] = k
            count[k] = 0


def cluster_similarity_matrix(flat: np.ndarray, c: np.ndarray) -> np.ndarray:
    """Similarity of each observation to each cluster of the estimate, (n, K)."""
    c = c.astype(np.int64)
    size = np.bincount(c)
    n, n_c = len(c), len(size)
    totals = np.zeros((n, n_c), np.float32 if n * n_c > 1_000_000 else np.float64)
    alone = np.zeros(n)
    for _, rows, n_rows in iter_canonical(flat):
        _add_overlap(c, n_c, rows, n_rows, totals, alone)
    totals /= len(flat)
    at = np.arange(n)
    totals[at, c] -= 1.0
    divisor = np.broadcast_to(size, (n, n_c)).astype(totals.dtype)
    divisor[at, c] = np.maximum(size[c] - 1, 1)
    totals /= divisor
    single = size[c] == 1
    totals[single, c[single]] = alone[single] / len(flat)
    return np.clip(totals, 0.0, 1.0)


def cluster_similarity(flat: np.ndarray, c: np.ndarray) -> ClusterSimilarity:
    """Similarity to the own cluster and to the best alternative, from draws (draw, n)."""
    n, n_c = len(c), int(c.max()) + 1
    if n * n_c <= _DENSE_CELLS:
        table = cluster_similarity_matrix(flat, c)
        at = np.arange(n)
        own = table[at, c].astype(float)
        table[at, c] = -1.0
        best = table.argmax(axis=1)
        to_best = table[at, best].astype(float)
        best[to_best <= 0] = -1
        return ClusterSimilarity(own, best, np.maximum(to_best, 0.0))
    rows, n_rows = _all_rows(flat)
    size = np.bincount(c)
    own, to_best, alone = np.zeros(n), np.zeros(n), np.zeros(n)
    best = np.empty(n, np.int64)
    _overlap_by_members(
        c.astype(np.int64), size, rows, n_rows, len(flat), own, best, to_best, alone
    )
    single = size[c] == 1
    own[single] = alone[single] / len(flat)
    return ClusterSimilarity(own, best, to_best)


def _all_rows(flat: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    parts = [(rows, n_rows) for _, rows, n_rows in iter_canonical(flat)]
    return np.concatenate([r for r, _ in parts]), np.concatenate([k for _, k in parts])


def allocation_probabilities(relabelled: np.ndarray, n_clusters: int) -> np.ndarray:
    """Share of relabelled draws that put each observation in each cluster, (n, K).

    Rows sum to less than one where some draws put the observation in a cluster without a match.
    """
    n_draws, n = relabelled.shape
    out = np.empty((n, n_clusters))
    for k in range(n_clusters):
        out[:, k] = np.count_nonzero(relabelled == k, axis=0)
    return out / n_draws
