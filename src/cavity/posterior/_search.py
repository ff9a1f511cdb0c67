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
    row_size: np.ndarray  # (rows,) allocated observations of each draw's cluster
    together: np.ndarray  # (draw,) pairs together in both
    pairs_z: np.ndarray  # (draw,) pairs together in the draw
    totals: np.ndarray  # (2,) pairs together in the candidate; observations allocated
    order: np.ndarray  # (n,) room to work in, as are the following
    members: np.ndarray  # (n,)
    old: np.ndarray  # (n,)
    out: np.ndarray  # (cap,)
    place: np.ndarray  # (cap,)
    cost: np.ndarray  # (side, side), side: most clusters for which merges are tried
    pair: np.ndarray  # (side, side)
    kind: int
    b: float  # cost of joining observations that do not belong together


@jit(forceinline=True)
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
    if sign > 0:
        s.totals[0] += s.sizes[k]
        s.labels[i] = k
    else:
        s.totals[0] -= s.sizes[k] - 1
        s.labels[i] = -1
    s.sizes[k] += sign
    s.totals[1] += sign


@jit(forceinline=True)
def _scores(s, i, top):
    """Loss, up to a constant, of putting the free observation i in each of slots 0..top-1."""
    out = s.out
    for k in range(top):
        out[k] = 0.0
    if s.kind == TABLE:
        for d in range(s.weights.shape[0]):
            w = s.weights[d]
            row = s.row_start[d] + s.by_item[i, d]
            for k in range(top):
                out[k] += w * s.gain[s.counts[row, k]]
        for k in range(top):
            out[k] = s.b * s.gain[s.sizes[k]] - 2.0 * out[k]
    else:
        t = s.totals[1] + 1.0
        pairs = 0.5 * t * (t - 1.0)
        for d in range(s.weights.shape[0]):
            w = s.weights[d]
            row = s.row_start[d] + s.by_item[i, d]
            theirs = s.pairs_z[d] + s.row_size[row]
            for k in range(top):
                out[k] += w * omari_value(
                    s.together[d] + s.counts[row, k], s.totals[0] + s.sizes[k], theirs, pairs
                )


@jit(forceinline=True)
def _choose(s, i, current, top):
    """Best slot for the free observation i; the current one (or -1) wins ties."""
    out = s.out
    _scores(s, i, top)
    empty = -1
    best = current
    for k in range(top):
        if s.sizes[k] == 0 and k != current:
            # All empty slots are the same choice: look at the first only.
            if empty >= 0 or (current >= 0 and s.sizes[current] == 0):
                continue
            empty = k
        if best < 0 or out[k] < out[best] - 1e-12 * (1.0 + abs(out[best])):
            best = k
    return best


@jit(forceinline=True)
def _top(s):
    """One more than the last used slot, plus an empty one if there is room."""
    top = s.sizes.shape[0]
    while top > 0 and s.sizes[top - 1] == 0:
        top -= 1
    return min(top + 1, s.sizes.shape[0])


@jit(forceinline=True)
def _shuffle(order, m, rng):
    for i in range(m - 1, 0, -1):
        j = int(rng.random() * (i + 1))
        order[i], order[j] = order[j], order[i]


@jit
def candidate_loss(s):
    """Expected loss up to the constant that only the draws determine (omARI: exactly)."""
    total = 0.0
    if s.kind == OMARI:
        pairs = 0.5 * s.totals[1] * (s.totals[1] - 1.0)
        for d in range(s.weights.shape[0]):
            total += s.weights[d] * omari_value(s.together[d], s.totals[0], s.pairs_z[d], pairs)
        return total
    top = _top(s)
    for k in range(top):
        total += s.b * s.value[s.sizes[k]]
    for d in range(s.weights.shape[0]):
        both = 0.0
        for row in range(s.row_start[d], s.row_start[d + 1]):
            for k in range(top):
                both += s.value[s.counts[row, k]]
        total -= 2.0 * s.weights[d] * both
    return total


@jit
def start_from(s, labels):
    """Allocate every observation as in `labels` (all free if a label is negative)."""
    for k in range(s.sizes.shape[0]):
        s.sizes[k] = 0
    for row in range(s.counts.shape[0]):
        s.row_size[row] = 0
        for k in range(s.sizes.shape[0]):
            s.counts[row, k] = 0
    for d in range(s.weights.shape[0]):
        s.together[d] = 0.0
        s.pairs_z[d] = 0.0
    s.totals[0] = 0.0
    s.totals[1] = 0.0
    for i in range(labels.shape[0]):
        s.labels[i] = -1
    for i in range(labels.shape[0]):
        if labels[i] >= 0:
            _put(s, i, labels[i], 1)


@jit
def allocate(s, order):
    """Put the free observations `order` one after the other where they cost least."""
    for at in range(order.shape[0]):
        i = order[at]
        _put(s, i, _choose(s, i, -1, _top(s)), 1)


@jit
def _scan(s, order):
    """Sweetening: move each observation to its best place; the number of moves."""
    moves = 0
    for at in range(order.shape[0]):
        i = order[at]
        old = s.labels[i]
        _put(s, i, old, -1)
        new = _choose(s, i, old, _top(s))
        _put(s, i, new, 1)
        if new != old:
            moves += 1
    return moves


