"""Splits and merges of clusters whose slots give the evidence of their members.

Some members of a cluster, the first of them an anchor, go with it to a free slot or stay with a
second anchor; or all of a cluster join another. *Split* and *merge* ask all members, a *pinch* only
the anchor's neighbors up to some distance, since small clusters beside large ones come and go. An
*exchange* is a merge and a split of a third cluster in one step. Where all clusters are occupied, a
chain with two clusters on one group and one on two can leave that mode by no smaller step.

Variables that are drawn with a label are held fixed. Given these, the evidence of a cluster is a
function of its slot (``log_mass``), and the ratio of the joint densities with two clusters and with
one takes no pass over their members. A split allocates the members one after another, the anchors
first, each with probability proportional to prior weight times evidence given those before
(``weigh``).

The reverse of a merge is a split with a probability of at most one. The acceptance variate is drawn
first: a merge is rejected at once if the ratio alone is too small, and otherwise as soon as the
product of the probabilities so far is.
"""

from __future__ import annotations

import math

import numpy as np

from cavity._numba.jit import jit
from cavity._numba.numerics import fast_exp
from cavity.conjugate.common import load_slot, to_prior
from cavity.interface import insert, log_mass, remove, shift_own, weigh
from cavity.moves.allocation import (
    ACCEPTED,
    NEW,
    OLD,
    TRIES,
    WORK,
    set_slot,
    shuffle_members,
    take_slot,
)
from cavity.moves.anchors import NEIGHBOURS, draw_place
from cavity.moves.split_merge import free_slot, log_chance
from cavity.priors.partition import is_cluster, seat_of

# Rows of the room where slots are kept: up to three as they were before, and two on the way.
_SMALL, _LARGE, _THIRD, _ON_THE_WAY, _ALSO = range(5)
# A product of probabilities is turned into a logarithm before it vanishes.
_TINY = 1e-200
_LARGEST_EXPONENT = 700.0
# Rows that are looked through in the time of one evidence.
_ROWS_PER_EVIDENCE = 32
# An exchange whose merge loses more than this, as a logarithm, goes on with a smaller probability.
SLACK = 10.0


# Verbs as calls: a verb is copied into its caller, and these have several.


@jit(internal=True)
def mass_of_slot(q, k):
    """``log_mass``."""
    return log_mass(q, k)


@jit(internal=True)
def weight_of_slot(model, q, k, i):
    """``weigh``."""
    return weigh(model, q, k, i)


@jit(internal=True)
def put_in(state, i, k):
    """``insert``."""
    insert(state, i, k)


@jit(internal=True)
def gather(z, counts, anchors, at, other, whole, room, start, rng):
    """Members in question from place `start` on, the anchor first; returns where they end.

    All of the anchor's cluster and of that of `other`, but for the latter itself, or the neighbors
    among them. Returns `start` if some of the anchor's cluster are not among its neighbors, the
    cluster being another one.
    """
    members = room.members
    room.work[0] += z.shape[0] // _ROWS_PER_EVIDENCE
    first = anchors.first[at]
    small, large = z[first], z[other]
    members[start] = first
    stop = start + 1
    inside = 1
    if whole:
        for i in range(z.shape[0]):
            if (z[i] == small or z[i] == large) and i != first and i != other:
                members[stop] = i
                stop += 1
    else:
        reach = 1 + int(rng.random() * min(anchors.second.shape[1], NEIGHBOURS))
        for place in range(reach):
            i = anchors.second[at, place]
            if (z[i] == small or z[i] == large) and i != other:
                members[stop] = i
                stop += 1
                inside += z[i] == small
        if small != large and inside < counts[small]:
            return start
    shuffle_members(z, room, start, 1, stop, rng)
    return stop


@jit(internal=True)
def divide(state, prior, counts, small, large, room, start, stop, forced, least, rng):
    """Put members back into two slots, the first into `small`; log probability of the choices.

    They go where the old labels say (forced), given up once the log probability is below `least`,
    or where the draws do.
    """
    model, q = state.model, state.family
    room.work[0] += 2 * (stop - start)
    total, product = 0.0, 1.0
    floor = math.exp(min(least, 0.0))
    for t in range(start, stop):
        i = room.members[t]
        k = small
        if t > start:
            gain = weight_of_slot(model, q, large, i) - weight_of_slot(model, q, small, i)
            gain = min(max(gain, -_LARGEST_EXPONENT), _LARGEST_EXPONENT)
            leaves = seat_of(prior, counts, 1, i, small)
            stays = seat_of(prior, counts, 1, i, large) * fast_exp(gain)
            if forced:
                k = room.labels[OLD, t]
            else:
                k = small if rng.random() * (leaves + stays) < leaves else large
            product *= (leaves if k == small else stays) / (leaves + stays)
            if forced and not product >= floor:
                room.work[0] -= 2 * (stop - t)
                return -math.inf
            if product < _TINY:
                total += math.log(product)
                floor = math.exp(min(least - total, 0.0))
                product = 1.0
        room.labels[NEW, t] = k
        put_in(state, i, k)
        counts[k] += 1.0
    return total + math.log(product)


