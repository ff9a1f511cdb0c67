"""Improper cavities on hard data: rare, counted, and every one resolved."""

from __future__ import annotations

import numpy as np
import pytest

from cavity import StudentTMixture
from cavity.datasets import make_student_t

N, K, SLOTS = 600, 20, 24


def run(separation, seed, n_sweeps=150):
    """The estimator's own EP sampler, started from random labels."""
    y, _ = make_student_t(N, K, 2, 5.0, separation, random_state=seed)
    y = np.ascontiguousarray((y - y.mean(axis=0)) / y.std(axis=0))
    rng = np.random.default_rng(seed)
    plan = StudentTMixture(n_clusters=K, collapse="ep").check(y).plan
    sampler = plan.sampler(plan.assemble(SLOTS), rng.integers(0, K, N), rng)
    moved = np.zeros(N, dtype=bool)
    before = sampler.labels().copy()
    for _ in range(n_sweeps):
        sampler.sweep(rng)
        moved |= sampler.labels() != before
    return sampler, moved


@pytest.mark.variants("exact", "medium")
@pytest.mark.parametrize("separation", ["hard", "medium", "easy"])
def test_rate_on_the_hard_case(separation, record_property):
    """Twenty clusters of thirty points, default settings, all labels random at the start."""
    updates = invalid = 0.0
    for seed in range(3):
        sampler, moved = run(separation, seed)
        events = sampler.events()
        updates += events["updates"]
        invalid += events["invalid_cavities"]
        q = sampler.collapse.state.family
        for name in ("natural", "kappa", "nu", "mean", "whiten", "half_log_det"):
            assert np.all(np.isfinite(getattr(q, name))), name
        assert np.isfinite(sampler.log_joint())
        assert np.all(sampler.counts >= 0)
        np.testing.assert_array_equal(
            np.bincount(sampler.labels(), minlength=SLOTS), sampler.counts
        )
        # No chain is stuck: almost every observation has moved away from its random label.
        assert moved.mean() > 0.5
        # The slots are what the sites say.
        total = np.tile(q.prior, (SLOTS, 1))
        np.add.at(total, sampler.labels(), sampler.collapse.state.sites)
        np.testing.assert_allclose(q.natural, total, rtol=1e-9, atol=1e-9)
    record_property("invalid cavities per update", float(invalid / updates))
    print(f"{separation}: {invalid:.0f} invalid cavities in {updates:.0f} updates")
    assert invalid / updates < 1e-3


def test_an_improper_cavity_is_refitted_and_counted():
    """A site that is more than its cluster can give: the sweep recovers by itself."""
    sampler, _ = run("hard", 0, n_sweeps=1)
    state = sampler.collapse.state
    before = state.counters[1]
    i = int(np.flatnonzero(sampler.counts[sampler.labels()] > 3)[0])
    k = sampler.labels()[i]
    state.sites[i] += 10.0 * state.family.natural[k]
    sampler.sweep(np.random.default_rng(0))
    assert sampler.events()["invalid_cavities"] > before
    assert np.all(np.isfinite(state.family.natural))
    assert np.isfinite(sampler.log_joint())
