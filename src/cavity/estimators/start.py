"""Where a chain starts: labels from k-means, at random, or as given."""

from __future__ import annotations

from typing import Any

import numpy as np


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
    import warnings

    from sklearn.cluster import KMeans
    from sklearn.exceptions import ConvergenceWarning

    # Far outliers would each take a centre: k-means sees them pulled in to ten robust deviations.
    calm = np.clip(X, -10.0, 10.0)
    with warnings.catch_warnings():
        # Fewer distinct rows than clusters: k-means says so; the sampler does not mind.
        warnings.simplefilter("ignore", ConvergenceWarning)
        return KMeans(n_clusters, n_init=1, random_state=int(rng.integers(2**31))).fit_predict(calm)
