"""How often EP computes the site of an observation that stays: skipped exactly, set once."""

from __future__ import annotations

import numpy as np
import pytest
from builders import student_t_collapse

from cavity.collapse.ep import EVERY, FOUND, SWEEPS
from cavity.mcmc.chain import PartitionSampler
from cavity.priors.cluster import NIWPrior
from cavity.priors.partition import dirichlet

N, K = 60, 3
NIW = NIWPrior(np.zeros(2), 0.05, 5.0, np.eye(2))


def chain(centres, rng, **options):
    """Three groups of twenty, each begun in a cluster of its own."""
    z = np.repeat(np.arange(K), N // K)
    y = rng.standard_normal((N, 2)) + np.array(centres)[z, None]
    parts = student_t_collapse(y, NIW, K, "ep", 5.0, staleness_every=0, **options)
    return PartitionSampler(parts, dirichlet(K), z, rng)


def test_where_nobody_moves_and_no_site_is_due_nothing_changes():
    rng = np.random.default_rng(0)
    sampler = chain((-50.0, 0.0, 50.0), rng, refresh_every=10**12)
    state = sampler.collapse.state
    # The first sweep's turn is the first observation's; later ones' is nobody's.
    state.pace[SWEEPS] = 1
    kept = type(state.family)._fields[:-2]  # the last two are scratch
    slots = {name: getattr(state.family, name).copy() for name in kept}
    sites = state.sites.copy()
    updates = sampler.events()["updates"]
    sampler.sweep(rng)
    np.testing.assert_array_equal(sampler.labels(), np.repeat(np.arange(K), N // K))
    assert sampler.events()["updates"] == updates
    np.testing.assert_array_equal(state.sites, sites)
    for name, old in slots.items():
        np.testing.assert_array_equal(getattr(state.family, name), old)


@pytest.mark.parametrize("every", [1, 4])
def test_every_site_gets_its_turn(every):
    """Far apart clusters: in m sweeps each site is computed once."""
    rng = np.random.default_rng(1)
    sampler = chain((-50.0, 0.0, 50.0), rng, refresh_every=every)
    before = sampler.events()["updates"]
    for _ in range(4):
        sampler.sweep(rng)
    assert sampler.events()["updates"] - before == 4 * N / every
    assert sampler.events()["sites_refreshed_every"] == every


def test_slots_are_what_the_sites_say_while_labels_move():
    rng = np.random.default_rng(2)
    sampler = chain((-1.0, 0.0, 1.0), rng, refresh_every=8)
    for _ in range(25):
        sampler.sweep(rng)
    q = sampler.collapse.state.family
    total = np.tile(q.prior, (sampler.n_slots, 1))
    np.add.at(total, sampler.labels(), sampler.collapse.state.sites)
    np.testing.assert_allclose(q.natural, total, rtol=1e-10, atol=1e-10)


def paces(staleness, n_sweeps=120, **options):
    """The pace after every tenth sweep of eighty of warm-up and more, for given measurements."""
    rng = np.random.default_rng(3)
    sampler = chain((-50.0, 0.0, 50.0), rng, **options)
    collapse = sampler.collapse
    collapse.warm_up(80)
    measured = iter(staleness)
    collapse._divergences = lambda z, counts: np.where(counts > 0, next(measured) * counts, np.nan)
    seen = []
    for sweep in range(n_sweeps):
        sampler.sweep(rng)
        if (sweep + 1) % 10 == 0:
            seen.append(int(collapse.state.pace[EVERY]))
    assert next(measured, None) is None
    return seen, bool(collapse.state.pace[FOUND])


def test_the_pace_doubles_until_the_sites_are_stale_and_is_then_frozen():
    # Fresh sites are 1e-4 stale a member: 4e-4 is the most that is allowed.
    fine, found = paces([1e-4, 1e-4, 3e-4, 3e-4, 3e-4, 3e-4, 3e-4])
    assert fine == [1, 1, 2, 4, 8, 8, 8, 8, 8, 8, 8, 8]  # a stage of ten sweeps has room for 8
    assert not found
    stale, found = paces([1e-4, 1e-4, 3e-4, 5e-4])
    assert stale == [1, 1, 2, 4, 2, 2, 2, 2, 2, 2, 2, 2]
    assert found
    assert paces([1e-4, 1e-4, 5e-4])[0][-1] == 1


def test_a_pace_that_was_given_stays():
    assert paces([], refresh_every=3) == ([3] * 12, False)
