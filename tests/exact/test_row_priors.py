"""Weights, known labels and noise: partitions against enumeration, under every prior and sampler.

The chi-square tests are at level 1e-4 each, with fixed seeds, as in `test_enumeration`.
"""

from __future__ import annotations

import functools

import enumeration
import numpy as np
import pytest
import repeated
import small
from scipy import special

from cavity.likelihoods.missing import RowTraits
from cavity.mcmc.chain import PartitionSampler
from cavity.moves.anchors import all_anchors
from cavity.moves.noise import NoiseMoves
from cavity.moves.standard import StandardMoves
from cavity.priors.rows import RowPlaces

LEVEL = 1e-4
N_SWEEPS = 8000
FREE = np.full(small.N, -1)
NONE = np.zeros((small.N, 1), dtype=bool)
ONES = np.ones(small.N)


def chain(name, prior, rng, *, weight=ONES, home=FREE, noise=None, box=None, moves=False, z=None):
    """A chain over the six rows of `small`; ``noise`` is the beta prior of its share."""
    parts = small.collapse(name, rows=RowTraits(NONE, weight, box))
    state = small.partition_prior(prior)
    places = RowPlaces(home, noise)
    kinds = [StandardMoves, *([NoiseMoves] if noise else [])] if moves else []
    made = [kind(all_anchors(small.N), 0) for kind in kinds]
    for move in made:
        move.pace.rate[:] = 4
    z = np.zeros(small.N, dtype=int) if z is None else z
    return PartitionSampler(parts, places.around(state, small.SLOTS), z, rng, moves=made)


@functools.cache
def weighted(likelihood, prior):
    """The posterior of rows with whole weights, whose likelihood is that of repeated rows."""
    return repeated.posterior(repeated.marginals(likelihood), prior)


def all_but_the_first(cases):
    """The first case always; the others, which each compile kernels of their own, on demand."""
    return [cases[0], *(pytest.param(*case, marks=pytest.mark.exact) for case in cases[1:])]


CASES = all_but_the_first(
    [
        ("student-t-collapsed", "dp", True),
        ("gaussian-collapsed", "dp", True),
        *(("gaussian-collapsed", prior, False) for prior in small.PRIORS),
        *((name, "dp", False) for name in small.EXACT_SAMPLERS[1:]),
        ("gaussian-collapsed", "shaped", True),
        ("gaussian-diag", "dp", True),
        ("student-t-diag", "shaped", True),
    ]
)


@pytest.mark.parametrize(("name", "prior", "moves"), CASES)
def test_whole_weights_repeat_the_likelihood_and_not_the_prior(name, prior, moves):
    rng = np.random.default_rng(21)
    exact = weighted(small.likelihood_of(name), prior)
    sampler = chain(name, prior, rng, weight=repeated.WEIGHT, moves=moves)
    result = enumeration.compare(exact, enumeration.visits(sampler, exact, N_SWEEPS, rng))
    print(f"{name}, {prior}, weights: {result}")
    assert result.n_cells > 10
    assert result.p_value > LEVEL


def test_weights_do_matter():
    """Negative control."""
    rng = np.random.default_rng(22)
    exact = small.exact("student-t", "dp")
    sampler = chain("student-t-collapsed", "dp", rng, weight=repeated.WEIGHT)
    assert enumeration.compare(exact, enumeration.visits(sampler, exact, 4000, rng)).p_value < 1e-8


@pytest.mark.exact
def test_weights_below_one_are_powers_of_the_likelihood():
    """By the definition: likelihood to the power w, sizes that count rows."""
    rng = np.random.default_rng(23)
    weight = np.array([0.5, 0.5, 1.0, 2.5, 1.0, 0.25])
    kappa, nu = small.NIW.kappa, small.NIW.nu
    table = {}
    for mask in range(1, 1 << small.N):
        own = repeated.members(mask)
        w, y = weight[own], small.Y[own, 0]
        total = w.sum()
        centre = (w * y).sum() / total
        psi = 1.0 + (w * (y - centre) ** 2).sum() + kappa * total / (kappa + total) * centre**2
        value = -0.5 * total * np.log(np.pi) + 0.5 * np.log(kappa / (kappa + total))
        value += special.gammaln(0.5 * (nu + total)) - special.gammaln(0.5 * nu)
        table[mask] = value - 0.5 * (nu + total) * np.log(psi)

    states = enumeration.partitions(small.N)
    exact = enumeration.posterior(states, table, small.log_prior("dp"), False)

    def of_sums(z):
        return sum(special.gammaln(weight[z == k].sum()) for k in np.unique(z))

    # Negative control: a prior that counts weights, as if rows were repeated.
    other = enumeration.posterior(states, table, of_sums, False)
    for moves in (False, True):
        sampler = chain("gaussian-collapsed", "dp", rng, weight=weight, moves=moves)
        visits = enumeration.visits(sampler, exact, N_SWEEPS, rng)
        assert enumeration.compare(exact, visits).p_value > LEVEL
        assert enumeration.compare(other, visits).p_value < 1e-8


