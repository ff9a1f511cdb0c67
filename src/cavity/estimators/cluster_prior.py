"""Prior of each cluster's mean and covariance, in standardised units, and its defaults."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from cavity.priors.cluster import NIWPrior
from cavity.priors.covariance_scale import CovarianceScaleUpdate
from cavity.updates import Update

# A learned scale has a gamma prior of this shape around the expected one. Its tail holds large
# scales back and small ones not at all: clusters may be as tight as they like.
SCALE_SHAPE = 5.0
# The least scale, where the data were not recorded more coarsely.
SCALE_FLOOR = 1e-6


class ClusterPrior(NamedTuple):
    """Where the prior of a cluster's parameters starts, and what learns it."""

    niw: NIWPrior
    updates: tuple[Update, ...] = ()


def cluster_prior(
    X: np.ndarray, n_clusters: int, strength: float, df: float | None, scale: float | str
) -> ClusterPrior:
    """Normal inverse Wishart prior for the standardised data X.

    Parameters
    ----------
    X : array of shape (n, d)
    n_clusters : int
    strength : float
        How many observations the prior of the mean is worth.
    df : float or None
        Degrees of freedom of the inverse Wishart; d + 2 by default.
    scale : float or "learn"
        Prior mean of a cluster's variance.
    """
    d = X.shape[1]
    nu = d + 2.0 if df is None else float(df)
    if not nu > d + 1.0:
        raise ValueError(
            f"covariance_prior_df must exceed the number of columns plus 1 ({d + 1}), not {df!r}."
        )
    spare = nu - d - 1.0  # psi over the prior mean of a variance
    if scale != "learn":
        return ClusterPrior(_niw(np.full(d, float(scale)), strength, nu))
    floor = np.maximum(recording_variance(X), SCALE_FLOOR)
    mean = expected_scale(n_clusters, d)
    start = np.maximum(mean, floor)
    update = CovarianceScaleUpdate(SCALE_SHAPE, np.full(d, spare * mean), spare * floor)
    return ClusterPrior(_niw(start, strength, nu), (update,))


def _niw(variance: np.ndarray, strength: float, nu: float) -> NIWPrior:
    d = variance.size
    return NIWPrior(np.zeros(d), float(strength), nu, np.diag(variance) * (nu - d - 1.0))


def expected_scale(n_clusters: int, d: int) -> float:
    """A cluster's share of a column's variance before any data, where a learned scale starts.

    That of clusters side by side that fill the space, times a factor for the gaps between them.

    Examples
    --------
    >>> round(expected_scale(25, 2), 9)
    0.008
    """
    return float(d / (d + 8.0) * n_clusters ** (-2.0 / d))


def recording_variance(X: np.ndarray) -> np.ndarray:
    """Variance within one step of the values that each column was recorded with.

    The step is the smallest gap between distinct values, rounding errors apart: one for counts,
    next to nothing for measurements. A cluster cannot be known to be tighter. The answer is at
    most one, the variance of a standardised column; a column of one value has no step and gets
    that.

    Examples
    --------
    >>> recording_variance(np.array([[0.0, 0.5], [1.0, 0.5], [3.0, 0.5]])).round(4).tolist()
    [0.0833, 1.0]
    """
    out = np.ones(X.shape[1])
    for j, column in enumerate(X.T):
        gaps = np.diff(np.unique(column))
        # Held against the bulk of the column: one absurd value must not make real gaps look
        # like rounding errors.
        low, high = np.quantile(column, [0.25, 0.75])
        bulk = high - low if high > low else gaps.sum()
        gaps = gaps[gaps > 1e-9 * bulk]
        if gaps.size:
            out[j] = min(gaps.min() ** 2 / 12.0, 1.0)
    return out
