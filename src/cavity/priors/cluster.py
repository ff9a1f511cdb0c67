"""Prior of a cluster's mean and covariance, and parameters that clusters share.

mean_k ~ N(center, Sigma_k / kappa), Sigma_k ~ IW(nu, (nu - d - 1) S): S is the mean of the
clusters' covariances, whatever nu. Each of S, nu, and (kappa, center) may be learned; one file has
each.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from cavity._numba.jit import jit
from cavity.conjugate.niw import unpack

# Shape and rate of the gamma prior of degrees of freedom.
DF_PRIOR = (2.0, 0.1)


class NIWPrior(NamedTuple):
    """Normal inverse Wishart: NIW(mean, kappa, nu, psi)."""

    mean: np.ndarray
    kappa: float
    nu: float
    psi: np.ndarray


class Common(NamedTuple):
    """Parameters that clusters share, and sufficient statistics of the clusters."""

    centre: np.ndarray  # (d,)
    kappa: np.ndarray  # (1,)
    nu: np.ndarray  # (1,)
    scale: np.ndarray  # (d, d), S
    precision: np.ndarray  # (d, d), sum over occupied clusters of Sigma_k^-1
    weighed: np.ndarray  # (d,), sum of Sigma_k^-1 mean_k
    log_dets: np.ndarray  # (1,), sum of log|Sigma_k|
    n_clusters: np.ndarray  # (1,)
    work: np.ndarray  # (2, d, d)


def common_of(natural: np.ndarray, d: int) -> Common:
    """Read a family's packed prior, and allocate the rest."""
    centre, kappa, nu, psi = unpack(natural, d)
    return Common(
        centre,
        np.array([kappa]),
        np.array([nu]),
        psi / (nu - d - 1.0),
        np.zeros((d, d)),
        np.zeros(d),
        np.zeros(1),
        np.zeros(1, dtype=np.int64),
        np.zeros((2, d, d)),
    )


@jit(internal=True)
def read_psi(natural, out):
    """Lower triangle of the scale matrix in a row of natural parameters."""
    d = out.shape[0]
    position = 2 + d
    for r in range(d):
        for c in range(r + 1):
            out[r, c] = natural[position] - natural[2 + r] * natural[2 + c] / natural[0]
            position += 1


@jit(internal=True)
def read_prior(common, natural):
    """Read the hyperparameters from a family's packed prior."""
    d = common.centre.shape[0]
    kappa, nu = natural[0], natural[1]
    common.kappa[0] = kappa
    common.nu[0] = nu
    read_psi(natural, common.scale)
    for r in range(d):
        common.centre[r] = natural[2 + r] / kappa
        for c in range(r + 1):
            common.scale[r, c] /= nu - d - 1.0
            common.scale[c, r] = common.scale[r, c]


@jit(internal=True)
def read_common(common, natural, parameters, counts):
    """Read hyperparameters and statistics from the packed prior and the occupied clusters."""
    read_prior(common, natural)
    d = common.centre.shape[0]
    for r in range(d):
        common.weighed[r] = 0.0
        for c in range(r + 1):
            common.precision[r, c] = 0.0
    common.log_dets[0] = 0.0
    common.n_clusters[0] = 0
    for k in range(counts.shape[0]):
        if counts[k] == 0:
            continue
        common.n_clusters[0] += 1
        common.log_dets[0] += 2.0 * parameters.half_log_det[k]
        for j in range(d):  # Sigma^-1 = B'B, and row j of B ends at its diagonal
            own = 0.0
            for c in range(j + 1):
                own += parameters.whiten[j, c, k] * parameters.mean[c, k]
            for r in range(j + 1):
                b = parameters.whiten[j, r, k]
                common.weighed[r] += b * own
                for c in range(r + 1):
                    common.precision[r, c] += b * parameters.whiten[j, c, k]
    for r in range(d):
        for c in range(r):
            common.precision[c, r] = common.precision[r, c]


@jit(internal=True)
def write_common(common, natural):
    """Write the hyperparameters to a family's packed prior."""
    d = common.centre.shape[0]
    kappa, nu = common.kappa[0], common.nu[0]
    natural[0] = kappa
    natural[1] = nu
    position = 2 + d
    for r in range(d):
        natural[2 + r] = kappa * common.centre[r]
        for c in range(r + 1):
            second = (nu - d - 1.0) * common.scale[r, c]
            natural[position] = second + kappa * common.centre[r] * common.centre[c]
            position += 1


@jit(internal=True)
def solve_transposed(lower, x):
    """Replace x by the solution y of lower' y = x."""
    d = x.shape[0]
    for r in range(d - 1, -1, -1):
        s = x[r]
        for j in range(r + 1, d):
            s -= lower[j, r] * x[j]
        x[r] = s / lower[r, r]