# --------------------------------------------------------------------------- known labels

KNOWN_CASES = all_but_the_first(
    [
        ("student-t-collapsed", "dp", True),
        ("gaussian-collapsed", "dp", True),
        *(("gaussian-collapsed", prior, moves) for prior in small.PRIORS for moves in (0, 1)),
        ("gaussian-naive", "dp", False),
        ("student-t-blocked", "dp", False),
        ("student-t-naive", "dirichlet", False),
    ]
)


@pytest.mark.parametrize(("name", "prior", "moves"), KNOWN_CASES)
def test_known_labels_stay(name, prior, moves):
    rng = np.random.default_rng(24)
    exact = repeated.allowed(small.exact(small.likelihood_of(name), prior), prior in small.CLOSED)
    z = np.where(repeated.KNOWN >= 0, repeated.KNOWN, 0)
    sampler = chain(name, prior, rng, home=repeated.KNOWN, moves=moves, z=z)
    result = enumeration.compare(exact, enumeration.visits(sampler, exact, N_SWEEPS, rng))
    print(f"{name}, {prior}, known labels, moves {moves}: {result}")
    assert result.n_cells > 5
    assert result.p_value > LEVEL


# --------------------------------------------------------------------------- noise

BOX = np.array([[-4.0], [12.0]])
SHARE = (0.7, 2.0)
NOISY_CASES = all_but_the_first(
    [
        ("student-t-collapsed", "dp", True),
        ("gaussian-collapsed", "dp", True),
        *(("gaussian-collapsed", prior, False) for prior in small.PRIORS),
        ("gaussian-collapsed", "finite", True),
        ("gaussian-collapsed", "shaped", True),
        *((name, "dp", False) for name in small.EXACT_SAMPLERS[1:]),
        ("gaussian-diag", "dp", True),
        ("student-t-diag", "finite", True),
    ]
)


@functools.cache
def noisy(likelihood, prior):
    log_noise = np.full(small.N, -np.log(BOX[1, 0]))
    return repeated.noisy_posterior(small.marginals(likelihood), log_noise, prior, SHARE)


@pytest.mark.parametrize(("name", "prior", "moves"), NOISY_CASES)
def test_noise(name, prior, moves):
    rng = np.random.default_rng(25)
    exact = noisy(small.likelihood_of(name), prior)
    z = np.ones(small.N, dtype=int)
    sampler = chain(name, prior, rng, noise=SHARE, box=BOX, moves=moves, z=z)
    labels = repeated.noisy_labels(sampler, prior, N_SWEEPS, rng)
    result = enumeration.compare(exact, enumeration.lookup(exact, labels))
    print(f"{name}, {prior}, noise, moves {moves}: {result}")
    assert 0.05 < (labels == 0).mean() < 0.95
    assert result.n_cells > 10
    assert result.p_value > LEVEL


def test_noise_of_another_density_is_rarer():
    """Negative control: a box three times as wide."""
    rng = np.random.default_rng(26)
    share = []
    for box in (BOX, np.array([[-16.0], [36.0]])):
        z = np.ones(small.N, dtype=int)
        sampler = chain("student-t-collapsed", "dp", rng, noise=SHARE, box=box, z=z)
        share.append(np.mean([_swept(sampler, rng) for _ in range(3000)]))
    assert share[1] < 0.7 * share[0]


def _swept(sampler, rng):
    sampler.sweep(rng)
    return (sampler.labels() == 0).mean()
