"""Learned mean of the clusters' covariances: a full matrix, or one number per column.

Sigma_k ~ IW(nu, (nu - d - 1) S). As a full matrix S ~ Wishart(g, M / g), with mean M; as a
diagonal, s_j ~ Gamma(shape, shape / M_jj). Given the covariances of the K occupied clusters, with P
the sum of their inverses and c = nu - d - 1, both are conjugate:

    S | Sigma ~ Wishart(g + K nu, (g M^-1 + c P)^-1),
    s_j | Sigma ~ Gamma(shape + K nu / 2, shape / M_jj + c P_jj / 2).

Without this the user must know how tight the clusters are relative to their spread, and which
columns go together within them. Where columns have a variance each, var_kj ~ IG(nu / 2,
(nu - 2) S_j / 2), the diagonal form applies with c = nu - 2.

M is a diagonal, known or learned in turn. How much of a column's variance lies within clusters is
anything from all of it, in a column that does not separate groups, to a thousandth. A prior of
light tails around one guess would overrule the data: it makes clusters of a column without groups
too narrow, and then there must be more of them. So the guess itself is learned, column by column,
under a prior that rules out no order of magnitude:

    M_j = typical_j x_j,    x_j ~ BetaPrime(a, a),

a ratio of two Gamma(a, 1) variables; with a = 1/2 the root of x_j is half-Cauchy. With
1 / x_j = u_j ~ Gamma(a, b_j) and b_j ~ Gamma(a, 1), and a mean variance s_j whose density given
M_j is proportional to M_j^-w exp(-w s_j / M_j),

    b_j | u_j ~ Gamma(2 a, 1 + u_j),    u_j | b_j, s_j ~ Gamma(a + w, b_j + w s_j / typical_j).
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from cavity._numba.jit import jit
from cavity._numba.linalg import cholesky_in_place
from cavity.conjugate.niw import log_multigamma
from cavity.priors.cluster import solve_transposed

FIXED, DIAGONAL, FULL = 0, 1, 2


class ScalePrior(NamedTuple):
    """Prior of the mean covariance.

    Attributes
    ----------
    form : int
        `FIXED`, `DIAGONAL` or `FULL`.
    strength : float
        Shape of a diagonal's gamma priors; degrees of freedom of a matrix's Wishart prior.
    mean : array of d floats
        The prior's mean, or its diagonal; a chain's own where it is learned.
    typical : array of d floats
        Start of a learned mean: the median of its prior.
    tail : float
        Lightness of the tails of a learned mean's prior; zero keeps the mean fixed.
    """

    form: int
    strength: float
    mean: np.ndarray
    typical: np.ndarray
    tail: float


def scale_prior(form: int, strength: float, typical: np.ndarray, tail: float = 0.0) -> ScalePrior:
    """Prior of the mean covariance; its own mean is learned if `tail` is not zero."""
    typical = np.asarray(typical, dtype=float)
    return ScalePrior(form, float(strength), typical.copy(), typical, float(tail))


@jit(internal=True)
def rate_of_scale(prior, wider, precision, spare, root):
    """Compute the Cholesky factor of g M^-1 + c P for rescaled M; return False on failure."""
    for r in range(root.shape[0]):
        for c in range(r + 1):
            root[r, c] = spare * precision[r, c]
        root[r, r] += prior.strength / (wider * prior.mean[r])
    return cholesky_in_place(root)


@jit(internal=True)
def log_density_of_mean(prior, wider):
    """Return the terms that depend on a rescaled M in its prior and in the density of S.

    The exponent of the latter is not here: with S integrated out it is elsewhere.
    """
    weight = prior.strength if prior.form == DIAGONAL else 0.5 * prior.strength
    total = 0.0
    for j in range(prior.mean.shape[0]):
        mean = wider * prior.mean[j]
        ratio = mean / prior.typical[j]
        total += (prior.tail - 1.0) * math.log(ratio) - 2.0 * prior.tail * math.log1p(ratio)
        total -= weight * math.log(mean)
    return total


@jit(internal=True)
def draw_scale(prior, common, rng):
    """Draw the mean covariance in place; return False on numerical failure."""
    d = prior.mean.shape[0]
    nu = common.nu[0]
    spare = nu - d - 1.0
    df = common.n_clusters[0] * nu
    scale = common.scale
    if prior.form == DIAGONAL:
        for j in range(d):
            rate = prior.strength / prior.mean[j] + 0.5 * spare * common.precision[j, j]
            scale[j, j] = rng.standard_gamma(prior.strength + 0.5 * df) / rate
        return True
    root = common.work[0]
    if not rate_of_scale(prior, 1.0, common.precision, spare, root):
        return False
    # Bartlett: S = (L^-T A)(L^-T A)' with L L' the rate and A A' a standard Wishart draw. Rows
    # hold columns of A, for the substitution.
    bartlett = common.work[1]
    df += prior.strength
    for c in range(d):
        for r in range(c):
            bartlett[c, r] = 0.0
        bartlett[c, c] = math.sqrt(2.0 * rng.standard_gamma(0.5 * (df - c)))
        for r in range(c + 1, d):
            bartlett[c, r] = rng.standard_normal()
        solve_transposed(root, bartlett[c])
    for r in range(d):
        for c in range(r + 1):
            s = 0.0
            for j in range(d):
                s += bartlett[j, r] * bartlett[j, c]
            scale[r, c] = scale[c, r] = s
    return True


@jit
def wishart_log_density(prior, scale, root):
    """Return the log prior density of a full mean covariance; `root` is working memory."""
    d, g = prior.mean.shape[0], prior.strength
    total = 0.0
    for r in range(d):
        rate = g / prior.mean[r]
        total += 0.5 * (g * math.log(rate) - rate * scale[r, r])
        for c in range(r + 1):
            root[r, c] = scale[r, c]
    if not cholesky_in_place(root):
        return -math.inf
    for r in range(d):
        total += (g - d - 1.0) * math.log(root[r, r])
    return total - 0.5 * g * d * math.log(2.0) - log_multigamma(0.5 * g, d)


@jit(internal=True)
def draw_variances(prior, nu, n_clusters, inverse, scale, rng):
    """Draw S given each column's clusters and sums of inverse variances, and then M, in place."""
    for j in range(scale.shape[0]):
        shape = prior.strength + 0.5 * n_clusters[j] * nu
        rate = prior.strength / prior.mean[j] + 0.5 * (nu - 2.0) * inverse[j]
        scale[j] = rng.standard_gamma(shape) / rate
    draw_widths(prior, prior.strength, scale, rng)


