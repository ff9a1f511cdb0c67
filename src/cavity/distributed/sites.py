"""Expectation propagation over the rows of one shard, given what rows elsewhere say.

A slot is the prior, times the sites of members that are elsewhere, as they were told last, times
the sites of members that are here, which are fresh. The scan is that of every collapse
(`cavity.mcmc.sweep`); cavities, evidence and projections are those of `cavity.collapse.ep`.
With nothing elsewhere a sweep is one of that collapse, draw for draw.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from cavity._numba.jit import jit
from cavity._numba.numerics import fast_log
from cavity.collapse.ep import HELD, INVALID, REFITTED, SWEEPS, add_site
from cavity.conjugate.common import load_slot
from cavity.interface import choose, divergence, hold, insert, load, pick, put_back, remove

# Halvings of what is elsewhere before a slot does without it.
HALVINGS = 40


class ShardEP(NamedTuple):
    """State of a shard's scan."""

    model: Any
    family: Any
    sites: np.ndarray  # (n, P)
    base: np.ndarray  # (slots, P), prior and sites elsewhere
    elsewhere: np.ndarray  # (slots,), members elsewhere
    fraction: float
    damping: float
    scores: np.ndarray  # (slots,)
    mass: np.ndarray  # (slots,)
    visited: np.ndarray  # (slots,)
    kept: np.ndarray  # (2, P)
    held: np.ndarray  # (2, P)
    pace: np.ndarray  # (4,), as in `cavity.collapse.ep`
    counters: np.ndarray  # (4,), as there


def shard_state(
    model: Any,
    family: Any,
    sites: np.ndarray,
    elsewhere: np.ndarray,
    fraction: float,
    damping: float,
    n_sweeps: int,
    every: int,
) -> ShardEP:
    """State with room to work in; `load_slots` fills the slots."""
    n_slots, width = family.natural.shape
    return ShardEP(
        model, family, sites, np.zeros((n_slots, width)), elsewhere, fraction, damping,
        np.zeros(n_slots), np.zeros(n_slots), np.zeros(n_slots, dtype=np.int64),
        np.zeros((2, width)), np.zeros((2, width)), np.array([n_sweeps, every, -1, 0]),
        np.zeros(4, dtype=np.int64),
    )  # fmt: skip


@jit(internal=True)
def add_properly(q, k, sums):
    """Add sums to the prior in slot k: as large a share of them as leaves it proper.

    What was made beside other sites need not be a distribution without these. Returns the share.
    """
    share = 1.0
    for halving in range(HALVINGS + 1):
        if halving == HALVINGS:
            share = 0.0
        for p in range(sums.shape[0]):
            q.natural[k, p] = q.prior[p] + share * sums[p]
        if load_slot(q, k):
            break
        share *= 0.5
    return share


def set_slots(q, sums):
    """Every slot from the prior and a sum of sites; how many had to do with less than all."""
    limited = 0
    for k in range(sums.shape[0]):
        if add_properly(q, k, sums[k]) < 1.0:
            limited += 1
    return limited


def load_slots(state, z, others, improper):
    """Every slot from prior, sites elsewhere and sites here; marks and counts improper ones."""
    q = state.family
    n_slots, width = q.natural.shape
    for k in range(n_slots):
        add_properly(q, k, others[k])
        for p in range(width):
            state.base[k, p] = q.natural[k, p]
    for i in range(z.shape[0]):
        for p in range(width):
            q.natural[z[i], p] += state.sites[i, p]
    count = 0
    for k in range(n_slots):
        improper[k] = not load_slot(q, k)
        count += improper[k]
    return count


@jit(internal=True)
def _to_base(state, k):
    for p in range(state.base.shape[1]):
        state.family.natural[k, p] = state.base[k, p]
    load_slot(state.family, k)


@jit(internal=True)
def _put_in(state, z, k, without):
    """Members of slot k that are here, projected in one after the other upon what is elsewhere."""
    _to_base(state, k)
    n = 0
    for j in range(z.shape[0]):
        if z[j] == k and j != without:
            add_site(state, j, k)
            n += 1
    return n


def put_in(state, z, chosen):
    """The members of the chosen slots, afresh."""
    for k in range(chosen.shape[0]):
        if chosen[k]:
            _to_base(state, k)
    for j in range(z.shape[0]):
        if chosen[z[j]]:
            add_site(state, j, np.int64(z[j]))


@remove.register(ShardEP)
def _(state, z, counts, i, k):
    q, pace = state.family, state.pace
    pace[HELD] = -1
    if counts[k] == state.elsewhere[k]:
        _to_base(state, k)
        return
    if counts[k] == 1 and state.fraction == 1.0 and state.damping == 1.0:
        # The one that is left is here: its site made from the prior is always proper.
        _put_in(state, z, k, i)
        return
    natural, site = q.natural[k], state.sites[i]
    if (i + pace[SWEEPS]) % pace[1] != 0:
        hold(q, k, state.held)
        pace[HELD] = k
    for p in range(natural.shape[0]):
        natural[p] -= site[p]
    if not load(q, k):
        pace[HELD] = -1
        state.counters[INVALID] += 1
        state.counters[REFITTED] += _put_in(state, z, k, i)


@choose.register(ShardEP)
def _(state, i, weights, rng):
    return pick(state.model, state.family, i, weights, state.scores, state.mass, state.visited, rng)


@insert.register(ShardEP)
def _(state, i, k):
    held = state.pace[HELD]
    state.pace[HELD] = -1
    if held == k:
        put_back(state.family, k, state.held)
    else:
        add_site(state, i, k)


def sum_sites(z, sites, sums, counts):
    """Sites and members of every slot, added up."""
    for i in range(z.shape[0]):
        k = z[i]
        counts[k] += 1
        for p in range(sums.shape[1]):
            sums[k, p] += sites[i, p]


def measure(y, z, parameters, alpha, constant, rungs, tails):
    """Log density of the rows in their clusters; adds log(1 + distance / df) up for every rung.

    `constant` is what a cluster's log density has beside its rows' distances.
    """
    n, d = y.shape
    total = 0.0
    for i in range(n):
        k = z[i]
        delta = 0.0
        for r in range(d):
            s = 0.0
            for c in range(r + 1):
                s += parameters.whiten[r, c, k] * (y[i, c] - parameters.mean[c, k])
            delta += s * s
        a = alpha[k]
        total += constant[k] - (a + 0.5 * d) * fast_log(1.0 + delta * (0.5 / a))
        if rungs.shape[0] > 0:
            j = k if rungs.shape[0] > 1 else 0
            for r in range(rungs.shape[1]):
                tails[j, r] += fast_log(1.0 + delta * rungs[j, r])
    return total


def divergences(q, other, counts, out):
    """KL(q, other) of every occupied slot; NaN for the others."""
    for k in range(counts.shape[0]):
        out[k] = divergence(q, k, other, k) if counts[k] > 0 else np.nan