@jit(internal=True)
def join_slots(state, prior, counts, small, large, room, labels, start, stop):
    """Add slot `small` to `large`; the log joint density after it less that before.

    The members of `small` are found among those in question, whose slots are in `labels`.
    """
    model, q = state.model, state.family
    gain = -mass_of_slot(q, small) - mass_of_slot(q, large)
    room.work[0] += np.int64(counts[small])
    counts[small] = 0.0
    n_clusters = 0
    for k in range(counts.shape[0]):
        n_clusters += counts[k] > 0
    seats = 1.0
    for t in range(start, stop):
        if labels[t] != small:
            continue
        i = room.members[t]
        before = seat_of(prior, counts, n_clusters, i, small)
        if not before > 0.0:
            # The row that founds a cluster has a known label.
            return math.inf
        seats *= seat_of(prior, counts, n_clusters, i, large) / before
        if not _TINY < seats < 1.0 / _TINY:
            if not seats > 0.0:
                # A row with a known label is in the other slot, and has to be.
                return -math.inf
            gain += math.log(seats)
            seats = 1.0
        gain += shift_own(model, q, i, small, large)
        counts[small] += 1.0
        counts[large] += 1.0
    counts[small] = 0.0
    for p in range(q.natural.shape[1]):
        q.natural[large, p] += q.natural[small, p] - q.prior[p]
    if not load_slot(q, large):
        return math.nan
    to_prior(q, small)
    return gain + math.log(seats) + mass_of_slot(q, large) + mass_of_slot(q, small)


@jit(internal=True)
def leave_rest(state, z, counts, large, other, whole, room, start, stop):
    """Slot `large` without the members in question: with `other` alone, if all others are."""
    if whole:
        to_prior(state.family, large)
        put_in(state, other, large)
        counts[large] = 1.0
        return
    for t in range(start, stop):
        i = room.members[t]
        if room.labels[OLD, t] == large:
            counts[large] -= 1.0
            z[i] = -1
            remove(state, z, counts, i, large)


@jit(internal=True)
def propose_merge(
    state, prior, z, counts, small, large, other, whole, room, start, stop, least, rng
):
    """Merge two clusters; return the log acceptance ratio, minus infinity once it is below `least`.

    The slots then hold the proposal, or nothing of use.
    """
    q = state.family
    before = counts[large]
    take_slot(q, large, room.kept[_ALSO])
    gain = join_slots(state, prior, counts, small, large, room, room.labels[OLD], start, stop)
    if not gain >= least:
        return -math.inf
    after = counts[large]
    take_slot(q, large, room.kept[_ON_THE_WAY])
    if not whole:
        set_slot(q, large, room.kept[_ALSO])
        counts[large] = before
    leave_rest(state, z, counts, large, other, whole, room, start, stop)
    back = divide(state, prior, counts, small, large, room, start, stop, True, least - gain, rng)
    if back == -math.inf:
        return back
    set_slot(q, large, room.kept[_ON_THE_WAY])
    to_prior(q, small)
    counts[large], counts[small] = after, 0.0
    for t in range(start, stop):
        room.labels[NEW, t] = large
    return gain + back


@jit(internal=True)
def propose_split(state, prior, z, counts, small, large, other, whole, room, start, stop, rng):
    """Move the anchor and others of a cluster to slot `small`; return the log acceptance ratio."""
    q = state.family
    leave_rest(state, z, counts, large, other, whole, room, start, stop)
    there = divide(state, prior, counts, small, large, room, start, stop, False, -math.inf, rng)
    n_small, n_large = counts[small], counts[large]
    take_slot(q, small, room.kept[_ON_THE_WAY])
    take_slot(q, large, room.kept[_ALSO])
    gain = join_slots(state, prior, counts, small, large, room, room.labels[NEW], start, stop)
    set_slot(q, small, room.kept[_ON_THE_WAY])
    set_slot(q, large, room.kept[_ALSO])
    counts[small], counts[large] = n_small, n_large
    return -gain - there


