"""Prior of each cluster's mean and covariance."""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Real

import numpy as np

from cavity.priors import covariance_scale
from cavity.priors.cluster import NIWPrior
from cavity.priors.mean_spread import SpreadPrior
from cavity.priors.structured import StructuredPrior
from cavity.updates import Update

# Prior median of nu - d - 1, where it is learned, and where it starts: with shapes of their own.
TYPICAL_SPARE, SPARE_START = 10.0, 1.0
# A learned scale: shape of the gamma priors of a diagonal, and degrees of freedom of a full
# matrix's Wishart beyond the number of columns.
DIAGONAL_SHAPE = 5.0
FULL_SPARE = 2.0
# What it is around, as a share of a column's robust variance: its prior median, and the tails.
TYPICAL_SHARE, SHARE_TAIL = 0.1, 0.5
# Shape and rate of a learned strength of the means' prior; prior spread of their center.
STRENGTH_SHAPE, STRENGTH_RATE = 0.5, 5.0
CENTRE_SPREAD = 1.0
# Where a learned strength starts.
STRENGTH_START = 0.05


LEARN, FULL, DIAGONAL = "learn", "full", "diagonal"


@dataclass(frozen=True)
class ClusterPrior:
    """Prior of each cluster's mean and covariance: normal inverse Wishart, or its like.

    Data are in robust standard deviations from their column's median here.

    Parameters
    ----------
    mean_strength : "learn" or float
        Number of observations that the prior of a mean is worth (kappa), learned together
        with the center of the means, or fixed around the middle of the data.
    covariance_df : "learn" or float
        Degrees of freedom of the inverse Wishart prior (nu): the larger, the more alike the
        clusters' covariances. A fixed one must exceed the number of columns plus 1.
    covariance_scale : {"full", "diagonal"} or float
        Mean of the clusters' covariances: learned as a matrix, or as one variance per column; or
        fixed, as a share of each column's robust variance.

    Examples
    --------
    >>> ClusterPrior(covariance_df=6.0)
    ClusterPrior(mean_strength='learn', covariance_df=6.0, covariance_scale='full')
    >>> ClusterPrior(mean_strength=-1)
    Traceback (most recent call last):
    ...
    ValueError: cluster_prior.mean_strength must be 'learn' or a number from 1e-12 to 1e+12, not -1.
    """

    mean_strength: float | str = LEARN
    covariance_df: float | str = LEARN
    covariance_scale: float | str = FULL

    def __post_init__(self) -> None:
        """Refuse values out of range."""
        for name, low, high, words in (
            ("mean_strength", 1e-12, 1e12, (LEARN,)),
            ("covariance_df", 1.0, 1e9, (LEARN,)),
            ("covariance_scale", 1e-12, 1e12, (FULL, DIAGONAL)),
        ):
            value = getattr(self, name)
            if isinstance(value, str) and value in words:
                continue
            number = isinstance(value, Real) and not isinstance(value, bool)
            if isinstance(value, str) or not number or not low <= value <= high:
                choices = ", ".join(map(repr, words))
                raise ValueError(
                    f"cluster_prior.{name} must be {choices} or a number from {low:g} to {high:g}, "
                    f"not {value!r}."
                )

    def full(self, d: int, n_clusters: int, n_held: int = 0) -> tuple[NIWPrior, tuple[Update, ...]]:
        """Return the prior of full covariances, or where it starts, and the updates that learn it.

        Parameters
        ----------
        d : int
            Columns.
        n_clusters : int
        n_held : int
            Sweeps at the beginning in which nothing is learned.
        """
        scale, df = self.covariance_scale, self.covariance_df
        start = starting_scale(n_clusters, d) if isinstance(scale, str) else float(scale)
        typical_share = np.full(d, TYPICAL_SHARE)
        learned_scale = None
        if scale == FULL:
            learned_scale = covariance_scale.scale_prior(
                covariance_scale.FULL, d + FULL_SPARE, typical_share, SHARE_TAIL
            )
        elif scale == DIAGONAL:
            learned_scale = covariance_scale.scale_prior(
                covariance_scale.DIAGONAL, DIAGONAL_SHAPE, typical_share, SHARE_TAIL
            )
        typical = TYPICAL_SPARE if isinstance(df, str) else None
        nu = d + 1.0 + SPARE_START if isinstance(df, str) else float(df)
        if not nu > d + 1.0:
            raise ValueError(
                f"cluster_prior.covariance_df must exceed the number of columns plus 1 ({d + 1}), "
                f"not {df!r}."
            )
        kappa, spread = self._strength()
        niw = NIWPrior(np.zeros(d), kappa, nu, start * (nu - d - 1.0) * np.eye(d))
        if learned_scale is None and typical is None and spread is None:
            return niw, ()
        # Its kernels are for full covariances.
        from cavity.priors.hyperpriors import ClusterHyperpriors

        return niw, (ClusterHyperpriors(d, learned_scale, typical, spread, n_held),)

    def structured(
        self, d: int, n_clusters: int, covariance_type: str, n_held: int = 0
    ) -> StructuredPrior:
        """Return the prior of diagonal, tied or factor covariances.

        Where clusters share their covariance, neither its degrees of freedom nor its mean can be
        learned from one matrix: they are held at what is typical.
        """
        scale, df = self.covariance_scale, self.covariance_df
        shared = covariance_type == "tied"
        start = starting_scale(n_clusters, d) if isinstance(scale, str) else float(scale)
        least = d + 1.0 if shared else 2.0
        nu = least + SPARE_START if isinstance(df, str) else float(df)
        if not nu > least:
            words = f"the number of columns plus 1 ({d + 1})" if shared else "2"
            raise ValueError(
                f"cluster_prior.covariance_df must exceed {words} with "
                f"covariance_type={covariance_type!r}, not {df!r}."
            )
        learned = isinstance(scale, str) and not shared
        kappa, spread = self._strength()
        return StructuredPrior(
            mean=np.zeros(d),
            kappa=kappa,
            nu=nu,
            scale=np.full(d, TYPICAL_SHARE if shared and isinstance(scale, str) else start),
            variance=covariance_scale.scale_prior(
                covariance_scale.DIAGONAL, DIAGONAL_SHAPE, np.full(d, TYPICAL_SHARE), SHARE_TAIL
            )
            if learned
            else None,
            typical=TYPICAL_SPARE if isinstance(df, str) and not shared else None,
            spread=spread,
            n_held=n_held,
        )

    def _strength(self) -> tuple[float, SpreadPrior | None]:
        """Return the strength of the means' prior, and the update that learns it."""
        if isinstance(self.mean_strength, str):
            return STRENGTH_START, SpreadPrior(STRENGTH_SHAPE, STRENGTH_RATE, CENTRE_SPREAD)
        return float(self.mean_strength), None


def starting_scale(n_clusters: int, d: int) -> float:
    """Return a cluster's share of a column's variance at the start, until it is learned.

    Share of adjacent clusters that fill the space, times a factor for the gaps between them. It
    is no part of the prior, which would depend on the number of clusters that are allowed.

    Examples
    --------
    >>> round(starting_scale(25, 2), 9)
    0.008
    """
    return float(d / (d + 8.0) * n_clusters ** (-2.0 / d))
