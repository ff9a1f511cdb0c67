"""What clusters' shares of categories have in common, learned column by column.

Shares of a column with L categories ~ Dirichlet(s g): g are the shares of a typical cluster, s
says how alike clusters are. g ~ Dirichlet(1, ..., 1), and s has density t / (t + s)^2 with median
t = L; no a_l = s g_l is below 0.02. A column in which all clusters are alike gets a large s, and no
longer tells them apart.

Both are drawn with the clusters' shares integrated out, given the numbers of members n_kl in
category l of cluster k: with a = s g,

    sum over clusters of  lnGamma(s) - lnGamma(s + n_k)
                          + sum over l of  lnGamma(a_l + n_kl) - lnGamma(a_l),

by slice steps on the logarithm of s and of each a_l.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, NamedTuple, Self

import numpy as np

from cavity._numba.arrays import fitting, saved_array
from cavity._numba.jit import jit, verb
from cavity._numba.numerics import log_gamma
from cavity._numba.simd import WIDTH, load8, splat8, sum8, whole_vectors
from cavity._numba.slice_sampler import log_target, slice_step
from cavity.conjugate.common import shift_slots
from cavity.conjugate.selected import pool_categories
from cavity.interface import log_weight, show, step
from cavity.likelihoods.missing import rows_of, weight_of
from cavity.updates import CLUSTER_PRIOR, Chain, Update

LEAST, MOST = 0.02, 1e6
# Columns take turns: each is drawn after every so many sweeps. Of one with more categories than
# this so many, chosen at random, are drawn.
TURNS = 4
LEVELS_DRAWN = 32


class LogConcentration(NamedTuple):
    """Density of the log of one category's concentration (level >= 0), or of their sum."""

    concentration: np.ndarray  # (P,)
    counts: np.ndarray  # (P, slots)
    totals: np.ndarray  # (slots,), of the column
    first: int  # the column's categories
    last: int
    level: int
    sum: float  # of the present concentrations


@jit(internal=True)
def _terms(members, a):
    """Sum over slots of lnGamma(a + n) - lnGamma(a), n being their members; they come in eights."""
    at_a = splat8(log_gamma(a))
    value = splat8(0.0)
    for k in range(0, members.shape[0], WIDTH):
        value = value + (log_gamma(a + load8(members, k)) - at_a)
    return sum8(value)


@log_target.register(LogConcentration)
def _(density, x):
    typical = float(density.last - density.first)
    value = math.exp(x)
    if density.level >= 0:
        if value < LEAST or value > MOST:
            return -math.inf
        s = density.sum - density.concentration[density.level] + value
        total = _terms(density.counts[density.level], value)
        # p(a) = p(s) p(g) s^(1 - L), and the logarithm's own factor.
        total += x - (typical - 1.0) * math.log(s)
    else:
        s = value
        scale = s / density.sum
        total = x
        for p in range(density.first, density.last):
            a = density.concentration[p] * scale
            if a < LEAST or a > MOST:
                return -math.inf
            total += _terms(density.counts[p], a)
    return total - 2.0 * math.log(typical + s) - _terms(density.totals, s)


@jit(internal=True)
def draw_concentrations(concentration, start, counts, totals, begin, rng):
    """Draw the concentrations of some columns in place, given every cluster's members."""
    for j in range(begin, start.shape[0] - 1, TURNS):
        first, last = start[j], start[j + 1]
        if last - first < 2:
            continue
        s = 0.0
        for k in range(totals.shape[0]):
            totals[k] = 0.0
        for p in range(first, last):
            s += concentration[p]
            for k in range(totals.shape[0]):
                totals[k] += counts[p, k]
        some = last - first > LEVELS_DRAWN
        for at in range(min(last - first, LEVELS_DRAWN)):
            p = first + int(rng.random() * (last - first)) if some else first + at
            density = LogConcentration(concentration, counts, totals, first, last, p, s)
            old = concentration[p]
            concentration[p] = math.exp(slice_step(density, math.log(old), 1.0, rng))
            s += concentration[p] - old
        s = 0.0
        for p in range(first, last):
            s += concentration[p]
        density = LogConcentration(concentration, counts, totals, first, last, -1, s)
        scale = math.exp(slice_step(density, math.log(s), 1.0, rng)) / s
        for p in range(first, last):
            concentration[p] = min(max(concentration[p] * scale, LEAST), MOST)


