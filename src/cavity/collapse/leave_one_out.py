"""Leave-one-out densities from draws that used all observations.

With everything but the observation's own variables given, p(y_i | state without i) is the
normalizer of its label's Gibbs step: the sum over clusters of prior weight times evidence. Over
posterior draws of the state the mean of its inverse is 1 / p(y_i | the other observations): the
integrated form of the conditional predictive ordinate. It is far steadier than the same identity
with drawn cluster parameters, which have seen the observation.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import numpy as np

from cavity._numba.jit import compiled, wide_vectors
from cavity.interface import insert, integrated_evidence, remove
from cavity.likelihoods.degrees_of_freedom import TailUpdate
from cavity.likelihoods.missing import MissingOrWeightedRows, fill_all_gaps
from cavity.likelihoods.product import Product
from cavity.likelihoods.scale_mixture_rows import ScaleMixtureRows, draw_given
from cavity.priors.partition import (
    PartitionPrior,
    cluster_sizes,
    join,
    leave,
    padded,
    renew,
    row_weights,
)


def log_normalisers(state, prior, z, counts, weights, out):
    """Return the log density of every observation given the state without it.

    As in a sweep, but each goes back where it was. There must be an empty slot to spare under an
    open prior.
    """
    wide_vectors()
    n_slots = weights.shape[0]
    for i in range(z.shape[0]):
        k = np.int64(z[i])
        leave(prior, counts, k)
        row_weights(prior, counts, i, k, weights)
        remove(state, z, counts, i, k)
        top = -math.inf
        top_weight = 0.0
        for j in range(n_slots):
            if weights[j] > 0.0:
                weights[j] = math.log(weights[j])
                top_weight = weights[j] if top == -math.inf else max(top_weight, weights[j])
                own = integrated_evidence(state.model, state.family, j, i)
                state.scores[j] = weights[j] + own
                top = max(top, state.scores[j])
            else:
                weights[j] = state.scores[j] = -math.inf
        total = 0.0
        total_weight = 0.0
        for j in range(n_slots):
            total += math.exp(state.scores[j] - top)
            total_weight += math.exp(weights[j] - top_weight)
        out[i] = top + math.log(total) - top_weight - math.log(total_weight)
        join(prior, counts, k)
        insert(state, i, k)


@dataclass
class _Draw:
    """A stored draw with the interface of a chain."""

    model: Any
    family: Any
    parameters: Any
    z: np.ndarray
    counts: np.ndarray
    prior: Any = None


def _draw_own(
    model: Any,
    collapse: Any,
    z: np.ndarray,
    counts: np.ndarray,
    alpha: np.ndarray | None,
    rng: np.random.Generator,
) -> None:
    """Draw scales and missing values of a continuous block given its parameters."""
    if isinstance(model, Product):
        first = SimpleNamespace(family=collapse.family.first, parameters=collapse.parameters.first)
        _draw_own(model.first, first, z, counts, alpha, rng)
        return
    if alpha is not None:
        model.alpha[:] = alpha
    if isinstance(model, ScaleMixtureRows):
        compiled(draw_given, ())(model, collapse.parameters, z, rng)
        return
    if isinstance(model, MissingOrWeightedRows) and model.gaps.size:
        fill_all_gaps(model, collapse.parameters, z, rng)
    if alpha is not None:
        tails = TailUpdate(None)
        tails.draw(_Draw(model, collapse.family, collapse.parameters, z, counts), rng)
        tails.follow(model)


def leave_one_out(
    collapse: Any,
    z: np.ndarray,
    prior: PartitionPrior,
    alpha: np.ndarray | None,
    rng: np.random.Generator,
) -> np.ndarray:
    """Return leave-one-out log densities of every observation for each draw.

    Parameters
    ----------
    collapse : ConjugateCollapse
        Over the data, with a slot more than the labels use, its parameters and the prior of these
        those of the draw; its state is changed to the draw's.
    z : array of int, shape (n,)
    prior : PartitionPrior
        As in this draw.
    alpha : array, shape (slots,), or None
        Half the degrees of freedom of every slot, for Student-t clusters.
    rng : numpy.random.Generator
        Draws variables that a stored draw lacks: scales and missing values, given its parameters.
    """
    state = collapse.state
    n_slots = state.scores.size
    z = np.array(z, dtype=np.int32)
    counts = cluster_sizes(prior, z, n_slots)
    _draw_own(state.model, collapse, z, counts, alpha, rng)
    collapse.start(z, counts, rng)
    prior = renew(padded(prior, n_slots), counts)
    out = np.empty(z.size)
    kernel = compiled(log_normalisers, (state, prior))
    kernel(state, prior, z, counts, np.zeros(n_slots), out)
    return out
