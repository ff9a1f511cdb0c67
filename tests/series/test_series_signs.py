"""Signs of loadings: drawn with the label, and turned for a whole cluster."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import series_oracle as oracle
from builders import series_chain
from scipy import stats
from sklearn.metrics import adjusted_rand_score

from cavity._numba.jit import compiled
from cavity.collapse.ep import rebuild
from cavity.datasets import make_series
from cavity.priors.partition import dirichlet
from cavity.series.likelihood import ClusterFlips
from cavity.series.parameters import NOTHING, SeriesPriors
from cavity.series.state_space import factor_series

NONE = np.zeros(0)
PRIORS = SeriesPriors(3.0, 0.2, 3.0, 1.0, NONE, NONE, NONE, NONE)
LEVEL = 1e-5  # of each chi-square test, at fixed seeds
N, CLUSTERS, ALPHA = 4, 2, 1.5


@pytest.fixture(scope="module")
def small():
    """Series whose loadings are known but for their signs, of which + is likelier."""
    m, rows = oracle.model_of(
        np.random.default_rng(8), n=N, n_times=6, missing=0.2, most=2, var_x=0.2,
        population=(0.5, 4.0, 0.3, 1.0), free_signs=True,
    )  # fmt: skip
    m.own.loading[:] = [1.3, -1.1, 0.9, 1.5]
    m.own.a[:] = [0.8, 0.5, 0.9, -0.3]
    return m, rows


@pytest.fixture(scope="module")
def posterior(small):
    """Probability of every (labels, signs), by dense Gaussians."""
    m, rows = small
    n_times = m.cells.y.shape[1]
    size = np.abs(m.own.loading)
    evidence = {}
    for signs in itertools.product((1.0, -1.0), repeat=N):
        turned = m._replace(own=m.own._replace(loading=size * signs))
        for count in range(N + 1):
            for group in itertools.combinations(range(N), count):
                key = group, tuple(signs[i] for i in group)
                if key not in evidence:
                    evidence[key] = oracle.joint_loglik(
                        turned, rows, list(group), np.zeros(n_times), np.eye(n_times)
                    )
    states, logs = [], []
    for z in itertools.product(range(CLUSTERS), repeat=N):
        groups = [tuple(i for i in range(N) if z[i] == k) for k in range(CLUSTERS)]
        total = dirichlet_probability(z)
        for signs in itertools.product((1.0, -1.0), repeat=N):
            value = total - 0.5 * ((size * signs - 0.3) ** 2).sum()
            value += sum(evidence[g, tuple(signs[i] for i in g)] for g in groups)
            states.append((*z, *signs))
            logs.append(value)
    p = np.exp(np.array(logs) - np.max(logs))
    return states, p / p.sum()


def dirichlet_probability(z):
    total, counts = 0.0, np.zeros(CLUSTERS)
    for i, k in enumerate(z):
        total += np.log((counts[k] + ALPHA) / (i + CLUSTERS * ALPHA))
        counts[k] += 1
    return total


def started(m, collapse, rng, **settings):
    labels = rng.integers(0, CLUSTERS, len(m.own.a))
    prior = dirichlet(CLUSTERS, ALPHA)
    return series_chain(m, labels, prior, PRIORS, np.zeros((2, 0)), rng, collapse=collapse,
                        moving=NOTHING, **settings)  # fmt: skip


def visits(m, posterior, collapse, n_draws=4000, thin=3, broken=None, **settings):
    """P-value of the visits to all states of labels and signs."""
    states, probability = posterior
    rng = np.random.default_rng(3)
    sampler = started(m, collapse, rng, **settings)
    if broken is not None:
        broken(sampler)
    index = {state: s for s, state in enumerate(states)}
    counts = np.zeros(len(states))
    for _ in range(n_draws):
        for _ in range(thin):
            sampler.sweep(rng)
        signs = np.sign(sampler.model.own.loading)
        counts[index[(*(int(k) for k in sampler.z), *signs)]] += 1
    expected = n_draws * probability
    common = expected > 8
    observed = np.append(counts[common], counts[~common].sum())
    wanted = np.append(expected[common], expected[~common].sum())
    return stats.chi2.sf(((observed - wanted) ** 2 / wanted).sum(), len(wanted) - 1)


EXACT = {
    "collapsed": {"collapse": "collapsed"},
    "corrected": {"collapse": "corrected"},
    "naive joint": {"collapse": "naive", "draw": "joint", "thin": 6},
    "naive alternating": {"collapse": "naive", "draw": "alternate", "thin": 10},
}


@pytest.mark.variants("exact", "naive *")
@pytest.mark.parametrize("name", list(EXACT))
def test_labels_and_signs_are_visited_with_their_probabilities(small, posterior, name):
    assert visits(small[0], posterior, **EXACT[name]) > LEVEL


def wrong_odds(sampler):
    sampler.model.own.population[2] = 0.0


def no_flips(sampler):
    sampler.updates = sampler.updates[:1]
    sampler.model.own.loading[:] = np.abs(sampler.model.own.loading)


@pytest.mark.variants("exact", "labels alone")
@pytest.mark.parametrize(
    ("broken", "free"),
    [(wrong_odds, True), (no_flips, False)],
    ids=["odds of the signs", "labels alone"],
)
def test_the_enumeration_notices_a_wrong_update(small, posterior, broken, free):
    m = small[0]._replace(own=small[0].own._replace(free_signs=free))
    assert visits(m, posterior, "collapsed", broken=broken) < LEVEL


def mixed(seed, free_signs=True):
    """24 series in two clusters, half of them moving against their factor."""
    Y, truth = make_series(24, 60, 2, negative=0.5, var_y=0.5, random_state=seed)
    assert 4 < (truth.loading < 0).sum() < 20
    Y = Y / Y.std()
    m = factor_series(Y, a=0.8, loading=0.4, var_x=0.05, var_y=0.2, free_signs=free_signs,
                      population=(0.9, 100.0, 0.0, 4.0))  # fmt: skip
    return m, truth


def agreement(m, truth, collapse, seed, n_sweeps):
    rng = np.random.default_rng(seed)
    sampler = series_chain(m, rng.integers(0, 2, 24), dirichlet(2), PRIORS, np.zeros((2, 0)), rng,
                           collapse=collapse)  # fmt: skip
    for _ in range(n_sweeps):
        sampler.sweep(rng)
    return adjusted_rand_score(truth.labels, sampler.z)


@pytest.mark.parametrize(
    ("collapse", "n_sweeps"), [("ep", 5), ("corrected", 5), ("collapsed", 5), ("naive", 30)]
)
def test_clusters_of_mixed_signs_are_found_in_a_few_sweeps(collapse, n_sweeps):
    found = [agreement(*mixed(seed), collapse, seed, n_sweeps) for seed in range(4)]
    assert np.median(found) == 1.0


@pytest.mark.parametrize("collapse", ["ep", "collapsed"])
def test_labels_without_their_signs_do_not_find_them(collapse):
    found = [agreement(*mixed(seed, False), collapse, seed, 40) for seed in range(4)]
    assert np.median(found) < 0.7


def test_turning_a_cluster_leaves_expectation_propagation_where_it_was():
    m, _ = mixed(1)
    rng = np.random.default_rng(0)
    sampler = series_chain(m, rng.integers(0, 2, 24), dirichlet(2), PRIORS, np.zeros((2, 0)), rng)
    for _ in range(3):
        sampler.sweep(rng)
    collapse, counts = sampler.collapse, sampler.counts
    before = collapse.log_evidence(sampler.z, counts), sampler.log_joint()
    loading = sampler.model.own.loading.copy()
    flips = next(u for u in sampler.updates if isinstance(u, ClusterFlips))
    while not (sampler.model.own.loading != loading).any():
        flips.draw(sampler, rng)
    turned = sampler.model.own.loading != loading
    np.testing.assert_array_equal(sampler.model.own.loading, np.where(turned, -loading, loading))
    assert (collapse.log_evidence(sampler.z, counts), sampler.log_joint()) == pytest.approx(
        before, rel=1e-9
    )
    natural = collapse.family.natural.copy()
    compiled(rebuild, collapse.state)(collapse.state, sampler.z, np.zeros(counts.size, dtype=bool))
    np.testing.assert_allclose(collapse.family.natural, natural, rtol=1e-9, atol=1e-9)
