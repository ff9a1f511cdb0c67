"""The exact collapse of the series model: factors and states integrated out, no approximation.

The score of series i for cluster k is log p(y of k and i) - log p(y of k). Two routes give the
joint density: one Kalman filter over the cluster's series, T n^3, or the information form, T^3
whatever n. The cheaper is taken for each cluster, at its size of the moment.
"""

from __future__ import annotations

from collections.abc import Mapping, Set
from typing import Any, NamedTuple

import numpy as np

from cavity.collapse.driver import Driver
from cavity.core.arrays import declare, grown
from cavity.core.compile import jit
from cavity.models.series.information import (
    add_information,
    describe,
    factorise,
    information_matrix,
    joint_filter,
    start_information,
)
from cavity.models.series.signs import draw_label_and_sign
from cavity.models.series.state import DIAGONAL, SLOPE, FactorSeries
from cavity.verbs import choose, insert, remove

# Above this length the slots' T x T matrices are not kept, and only the filter is used.
LONGEST = 2000
_STIFF = 1e6  # information about a factor, in units of its prior's, that a difference can bear
FILTER, INFORMATION, CHEAPER = 0, 1, 2
ROUTES = {"filter": FILTER, "information": INFORMATION, "auto": CHEAPER}


class ExactSeries(NamedTuple):
    """State of the exact collapse."""

    model: FactorSeries
    row: np.ndarray  # (ROWS, T) scratch for the other series, while one is being scored
    home: np.ndarray  # (n,) slot of every series; -1 for the one that is being scored
    information: np.ndarray  # (slots, T + 2, T + 2 padded); one slot when only the filter is used
    constant: np.ndarray  # (n,) log density of each series at eta = 0
    evidence: np.ndarray  # (slots,) log density of each cluster's observations
    joined: np.ndarray  # (2, slots) the same with the series that is being scored, and it turned
    work: np.ndarray  # (T + 2, T + 2 padded)
    products: np.ndarray  # (T + 2 padded,)
    members: np.ndarray  # (n,)
    paths: np.ndarray  # (widest, T) scratch of the filter
    square: np.ndarray  # (widest + 3, widest)
    scores: np.ndarray  # (slots,)
    mass: np.ndarray  # (slots,)
    route: int


# All of it follows from labels and parameters: nothing needs to be saved.
declare(
    ExactSeries,
    slots={},
    constant=tuple(name for name in ExactSeries._fields if name != "model"),
)


def widest_filter(n: int, n_times: int, route: int) -> int:
    """Largest cluster that the filter will be asked for."""
    if route == INFORMATION:
        return 1
    if route == FILTER or n_times > LONGEST:
        return n
    size = 1
    while size < n and filter_is_cheaper(size + 1, n_times):
        size += 1
    return size


def exact_state(model: FactorSeries, n_slots: int, route: str = "auto") -> ExactSeries:
    """State with every slot empty; ``rebuild`` fills it from the assignments."""
    n, n_times = model.cells.y.shape
    code = ROUTES[route]
    if n_times > LONGEST:
        code = FILTER
    widest = widest_filter(n, n_times, code)
    n_kept = 1 if code == FILTER else n_slots
    work = information_matrix(n_times)
    return ExactSeries(
        model=model,
        row=np.zeros_like(model.scratch.row),
        home=np.full(n, -1, dtype=np.int32),
        information=information_matrix(n_times, n_kept),
        constant=np.zeros(n),
        evidence=np.zeros(n_slots),
        joined=np.zeros((2, n_slots)),
        work=work,
        products=np.zeros(work.shape[1]),
        members=np.zeros(n, dtype=np.int64),
        paths=np.zeros((widest, n_times)),
        square=np.zeros((widest + 3, widest)),
        scores=np.zeros(n_slots),
        mass=np.zeros(n_slots),
        route=code,
    )


