"""Exchange: two clusters become one and a third becomes two, as one proposal.

Where all clusters are occupied, a chain with two clusters on one group and one on two can leave
that mode by no smaller step: splitting needs a free cluster, merging frees one at a great loss.
"""

from __future__ import annotations

import math

from cavity.core.compile import jit
from cavity.moves.allocation import (
    NEW,
    OLD,
    allocate,
    clear,
    gather_members,
    keep_slot,
    put_back,
    recall_values,
    settle_labels,
)
from cavity.moves.anchors import draw_pair
from cavity.moves.move import ACCEPTED, TRIES, WORK, Move


@jit(internal=True)
def exchanges(state, prior, z, counts, anchors, room, n_tries, tally, rng):
    """Some tries: (i, j) in clusters a and b, (l, m) both in c. All go to a; c becomes c and b.

    The way back has the roles of the pairs exchanged, at the same chance.
    """
    before = room.work[0]
    for _ in range(n_tries):
        i, j = draw_pair(anchors, rng)
        a, b = z[i], z[j]
        if a == b:
            continue
        first, second = draw_pair(anchors, rng)
        c = z[first]
        if c != z[second] or c in (a, b):
            continue
        tally[TRIES] += 1
        middle = gather_members(state.model, z, i, j, a, b, room, 0, rng)
        stop = gather_members(state.model, z, first, second, c, -1, room, middle, rng)
        size_a, size_b, size_c = counts[a], counts[b], counts[c]
        keep_slot(state, a, 0, room)
        keep_slot(state, b, 1, room)
        keep_slot(state, c, 2, room)
        clear(state, counts, a)
        clear(state, counts, b)
        clear(state, counts, c)
        back = allocate(state, prior, counts, a, b, room, 0, middle, OLD, True, rng)
        back += allocate(state, prior, counts, c, -1, room, middle, stop, OLD, True, rng)
        clear(state, counts, a)
        clear(state, counts, b)
        clear(state, counts, c)
        there = allocate(state, prior, counts, a, -1, room, 0, middle, NEW, False, rng)
        there += allocate(state, prior, counts, c, b, room, middle, stop, NEW, False, rng)
        if math.log1p(-rng.random()) < there - back:
            tally[ACCEPTED] += 1
            settle_labels(z, room, 0, stop)
        else:
            recall_values(state.model, room, 0, stop)
            put_back(state, counts, a, 0, size_a, room)
            put_back(state, counts, b, 1, size_b, room)
            put_back(state, counts, c, 2, size_c, room)
    tally[WORK] += room.work[0] - before


def _alone(state, prior, z, counts, anchors, room, n_tries, tally, rng):
    exchanges(state, prior, z, counts, anchors, room, n_tries[0], tally[0], rng)


class Exchange(Move):
    """Merges two clusters and splits a third."""

    name = "exchange"
    kinds = ("exchange",)
    shares = (1.0,)
    kernel = staticmethod(_alone)