@jit
def _merge_best(s):
    """Merge the two clusters whose union lowers the loss most; whether there were any.

    Moving observations one at a time cannot cross the ridge between two halves of a cluster.
    """
    cost, pair, used = s.cost, s.pair, s.place
    top = _top(s)
    for k in range(top):
        for m in range(k):
            cost[k, m] = 0.0
    pairs = 0.5 * s.totals[1] * (s.totals[1] - 1.0)
    for d in range(s.weights.shape[0]):
        w = s.weights[d]
        if s.kind == OMARI:
            for k in range(top):
                for m in range(k):
                    pair[k, m] = 0.0
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
                    cost[k, m] += w * (
                        omari_value(
                            s.together[d] + pair[k, m],
                            s.totals[0] + s.sizes[k] * s.sizes[m],
                            s.pairs_z[d],
                            pairs,
                        )
                        - here
                    )
    best = -1e-11
    into = -1
    gone = -1
    for k in range(top):
        for m in range(k):
            if s.sizes[k] == 0 or s.sizes[m] == 0:
                continue
            change = cost[k, m]
            if s.kind == TABLE:
                x, y = s.sizes[k], s.sizes[m]
                change += s.b * (s.value[x + y] - s.value[x] - s.value[y])
            if change < best:
                best = change
                into = m
                gone = k
    if into < 0:
        return False
    for i in range(s.labels.shape[0]):
        if s.labels[i] == gone:
            _put(s, i, gone, -1)
            _put(s, i, into, 1)
    return True


@jit
def _zealous(s, cluster, rng):
    """Dissolve a cluster and allocate its members anew; undone unless the loss falls."""
    members, old = s.members, s.old
    before = candidate_loss(s)
    m = 0
    for i in range(s.labels.shape[0]):
        if s.labels[i] == cluster:
            members[m] = i
            m += 1
    _shuffle(members, m, rng)
    for at in range(m):
        _put(s, members[at], cluster, -1)
    for at in range(m):
        i = members[at]
        _put(s, i, _choose(s, i, -1, _top(s)), 1)
        old[at] = s.labels[i]
    if candidate_loss(s) < before - 1e-11 * (1.0 + abs(before)):
        return True
    for at in range(m):
        _put(s, members[at], old[at], -1)
    for at in range(m):
        _put(s, members[at], cluster, 1)
    return False


@jit
def _compact(s):
    """Close the gaps that emptied clusters left, so that scans do not look at them."""
    cap = s.sizes.shape[0]
    place = s.place
    k_new = 0
    for k in range(cap):
        place[k] = -1
        if s.sizes[k] > 0:
            place[k] = k_new
            s.sizes[k_new] = s.sizes[k]
            if k != k_new:
                s.sizes[k] = 0
            k_new += 1
    for row in range(s.counts.shape[0]):
        for k in range(cap):
            if place[k] >= 0 and place[k] != k:
                s.counts[row, place[k]] = s.counts[row, k]
                s.counts[row, k] = 0
    for i in range(s.labels.shape[0]):
        if s.labels[i] >= 0:
            s.labels[i] = place[s.labels[i]]


@jit
def improve(s, rng, max_rounds, max_scans, n_zealous):
    """Sweetening scans, merges and zealous updates until none helps; the loss reached."""
    n = s.labels.shape[0]
    side = s.cost.shape[0]
    for i in range(n):
        s.order[i] = i
    for _ in range(max_rounds):
        for _ in range(max_scans):
            _shuffle(s.order, n, rng)
            moves = _scan(s, s.order)
            _compact(s)
            if moves == 0:
                break
        changed = False
        while _top(s) <= side and _merge_best(s):
            changed = True
            _compact(s)
        if not changed:
            for _ in range(n_zealous):
                top = _top(s)
                cluster = int(rng.random() * top)
                if s.sizes[cluster] > 0 and _zealous(s, cluster, rng):
                    changed = True
        if not changed:
            break
    _compact(s)
    return candidate_loss(s)


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


@jit(allocates=True)
def best_draw(rows, n_rows, weights, value, kind, a, candidates, versus, versus_weights, bound):
    """The candidate draw of least expected loss if it is below `bound`; else -1, and the bound.

    A candidate is left as soon as the part summed so far passes the best: losses are never
    negative.
    """
    n = rows.shape[1]
    top = 1
    for d in range(rows.shape[0]):
        top = max(top, n_rows[d])
    cross = np.zeros(top * top, np.int32)
    own = np.zeros(rows.shape[0])
    size = np.zeros(top, np.int64)
    for d in range(rows.shape[0]):
        for j in range(n_rows[d]):
            size[j] = 0
        for i in range(n):
            size[rows[d, i]] += 1
        for j in range(n_rows[d]):
            m = size[j]
            own[d] += value[m] if kind == TABLE else 0.5 * m * (m - 1.0)
    pairs = 0.5 * n * (n - 1.0)
    best = -1
    for at in range(candidates.shape[0]):
        c = candidates[at]
        total = 0.0
        for v in range(versus.shape[0]):
            e = versus[v]
            both = 0.0
            width = n_rows[e]
            cells = n_rows[c] * width
            if cells <= n:
                for i in range(n):
                    cross[rows[c, i] * width + rows[e, i]] += 1
                for cell in range(cells):
                    m = cross[cell]
                    cross[cell] = 0
                    both += value[m] if kind == TABLE else 0.5 * m * (m - 1.0)
            else:
                for i in range(n):
                    cell = rows[c, i] * width + rows[e, i]
                    m = cross[cell]
                    both += value[m + 1] - value[m] if kind == TABLE else float(m)
                    cross[cell] = m + 1
                for i in range(n):
                    cross[rows[c, i] * width + rows[e, i]] = 0
            if kind == TABLE:
                total += versus_weights[v] * (a * own[e] + (2.0 - a) * own[c] - 2.0 * both)
            else:
                total += versus_weights[v] * omari_value(both, own[c], own[e], pairs)
            if total >= bound:
                break
        if total < bound:
            bound = total
            best = c
    return best, bound
