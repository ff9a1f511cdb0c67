"""Reshuffle: the members of two clusters are divided between them anew."""

from __future__ import annotations

import numpy as np

from cavity._numba.jit import jit
from cavity.moves.allocation import NO_GROUP, WORK, decide, gather_members
from cavity.moves.anchors import draw_pair
from cavity.moves.move import Move
from cavity.priors.partition import is_cluster


@jit(internal=True)
def reshuffles(state, prior, z, counts, anchors, room, n_tries, tally, rng):
    """Some tries: from a pair in two clusters, each anchor stays where it is."""
    before = room.work[0]
    for _ in range(n_tries):
        i, j = draw_pair(anchors, rng)
        a, b = np.int64(z[i]), np.int64(z[j])
        if a == b or not (is_cluster(prior, a) and is_cluster(prior, b)):
            continue
        stop = gather_members(state, z, i, j, a, b, room, 0, rng)
        group = (a, b, b)
        decide(state, prior, z, counts, group, NO_GROUP, stop, stop, 0.0, room, tally, rng)
    tally[WORK] += room.work[0] - before


def _alone(state, prior, z, counts, anchors, room, n_tries, tally, rng):
    reshuffles(state, prior, z, counts, anchors, room, n_tries[0], tally[0], rng)


class Reshuffle(Move):
    """Divides the members of two clusters anew."""

    name = "reshuffle"
    kinds = ("reshuffle",)
    shares = (1.0,)
    kernel = staticmethod(_alone)
