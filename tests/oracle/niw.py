"""The normal-inverse-Wishart family with nothing but NumPy and SciPy."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy import special, stats


class NIW(NamedTuple):
    mean: np.ndarray
    kappa: float
    nu: float
    psi: np.ndarray


def log_partition(q: NIW) -> float:
    d = q.mean.size
    return float(
        special.multigammaln(0.5 * q.nu, d)
        + 0.5 * q.nu * d * np.log(2.0)
        - 0.5 * q.nu * np.linalg.slogdet(q.psi)[1]
        + 0.5 * d * np.log(2.0 * np.pi / q.kappa)
    )


def log_density(q: NIW, mean: np.ndarray, sigma: np.ndarray) -> float:
    return float(
        stats.multivariate_normal.logpdf(mean, q.mean, sigma / q.kappa)
        + stats.invwishart.logpdf(sigma, q.nu, q.psi)
    )


def expected_statistics(q: NIW) -> tuple[float, np.ndarray, np.ndarray, float]:
    """Expectations of mu'S^-1 mu, S^-1 mu, S^-1 and log|S^-1|."""
    d = q.mean.size
    precision = q.nu * np.linalg.inv(q.psi)
    return (
        float(d / q.kappa + q.mean @ precision @ q.mean),
        precision @ q.mean,
        precision,
        float(
            special.digamma(0.5 * (q.nu - np.arange(d))).sum()
            + d * np.log(2.0)
            - np.linalg.slogdet(q.psi)[1]
        ),
    )


def divergence(q: NIW, r: NIW) -> float:
    """KL(q, r) as the Bregman divergence of the log partition function."""
    square, linear, precision, log_det = expected_statistics(q)

    def inner(p: NIW) -> float:
        second = p.psi + p.kappa * np.outer(p.mean, p.mean)
        return float(
            -0.5 * p.kappa * square
            + p.kappa * p.mean @ linear
            - 0.5 * np.sum(second * precision)
            + 0.5 * p.nu * log_det
        )

    return inner(q) - inner(r) - log_partition(q) + log_partition(r)


def random_niw(d: int, rng: np.random.Generator) -> NIW:
    a = rng.standard_normal((d, d + 2))
    return NIW(
        rng.standard_normal(d), float(rng.gamma(2.0)), d - 1 + float(rng.gamma(4.0)) + 0.1, a @ a.T
    )
