"""The one sweep behind every sampler: remove, score, draw, insert, in a fresh random order."""

from __future__ import annotations

import numpy as np

from cavity.core.compile import wide_vectors
from cavity.verbs import choose, insert, join, leave, remove, row_weights, settle, visit


def sweep(state, prior, z, counts, order, weights, start, rng):
    """Visit every observation once; return how many were visited.

    It stops early, to be called again from there, when an open prior finds no empty slot left,
    and returns -1 - position if no cluster has a finite score for the observation there.

    Parameters
    ----------
    state : NamedTuple
        A collapse over a model and a family.
    prior : NamedTuple
        A partition prior.
    z, counts : arrays
        Assignments and cluster sizes, changed in place.
    order, weights : arrays
        The scan order (shuffled when ``start`` is 0) and room for prior weights.
    start : int
        Position in the order to start from.
    rng : numpy.random.Generator
        The chain's generator.
    """
    wide_vectors()
    n = order.shape[0]
    if start == 0:
        for last in range(n - 1, 0, -1):
            other = int(rng.random() * (last + 1))
            order[last], order[other] = order[other], order[last]
    for position in range(start, n):
        # One integer type throughout: every verb is then compiled once.
        i = np.int64(order[position])
        k = np.int64(z[i])
        leave(prior, counts, i, k)
        if not row_weights(prior, counts, i, k, weights):
            join(prior, counts, i, k)
            return position
        remove(state, z, counts, i, k)
        visit(state.model, i, k, rng)
        k = choose(state, i, weights, rng)
        if k < 0:
            return -1 - position
        join(prior, counts, i, k)
        z[i] = k
        settle(state.model, i, k)
        insert(state, i, k)
    return n