@jit(internal=True)
def relabel(z, room, stop, accepted):
    """Give the members in question their new labels, or the old ones; True if any is new."""
    moved = False
    for t in range(stop):
        moved |= room.labels[OLD, t] != room.labels[NEW, t]
        z[room.members[t]] = room.labels[NEW if accepted else OLD, t]
    return accepted and moved


@jit(internal=True)
def divisions(state, prior, z, counts, anchors, room, whole, n_tries, tally, rng):
    """Some tries: a pair in one cluster is divided, a pair in two brings them together.

    Pair and reach are drawn alike on the way there and on the way back. Under a prior over numbered
    slots the way back from a merge must find the slot again, one of those that are then free.
    """
    q = state.family
    for _ in range(n_tries):
        before = room.work[0]
        at, other = draw_place(anchors, rng)
        small, large = np.int64(z[anchors.first[at]]), np.int64(z[other])
        if not (is_cluster(prior, small) and is_cluster(prior, large)):
            continue
        splits = small == large
        free, n_free = free_slot(prior, counts, rng)
        if splits and free < 0:
            continue
        stop = gather(z, counts, anchors, at, other, whole, room, 0, rng)
        if stop == 0:
            continue
        if splits:
            small = free
        chance = log_chance(prior, n_free, splits)
        least = math.log1p(-rng.random()) - chance
        n_small, n_large = counts[small], counts[large]
        take_slot(q, small, room.kept[_SMALL])
        take_slot(q, large, room.kept[_LARGE])
        if splits:
            ratio = propose_split(
                state, prior, z, counts, small, large, other, whole, room, 0, stop, rng
            )
        else:
            ratio = propose_merge(
                state, prior, z, counts, small, large, other, whole, room, 0, stop, least, rng
            )
        accepted = least < ratio
        tally[TRIES] += 1
        tally[ACCEPTED] += relabel(z, room, stop, accepted)
        tally[WORK] += room.work[0] - before
        if not accepted:
            set_slot(q, small, room.kept[_SMALL])
            set_slot(q, large, room.kept[_LARGE])
            counts[small], counts[large] = n_small, n_large


@jit(internal=True)
def exchanges(state, prior, z, counts, anchors, room, n_tries, tally, rng):
    """Some tries: an anchor's cluster joins that of its partner, and a third is divided instead.

    The way back has the roles of the two pairs exchanged, at the same chance. After a bad merge the
    move goes on with a probability only, by which its ratio is larger.
    """
    q = state.family
    for _ in range(n_tries):
        before = room.work[0]
        at, other = draw_place(anchors, rng)
        small, large = np.int64(z[anchors.first[at]]), np.int64(z[other])
        if small == large or not (is_cluster(prior, small) and is_cluster(prior, large)):
            continue
        place, last = draw_place(anchors, rng)
        third = np.int64(z[last])
        if third != z[anchors.first[place]] or third in (small, large):
            continue
        if not is_cluster(prior, third):
            continue
        middle = gather(z, counts, anchors, at, other, True, room, 0, rng)
        stop = gather(z, counts, anchors, place, last, True, room, middle, rng)
        sizes = counts[small], counts[large], counts[third]
        take_slot(q, small, room.kept[_SMALL])
        take_slot(q, large, room.kept[_LARGE])
        take_slot(q, third, room.kept[_THIRD])
        least = math.log1p(-rng.random()) - SLACK
        merge = propose_merge(
            state, prior, z, counts, small, large, other, True, room, 0, middle, least, rng
        )
        accepted = False
        if least < merge:
            split = propose_split(
                state, prior, z, counts, small, third, last, True, room, middle, stop, rng
            )
            # The merge's ratio up to the probability to go on. That of the way back is less than
            # one only where the exchange is certain to be accepted.
            accepted = math.log1p(-rng.random()) < split + max(merge, -SLACK)
        tally[TRIES] += 1
        tally[ACCEPTED] += relabel(z, room, stop, accepted)
        tally[WORK] += room.work[0] - before
        if not accepted:
            set_slot(q, small, room.kept[_SMALL])
            set_slot(q, large, room.kept[_LARGE])
            set_slot(q, third, room.kept[_THIRD])
            counts[small], counts[large], counts[third] = sizes
