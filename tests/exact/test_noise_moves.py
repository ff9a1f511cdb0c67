"""Moves between noise and a cluster of its own: enumeration, mistakes that are found, modes left.

The chi-square tests are at level 1e-4 each, with fixed seeds, as in `test_moves`.
"""

from __future__ import annotations

import functools

import enumeration
import numpy as np
import pytest
import repeated
import small
from mistakes import MostlyMoves, rewritten, with_mistake

from cavity import StudentTMixture
from cavity.estimators import fitting
from cavity.likelihoods.missing import RowTraits
from cavity.mcmc.chain import PartitionSampler
from cavity.moves import noise
from cavity.moves.anchors import all_anchors
from cavity.moves.noise import NoiseMoves
from cavity.priors.partition import finite, padded
from cavity.priors.rows import RowPlaces

LEVEL = 1e-4
BOX = np.array([[-4.0], [12.0]])
SHARE = (0.7, 2.0)
NONE = np.zeros((small.N, 1), dtype=bool)


def chain(name, prior, rng, kind=NoiseMoves, home=None):
    parts = small.collapse(name, rows=RowTraits(NONE, np.ones(small.N), BOX))
    state = small.partition_prior(prior)
    if prior == "finite":
        state = padded(finite(3, float(small.N), *small.FINITE), small.SLOTS)
    places = RowPlaces(np.full(small.N, -1) if home is None else home, SHARE)
    move = kind(all_anchors(small.N), 0)
    move.pace.rate[:] = 4
    z = np.ones(small.N, dtype=int) if home is None else np.where(home >= 0, home, 1)
    return PartitionSampler(parts, places.around(state, small.SLOTS), z, rng, moves=[move])


@functools.cache
def exact_of(likelihood, prior):
    log_noise = np.full(small.N, -np.log(BOX[1, 0]))
    return repeated.noisy_posterior(small.marginals(likelihood), log_noise, prior, SHARE)


def compared(sampler, prior, rng, n_sweeps, exact, every=4):
    labels = repeated.noisy_labels(MostlyMoves(sampler, every), prior, n_sweeps, rng)
    return enumeration.compare(exact, enumeration.lookup(exact, labels))


# All moves together are in test_row_priors, for one prior in the default run.
CASES = [
    *(("gaussian-collapsed", prior) for prior in small.PRIORS),
    *(("student-t-collapsed", prior) for prior in small.PRIORS),
    ("gaussian-diag", "dp"),
    ("student-t-diag", "finite"),
]


@pytest.mark.exact
@pytest.mark.parametrize(("name", "prior"), CASES)
def test_partitions_with_noise_are_visited_with_their_probabilities(name, prior):
    """One sweep in four, moves all the time: a wrong move would show."""
    rng = np.random.default_rng(41)
    exact = exact_of(small.likelihood_of(name), prior)
    sampler = chain(name, prior, rng)
    result = compared(sampler, prior, rng, 8000, exact)
    print(f"{name}, {prior}: {result}; {sampler.events()}")
    assert sampler.events()["noise_accepted"] > 100
    assert result.n_cells > 10
    assert result.p_value > LEVEL


@pytest.mark.exact
@pytest.mark.parametrize(
    ("name", "old", "new"),
    [
        # The share of noise has a prior, and how many rows are in clusters counts.
        ("log_place", "return after - before", "return 0.0"),
        # A cluster leaves whose other members no way back would reach.
        ("gather_around", "inside < counts[own]", "False"),
        # Slots of a closed prior have names: one of the free ones is taken.
        ("foundings", "log_chance(prior, n_free, founds)", "0.0"),
    ],
)
def test_mistakes_are_found(name, old, new):
    """Negative controls."""
    prior = "dirichlet" if name == "foundings" else "dp"
    space = dict(vars(noise))
    space[name] = wrong = rewritten(getattr(noise, name), old, new, space)
    if name == "log_place":
        space["seat_rows"] = rewritten(noise.seat_rows, "total", "total", space)
    if name != "foundings":
        wrong = rewritten(noise.foundings, "WORK", "WORK", space)
    careless = with_mistake(noise, NoiseMoves, "foundings", wrong)
    rng = np.random.default_rng(42)
    sampler = chain("student-t-collapsed", prior, rng, careless)
    result = compared(sampler, prior, rng, 20_000, exact_of("student-t", prior), every=40)
    print(f"{name}: {result}")
    assert result.p_value < LEVEL


def test_rows_that_are_held_stay_where_they_are():
    home = np.array([0, -1, 1, -1, -1, 1])
    rng = np.random.default_rng(43)
    sampler = chain("student-t-collapsed", "dp", rng, home=home)
    held = home >= 0
    for _ in range(300):
        sampler.sweep(rng)
        np.testing.assert_array_equal(sampler.z[held], home[held])


def crossings(X, rows):
    """How often these rows go from noise, all of them, to one cluster, or back; share of noise."""
    m = StudentTMixture(
        5, noise=True, n_chains=2, n_warmup=200, n_draws=1_500, random_state=0, n_jobs=1
    ).fit(X)
    together = [
        labels[(labels == labels[:, :1]).all(axis=1), 0] == 0
        for labels in m.posterior_.labels[:, :, rows]
    ]
    crossed = sum(int((one[1:] != one[:-1]).sum()) for one in together)
    return crossed, [float(one.mean()) for one in together]


@pytest.mark.exact
def test_outliers_that_are_alike_go_to_and_fro(monkeypatch):
    """Four far out, close together, are noise or a cluster.

    Row by row both chains stay where they began, and agree on what is wrong.
    """
    rng = np.random.default_rng(1)
    X = np.vstack([rng.normal(c, 1.0, (60, 2)) for c in ((0.0, 0.0), (8.0, 0.0))])
    X = np.vstack([X, rng.uniform(-30.0, 30.0, (4, 2)), rng.normal((20.0, 24.0), 0.7, (4, 2))])
    handful = np.arange(124, 128)
    crossed, share = crossings(X, handful)
    print(f"{crossed} crossings, noise {share}")
    assert crossed >= 6
    assert 0.05 < min(share)
    assert max(share) < 0.8
    plain = fitting.moves_for
    monkeypatch.setattr(fitting, "moves_for", lambda *given: plain(*given[:3]))
    assert crossings(X, handful)[0] == 0
