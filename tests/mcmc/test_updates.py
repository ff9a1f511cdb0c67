"""A hyperprior is one more update: here one that no file of the package knows of."""

from __future__ import annotations

import numpy as np
from builders import gaussian_collapse
from scipy import stats

from cavity.conjugate.niw import pack, unpack
from cavity.mcmc.chain import PartitionSampler
from cavity.priors.cluster import NIWPrior
from cavity.priors.partition import dirichlet
from cavity.updates import CLUSTER_PRIOR, Chain, Update

LEVEL = 1e-4


class CentreUpdate(Update):
    """A toy: the centre of the clusters' means, m ~ N(0, 1), in one dimension."""

    name = "centre"
    changes = frozenset({CLUSTER_PRIOR})

    def __init__(self) -> None:
        self.n_drawn = np.zeros(1, dtype=np.int64)

    def draw(self, chain: Chain, rng: np.random.Generator) -> None:
        _, kappa, nu, psi = unpack(chain.family.prior, 1)
        occupied = chain.counts > 0
        precision = kappa * chain.parameters.whiten[0, 0, occupied] ** 2
        total = 1.0 + precision.sum()
        pull = (precision * chain.parameters.mean[0, occupied]).sum()
        centre = pull / total + rng.standard_normal() / np.sqrt(total)
        chain.family.prior[:] = pack(np.array([centre]), kappa, nu, psi)
        self.n_drawn += 1

    def log_density(self, chain: Chain) -> float:
        return float(stats.norm.logpdf(unpack(chain.family.prior, 1)[0][0]))

    def record(self, chain: Chain) -> dict[str, np.ndarray]:
        return {"centre": unpack(chain.family.prior, 1)[0][0]}

    def arrays(self) -> dict[str, np.ndarray]:
        return {"n_drawn": self.n_drawn.copy()}

    def restore(self, arrays, chain: Chain) -> None:
        self.n_drawn = np.array(arrays["n_drawn"])


def chain(rng, y, update):
    niw = NIWPrior(np.zeros(1), 0.5, 4.0, np.eye(1))
    parts = gaussian_collapse(y, niw, 8, "collapsed", (update,))
    return PartitionSampler(parts, dirichlet(2), np.arange(len(y)) % 2, rng)


def test_a_toy_hyperprior_joins_as_one_class():
    """Without data its draws are those of its prior; with data they follow them."""
    rng = np.random.default_rng(0)
    y = np.array([[40.0]])
    sampler = chain(rng, y, CentreUpdate())
    centres = np.empty(4000)
    for j in range(centres.size):
        sampler.sweep(rng)
        # New data from the state: a joint-distribution test of one observation.
        k = sampler.z[0]
        sd = 1.0 / sampler.parameters.whiten[0, 0, k]
        sampler.model.y[0, 0] = sampler.parameters.mean[0, k] + sd * rng.standard_normal()
        sampler.collapse.renew(sampler.z, sampler.counts, frozenset(), rng)
        centres[j] = sampler.record()["centre"]
    thinned = centres[200::20]
    assert stats.kstest(thinned, "norm").pvalue > LEVEL
    far = chain(rng, np.full((30, 1), 9.0) + 0.1 * rng.standard_normal((30, 1)), CentreUpdate())
    found = []
    for _ in range(200):
        far.sweep(rng)
        found.append(far.record()["centre"])
    assert np.mean(found[50:]) > 0.5


def test_its_state_is_saved_and_restored():
    rng = np.random.default_rng(1)
    first = chain(rng, rng.standard_normal((6, 1)), CentreUpdate())
    first.sweep(rng)
    saved = first.state()
    assert saved["update.centre.n_drawn"][0] == 2
    other = chain(np.random.default_rng(2), first.model.y, CentreUpdate())
    other.restore(saved)
    assert other.updates[0].n_drawn[0] == 2
    assert other.log_joint() == first.log_joint()
