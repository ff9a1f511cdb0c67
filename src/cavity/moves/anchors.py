"""Pairs of observations that a move starts from: one at random, and one that goes with it.

Those are its neighbours, for the border between two clusters, and some from anywhere, for groups
far apart that share a cluster. They are chosen once, from the data alone, so that the chance of a
pair is the same on the way there and on the way back.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from cavity._numba.jit import jit
from cavity.utils.threads import without_openmp

NEIGHBOURS, ANYWHERE = 60, 20
# More observations than these are not asked for their neighbours; moves start from some of them.
MOST_ANCHORS = 20_000


class Anchors(NamedTuple):
    """Observations that moves may start from, and those that may go with each."""

    first: np.ndarray  # (m,)
    second: np.ndarray  # (m, neighbours and others)


@without_openmp
def nearest_anchors(X: np.ndarray, *, mirrored: bool = False) -> Anchors:
    """Anchors from nearest neighbours in the rows of X, and some rows from anywhere.

    With `mirrored` a row is as near as the nearer of it and its negative.

    Examples
    --------
    >>> anchors = nearest_anchors(np.arange(5.0)[:, None])
    >>> sorted(anchors.second[0].tolist())
    [1, 2, 3, 4]
    """
    from sklearn.neighbors import NearestNeighbors

    n = len(X)
    rng = np.random.default_rng(0)
    chosen = np.arange(n)
    if n > MOST_ANCHORS:
        chosen = np.sort(rng.choice(n, MOST_ANCHORS, replace=False))
    m = chosen.size
    k = min(NEIGHBOURS, m - 1)
    if mirrored:
        found = _mirrored_neighbours(X[chosen], k)
    else:
        # Asked for no points in particular, it leaves every row out of its own neighbours.
        found = NearestNeighbors(n_neighbors=k).fit(X[chosen]).kneighbors(return_distance=False)
    if k < m - 1:
        # So many places further on, which is never the row itself.
        steps = rng.integers(1, m, size=(m, ANYWHERE))
        found = np.hstack([found, (np.arange(m)[:, None] + steps) % m])
    return Anchors(chosen.astype(np.int64), np.ascontiguousarray(chosen[found]).astype(np.int64))


def _mirrored_neighbours(X: np.ndarray, k: int) -> np.ndarray:
    """The k rows that are nearest to each, themselves or turned."""
    from sklearn.neighbors import NearestNeighbors

    n = len(X)
    out = np.empty((n, k), dtype=np.int64)
    # Each of them may come twice, and so may the row itself.
    search = NearestNeighbors(n_neighbors=min(2 * k + 2, 2 * n)).fit(np.vstack([X, -X]))
    for i, row in enumerate(search.kneighbors(X, return_distance=False) % n):
        nearest = np.array(list(dict.fromkeys(row.tolist())))
        out[i] = nearest[nearest != i][:k]
    return out


def all_anchors(n: int) -> Anchors:
    """Every observation with every other one for a neighbour.

    Examples
    --------
    >>> all_anchors(3).second.tolist()
    [[1, 2], [0, 2], [0, 1]]
    """
    others = np.array([[j for j in range(n) if j != i] for i in range(n)], dtype=np.int64)
    return Anchors(np.arange(n), others.reshape(n, -1))


@jit(internal=True)
def draw_place(anchors, rng):
    """The place of an anchor, and one that goes with it; never one observation twice."""
    m, width = anchors.second.shape
    at = int(rng.random() * m)
    return at, anchors.second[at, int(rng.random() * width)]


@jit(internal=True)
def draw_pair(anchors, rng):
    """A pair of anchors."""
    at, other = draw_place(anchors, rng)
    return anchors.first[at], other
