"""Normal inverse Wishart distributions of one cluster at a time, for proposals."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from cavity.families.normal_inverse_wishart import pack, unpack


class Location(NamedTuple):
    """Mean and covariance of a cluster: Sigma^-1 = B'B, B lower triangular."""

    mean: np.ndarray
    whiten: np.ndarray
    half_log_det: float  # of Sigma

    @property
    def covariance(self) -> np.ndarray:
        """Sigma."""
        root = np.linalg.inv(self.whiten)
        return root @ root.T


def moments(location: Location, n: float) -> np.ndarray:
    """The statistics that n rows with exactly this mean and covariance would have."""
    second = location.covariance
    return pack(location.mean, n, n, n * second)


def _log_multigamma(x: float, d: int) -> float:
    total = 0.25 * d * (d - 1) * math.log(math.pi)
    return total + sum(math.lgamma(x - 0.5 * j) for j in range(d))


class NIW:
    """One normal inverse Wishart distribution, from its natural parameters.

    ``proper`` says whether they are those of one.
    """

    def __init__(self, natural: np.ndarray, d: int) -> None:
        self.d = d
        self.proper = False
        if not (natural[0] > 0.0 and natural[1] > d - 1.0 and np.isfinite(natural).all()):
            return
        self.mean, self.kappa, self.nu, self.psi = unpack(natural, d)
        try:
            root = np.linalg.cholesky(self.psi)
        except np.linalg.LinAlgError:
            return
        self.proper = True
        self._whiten = np.linalg.inv(root)
        self._half_log_det = float(np.log(np.diag(root)).sum())

    def draw(self, rng: np.random.Generator) -> Location:
        """A mean and covariance."""
        d = self.d
        factor = np.tril(rng.standard_normal((d, d)), -1)
        shapes = 0.5 * (self.nu - np.arange(d - 1, -1, -1))
        factor[np.diag_indices(d)] = np.sqrt(2.0 * rng.standard_gamma(shapes))
        whiten = np.tril(factor @ self._whiten)
        noise = rng.standard_normal(d) / math.sqrt(self.kappa)
        mean = self.mean + np.linalg.solve(whiten, noise)
        return Location(mean, whiten, -float(np.log(np.diag(whiten)).sum()))

    def log_density(self, location: Location) -> float:
        """Of a mean and covariance."""
        d, nu = self.d, self.nu
        away = location.whiten @ (location.mean - self.mean)
        value = 0.5 * d * math.log(self.kappa / (2.0 * math.pi)) - location.half_log_det
        value -= 0.5 * self.kappa * float(away @ away)
        value += (
            nu * self._half_log_det - 0.5 * nu * d * math.log(2.0) - _log_multigamma(0.5 * nu, d)
        )
        value -= (nu + d + 1.0) * location.half_log_det
        spread = location.whiten @ self.psi
        return float(value - 0.5 * np.sum(spread * location.whiten))

    @property
    def typical(self) -> Location:
        """A location in its middle."""
        size = math.sqrt(self.nu)
        log_det = self._half_log_det - self.d * math.log(size)
        return Location(self.mean, size * self._whiten, log_det)
