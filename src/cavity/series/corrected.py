"""Drives the corrected sampler of series, and confirms its moves of many labels.

Moves allocate by the sites that single labels are proposed by (`series_proposals`). What they
accept is then confirmed by exact evidence: a second stage of acceptance.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Set
from typing import Any

import numpy as np

from cavity._numba.arrays import grown
from cavity._numba.jit import jit
from cavity.collapse.driver import CollapsedState
from cavity.conjugate.diagonal_normal import DiagonalNormal
from cavity.interface import confirm, note, recall
from cavity.series.evidence import group_evidence
from cavity.series.proposals import (
    COMPUTED,
    CorrectedSeries,
    corrected_state,
    gather_sites,
    slot_evidence,
)
from cavity.series.spectral import spectral_series, turn_series
from cavity.series.state import FactorSeries


@note.register(CorrectedSeries)
def _(state, i, out):
    out[0] = state.model.series.own.loading[i]


@recall.register(CorrectedSeries)
def _(state, i, values):
    if state.model.series.own.loading[i] != values[0]:
        turn_series(state.model, i)


@jit(internal=True)
def _approximate(natural):
    """Log evidence of the sites in a slot, as a function of its natural parameters."""
    n_times = natural.shape[0] // 2
    total = 0.0
    for f in range(n_times):
        total += natural[n_times + f] * natural[n_times + f] / natural[f] - math.log(natural[f])
    return 0.5 * total


@jit(internal=True)
def _swap_signs(state, room, stop):
    """Exchange the loadings of the members at hand for those that ``room.values`` has."""
    for t in range(stop):
        i = room.members[t]
        value = state.model.series.own.loading[i]
        recall(state, i, room.values[t])
        room.values[t, 0] = value


@jit(internal=True)
def _anything_new(state, room, labels, stop):
    """Whether a label or a sign differs from what it was: if not, both evidences are the same."""
    for t in range(stop):
        i = room.members[t]
        if labels[t] != state.home[i]:
            return True
        if state.model.series.own.loading[i] != room.values[t, 0]:
            return True
    return False


@confirm.register(CorrectedSeries)
def _(state, room, slots, labels, stop, rng):
    # The moves' stage has accepted by the sites' evidence; the ratio of exact to approximate
    # evidence, new over old, decides the second one. Prior weights are in both.
    if not _anything_new(state, room, labels, stop):
        return True
    ratio = 0.0
    _swap_signs(state, room, stop)
    for place in range(3):
        if slots[place] >= 0:
            ratio += _approximate(room.kept[place]) - slot_evidence(state, slots[place])
    _swap_signs(state, room, stop)
    series = state.model.series
    for place in range(3):
        k = slots[place]
        if k >= 0:
            n = 0
            for t in range(stop):
                if labels[t] == k:
                    state.room.members[n] = room.members[t]
                    n += 1
            state.after[place] = group_evidence(series, state.room, n)[0]
            state.counters[COMPUTED] += 1
            ratio += state.after[place] - _approximate(state.family.natural[k])
    if not math.log1p(-rng.random()) < ratio:
        return False
    for place in range(3):
        k = slots[place]
        if k >= 0:
            state.evidence[k] = state.after[place]
            state.ready[k] = False
    for t in range(stop):
        state.home[room.members[t]] = labels[t]
    return True


class CorrectedSeriesCollapse(CollapsedState):
    """Drives the collapse: labels proposed by sites, accepted exactly.

    Parameters
    ----------
    model : FactorSeries
    family, parameters : NamedTuple
        Prior of a factor by frequency, and room for one draw of every cluster's path.
    """

    def __init__(self, model: FactorSeries, family: DiagonalNormal, parameters: Any) -> None:
        state = corrected_state(spectral_series(model), family, np.zeros(3, dtype=np.int64))
        super().__init__(state, parameters=parameters)

    @property
    def model(self) -> FactorSeries:
        """The series."""
        return self.state.model.series

    def draw_parameters(self, z: np.ndarray, rng: np.random.Generator) -> None:
        """The factors are drawn with the states, by the model's own update."""

    def renew(
        self, z: np.ndarray, counts: np.ndarray, changed: Set[str], rng: np.random.Generator
    ) -> None:
        """Sites and clusters under new parameters of the series."""
        gather_sites(self.state, z)

    def events(self) -> dict[str, float]:
        """Proposals of another label or sign, those accepted, exact evidences computed."""
        proposed, accepted, computed = (int(c) for c in self.state.counters)
        return {
            "labels_proposed": proposed,
            "labels_accepted": accepted,
            "exact_evidences": computed,
        }

    def _resize(self, n_slots: int) -> None:
        home = self.state.home
        model = grown(self.state.model, n_slots)
        family = grown(self.state.family, n_slots)
        self.state = corrected_state(model, family, self.state.counters)
        self._beside = {name: grown(value, n_slots) for name, value in self._beside.items()}
        if home[0] >= 0:
            gather_sites(self.state, home)

    def restore(self, arrays: Mapping[str, np.ndarray], n_slots: int, z: np.ndarray) -> None:
        """Continue from ``arrays``; the clusters follow from labels and parameters."""
        self.state.home[:] = -1
        super().restore(arrays, n_slots, z)
        gather_sites(self.state, z)
