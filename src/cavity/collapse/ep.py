"""Approximate collapse by expectation propagation: one site per observation.

Slot k of the family is the prior times the sites of cluster k's members. Taking a site out gives
the *cavity*; a model scores an observation against it (``evidence``) and ``project`` gives the
family member nearest to cavity times likelihood, whose ratio to the cavity is the new site.

The site of an observation that stays in its cluster is recomputed only every m-th sweep; on
the others its cluster is put back as it was. Warm-up sets m by how stale the sites become, and it
is frozen then (`EPCollapse`).

A difference of natural parameters need not be a distribution. When a cavity is improper, the
sites of that cluster are refitted: set flat, then inserted one after the other, which only ever
projects proper distributions. Every such event is counted.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Set
from typing import Any, NamedTuple

import numpy as np

from cavity._numba.arrays import copied, declare, fitting, saved_array
from cavity._numba.jit import jit
from cavity.collapse.driver import CollapsedState
from cavity.conjugate.common import draw_slots, load_slot, to_prior
from cavity.interface import (
    choose,
    divergence,
    draw_parameters,
    evidence,
    hold,
    insert,
    load,
    log_partition,
    note,
    pick,
    project,
    put_back,
    recall,
    refresh,
    remove,
    tidy,
)
from cavity.updates import CLUSTER_PRIOR

# Indices in the array of counters.
UPDATES, INVALID, REFITTED, LIMITED = 0, 1, 2, 3
# Indices in the array of the pace: sweeps done; the interval at which the site of an observation
# that stays is recomputed; the slot held while one is visited, or -1; whether warm-up has found
# the second of these.
SWEEPS, EVERY, HELD, FOUND = 0, 1, 2, 3
# Interval in sweeps at which sums of sites are recomputed.
REBUILT_EVERY = 10
# Stages of warm-up, after which of them the staleness of fresh sites is measured, how much more
# than twice that is allowed, in nats per member, and the most sweeps between two site updates. A
# cluster of n members that is n times the slack off in nats is off by a fiftieth of the deviation
# that one member has in it, whatever n is, and scores by about as much.
STAGES, BASE_STAGES, SLACK, MOST_EVERY = 8, (2, 3), 2e-4, 16
# Full passes of the copy that staleness is measured against.
STALENESS_TOLERANCE = 1e-3


class EP(NamedTuple):
    """State of the approximate collapse."""

    model: Any
    family: Any
    sites: np.ndarray  # (n, P)
    under: np.ndarray  # (P,), the prior that the slots are made with
    fraction: float  # power EP; 1 is plain EP
    damping: float  # 1 is undamped
    scores: np.ndarray  # (slots,)
    mass: np.ndarray  # (slots,)
    visited: np.ndarray  # (slots,)
    kept: np.ndarray  # (3, P)
    held: np.ndarray  # (2, P), a slot as it was before an observation was taken out
    pace: np.ndarray  # (4,)
    counters: np.ndarray  # (4,)


declare(EP, slots={"scores": 0, "mass": 0, "visited": 0})


def ep_state(
    model: Any,
    family: Any,
    n: int,
    fraction: float = 1.0,
    damping: float = 1.0,
    site_type: type = np.float64,
) -> EP:
    """State with flat sites and every slot at its prior."""
    n_slots, width = family.natural.shape
    return EP(
        model=model,
        family=family,
        sites=np.zeros((n, width), dtype=site_type),
        under=family.prior.copy(),
        fraction=float(fraction),
        damping=float(damping),
        scores=np.zeros(n_slots),
        mass=np.zeros(n_slots),
        visited=np.zeros(n_slots, dtype=np.int64),
        kept=np.zeros((3, width)),
        held=np.zeros((2, width)),
        pace=np.array([0, 1, -1, 0]),
        counters=np.zeros(4, dtype=np.int64),
    )


@jit(forceinline=True, internal=True)
def _add_site(state, i, k):
    """Project observation i into slot k, which holds its cavity, and store the new site."""
    q = state.family
    natural, site, counters = q.natural[k], state.sites[i], state.counters
    old, nearest = state.kept[0], state.kept[1]
    fraction, damping = state.fraction, state.damping
    width = natural.shape[0]
    for p in range(width):
        old[p] = natural[p]
    project(state.model, q, k, i, fraction)
    counters[UPDATES] += 1
    if fraction != 1.0 or damping != 1.0:
        step = damping / fraction
        for p in range(width):
            nearest[p] = natural[p]
            natural[p] = old[p] + step * (nearest[p] - old[p])
        if not load_slot(q, k):
            # Dividing by the fraction overshot: keep the fraction's own, proper, change.
            counters[LIMITED] += 1
            for p in range(width):
                natural[p] = nearest[p]
            load_slot(q, k)
    for p in range(width):
        site[p] = natural[p] - old[p]


@jit(internal=True)
def add_site(state, i, k):
    """Call ``_add_site`` without copying it into the caller; only the sweep inlines it."""
    _add_site(state, i, k)


@jit(internal=True)
def refit(state, z, k, without):
    """Reset cluster k's sites and insert its members again, except `without`."""
    to_prior(state.family, k)
    state.counters[INVALID] += 1
    for j in range(z.shape[0]):
        if z[j] == k and j != without:
            add_site(state, j, k)
            state.counters[REFITTED] += 1


