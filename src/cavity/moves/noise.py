"""Noise: a few rows outside every cluster found one of their own, or all of a small one leave.

Outliers that lie close to each other may be noise or a small cluster. Row by row a chain hardly
goes from the one to the other: the first to leave noise founds a cluster alone, and the first to
leave the cluster is still near the rest.
"""

from __future__ import annotations

import math

import numpy as np

from cavity._numba.jit import jit
from cavity.conjugate.common import to_prior
from cavity.interface import attempt, complete, evidence, insert, recall
from cavity.moves.allocation import (
    ACCEPTED,
    NEW,
    OLD,
    TRIES,
    WORK,
    label,
    set_slot,
    shuffle_and_note,
    take_out,
    take_slot,
)
from cavity.moves.anchors import NEIGHBOURS
from cavity.moves.move import Move, Tries, begin_tries, end_tries
from cavity.moves.split_merge import free_slot, log_chance
from cavity.priors.partition import join, leave, log_prior

# A cluster that is larger is not looked at: an anchor with all its neighbours has so many rows.
LARGEST = NEIGHBOURS + 1
# Anchors that are looked at before a try is given up.
LOOKS = 50


@jit(internal=True)
def log_place(prior, counts, i, k):
    """What row i in slot k adds to the log prior.

    Seats of moves between clusters leave out how many rows are in clusters at all, which those
    moves do not change.
    """
    home = prior.home[i]
    if home >= 0 and home != k:
        return -math.inf
    before = log_prior(prior, counts)
    join(prior, counts, k)
    after = log_prior(prior, counts)
    leave(prior, counts, k)
    return after - before


@jit(internal=True)
def seat_rows(state, prior, counts, slot, noise, room, stop, forced, rng):
    """Put the members back: the first into a slot, the others there or outside by their chances.

    All go outside if the slot is that of noise. As ``allocate`` does: the labels are the old ones
    (forced) or drawn, and the sum of the log normalisers is returned.
    """
    model, q = state.model, state.family
    total = 0.0
    for t in range(stop):
        i = room.members[t]
        inside = log_place(prior, counts, i, slot) + evidence(model, q, slot, i)
        outside = -math.inf
        room.work[0] += 1
        if t > 0 and slot != noise:
            outside = log_place(prior, counts, i, noise) + evidence(model, q, noise, i)
        top = max(inside, outside)
        if top == -math.inf:
            return top
        share = math.exp(inside - top)
        both = share + math.exp(outside - top)
        total += top + math.log(both)
        if forced:
            k = room.labels[OLD, t]
            recall(state, i, room.values[t])
        else:
            k = slot if rng.random() * both < share else noise
            complete(model, q, k, i, rng)
            room.labels[NEW, t] = k
        insert(state, i, k)
        join(prior, counts, k)
    return total


@jit(internal=True)
def gather_around(state, prior, z, counts, anchors, at, room, rng):
    """The anchor, and of its nearest up to some distance those outside or in its own cluster.

    Returns how many there are, or 0 if the anchor's cluster has members elsewhere.
    """
    noise = prior.noise_slot
    first = anchors.first[at]
    own = z[first]
    members = room.members
    members[0] = first
    stop = 1
    inside = 1
    reach = 1 + int(rng.random() * min(anchors.second.shape[1], NEIGHBOURS))
    for place in range(reach):
        i = anchors.second[at, place]
        if z[i] == noise or z[i] == own:
            members[stop] = i
            stop += 1
            inside += z[i] == own
    if own != noise and inside < counts[own]:
        return 0
    shuffle_and_note(state, z, room, 0, 1, stop, rng)
    return stop


@jit(internal=True)
def draw_anchor(prior, z, counts, anchors, rng):
    """An anchor that is noise or in a small cluster, -1 if none is met soon.

    Which ones these are a move does not change.
    """
    for _ in range(LOOKS):
        at = int(rng.random() * anchors.first.size)
        k = z[anchors.first[at]]
        if k == prior.noise_slot or counts[k] <= LARGEST:
            return at
    return -1


@jit(internal=True)
def foundings(state, prior, z, counts, anchors, room, n_tries, tally, rng):
    """Some tries: rows that are noise follow their anchor to a free slot, or all of one leave it.

    Anchor and reach are drawn alike on the way there and on the way back.
    """
    q = state.family
    noise = np.int64(prior.noise_slot)
    before = room.work[0]
    for _ in range(n_tries):
        at = draw_anchor(prior, z, counts, anchors, rng)
        if at < 0:
            continue
        slot = np.int64(z[anchors.first[at]])
        founds = slot == noise
        free, n_free = free_slot(prior, counts, rng)
        if founds and free < 0:
            continue
        stop = gather_around(state, prior, z, counts, anchors, at, room, rng)
        if stop == 0:
            continue
        if founds:
            slot = free
        chance = log_chance(prior, n_free, founds)
        size, noise_size = counts[slot], prior.noise_size[0]
        take_slot(q, slot, room.kept[0])
        take_out(state, prior, z, counts, room, stop)
        rest = prior.noise_size[0]
        old, new = (noise, slot) if founds else (slot, noise)
        to_prior(q, slot)
        counts[slot] = 0
        back = seat_rows(state, prior, counts, old, noise, room, stop, True, rng)
        to_prior(q, slot)
        counts[slot], prior.noise_size[0] = 0, rest
        there = seat_rows(state, prior, counts, new, noise, room, stop, False, rng)
        tally[TRIES] += 1
        # Not more rows than would be looked at on the way back.
        accepted = math.log1p(-rng.random()) < there - back + chance and counts[slot] <= LARGEST
        label(state, z, room, stop, accepted)
        if accepted:
            tally[ACCEPTED] += 1
            continue
        set_slot(q, slot, room.kept[0])
        counts[slot], prior.noise_size[0] = size, noise_size
    tally[WORK] += room.work[0] - before


class NoiseTries(Tries):
    """`NoiseMoves` for kernels."""


@attempt.register(NoiseTries)
def _(move, state, prior, z, counts, rng):
    pace = move.pace
    if begin_tries(pace):
        tally = pace.tally
        foundings(state, prior, z, counts, move.anchors, move.room, pace.n_tries[0], tally[0], rng)
        end_tries(pace, z.shape[0])


class NoiseMoves(Move):
    """Makes a cluster of rows that are noise, or noise of a small cluster."""

    name = "noise"
    kinds = ("noise",)
    scans = 0.5
    kernel = NoiseTries
