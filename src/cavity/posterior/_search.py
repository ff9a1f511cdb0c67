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

from cavity._jit import jit
from cavity.posterior.losses import omari_value

TABLE = 0
OMARI = 1


class SearchState(NamedTuple):
    """A candidate partition and its overlap with the draws."""

    by_item: np.ndarray  # (n, draw) canonical labels
    weights: np.ndarray  # (draw,)
    row_start: np.ndarray  # (draw + 1,)
    value: np.ndarray  # f(0..n)
    gain: np.ndarray  # f(m + 1) - f(m)
    labels: np.ndarray  # (n,) candidate
    sizes: np.ndarray  # (cap,)
    counts: np.ndarray  # (rows, cap)
    gains: np.ndarray  # (rows, cap) gain at each count: read in order, not looked up (not omARI)
    row_size: np.ndarray  # (rows,) allocated observations of each draw's cluster
    together: np.ndarray  # (draw,) pairs together in both
    pairs_z: np.ndarray  # (draw,) pairs together in the draw
    totals: np.ndarray  # (2,) pairs together in the candidate; observations allocated
    out: np.ndarray  # (cap,) room for the loss of each choice
    margin: np.ndarray  # (n,) by how much the best choice beat the next, when last looked at
    kind: int
    b: float  # cost of joining observations that do not belong together


@jit
def _put(s, i, k, sign):
    """Allocate observation i to cluster k (sign 1) or take it out (sign -1)."""
    for d in range(s.weights.shape[0]):
        row = s.row_start[d] + s.by_item[i, d]
        if s.kind == OMARI:
            if sign > 0:
                s.together[d] += s.counts[row, k]
                s.pairs_z[d] += s.row_size[row]
            else:
                s.together[d] -= s.counts[row, k] - 1
                s.pairs_z[d] -= s.row_size[row] - 1
            s.row_size[row] += sign
            s.counts[row, k] += sign
        else:
            count = s.counts[row, k] + sign
            s.counts[row, k] = count
            s.gains[row, k] = s.gain[count]
    if sign > 0:
        s.totals[0] += s.sizes[k]
        s.labels[i] = k
    else:
        s.totals[0] -= s.sizes[k] - 1
        s.labels[i] = -1
    s.sizes[k] += sign
    s.totals[1] += sign


@jit(forceinline=True)
def _scores(s, i, current, top):
    """Loss, up to a constant, of observation i in each of slots 0..top-1.

    It is in slot `current` (or free: -1) and stays there: taking it out first to put it back would
    cost as much as the scores.
    """
    out = s.out
    for k in range(top):
        out[k] = 0.0
    if s.kind == TABLE:
        own = 0.0
        for d in range(s.weights.shape[0]):
            w = s.weights[d]
            row = s.row_start[d] + s.by_item[i, d]
            for k in range(top):
                out[k] += w * s.gains[row, k]
            if current >= 0:
                own += w * s.gain[s.counts[row, current] - 1]
        if current >= 0:
            out[current] = own
        for k in range(top):
            others = s.sizes[k] - 1 if k == current else s.sizes[k]
            out[k] = s.b * s.gain[others] - 2.0 * out[k]
    else:
        t = s.totals[1] if current >= 0 else s.totals[1] + 1.0
        pairs = 0.5 * t * (t - 1.0)
        alone = s.totals[0] - (s.sizes[current] - 1 if current >= 0 else 0)
        for d in range(s.weights.shape[0]):
            w = s.weights[d]
            row = s.row_start[d] + s.by_item[i, d]
            theirs = s.pairs_z[d]
            together = s.together[d]
            mates = 0
            if current >= 0:
                mates = s.counts[row, current] - 1
                together -= mates
            else:
                theirs += s.row_size[row]
            for k in range(top):
                out[k] += w * omari_value(
                    together + s.counts[row, k], alone + s.sizes[k], theirs, pairs
                )
            if current >= 0:
                # The slot's own counts include the observation itself.
                with_self = omari_value(
                    together + s.counts[row, current], alone + s.sizes[current], theirs, pairs
                )
                right = omari_value(together + mates, alone + s.sizes[current] - 1, theirs, pairs)
                out[current] += w * (right - with_self)


@jit
def _choose(s, i, current, top):
    """Best slot for observation i; the current one (-1 if it is free) wins ties."""
    out = s.out
    _scores(s, i, current, top)
    alone = current >= 0 and s.sizes[current] == 1
    empty = -1
    best = current
    least = np.inf
    second = np.inf
    for k in range(top):
        if s.sizes[k] == 0 and k != current:
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


