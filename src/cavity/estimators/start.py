"""Where a chain starts: labels from k-means, at random, or as given.

By default every second chain starts at random. Chains that all start from k-means may all stay in
the mode that k-means prefers, and their agreement says nothing of other modes.
"""

from __future__ import annotations

from typing import Any

import numpy as np

# k-means is fitted to at most so many rows, less the loneliest tenth of them; the others go to
# their nearest centre. Outliers would each draw a centre to themselves, and a chain that starts
# with a cluster of outliers is slow to give it up.
FITTED_ROWS = 5_000
LONELY = 0.1
STARTS = ("dispersed", "k-means++", "random")


def initial_labels(
    X: np.ndarray, n_clusters: int, init: Any, chain: int, rng: np.random.Generator
) -> np.ndarray:
    """Labels to start one chain from.

    Parameters
    ----------
    X : array of shape (n, d)
        Standardised data.
    n_clusters : int
    init : {"dispersed", "k-means++", "random"} or array of labels
        k-means from one k-means++ seeding of this chain's own, labels drawn uniformly, the one
        for even and the other for odd chains, or these labels.
    chain : int
    rng : numpy.random.Generator
    """
    if not isinstance(init, str):
        return np.asarray(init)
    at_random = init == "random" or (init == "dispersed" and chain % 2 == 1)
    if at_random or n_clusters == 1:
        return rng.integers(n_clusters, size=len(X))
    from sklearn.cluster import KMeans

    some = X
    if len(X) > FITTED_ROWS:
        some = X[rng.choice(len(X), FITTED_ROWS, replace=False)]
    some = some[~lonely(some)]
    n_distinct = len(np.unique(some, axis=0))
    model = KMeans(min(n_clusters, n_distinct), n_init=1, random_state=int(rng.integers(2**31)))
    return model.fit(some).predict(X)


def lonely(X: np.ndarray) -> np.ndarray:
    """Which rows are farthest from their fifth nearest neighbour: the last tenth.

    Examples
    --------
    >>> import numpy as np
    >>> np.flatnonzero(lonely(np.append(np.arange(19.0), 100.0)[:, None]))[-1]
    np.int64(19)
    """
    from sklearn.neighbors import NearestNeighbors

    n_lonely = int(LONELY * len(X))
    if n_lonely == 0:
        return np.zeros(len(X), dtype=bool)
    neighbours = NearestNeighbors(n_neighbors=min(6, len(X))).fit(X)
    distance = neighbours.kneighbors(X)[0][:, -1]
    out = np.zeros(len(X), dtype=bool)
    out[np.argsort(distance, kind="stable")[len(X) - n_lonely :]] = True
    return out
