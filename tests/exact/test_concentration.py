"""A prior on the number of clusters with a learned concentration, against enumeration."""

from __future__ import annotations

import enumeration
import numpy as np
import pytest
import small
from scipy import special, stats

from cavity.mcmc.chain import PartitionSampler
from cavity.moves.anchors import all_anchors
from cavity.moves.standard import StandardMoves
from cavity.priors.concentration import ConcentrationUpdate
from cavity.priors.specifications import FiniteMixture, specification

LEVEL = 1e-4  # of each of three tests
POWER = 0.7
CHECKED = FiniteMixture(power=POWER)


def exact(likelihood):
    """The posterior over labels, and the mean of the log concentration, over a fine grid of it."""
    step = 0.25
    grid = np.arange(-9.0, 5.5, step)
    shape, rate = CHECKED.gamma
    weight = stats.gamma.logpdf(np.exp(grid), shape, scale=1.0 / rate) + grid
    states = enumeration.labellings(small.N, 3)
    log_p = np.empty((len(states), grid.size))
    # The prior of a labelling depends on the sizes of its clusters alone.
    sizes = [tuple(sorted(np.bincount(z, minlength=3))) for z in states]
    first = dict(zip(sizes, states, strict=True))
    evidence = enumeration.log_joint(states, small.marginals(likelihood), lambda z: 0.0)
    for j, concentration in enumerate(np.exp(grid)):
        log_prior = {
            size: enumeration.log_finite(z, concentration, POWER, 3) for size, z in first.items()
        }
        log_p[:, j] = weight[j] + evidence + [log_prior[size] for size in sizes]
    joint = special.softmax(log_p)
    return enumeration.Exact(states, joint.sum(axis=1), True), float(joint.sum(axis=0) @ grid)


class Recorded:
    """A chain that notes its log concentration at every visit."""

    def __init__(self, sampler):
        self.sampler = sampler
        self.values = []

    def sweep(self, rng):
        self.sampler.sweep(rng)
        self.values.append(np.log(self.sampler.prior.concentration[0]))

    def labels(self):
        return self.sampler.labels()


def run(name, update, n_sweeps, seed):
    rng = np.random.default_rng(seed)
    states, mean = exact(small.likelihood_of(name))
    moves = [StandardMoves(all_anchors(small.N), 0)]
    moves[0].pace.rate[:] = 2
    chain = Recorded(
        PartitionSampler(
            small.collapse(name),
            CHECKED.state(3, small.SLOTS, small.N),
            np.zeros(small.N, dtype=int),
            rng,
            updates=(update,),
            moves=moves,
        )
    )
    visited = enumeration.visits(chain, states, n_sweeps, rng)
    batches = np.array_split(np.array(chain.values[-n_sweeps:]), 40)
    means = np.array([batch.mean() for batch in batches])
    z = (means.mean() - mean) / (means.std(ddof=1) / np.sqrt(means.size))
    return enumeration.compare(states, visited).p_value, 2.0 * stats.t.sf(abs(z), 39)


@pytest.mark.parametrize(
    "name", ["gaussian-collapsed", pytest.param("student-t-collapsed", marks=pytest.mark.exact)]
)
def test_labels_and_concentration_follow_the_enumerated_posterior(name):
    (update,) = CHECKED.updates()
    assert min(run(name, update, 2500, 3)) > LEVEL / 2


class Stale(ConcentrationUpdate):
    """Draws a concentration that the weights of a new cluster do not hear of."""

    def draw(self, chain, rng):
        super().draw(chain, rng)
        chain.prior.log_new_key[0] = chain.prior.concentration[0]


@pytest.mark.exact
def test_weights_of_an_old_concentration_are_noticed():
    assert min(run("gaussian-collapsed", Stale(*CHECKED.gamma), 6000, 3)) < 1e-8


def test_it_is_learned_by_default():
    assert specification("finite").learned
    assert specification("finite", "learn").learned
    assert not specification("finite", 1.0).learned
    assert not specification("dirichlet").learned
    assert not specification("dp").learned
