"""Learned center and spread of the clusters' means.

mean_k ~ N(center, Sigma_k / kappa), kappa ~ Gamma(shape, rate), center ~ N(0, spread^2 I). With
P_k = Sigma_k^-1 of the K occupied clusters and e_k = mean_k - center,

    kappa | rest ~ Gamma(shape + K d / 2, rate + sum of e_k' P_k e_k / 2),
    center | rest ~ N(C kappa sum of P_k mean_k, C),   C^-1 = I / spread^2 + kappa sum of P_k.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from cavity._numba.jit import jit
from cavity._numba.linalg import cholesky_in_place
from cavity.priors.cluster import solve_transposed


class SpreadPrior(NamedTuple):
    """Prior of kappa, Gamma(shape, rate), and of the center, N(0, spread^2) in each column."""

    shape: float
    rate: float
    spread: float


@jit(internal=True)
def draw_spread(prior, common, parameters, counts, rng):
    """Draw kappa and the center in place; return False on numerical failure."""
    d = common.centre.shape[0]
    form = 0.0
    for k in range(counts.shape[0]):
        if counts[k] > 0:
            for j in range(d):
                s = 0.0
                for c in range(j + 1):
                    away = parameters.mean[c, k] - common.centre[c]
                    s += parameters.whiten[j, c, k] * away
                form += s * s
    shape = prior.shape + 0.5 * d * common.n_clusters[0]
    kappa = rng.standard_gamma(shape) / (prior.rate + 0.5 * form)
    root = common.work[0]
    for r in range(d):
        for c in range(r + 1):
            root[r, c] = kappa * common.precision[r, c]
        root[r, r] += 1.0 / (prior.spread * prior.spread)
    if not cholesky_in_place(root):
        return False
    centre = common.centre
    for r in range(d):
        s = kappa * common.weighed[r]
        for c in range(r):
            s -= root[r, c] * common.work[1, 0, c]
        common.work[1, 0, r] = s / root[r, r]
    for r in range(d):
        centre[r] = common.work[1, 0, r] + rng.standard_normal()
    solve_transposed(root, centre)
    common.kappa[0] = kappa
    return True


@jit
def spread_log_density(shape, rate, spread, centre, kappa):
    """Log density of the center and kappa under their priors, by the fields of `SpreadPrior`."""
    value = shape * math.log(rate) - math.lgamma(shape) + (shape - 1.0) * math.log(kappa)
    value -= rate * kappa
    for j in range(centre.shape[0]):
        value -= 0.5 * centre[j] * centre[j] / (spread * spread)
        value -= math.log(spread * math.sqrt(2.0 * math.pi))
    return value


def draw_centre(
    prior: SpreadPrior,
    n_clusters: int,
    form: float,
    precision: np.ndarray,
    weighed: np.ndarray,
    rng: np.random.Generator,
) -> tuple[np.ndarray, float]:
    """Draw kappa given the center, then the center; return the center first.

    Parameters
    ----------
    n_clusters : int
        Number of occupied clusters.
    form : float
        Sum of the squared distances of their means from the center.
    precision : array, shape (d,) or (d, d)
        Sum of their precisions: of independent columns, or matrices.
    weighed : array, shape (d,)
        Sum of precision times mean.
    """
    d = weighed.size
    kappa = rng.standard_gamma(prior.shape + 0.5 * n_clusters * d) / (prior.rate + 0.5 * form)
    flat = 1.0 / prior.spread**2
    noise = rng.standard_normal(d)
    if precision.ndim == 1:
        total = flat + kappa * precision
        return kappa * weighed / total + noise / np.sqrt(total), float(kappa)
    root = np.linalg.cholesky(flat * np.eye(d) + kappa * precision)
    half = np.linalg.solve(root, kappa * weighed) + noise
    return np.linalg.solve(root.T, half), float(kappa)
