"""Kernels of the partition search: counts between a candidate and every draw, kept up to date.

A candidate is a vector of labels (-1: not yet allocated). For each draw d and each of its clusters
j, ``counts[row_start[d] + j, k]`` is the number of allocated observations that cluster j shares
with the candidate's cluster k. Moving one observation changes one entry per draw, and the loss of
every choice for it is read off those entries. See `cavity.posterior.losses` for the losses: VI and
Binder add a function f of counts, so only its differences ``gain[m] = f(m + 1) - f(m)`` appear;
since a + b = 2 its normalisation cancels, and a partial allocation needs no special care.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from cavity._numba.jit import jit, verb
from cavity.posterior.losses import omari_value


class TableSearch(NamedTuple):
    """A candidate and its overlap with the draws, for a loss that adds a function of counts."""

    by_item: np.ndarray  # (n, draw) canonical labels
    weights: np.ndarray  # (draw,)
    row_start: np.ndarray  # (draw + 1,)
    labels: np.ndarray  # (n,) candidate
    sizes: np.ndarray  # (cap,)
    counts: np.ndarray  # (rows, cap)
    out: np.ndarray  # (cap,) room for the loss of each choice
    margin: np.ndarray  # (n,) by how much the best choice beat the next, when last looked at
    value: np.ndarray  # f(0..n)
    gain: np.ndarray  # f(m + 1) - f(m)
    gains: np.ndarray  # (rows, cap) gain at each count: read in order, not looked up
    b: float  # cost of joining observations that do not belong together


class OmariSearch(NamedTuple):
    """A candidate and its overlap with the draws, for one minus the adjusted Rand index."""

    by_item: np.ndarray  # (n, draw) canonical labels
    weights: np.ndarray  # (draw,)
    row_start: np.ndarray  # (draw + 1,)
    labels: np.ndarray  # (n,) candidate
    sizes: np.ndarray  # (cap,)
    counts: np.ndarray  # (rows, cap)
    out: np.ndarray  # (cap,) room for the loss of each choice
    margin: np.ndarray  # (n,) by how much the best choice beat the next, when last looked at
    row_size: np.ndarray  # (rows,) allocated observations of each draw's cluster
    together: np.ndarray  # (draw,) pairs together in both
    pairs_z: np.ndarray  # (draw,) pairs together in the draw
    totals: np.ndarray  # (2,) pairs together in the candidate; observations allocated


@verb
def count(s, i, k, sign):
    """Add observation i to the counts of cluster k (sign 1) or take it out (sign -1)."""


@verb
def scores(s, i, current, top):
    """Write the loss, up to a constant, of observation i in each of slots 0..top-1 to `s.out`.

    It is in slot `current` (or free: -1) and stays there: taking it out first to put it back would
    cost as much as the scores.
    """


@verb
def merge_costs(s, top, cost, pair, used):
    """Change of expected loss, but for the estimate's own term, by merging clusters m < k.

    Moving observations one at a time cannot cross the ridge between two halves of a cluster.
    """


@count.register(TableSearch)
def _(s, i, k, sign):
    counts, gains, gain = s.counts, s.gains, s.gain
    row_start, by_item = s.row_start, s.by_item
    for d in range(by_item.shape[1]):
        row = row_start[d] + by_item[i, d]
        m = counts[row, k] + sign
        counts[row, k] = m
        gains[row, k] = gain[m]


@count.register(OmariSearch)
def _(s, i, k, sign):
    counts, row_size, together, pairs_z = s.counts, s.row_size, s.together, s.pairs_z
    row_start, by_item = s.row_start, s.by_item
    # Leaving, an observation does not count among its own mates.
    own = 0 if sign > 0 else 1
    for d in range(by_item.shape[1]):
        row = row_start[d] + by_item[i, d]
        together[d] += sign * (counts[row, k] - own)
        pairs_z[d] += sign * (row_size[row] - own)
        row_size[row] += sign
        counts[row, k] += sign
    s.totals[0] += sign * (s.sizes[k] - own)
    s.totals[1] += sign


@jit(internal=True)
def _put(s, i, k, sign):
    """Allocate observation i to cluster k (sign 1) or take it out (sign -1)."""
    count(s, i, k, sign)
    s.labels[i] = k if sign > 0 else -1
    s.sizes[k] += sign


@scores.register(TableSearch)
def _(s, i, current, top):
    out, weights, row_start, by_item = s.out, s.weights, s.row_start, s.by_item
    gains, gain, counts, sizes = s.gains, s.gain, s.counts, s.sizes
    b = s.b
    for k in range(top):
        out[k] = 0.0
    own = 0.0
    for d in range(weights.shape[0]):
        w = weights[d]
        row = row_start[d] + by_item[i, d]
        for k in range(top):
            out[k] += w * gains[row, k]
        if current >= 0:
            own += w * gain[counts[row, current] - 1]
    if current >= 0:
        out[current] = own
    for k in range(top):
        others = sizes[k] - 1 if k == current else sizes[k]
        out[k] = b * gain[others] - 2.0 * out[k]


@scores.register(OmariSearch)
def _(s, i, current, top):
    out, weights, row_start, by_item = s.out, s.weights, s.row_start, s.by_item
    counts, sizes = s.counts, s.sizes
    for k in range(top):
        out[k] = 0.0
    t = s.totals[1] if current >= 0 else s.totals[1] + 1.0
    pairs = 0.5 * t * (t - 1.0)
    alone = s.totals[0] - (sizes[current] - 1 if current >= 0 else 0)
    for d in range(weights.shape[0]):
        w = weights[d]
        row = row_start[d] + by_item[i, d]
        theirs = s.pairs_z[d]
        together = s.together[d]
        mates = 0
        if current >= 0:
            mates = counts[row, current] - 1
            together -= mates
        else:
            theirs += s.row_size[row]
        for k in range(top):
            out[k] += w * omari_value(together + counts[row, k], alone + sizes[k], theirs, pairs)
        if current >= 0:
            # The slot's own counts include the observation itself.
            with_self = omari_value(
                together + counts[row, current], alone + sizes[current], theirs, pairs
            )
            right = omari_value(together + mates, alone + sizes[current] - 1, theirs, pairs)
            out[current] += w * (right - with_self)


@jit(internal=True)
def _choose(s, i, current, top):
    """Best slot for observation i; the current one (-1 if it is free) wins ties."""
    scores(s, i, current, top)
    out, sizes = s.out, s.sizes
    alone = current >= 0 and sizes[current] == 1
    empty = -1
    best = current
    least = np.inf
    second = np.inf
    for k in range(top):
        if sizes[k] == 0 and k != current:
            # All empty slots are the same choice: look at the first only.
            if empty >= 0 or alone:
                continue
            empty = k
        if out[k] < least:
            second = least
            least = out[k]
        elif out[k] < second:
            second = out[k]
        if best < 0 or out[k] < out[best] - 1e-12 * (1.0 + abs(out[best])):
            best = k
    s.margin[i] = second - least
    return best


@jit(internal=True)
def _top(sizes):
    """One more than the last used slot, plus an empty one if there is room."""
    top = sizes.shape[0]
    while top > 0 and sizes[top - 1] == 0:
        top -= 1
    return min(top + 1, sizes.shape[0])


@jit
def put_many(s, items, labels, sign):
    """Allocate (sign 1) or take out (sign -1) several observations."""
    for at in range(items.shape[0]):
        _put(s, items[at], labels[at], sign)


@jit
def scan(s, order):
    """Move each observation, or put it if it is free, where it costs least; number of moves."""
    moves = 0
    # Of one integer type: `_put` is then compiled once.
    leave, join = np.int64(-1), np.int64(1)
    for at in range(order.shape[0]):
        i = order[at]
        old = s.labels[i]
        new = _choose(s, i, old, _top(s.sizes))
        if new != old:
            if old >= 0:
                _put(s, i, old, leave)
            _put(s, i, new, join)
            moves += 1
    return moves


@jit
def all_merge_costs(s, top, cost, pair, used):
    """``merge_costs``, for a call from Python."""
    merge_costs(s, top, cost, pair, used)


@merge_costs.register(TableSearch)
def _(s, top, cost, pair, used):
    counts, value, row_start, weights = s.counts, s.value, s.row_start, s.weights
    for d in range(weights.shape[0]):
        w = weights[d]
        for row in range(row_start[d], row_start[d + 1]):
            n_used = 0
            for k in range(top):
                x = counts[row, k]
                if x == 0:
                    continue
                for at in range(n_used):
                    m = used[at]
                    y = counts[row, m]
                    cost[k, m] -= 2.0 * w * (value[x + y] - value[x] - value[y])
                used[n_used] = k
                n_used += 1


@merge_costs.register(OmariSearch)
def _(s, top, cost, pair, used):
    counts, row_start, weights, sizes = s.counts, s.row_start, s.weights, s.sizes
    total, n = s.totals[0], s.totals[1]
    pairs = 0.5 * n * (n - 1.0)
    for d in range(weights.shape[0]):
        for row in range(row_start[d], row_start[d + 1]):
            for k in range(top):
                for m in range(k):
                    pair[k, m] += counts[row, k] * counts[row, m]
        here = omari_value(s.together[d], total, s.pairs_z[d], pairs)
        for k in range(top):
            for m in range(k):
                joined = total + sizes[k] * sizes[m]
                there = omari_value(s.together[d] + pair[k, m], joined, s.pairs_z[d], pairs)
                cost[k, m] += weights[d] * (there - here)
                pair[k, m] = 0.0


@jit
def cut_losses(merges, own, rows, n_rows, weights, value, is_table, a, counts, size, loss):
    """Add the expected loss of every cut of a tree: entry t is the partition after t merges.

    Merge t joins cluster ``merges[t, 1]`` to cluster ``merges[t, 0]``, and ``own`` is the sum of
    f over the estimate's clusters (its number of pairs for omARI) after each.
    """
    n = rows.shape[1]
    top = counts.shape[1]
    pairs = 0.5 * n * (n - 1.0)
    for d in range(rows.shape[0]):
        for i in range(n):
            for j in range(top):
                counts[i, j] = 0
        for j in range(top):
            size[j] = 0
        theirs = 0.0
        both = n * value[1] if is_table else 0.0
        for i in range(n):
            counts[i, rows[d, i]] = 1
            size[rows[d, i]] += 1
        for j in range(n_rows[d]):
            m = size[j]
            theirs += value[m] if is_table else 0.5 * m * (m - 1.0)
        for t in range(n):
            if is_table:
                loss[t] += weights[d] * (a * theirs + (2.0 - a) * own[t] - 2.0 * both)
            else:
                loss[t] += weights[d] * omari_value(both, own[t], theirs, pairs)
            if t == n - 1:
                break
            x, y = merges[t, 0], merges[t, 1]
            for j in range(n_rows[d]):
                if counts[y, j] > 0:
                    p, q = counts[x, j], counts[y, j]
                    both += value[p + q] - value[p] - value[q] if is_table else p * q
                    counts[x, j] = p + q