@verb
def count_members(model, start, z, first, step, out):
    """Write the members of every cluster in every category of some columns, (P, slots)."""


@count_members.register(None)
def _(model, start, z, first, step, out):
    cell = rows_of(model).cell
    for j in range(first, cell.shape[1], step):
        for p in range(start[j], start[j + 1]):
            for k in range(out.shape[1]):
                out[p, k] = 0.0
    for i in range(cell.shape[0]):
        weight = weight_of(model, z, i)
        for j in range(first, cell.shape[1], step):
            if cell[i, j] >= 0:
                out[cell[i, j], z[i]] += weight


class ShareStep(NamedTuple):
    """`ShareHyperpriors` for kernels."""

    n_drawn: np.ndarray  # (1,)
    n_held: int
    members: np.ndarray  # (P, slots)
    totals: np.ndarray  # (slots,)
    before: np.ndarray  # (P,)


@step.register(ShareStep)
def _(update, model, family, parameters, prior, z, counts, rng):
    update.n_drawn[0] += 1
    if update.n_drawn[0] <= update.n_held:
        return 0
    concentration, start, before = family.prior, family.start, update.before
    for p in range(before.shape[0]):
        before[p] = concentration[p]
    begin = update.n_drawn[0] % TURNS
    count_members(model, start, z, begin, TURNS, update.members)
    pool_categories(family, update.members)
    draw_concentrations(concentration, start, update.members, update.totals, begin, rng)
    shift_slots(family, before)
    return 0


@log_weight.register(ShareStep)
def _(update, model, family, parameters, prior, counts):
    total = 0.0
    for j in range(family.start.shape[0] - 1):
        first, last = family.start[j], family.start[j + 1]
        n = float(last - first)
        if n > 1.0:
            s = 0.0
            for p in range(first, last):
                s += family.prior[p]
            total += math.log(n) - 2.0 * math.log(n + s) + math.lgamma(n) - (n - 1.0) * math.log(s)
    return total


@show.register(ShareStep)
def _(update, model, family, parameters, prior, counts, out):
    n_columns = family.start.shape[0] - 1
    for j in range(n_columns):
        out[j] = 0.0
        for p in range(family.start[j], family.start[j + 1]):
            out[j] += family.prior[p]
    return n_columns


class ShareHyperpriors(Update):
    """Learns what the clusters' shares have in common, for a categorical part.

    Parameters
    ----------
    n_held : int
        Draws at the beginning that are left out.
    """

    name = "share_hyperpriors"
    changes = frozenset({CLUSTER_PRIOR})
    first = True

    def __init__(self, n_held: int = 0) -> None:
        self.n_held = n_held
        self.n_drawn = np.zeros(1, dtype=np.int64)
        self._room: tuple[Any, ...] = ()

    def fresh(self) -> Self:
        """One with room of its own."""
        return type(self)(self.n_held)

    def kernel(self, chain: Chain) -> ShareStep:
        """Return it for kernels."""
        family: Any = chain.family
        n_columns, n_slots = family.weight.shape
        # Chains over rows in shards have any number of slots; those that are added have no members.
        shape = n_columns, whole_vectors(n_slots)
        if not self._room or self._room[0].shape != shape:
            self._room = (np.zeros(shape), np.zeros(shape[1]), np.zeros(n_columns))
        return ShareStep(self.n_drawn, self.n_held, *self._room)

    def shapes(self, chain: Chain) -> dict[str, tuple[int, ...]]:
        """Return the shape of how alike clusters are in each column: s."""
        return {"share_prior_strength": (chain.family.start.size - 1,)}

    def arrays(self) -> dict[str, np.ndarray]:
        """How often it was asked to draw."""
        return {"n_drawn": self.n_drawn.copy()}

    def restore(self, arrays: Mapping[str, np.ndarray], chain: Chain) -> None:
        """Continue from ``arrays``."""
        self.n_drawn = fitting(saved_array(arrays, "n_drawn"), self.n_drawn, "n_drawn")
