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

from cavity._numba.jit import Kernels, jit
from cavity._numba.linalg import cholesky_in_place
from cavity._numba.slice_sampler import height_at, log_target, slice_step
from cavity.conjugate.common import load_slot
from cavity.conjugate.nig import pack_diagonal, unpack_diagonal
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


@jit
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
def _(update, state, parameters, prior, z, counts, rng):
    if update.n_drawn[0] >= update.n_held:
        draw_df_of_all(
            state.family, counts, update.typical, update.scale, update.members, update.work, rng
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
        self._kernels = Kernels()
        self._room: tuple[Any, ...] = ()

    def draw(self, chain: Chain, rng: np.random.Generator) -> None:
        """Draw the degrees of freedom; skip the draw if rounding leaves no determinant."""
        if self.hyperpriors.n_drawn[0] < self.hyperpriors.n_held:
            return
        room = self._room_for(chain.counts.size)
        self._kernels.run(
            draw_df_of_all, chain.family, chain.counts, self.hyperpriors.typical, *room, rng
        )

    def _room_for(self, n_slots: int) -> tuple[Any, ...]:
        d = self.d
        if not self._room or len(self._room[1]) != n_slots:
            self._room = (np.zeros((d, d)), np.zeros((n_slots, d, d)), np.zeros((d, d)))
        return self._room

    def kernel(self, chain: Chain) -> CollapsedDfStep:
        """Return the update for kernels."""
        own = self.hyperpriors
        room = self._room_for(chain.counts.size)
        return CollapsedDfStep(own.typical, own.n_drawn, int(own.n_held), *room)


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
    members: np.ndarray  # (clusters, d), what members add to (nu - 2) S
    sizes: np.ndarray  # (clusters,)
    typical: float


@log_target.register(LogSpareOfMembers)
def _(density, x):
    total = log_spare_prior(density.typical, x)
    if total == -math.inf:
        return total
    spare = math.exp(x)
    nu = spare + 2.0
    n_clusters, d = density.members.shape
    for k in range(n_clusters):
        after = nu + density.sizes[k]
        total += d * (math.lgamma(0.5 * after) - math.lgamma(0.5 * nu))
        for c in range(d):
            prior = spare * density.scale[c]
            total += 0.5 * nu * math.log(prior)
            total -= 0.5 * after * math.log(prior + density.members[k, c])
    return total if total == total else -math.inf


class CollapsedSpareUpdate(HeldUpdate):
    """Draws nu of independent columns given the members of every cluster alone.

    Given variances that were drawn much alike, nu would mix slowly.
    """

    name = "collapsed_df"
    changes = frozenset()
    first = True

    def draw(self, chain: Chain, rng: np.random.Generator) -> None:
        """Draw nu, and update prior and slots."""
        if self.waits():
            return
        q = chain.family
        mean, kappa, nu, psi = unpack_diagonal(q.prior)
        scale = psi / (nu - 2.0)
        used = np.flatnonzero(chain.counts > 0)
        density = LogSpareOfMembers(
            scale,
            np.maximum(q.psi[:, used].T - psi, 0.0),
            q.nu[used] - nu,
            self.typical,
        )
        spare = slice_spare(density, nu - 2.0, rng)
        change = spare + 2.0 - nu
        d = mean.size
        q.prior[:] = pack_diagonal(mean, kappa, nu + change, spare * scale)
        q.natural[:, 1] += change
        q.natural[:, 2 + d :] += change * scale
        q.nu[:] += change
        q.psi[:] += change * scale[:, None]

    def log_density(self, chain: Chain) -> float:
        """Return zero: `DiagonalHyperpriors` has the density."""
        return 0.0

    def record(self, chain: Chain) -> dict[str, np.ndarray]:
        """Return nothing: `DiagonalHyperpriors` records it."""
        return {}
