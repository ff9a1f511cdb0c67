"""The noise class, and the point estimate of a fit with noise."""

from __future__ import annotations

from typing import Any

import numpy as np

from cavity.estimators.start import neighbour_distances
from cavity.posterior.estimate import Partition
from cavity.posterior.losses import expected_loss
from cavity.posterior.posterior import Posterior
from cavity.posterior.view import outside_probability
from cavity.predict.noise import AUTO
from cavity.utils.progress import say

# With "auto" noise is included if this number and share of rows are isolated. A row is if its
# distance to its neighbors exceeds the upper quartile by this many interquartile ranges, in
# logarithms. Beyond the upper quartile the distances of a heavy-tailed cloud fall off like a power,
# as do those between its quartiles; then one row in a hundred is as far. Distances vary more in a
# single column, where more is asked.
LEAST_ALONE, LEAST_SHARE, ALONE, ALONE_IN_ONE = 2, 0.02, 3.0, 4.0
# Rows that are looked at, evenly spread.
LOOKED_AT = 5_000


def check_noise(noise: Any) -> None:
    """Refuse what is neither True nor False nor "auto"."""
    if not isinstance(noise, bool | np.bool_) and noise != AUTO:
        raise ValueError(f"noise must be True, False or {AUTO!r}, not {noise!r}.")


def rows_alone(standard: np.ndarray) -> np.ndarray:
    """Return which rows are isolated.

    Heavy tails and skewed columns thin out gradually and leave few rows alone; rows that belong
    to nothing lie where there are no others.

    Parameters
    ----------
    standard : array of shape (n, d)
        Complete rows, in robust standard deviations.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> rows = np.vstack([rng.standard_normal((100, 2)), [[9.0, 9.0], [-9.0, 9.0]]])
    >>> np.flatnonzero(rows_alone(rows))
    array([100, 101])
    """
    distance = neighbour_distances(standard)
    low, high = np.quantile(distance, [0.25, 0.75])
    # Distances between repeated rows are uninformative.
    if not 0.0 < low < high:
        return np.zeros(len(standard), dtype=bool)
    far = ALONE if standard.shape[1] > 1 else ALONE_IN_ONE
    return np.log(np.maximum(distance, low) / high) > far * np.log(high / low)


def is_noisy(noise: bool | str, standard: np.ndarray) -> bool:
    """Return whether to include a noise class: as set, or if enough rows are isolated."""
    if isinstance(noise, bool | np.bool_):
        return bool(noise)
    alone = _alone_among_some(standard)
    return int(alone.sum()) >= max(LEAST_ALONE, LEAST_SHARE * alone.size)


def _alone_among_some(standard: np.ndarray) -> np.ndarray:
    """Return which rows are isolated, of at most `LOOKED_AT`."""
    every = -(-len(standard) // LOOKED_AT)
    return rows_alone(standard[::every])


def tell_of_noise(standard: np.ndarray) -> None:
    """Report that a noise class was included because of the data."""
    alone = _alone_among_some(standard)
    rows = "rows" if alone.size == len(standard) else "sampled rows"
    say(
        f"{alone.sum():,} of {alone.size:,} {rows} are far from all others, so the model includes "
        "a noise class (label -1). To assign every row to a cluster, pass noise=False (--no-noise "
        "on the command line)."
    )


def known_partition(posterior: Posterior, labels: np.ndarray) -> Partition:
    """Return a given partition as an estimate, with its expected loss over the draws."""
    draws = posterior.flat_labels
    n = posterior.n_observations
    top = int(labels.max(initial=-1))
    if labels.shape != (n,) or not np.array_equal(np.unique(labels), np.arange(top + 1)):
        raise ValueError("the point estimate in the file is not one of its observations.")
    values = labels.astype(np.int64)
    loss = posterior.loss
    return Partition(values, expected_loss(values, draws, loss=loss), loss, draws)


def with_noise_last(posterior: Posterior, partition: Partition) -> Partition:
    """Return the estimate with noise as its last cluster: rows that are noise in most draws."""
    if not posterior.record.noise:
        return partition
    probability = outside_probability(posterior)
    outside = probability > 0.5
    most = posterior.record.max_clusters
    labels = without_leftovers(
        partition.labels, probability, posterior.flat_labels, None if most is None else most - 1
    )
    labels = np.unique(labels[~outside], return_inverse=True)[1].reshape(-1)
    out = np.full(outside.size, int(labels.max(initial=-1)) + 1)
    out[~outside] = labels
    return known_partition(posterior, out)


def without_leftovers(
    labels: np.ndarray, probability: np.ndarray, draws: np.ndarray, most: int | None = None
) -> np.ndarray:
    """Return labels without clusters that are remnants of noise.

    The search for the estimate ignores noise. It may leave a row with those that are noise
    although most draws have it in a cluster, or make a cluster of rows that are noise now and
    then: such a row goes to the cluster whose rows it is with most often.

    Parameters
    ----------
    labels : array of int, shape (n,)
        An estimate that has noise as a cluster like any other.
    probability : array, shape (n,)
        Probability of each row that it is noise; rows above a half are.
    draws : array of int, shape (draw, n)
    most : int or None
        Clusters that there may be beside noise.

    Examples
    --------
    >>> draws = np.array([[1, 1, 1, 0, 0], [1, 1, 0, 0, 0], [1, 1, 1, 0, 0]])
    >>> without_leftovers(np.array([0, 0, 1, 1, 1]), (draws == 0).mean(axis=0), draws)
    array([0, 0, 0, 1, 1])
    """
    outside = probability > 0.5
    inside = np.bincount(labels[~outside], minlength=labels.max() + 1)
    noise = np.bincount(labels[outside], minlength=labels.max() + 1)
    clusters = np.flatnonzero(inside > noise)
    if most is not None and clusters.size > most:
        share = np.bincount(labels, probability) / np.bincount(labels)
        clusters = np.sort(clusters[np.argsort(share[clusters], kind="stable")[:most]])
    left = np.flatnonzero(~outside & ~np.isin(labels, clusters))
    if not (clusters.size and left.size):
        return labels
    out = labels.copy()
    for i in left:
        together = (draws == draws[:, [i]]).mean(axis=0)
        shares = [together[(labels == k) & ~outside].mean() for k in clusters]
        out[i] = clusters[int(np.argmax(shares))]
    return out
