"""Exact collapse: cluster parameters integrated out through sufficient statistics.

The same state serves the fully collapsed samplers, with auxiliary variables that are drawn with
the label (sampled sites) or without any, and the blocked one, which integrates the parameters given
auxiliary variables that it draws after each scan.
"""

from __future__ import annotations

from collections.abc import Set
from typing import Any, NamedTuple

import numpy as np

from cavity._numba.arrays import declare
from cavity._numba.jit import jit
from cavity.collapse.driver import CollapsedState
from cavity.collapse.statistics import gather_statistics, gather_sums
from cavity.conjugate.common import load_slot, to_prior
from cavity.interface import (
    accumulate,
    auxiliary,
    choose,
    complete,
    insert,
    log_partition,
    note,
    observe,
    pick,
    recall,
    refresh,
    remove,
    set_auxiliary,
)


class Conjugate(NamedTuple):
    """State of the exact collapse."""

    model: Any
    family: Any
    scores: np.ndarray  # (slots,)
    mass: np.ndarray  # (slots,)
    visited: np.ndarray  # (slots,)


declare(Conjugate, slots={"scores": 0, "mass": 0, "visited": 0})


def conjugate_state(model: Any, family: Any) -> Conjugate:
    """Return a state with every slot at its prior."""
    n_slots = family.natural.shape[0]
    return Conjugate(
        model, family, np.zeros(n_slots), np.zeros(n_slots), np.zeros(n_slots, dtype=np.int64)
    )


@jit(internal=True)
def gather(state, z, k):
    """Recompute slot k from its members' statistics."""
    q = state.family
    for p in range(q.natural.shape[1]):
        q.natural[k, p] = q.prior[p]
    for j in range(z.shape[0]):
        if z[j] == k:
            accumulate(state.model, q, k, j)
    load_slot(q, k)


@remove.register(Conjugate)
def _(state, z, counts, i, k):
    if counts[k] == 0:
        to_prior(state.family, k)
    elif not observe(state.model, state.family, k, i, -1.0):
        # Rounding made the difference improper: sum the others' statistics instead.
        label = z[i]
        z[i] = -1
        gather(state, z, k)
        z[i] = label


@choose.register(Conjugate)
def _(state, i, weights, rng):
    model, q = state.model, state.family
    k = pick(model, q, i, weights, state.scores, state.mass, state.visited, rng)
    if k >= 0:
        complete(model, q, k, i, rng)
    return k


@insert.register(Conjugate)
def _(state, i, k):
    observe(state.model, state.family, k, i, 1.0)


@note.register(Conjugate)
def _(state, i, out):
    auxiliary(state.model, i, out)


@recall.register(Conjugate)
def _(state, i, values):
    set_auxiliary(state.model, i, values)


def log_evidence(state, z, counts):
    """Sum A(posterior) - A(prior) over occupied clusters, without base measures."""
    q = state.family
    total = 0.0
    n_clusters = 0
    for k in range(counts.shape[0]):
        if counts[k] > 0:
            total += log_partition(q, k)
            n_clusters += 1
    # The first slot's memory holds the prior temporarily.
    to_prior(q, 0)
    total -= n_clusters * log_partition(q, 0)
    gather(state, z, 0)
    return total


@refresh.register(Conjugate)
def _(state, beside, z, counts, new_prior, rng):
    gather_sums(state.model, state.family, z)


class ConjugateCollapse(CollapsedState):
    """Exact collapse of one chain: collapsed, or blocked with auxiliary variables.

    Parameters
    ----------
    model, family, parameters : NamedTuple
        The likelihood with its data, the conjugate family with every slot at its prior, and storage
        for one draw of every cluster's parameters.
    """

    in_kernels = True

    def __init__(self, model: Any, family: Any, parameters: Any) -> None:
        super().__init__(conjugate_state(model, family), parameters=parameters)

    @property
    def own_width(self) -> int:
        """Number of values drawn with a label: a scale, and missing values."""
        return int(getattr(self.model, "own_width", 1))

    def start(self, z: np.ndarray, counts: np.ndarray, rng: np.random.Generator) -> None:
        """Compute the sums over the first members."""
        self._gather(z)

    def renew(
        self, z: np.ndarray, counts: np.ndarray, changed: Set[str], rng: np.random.Generator
    ) -> None:
        """Recompute the sums for new auxiliary variables and a new prior."""
        self._gather(z)

    def _gather(self, z: np.ndarray) -> None:
        self._kernels.run(gather_statistics, self.model, self.family, z)

    def log_evidence(self, z: np.ndarray, counts: np.ndarray) -> float:
        """Log marginal likelihood given auxiliary variables, up to the base measure."""
        return float(self._kernels.run(log_evidence, self.state, z, counts))
