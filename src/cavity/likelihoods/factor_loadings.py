"""Factor analysers: loadings and own variances of every cluster, drawn given labels and scales.

Rows of cluster k are mean_k + (L_k f_i + D_k^(1/2) e_i) / sqrt(u_i) with q standard normal factors
f_i, and so is the centre around the mean, with kappa in place of u. Given the factors, every column
is a regression on them with a conjugate prior,

    l_kj | D_kj ~ N(0, v D_kj I),   D_kj ~ IG(nu / 2, (nu - 2) S_j / 2),   v ~ IG(2, 1),

so that loadings and variances are drawn together, column by column. Labels never see the factors:
they are integrated out there (`likelihoods.mean_rows`). S and nu are learned as for independent
columns (`cavity.priors.covariance_scale`). An empty slot has parameters from the prior.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from cavity._numba.jit import jit
from cavity._numba.linalg import cholesky_in_place
from cavity.conjugate.normal import copy_factors, factorize_inner, settle_factors
from cavity.interface import log_weight, show, step
from cavity.priors.cluster import solve_transposed
from cavity.priors.covariance_df import LogSpareOfVariances, slice_spare, spare_log_density
from cavity.priors.covariance_scale import (
    FIXED,
    ScalePrior,
    draw_variances,
    variances_log_density,
    widths_log_density,
)
from cavity.priors.hyperpriors import HeldUpdate
from cavity.updates import LIKELIHOOD, Chain

# Inverse gamma prior of v, the loadings' variance in units of their column's own: shape and rate.
STRENGTH_PRIOR = (2.0, 1.0)
NU, STRENGTH, SCALE = 0, 1, 2  # places in `Factors.prior`, the last of what follows


class FactorStep(NamedTuple):
    """`FactorUpdate` for kernels."""

    scale: ScalePrior
    typical: float
    n_drawn: np.ndarray  # (1,)
    n_held: int
    noise: np.ndarray  # (q, n + 1)
    root: np.ndarray  # (2, q, q)
    half: np.ndarray  # (q, d)
    factor: np.ndarray  # (q,)
    rows: np.ndarray  # (3, d)


@jit(internal=True)
def _take_row(own, k, y, base, over, weight, position, update):
    """Draw the factors of a residual, y - base / over times the root of `weight`, and add it up."""
    away, squares = update.rows[0], update.rows[1]
    inner, outer, factor = update.root[0], update.root[1], update.factor
    n_factors, d, _slots = own.scaled.shape
    for c in range(d):
        away[c] = (y[c] - base[c] / over) * math.sqrt(weight)
        squares[c] += away[c] * away[c]
    for f in range(n_factors):
        s = 0.0
        for c in range(d):
            s += own.scaled[f, c, k] * away[c] * own.root[c, k]
        for g in range(f):
            s -= inner[f, g] * factor[g]
        factor[f] = s / inner[f, f]
    for f in range(n_factors):
        factor[f] += update.noise[f, position]
    solve_transposed(inner, factor)
    for f in range(n_factors):
        for g in range(f + 1):
            outer[f, g] += factor[f] * factor[g]
        for c in range(d):
            update.half[f, c] += factor[f] * away[c]


@jit(internal=True)
def _draw_slot(own, k, model, q, mean, z, size, update, rng):
    """Draw the factors of a slot's rows and of the center, then its loadings and variances."""
    nu, v = own.prior[NU], own.prior[STRENGTH]
    inner, outer, half, squares = update.root[0], update.root[1], update.half, update.rows[1]
    n_factors, d, _slots = own.scaled.shape
    n_rows = size + 1
    for f in range(n_factors):
        for i in range(n_rows):
            update.noise[f, i] = rng.standard_normal()
    factorize_inner(own, k, inner)
    half[:] = 0.0
    outer[:] = 0.0
    squares[:] = 0.0
    position = 0
    for i in range(z.shape[0]):
        if z[i] == k:
            _take_row(own, k, model.y[i], mean, 1.0, model.scale[i], position, update)
            position += 1
    # The center is around the mean as a row is, but for its weight.
    _take_row(own, k, mean, q.prior[1:], q.prior[0], q.prior[0], position, update)
    for f in range(n_factors):
        outer[f, f] += 1.0 / v
    if not cholesky_in_place(outer):
        return False
    for c in range(d):
        for f in range(n_factors):
            s = half[f, c]
            for g in range(f):
                s -= outer[f, g] * half[g, c]
            half[f, c] = s / outer[f, f]
            squares[c] -= half[f, c] * half[f, c]
    for c in range(d):
        psi = (nu - 2.0) * own.prior[SCALE + c] + max(squares[c], 0.0)
        own.variance[c, k] = 0.5 * psi / rng.standard_gamma(0.5 * (nu + n_rows))
    for f in range(n_factors):
        for c in range(d):
            half[f, c] += rng.standard_normal() * math.sqrt(own.variance[c, k])
    for c in range(d):
        for f in range(n_factors):
            update.factor[f] = half[f, c]
        solve_transposed(outer, update.factor)
        for f in range(n_factors):
            own.scaled[f, c, k] = update.factor[f] / math.sqrt(own.variance[c, k])
    settle_factors(own, k)
    return True


