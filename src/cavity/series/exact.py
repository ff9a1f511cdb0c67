"""Exact collapse: factors and states integrated out, no approximation.

The score of series i for cluster k is log p(y of k and i) - log p(y of k). The log density of a
group of n series is computed from their information about the factor: by its columns, T n^2, eight
series at a time, or as a dense matrix, T^3 whatever n. The cheaper way is taken for each group.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Mapping, Set
from typing import Any, NamedTuple

import numpy as np

from cavity._numba.arrays import declare, grown
from cavity._numba.jit import jit
from cavity._numba.simd import WIDTH
from cavity.collapse.driver import CollapsedState
from cavity.interface import choose, insert, remove
from cavity.series.batched_filter import (
    SeriesBatch,
    columns_are_cheaper,
    describe_batch,
    series_batch,
)
from cavity.series.cluster_information import (
    LARGEST,
    add_information,
    add_slopes,
    describe,
    factorize,
    factorize_semiseparable,
    information_matrix,
    put_columns,
    slope_of,
    solve_semiseparable,
    start_information,
    start_semiseparable,
)
from cavity.series.kalman import observation_constant
from cavity.series.likelihood import draw_label_and_sign
from cavity.series.state_space import DIAGONAL, SLOPE, FactorSeries

_STIFF = 1e6  # information about a factor, in units of its prior's, that a difference can bear


class EvidenceWorkspace(NamedTuple):
    """Room to compute evidences in."""

    row: np.ndarray  # (ROWS, T) scratch for the members, while another series is described
    members: np.ndarray  # (n,) of the group at hand
    work: np.ndarray  # (T + 2, T + 2 padded)
    products: np.ndarray  # (T + 2 padded,)
    batch: SeriesBatch


declare(EvidenceWorkspace, slots={}, constant=EvidenceWorkspace._fields)


def evidence_workspace(model: FactorSeries) -> EvidenceWorkspace:
    """Room for groups of these series."""
    n, n_times = model.cells.y.shape
    work = information_matrix(n_times)
    return EvidenceWorkspace(
        row=np.zeros_like(model.scratch.row),
        members=np.zeros(n + 1, dtype=np.int64),
        work=work,
        products=np.zeros(work.shape[1]),
        batch=series_batch(n + 1, n_times, 0),
    )


@jit(internal=True)
def _by_columns_is_cheaper(n, n_times):
    return columns_are_cheaper(-(-n // WIDTH) * WIDTH, n_times)


@jit
def group_evidence(model, room, n):
    """Log density of the first n of ``room.members``, and with the last one's loading turned."""
    if n == 0:
        return 0.0, 0.0
    if _by_columns_is_cheaper(n, model.cells.y.shape[1]):
        found = _by_columns(model, room, n)
        if found[0] == found[0]:
            return found
    start_information(room.work)
    total = 0.0
    for position in range(n):
        total += describe(model, room.row, room.members[position])
        add_information(room.row, room.work, room.work, 1.0, room.products)
    return _factorized(room, room.row, total)


