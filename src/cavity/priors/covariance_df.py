"""How much alike the clusters' covariances are, learned: degrees of freedom of their prior.

Sigma_k ~ IW(nu, (nu - d - 1) S). With nu just above d + 1 every cluster has a shape of its own; as
nu grows they come to share S. c = nu - d - 1 has the density t / (t + c)^2, cut to [1, 1e5]: its
median is t, and no order of magnitude is ruled out. It is drawn by a slice step on its logarithm,
given the covariances of the occupied clusters.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from cavity.core.compile import jit
from cavity.core.linear_algebra import cholesky_in_place
from cavity.core.slices import log_target, slice_step
from cavity.families.normal_inverse_wishart import log_multigamma

LEAST, MOST = 1.0, 1e5


class LogSpare(NamedTuple):
    """Density of log(nu - d - 1) given the covariances of the occupied clusters."""

    d: int
    n_clusters: int
    log_det_scale: float  # of S
    log_dets: float  # sum of log|Sigma_k|
    trace: float  # sum of tr(S Sigma_k^-1)
    typical: float


@log_target.register(LogSpare)
def _(density, x):
    spare = math.exp(x)
    if spare < LEAST or spare > MOST:
        return -math.inf
    d = density.d
    nu = spare + d + 1.0
    each = 0.5 * nu * (d * (x - math.log(2.0)) + density.log_det_scale)
    each -= log_multigamma(0.5 * nu, d)
    total = density.n_clusters * each - 0.5 * nu * density.log_dets - 0.5 * spare * density.trace
    return total + x - 2.0 * math.log(density.typical + spare)


@jit(internal=True)
def draw_df(typical, common, rng):
    """Draw the degrees of freedom in place; False if S is not positive definite to rounding."""
    d = common.centre.shape[0]
    root = common.work[0]
    trace = 0.0
    for r in range(d):
        for c in range(d):
            root[r, c] = common.scale[r, c]
            trace += common.scale[r, c] * common.precision[r, c]
    if not cholesky_in_place(root):
        return False
    log_det = 0.0
    for r in range(d):
        log_det += 2.0 * math.log(root[r, r])
    density = LogSpare(d, common.n_clusters[0], log_det, common.log_dets[0], trace, typical)
    x = slice_step(density, math.log(common.nu[0] - d - 1.0), 1.0, rng)
    common.nu[0] = math.exp(x) + d + 1.0
    return True


def spare_log_density(typical: float, spare: float) -> float:
    """Log density of nu - d - 1 under its prior."""
    inside = MOST / (MOST + typical) - LEAST / (LEAST + typical)
    return math.log(typical / inside) - 2.0 * math.log(typical + spare)
