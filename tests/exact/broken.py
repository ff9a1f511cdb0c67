"""A sweep with three mistakes to choose from: the enumeration must detect each of them.

It takes empty slots in the order of their number. That is right for a sampler that integrates
parameters out. A sampler that conditions on parameters needs the slot that an observation has just
left to be the one that it may come back to, which this sweep ignores.
"""

from __future__ import annotations

import numpy as np

from cavity._numba.jit import jit
from cavity.interface import choose, insert, remove, settle, visit
from cavity.priors.partition import join, leave


@jit(internal=True)
def _scan(state, prior, z, counts, weights, factor, forgotten, rng):
    """Visit every observation under a Dirichlet process.

    `factor` multiplies the weight of a new cluster; `forgotten` is added to the weight of the
    cluster just left.
    """
    for i in range(z.shape[0]):
        k = np.int64(z[i])
        leave(prior, counts, k)
        free = -1
        for j in range(weights.shape[0]):
            weights[j] = counts[j]
            if counts[j] == 0 and free < 0:
                free = j
        if counts[k] > 0:
            weights[k] += forgotten
        weights[free] = prior.concentration[0] * factor
        remove(state, z, counts, i, k)
        visit(state.model, i, k, rng)
        k = choose(state, i, weights, rng)
        join(prior, counts, k)
        z[i] = k
        settle(state.model, i, k)
        insert(state, i, k)
    return z.shape[0]


def in_order(state, prior, z, counts, order, weights, start, rng):
    """Slots in order of their number, without a further mistake."""
    return _scan(state, prior, z, counts, weights, 1.0, 0.0, rng)


def wrong_new_weight(state, prior, z, counts, order, weights, start, rng):
    """The weight of a new cluster is too large."""
    return _scan(state, prior, z, counts, weights, 1.3, 0.0, rng)


def count_not_lowered(state, prior, z, counts, order, weights, start, rng):
    """The observation still counts in the cluster that it has left."""
    return _scan(state, prior, z, counts, weights, 1.0, 1.0, rng)
