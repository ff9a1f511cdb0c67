"""Split and merge: a pair in one cluster may become two, a pair in two may become one."""

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
from cavity.verbs import named_slots, seat_weight


@jit(internal=True)
def free_slot(prior, counts, rng):
    """An empty slot that a cluster may take, at random, and how many there are; -1 for none."""
    n_free = 0
    chosen = -1
    for k in range(counts.shape[0]):
        if counts[k] == 0 and seat_weight(prior, counts, 1, k) > 0.0:
            n_free += 1
            if rng.random() * n_free < 1.0:
                chosen = k
    return chosen, n_free


@jit(internal=True)
def splits_and_merges(state, prior, z, counts, anchors, room, n_tries, tally, rng):
    """Some tries: the second anchor of a split takes a free slot, that of a merge gives its up.

    Under a prior over numbered slots the way back from a merge must find the slot again, one of
    those that are then free; under a prior over partitions slots are names and do not count.
    """
    before = room.work[0]
    for _ in range(n_tries):
        i, j = draw_pair(anchors, rng)
        a, b = z[i], z[j]
        together = a == b
        other, n_free = free_slot(prior, counts, rng)
        if together:
            if other < 0:
                continue
            b = other
        tally[TRIES] += 1
        stop = gather_members(state.model, z, i, j, a, b, room, 0, rng)
        size_a, size_b = counts[a], counts[b]
        keep_slot(state, a, 0, room)
        keep_slot(state, b, 1, room)
        clear(state, counts, a)
        clear(state, counts, b)
        old_b = -1 if together else b
        new_b = b if together else -1
        back = allocate(state, prior, counts, a, old_b, room, 0, stop, OLD, True, rng)
        clear(state, counts, a)
        clear(state, counts, b)
        there = allocate(state, prior, counts, a, new_b, room, 0, stop, NEW, False, rng)
        slots = 0.0
        if named_slots(prior):
            slots = math.log(n_free) if together else -math.log(n_free + 1.0)
        if math.log1p(-rng.random()) < there - back + slots:
            tally[ACCEPTED] += 1
            settle_labels(z, room, 0, stop)
        else:
            recall_values(state.model, room, 0, stop)
            put_back(state, counts, a, 0, size_a, room)
            put_back(state, counts, b, 1, size_b, room)
    tally[WORK] += room.work[0] - before


def _alone(state, prior, z, counts, anchors, room, n_tries, tally, rng):
    splits_and_merges(state, prior, z, counts, anchors, room, n_tries[0], tally[0], rng)


class SplitMerge(Move):
    """Splits a cluster in two, or merges two."""

    name = "split_merge"
    kinds = ("split_merge",)
    shares = (1.0,)
    kernel = staticmethod(_alone)
