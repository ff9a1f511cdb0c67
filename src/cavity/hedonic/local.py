"""What a region adds to the global price: each local model gives means and variances of logs.

In `rows`, ``region`` is a position among the regions of the fit.
"""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np

from cavity.hedonic.regression import RegressionDraws, sample_regressions


class LocalFit(Protocol):
    """A fitted local part."""

    def effect(self, rows: Any) -> tuple[np.ndarray, np.ndarray]:
        """Posterior mean and variance of the local part of each row."""

    def noise(self, rows: Any) -> np.ndarray:
        """Variance of a single sale about it."""


class NoLocal:
    """Nothing is local: every region follows the global price."""

    def __init__(self, sd: float) -> None:
        self._var = sd**2

    def effect(self, rows: Any) -> tuple[np.ndarray, np.ndarray]:
        """Zero, for certain."""
        return np.zeros(len(rows.region)), np.zeros(len(rows.region))

    def noise(self, rows: Any) -> np.ndarray:
        """Variance about the global part."""
        return np.full(len(rows.region), self._var)


class RegionRegressions:
    """Regressions of the regions, from posterior draws.

    Attributes
    ----------
    draws : RegressionDraws
    """

    def __init__(self, draws: RegressionDraws, *, region_level: bool) -> None:
        self.draws = draws
        self.region_level = region_level
        self._mean = draws.beta.mean(axis=0)
        centred = draws.beta - self._mean
        self._cov = np.einsum("dip,diq->ipq", centred, centred) / len(centred)
        self._noise = draws.noise.mean(axis=0)

    @classmethod
    def fit(
        cls, rows: Any, residual: np.ndarray, n_regions: int, *, region_level: bool, **sampling: Any
    ) -> RegionRegressions:
        """Sample the regressions of what the global part leaves."""
        draws = sample_regressions(
            _design(rows.splines, region_level), residual, rows.region, n_regions, **sampling
        )
        return cls(draws, region_level=region_level)

    def effect(self, rows: Any) -> tuple[np.ndarray, np.ndarray]:
        """Posterior mean and variance of the regression."""
        U = _design(rows.splines, self.region_level)
        mean = np.einsum("np,np->n", U, self._mean[rows.region])
        var = np.einsum("np,npq,nq->n", U, self._cov[rows.region], U, optimize=True)
        return mean, var

    def noise(self, rows: Any) -> np.ndarray:
        """Posterior mean of the noise variance of the region."""
        return self._noise[rows.region]


def _design(splines: np.ndarray, region_level: bool) -> np.ndarray:
    if not region_level:
        return splines
    return np.column_stack([np.ones(len(splines)), splines])
