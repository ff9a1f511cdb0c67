"""The density of each observation given all others, from states that saw all of them.

With everything but the observation's own variables given, p(y_i | state without i) is the
normaliser of its label's Gibbs step: the sum over clusters of prior weight times evidence. Over
posterior draws of the state the mean of its inverse is 1 / p(y_i | the other observations): the
integrated form of the conditional predictive ordinate. It is far steadier than the same identity
with drawn cluster parameters, which know the observation.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from cavity.core.compile import compiled, wide_vectors
from cavity.models.sampled_student_t import SampledStudentT, set_score_rule
from cavity.priors.partition import padded, renew
from cavity.verbs import evidence, insert, prior_weights, remove


def log_normalisers(state, prior, z, counts, weights, out):
    """Log density of every observation given the state without it.

    As in a sweep, but each goes back where it was. There must be an empty slot to spare under an
    open prior.
    """
    wide_vectors()
    n_slots = weights.shape[0]
    for i in range(z.shape[0]):
        k = np.int64(z[i])
        counts[k] -= 1
        prior_weights(prior, counts, k, weights)
        remove(state, z, counts, i, k)
        top = -math.inf
        total_weight = 0.0
        for j in range(n_slots):
            if weights[j] > 0.0:
                total_weight += weights[j]
                state.scores[j] = evidence(state.model, state.family, j, i)
                top = max(top, state.scores[j])
        total = 0.0
        for j in range(n_slots):
            if weights[j] > 0.0:
                total += weights[j] * math.exp(state.scores[j] - top)
        out[i] = top + math.log(total / total_weight)
        counts[k] += 1
        insert(state, i, k)


def leave_one_out(
    collapse: Any,
    z: np.ndarray,
    prior: Any,
    cluster_prior: np.ndarray,
    alpha: np.ndarray | None = None,
    scale: np.ndarray | None = None,
) -> np.ndarray:
    """Log density of every observation given the others' part of a draw.

    Parameters
    ----------
    collapse : ConjugateCollapse
        Over the data, with a slot more than the labels use; its state is changed to the draw's.
    z : array of int, shape (n,)
    prior : NamedTuple
        The partition prior's state in this draw.
    cluster_prior : array
        Natural parameters of the prior of cluster parameters.
    alpha : array, shape (slots,), optional
        Half the degrees of freedom of every slot, for Student-t clusters.
    scale : array, shape (n,), optional
        Every observation's scale variable, for these.
    """
    state = collapse.state
    n_slots = state.scores.size
    z = np.array(z, dtype=np.int32)
    counts = np.bincount(z, minlength=n_slots).astype(np.int64)
    state.family.prior[:] = cluster_prior
    if isinstance(state.model, SampledStudentT):
        state.model.alpha[:] = alpha
        state.model.scale[:] = scale
        set_score_rule(state.model)
    # It needs no random numbers to gather statistics.
    collapse.start(z, counts, np.random.default_rng(0))
    prior = renew(padded(prior, n_slots), counts)
    out = np.empty(z.size)
    kernel = compiled(log_normalisers, (state, prior))
    kernel(state, prior, z, counts, np.zeros(n_slots), out)
    return out
