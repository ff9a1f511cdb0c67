"""The learned prior of independent columns some of which all clusters share.

As in `DiagonalHyperpriors` and `CollapsedSpareUpdate`, but that a shared column has one mean and
one variance, and its members are all rows.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from cavity._numba.slice_sampler import log_target, slice_step
from cavity.conjugate.common import load_slot
from cavity.conjugate.nig import read_diagonal, write_diagonal
from cavity.conjugate.selected import pool
from cavity.interface import step
from cavity.priors.collapsed_df import CollapsedSpareUpdate
from cavity.priors.covariance_df import log_spare_prior, slice_spare
from cavity.priors.covariance_scale import FIXED, ScalePrior
from cavity.priors.hyperpriors import DiagonalHyperpriors
from cavity.updates import Chain


class SelectedSpare(NamedTuple):
    """Density of log(nu - 2) given members of clusters, or of all in the first slot."""

    scale: np.ndarray  # (d,), S
    members: np.ndarray  # (d, slots), what members add to (nu - 2) S
    sizes: np.ndarray  # (d, slots), zero where a slot has none
    typical: float


@log_target.register(SelectedSpare)
def _(density, x):
    total = log_spare_prior(density.typical, x)
    if total == -math.inf:
        return total
    spare = math.exp(x)
    nu = spare + 2.0
    d, n_slots = density.members.shape
    for c in range(d):
        prior = spare * density.scale[c]
        alone = 0.5 * nu * math.log(prior) - math.lgamma(0.5 * nu)
        for k in range(n_slots):
            if density.sizes[c, k] > 0.0:
                after = nu + density.sizes[c, k]
                total += alone + math.lgamma(0.5 * after)
                total -= 0.5 * after * math.log(prior + density.members[c, k])
    return total if total == total else -math.inf


class LogScale(NamedTuple):
    """Density of log S of one column given the same members, variances integrated out."""

    strength: float
    mean: float
    nu: float
    members: np.ndarray  # (slots,)
    sizes: np.ndarray  # (slots,)


@log_target.register(LogScale)
def _(density, x):
    scale = math.exp(x)
    prior = (density.nu - 2.0) * scale
    total = density.strength * (x - scale / density.mean)
    for k in range(density.sizes.shape[0]):
        if density.sizes[k] > 0.0:
            total += 0.5 * density.nu * math.log(prior)
            after = density.nu + density.sizes[k]
            total -= 0.5 * after * math.log(prior + density.members[k])
    return total


class SelectedSpareStep(NamedTuple):
    """`SelectedSpareUpdate` for kernels."""

    typical: float
    scale: ScalePrior
    n_drawn: np.ndarray  # (1,)
    n_held: int
    room: np.ndarray  # (2, d)
    members: np.ndarray  # (d, slots)
    sizes: np.ndarray  # (d, slots)


@step.register(SelectedSpareStep)
def _(update, model, family, parameters, prior, z, counts, rng):
    update.n_drawn[0] += 1
    if update.n_drawn[0] <= update.n_held:
        return 0
    q, members, sizes = family, update.members, update.sizes
    centre, scale = update.room[0], update.room[1]
    d, n_slots = members.shape
    kappa, nu = read_diagonal(q.prior, centre, scale)
    pool(q)
    for c in range(d):
        base = (nu - 2.0) * scale[c]
        for k in range(n_slots):
            members[c, k] = sizes[c, k] = 0.0
            if q.active[c] != 0 and counts[k] > 0:
                sizes[c, k] = q.nu[k] - nu
                members[c, k] = max(q.psi[c, k] - base, 0.0)
        if q.active[c] == 0:
            sizes[c, 0] = q.pooled[1] - nu
            first = q.pooled[2 + c]
            members[c, 0] = max(q.pooled[2 + d + c] - first * first / q.pooled[0] - base, 0.0)
    density = SelectedSpare(scale, members, sizes, update.typical)
    spare = slice_spare(density, nu - 2.0, rng)
    for c in range(d):
        before = (nu - 2.0) * scale[c]
        if update.scale.form != FIXED:
            own = update.scale
            of_column = LogScale(own.strength, own.mean[c], spare + 2.0, members[c], sizes[c])
            scale[c] = math.exp(slice_step(of_column, math.log(scale[c]), 0.5, rng))
        for k in range(n_slots):
            q.natural[k, 2 + d + c] += spare * scale[c] - before
    write_diagonal(q.prior, centre, kappa, spare + 2.0, scale)
    for k in range(n_slots):
        q.natural[k, 1] += spare + 2.0 - nu
        load_slot(q, k)
    return 0


class SelectedSpareUpdate(CollapsedSpareUpdate):
    """Draws nu and S given the members of every cluster, or of all in columns that clusters share.

    Parameters
    ----------
    hyperpriors : DiagonalHyperpriors
        The chain's own, which has their prior, shows them, and draws S once more.
    """

    def __init__(self, hyperpriors: DiagonalHyperpriors) -> None:
        super().__init__(*hyperpriors._given)
        self.hyperpriors = hyperpriors
        self.scale = hyperpriors.scale

    def kernel(self, chain: Chain) -> SelectedSpareStep:  # type: ignore[override]
        """Return it for kernels."""
        d, n_slots = self.d, chain.counts.size
        room = np.empty((2, d)), np.empty((d, n_slots)), np.empty((d, n_slots))
        return SelectedSpareStep(self.typical, self.scale, self.n_drawn, int(self.n_held), *room)
