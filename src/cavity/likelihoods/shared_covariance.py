"""The covariance that all clusters share, drawn given labels and scales.

Sigma ~ IW(nu, Psi) and mean_k ~ N(centre, Sigma / kappa): with the means integrated out,

    Sigma | rest ~ IW(nu + number of rows, Psi + sum over clusters of
                      sum of s_i (y_i - ybar)(y_i - ybar)' + kappa S / (kappa + S) e e'),

ybar the mean of a cluster's rows weighed by their scales, S the sum of these, e = ybar - centre.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from cavity._numba.jit import jit
from cavity._numba.linalg import cholesky_in_place
from cavity.conjugate.niw import log_multigamma
from cavity.conjugate.normal import invert_lower, set_tied
from cavity.interface import log_weight, show, step
from cavity.updates import LIKELIHOOD, Chain, Update


class TiedStep(NamedTuple):
    """`TiedCovarianceUpdate` for kernels."""

    nu: float
    psi: np.ndarray  # (d,)
    size: np.ndarray  # (slots,), sums of the scales of the slots' rows
    mean: np.ndarray  # (slots, d), means of the rows weighed by their scales
    room: np.ndarray  # (3, d, d)
    away: np.ndarray  # (d,)


@jit(internal=True)
def weighed_means(rows, z, size, mean):
    """Sum the scales of every slot's rows, and average the rows; return the weight of all."""
    d = rows.y.shape[1]
    noise = rows.noise_slot[0]
    size[:] = 0.0
    mean[:] = 0.0
    total = 0.0
    for i in range(z.shape[0]):
        k = z[i]
        if k != noise:
            total += rows.weight[i]
            size[k] += rows.scale[i]
            for c in range(d):
                mean[k, c] += rows.scale[i] * rows.y[i, c]
    for k in range(size.shape[0]):
        if size[k] > 0.0:
            for c in range(d):
                mean[k, c] /= size[k]
    return total


@jit(internal=True)
def _add_square(psi, away, weight):
    """Add the weighed outer product of a vector with itself, below the diagonal."""
    for r in range(away.shape[0]):
        for c in range(r + 1):
            psi[r, c] += weight * away[r] * away[c]


@step.register(TiedStep)
def _(update, model, family, parameters, prior, z, counts, rng):
    q, size, mean, away = family, update.size, update.mean, update.away
    psi, bartlett, half = update.room[0], update.room[1], update.room[2]
    d = away.shape[0]
    df = update.nu + weighed_means(model, z, size, mean)
    psi[:] = 0.0
    for c in range(d):
        psi[c, c] = update.psi[c]
    for i in range(z.shape[0]):
        if z[i] != model.noise_slot[0]:
            for c in range(d):
                away[c] = model.y[i, c] - mean[z[i], c]
            _add_square(psi, away, model.scale[i])
    kappa = q.prior[0]
    for k in range(size.shape[0]):
        if size[k] > 0.0:
            for c in range(d):
                away[c] = mean[k, c] - q.prior[1 + c] / kappa
            _add_square(psi, away, kappa * size[k] / (kappa + size[k]))
    if not cholesky_in_place(psi):
        return 1
    # Sigma = L (A A')^-1 L' with A lower triangular, A A' a standard Wishart (Bartlett).
    for r in range(d):
        for c in range(d):
            bartlett[r, c] = rng.standard_normal()
    for c in range(d):
        bartlett[c, c] = math.sqrt(2.0 * rng.standard_gamma(0.5 * (df - c)))
    for c in range(d):
        for r in range(d):
            s = psi[c, r] if r <= c else 0.0
            for m in range(r):
                s -= bartlett[r, m] * half[m, c]
            half[r, c] = s / bartlett[r, r]
    for r in range(d):
        for c in range(r + 1):
            s = 0.0
            for m in range(d):
                s += half[m, r] * half[m, c]
            psi[r, c] = s
    set_tied(q.covariance, psi)
    for r in range(d):
        for c in range(r + 1):
            parameters.covariance.whiten[r, c] = q.covariance.whiten[r, c]
    parameters.covariance.half_log_det[0] = q.covariance.half_log_det[0]
    return 0


@jit
def inverse_wishart_log_density(whiten, half_log_det, nu, psi):
    """Log density of a covariance matrix under an inverse Wishart prior with a diagonal matrix.

    Parameters
    ----------
    whiten : array, shape (d, d)
        Lower triangular W: the inverse of the covariance matrix is W'W.
    half_log_det : float
        Half the log determinant of the covariance matrix.
    nu : float
    psi : array, shape (d,)

    Examples
    --------
    >>> from scipy import stats
    >>> sigma, psi = np.array([[2.0, 0.3], [0.3, 1.0]]), np.array([1.0, 2.0])
    >>> root = np.linalg.cholesky(sigma)
    >>> half_log_det = np.log(np.diag(root)).sum()
    >>> found = inverse_wishart_log_density(np.linalg.inv(root), half_log_det, 4.0, psi)
    >>> bool(np.isclose(found, stats.invwishart.logpdf(sigma, 4.0, np.diag(psi))))
    True
    """
    d = psi.shape[0]
    value = -0.5 * nu * d * math.log(2.0) - log_multigamma(0.5 * nu, d)
    value -= (nu + d + 1.0) * half_log_det
    for c in range(d):
        inverse = 0.0
        for r in range(c, d):
            inverse += whiten[r, c] * whiten[r, c]
        value += 0.5 * (nu * math.log(psi[c]) - inverse * psi[c])
    return value


@log_weight.register(TiedStep)
def _(update, model, family, parameters, prior, counts):
    own = family.covariance
    return inverse_wishart_log_density(own.whiten, own.half_log_det[0], update.nu, update.psi)


@show.register(TiedStep)
def _(update, model, family, parameters, prior, counts, out):
    root = update.room[0]
    d = root.shape[0]
    invert_lower(family.covariance.whiten, root)
    for r in range(d):
        for c in range(d):
            s = 0.0
            for m in range(min(r, c) + 1):
                s += root[r, m] * root[c, m]
            out[r * d + c] = s
    return d * d


class TiedCovarianceUpdate(Update):
    """Draws the covariance of all clusters, with the clusters' means integrated out.

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

    def explain(self, failure: int) -> str:
        """Return what could not be drawn, and the way out."""
        return (
            "The clusters' covariance cannot be drawn: it is singular. Leave out columns that "
            "repeat others, or limit large sample_weight."
        )

    def kernel(self, chain: Chain) -> TiedStep:
        """Return it for kernels."""
        d, n_slots = self.psi.size, chain.counts.size
        room = np.empty(n_slots), np.empty((n_slots, d)), np.empty((3, d, d)), np.empty(d)
        return TiedStep(float(self.nu), self.psi, *room)

    def shapes(self, chain: Chain) -> dict[str, tuple[int, ...]]:
        """Return the shape of the covariance."""
        return {"shared_covariance": (self.psi.size, self.psi.size)}