@jit(internal=True)
def _refresh_single(state, z, i, k):
    """Project the only other member of cluster k onto the prior."""
    to_prior(state.family, k)
    for j in range(z.shape[0]):
        if z[j] == k and j != i:
            add_site(state, j, k)
            break


@remove.register(EP)
def _(state, z, counts, i, k):
    q, pace = state.family, state.pace
    pace[HELD] = -1
    if counts[k] == 0:
        to_prior(q, k)
        return
    if counts[k] == 1 and state.fraction == 1.0 and state.damping == 1.0:
        # One member is left behind. Its site made from the prior is EP's fixed point and always
        # proper; made beside another member, it is the commonest cause of an improper cavity.
        _refresh_single(state, z, i, k)
        return
    natural, site = q.natural[k], state.sites[i]
    if (i + pace[SWEEPS]) % pace[EVERY] != 0:
        hold(q, k, state.held)
        pace[HELD] = k
    for p in range(natural.shape[0]):
        natural[p] -= site[p]
    if not load(q, k):
        pace[HELD] = -1
        refit(state, z, k, i)


@choose.register(EP)
def _(state, i, weights, rng):
    return pick(state.model, state.family, i, weights, state.scores, state.mass, state.visited, rng)


@insert.register(EP)
def _(state, i, k):
    held = state.pace[HELD]
    state.pace[HELD] = -1
    if held == k:
        # It stays, and its site is not due: the slot is what it was.
        put_back(state.family, k, state.held)
    else:
        _add_site(state, i, k)


@note.register(EP)
def _(state, i, out):
    for p in range(out.shape[0]):
        out[p] = state.sites[i, p]


@recall.register(EP)
def _(state, i, values):
    for p in range(values.shape[0]):
        state.sites[i, p] = values[p]


def rebuild(state, z, improper):
    """Recompute the sums of prior and sites, which removes accumulated rounding errors.

    A site kept in single precision, a sum that had drifted or a prior that has become tighter may
    leave a slot improper; such slots are marked, and their number is returned.
    """
    q = state.family
    natural, prior, sites = q.natural, q.prior, state.sites
    n_slots, width = natural.shape
    for p in range(width):
        state.under[p] = prior[p]
    for k in range(n_slots):
        for p in range(width):
            natural[k, p] = prior[p]
    for i in range(z.shape[0]):
        for p in range(width):
            natural[z[i], p] += sites[i, p]
    count = 0
    for k in range(n_slots):
        improper[k] = not load_slot(q, k)
        count += improper[k]
    return count


rebuild_slots = jit(rebuild, internal=True)


@jit(internal=True)
def change_prior(state, counts, improper):
    """Update slots for a new prior with unchanged sites; improper ones as in ``rebuild``."""
    q = state.family
    under = state.under
    count = 0
    for k in range(counts.shape[0]):
        for p in range(under.shape[0]):
            if counts[k] > 0:
                q.natural[k, p] += q.prior[p] - under[p]
            else:
                q.natural[k, p] = q.prior[p]
        improper[k] = not load_slot(q, k)
        count += improper[k]
    for p in range(under.shape[0]):
        under[p] = q.prior[p]
    return count