@jit(internal=True)
def _by_columns(model, room, n):
    """Compute evidences by columns; NaN where these lose too many digits."""
    batch, matrix = room.batch, room.work
    n_times = matrix.shape[0] - 2
    width = -(-n // WIDTH) * WIDTH
    start_semiseparable(matrix, width)
    h = matrix[n_times, :n_times]
    total = 0.0
    most = 0.0
    for position in range(n):
        batch.members[position] = room.members[position]
        total += observation_constant(model, room.members[position])
    for start in range(0, n, WIDTH):
        # In the model's own scratch a series may be described that the caller goes on with.
        total += describe_batch(model, room.row, batch, start, min(n - start, WIDTH))
        add_slopes(batch, h)
        most = max(most, put_columns(batch, matrix, start, width, 0))
    if not most < LARGEST:
        return math.nan, math.nan
    total += factorize_semiseparable(matrix, width, batch.square, batch.sums)
    # With h - 2 g instead of h, g that of the last member.
    g = batch.columns[0, :n_times]
    slope_of(batch, (n - 1) % WIDTH, g)
    solve_semiseparable(matrix, g)
    turned = 0.0
    for t in range(n_times):
        turned += 2.0 * g[t] * (g[t] - h[t])
    return total, total + turned


@jit(internal=True)
def _factorized(room, row, total):
    """Evidences from the matrix in ``room.work``; `row` describes the member that may turn."""
    n_times = room.work.shape[0] - 2
    for t in range(n_times):
        room.work[n_times + 1, t] = row[SLOPE, t]
    own, mirrored = factorize(room.work)
    return total + own, total + mirrored


@jit(internal=True)
def cluster_evidence(state, model, k, other, change):
    """Log density of slot k's observations, with series `other` put in (1), out (-1) or left (0).

    The second value is that with the loading of `other` turned. The state has the slot of every
    series (``home``), the matrix of every slot (``information``), whether that is up to date
    (``ready``), and every series' log density at eta = 0 (``constant``). `other` must be described
    in the scratch of the model.
    """
    room = state.room
    n = 0
    for j in range(state.home.shape[0]):
        if state.home[j] == k and j != other:
            room.members[n] = j
            n += 1
    if change >= 0 and other >= 0:
        room.members[n] = other
        n += 1
    if n == 0:
        return 0.0, 0.0
    if _by_columns_is_cheaper(n, model.cells.y.shape[1]):
        return group_evidence(model, room, n)
    if not state.ready[k]:
        rebuild_slot(state, model, k)
    own = model.scratch.row
    source = state.information[k]
    if change > 0:
        add_information(own, room.work, source, 1.0, room.products)
    elif change < 0 and is_stiff(own):
        return group_evidence(model, room, n)
    elif change < 0:
        add_information(own, room.work, source, -1.0, room.products)
    else:
        for t in range(source.shape[0] - 1):
            for s in range(t + 1):
                room.work[t, s] = source[t, s]
    total = 0.0
    for position in range(n):
        total += state.constant[room.members[position]]
    return _factorized(room, own, total)


@jit(internal=True)
def is_stiff(row):
    """Return whether a series is so informative that a difference of matrices loses digits."""
    largest = 0.0
    for t in range(row.shape[1]):
        largest = max(largest, row[DIAGONAL, t])
    return largest > _STIFF


@jit(internal=True)
def rebuild_slot(state, model, k):
    """Slot k's matrix, and its members' log densities, from its members."""
    slot = state.information[k]
    start_information(slot)
    for j in range(state.home.shape[0]):
        if state.home[j] == k:
            state.constant[j] = describe(model, state.room.row, j)
            add_information(state.room.row, slot, slot, 1.0, state.room.products)
    state.ready[k] = True


@jit(internal=True)
def remove_from_slot(state, model, k):
    """Take the described series, no longer at home in slot k, out of its matrix."""
    if is_stiff(model.scratch.row):
        state.ready[k] = False
    elif state.ready[k]:
        slot = state.information[k]
        add_information(model.scratch.row, slot, slot, -1.0, state.room.products)


@jit(internal=True)
def add_to_slot(state, model, k):
    """Add the described series to slot k's matrix."""
    if state.ready[k]:
        slot = state.information[k]
        add_information(model.scratch.row, slot, slot, 1.0, state.room.products)


class ExactSeries(NamedTuple):
    """State of the exact collapse."""

    model: FactorSeries
    room: EvidenceWorkspace
    home: np.ndarray  # (n,) slot of every series; -1 for the one that is being scored
    information: np.ndarray  # (slots, T + 2, T + 2 padded)
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


def exact_state(model: FactorSeries, n_slots: int) -> ExactSeries:
    """State with every slot empty; ``rebuild_clusters`` fills it from the assignments."""
    n, n_times = model.cells.y.shape
    return ExactSeries(
        model=model,
        room=evidence_workspace(model),
        home=np.full(n, -1, dtype=np.int32),
        information=information_matrix(n_times, n_slots),
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
    if counts[k] == 0:
        start_information(state.information[k])
        state.ready[k] = True
    else:
        remove_from_slot(state, state.model, k)
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
    add_to_slot(state, state.model, k)
    state.evidence[k] = state.joined[0, k]
    state.home[i] = k


@jit
def rebuild_clusters(state, z):
    """Compute every cluster from its members, after parameters have changed."""
    for i in range(z.shape[0]):
        state.home[i] = z[i]
    for k in range(state.evidence.shape[0]):
        rebuild_slot(state, state.model, k)
        state.evidence[k] = cluster_evidence(state, state.model, k, -1, 0)[0]


class SeriesCollapse(CollapsedState):
    """Collapse with factors integrated out; clusters follow from labels and parameters."""

    @abstractmethod
    def _rebuild(self, z: np.ndarray) -> None:
        """Compute every cluster from its members."""

    @abstractmethod
    def _grown_state(self, n_slots: int) -> Any:
        """Return a state with room for more clusters, all empty."""

    def draw_parameters(self, z: np.ndarray, rng: np.random.Generator) -> None:
        """Do nothing: the model's own update draws the factors with the states."""

    def renew(
        self, z: np.ndarray, counts: np.ndarray, changed: Set[str], rng: np.random.Generator
    ) -> None:
        """Compute the clusters under new parameters of the series."""
        self._rebuild(z)

    def _resize(self, n_slots: int) -> None:
        home = self.state.home
        self.state = self._grown_state(n_slots)
        self._beside = {name: grown(value, n_slots) for name, value in self._beside.items()}
        if home[0] >= 0:
            self._rebuild(home)

    def restore(self, arrays: Mapping[str, np.ndarray], n_slots: int, z: np.ndarray) -> None:
        """Continue from ``arrays``; the clusters follow from labels and parameters."""
        self.state.home[:] = -1
        super().restore(arrays, n_slots, z)
        self._rebuild(z)


class ExactSeriesCollapse(SeriesCollapse):
    """Exact collapse: labels with factors and states integrated out.

    Parameters
    ----------
    model : FactorSeries
    family, parameters : NamedTuple
        Prior of a factor's path, and room for one draw of every cluster's.
    """

    def __init__(self, model: FactorSeries, family: Any, parameters: Any) -> None:
        state = exact_state(model, family.natural.shape[0])
        super().__init__(state, family=family, parameters=parameters)

    def _rebuild(self, z: np.ndarray) -> None:
        rebuild_clusters(self.state, z)

    def _grown_state(self, n_slots: int) -> ExactSeries:
        return exact_state(grown(self.model, n_slots), n_slots)