@jit
def filter_is_cheaper(size, n_times):
    """Whether `size` series are filtered in less time than a T x T matrix is factorised.

    Nanoseconds, measured: a filter step has little to vectorise, a factorisation much.
    """
    by_filter = n_times * size * (30.0 + size * (1.8 + 0.14 * size))
    by_information = 4000.0 + n_times * n_times * (1.0 + 0.018 * n_times)
    return by_filter < by_information


@jit(internal=True)
def _by_filter(state, size):
    if state.route == 2:
        return filter_is_cheaper(size, state.model.cells.y.shape[1])
    return state.route == 0


@jit(internal=True)
def _cluster_evidence(state, k, extra):
    """Log density of the observations in slot k, and of series `extra` unless that is -1.

    The second value is that with the loading of `extra` turned. The information route expects
    `extra` described in the scratch of ``state.model``.
    """
    n = 0
    for j in range(state.home.shape[0]):
        if state.home[j] == k:
            state.members[n] = j
            n += 1
    if extra >= 0:
        state.members[n] = extra
        n += 1
    if n == 0:
        return 0.0, 0.0
    if _by_filter(state, n):
        return joint_filter(state.model, state.row, state.members, n, state.paths, state.square)
    source = state.information[k]
    if extra >= 0:
        add_information(state.model.scratch.row, state.work, source, 1.0, state.products)
        n_times = source.shape[0] - 2
        for t in range(n_times):
            state.work[n_times + 1, t] = state.model.scratch.row[SLOPE, t]
    else:
        for t in range(source.shape[0]):
            for s in range(t + 1):
                state.work[t, s] = source[t, s]
    total, mirrored = factorise(state.work)
    for position in range(n):
        total += state.constant[state.members[position]]
        mirrored += state.constant[state.members[position]]
    return total, mirrored


@jit(internal=True)
def _gather(state, k):
    """Slot k's matrix from its members."""
    slot = state.information[k]
    start_information(slot)
    for j in range(state.home.shape[0]):
        if state.home[j] == k:
            describe(state.model, state.row, j)
            add_information(state.row, slot, slot, 1.0, state.products)


@jit(internal=True)
def _take_out(state, k):
    """Take the described series out of slot k's matrix.

    A difference loses the digits that the series' own information has beyond the prior's; where
    that would matter the others are summed afresh.
    """
    largest = 0.0
    for t in range(state.model.cells.y.shape[1]):
        largest = max(largest, state.model.scratch.row[DIAGONAL, t])
    if largest > _STIFF:
        _gather(state, k)
    else:
        slot = state.information[k]
        add_information(state.model.scratch.row, slot, slot, -1.0, state.products)


@remove.register(ExactSeries)
def _(state, z, counts, i, k):
    state.home[i] = -1
    state.constant[i] = describe(state.model, state.model.scratch.row, i)
    if state.route != 0:
        if counts[k] == 0:
            start_information(state.information[k])
        else:
            _take_out(state, k)
    state.evidence[k] = _cluster_evidence(state, k, -1)[0]


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
            joined[0, k], joined[1, k] = _cluster_evidence(state, k, i)
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
    if state.route != 0:
        add_information(
            state.model.scratch.row, state.information[k], state.information[k], 1.0, state.products
        )
    state.evidence[k] = state.joined[0, k]
    state.home[i] = k


@jit
def gather_clusters(state, z):
    """Every cluster from its members, after parameters have changed."""
    if state.route != 0:
        for k in range(state.evidence.shape[0]):
            start_information(state.information[k])
    for i in range(z.shape[0]):
        state.home[i] = z[i]
        state.constant[i] = describe(state.model, state.model.scratch.row, i)
        if state.route != 0:
            slot = state.information[z[i]]
            add_information(state.model.scratch.row, slot, slot, 1.0, state.products)
    for k in range(state.evidence.shape[0]):
        state.evidence[k] = _cluster_evidence(state, k, -1)[0]


class ExactSeriesCollapse(Driver):
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