def insert_members(state, z, order, chosen):
    """Set the chosen slots to the prior and insert their members by projection, in this order."""
    for k in range(chosen.shape[0]):
        if chosen[k]:
            to_prior(state.family, k)
    for position in range(order.shape[0]):
        i = np.int64(order[position])
        home = np.int64(z[i])
        if chosen[home]:
            add_site(state, i, home)


@jit(internal=True)
def _refit_marked(state, z, counts, count):
    """Refit the clusters marked in `visited`; `count` is their number."""
    if count == 0:
        return
    state.counters[INVALID] += count
    for k in range(counts.shape[0]):
        if state.visited[k] != 0:
            to_prior(state.family, k)
            state.counters[REFITTED] += counts[k]
    for i in range(z.shape[0]):
        home = np.int64(z[i])
        if state.visited[home] != 0:
            add_site(state, i, home)


@tidy.register(EP)
def _(state, z, counts):
    pace, sites = state.pace, state.sites
    pace[SWEEPS] += 1
    # Sites in single precision are not quite what was added to the sums. The first sweep is among
    # those that clean them, so that its kernel is compiled before any chain's clock runs.
    if sites.itemsize < 8 or pace[SWEEPS] % REBUILT_EVERY == 1:
        _refit_marked(state, z, counts, rebuild_slots(state, z, state.visited))


@draw_parameters.register(EP)
def _(state, beside, z, rng):
    # An update of the prior that comes before has brought the slots in line with it.
    for p in range(state.under.shape[0]):
        state.under[p] = state.family.prior[p]
    draw_slots(state.family, beside, 0, rng)


@refresh.register(EP)
def _(state, beside, z, counts, new_prior, rng):
    if new_prior:
        _refit_marked(state, z, counts, change_prior(state, counts, state.visited))


def tidy_alone(state, z, counts):
    """``tidy`` as an entry kernel."""
    tidy(state, z, counts)


def refresh_alone(state, z, counts, rng):
    """``refresh`` after a change of the prior, as an entry kernel."""
    refresh(state, state.family, z, counts, True, rng)


def full_pass(state, z, counts, order):
    """Run one pass of EP at a fixed partition; return the largest change of a site.

    The change is relative to the natural parameters of the site's cluster. A site whose cavity
    is improper is left alone in this pass.
    """
    q = state.family
    sites, counters, kept, prior = state.sites, state.counters, state.kept[2], q.prior
    fraction, damping = state.fraction, state.damping
    width = prior.shape[0]
    largest = 0.0
    for position in range(order.shape[0]):
        i = np.int64(order[position])
        k = np.int64(z[i])
        natural, site = q.natural[k], sites[i]
        alone = counts[k] == 1 and fraction == 1.0
        for p in range(width):
            kept[p] = natural[p]
            natural[p] = prior[p] if alone else kept[p] - fraction * site[p]
        if not load_slot(q, k):
            for p in range(width):
                natural[p] = kept[p]
            load_slot(q, k)
            continue
        project(state.model, q, k, i, fraction)
        counters[UPDATES] += 1
        change = 0.0
        size = 0.0
        for p in range(width):
            # New minus old natural parameters are fraction times the change of the site.
            difference = (natural[p] - kept[p]) / fraction * damping
            change += abs(difference)
            size += abs(kept[p])
            site[p] += difference
            natural[p] = kept[p] + difference
        if (fraction != 1.0 or damping != 1.0) and not load_slot(q, k):
            counters[LIMITED] += 1
            for p in range(width):
                site[p] -= natural[p] - kept[p]
                natural[p] = kept[p]
            load_slot(q, k)
            continue
        largest = max(largest, change / size)
    return largest


