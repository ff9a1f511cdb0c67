"""Reshuffle: the members of two clusters are divided between them anew."""

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
def reshuffles(state, prior, z, counts, anchors, room, n_tries, tally, rng):
    """Some tries: from a pair in two clusters, each anchor stays where it is."""
    before = room.work[0]
    for _ in range(n_tries):
        i, j = draw_pair(anchors, rng)
        a, b = z[i], z[j]
        if a == b:
            continue
        tally[TRIES] += 1
        stop = gather_members(state.model, z, i, j, a, b, room, 0, rng)
        size_a, size_b = counts[a], counts[b]
        keep_slot(state, a, 0, room)
        keep_slot(state, b, 1, room)
        clear(state, counts, a)
        clear(state, counts, b)
        back = allocate(state, prior, counts, a, b, room, 0, stop, OLD, True, rng)
        clear(state, counts, a)
        clear(state, counts, b)
        there = allocate(state, prior, counts, a, b, room, 0, stop, NEW, False, rng)
        if math.log1p(-rng.random()) < there - back:
            tally[ACCEPTED] += 1
            settle_labels(z, room, 0, stop)
        else:
            recall_values(state.model, room, 0, stop)
            put_back(state, counts, a, 0, size_a, room)
            put_back(state, counts, b, 1, size_b, room)
    tally[WORK] += room.work[0] - before


def _alone(state, prior, z, counts, anchors, room, n_tries, tally, rng):
    reshuffles(state, prior, z, counts, anchors, room, n_tries[0], tally[0], rng)


class Reshuffle(Move):
    """Divides the members of two clusters anew."""

    name = "reshuffle"
    kinds = ("reshuffle",)
    shares = (1.0,)
    kernel = staticmethod(_alone)
