"""Learned center and spread of the clusters' means.

mean_k ~ N(center, Sigma_k / kappa), kappa ~ Gamma(shape, rate), center ~ N(0, spread^2 I). With
P_k = Sigma_k^-1 of the K occupied clusters and e_k = mean_k - center,

    kappa | rest ~ Gamma(shape + K d / 2, rate + sum of e_k' P_k e_k / 2),
    center | rest ~ N(C kappa sum of P_k mean_k, C),   C^-1 = I / spread^2 + kappa sum of P_k.
"""

from __future__ import annotations

import math
from typing import NamedTuple

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
    kappa = draw_centre(
        prior,
        common.n_clusters[0],
        form,
        common.precision,
        common.weighed,
        common.work[0],
        common.work[1, 0],
        common.centre,
        rng,
    )
    if kappa == 0.0:
        return False
    common.kappa[0] = kappa
    return True


@jit(internal=True)
def draw_centre(prior, n_clusters, form, precision, weighed, root, half, centre, rng):
    """Draw kappa, which is returned, given the center, and then the center in place.

    Zero is returned if rounding left nothing to draw from.

    Parameters
    ----------
    n_clusters : int
        That are occupied.
    form : float
        Sum of the squared distances of their means from the center.
    precision, weighed : arrays, shape (d, d) and (d,)
        Sums of their precisions, and of these times their means.
    root, half : arrays, shape (d, d) and (d,)
        Room.
    """
    d = centre.shape[0]
    shape = prior.shape + 0.5 * d * n_clusters
    kappa = rng.standard_gamma(shape) / (prior.rate + 0.5 * form)
    for r in range(d):
        for c in range(r + 1):
            root[r, c] = kappa * precision[r, c]
        root[r, r] += 1.0 / (prior.spread * prior.spread)
    if not cholesky_in_place(root):
        return 0.0
    for r in range(d):
        s = kappa * weighed[r]
        for c in range(r):
            s -= root[r, c] * half[c]
        half[r] = s / root[r, r]
    for r in range(d):
        centre[r] = half[r] + rng.standard_normal()
    solve_transposed(root, centre)
    return kappa


@jit
def spread_log_density(shape, rate, spread, centre, kappa):
    """Log density of the center and kappa under their priors, by the fields of `SpreadPrior`."""
    value = shape * math.log(rate) - math.lgamma(shape) + (shape - 1.0) * math.log(kappa)
    value -= rate * kappa
    for j in range(centre.shape[0]):
        value -= 0.5 * centre[j] * centre[j] / (spread * spread)
        value -= math.log(spread * math.sqrt(2.0 * math.pi))
    return value
