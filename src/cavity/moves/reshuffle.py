"""Reshuffle: the members of two clusters are divided between them anew."""

from __future__ import annotations

import numpy as np

from cavity._numba.jit import jit
from cavity.interface import attempt
from cavity.moves.allocation import NO_GROUP, WORK, decide, gather_members
from cavity.moves.anchors import draw_pair
from cavity.moves.move import Move, Tries, begin_tries, end_tries
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


class ReshuffleTries(Tries):
    """`Reshuffle` for kernels."""


@attempt.register(ReshuffleTries)
def _(move, state, prior, z, counts, rng):
    pace = move.pace
    if begin_tries(pace):
        tally = pace.tally
        reshuffles(state, prior, z, counts, move.anchors, move.room, pace.n_tries[0], tally[0], rng)
        end_tries(pace, counts, z.shape[0])


class Reshuffle(Move):
    """Divides the members of two clusters anew."""

    name = "reshuffle"
    kinds = ("reshuffle",)
    shares = (1.0,)
    kernel = ReshuffleTries
