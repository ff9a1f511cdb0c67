"""Corrected collapse: labels are proposed by a cheap score and accepted by exact evidence.

A series' label, and the sign of its loading, are proposed by the sites of its cluster's other
members (`cavity.series.spectral`) and accepted by the exact evidence, factors and states
integrated out (Metropolis-Hastings). The proposal has probability

    q(k, sign) = (1 - e) w_k s(k, sign) / sum  +  e / number of (k, sign) allowed

with w the prior's weights, s the score, e = `UNIFORM`. It depends on the labels and signs of the
other series, on data and parameters, but neither on the series' own label nor on the history of the
chain. A proposal of the current state costs nothing more. Any other costs two exact evidences: of
the cluster without the series, and of the cluster with it. Those of unchanged clusters are cached.

Moves of many labels allocate by the same sites. What they accept is confirmed by exact evidence, a
second stage of acceptance.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from cavity._numba.arrays import declare, grown
from cavity._numba.jit import jit
from cavity._numba.numerics import fast_exp
from cavity.conjugate.common import load_slot, to_prior
from cavity.conjugate.diagonal_normal import DiagonalNormal
from cavity.interface import choose, confirm, insert, note, recall, remove
from cavity.series.cluster_information import describe
from cavity.series.exact import (
    EvidenceWorkspace,
    SeriesCollapse,
    add_to_slot,
    cluster_evidence,
    evidence_workspace,
    group_evidence,
    remove_from_slot,
    slot_matrices,
)
from cavity.series.likelihood import sign_pull
from cavity.series.spectral import (
    SpectralSeries,
    find_site,
    score_slot,
    score_slots,
    spectral_series,
    turn_series,
)
from cavity.series.state_space import SLOPE, FactorSeries

# Share of the proposals that are uniform.
UNIFORM = 0.02
# Places in the array of counters.
PROPOSED, ACCEPTED, COMPUTED = 0, 1, 2


class CorrectedSeries(NamedTuple):
    """State of the collapse."""

    model: SpectralSeries
    family: DiagonalNormal  # of the factors by frequency: the prior times the members' sites
    room: EvidenceWorkspace
    home: np.ndarray  # (n,) slot of every series
    present: np.ndarray  # (1,) slot that the series being visited is still in, or -1
    information: np.ndarray  # (slots, T + 2, T + 2 padded); one slot when only the filter is used
    ready: np.ndarray  # (slots,) whether that is up to date
    constant: np.ndarray  # (n,) log density of each series at eta = 0
    evidence: np.ndarray  # (slots,) log density of each cluster's observations
    known: np.ndarray  # (slots,) whether that is up to date
    after: np.ndarray  # (3,) evidences of the slots of a move, if it is accepted
    mass: np.ndarray  # (2, slots)
    counters: np.ndarray  # (3,)


# But for counters all of it follows from labels and parameters.
declare(
    CorrectedSeries,
    slots={},
    constant=tuple(
        name for name in CorrectedSeries._fields if name not in ("model", "family", "counters")
    ),
)


def corrected_state(
    model: SpectralSeries, family: DiagonalNormal, counters: np.ndarray
) -> CorrectedSeries:
    """State with every slot empty; ``rebuild_sites`` fills it from the assignments."""
    n, n_times = model.series.cells.y.shape
    n_slots = family.natural.shape[0]
    room = evidence_workspace(model.series)
    return CorrectedSeries(
        model=model,
        family=family,
        room=room,
        home=np.full(n, -1, dtype=np.int64),
        present=np.array([-1]),
        information=slot_matrices(room, n_times, n_slots),
        ready=np.zeros(n_slots, dtype=np.bool_),
        constant=np.zeros(n),
        evidence=np.zeros(n_slots),
        known=np.zeros(n_slots, dtype=np.bool_),
        after=np.zeros(3),
        mass=np.zeros((2, n_slots)),
        counters=counters,
    )


@jit(internal=True)
def _add(state, i, k, sign):
    """Multiply the site of series i into slot k, or out of it."""
    natural = state.family.natural[k]
    site = state.model.sites[i]
    for p in range(natural.shape[0]):
        natural[p] += sign * site[p]
    load_slot(state.family, k)


@jit(internal=True)
def slot_evidence(state, k):
    """Exact log density of slot k's observations, remembered while it does not change."""
    if not state.known[k]:
        state.evidence[k] = cluster_evidence(state, state.model.series, k, -1, 0)[0]
        state.known[k] = True
        state.counters[COMPUTED] += 1
    return state.evidence[k]


@remove.register(CorrectedSeries)
def _(state, z, counts, i, k):
    # It stays in until it is known to leave.
    state.present[0] = k


@jit(internal=True)
def _chance(state, weights, k, side, total, n_states):
    """Probability with which a slot and a sign are proposed."""
    by_sites = state.mass[side, k] / total if weights[k] > 0.0 else 0.0
    return (1.0 - UNIFORM) * by_sites + UNIFORM / n_states


