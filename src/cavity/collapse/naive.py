"""No collapse: assignments given drawn cluster parameters."""

from __future__ import annotations

from collections.abc import Set
from typing import Any, NamedTuple

import numpy as np

from cavity._numba.arrays import declare
from cavity.collapse.driver import CollapsedState
from cavity.collapse.statistics import gather_statistics, gather_sums
from cavity.conjugate.common import draw_empty, draw_empty_slots, draw_slots
from cavity.interface import (
    choose,
    draw_parameters,
    family_of,
    insert,
    parameters_of,
    pick_given,
    refresh,
    remove,
)
from cavity.updates import CLUSTER_PRIOR


class Naive(NamedTuple):
    """State of the sampler that conditions on cluster parameters."""

    model: Any
    parameters: Any
    scores: np.ndarray  # (slots,)
    mass: np.ndarray  # (slots,)


declare(Naive, slots={"scores": 0, "mass": 0})


def naive_state(model: Any, parameters: Any, n_slots: int) -> Naive:
    """Return a state with the given parameters."""
    return Naive(model, parameters, np.zeros(n_slots), np.zeros(n_slots))


@remove.register(Naive)
def _(state, z, counts, i, k):
    return None


@choose.register(Naive)
def _(state, i, weights, rng):
    return pick_given(state.model, state.parameters, i, weights, state.scores, state.mass, rng)


@insert.register(Naive)
def _(state, i, k):
    return None


@family_of.register(Naive)
def _(state, beside):
    return beside


@parameters_of.register(Naive)
def _(state, beside):
    return state.parameters


@draw_parameters.register(Naive)
def _(state, beside, z, rng):
    gather_sums(state.model, beside, z)
    draw_slots(beside, state.parameters, 0, rng)


@refresh.register(Naive)
def _(state, beside, z, counts, new_prior, rng):
    # Only the occupied slots have given the prior that the empty ones are drawn from.
    if new_prior:
        draw_empty_slots(beside, state.parameters, counts, rng)


class NaiveCollapse(CollapsedState):
    """Sampler that conditions on cluster parameters.

    Parameters
    ----------
    model, parameters : NamedTuple
        The likelihood with its data, and storage for every cluster's parameters.
    family : NamedTuple
        The distribution of cluster parameters given their members.
    conjugate : bool
        Whether the parameters are drawn from the family given the members' statistics; otherwise
        an update draws them, and the family is their prior alone.
    """

    def __init__(self, model: Any, family: Any, parameters: Any, *, conjugate: bool = True) -> None:
        n_slots = family.natural.shape[0]
        super().__init__(naive_state(model, parameters, n_slots), family=family)
        self.conjugate = self.in_kernels = conjugate

    def start(self, z: np.ndarray, counts: np.ndarray, rng: np.random.Generator) -> None:
        """Draw parameters given the first members; without statistics, from the prior."""
        if self.conjugate:
            self.draw_parameters(z, rng)
        else:
            self._draw_slots(0, rng)

    def draw_parameters(self, z: np.ndarray, rng: np.random.Generator) -> None:
        """Gather the members' statistics and draw."""
        if self.conjugate:
            self._kernels.run(gather_statistics, self.model, self.family, z)
            self._draw_slots(0, rng)

    def renew(
        self, z: np.ndarray, counts: np.ndarray, changed: Set[str], rng: np.random.Generator
    ) -> None:
        """Draw parameters of empty slots from a new prior."""
        if CLUSTER_PRIOR in changed:
            self._kernels.run(draw_empty, self.family, self.parameters, counts, rng)
