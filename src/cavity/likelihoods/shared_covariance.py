"""The covariance that all clusters share, drawn given labels and scales.

Sigma ~ IW(nu, Psi) and mean_k ~ N(centre, Sigma / kappa): with the means integrated out,

    Sigma | rest ~ IW(nu + number of rows, Psi + sum over clusters of
                      sum of s_i (y_i - ybar)(y_i - ybar)' + kappa S / (kappa + S) e e'),

ybar the mean of a cluster's rows weighed by their scales, S the sum of these, e = ybar - centre.
"""

from __future__ import annotations

import math

import numpy as np
from scipy.special import multigammaln

from cavity.conjugate.normal import set_tied
from cavity.updates import LIKELIHOOD, Chain, Update


class TiedCovarianceUpdate(Update):
    """Draws the covariance of all clusters.

    Parameters
    ----------
    nu : float
        Degrees of freedom of its prior.
    psi : array, shape (d,)
        Diagonal of the prior's matrix.
    """

    name = "covariance"
    changes = frozenset({LIKELIHOOD})
    first = True

    def __init__(self, nu: float, psi: np.ndarray) -> None:
        self.nu, self.psi = nu, psi

    def draw(self, chain: Chain, rng: np.random.Generator) -> None:
        """Draw it with the clusters' means integrated out."""
        rows, q = chain.model, chain.family
        inside = chain.z != rows.noise_slot[0]
        z, y, s = chain.z[inside], rows.y[inside], rows.scale[inside]
        kappa, centre = q.prior[0], q.prior[1:] / q.prior[0]
        size = _sums(z, s, chain.counts.size)
        total = np.zeros((chain.counts.size, y.shape[1]))
        np.add.at(total, z, s[:, None] * y)
        used = size > 0.0
        total[used] /= size[used, None]
        away = (y - total[z]) * np.sqrt(s)[:, None]
        shift = (total - centre)[used] * np.sqrt(kappa * size / (kappa + size))[used, None]
        psi = np.diag(self.psi) + away.T @ away + shift.T @ shift
        df = self.nu + rows.weight[inside].sum()
        # Sigma = L (A A')^-1 L' with A lower triangular, A A' a standard Wishart (Bartlett).
        d = len(psi)
        bartlett = np.tril(rng.standard_normal((d, d)), -1)
        np.fill_diagonal(bartlett, np.sqrt(2.0 * rng.standard_gamma(0.5 * (df - np.arange(d)))))
        half = np.linalg.solve(bartlett, np.linalg.cholesky(psi).T)
        sigma = half.T @ half
        for covariance in (q.covariance, chain.parameters.covariance):
            set_tied(covariance, sigma)

    def log_density(self, chain: Chain) -> float:
        """Of the covariance under its prior."""
        return inverse_wishart_log_density(_sigma(chain), self.nu, self.psi)

    def record(self, chain: Chain) -> dict[str, np.ndarray]:
        """The covariance."""
        return {"shared_covariance": _sigma(chain)}


def inverse_wishart_log_density(sigma: np.ndarray, nu: float, psi: np.ndarray) -> float:
    """Log density of an inverse Wishart distribution with a diagonal matrix, psi.

    Examples
    --------
    >>> from scipy import stats
    >>> sigma = np.array([[2.0, 0.3], [0.3, 1.0]])
    >>> expected = stats.invwishart.logpdf(sigma, 4.0, np.diag([1.0, 2.0]))
    >>> bool(np.isclose(inverse_wishart_log_density(sigma, 4.0, np.array([1.0, 2.0])), expected))
    True
    """
    d = psi.size
    value = 0.5 * nu * (np.log(psi).sum() - d * math.log(2.0)) - multigammaln(0.5 * nu, d)
    value -= 0.5 * (nu + d + 1.0) * np.linalg.slogdet(sigma)[1]
    return float(value - 0.5 * (np.diag(np.linalg.inv(sigma)) * psi).sum())


def _sums(z: np.ndarray, s: np.ndarray, n_slots: int) -> np.ndarray:
    """Sum of the scales of every slot's rows."""
    return np.bincount(z, s, n_slots)


def _sigma(chain: Chain) -> np.ndarray:
    whiten = chain.family.covariance.whiten
    half = np.linalg.solve(whiten, np.eye(len(whiten)))
    return half @ half.T
