"""The prior of clusters with a structured covariance."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from cavity.priors.covariance_scale import ScalePrior
from cavity.priors.mean_spread import SpreadPrior


class StructuredPrior(NamedTuple):
    """Starting values of the prior, and the parameters that are learned.

    Attributes
    ----------
    mean : array, shape (d,)
        Center of the clusters' means.
    kappa : float
        Number of observations that the prior of a mean is worth.
    nu : float
        Degrees of freedom of the prior of variances, or of the covariance that clusters share.
    scale : array, shape (d,)
        Mean of the clusters' variances.
    variance, typical, spread
        Priors of learned ones: of the scale, of nu - 2 (its median), of kappa and the center.
    n_held : int
        Sweeps at the beginning in which nothing of it is learned.
    """

    mean: np.ndarray
    kappa: float
    nu: float
    scale: np.ndarray
    variance: ScalePrior | None = None
    typical: float | None = None
    spread: SpreadPrior | None = None
    n_held: int = 0

    @property
    def learned(self) -> tuple[Any, ...]:
        """Arguments of the updates that learn it."""
        return self.mean.size, self.variance, self.typical, self.spread, self.n_held
