"""Exchange by allocation: two clusters become one and a third becomes two, as one proposal.

Where all clusters are occupied, a chain with two clusters on one group and one on two can leave
that mode by no smaller step: splitting needs a free cluster, merging frees one at a great loss.
"""

from __future__ import annotations

import numpy as np

from cavity._numba.jit import jit
from cavity.moves.allocation import NO_SLOT, WORK, decide, gather_members
from cavity.moves.anchors import draw_pair
from cavity.priors.partition import is_cluster


@jit(internal=True)
def exchanges(state, prior, z, counts, anchors, room, n_tries, tally, rng):
    """Some tries: (i, j) in clusters a and b, (l, m) both in c. All go to a; c becomes c and b.

    The way back has the roles of the pairs exchanged, at the same chance.
    """
    before = room.work[0]
    for _ in range(n_tries):
        i, j = draw_pair(anchors, rng)
        a, b = np.int64(z[i]), np.int64(z[j])
        if a == b or not (is_cluster(prior, a) and is_cluster(prior, b)):
            continue
        first, second = draw_pair(anchors, rng)
        c = np.int64(z[first])
        if c != z[second] or c in (a, b) or not is_cluster(prior, c):
            continue
        middle = gather_members(state, z, i, j, a, b, room, 0, rng)
        stop = gather_members(state, z, first, second, c, -1, room, middle, rng)
        decide(
            state,
            prior,
            z,
            counts,
            (a, b, NO_SLOT),
            (c, NO_SLOT, b),
            middle,
            stop,
            0.0,
            room,
            tally,
            rng,
        )
    tally[WORK] += room.work[0] - before