@jit(internal=True)
def _draw_common(own, counts, update, rng):
    """Draw strength of loadings, degrees of freedom and mean of the variances."""
    n_factors, d, n_slots = own.scaled.shape
    scale, inverse = own.prior[SCALE:], update.rows[0]
    n_clusters = 0
    form = 0.0
    log_ratio = 0.0
    ratio = 0.0
    inverse[:] = 0.0
    for k in range(n_slots):
        if counts[k] == 0:
            continue
        n_clusters += 1
        for c in range(d):
            inverse[c] += 1.0 / own.variance[c, k]
            ratio += scale[c] / own.variance[c, k]
            log_ratio += math.log(scale[c] / own.variance[c, k])
            for f in range(n_factors):
                form += own.scaled[f, c, k] * own.scaled[f, c, k]
    a, b = STRENGTH_PRIOR
    shape = a + 0.5 * n_clusters * n_factors * d
    own.prior[STRENGTH] = (b + 0.5 * form) / rng.standard_gamma(shape)
    if update.typical > 0.0:
        density = LogSpareOfVariances(float(n_clusters * d), log_ratio, ratio, update.typical)
        own.prior[NU] = 2.0 + slice_spare(density, own.prior[NU] - 2.0, rng)
    if update.scale.form != FIXED:
        update.rows[2, :] = n_clusters
        draw_variances(update.scale, own.prior[NU], update.rows[2], inverse, scale, rng)


@jit
def draw_from_prior(own, k, rng):
    """Give slot k loadings and variances from their prior."""
    nu, v = own.prior[NU], own.prior[STRENGTH]
    n_factors, d, _slots = own.scaled.shape
    for c in range(d):
        rate = 0.5 * (nu - 2.0) * own.prior[SCALE + c]
        own.variance[c, k] = rate / rng.standard_gamma(0.5 * nu)
    for c in range(d):
        for f in range(n_factors):
            own.scaled[f, c, k] = rng.standard_normal() * math.sqrt(v)
    settle_factors(own, k)


@step.register(FactorStep)
def _(update, model, family, parameters, prior, z, counts, rng):
    own = family.covariance
    update.n_drawn[0] += 1
    for k in range(counts.shape[0]):
        if counts[k] > 0 and not _draw_slot(
            own, k, model, family, parameters.mean[:, k], z, counts[k], update, rng
        ):
            return 1
    if update.n_drawn[0] > update.n_held:
        _draw_common(own, counts, update, rng)
    for k in range(counts.shape[0]):
        if counts[k] == 0:
            draw_from_prior(own, k, rng)
    copy_factors(own, parameters.covariance)
    return 0


@log_weight.register(FactorStep)
def _(update, model, family, parameters, prior, counts):
    own = family.covariance
    n_factors, d, n_slots = own.scaled.shape
    nu, v, scale = own.prior[NU], own.prior[STRENGTH], own.prior[SCALE:]
    a, b = STRENGTH_PRIOR
    total = a * math.log(b) - math.lgamma(a) - (a + 1.0) * math.log(v) - b / v
    for k in range(n_slots):
        if counts[k] == 0:
            continue
        for c in range(d):
            variance = own.variance[c, k]
            rate = 0.5 * (nu - 2.0) * scale[c]
            total += 0.5 * nu * math.log(rate) - math.lgamma(0.5 * nu)
            total -= (0.5 * nu + 1.0) * math.log(variance) + rate / variance
            # Scaled loadings are normal; back to loadings themselves.
            total -= 0.5 * n_factors * (math.log(2.0 * math.pi * v) + math.log(variance))
            for f in range(n_factors):
                total -= 0.5 * own.scaled[f, c, k] * own.scaled[f, c, k] / v
    if update.typical > 0.0:
        total += spare_log_density(update.typical, nu - 2.0)
    if update.scale.form != FIXED:
        total += variances_log_density(update.scale, scale) + widths_log_density(update.scale)
    return total


@show.register(FactorStep)
def _(update, model, family, parameters, prior, counts, out):
    own = family.covariance
    n_factors, d, n_slots = own.scaled.shape
    at = 0
    for k in range(n_slots):
        for c in range(d):
            for f in range(n_factors):
                out[at] = own.scaled[f, c, k] / own.root[c, k]
                at += 1
    for k in range(n_slots):
        for c in range(d):
            out[at] = own.variance[c, k]
            at += 1
    return at


class FactorUpdate(HeldUpdate):
    """Draws factors, and given these loadings, variances and what clusters have in common."""

    name = "factors"
    changes = frozenset({LIKELIHOOD})
    cluster_parameters = ("loading", "uniqueness")

    def explain(self, failure: int) -> str:
        """Return what could not be drawn, and the way out."""
        return (
            "The loadings of a cluster cannot be drawn: its factors are singular. Use fewer "
            "factors, or limit large sample_weight."
        )

    def kernel(self, chain: Chain) -> FactorStep:
        """Return it for kernels."""
        n_factors, d, _ = chain.family.covariance.scaled.shape
        return FactorStep(
            self.scale, self.typical, self.n_drawn, int(self.n_held),
            np.empty((n_factors, chain.z.size + 1)), np.empty((2, n_factors, n_factors)),
            np.empty((n_factors, d)), np.empty(n_factors), np.empty((3, d)),
        )  # fmt: skip

    def shapes(self, chain: Chain) -> dict[str, tuple[int, ...]]:
        """Return shapes of loadings and own variances of every slot."""
        n_factors, d, n_slots = chain.family.covariance.scaled.shape
        return {"loading": (n_slots, d, n_factors), "uniqueness": (n_slots, d)}

    def grow(self, chain: Chain, start: int, rng: np.random.Generator) -> None:
        """Parameters of new slots from their prior."""
        own = chain.family.covariance
        for k in range(start, chain.counts.size):
            draw_from_prior(own, k, rng)
        copy_factors(own, chain.parameters.covariance)
