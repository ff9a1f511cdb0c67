"""The normal inverse gamma family: means and variances of clusters with independent columns.

A slot holds NIG(m_j, kappa, nu, psi_j) for every column: mean_j ~ N(m_j, var_j / kappa), var_j ~
IG(nu / 2, psi_j / 2); kappa and nu are those of all columns. Natural parameters, packed in a row:
kappa, nu, kappa m, psi + kappa m^2. It is the normal inverse Wishart family with a diagonal
matrix, but that a column costs as much as it does alone.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from cavity._numba.arrays import declare
from cavity._numba.jit import jit
from cavity.conjugate.niw import log_gamma_ratio
from cavity.interface import draw, load, log_partition, prior_density


class NormalInverseGammas(NamedTuple):
    """One normal inverse gamma distribution per slot and column."""

    prior: np.ndarray  # (2 + 2 d,)
    natural: np.ndarray  # (slots, 2 + 2 d)
    kappa: np.ndarray  # (slots,)
    nu: np.ndarray  # (slots,)
    mean: np.ndarray  # (d, slots)
    psi: np.ndarray  # (d, slots)
    log_psi: np.ndarray  # (d, slots)
    log_ratio: np.ndarray  # (slots,), lnGamma((nu + 1) / 2) - lnGamma(nu / 2)


declare(
    NormalInverseGammas,
    slots={
        "natural": 0,
        "kappa": 0,
        "nu": 0,
        "mean": 1,
        "psi": 1,
        "log_psi": 1,
        "log_ratio": 0,
    },
)


class DiagonalParameters(NamedTuple):
    """One mean and one variance per slot and column."""

    mean: np.ndarray  # (d, slots)
    variance: np.ndarray  # (d, slots)


declare(DiagonalParameters, slots={"mean": 1, "variance": 1})


def pack_diagonal(mean: np.ndarray, kappa: float, nu: float, psi: np.ndarray) -> np.ndarray:
    """Pack the natural parameters of NIG(mean_j, kappa, nu, psi_j)."""
    mean = np.asarray(mean, dtype=float)
    return np.concatenate([[kappa, nu], kappa * mean, psi + kappa * mean * mean])


def unpack_diagonal(natural: np.ndarray) -> tuple[np.ndarray, float, float, np.ndarray]:
    """Return (mean, kappa, nu, psi) of packed natural parameters.

    Examples
    --------
    >>> packed = pack_diagonal(np.array([1.0, 2.0]), 0.5, 3.0, np.array([4.0, 5.0]))
    >>> mean, kappa, nu, psi = unpack_diagonal(packed)
    >>> mean.tolist(), kappa, nu, psi.tolist()
    ([1.0, 2.0], 0.5, 3.0, [4.0, 5.0])
    """
    d = (natural.size - 2) // 2
    kappa, nu = float(natural[0]), float(natural[1])
    mean = natural[2 : 2 + d] / kappa
    return mean, kappa, nu, natural[2 + d :] - kappa * mean * mean


@jit(internal=True)
def read_diagonal(natural, centre, scale):
    """Unpack the center and psi / (nu - 2), the mean variances; return kappa and nu."""
    d = centre.shape[0]
    kappa, nu = natural[0], natural[1]
    for c in range(d):
        centre[c] = natural[2 + c] / kappa
        scale[c] = (natural[2 + d + c] - kappa * centre[c] * centre[c]) / (nu - 2.0)
    return kappa, nu


@jit(internal=True)
def write_diagonal(natural, centre, kappa, nu, scale):
    """Pack what ``read_diagonal`` unpacks."""
    d = centre.shape[0]
    natural[0] = kappa
    natural[1] = nu
    for c in range(d):
        natural[2 + c] = kappa * centre[c]
        natural[2 + d + c] = (nu - 2.0) * scale[c] + kappa * centre[c] * centre[c]


def normal_inverse_gammas(
    mean: np.ndarray, kappa: float, nu: float, psi: np.ndarray, n_slots: int
) -> NormalInverseGammas:
    """Return a family with every slot at the prior NIG(mean_j, kappa, nu, psi_j)."""
    prior = pack_diagonal(mean, kappa, nu, psi)
    psi = np.tile(np.asarray(psi, dtype=float)[:, None], (1, n_slots))
    return NormalInverseGammas(
        prior=prior,
        natural=np.tile(prior, (n_slots, 1)),
        kappa=np.full(n_slots, float(kappa)),
        nu=np.full(n_slots, float(nu)),
        mean=np.tile(np.asarray(mean, dtype=float)[:, None], (1, n_slots)),
        psi=psi,
        log_psi=np.log(psi),
        log_ratio=np.full(n_slots, math.lgamma(0.5 * (nu + 1.0)) - math.lgamma(0.5 * nu)),
    )


def diagonal_parameters(dim: int, n_slots: int) -> DiagonalParameters:
    """Storage for one mean and one variance per slot and column."""
    return DiagonalParameters(np.zeros((dim, n_slots)), np.ones((dim, n_slots)))


@load.register(NormalInverseGammas)
def _(q, k):
    d = q.mean.shape[0]
    kappa = q.natural[k, 0]
    nu = q.natural[k, 1]
    if not (kappa > 0.0 and nu > 0.0):
        return False
    for c in range(d):
        b = q.natural[k, 2 + c]
        if not q.natural[k, 2 + d + c] - b * b / kappa > 0.0:
            return False
    q.kappa[k] = kappa
    q.nu[k] = nu
    q.log_ratio[k] = log_gamma_ratio(0.5 * (nu + 1.0), 1)
    for c in range(d):
        b = q.natural[k, 2 + c]
        q.mean[c, k] = b / kappa
        q.psi[c, k] = q.natural[k, 2 + d + c] - b * b / kappa
        q.log_psi[c, k] = math.log(q.psi[c, k])
    return True


@log_partition.register(NormalInverseGammas)
def _(q, k):
    d = q.mean.shape[0]
    nu = q.nu[k]
    total = d * (math.lgamma(0.5 * nu) + 0.5 * nu * math.log(2.0))
    total += 0.5 * d * math.log(2.0 * math.pi / q.kappa[k])
    for c in range(d):
        total -= 0.5 * nu * q.log_psi[c, k]
    return total


@prior_density.register(NormalInverseGammas)
def _(q, parameters, k):
    d = q.mean.shape[0]
    kappa, nu = q.prior[0], q.prior[1]
    total = 0.0
    for c in range(d):
        mean, variance = parameters.mean[c, k], parameters.variance[c, k]
        form = q.prior[2 + d + c] - 2.0 * q.prior[2 + c] * mean + kappa * mean * mean
        total -= 0.5 * ((nu + 3.0) * math.log(variance) + form / variance)
    return total


@draw.register(NormalInverseGammas)
def _(q, k, parameters, rng):
    for c in range(q.mean.shape[0]):
        variance = 0.5 * q.psi[c, k] / rng.standard_gamma(0.5 * q.nu[k])
        noise = rng.standard_normal() * math.sqrt(variance / q.kappa[k])
        parameters.variance[c, k] = variance
        parameters.mean[c, k] = q.mean[c, k] + noise
