"""The scale of the clusters' covariances, learned: one per column, shared by the clusters.

Sigma_k ~ IW(nu, diag(psi)), psi_j ~ Gamma(shape, rate_j) above a floor. Given the covariances of
the occupied clusters, the psi_j are independent gammas, above the same floor:

    psi_j | Sigma ~ Gamma(shape + K nu / 2, rate_j + sum over clusters of (Sigma_k^-1)_jj / 2).

Without this the prior has to be told how tight the clusters are against their spread, and a
guess that is far too wide makes clusters look Gaussian that are not. Without the floor, a cluster
that has a single value in some column would drive that column's scale to nothing.
"""

from __future__ import annotations

import numpy as np
from scipy.special import gammaincc, gammainccinv, gammaln

from cavity.families.normal_inverse_wishart import pack, unpack
from cavity.updates import CLUSTER_PRIOR, Chain, Update


def gamma_above(
    floor: np.ndarray, shape: float, rate: np.ndarray, rng: np.random.Generator
) -> np.ndarray:
    """Draws from gamma distributions given that each exceeds its floor, by the inverse tail.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> x = gamma_above(np.array([0.0, 50.0]), 2.0, np.array([1.0, 1.0]), rng)
    >>> bool(x[1] > 50.0)
    True
    """
    u = 1.0 - rng.random(floor.size)
    tail = gammaincc(shape, rate * floor)
    x = np.maximum(gammainccinv(shape, u * tail) / rate, floor)
    # So far out that the tail has no number, it falls off as an exponential does.
    far = tail < 1e-200
    x[far] = floor[far] - np.log(u[far]) / (rate[far] - (shape - 1.0) / floor[far])
    return x


class CovarianceScaleUpdate(Update):
    """Draws the diagonal of the inverse Wishart's scale matrix.

    Parameters
    ----------
    shape : float
        Shape of the gamma prior.
    mean : array of d floats
        Its mean in each column, before it is cut at the floor.
    floor : array of d floats
        The least that each may be.
    """

    name = "covariance_scale"
    changes = frozenset({CLUSTER_PRIOR})

    def __init__(self, shape: float, mean: np.ndarray, floor: np.ndarray) -> None:
        self.shape = shape
        self.mean = np.asarray(mean, dtype=float)
        self.floor = np.asarray(floor, dtype=float)

    def draw(self, chain: Chain, rng: np.random.Generator) -> None:
        """Draw the scales given the occupied clusters' covariances; set the family's prior."""
        occupied = chain.counts > 0
        centre, kappa, nu, _ = unpack(chain.family.prior, self.mean.size)
        # Sigma^-1 = B'B, whose diagonal is the sum of squares down the columns of B.
        precision = np.square(chain.parameters.whiten[:, :, occupied]).sum(axis=(0, 2))
        shape = self.shape + 0.5 * nu * np.count_nonzero(occupied)
        rate = self.shape / self.mean + 0.5 * precision
        psi = gamma_above(self.floor, shape, rate, rng)
        chain.family.prior[:] = pack(centre, kappa, nu, np.diag(psi))

    def log_density(self, chain: Chain) -> float:
        """Of the scales under their gamma priors above the floors."""
        psi = np.diag(unpack(chain.family.prior, self.mean.size)[3])
        rate = self.shape / self.mean
        value = self.shape * np.log(rate) - gammaln(self.shape) + (self.shape - 1.0) * np.log(psi)
        value -= rate * psi
        value -= np.log(np.maximum(gammaincc(self.shape, rate * self.floor), 1e-300))
        return float(value.sum())

    def record(self, chain: Chain) -> dict[str, np.ndarray]:
        """Prior mean of a cluster's variance in each column."""
        _, _, nu, psi = unpack(chain.family.prior, self.mean.size)
        return {"covariance_prior_scale": np.diag(psi) / (nu - self.mean.size - 1.0)}