def log_evidence(state, z, counts):
    """Return EP's log marginal likelihood of the data given the partition.

    log Z = sum over clusters of A(q) - A(prior), plus for every site
    log Z_i + A(cavity_i) - A(q); a site with an improper cavity contributes its evidence under
    the full approximation.
    """
    q = state.family
    sites, kept, full, prior = state.sites, state.kept[0], state.scores, q.prior
    n_slots, width = q.natural.shape
    natural = q.natural[0]
    for p in range(width):
        kept[p] = natural[p]
        natural[p] = prior[p]
    load_slot(q, 0)
    prior_term = log_partition(q, 0)
    for p in range(width):
        natural[p] = kept[p]
    load_slot(q, 0)
    total = 0.0
    for slot in range(n_slots):
        full[slot] = log_partition(q, slot)
        if counts[slot] > 0:
            total += full[slot] - prior_term
    for i in range(z.shape[0]):
        k = np.int64(z[i])
        natural = q.natural[k]
        for p in range(width):
            kept[p] = natural[p]
            natural[p] = prior[p] if counts[k] == 1 else kept[p] - sites[i, p]
        proper = load_slot(q, k)
        if proper:
            total += log_partition(q, k) - full[k]
        else:
            for p in range(width):
                natural[p] = kept[p]
            load_slot(q, k)
        total += evidence(state.model, q, k, i)
        for p in range(width):
            natural[p] = kept[p]
        load_slot(q, k)
    return total


def divergences(state, other, counts, out):
    """Return KL(other, state) of every occupied cluster: the staleness of its sites."""
    for k in range(counts.shape[0]):
        out[k] = divergence(other.family, k, state.family, k) if counts[k] > 0 else math.nan


