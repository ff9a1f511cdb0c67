"""Split and merge by allocation: a pair in one cluster becomes two, a pair in two becomes one."""

from __future__ import annotations

import math

import numpy as np

from cavity._numba.jit import jit
from cavity.moves.allocation import NO_GROUP, NO_SLOT, WORK, decide, gather_members
from cavity.moves.anchors import draw_pair
from cavity.priors.partition import is_cluster, named_slots, seat_weight


@jit(internal=True)
def free_slot(prior, counts, rng):
    """An empty slot that a cluster may take, at random, and how many there are; -1 for none."""
    n_free = 0
    chosen = NO_SLOT
    for k in range(counts.shape[0]):
        if counts[k] == 0 and seat_weight(prior, counts, 1, k) > 0.0:
            n_free += 1
            if rng.random() * n_free < 1.0:
                chosen = np.int64(k)
    return chosen, n_free


@jit(internal=True)
def log_chance(prior, n_free, takes):
    """Log chance of the slot on the way back over that on the way there.

    A slot that is taken is one of those that are free, and one that is given up will be one of
    them; under a prior over partitions slots are names and do not count.
    """
    if not named_slots(prior):
        return 0.0
    return math.log(n_free) if takes else -math.log(n_free + 1.0)


@jit(internal=True)
def splits_and_merges(state, prior, z, counts, anchors, room, n_tries, tally, rng):
    """Some tries: the second anchor of a split takes a free slot, that of a merge gives its up.

    Under a prior over numbered slots the way back from a merge must find the slot again, one of
    those that are then free; under a prior over partitions slots are names and do not count.
    """
    before = room.work[0]
    for _ in range(n_tries):
        i, j = draw_pair(anchors, rng)
        a, b = np.int64(z[i]), np.int64(z[j])
        if not (is_cluster(prior, a) and is_cluster(prior, b)):
            continue
        together = a == b
        other, n_free = free_slot(prior, counts, rng)
        if together:
            if other < 0:
                continue
            old, new = NO_SLOT, other
        else:
            old, new = b, NO_SLOT
        stop = gather_members(state, z, i, j, a, b, room, 0, rng)
        chance = log_chance(prior, n_free, together)
        group = (a, old, new)
        decide(state, prior, z, counts, group, NO_GROUP, stop, stop, chance, room, tally, rng)
    tally[WORK] += room.work[0] - before
