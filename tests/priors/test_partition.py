"""Partition priors: weights against ratios of probabilities, and the stack of empty slots."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

from cavity._numba.jit import compiled
from cavity.priors.partition import (
    dirichlet,
    dirichlet_process,
    finite,
    fixed_weights,
    log_prior,
    padded,
    pitman_yor,
    renew,
    row_weights,
)
from cavity.priors.rows import RowPlaces

sys.path.insert(0, str(Path(__file__).parent.parent / "exact"))
import enumeration

SHAPE = np.array([1.0, 2.0, 0.5, 3.0, 0.1])
PRIORS = {
    "fixed": fixed_weights(np.array([0.1, 0.2, 0.3, 0.15, 0.25])),
    "dirichlet": dirichlet(5, 0.7),
    "shaped": dirichlet(5, 0.7, SHAPE),
    "dp": dirichlet_process(5, 1.3),
    "pitman-yor": pitman_yor(5, 0.4, 0.6),
    "finite": finite(5, 4, 0.7, 0.6),
}


def weights_of(prior, counts, i, k, out):
    return row_weights(prior, counts, i, k, out)


def weights(prior, counts, k, row=0):
    """Weights of every slot for a row that has just left slot k; False if there is no room."""
    out = np.empty(len(counts))
    return compiled(weights_of, prior)(prior, np.asarray(counts, dtype=float), row, k, out), out


def log_probability(prior, counts):
    return log_prior(prior, np.asarray(counts, dtype=float))


def ratios(prior, counts):
    """Probability of the partition with one more row in each slot over that without it."""
    before = log_probability(prior, counts)
    out = np.empty(len(counts))
    for j in range(len(counts)):
        if j == prior.noise_slot:
            prior.noise_size[0] += 1.0
            out[j] = log_probability(prior, counts) - before
            prior.noise_size[0] -= 1.0
        else:
            with np.errstate(divide="ignore"):
                out[j] = log_probability(prior, counts + np.eye(len(counts))[j]) - before
    return np.exp(out)


def one_empty_slot(prior, counts, k, got, expected):
    """Under an open prior one empty slot represents all of them: drop the others."""
    if not prior.is_open:
        return expected
    empty = [j for j in np.flatnonzero(counts == 0) if j != prior.noise_slot]
    offered = [j for j in empty if got[j] > 0.0]
    assert len(offered) == 1
    assert counts[k] > 0 or k == prior.noise_slot or offered == [k]
    expected = expected.copy()
    expected[np.setdiff1d(empty, offered)] = 0.0
    return expected


def disagreement(prior, truth, n=30):
    """Largest error of the weights under `prior` against the probabilities under `truth`."""
    rng = np.random.default_rng(0)
    worst = 0.0
    for _ in range(n):
        n_slots = 6 if prior.noise_slot >= 0 else 5
        counts = np.zeros(n_slots)
        counts[-5:] = rng.multinomial(rng.integers(1, 9), rng.dirichlet(np.ones(5)))
        prior.noise_size[0] = truth.noise_size[0] = rng.integers(0, 3)
        k = int(rng.integers(n_slots))
        prior = renew(prior, counts)
        found, got = weights(prior, counts, k)
        if not found:
            assert np.all(counts[-5:] > 0)
            continue
        expected = one_empty_slot(prior, counts, k, got, ratios(truth, counts))
        worst = max(worst, np.abs(got / got.sum() - expected / expected.sum()).max())
    return worst


@pytest.mark.parametrize("name", PRIORS)
def test_weights_are_ratios_of_probabilities(name):
    """For one more observation, whatever cluster it has left."""
    assert disagreement(PRIORS[name], PRIORS[name]) < 1e-10


@pytest.mark.parametrize("name", PRIORS)
@pytest.mark.parametrize("noise", [None, (0.7, 2.0)])
def test_weights_of_rows_that_may_be_noise(name, noise):
    prior = RowPlaces(np.full(1, -1), noise).around(PRIORS[name], 6 if noise else 5)
    assert disagreement(prior, prior) < 1e-10


def test_weights_of_another_prior_disagree():
    """Negative control: each parameter of each prior matters."""
    pairs = [
        (dirichlet(5, 0.7), dirichlet(5, 0.75)),
        (dirichlet(5, 0.7), dirichlet(5, 0.7, SHAPE)),
        (dirichlet(5, 0.7), fixed_weights(np.ones(5))),
        (dirichlet_process(5, 1.3), dirichlet_process(5, 1.4)),
        (pitman_yor(5, 0.4, 0.6), pitman_yor(5, 0.4, 0.55)),
        (finite(5, 4, 0.7, 0.6), finite(5, 4, 0.7, 0.8)),
        (finite(5, 4, 0.7, 0.6), finite(5, 4, 0.75, 0.6)),
    ]
    for prior, other in pairs:
        assert disagreement(prior, other) > 1e-3
    plain = RowPlaces(np.full(1, -1), (0.7, 2.0)).around(dirichlet(5, 0.7), 6)
    noisier = plain._replace(noise_prior=np.array([0.8, 2.0]))
    assert disagreement(plain, noisier) > 1e-3


@pytest.mark.parametrize("name", PRIORS)
def test_a_row_of_known_label_has_one_choice(name):
    prior = RowPlaces(np.array([-1, 3])).around(PRIORS[name], 5)
    counts = np.array([2.0, 1.0, 0.0, 0.0, 0.0])
    _, got = weights(renew(prior, counts), counts, 3, row=1)
    np.testing.assert_array_equal(got, [0.0, 0.0, 0.0, 1.0, 0.0])


def test_probabilities_against_one_observation_after_another():
    for z in enumeration.labellings(4, 5)[::7]:
        counts = np.bincount(z, minlength=5)
        twins = {
            "fixed": enumeration.log_fixed(z, PRIORS["fixed"].weights),
            "dirichlet": enumeration.log_dirichlet(z, np.full(5, 0.7)),
            "shaped": enumeration.log_dirichlet(z, 0.7 * SHAPE),
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


def test_without_an_empty_slot_the_sampler_must_grow():
    prior = renew(dirichlet_process(3), np.array([1, 2, 1]))
    found, _ = weights(prior, [1, 1, 1], 1)
    assert not found


def test_an_observation_alone_may_come_back_to_its_own_slot():
    prior = renew(dirichlet_process(4, 2.0), np.array([0, 1, 3, 0]))
    found, got = weights(prior, [0, 0, 3, 0], 1)
    assert found
    np.testing.assert_array_equal(got, [0.0, 2.0, 3.0, 0.0])


def test_a_slot_not_chosen_stays_and_a_slot_given_up_is_next():
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
    for name in ("fixed", "shaped", "finite"):
        wide = padded(PRIORS[name], 8)
        _, got = weights(wide, [1, 0, 2, 0, 0, 0, 0, 0], 0)
        assert np.all(got[5:] == 0.0)
        _, narrow = weights(PRIORS[name], [1, 0, 2, 0, 0], 0)
        np.testing.assert_allclose(got[:5], narrow)


def test_all_priors_share_one_type():
    """So every kernel is compiled once, whatever the prior and the rows."""
    from cavity._numba.structs import kernel_type

    places = RowPlaces(np.full(3, -1), (1.0, 1.0))
    every = [*PRIORS.values(), *(places.around(prior, 6) for prior in PRIORS.values())]
    assert len({kernel_type(prior) for prior in every}) == 1
