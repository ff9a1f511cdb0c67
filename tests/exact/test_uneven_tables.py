"""Weights and noise in mixed tables, with gaps: partitions against enumeration.

Levels and statistics as in `test_row_priors`.
"""

from __future__ import annotations

import functools

import enumeration
import numpy as np
import pytest
import repeated
import small
import table_cases

from cavity.likelihoods.missing import CellTraits, RowTraits
from cavity.mcmc.chain import PartitionSampler
from cavity.moves.anchors import all_anchors
from cavity.moves.standard import StandardMoves
from cavity.priors.rows import RowPlaces

pytestmark = pytest.mark.first(9)

LEVEL = 1e-4
N_SWEEPS = 6000
SHARE = (0.7, 2.0)
BOX = np.array([[-4.0], [12.0]])
# Log densities as noise: uniform over the categories, and over counts up to these.
MOST = np.array([10.0, 24.0])
ONES = np.ones(small.N)
FREE = np.full(small.N, -1)
MIXED = ("gaussian", "categorical", "poisson")
DISCRETE = ("categorical", "poisson")
CASES = [
    (DISCRETE, "collapsed", "dp", False),
    *(
        pytest.param(*case, marks=pytest.mark.exact)
        for case in [
            (MIXED, "collapsed", "dp", True),
            (DISCRETE, "collapsed", "dp", True),
            (("student-t", "categorical", "poisson"), "collapsed", "dp", True),
            # Not of all three parts: labels of so sure a partition hardly ever change places.
            (("gaussian", "categorical"), "collapsed", "dirichlet", False),
            (MIXED, "naive", "dp", False),
        ]
    ),
]


def log_noise(name):
    """Log density of every row of a part outside every cluster."""
    if name == "categorical":
        return -((table_cases.CODES >= 0) * np.log(table_cases.LEVELS)).sum(axis=1)
    if name == "poisson":
        return -(np.isfinite(table_cases.COUNTS) * np.log(MOST + 1.0)).sum(axis=1)
    return np.full(small.N, -np.log(BOX[1, 0]))


def chain(
    names, collapse, prior, rng, *, weight=ONES, home=FREE, noise=False, moves=False, wrong=None
):
    """A chain over rows with weights, known labels, or noise; the part `wrong` is told of none."""
    missing = np.zeros((small.N, 1), dtype=bool)
    rows = {
        name: RowTraits(missing, weight, BOX if noise else None)
        if name in ("gaussian", "student-t")
        else CellTraits(weight, log_noise(name) if noise else None)
        for name in names
        if name != wrong
    }
    parts = table_cases.parts(names, collapse, rows=rows)
    places = RowPlaces(home, SHARE if noise else None)
    made = [StandardMoves(all_anchors(small.N), 0)] if moves else []
    for move in made:
        move.pace.rate[:] = 4
    state = places.around(small.partition_prior(prior), small.SLOTS)
    z = np.where(home >= 0, home, 1)
    return PartitionSampler(parts, state, z, rng, moves=made)


@functools.cache
def marginals_of_repeated(name):
    if name == "categorical":
        table = table_cases.categorical_marginals(
            table_cases.CODES[repeated.ROW], table_cases.LEVELS, table_cases.CONCENTRATION
        )
    elif name == "poisson":
        table = table_cases.poisson_marginals(table_cases.COUNTS[repeated.ROW], *table_cases.GAMMA)
    else:
        return repeated.marginals(name)
    return {mask: table[own] for mask, own in repeated.MASKS.items()}


def of_product(names, marginals):
    return {m: sum(marginals(name)[m] for name in names) for m in range(1, 1 << small.N)}


@pytest.mark.parametrize(("names", "collapse", "prior", "moves"), CASES)
def test_whole_weights_repeat_the_likelihood_and_not_the_prior(names, collapse, prior, moves):
    rng = np.random.default_rng(31)
    exact = repeated.posterior(of_product(names, marginals_of_repeated), prior)
    sampler = chain(names, collapse, prior, rng, weight=repeated.WEIGHT, moves=moves)
    result = enumeration.compare(exact, enumeration.visits(sampler, exact, N_SWEEPS, rng))
    print(f"{names}, {collapse}, {prior}, weights: {result}")
    assert result.n_cells > 10
    assert result.p_value > LEVEL


@pytest.mark.exact
@pytest.mark.parametrize("wrong", ["categorical", "poisson"])
def test_a_part_without_weights_fails(wrong):
    """Negative control."""
    rng = np.random.default_rng(32)
    names = ("gaussian", wrong)
    exact = repeated.posterior(of_product(names, marginals_of_repeated), "dp")
    sampler = chain(names, "collapsed", "dp", rng, weight=repeated.WEIGHT, wrong=wrong)
    result = enumeration.compare(exact, enumeration.visits(sampler, exact, N_SWEEPS, rng))
    assert result.p_value < 1e-8


@pytest.mark.parametrize(("names", "collapse", "prior", "moves"), CASES)
def test_known_labels_stay(names, collapse, prior, moves):
    rng = np.random.default_rng(35)
    exact = repeated.allowed(table_cases.exact(names, prior), prior in small.CLOSED)
    sampler = chain(names, collapse, prior, rng, home=repeated.KNOWN, moves=moves)
    result = enumeration.compare(exact, enumeration.visits(sampler, exact, N_SWEEPS, rng))
    print(f"{names}, {collapse}, {prior}, known labels: {result}")
    assert result.n_cells > 5
    assert result.p_value > LEVEL


def test_labels_that_are_not_known_fail():
    """Negative control: the posterior of the same rows without known labels."""
    rng = np.random.default_rng(36)
    exact = table_cases.exact(DISCRETE, "dp")
    sampler = chain(DISCRETE, "collapsed", "dp", rng, home=repeated.KNOWN)
    result = enumeration.compare(exact, enumeration.visits(sampler, exact, 3000, rng))
    assert result.p_value < 1e-8


def noisy(names, prior):
    outside = sum(log_noise(name) for name in names)
    return repeated.noisy_posterior(of_product(names, table_cases.marginals), outside, prior, SHARE)


@pytest.mark.parametrize(("names", "collapse", "prior", "moves"), CASES)
def test_noise(names, collapse, prior, moves):
    rng = np.random.default_rng(33)
    exact = noisy(names, prior)
    sampler = chain(names, collapse, prior, rng, noise=True, moves=moves)
    labels = repeated.noisy_labels(sampler, prior, N_SWEEPS, rng)
    result = enumeration.compare(exact, enumeration.lookup(exact, labels))
    print(f"{names}, {collapse}, {prior}, noise: {result}")
    assert 0.05 < (labels == 0).mean() < 0.95
    assert result.n_cells > 10
    assert result.p_value > LEVEL


def test_noise_that_one_part_says_nothing_of_fails(monkeypatch):
    """Negative control: counts as noise have another density than the enumeration's."""
    rng = np.random.default_rng(34)
    exact = noisy(DISCRETE, "dp")
    monkeypatch.setattr("test_uneven_tables.MOST", np.array([3.0, 3.0]))
    sampler = chain(DISCRETE, "collapsed", "dp", rng, noise=True)
    labels = repeated.noisy_labels(sampler, "dp", 3000, rng)
    assert enumeration.compare(exact, enumeration.lookup(exact, labels)).p_value < 1e-8