@jit(internal=True)
def variances_log_density(prior, scale):
    """Log density of a diagonal mean covariance under its prior."""
    strength = prior.strength
    total = 0.0
    for j in range(scale.shape[0]):
        rate = strength / prior.mean[j]
        total += strength * math.log(rate) - math.lgamma(strength)
        total += (strength - 1.0) * math.log(scale[j]) - rate * scale[j]
    return total


@jit(internal=True)
def draw_widths(prior, weight, variance, rng):
    """Draw M given the mean variances, in place, where it is learned."""
    expected, typical, tail = prior.mean, prior.typical, prior.tail
    if tail == 0.0:
        return
    for j in range(expected.shape[0]):
        rate = rng.standard_gamma(2.0 * tail) / (1.0 + typical[j] / expected[j])
        rate += weight * variance[j] / typical[j]
        expected[j] = typical[j] * rate / rng.standard_gamma(tail + weight)


@jit
def widths_log_density(prior):
    """Log density of M under its prior; zero where it is not learned.

    Examples
    --------
    >>> from scipy import stats
    >>> prior = scale_prior(DIAGONAL, 1.0, np.array([0.1]), 0.5)
    >>> value = widths_log_density(prior._replace(mean=np.array([0.3])))
    >>> bool(np.isclose(value, stats.betaprime(0.5, 0.5, scale=0.1).logpdf(0.3)))
    True
    """
    tail = prior.tail
    total = 0.0
    if tail > 0.0:
        for j in range(prior.mean.shape[0]):
            ratio = prior.mean[j] / prior.typical[j]
            total += (tail - 1.0) * math.log(ratio) - 2.0 * tail * math.log1p(ratio)
            total -= math.log(prior.typical[j]) + 2.0 * math.lgamma(tail) - math.lgamma(2.0 * tail)
    return total
