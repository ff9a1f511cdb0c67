"""Pinch: a few neighbours come off a cluster as one of their own, or go back into it.

What is slow about the number of clusters is small ones that come and go beside large ones. A split
puts every member of the large cluster in again; here only an observation's neighbours are asked,
and whoever is further away stays where it is.
"""

from __future__ import annotations

import math

import numpy as np

from cavity._numba.jit import jit
from cavity.conjugate.common import to_prior
from cavity.interface import attempt
from cavity.moves.allocation import (
    ACCEPTED,
    NO_SLOT,
    TRIES,
    WORK,
    allocate,
    label,
    set_slot,
    shuffle_and_note,
    take_out,
    take_slot,
)
from cavity.moves.anchors import NEIGHBOURS
from cavity.moves.move import Move, Tries, begin_tries, end_tries
from cavity.moves.split_merge import free_slot, log_chance
from cavity.priors.partition import is_cluster

# Rows of the room where slots are kept: the large cluster, the small one, the large one without
# the members at hand.
_LARGE, _SMALL, _REST = 0, 1, 2


@jit(internal=True)
def gather_neighbours(state, prior, z, counts, anchors, at, other, room, rng):
    """The anchor and those of its neighbours, up to some distance, that are in question.

    Together with the anchor's cluster: the neighbours in it. Else: those in the two clusters, if
    they are all of the anchor's. Returns how many there are, or 0 if some of its are elsewhere.
    """
    members = room.members
    first = anchors.first[at]
    small, large = z[first], z[other]
    members[0] = first
    stop = 1
    inside = 1  # of the small cluster
    reach = 1 + int(rng.random() * min(anchors.second.shape[1], NEIGHBOURS))
    for place in range(reach):
        i = anchors.second[at, place]
        if i == other:
            continue
        if z[i] == large:
            members[stop] = i
            stop += 1
        elif z[i] == small:
            members[stop] = i
            stop += 1
            inside += 1
    if small != large and inside < counts[small]:
        return 0
    shuffle_and_note(state, z, room, 0, 1, stop, rng)
    return stop


@jit(internal=True)
def pinches(state, prior, z, counts, anchors, room, n_tries, tally, rng):
    """Some tries: the anchor takes neighbours with it to a free slot, or brings them back.

    Another observation that goes with the anchor says which cluster they leave or return to, and
    stays in it. Pair and reach are drawn alike on the way there and on the way back.
    """
    q = state.family
    before = room.work[0]
    for _ in range(n_tries):
        at = int(rng.random() * anchors.second.shape[0])
        other = anchors.second[at, int(rng.random() * anchors.second.shape[1])]
        small, large = np.int64(z[anchors.first[at]]), np.int64(z[other])
        if not (is_cluster(prior, small) and is_cluster(prior, large)):
            continue
        leaves = small == large
        free, n_free = free_slot(prior, counts, rng)
        if leaves and free < 0:
            continue
        stop = gather_neighbours(state, prior, z, counts, anchors, at, other, room, rng)
        if stop == 0:
            continue
        if leaves:
            small = free
        chance = log_chance(prior, n_free, leaves)
        n_large, n_small = counts[large], counts[small]
        take_slot(q, large, room.kept[_LARGE])
        take_slot(q, small, room.kept[_SMALL])
        take_out(state, prior, z, counts, room, stop)
        n_rest = counts[large]
        take_slot(q, large, room.kept[_REST])
        if leaves:
            back = allocate(state, prior, counts, large, NO_SLOT, room, 0, stop, -1, True, rng)
        else:
            back = allocate(state, prior, counts, small, large, room, 0, stop, -1, True, rng)
        set_slot(q, large, room.kept[_REST])
        counts[large] = n_rest
        if leaves:
            there = allocate(state, prior, counts, small, large, room, 0, stop, -1, False, rng)
        else:
            to_prior(q, small)
            counts[small] = 0
            there = allocate(state, prior, counts, large, NO_SLOT, room, 0, stop, -1, False, rng)
        tally[TRIES] += 1
        accepted = math.log1p(-rng.random()) < there - back + chance
        label(state, z, room, stop, accepted)
        if accepted:
            tally[ACCEPTED] += 1
            continue
        set_slot(q, large, room.kept[_LARGE])
        set_slot(q, small, room.kept[_SMALL])
        counts[large] = n_large
        counts[small] = n_small
    tally[WORK] += room.work[0] - before


class PinchTries(Tries):
    """`Pinch` for kernels."""


@attempt.register(PinchTries)
def _(move, state, prior, z, counts, rng):
    pace = move.pace
    if begin_tries(pace):
        tally = pace.tally
        pinches(state, prior, z, counts, move.anchors, move.room, pace.n_tries[0], tally[0], rng)
        end_tries(pace, counts, z.shape[0])


class Pinch(Move):
    """Takes a small cluster off a large one, or puts it back."""

    name = "pinch"
    kinds = ("pinch",)
    shares = (1.0,)
    least_cost = 0.0
    kernel = PinchTries
