"""The exact collapse of the series model: factors and states integrated out, no approximation.

The score of series i for cluster k is log p(y of k and i) - log p(y of k), each by the route that
is cheaper (`series_evidence`).
"""

from __future__ import annotations

from collections.abc import Mapping, Set
from typing import Any, NamedTuple

import numpy as np

from cavity._numba.arrays import declare, grown
from cavity._numba.jit import jit
from cavity.collapse.driver import CollapsedState
from cavity.interface import choose, insert, remove
from cavity.series.evidence import (
    EvidenceRoom,
    cluster_evidence,
    evidence_room,
    put_in,
    slot_matrices,
    take_out,
)
from cavity.series.information import (
    add_information,
    describe,
    start_information,
)
from cavity.series.signs import draw_label_and_sign
from cavity.series.state import SLOPE, FactorSeries


class ExactSeries(NamedTuple):
    """State of the exact collapse."""

    model: FactorSeries
    room: EvidenceRoom
    home: np.ndarray  # (n,) slot of every series; -1 for the one that is being scored
    information: np.ndarray  # (slots, T + 2, T + 2 padded); one slot when only the filter is used
    ready: np.ndarray  # (slots,) whether that is up to date
    constant: np.ndarray  # (n,) log density of each series at eta = 0
    evidence: np.ndarray  # (slots,) log density of each cluster's observations
    joined: np.ndarray  # (2, slots) the same with the series that is being scored, and it turned
    scores: np.ndarray  # (slots,)
    mass: np.ndarray  # (slots,)


# All of it follows from labels and parameters: nothing needs to be saved.
declare(
    ExactSeries,
    slots={},
    constant=tuple(name for name in ExactSeries._fields if name != "model"),
)


def exact_state(model: FactorSeries, n_slots: int, route: str = "auto") -> ExactSeries:
    """State with every slot empty; ``gather_clusters`` fills it from the assignments."""
    n, n_times = model.cells.y.shape
    room = evidence_room(model, route)
    return ExactSeries(
        model=model,
        room=room,
        home=np.full(n, -1, dtype=np.int32),
        information=slot_matrices(room, n_times, n_slots),
        ready=np.ones(n_slots, dtype=np.bool_),
        constant=np.zeros(n),
        evidence=np.zeros(n_slots),
        joined=np.zeros((2, n_slots)),
        scores=np.zeros(n_slots),
        mass=np.zeros(n_slots),
    )


@remove.register(ExactSeries)
def _(state, z, counts, i, k):
    state.home[i] = -1
    state.constant[i] = describe(state.model, state.model.scratch.row, i)
    if state.room.route != 0:
        if counts[k] == 0:
            start_information(state.information[k])
            state.ready[k] = True
        else:
            take_out(state, state.model, k)
    state.evidence[k] = cluster_evidence(state, state.model, k, -1, 0)[0]


@choose.register(ExactSeries)
def _(state, i, weights, rng):
    model, joined, signed = state.model, state.joined, state.model.scratch.signed
    alone = 0.0
    known = False
    for k in range(weights.shape[0]):
        if not weights[k] > 0.0:
            continue
        # Evidence 0 is that of no data: the score is that of a series alone, found once, and the
        # same for both signs.
        empty = state.evidence[k] == 0.0
        if empty and known:
            joined[0, k] = joined[1, k] = alone
        else:
            joined[0, k], joined[1, k] = cluster_evidence(state, state.model, k, i, 1)
        if empty:
            alone = joined[0, k]
            known = True
        for side in range(2):
            signed[side, k] = joined[side, k] - state.evidence[k]
    before = model.own.loading[i]
    k = draw_label_and_sign(model, i, weights, state.scores, state.mass, rng)
    if model.own.loading[i] != before:
        joined[0, k] = joined[1, k]
        for t in range(model.cells.y.shape[1]):
            model.scratch.row[SLOPE, t] *= -1.0
    return k


@insert.register(ExactSeries)
def _(state, i, k):
    if state.room.route != 0:
        put_in(state, state.model, k)
    state.evidence[k] = state.joined[0, k]
    state.home[i] = k


@jit
def gather_clusters(state, z):
    """Every cluster from its members, after parameters have changed."""
    if state.room.route != 0:
        for k in range(state.evidence.shape[0]):
            start_information(state.information[k])
            state.ready[k] = True
    for i in range(z.shape[0]):
        state.home[i] = z[i]
        state.constant[i] = describe(state.model, state.model.scratch.row, i)
        if state.room.route != 0:
            slot = state.information[z[i]]
            add_information(state.model.scratch.row, slot, slot, 1.0, state.room.products)
    for k in range(state.evidence.shape[0]):
        state.evidence[k] = cluster_evidence(state, state.model, k, -1, 0)[0]


class ExactSeriesCollapse(CollapsedState):
    """Drives the exact collapse: labels with factors and states integrated out.

    Parameters
    ----------
    model : FactorSeries
    family, parameters : NamedTuple
        Prior of a factor's path, and room for one draw of every cluster's.
    route : {"auto", "information", "filter"}
        How a cluster's likelihood is computed.
    """

    def __init__(self, model: FactorSeries, family: Any, parameters: Any, route: str) -> None:
        self.route = route
        state = exact_state(model, family.natural.shape[0], route)
        super().__init__(state, family=family, parameters=parameters)

    def draw_parameters(self, z: np.ndarray, rng: np.random.Generator) -> None:
        """The factors are drawn with the states, by the model's own update."""

    def renew(
        self, z: np.ndarray, counts: np.ndarray, changed: Set[str], rng: np.random.Generator
    ) -> None:
        """Clusters under new parameters of the series."""
        gather_clusters(self.state, z)

    def _resize(self, n_slots: int) -> None:
        home = self.state.home
        model = grown(self.model, n_slots)
        self.state = exact_state(model, n_slots, self.route)
        self._beside = {name: grown(value, n_slots) for name, value in self._beside.items()}
        if home[0] >= 0:
            gather_clusters(self.state, home)

    def restore(self, arrays: Mapping[str, np.ndarray], n_slots: int, z: np.ndarray) -> None:
        """Continue from ``arrays``; the clusters follow from labels and parameters."""
        self.state.home[:] = -1
        super().restore(arrays, n_slots, z)
        gather_clusters(self.state, z)
