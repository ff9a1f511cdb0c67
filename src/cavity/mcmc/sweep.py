"""The one sweep behind every sampler: remove, score, draw, insert, in a fresh random order."""

from __future__ import annotations

import numpy as np

from cavity._numba.jit import jit, wide_vectors
from cavity.interface import choose, insert, remove, settle, visit
from cavity.priors.partition import join, leave, row_weights

# More observations than these are visited in runs of neighbours: memory is read as it lies.
MOST_SHUFFLED = 20_000
RUN = 64


@jit(internal=True)
def _shuffle(order, rng):
    """A fresh random order of visits; any order does that depends on no label."""
    n = order.shape[0]
    if n <= MOST_SHUFFLED:
        for last in range(n - 1, 0, -1):
            other = int(rng.random() * (last + 1))
            order[last], order[other] = order[other], order[last]
        return
    # Runs from a random one on, each a random step further than the last: a step that has no
    # divisor in common with their number meets every run once.
    n_runs = (n + RUN - 1) // RUN
    run = int(rng.random() * n_runs)
    step = 1 + int(rng.random() * (n_runs - 1))
    while _greatest_divisor(step, n_runs) != 1:
        step = 1 + step % (n_runs - 1)
    position = 0
    for _ in range(n_runs):
        for i in range(run * RUN, min(run * RUN + RUN, n)):
            order[position] = i
            position += 1
        run = (run + step) % n_runs


@jit(internal=True)
def _greatest_divisor(a, b):
    """Greatest common divisor."""
    while b != 0:
        a, b = b, a % b
    return a


def sweep(state, prior, z, counts, order, weights, start, rng):
    """Visit every observation once; return how many were visited.

    It stops early, to be called again from there, when an open prior finds no empty slot left,
    and returns -1 - position if no cluster has a finite score for the observation there.

    Parameters
    ----------
    state : NamedTuple
        A collapse over a model and a family.
    prior : PartitionPrior
    z, counts : arrays
        Assignments and cluster sizes, changed in place.
    order, weights : arrays
        The scan order (made anew when ``start`` is 0) and room for prior weights.
    start : int
        Position in the order to start from.
    rng : numpy.random.Generator
        The chain's generator.
    """
    wide_vectors()
    n = order.shape[0]
    if start == 0:
        _shuffle(order, rng)
    for position in range(start, n):
        # One integer type throughout: every verb is then compiled once.
        i = np.int64(order[position])
        k = np.int64(z[i])
        leave(prior, counts, k)
        if not row_weights(prior, counts, i, k, weights):
            join(prior, counts, k)
            return position
        remove(state, z, counts, i, k)
        visit(state.model, i, k, rng)
        k = choose(state, i, weights, rng)
        if k < 0:
            return -1 - position
        join(prior, counts, k)
        z[i] = k
        settle(state.model, i, k)
        insert(state, i, k)
    return n


sweep_part = jit(sweep, internal=True)
