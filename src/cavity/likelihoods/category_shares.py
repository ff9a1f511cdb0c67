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
from cavity._numba.jit import Kernels, jit
from cavity._numba.numerics import log_gamma
from cavity._numba.simd import WIDTH, load8, splat8, sum8, whole_vectors
from cavity._numba.slice_sampler import log_target, slice_step
from cavity.conjugate.common import shift_slots
from cavity.likelihoods.categorical import count_categories
from cavity.likelihoods.missing import member_weights, plain_rows
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
        self._kernels = Kernels()
        self._room: tuple[np.ndarray, ...] = ()

    def fresh(self) -> Self:
        """One with room of its own."""
        return type(self)(self.n_held)

    def draw(self, chain: Any, rng: np.random.Generator) -> None:
        """Draw the concentrations given the labels; set the family's prior."""
        self.n_drawn += 1
        if self.n_drawn[0] <= self.n_held:
            return
        family: Any = chain.family
        n_columns, n_slots = family.weight.shape
        # Chains over rows in shards have any number of slots; those that are added have no members.
        shape = n_columns, whole_vectors(n_slots)
        if not self._room or self._room[0].shape != shape:
            self._room = (np.zeros(shape), np.zeros(shape[1]))
        counts, totals = self._room
        begin = int(self.n_drawn[0]) % TURNS
        known = getattr(chain.model, "members", None)
        if known is None:
            cell, weight = plain_rows(chain.model).cell, member_weights(chain.model, chain.z)
            count_categories(cell, weight, family.start, chain.z, begin, TURNS, counts)
        else:
            counts[:, :n_slots], counts[:, n_slots:] = known.T, 0.0
        before = family.prior.copy()
        self._kernels.run(
            draw_concentrations, family.prior, family.start, counts, totals, begin, rng
        )
        self._kernels.run(shift_slots, family, before)
        chain.collapse.note_prior()

    def log_density(self, chain: Chain) -> float:
        """Of all columns' concentrations under their prior."""
        family: Any = chain.family
        total = 0.0
        for first, last in zip(family.start[:-1], family.start[1:], strict=True):
            n = float(last - first)
            if n > 1:
                s = float(family.prior[first:last].sum())
                total += math.log(n) - 2.0 * math.log(n + s)
                total += math.lgamma(n) - (n - 1.0) * math.log(s)
        return total

    def record(self, chain: Chain) -> dict[str, np.ndarray]:
        """How alike clusters are in each column: s."""
        family: Any = chain.family
        return {"share_prior_strength": np.add.reduceat(family.prior, family.start[:-1])}

    def arrays(self) -> dict[str, np.ndarray]:
        """How often it was asked to draw."""
        return {"n_drawn": self.n_drawn.copy()}

    def restore(self, arrays: Mapping[str, np.ndarray], chain: Chain) -> None:
        """Continue from ``arrays``."""
        self.n_drawn = fitting(saved_array(arrays, "n_drawn"), self.n_drawn, "n_drawn")
