"""Where a chain starts: labels from k-means, at random, or as given."""

from __future__ import annotations

from typing import Any

import numpy as np

# k-means is fitted to at most so many rows; the others go to their nearest centre.
FITTED_ROWS = 20_000


def initial_labels(
    X: np.ndarray, n_clusters: int, init: Any, rng: np.random.Generator
) -> np.ndarray:
    """Labels to start one chain from.

    Parameters
    ----------
    X : array of shape (n, d)
        Standardised data.
    n_clusters : int
    init : {"kmeans++", "random"} or array of labels
        k-means from one k-means++ seeding of this chain's own, labels drawn uniformly, or these
        labels.
    rng : numpy.random.Generator
    """
    if not isinstance(init, str):
        return np.asarray(init)
    if init == "random" or n_clusters == 1:
        return rng.integers(n_clusters, size=len(X))
    from sklearn.cluster import KMeans

    # Far outliers would each take a centre: k-means sees them pulled in to ten robust deviations.
    calm = np.clip(X, -10.0, 10.0)
    some = calm
    if len(X) > FITTED_ROWS:
        some = calm[rng.choice(len(X), FITTED_ROWS, replace=False)]
    n_distinct = len(np.unique(some, axis=0))
    model = KMeans(min(n_clusters, n_distinct), n_init=1, random_state=int(rng.integers(2**31)))
    return model.fit(some).predict(calm)
