"""Scores of clusters for observations, for any likelihood."""

from __future__ import annotations

import math

import numpy as np

from cavity._numba.jit import wide_vectors
from cavity.interface import insert, integrated_evidence, remove
from cavity.priors.partition import join, leave, row_weights


def cluster_scores(state, prior, z, counts, rows, weights, out):
    """Log prior weight plus log evidence of each occupied cluster for some observations.

    As in a sweep, but each observation goes back where it was.

    Parameters
    ----------
    state : NamedTuple
        A collapse over a model and a family.
    prior : PartitionPrior
    z, counts : arrays
        Labels and cluster sizes.
    rows : array of int
        The observations.
    weights : array, shape (slot,)
        Working memory.
    out : array, shape (slot, row)
        The scores; minus infinity for empty clusters.
    """
    wide_vectors()
    n_slots = weights.shape[0]
    for position in range(rows.shape[0]):
        i = np.int64(rows[position])
        k = np.int64(z[i])
        leave(prior, counts, k)
        row_weights(prior, counts, i, k, weights)
        remove(state, z, counts, i, k)
        for j in range(n_slots):
            out[j, position] = -math.inf
            if weights[j] > 0.0 and (counts[j] > 0 or j == k):
                own = integrated_evidence(state.model, state.family, j, i)
                out[j, position] = math.log(weights[j]) + own
        join(prior, counts, k)
        insert(state, i, k)
