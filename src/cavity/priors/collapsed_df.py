"""Degrees of freedom of the clusters' covariances, drawn with the covariances integrated out.

Given the covariances, their degrees of freedom mix slowly: covariances that were drawn much alike
call for degrees of freedom that draw them alike again. Where a collapse keeps every cluster's
posterior NIW(m_k, kappa_k, nu + n_k, c S + C_k), C_k the part of the members, the evidence as a
function of c = nu - d - 1 alone is

    sum over clusters of  lnGamma_d((nu + n_k) / 2) - lnGamma_d(nu / 2)
                          + nu / 2 log|c S| - (nu + n_k) / 2 log|c S + C_k|,

and a slice step on log c is quick. It comes before the covariances are drawn. Where columns are
independent, the same holds for each of them with d = 1 and c = nu - 2.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from cavity._numba.jit import jit
from cavity._numba.linalg import cholesky_in_place
from cavity._numba.slice_sampler import height_at, log_target, slice_step
from cavity.conjugate.common import load_slot
from cavity.conjugate.nig import read_diagonal, write_diagonal
from cavity.conjugate.niw import log_multigamma
from cavity.interface import step
from cavity.priors.cluster import read_psi
from cavity.priors.covariance_df import log_spare_prior, slice_spare
from cavity.priors.hyperpriors import ClusterHyperpriors, HeldUpdate
from cavity.updates import Chain, Update

# With more columns the determinants cost more than the sweep.
MOST_COLUMNS = 40


class LogSpareOfAll(NamedTuple):
    """Density of log(nu - d - 1) given the members of every cluster."""

    scale: np.ndarray  # (d, d), S
    members: np.ndarray  # (slots, d, d), C_k
    counts: np.ndarray  # (slots,)
    typical: float
    work: np.ndarray  # (d, d)


@jit(internal=True)
def _log_det(density, spare, k):
    """log|spare S + C_k|, or without the members for k = -1; NaN if it has none."""
    d = density.scale.shape[0]
    work = density.work
    for r in range(d):
        for c in range(r + 1):
            work[r, c] = spare * density.scale[r, c]
            if k >= 0:
                work[r, c] += density.members[k, r, c]
    if not cholesky_in_place(work):
        return math.nan
    total = 0.0
    for r in range(d):
        total += 2.0 * math.log(work[r, r])
    return total


@log_target.register(LogSpareOfAll)
def _(density, x):
    total = log_spare_prior(density.typical, x)
    if total == -math.inf:
        return total
    spare = math.exp(x)
    d = density.scale.shape[0]
    nu = spare + d + 1.0
    prior = 0.5 * nu * _log_det(density, spare, -1) - log_multigamma(0.5 * nu, d)
    for k in range(density.counts.shape[0]):
        if density.counts[k] > 0:
            after = nu + density.counts[k]
            total += prior + log_multigamma(0.5 * after, d)
            total -= 0.5 * after * _log_det(density, spare, k)
    return total if total == total else -math.inf


@jit(internal=True)
def draw_df_of_all(q, counts, typical, scale, members, work, rng):
    """Draw nu given the members, and update prior and slots; return False on failure."""
    d = scale.shape[0]
    natural = q.prior
    spare = natural[1] - d - 1.0
    read_psi(natural, scale)
    for k in range(counts.shape[0]):
        read_psi(q.natural[k], members[k])
        for r in range(d):
            for c in range(r + 1):
                members[k, r, c] -= scale[r, c]
    for r in range(d):
        for c in range(r + 1):
            scale[r, c] /= spare
    density = LogSpareOfAll(scale, members, counts, typical, work)
    x = math.log(spare)
    if height_at(density, x) == -math.inf:
        return False
    change = math.exp(slice_step(density, x, 1.0, rng)) - spare
    for k in range(-1, counts.shape[0]):
        row = natural if k < 0 else q.natural[k]
        row[1] += change
        position = 2 + d
        for r in range(d):
            for c in range(r + 1):
                row[position] += change * scale[r, c]
                position += 1
        if k >= 0:
            load_slot(q, k)
    return True


class CollapsedDfStep(NamedTuple):
    """`CollapsedDfUpdate` for kernels."""

    typical: float
    n_drawn: np.ndarray  # (1,)
    n_held: int
    scale: np.ndarray
    members: np.ndarray
    work: np.ndarray


@step.register(CollapsedDfStep)
def _(update, model, family, parameters, prior, z, counts, rng):
    # Where rounding leaves no determinant, the draw given the covariances has to do.
    if update.n_drawn[0] >= update.n_held:
        draw_df_of_all(
            family, counts, update.typical, update.scale, update.members, update.work, rng
        )
    return 0


class CollapsedDfUpdate(Update):
    """Draws the degrees of freedom of the clusters' prior given their members alone.

    Parameters
    ----------
    hyperpriors : ClusterHyperpriors
        The chain's own, which has their prior, shows them, and draws them once more given the
        covariances.
    """

    name = "collapsed_df"
    first = True

    def __init__(self, hyperpriors: ClusterHyperpriors) -> None:
        self.hyperpriors = hyperpriors
        self.d = hyperpriors.d
        self._room: tuple[Any, ...] = ()

    def kernel(self, chain: Chain) -> CollapsedDfStep:
        """Return it for kernels."""
        own, d, n_slots = self.hyperpriors, self.d, chain.counts.size
        if not self._room or len(self._room[1]) != n_slots:
            self._room = (np.zeros((d, d)), np.zeros((n_slots, d, d)), np.zeros((d, d)))
        return CollapsedDfStep(own.typical, own.n_drawn, int(own.n_held), *self._room)


def with_collapsed_df(updates: tuple[Update, ...]) -> tuple[Update, ...]:
    """Add this update if degrees of freedom are learned and there are few columns."""
    extra = tuple(
        CollapsedDfUpdate(u)
        for u in updates
        if isinstance(u, ClusterHyperpriors) and u.typical > 0.0 and u.d <= MOST_COLUMNS
    )
    return (*extra, *updates)


class LogSpareOfMembers(NamedTuple):
    """Density of log(nu - 2) given the members of every cluster, variances integrated out."""

    scale: np.ndarray  # (d,), S
    members: np.ndarray  # (d, slots), what members add to (nu - 2) S
    sizes: np.ndarray  # (slots,)
    counts: np.ndarray  # (slots,)
    typical: float


@log_target.register(LogSpareOfMembers)
def _(density, x):
    total = log_spare_prior(density.typical, x)
    if total == -math.inf:
        return total
    spare = math.exp(x)
    nu = spare + 2.0
    d, n_slots = density.members.shape
    for k in range(n_slots):
        if density.counts[k] == 0:
            continue
        after = nu + density.sizes[k]
        total += d * (math.lgamma(0.5 * after) - math.lgamma(0.5 * nu))
        for c in range(d):
            prior = spare * density.scale[c]
            total += 0.5 * nu * math.log(prior)
            total -= 0.5 * after * math.log(prior + density.members[c, k])
    return total if total == total else -math.inf


class SpareStep(NamedTuple):
    """`CollapsedSpareUpdate` for kernels."""

    typical: float
    n_drawn: np.ndarray  # (1,)
    n_held: int
    room: np.ndarray  # (2, d)
    members: np.ndarray  # (d, slots)
    sizes: np.ndarray  # (slots,)


@step.register(SpareStep)
def _(update, model, family, parameters, prior, z, counts, rng):
    update.n_drawn[0] += 1
    if update.n_drawn[0] <= update.n_held:
        return 0
    q, members, sizes = family, update.members, update.sizes
    centre, scale = update.room[0], update.room[1]
    d, n_slots = members.shape
    kappa, nu = read_diagonal(q.prior, centre, scale)
    for k in range(n_slots):
        sizes[k] = q.nu[k] - nu
        for c in range(d):
            members[c, k] = max(q.psi[c, k] - (nu - 2.0) * scale[c], 0.0)
    density = LogSpareOfMembers(scale, members, sizes, counts, update.typical)
    change = slice_spare(density, nu - 2.0, rng) + 2.0 - nu
    write_diagonal(q.prior, centre, kappa, nu + change, scale)
    for k in range(n_slots):
        q.natural[k, 1] += change
        for c in range(d):
            q.natural[k, 2 + d + c] += change * scale[c]
        load_slot(q, k)
    return 0


class CollapsedSpareUpdate(HeldUpdate):
    """Draws nu of independent columns given the members of every cluster alone.

    Given variances that were drawn much alike, nu would hardly move. `DiagonalHyperpriors` has its
    prior and shows it.
    """

    name = "collapsed_df"
    changes = frozenset()
    first = True

    def shapes(self, chain: Chain) -> dict[str, tuple[int, ...]]:
        """Return nothing: it shows nothing."""
        return {}

    def kernel(self, chain: Chain) -> SpareStep:
        """Return it for kernels."""
        d, n_slots = self.d, chain.counts.size
        room = np.empty((2, d)), np.empty((d, n_slots)), np.empty(n_slots)
        return SpareStep(self.typical, self.n_drawn, int(self.n_held), *room)
