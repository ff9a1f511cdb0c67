"""Approximate collapse by expectation propagation: one site per observation.

Slot k of the family is the prior times the sites of cluster k's members. Taking a site out gives
the *cavity*; a model scores an observation against it (``evidence``) and ``project`` gives the
family member nearest to cavity times likelihood, whose ratio to the cavity is the new site.

A difference of natural parameters need not be a distribution. When a cavity is improper, the
sites of that cluster are refitted: set flat, then inserted one after the other, which only ever
projects proper distributions. Every such event is counted.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Set
from typing import Any, NamedTuple

import numpy as np

from cavity.collapse.driver import Driver
from cavity.core.arrays import copied, declare, fitting, saved_array
from cavity.core.compile import compiled, jit
from cavity.families.common import load_slot, to_prior
from cavity.updates import CLUSTER_PRIOR
from cavity.verbs import (
    choose,
    divergence,
    evidence,
    insert,
    load,
    log_partition,
    pick,
    project,
    remove,
)

# Places in the array of counters.
UPDATES, INVALID, REFITTED, LIMITED = 0, 1, 2, 3


class EP(NamedTuple):
    """State of the approximate collapse."""

    model: Any
    family: Any
    sites: np.ndarray  # (n, P)
    fraction: float  # power EP; 1 is plain EP
    damping: float  # 1 is undamped
    scores: np.ndarray  # (slots,)
    mass: np.ndarray  # (slots,)
    visited: np.ndarray  # (slots,)
    kept: np.ndarray  # (3, P)
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
        fraction=float(fraction),
        damping=float(damping),
        scores=np.zeros(n_slots),
        mass=np.zeros(n_slots),
        visited=np.zeros(n_slots, dtype=np.int64),
        kept=np.zeros((3, width)),
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
    """``_add_site`` as a call, for rare use: the sweep has the only copy in line."""
    _add_site(state, i, k)


@jit(internal=True)
def refit(state, z, k, without):
    """Set cluster k's sites flat and insert its members again, all but `without`."""
    to_prior(state.family, k)
    state.counters[INVALID] += 1
    for j in range(z.shape[0]):
        if z[j] == k and j != without:
            add_site(state, j, k)
            state.counters[REFITTED] += 1


@jit(internal=True)
def _refresh_single(state, z, i, k):
    """Project the only member of cluster k beside observation i onto the prior."""
    to_prior(state.family, k)
    for j in range(z.shape[0]):
        if z[j] == k and j != i:
            add_site(state, j, k)
            break


@remove.register(EP)
def _(state, z, counts, i, k):
    q = state.family
    if counts[k] == 0:
        to_prior(q, k)
        return
    if counts[k] == 1 and state.fraction == 1.0 and state.damping == 1.0:
        # One member is left behind. Its site made from the prior is EP's fixed point and always
        # proper; made beside another member, it is the commonest cause of an improper cavity.
        _refresh_single(state, z, i, k)
        return
    natural, site = q.natural[k], state.sites[i]
    for p in range(natural.shape[0]):
        natural[p] -= site[p]
    if not load(q, k):
        refit(state, z, k, i)


@choose.register(EP)
def _(state, i, weights, rng):
    return pick(state.model, state.family, i, weights, state.scores, state.mass, state.visited, rng)


@insert.register(EP)
def _(state, i, k):
    _add_site(state, i, k)


def rebuild(q, sites, z, improper):
    """Sum prior and sites afresh: keeps the rounding of many additions from piling up.

    A site kept in single precision, a sum that had drifted or a prior that has become tighter may
    leave a slot improper; such slots are marked, and their number is returned.
    """
    natural, prior = q.natural, q.prior
    n_slots, width = natural.shape
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


def insert_members(state, z, order, chosen):
    """Set the chosen slots to the prior and project their members in, in the given order."""
    for k in range(chosen.shape[0]):
        if chosen[k]:
            to_prior(state.family, k)
    for position in range(order.shape[0]):
        i = np.int64(order[position])
        home = np.int64(z[i])
        if chosen[home]:
            add_site(state, i, home)


def full_pass(state, z, counts, order):
    """One pass of ordinary EP at a fixed partition; returns the largest change of a site.

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
    """EP's approximation of the log marginal likelihood of the data given the partition.

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


def staleness(q, converged, counts):
    """Mean over occupied clusters of KL(converged, q): how far the running sites have fallen."""
    total = 0.0
    n_clusters = 0
    for k in range(counts.shape[0]):
        if counts[k] > 0:
            total += divergence(converged, k, q, k)
            n_clusters += 1
    return total / max(n_clusters, 1) if n_clusters else math.nan


