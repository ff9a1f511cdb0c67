"""Corrected collapse: labels are proposed by a cheap score and accepted by exact evidence.

A series' label, and the sign of its loading, are proposed by the sites of its cluster's other
members and accepted by the exact evidence, factors and states
integrated out (Metropolis-Hastings). The proposal has probability

    q(k, sign) = (1 - e) w_k s(k, sign) / sum  +  e / number of (k, sign) allowed

with w the prior's weights, s the score, e = `UNIFORM`. It depends on the labels and signs of the
other series, on data and parameters, but neither on the series' own label nor on the history of the
chain. A proposal of the current state costs nothing more. Any other costs two exact evidences: of
the cluster without the series, and of the cluster with it. Those of unchanged clusters are cached.

Moves of many labels allocate by the same sites. What they accept is confirmed by exact evidence, a
second stage of acceptance.

Sites. Given a and the variances, the information J of a completely observed series is nearly
diagonal in the cosines of the DCT-IV, whatever its a: its inverse is tridiagonal with constant
diagonals but for the ends. A *site* is the diagonal Gaussian in these coordinates that has the
moments of the series' likelihood times N(0, v I), divided by the latter. It depends on the series'
own data and parameters alone. A cluster is the prior times the sites of its members, and sites
multiply in any order.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from cavity._numba.arrays import declare, grown
from cavity._numba.jit import jit, wide_vectors
from cavity._numba.numerics import fast_exp
from cavity._numba.simd import WIDTH, load8, splat8, store8, whole_vectors
from cavity.conjugate.common import load_slot, to_prior
from cavity.conjugate.diagonal_normal import DiagonalNormal
from cavity.interface import (
    choose,
    complete,
    confirm,
    evidence,
    insert,
    note,
    recall,
    remove,
)
from cavity.series.cluster_information import describe, describe_against, information_matrix
from cavity.series.exact import (
    EvidenceWorkspace,
    SeriesCollapse,
    add_to_slot,
    cluster_evidence,
    evidence_workspace,
    group_evidence,
    remove_from_slot,
)
from cavity.series.likelihood import both_signs, sign_pull
from cavity.series.state_space import DIAGONAL, PHI, SLOPE, FactorSeries

# Variance of the factor against which a site has the right moments: between the prior's, 1, and
# that of a factor which many series have shown. Measured: docs/studies.md.
REFERENCE = 0.3


class SpectralSeries(NamedTuple):
    """The series with their sites, as moves of many labels and the scan's proposals see them."""

    series: FactorSeries
    basis: np.ndarray  # (T, padded T) cosines, a frequency per column
    sites: np.ndarray  # (n, 2 T) precisions, then shifts, by frequency
    most: np.ndarray  # (n,) largest precision of a site


declare(SpectralSeries, slots={}, constant=("basis", "sites", "most"))


def spectral_series(series: FactorSeries) -> SpectralSeries:
    """Series whose sites are still to be found."""
    n, n_times = series.cells.y.shape
    return SpectralSeries(series, cosines(n_times), np.zeros((n, 2 * n_times)), np.zeros(n))


def cosines(n_times: int) -> np.ndarray:
    """Orthonormal cosines of the DCT-IV, a frequency per column, in whole vectors of columns."""
    half = np.arange(n_times) + 0.5
    out = np.zeros((n_times, whole_vectors(n_times)))
    out[:, :n_times] = math.sqrt(2.0 / n_times) * np.cos(np.pi / n_times * np.outer(half, half))
    return out


@jit
def find_site(m, i):
    """Fill the site of series i from its data and parameters.

    With M the information matrix of a filter whose process variance has v loading^2 added, and r
    its smoothed disturbances, the posterior of the factor under N(0, v I) has covariance
    v I - v^2 M and mean v r: the site's precision is M_ff / (1 - v M_ff), its shift r_f over the
    same.
    """
    wide_vectors()
    row = m.series.scratch.row
    describe_against(m.series, row, i, REFERENCE)
    phi = row[PHI]
    diagonal = row[DIAGONAL]
    slope = row[SLOPE]
    n_times, stride = m.basis.shape
    flat = m.basis.reshape(m.basis.size)
    site = m.sites[i]
    b = m.series.own.loading[i]
    # 1 - v M_ff is at least what it is when nothing but the factor's share is unknown.
    least = m.series.own.var_x[0] / (m.series.own.var_x[0] + b * b * REFERENCE)
    room = m.series.scratch.lanes.reshape(m.series.scratch.lanes.size)
    most = 0.0
    for f in range(0, n_times, WIDTH):
        before = splat8(0.0)
        matrix = splat8(0.0)
        shift = splat8(0.0)
        for t in range(n_times):
            here = load8(flat, t * stride + f)
            matrix = matrix + splat8(diagonal[t]) * here * (here + 2.0 * before)
            shift = shift + splat8(slope[t]) * here
            before = splat8(phi[t]) * (before + here)
        store8(room, 0, matrix)
        store8(room, WIDTH, shift)
        for j in range(min(WIDTH, n_times - f)):
            known = max(room[j], 0.0)
            left = max(1.0 - REFERENCE * known, least)
            site[f + j] = known / left
            site[n_times + f + j] = room[WIDTH + j] / left
            most = max(most, site[f + j])
    m.most[i] = most


