"""Learned degrees of freedom of the covariances' prior.

Sigma_k ~ IW(nu, (nu - d - 1) S). With nu just above d + 1 every cluster has a shape of its own; as
nu grows they come to share S. c = nu - d - 1 has the density t / (t + c)^2, cut to [1, 1e5]: its
median is t, and no order of magnitude is ruled out. It is drawn by a slice step on its logarithm,
given the covariances of the K occupied clusters, P the sum of their inverses. Where S is learned,
it is integrated out: given S, nu moves in small steps, for S is close to what makes the covariances
likely under the nu that it was drawn with. With the priors of `covariance_scale`,

    integral of |S|^(K nu / 2) exp(-c tr(S P) / 2) p(S) dS

is 2^(d a) Gamma_d(a) |g M^-1 + c P|^-a with a = (g + K nu) / 2 for a full matrix, up to a constant,
and the product over columns of Gamma(a) (shape / M_jj + c P_jj / 2)^-a with a = shape + K nu / 2
for a diagonal one. S is drawn afterwards. S is about P^-1 (g + K nu) / c, so it narrows as c
grows, and where its prior's mean M is learned, M must follow: with M held, c
would move in small steps. So c is drawn with c M held, M = (c M) / c, whose Jacobian is c^-d.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from cavity._numba.jit import jit
from cavity._numba.linalg import cholesky_in_place
from cavity._numba.slice_sampler import height_at, log_target, slice_step
from cavity.conjugate.niw import log_multigamma
from cavity.priors.covariance_scale import (
    DIAGONAL,
    FIXED,
    ScalePrior,
    log_density_of_mean,
    rate_of_scale,
)

LEAST, MOST = 1.0, 1e5


@jit(internal=True)
def log_spare_prior(typical, x):
    """Log prior density of x = log c, up to a constant; minus infinity beyond its range."""
    spare = math.exp(x)
    if spare < LEAST or spare > MOST:
        return -math.inf
    return x - 2.0 * math.log(typical + spare)


class LogSpare(NamedTuple):
    """Density of log(nu - d - 1) given the covariances of the occupied clusters."""

    scale: ScalePrior
    n_clusters: int
    log_dets: float  # sum of log|Sigma_k|
    precision: np.ndarray  # (d, d), sum of Sigma_k^-1
    log_det_scale: float  # of a fixed S
    trace: float  # sum of tr(S Sigma_k^-1), of a fixed S
    typical: float
    held: float  # c times a factor of the mean of S's prior that stays; zero if the mean does
    work: np.ndarray  # (d, d)


@log_target.register(LogSpare)
def _(density, x):
    prior = log_spare_prior(density.typical, x)
    if prior == -math.inf:
        return prior
    spare = math.exp(x)
    scale = density.scale
    d = scale.mean.shape[0]
    nu = spare + d + 1.0
    power = 0.5 * density.n_clusters * nu
    total = power * d * (x - math.log(2.0)) - density.n_clusters * log_multigamma(0.5 * nu, d)
    total += prior - 0.5 * nu * density.log_dets
    wider = 1.0
    if density.held > 0.0:
        wider = density.held / spare
        total += log_density_of_mean(scale, wider) - d * x
    if scale.form == FIXED:
        total += power * density.log_det_scale - 0.5 * spare * density.trace
    elif scale.form == DIAGONAL:
        power += scale.strength
        total += d * math.lgamma(power)
        for j in range(d):
            rate = scale.strength / (wider * scale.mean[j])
            total -= power * math.log(rate + 0.5 * spare * density.precision[j, j])
    else:
        if not rate_of_scale(scale, wider, density.precision, spare, density.work):
            return -math.inf
        power += 0.5 * scale.strength
        total += power * d * math.log(2.0) + log_multigamma(power, d)
        for r in range(d):
            total -= 2.0 * power * math.log(density.work[r, r])
    return total


@jit(internal=True)
def draw_df(typical, scale, common, rng):
    """Draw the degrees of freedom in place, together with the width of a learned mean of S.

    False if no determinant is left by rounding.
    """
    d = common.centre.shape[0]
    root = common.work[0]
    log_det = trace = 0.0
    if scale.form == FIXED:
        for r in range(d):
            for c in range(d):
                root[r, c] = common.scale[r, c]
                trace += common.scale[r, c] * common.precision[r, c]
        if not cholesky_in_place(root):
            return False
        for r in range(d):
            log_det += 2.0 * math.log(root[r, r])
    spare = common.nu[0] - d - 1.0
    learned = scale.form != FIXED and scale.tail > 0.0
    density = LogSpare(
        scale,
        common.n_clusters[0],
        common.log_dets[0],
        common.precision,
        log_det,
        trace,
        typical,
        spare if learned else 0.0,
        root,
    )
    x = math.log(spare)
    if not height_at(density, x) > -math.inf:
        return False
    drawn = math.exp(slice_step(density, x, 1.0, rng))
    common.nu[0] = drawn + d + 1.0
    if learned:
        for j in range(d):
            scale.mean[j] *= spare / drawn
    return True


class LogSpareOfVariances(NamedTuple):
    """Density of log(nu - 2) given the variances, by sums over clusters and columns."""

    number: float
    log_ratio: float  # of log S_j - log var_kj
    ratio: float  # of S_j / var_kj
    typical: float


@log_target.register(LogSpareOfVariances)
def _(density, x):
    prior = log_spare_prior(density.typical, x)
    if prior == -math.inf:
        return prior
    spare = math.exp(x)
    nu = spare + 2.0
    each = 0.5 * nu * (x - math.log(2.0)) - math.lgamma(0.5 * nu)
    total = density.number * each + 0.5 * nu * density.log_ratio - 0.5 * spare * density.ratio
    return total + prior


@jit(internal=True)
def slice_spare(density, spare, rng):
    """One slice step on log(nu - 2)."""
    return math.exp(slice_step(density, math.log(spare), 1.0, rng))


@jit
def spare_log_density(typical, spare):
    """Log density of nu - d - 1 under its prior."""
    inside = MOST / (MOST + typical) - LEAST / (LEAST + typical)
    return math.log(typical / inside) - 2.0 * math.log(typical + spare)