class EPCollapse(CollapsedState):
    """Approximate collapse of one chain by EP.

    Parameters
    ----------
    model, family, parameters : NamedTuple
        The likelihood with its data, the approximating family with every slot at its prior, and
        storage for one draw of every cluster's parameters.
    fraction, damping : float
        Power-EP fraction and damping of site updates; 1 is plain EP.
    pass_every, pass_tolerance, max_passes : int, float, int
        Interval of full EP passes in sweeps (0: never), which run until no site changes by more
        than the relative tolerance, and their largest number.
    staleness_every : int
        Every so many sweeps a copy is run to convergence and the divergence of the running
        approximation from it is recorded. The chain itself is not changed.
    refresh_every : int, optional
        Interval in sweeps at which the site of an observation that stays is recomputed. By default
        warm-up finds it: staleness is measured after every eighth of it but the first. After
        three of them with every site fresh the number doubles, up to 16 and to the sweeps of a
        stage, until staleness, in nats per member and the median over clusters, exceeds twice the
        mean of the first two measurements by more than 0.0002; the last number that did not is
        kept from there on. A chain without a warm-up keeps every site fresh.
    site_type : type
        Floating-point type of the stored sites.
    """

    in_kernels = True

    def __init__(
        self,
        model: Any,
        family: Any,
        parameters: Any,
        *,
        n: int,
        fraction: float = 1.0,
        damping: float = 1.0,
        pass_every: int = 0,
        pass_tolerance: float = 1e-6,
        max_passes: int = 20,
        staleness_every: int = 100,
        refresh_every: int | None = None,
        site_type: type = np.float64,
    ) -> None:
        state = ep_state(model, family, n, fraction, damping, site_type)
        super().__init__(state, parameters=parameters)
        self.pass_every = pass_every
        self.pass_tolerance = pass_tolerance
        self.max_passes = max_passes
        self.staleness_every = staleness_every
        # Sum of staleness and number of times measured; the same of fresh sites in warm-up.
        self.history = np.zeros(4)
        self._find_pace = refresh_every is None
        self._stage = 0
        if refresh_every is not None:
            state.pace[EVERY] = min(refresh_every, 2**31)

    def warm_up(self, n_sweeps: int) -> None:
        """Set the number of sweeps in which the refresh interval is chosen."""
        if self._find_pace:
            self._stage = n_sweeps // STAGES

    @property
    def own_width(self) -> int:
        """Numbers in a site."""
        return int(self.state.sites.shape[1])

    def start(self, z: np.ndarray, counts: np.ndarray, rng: np.random.Generator) -> None:
        """Insert every observation into its cluster."""
        self._insert(z, rng.permutation(z.size), np.ones(counts.size, dtype=bool))

    def settle(self, z: np.ndarray, counts: np.ndarray) -> None:
        """Recompute sums after a sweep if due."""
        self._kernels.run(tidy_alone, self.state, z, counts)

    def until_diagnosis(self) -> int:
        """Return the number of sweeps until full passes or diagnostics are due."""
        n_sweeps = int(self.state.pace[SWEEPS])
        periods = self.pass_every, self._stage, self.staleness_every
        return min((p - n_sweeps % p for p in periods if p), default=0)

    def diagnose(self, z: np.ndarray, counts: np.ndarray) -> None:
        """Run full passes and diagnostics if due."""
        pace = self.state.pace
        n_sweeps = int(pace[SWEEPS])
        if self.pass_every and n_sweeps % self.pass_every == 0:
            self._converge(self.state, z, counts, self.pass_tolerance)
        stage, rest = divmod(n_sweeps, self._stage) if self._stage else (0, 1)
        if rest == 0 and 1 < stage <= STAGES and not pace[FOUND]:
            per_member = self._divergences(z, counts) / np.maximum(counts, 1)
            self._set_pace(stage, float(np.nanmedian(per_member)))
        elif self.staleness_every and n_sweeps % self.staleness_every == 0:
            self.history[:2] += self.staleness(z, counts), 1.0

    def _set_pace(self, stage: int, stale: float) -> None:
        """Set the refresh interval of the next warm-up stage from the staleness of the last."""
        pace = self.state.pace
        if stage in BASE_STAGES:
            self.history[2:] += stale, 1.0
        elif stale > 2.0 * self.history[2] / self.history[3] + SLACK:
            pace[EVERY] //= 2
            pace[FOUND] = 1
            return
        most = min(self._stage, MOST_EVERY)
        if BASE_STAGES[-1] <= stage < STAGES and 2 * pace[EVERY] <= most:
            pace[EVERY] *= 2

    def renew(
        self, z: np.ndarray, counts: np.ndarray, changed: Set[str], rng: np.random.Generator
    ) -> None:
        """Update clusters for a new prior with unchanged sites."""
        if CLUSTER_PRIOR in changed:
            self._kernels.run(refresh_alone, self.state, z, counts, rng)

    def draw_parameters(self, z: np.ndarray, rng: np.random.Generator) -> None:
        """Draw the parameters of every slot."""
        self.state.under[:] = self.family.prior
        super().draw_parameters(z, rng)

    def _insert(self, z: np.ndarray, order: np.ndarray, chosen: np.ndarray) -> None:
        self._kernels.run(insert_members, self.state, z, order, chosen)

    def _converge(self, state: EP, z: np.ndarray, counts: np.ndarray, tolerance: float) -> None:
        order = np.arange(z.size)
        for _ in range(self.max_passes):
            if self._kernels.run(full_pass, state, z, counts, order) < tolerance:
                break

    def staleness(self, z: np.ndarray, counts: np.ndarray) -> float:
        """Mean divergence of the clusters' running approximations from converged ones."""
        return float(np.nanmean(self._divergences(z, counts)))

    def _divergences(self, z: np.ndarray, counts: np.ndarray) -> np.ndarray:
        other = copied(self.state)
        self._converge(other, z, counts, STALENESS_TOLERANCE)
        out = np.empty(counts.size)
        self._kernels.run(divergences, self.state, other, counts, out)
        return out

    def log_evidence(self, z: np.ndarray, counts: np.ndarray) -> float:
        """EP's log evidence of the partition."""
        return float(self._kernels.run(log_evidence, self.state, z, counts))

    def events(self) -> dict[str, float]:
        """Counts of numerical events, and the mean staleness where it was measured."""
        updates, invalid, refitted, limited = (int(c) for c in self.state.counters)
        out: dict[str, float] = {
            "updates": updates,
            "invalid_cavities": invalid,
            "refitted_sites": refitted,
            "limited_sites": limited,
        }
        if self.history[1]:
            out["staleness_kl"] = float(self.history[0] / self.history[1])
        out["sites_refreshed_every"] = int(self.state.pace[EVERY])
        return out

    def arrays(self) -> dict[str, np.ndarray]:
        """Return everything that changes, for a checkpoint."""
        return {**super().arrays(), "history": self.history.copy()}

    def restore(self, arrays: Mapping[str, np.ndarray], n_slots: int, z: np.ndarray) -> None:
        """Continue from ``arrays`` of a state with `n_slots` slots and assignments z."""
        super().restore(arrays, n_slots, z)
        self.history = fitting(saved_array(arrays, "history"), self.history, "history")
