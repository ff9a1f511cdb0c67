"""How sure the posterior is of each observation's place in a partition.

*Certainty* is the posterior probability of sharing a cluster with another member of the own
cluster, chosen at random; for a cluster of one, of being alone. It needs no matching of clusters.
The probabilities of places, which do, are counted from matched draws: see
`cavity.posterior.relabel`.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from cavity._numba.jit import jit
from cavity.posterior._draws import iter_canonical

_BLOCK = 4_096


@jit
def _add_mates(order, starts, rows, n_rows, count, size, mates, alone):
    """mates[i] += fellow members of i's cluster that are with it in each draw.

    ``count`` and ``size`` are rooms for the clusters of a draw, at zero.
    """
    for d in range(rows.shape[0]):
        row = rows[d]
        for i in range(row.shape[0]):
            size[row[i]] += 1
        for k in range(starts.shape[0] - 1):
            for at in range(starts[k], starts[k + 1]):
                count[row[order[at]]] += 1
            for at in range(starts[k], starts[k + 1]):
                i = order[at]
                mates[i] += count[row[i]] - 1
                if size[row[i]] == 1:
                    alone[i] += 1
            for at in range(starts[k], starts[k + 1]):
                count[row[order[at]]] = 0
        for j in range(n_rows[d]):
            size[j] = 0


def own_certainty(flat: np.ndarray, c: np.ndarray) -> np.ndarray:
    """Certainty of each observation, from draws (draw, n) and a partition 0..K-1.

    Examples
    --------
    >>> own_certainty(np.array([[0, 0, 1], [0, 1, 2]]), np.array([0, 0, 1])).tolist()
    [0.5, 0.5, 1.0]
    """
    sizes = np.bincount(c)
    order = np.argsort(c, kind="stable")
    starts = np.concatenate([[0], np.cumsum(sizes)])
    mates, alone = np.zeros(len(c), np.int64), np.zeros(len(c), np.int64)
    for _, rows, n_rows in iter_canonical(flat):
        count, size = np.zeros((2, n_rows.max()), np.int64)
        _add_mates(order, starts, rows, n_rows, count, size, mates, alone)
    others = sizes[c] - 1
    return np.where(others > 0, mates / np.maximum(others, 1), alone) / len(flat)


class Places(NamedTuple):
    """Where matched draws put each observation: shares of draws, and the best other cluster."""

    probability: np.ndarray  # of its own cluster
    alternative: np.ndarray  # the other cluster that most draws put it in; -1: none
    alternative_probability: np.ndarray
    elsewhere: np.ndarray  # in a cluster of the draw that matches none


@jit
def _tally(labels, c, count, own, best, best_count, elsewhere):
    """Count, observation by observation (rows of `labels`), where the draws put it.

    ``count`` is room for the clusters, at zero.
    """
    for i in range(labels.shape[0]):
        for d in range(labels.shape[1]):
            k = labels[i, d]
            if k < 0:
                elsewhere[i] += 1
            else:
                count[k] += 1
        own[i] = count[c[i]]
        count[c[i]] = 0
        best[i] = -1
        for d in range(labels.shape[1]):
            k = labels[i, d]
            if k >= 0:
                m = count[k]
                if m > best_count[i] or (m > 0 and m == best_count[i] and k < best[i]):
                    best[i] = k
                    best_count[i] = m
                count[k] = 0


def places(relabelled: np.ndarray, c: np.ndarray, n_clusters: int) -> Places:
    """Tally the draws of a relabelling, (draw, n), against its reference.

    Examples
    --------
    >>> places(np.array([[0, 1], [1, -1], [1, 1]]), np.array([0, 1]), 2).alternative.tolist()
    [1, -1]
    """
    n_draws, n = relabelled.shape
    own, best, best_count, elsewhere = (np.zeros(n, np.int64) for _ in range(4))
    count = np.zeros(n_clusters, np.int64)
    for start in range(0, n, _BLOCK):
        part = slice(start, min(start + _BLOCK, n))
        block = np.ascontiguousarray(relabelled[:, part].T, dtype=np.int32)
        _tally(block, c[part], count, own[part], best[part], best_count[part], elsewhere[part])
    return Places(own / n_draws, best, best_count / n_draws, elsewhere / n_draws)