@jit(internal=True)
def turn_series(m, i):
    """Turn the sign of series i's loading, and its site with it."""
    m.series.own.loading[i] = -m.series.own.loading[i]
    n_times = m.basis.shape[0]
    for f in range(n_times, 2 * n_times):
        m.sites[i, f] = -m.sites[i, f]


@jit(internal=True)
def _log_each(n_terms, most):
    """Return how many factors 1 + precision may be multiplied before taking the logarithm."""
    growth = math.log1p(most)
    return n_terms if growth * n_terms < 600.0 else max(1, int(600.0 / growth))


@jit(internal=True)
def score_slots(m, q, i, out):
    """Log evidence of series i's site in every slot, and with the loading turned.

    With mean mu and variance v of the slot and the site's precision d and shift h, by frequency,
    half of the sum of (v h^2 - d mu^2 + 2 h mu) / (1 + d v) - log(1 + d v).
    """
    wide_vectors()
    site = m.sites[i]
    n_times, slots = q.mean.shape
    means = q.mean.reshape(q.mean.size)
    variances = q.variance.reshape(q.variance.size)
    room = m.series.scratch.lanes.reshape(m.series.scratch.lanes.size)
    length = _log_each(n_times, m.most[i])
    used = -(-out.shape[1] // WIDTH) * WIDTH
    for k in range(0, used, WIDTH):
        for j in range(WIDTH):
            room[2 * WIDTH + j] = 0.0
        even = splat8(0.0)
        odd = splat8(0.0)
        for start in range(0, n_times, length):
            product = splat8(1.0)
            for f in range(start, min(start + length, n_times)):
                d = splat8(site[f])
                h = splat8(site[n_times + f])
                mean = load8(means, f * slots + k)
                variance = load8(variances, f * slots + k)
                here = 1.0 + d * variance
                inverse = splat8(1.0) / here
                product = product * here
                even = even + (h * h * variance - d * mean * mean) * inverse
                odd = odd + h * mean * inverse
            store8(room, 0, product)
            for j in range(WIDTH):
                room[2 * WIDTH + j] += math.log(room[j])
        store8(room, 0, even)
        store8(room, WIDTH, odd)
        for j in range(min(WIDTH, out.shape[1] - k)):
            common = 0.5 * (room[j] - room[2 * WIDTH + j])
            out[0, k + j] = common + room[WIDTH + j]
            out[1, k + j] = common - room[WIDTH + j]


@jit
def score_slot(m, q, k, i, inside):
    """Score one slot; with `inside` the series is a member and is scored by the others."""
    n_times = m.basis.shape[0]
    natural = q.natural[k]
    site = m.sites[i]
    away = 1.0 if inside else 0.0
    even = 0.0
    odd = 0.0
    log_det = 0.0
    product = 1.0
    for f in range(n_times):
        d = site[f]
        h = site[n_times + f]
        p = natural[f] - away * d
        pull = natural[n_times + f] - away * h
        more = p + d
        inverse = 1.0 / (p * more)
        even += (h * h * p - pull * pull * d) * inverse
        odd += h * pull * p * inverse
        product *= more * more * inverse
        if product > 1e200:
            log_det += math.log(product)
            product = 1.0
    common = 0.5 * (even - log_det - math.log(product))
    return common + odd, common - odd


@evidence.register(SpectralSeries)
def _(model, q, k, i):
    here, turned = score_slot(model, q, k, i, False)
    return both_signs(model.series, i, here, turned)


@complete.register(SpectralSeries)
def _(model, q, k, i, rng):
    if model.series.own.free_signs:
        here, turned = score_slot(model, q, k, i, False)
        ratio = math.exp(min(here - turned + 2.0 * sign_pull(model.series, i), 700.0))
        if rng.random() * (1.0 + ratio) < 1.0:
            turn_series(model, i)


# ---------------------------------------------------------------------- the collapse

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
    information: np.ndarray  # (slots, T + 2, T + 2 padded)
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
    return CorrectedSeries(
        model=model,
        family=family,
        room=evidence_workspace(model.series),
        home=np.full(n, -1, dtype=np.int64),
        present=np.array([-1]),
        information=information_matrix(n_times, n_slots),
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
    """Return whether a label or a sign has changed; otherwise the evidence has not."""
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