@jit(forceinline=True)
def _top(s):
    """One more than the last used slot, plus an empty one if there is room."""
    top = s.sizes.shape[0]
    while top > 0 and s.sizes[top - 1] == 0:
        top -= 1
    return min(top + 1, s.sizes.shape[0])


@jit
def put_many(s, items, labels, sign):
    """Allocate (sign 1) or take out (sign -1) several observations."""
    for at in range(items.shape[0]):
        _put(s, items[at], labels[at], sign)


@jit
def scan(s, order):
    """Move each observation, or put it if it is free, where it costs least; number of moves."""
    moves = 0
    for at in range(order.shape[0]):
        i = order[at]
        old = s.labels[i]
        new = _choose(s, i, old, _top(s))
        if new != old:
            if old >= 0:
                _put(s, i, old, -1)
            _put(s, i, new, 1)
            moves += 1
    return moves


@jit
def merge_costs(s, top, cost, pair, used):
    """Change of expected loss, but for the estimate's own term, by merging clusters m < k.

    Moving observations one at a time cannot cross the ridge between two halves of a cluster.
    """
    pairs = 0.5 * s.totals[1] * (s.totals[1] - 1.0)
    for d in range(s.weights.shape[0]):
        w = s.weights[d]
        for row in range(s.row_start[d], s.row_start[d + 1]):
            n_used = 0
            for k in range(top):
                x = s.counts[row, k]
                if x == 0:
                    continue
                for at in range(n_used):
                    m = used[at]
                    y = s.counts[row, m]
                    if s.kind == OMARI:
                        pair[k, m] += x * y
                    else:
                        cost[k, m] -= 2.0 * w * (s.value[x + y] - s.value[x] - s.value[y])
                used[n_used] = k
                n_used += 1
        if s.kind == OMARI:
            here = omari_value(s.together[d], s.totals[0], s.pairs_z[d], pairs)
            for k in range(top):
                for m in range(k):
                    joined = s.totals[0] + s.sizes[k] * s.sizes[m]
                    cost[k, m] += w * (
                        omari_value(s.together[d] + pair[k, m], joined, s.pairs_z[d], pairs) - here
                    )
                    pair[k, m] = 0.0


@jit(allocates=True)
def cut_losses(linkage, rows, n_rows, weights, value, kind, a):
    """Expected loss of every cut of a tree: entry t is the partition after t merges."""
    n = rows.shape[1]
    top = 1
    for d in range(rows.shape[0]):
        top = max(top, n_rows[d])
    merge_into = np.empty(n - 1, np.int64)
    merge_from = np.empty(n - 1, np.int64)
    slot = np.empty(2 * n - 1, np.int64)
    size = np.ones(n, np.int64)
    own = np.zeros(n)
    for i in range(n):
        slot[i] = i
        own[0] += value[1] if kind == TABLE else 0.0
    for t in range(n - 1):
        x, y = slot[int(linkage[t, 0])], slot[int(linkage[t, 1])]
        merge_into[t] = x
        merge_from[t] = y
        slot[n + t] = x
        if kind == TABLE:
            own[t + 1] = own[t] + value[size[x] + size[y]] - value[size[x]] - value[size[y]]
        else:
            own[t + 1] = own[t] + size[x] * size[y]
        size[x] += size[y]
    pairs = 0.5 * n * (n - 1.0)
    loss = np.zeros(n)
    counts = np.zeros((n, top), np.int32)
    for d in range(rows.shape[0]):
        for i in range(n):
            for j in range(top):
                counts[i, j] = 0
        theirs = 0.0
        both = 0.0
        for j in range(top):
            size[j] = 0
        for i in range(n):
            counts[i, rows[d, i]] = 1
            size[rows[d, i]] += 1
            if kind == TABLE:
                both += value[1]
        for j in range(n_rows[d]):
            m = size[j]
            theirs += value[m] if kind == TABLE else 0.5 * m * (m - 1.0)
        for t in range(n):
            if kind == TABLE:
                loss[t] += weights[d] * (a * theirs + (2.0 - a) * own[t] - 2.0 * both)
            else:
                loss[t] += weights[d] * omari_value(both, own[t], theirs, pairs)
            if t == n - 1:
                break
            x, y = merge_into[t], merge_from[t]
            for j in range(n_rows[d]):
                if counts[y, j] > 0:
                    p, q = counts[x, j], counts[y, j]
                    if kind == TABLE:
                        both += value[p + q] - value[p] - value[q]
                    else:
                        both += p * q
                    counts[x, j] = p + q
    return loss
