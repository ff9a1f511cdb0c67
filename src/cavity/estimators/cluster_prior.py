"""Prior of each cluster's mean and covariance, in standardised units, and its defaults."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from cavity.priors.cluster import NIWPrior
from cavity.priors.covariance_scale import DIAGONAL, FULL, scale_prior
from cavity.priors.hyperpriors import ClusterHyperpriors
from cavity.priors.mean_spread import SpreadPrior
from cavity.updates import Update

# Prior median of nu - d - 1, where it is learned, and where it starts: with shapes of their own.
TYPICAL_SPARE, SPARE_START = 10.0, 1.0
# A learned scale: shape of the gamma priors of a diagonal, and degrees of freedom of a full
# matrix's Wishart beyond the number of columns.
DIAGONAL_SHAPE = 5.0
FULL_SPARE = 2.0
# What it is around, as a share of a column's robust variance: its prior median, and the tails.
TYPICAL_SHARE, SHARE_TAIL = 0.1, 0.5
# Shape and rate of a learned strength of the means' prior; prior spread of their centre.
STRENGTH_SHAPE, STRENGTH_RATE = 0.5, 5.0
CENTRE_SPREAD = 1.0
# Where a learned strength starts.
STRENGTH_START = 0.05


class ClusterPrior(NamedTuple):
    """Where the prior of a cluster's parameters starts, and what learns it."""

    niw: NIWPrior
    updates: tuple[Update, ...] = ()


def cluster_prior(
    d: int,
    n_clusters: int,
    strength: float | str,
    df: float | str,
    scale: float | str,
    n_held: int = 0,
) -> ClusterPrior:
    """Normal inverse Wishart prior of clusters of standardised data with d columns.

    Parameters
    ----------
    d, n_clusters : int
    strength : float or "learn"
        How many observations the prior of the mean is worth. Learned, the centre is too.
    df : float or "learn"
        Degrees of freedom of the inverse Wishart.
    scale : float, "full" or "diagonal"
        Prior mean of a cluster's variance in every column; or learn a covariance matrix, or one
        variance per column.
    n_held : int
        Sweeps at the beginning in which nothing is learned.
    """
    start = starting_scale(n_clusters, d) if isinstance(scale, str) else float(scale)
    typical_share = np.full(d, TYPICAL_SHARE)
    learned_scale = None
    if scale == "full":
        learned_scale = scale_prior(FULL, d + FULL_SPARE, typical_share, SHARE_TAIL)
    elif scale == "diagonal":
        learned_scale = scale_prior(DIAGONAL, DIAGONAL_SHAPE, typical_share, SHARE_TAIL)
    typical = TYPICAL_SPARE if isinstance(df, str) else None
    nu = d + 1.0 + SPARE_START if isinstance(df, str) else float(df)
    if not nu > d + 1.0:
        raise ValueError(
            f"covariance_prior_df must exceed the number of columns plus 1 ({d + 1}), not {df!r}."
        )
    spread = None
    kappa = STRENGTH_START if isinstance(strength, str) else float(strength)
    if isinstance(strength, str):
        spread = SpreadPrior(STRENGTH_SHAPE, STRENGTH_RATE, CENTRE_SPREAD)
    niw = NIWPrior(np.zeros(d), kappa, nu, start * (nu - d - 1.0) * np.eye(d))
    if learned_scale is None and typical is None and spread is None:
        return ClusterPrior(niw)
    return ClusterPrior(niw, (ClusterHyperpriors(d, learned_scale, typical, spread, n_held),))


def starting_scale(n_clusters: int, d: int) -> float:
    """A cluster's share of a column's variance at the start, until it is learned.

    That of clusters side by side that fill the space, times a factor for the gaps between them. It
    is no part of the prior, which would depend on the number of clusters that are allowed.

    Examples
    --------
    >>> round(starting_scale(25, 2), 9)
    0.008
    """
    return float(d / (d + 8.0) * n_clusters ** (-2.0 / d))
