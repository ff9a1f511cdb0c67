"""What clusters have in common where their columns have a variance each, learned.

mean_kj ~ N(centre_j, var_kj / kappa) (or with all columns' covariance in place of var_kj), var_kj ~
IG(nu / 2, (nu - 2) S_j / 2): S_j is the mean of the clusters' variances in column j, whatever nu.
Given the parameters of the K occupied clusters,

    S_j ~ Gamma(g + K nu / 2, g / M_j + (nu - 2) / 2 sum of 1 / var_kj),    S_j ~ Gamma(g, g / M_j),
    kappa ~ Gamma(a + K d / 2, b + half the sum of the means' squared distances from the centre),

and the centre is normal. M_j is learned as `cavity.priors.column_widths` has it. nu - 2 has the
prior of `cavity.priors.covariance_df` and a slice step on its logarithm, given the members of every
cluster with variances integrated out where a collapse has them, otherwise given the variances.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from scipy.special import gammaln

from cavity._numba.jit import jit
from cavity._numba.slice_sampler import log_target, slice_step
from cavity.priors.column_widths import draw_widths, widths_log_density
from cavity.priors.covariance_df import LEAST, MOST
from cavity.priors.mean_spread import SpreadPrior


class VariancePrior(NamedTuple):
    """Prior of the mean variances: S_j ~ Gamma(strength, strength / M_j).

    `typical` and `tail` are M's, as in `cavity.priors.covariance_scale`: a tail of zero leaves M
    at what is typical.
    """

    strength: float
    typical: np.ndarray
    tail: float = 0.0


class LogSpareOfMembers(NamedTuple):
    """Density of log(nu - 2) given the members of every cluster, variances integrated out."""

    scale: np.ndarray  # (d,), S
    members: np.ndarray  # (clusters, d), what members add to (nu - 2) S
    sizes: np.ndarray  # (clusters,)
    typical: float


@log_target.register(LogSpareOfMembers)
def _(density, x):
    spare = math.exp(x)
    if spare < LEAST or spare > MOST:
        return -math.inf
    nu = spare + 2.0
    n_clusters, d = density.members.shape
    total = x - 2.0 * math.log(density.typical + spare)
    for k in range(n_clusters):
        after = nu + density.sizes[k]
        total += d * (math.lgamma(0.5 * after) - math.lgamma(0.5 * nu))
        for c in range(d):
            prior = spare * density.scale[c]
            total += 0.5 * nu * math.log(prior)
            total -= 0.5 * after * math.log(prior + density.members[k, c])
    return total if total == total else -math.inf


class LogSpareOfVariances(NamedTuple):
    """Density of log(nu - 2) given the variances, by sums over clusters and columns."""

    number: float
    log_ratio: float  # of log S_j - log var_kj
    ratio: float  # of S_j / var_kj
    typical: float


@log_target.register(LogSpareOfVariances)
def _(density, x):
    spare = math.exp(x)
    if spare < LEAST or spare > MOST:
        return -math.inf
    nu = spare + 2.0
    each = 0.5 * nu * (x - math.log(2.0)) - math.lgamma(0.5 * nu)
    total = density.number * each + 0.5 * nu * density.log_ratio - 0.5 * spare * density.ratio
    return total + x - 2.0 * math.log(density.typical + spare)


@jit
def slice_spare(density, spare, rng):
    """One slice step on log(nu - 2)."""
    return math.exp(slice_step(density, math.log(spare), 1.0, rng))


def draw_variance_scale(
    prior: VariancePrior,
    expected: np.ndarray,
    nu: float,
    variance: np.ndarray,
    rng: np.random.Generator,
) -> np.ndarray:
    """Draw S given the occupied clusters' variances, (clusters, d), and then M in place."""
    shape = prior.strength + 0.5 * len(variance) * nu
    rate = prior.strength / expected + 0.5 * (nu - 2.0) * (1.0 / variance).sum(axis=0)
    drawn: np.ndarray = rng.standard_gamma(shape, expected.size) / rate
    if prior.tail > 0.0:
        draw_widths(expected, prior.typical, prior.tail, prior.strength, drawn, rng)
    return drawn


def variance_scale_log_density(
    prior: VariancePrior, expected: np.ndarray, scale: np.ndarray
) -> float:
    """Log density of S and of M, where it is learned, under their priors."""
    g, rate = prior.strength, prior.strength / expected
    each = g * np.log(rate) - gammaln(g) + (g - 1.0) * np.log(scale) - rate * scale
    total = float(each.sum())
    if prior.tail > 0.0:
        total += widths_log_density(expected, prior.typical, prior.tail)
    return total


def draw_centre(
    prior: SpreadPrior,
    n_clusters: int,
    form: float,
    precision: np.ndarray,
    weighed: np.ndarray,
    rng: np.random.Generator,
) -> tuple[np.ndarray, float]:
    """Draw kappa given the centre, and then the centre; returns the centre first.

    Parameters
    ----------
    n_clusters : int
        That are occupied.
    form : float
        Sum of the squared distances of their means from the centre.
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