class EPCollapse(Driver):
    """Drives the approximate collapse of one chain: start, refresh after a sweep, diagnose.

    Parameters
    ----------
    model, family, parameters : NamedTuple
        The likelihood with its data, the approximating family with every slot at its prior, and
        room for one draw of every cluster's parameters.
    fraction, damping : float
        Power-EP fraction and damping of site updates; 1 is plain EP.
    pass_every, pass_tolerance, max_passes : int, float, int
        Full EP passes every so many sweeps (0: never), until no site changes by more than the
        tolerance, relatively, and at most so many.
    staleness_every : int
        Every so many sweeps a copy is run to convergence and the divergence of the running
        approximation from it is recorded. The chain itself is not changed.
    site_type : type
        Floating-point type of the stored sites.
    """

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
        site_type: type = np.float64,
    ) -> None:
        state = ep_state(model, family, n, fraction, damping, site_type)
        super().__init__(state, parameters=parameters)
        self.pass_every = pass_every
        self.pass_tolerance = pass_tolerance
        self.max_passes = max_passes
        self.staleness_every = staleness_every
        self.history = np.zeros(3)  # sweeps, sum of staleness, number of times measured

    def start(self, z: np.ndarray, counts: np.ndarray, rng: np.random.Generator) -> None:
        """Insert every observation into its cluster."""
        self._insert(z, rng.permutation(z.size), np.ones(counts.size, dtype=bool))

    def settle(self, z: np.ndarray, counts: np.ndarray) -> None:
        """After a sweep: clean sums, full passes and diagnosis when due."""
        self._rebuild(z, counts)
        self.history[0] += 1
        if self.pass_every and self.history[0] % self.pass_every == 0:
            self._converge(self.state, z, counts)
        if self.staleness_every and self.history[0] % self.staleness_every == 0:
            self.history[1] += self.staleness(z, counts)
            self.history[2] += 1

    def renew(
        self, z: np.ndarray, counts: np.ndarray, changed: Set[str], rng: np.random.Generator
    ) -> None:
        """Clusters under a new prior; the sites stay."""
        if CLUSTER_PRIOR in changed:
            self._rebuild(z, counts)

    def _rebuild(self, z: np.ndarray, counts: np.ndarray) -> None:
        improper = np.zeros(counts.size, dtype=bool)
        n_improper = compiled(rebuild, self.state)(self.state.family, self.state.sites, z, improper)
        if n_improper:
            self._insert(z, np.arange(z.size), improper)
            self.state.counters[INVALID] += n_improper
            self.state.counters[REFITTED] += counts[improper].sum()

    def _insert(self, z: np.ndarray, order: np.ndarray, chosen: np.ndarray) -> None:
        compiled(insert_members, self.state)(self.state, z, order, chosen)

    def _converge(self, state: EP, z: np.ndarray, counts: np.ndarray) -> None:
        order = np.arange(z.size)
        for _ in range(self.max_passes):
            if compiled(full_pass, state)(state, z, counts, order) < self.pass_tolerance:
                break

    def staleness(self, z: np.ndarray, counts: np.ndarray) -> float:
        """Mean divergence of the clusters' running approximations from converged ones."""
        other = copied(self.state)
        self._converge(other, z, counts)
        return float(compiled(staleness, self.state)(self.state.family, other.family, counts))

    def log_evidence(self, z: np.ndarray, counts: np.ndarray) -> float:
        """EP's log evidence of the partition."""
        return float(compiled(log_evidence, self.state)(self.state, z, counts))

    def events(self) -> dict[str, float]:
        """Counts of numerical events, and the mean staleness where it was measured."""
        updates, invalid, refitted, limited = (int(c) for c in self.state.counters)
        out: dict[str, float] = {
            "updates": updates,
            "invalid_cavities": invalid,
            "refitted_sites": refitted,
            "limited_sites": limited,
        }
        if self.history[2]:
            out["staleness_kl"] = float(self.history[1] / self.history[2])
        return out

    def arrays(self) -> dict[str, np.ndarray]:
        """Everything that changes, for a checkpoint."""
        return {**super().arrays(), "history": self.history.copy()}

    def restore(self, arrays: Mapping[str, np.ndarray], n_slots: int, z: np.ndarray) -> None:
        """Continue from ``arrays`` of a state with `n_slots` slots and assignments z."""
        super().restore(arrays, n_slots, z)
        self.history = fitting(saved_array(arrays, "history"), self.history, "history")
