"""Partition priors: weights against ratios of probabilities, and the stack of empty slots."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

from cavity._numba.jit import compiled
from cavity.interface import prior_weights
from cavity.mcmc.chain import prior_of_partition
from cavity.priors.partition import (
    dirichlet,
    dirichlet_process,
    finite,
    fixed_weights,
    is_open,
    padded,
    pitman_yor,
    renew,
)

sys.path.insert(0, str(Path(__file__).parent.parent / "exact"))
import enumeration

PRIORS = {
    "fixed": fixed_weights(np.array([0.1, 0.2, 0.3, 0.15, 0.25])),
    "dirichlet": dirichlet(5, 0.7),
    "shaped": dirichlet(5, 0.7, np.array([1.0, 2.0, 0.5, 3.0, 0.1])),
    "dp": dirichlet_process(5, 1.3),
    "pitman-yor": pitman_yor(5, 0.4, 0.6),
    "finite": finite(5, 4, 0.7, 0.6),
}


def weights_of(prior, counts, k, out):
    return prior_weights(prior, counts, k, out)


def weights(prior, counts, k):
    out = np.empty(len(counts))
    return compiled(weights_of, prior)(prior, np.asarray(counts), k, out), out


def log_probability(prior, counts):
    return compiled(prior_of_partition, prior)(prior, np.asarray(counts))


@pytest.mark.parametrize("name", PRIORS)
def test_weights_are_ratios_of_probabilities(name):
    """For one more observation, whatever cluster it has left."""
    rng = np.random.default_rng(0)
    for _ in range(30):
        counts = rng.multinomial(rng.integers(1, 9), rng.dirichlet(np.ones(5)))
        k = int(rng.integers(5))
        prior = renew(PRIORS[name], counts)
        found, got = weights(prior, counts, k)
        if not found:
            assert np.all(counts > 0)
            continue
        ratio = np.array(
            [log_probability(prior, counts + np.eye(5, dtype=int)[j]) for j in range(5)]
        )
        expected = np.exp(ratio - log_probability(prior, counts))
        if is_open(prior):
            # Every empty slot would be the same new cluster; one of them stands for it.
            empty = np.flatnonzero(counts == 0)
            offered = [j for j in empty if got[j] > 0.0]
            assert len(offered) == 1
            assert counts[k] > 0 or offered == [k]
            expected[np.setdiff1d(empty, offered)] = 0.0
        np.testing.assert_allclose(got / got.sum(), expected / expected.sum(), rtol=1e-10)


def test_probabilities_against_one_observation_after_another():
    for z in enumeration.labellings(4, 5)[::7]:
        counts = np.bincount(z, minlength=5)
        shape = PRIORS["shaped"].shape
        twins = {
            "fixed": enumeration.log_fixed(z, PRIORS["fixed"].weights),
            "dirichlet": enumeration.log_dirichlet(z, np.full(5, 0.7)),
            "shaped": enumeration.log_dirichlet(z, 0.7 * shape),
            "dp": enumeration.log_restaurant(z, 1.3),
            "pitman-yor": enumeration.log_restaurant(z, 0.4, 0.6),
        }
        for name, twin in twins.items():
            assert log_probability(PRIORS[name], counts) == pytest.approx(twin, abs=1e-9)


@pytest.mark.parametrize("ratio", [0.6, 1.0, 3.0])
def test_a_finite_mixture_against_the_sum_over_its_size(ratio):
    total = 0.0
    for z in enumeration.labellings(4, 5):
        counts = np.bincount(z, minlength=5)
        twin = enumeration.log_finite(z, 0.7, ratio, 5)
        assert log_probability(finite(5, 4, 0.7, ratio), counts) == pytest.approx(twin, abs=1e-9)
        total += np.exp(twin)
    assert total == pytest.approx(1.0)


def test_a_full_house_asks_for_room():
    prior = renew(dirichlet_process(3), np.array([1, 2, 1]))
    found, _ = weights(prior, [1, 1, 1], 1)
    assert not found


def test_an_observation_alone_may_come_back_to_its_own_slot():
    prior = renew(dirichlet_process(4, 2.0), np.array([0, 1, 3, 0]))
    found, got = weights(prior, [0, 0, 3, 0], 1)
    assert found
    np.testing.assert_array_equal(got, [0.0, 2.0, 3.0, 0.0])


def test_what_is_passed_over_stays_and_what_is_given_up_is_next():
    prior = renew(dirichlet_process(4, 2.0), np.array([0, 1, 3, 0]))
    offered = [int(np.flatnonzero(weights(prior, [0, 1, 2, 0], 2)[1] == 2.0)[0]) for _ in range(3)]
    # (slot 2 has two members, so its weight is two as well)
    assert set(offered) <= {0, 2}
    _, got = weights(prior, [0, 1, 2, 0], 2)
    assert got[0] == 2.0
    assert got[3] == 0.0
    # The observation in slot 1 leaves it for good: slot 1 is offered to the next one, not slot 0.
    weights(prior, [0, 0, 3, 0], 1)
    _, got = weights(prior, [0, 0, 3, 0], 2)
    np.testing.assert_array_equal(got, [0.0, 2.0, 3.0, 0.0])
    # Once slot 1 is taken again, slot 0 is next.
    _, got = weights(prior, [0, 1, 2, 0], 2)
    assert got[0] == 2.0


def test_padding_gives_no_weight_to_slots_that_no_cluster_may_take():
    for name in ("fixed", "shaped"):
        wide = padded(PRIORS[name], 8)
        _, got = weights(wide, [1, 0, 2, 0, 0, 0, 0, 0], 0)
        assert np.all(got[5:] == 0.0)
        _, narrow = weights(PRIORS[name], [1, 0, 2, 0, 0], 0)
        np.testing.assert_allclose(got[:5], narrow)