@jit(internal=True)
def _propose(state, i, weights, rng):
    """A slot, a sign (1: turned), and the log of the chance of the present state over theirs.

    The slot is -1 if no score is finite.
    """
    m, q, mass = state.model, state.family, state.mass
    present = state.present[0]
    n_slots = weights.shape[0]
    score_slots(m, q, i, mass)
    mass[0, present], mass[1, present] = score_slot(m, q, present, i, True)
    n_sides = 2 if m.series.own.free_signs else 1
    pull = sign_pull(m.series, i) if n_sides == 2 else 0.0
    top = -math.inf
    n_allowed = 0
    for k in range(n_slots):
        if weights[k] > 0.0:
            n_allowed += 1
            mass[0, k] += pull
            mass[1, k] -= pull
            for side in range(n_sides):
                top = max(top, mass[side, k])
    total = 0.0
    for side in range(n_sides):
        for k in range(n_slots):
            if weights[k] > 0.0:
                mass[side, k] = weights[k] * fast_exp(mass[side, k] - top)
                total += mass[side, k]
    if not total > 0.0:
        return np.int64(-1), 0, 0.0
    n_states = n_allowed * n_sides
    chosen, turned = np.int64(-1), 0
    if rng.random() < UNIFORM:
        place = int(rng.random() * n_states)
        turned = place // n_allowed
        place -= turned * n_allowed
        for k in range(n_slots):
            if weights[k] > 0.0:
                if place == 0:
                    chosen = np.int64(k)
                place -= 1
    else:
        target = rng.random() * total
        for side in range(n_sides):
            for k in range(n_slots):
                if weights[k] > 0.0 and mass[side, k] > 0.0 and target >= 0.0:
                    chosen, turned = np.int64(k), side
                    target -= mass[side, k]
    there = _chance(state, weights, chosen, turned, total, n_states)
    back = _chance(state, weights, present, 0, total, n_states)
    return chosen, turned, math.log(back) - math.log(there) - 2.0 * pull * turned


@choose.register(CorrectedSeries)
def _(state, i, weights, rng):
    present = state.present[0]
    k, turned, chance = _propose(state, i, weights, rng)
    if k < 0 or (k == present and turned == 0):
        return k
    series = state.model.series
    row = series.scratch.row
    state.counters[PROPOSED] += 1
    threshold = math.log1p(-rng.random()) - chance
    before = slot_evidence(state, present)
    if k == present:
        state.constant[i] = describe(series, row, i)
        after = cluster_evidence(state, series, k, i, 0)[1]
        state.counters[COMPUTED] += 1
        if threshold < after - before:
            state.counters[ACCEPTED] += 1
            _add(state, i, k, -1.0)
            turn_series(state.model, i)
            _add(state, i, k, 1.0)
            state.evidence[k] = after
            if state.ready[k]:
                n_times = row.shape[1]
                for t in range(n_times):
                    state.information[k, n_times, t] -= 2.0 * row[SLOPE, t]
        return k
    before += slot_evidence(state, k)
    state.constant[i] = describe(series, row, i)
    joined = cluster_evidence(state, series, k, i, 1)[turned]
    left = cluster_evidence(state, series, present, i, -1)[0]
    state.counters[COMPUTED] += 2
    if weights[present] > 0.0:
        threshold -= math.log(weights[k] / weights[present])
    else:
        threshold = -math.inf
    if not threshold < joined + left - before:
        return present
    state.counters[ACCEPTED] += 1
    # The series leaves: matrices, evidences and sites of both slots but for the site in the new
    # one, which ``insert`` adds.
    state.home[i] = -1
    remove_from_slot(state, series, present)
    _add(state, i, present, -1.0)
    if turned:
        turn_series(state.model, i)
        for t in range(row.shape[1]):
            row[SLOPE, t] = -row[SLOPE, t]
    add_to_slot(state, series, k)
    state.evidence[present], state.evidence[k] = left, joined
    state.home[i] = k
    state.present[0] = -1
    return k


@insert.register(CorrectedSeries)
def _(state, i, k):
    if state.present[0] != k:
        _add(state, i, k, 1.0)
    state.present[0] = -1


@jit
def rebuild_sites(state, z):
    """Every site and slot from labels and parameters."""
    for k in range(state.family.natural.shape[0]):
        to_prior(state.family, k)
        state.known[k] = state.ready[k] = False
    for i in range(z.shape[0]):
        state.home[i] = z[i]
        find_site(state.model, i)
        natural = state.family.natural[z[i]]
        site = state.model.sites[i]
        for p in range(site.shape[0]):
            natural[p] += site[p]
    for k in range(state.family.natural.shape[0]):
        load_slot(state.family, k)


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


class CorrectedSeriesCollapse(SeriesCollapse):
    """Corrected collapse: labels proposed by sites, accepted exactly.

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

    def _rebuild(self, z: np.ndarray) -> None:
        rebuild_sites(self.state, z)

    def _grown_state(self, n_slots: int) -> CorrectedSeries:
        model, family = grown(self.state.model, n_slots), grown(self.state.family, n_slots)
        return corrected_state(model, family, self.state.counters)

    def events(self) -> dict[str, float]:
        """Proposals of another label or sign, those accepted, exact evidences computed."""
        proposed, accepted, computed = (int(c) for c in self.state.counters)
        return {
            "labels_proposed": proposed,
            "labels_accepted": accepted,
            "exact_evidences": computed,
        }
