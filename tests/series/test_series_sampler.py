"""Whole chains: enumeration of all partitions, and what must not change a chain."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
import series_oracle as oracle
from builders import series_chain
from scipy import stats

from cavity._numba.jit import compiled, jit
from cavity.interface import evidences
from cavity.mcmc.sweep import sweep
from cavity.priors.partition import dirichlet, dirichlet_process, fixed_weights, pitman_yor
from cavity.series.parameters import EVERYTHING, NOTHING, Moving, SeriesPriors

FIXED = NOTHING
PRIORS = SeriesPriors(3.0, 0.2, 3.0, 1.0, np.zeros(0), np.zeros(0), np.zeros(0), np.zeros(0))
LEVEL = 1e-5  # of each chi-square test, at fixed seeds


def chain(m, prior, collapse, seed=0, moving=FIXED, labels=None, **settings):
    rng = np.random.default_rng(seed)
    p = m.own.beta.shape[1]
    priors = PRIORS
    if p:
        one = np.ones(p)
        priors = PRIORS._replace(
            beta_mean=0 * one, beta_precision=one, beta_shape=3 * one, beta_scale=one
        )
    if labels is None:
        labels = rng.integers(0, 2, len(m.own.a))
    hyper = np.array([np.zeros(p), np.ones(p)])
    made = series_chain(
        m, labels, prior, priors, hyper, rng, collapse=collapse, moving=moving, **settings
    )
    return made, rng


def canonical(z):
    seen: dict[int, int] = {}
    return tuple(seen.setdefault(int(k), len(seen)) for k in z)


def partitions(n):
    out = [(0,)]
    for _ in range(n - 1):
        out = [(*row, k) for row in out for k in range(max(row) + 2)]
    return out


def log_partition_prior(z, kind, n_clusters=3):
    """Log prior probability of a partition, one member after another."""
    total, counts = 0.0, []
    for i, k in enumerate(z):
        if k == len(counts):
            counts.append(0)
            mass = {
                "dirichlet": 1.5 * (n_clusters - k),
                "dp": 1.2,
                "pitman-yor": 0.7 + 0.3 * k,
            }[kind]
            base = {"dirichlet": i + 1.5 * n_clusters, "dp": i + 1.2, "pitman-yor": i + 0.7}[kind]
        else:
            mass = {"dirichlet": counts[k] + 1.5, "dp": counts[k], "pitman-yor": counts[k] - 0.3}
            mass = mass[kind]
            base = {"dirichlet": i + 1.5 * n_clusters, "dp": i + 1.2, "pitman-yor": i + 0.7}[kind]
        if mass <= 0:
            return -math.inf
        total += math.log(mass / base)
        counts[k] += 1
    return total


def exact_posterior(m, rows, kind):
    n, n_times = m.cells.y.shape
    evidence = {}
    for size in range(1, n + 1):
        for members in itertools.combinations(range(n), size):
            evidence[members] = oracle.joint_loglik(
                m, rows, list(members), np.zeros(n_times), np.eye(n_times)
            )
    states = partitions(n)
    logs = []
    for z in states:
        groups = [tuple(i for i in range(n) if z[i] == k) for k in range(max(z) + 1)]
        logs.append(sum(evidence[g] for g in groups) + log_partition_prior(z, kind))
    p = np.exp(np.array(logs) - np.max(logs))
    return states, p / p.sum()


def frequencies(sampler, rng, states, n_draws, thin):
    index = {z: s for s, z in enumerate(states)}
    counts = np.zeros(len(states))
    for _ in range(n_draws):
        for _ in range(thin):
            sampler.sweep(rng)
        counts[index[canonical(sampler.labels())]] += 1
    return counts


def chi_square(counts, probability):
    expected = counts.sum() * probability
    common = expected > 8
    observed = np.append(counts[common], counts[~common].sum())
    wanted = np.append(expected[common], expected[~common].sum())
    if wanted[-1] < 1:
        observed, wanted = observed[:-1], wanted[:-1] * observed[:-1].sum() / wanted[:-1].sum()
    statistic = ((observed - wanted) ** 2 / wanted).sum()
    return stats.chi2.sf(statistic, len(wanted) - 1)


def prior_of(kind):
    if kind == "dirichlet":
        return dirichlet(3, 1.5)
    return dirichlet_process(8, 1.2) if kind == "dp" else pitman_yor(8, 0.7, 0.3)


@pytest.fixture(scope="module")
def small():
    rng = np.random.default_rng(31)
    m, rows = oracle.model_of(rng, n=5, n_times=7, p=1, missing=0.25, most=2, var_x=0.2)
    m.own.loading[:] = [1.3, -1.1, 0.9, 1.5, -0.8]
    m.own.a[:] = [0.8, 0.5, 0.9, -0.3, 0.7]
    return m, rows


@pytest.mark.variants("exact", "naive alternating-dirichlet")
@pytest.mark.parametrize(
    "kind",
    [
        "dirichlet",
        pytest.param("dp", marks=pytest.mark.exact),
        pytest.param("pitman-yor", marks=pytest.mark.exact),
    ],
)
@pytest.mark.parametrize(
    ("collapse", "settings"),
    [
        ("collapsed", {}),
        ("naive", {"draw": "joint"}),
        ("naive", {"draw": "alternate"}),
    ],
    ids=["collapsed", "naive joint", "naive alternating"],
)
def test_exact_samplers_visit_partitions_with_their_probabilities(small, kind, collapse, settings):
    m, rows = small
    states, probability = exact_posterior(m, rows, kind)
    sampler, rng = chain(m, prior_of(kind), collapse, **settings)
    thin = 2 if collapse == "collapsed" else 8
    counts = frequencies(sampler, rng, states, 2500, thin)
    assert chi_square(counts, probability) > LEVEL


def test_the_enumeration_notices_a_wrong_variance(small):
    m, rows = small
    states, probability = exact_posterior(m, rows, "dirichlet")
    wrong = m._replace(own=m.own._replace(var_x=m.own.var_x * 4))
    sampler, rng = chain(wrong, prior_of("dirichlet"), "collapsed")
    counts = frequencies(sampler, rng, states, 2500, 2)
    assert chi_square(counts, probability) < LEVEL


@pytest.mark.exact
def test_ep_is_near_the_exact_posterior(small):
    m, rows = small
    states, probability = exact_posterior(m, rows, "dirichlet")
    sampler, rng = chain(m, prior_of("dirichlet"), "ep")
    n = 3000
    counts = frequencies(sampler, rng, states, n, 2)
    distance = 0.5 * np.abs(counts / n - probability).sum()
    # A long run gives 0.084 (docs/studies.md). The standard deviation of the distance of n draws is
    # at most sqrt((1 - 2 / pi) / (4 n)) = 0.0055: six of them above, a false alarm below 1e-8.
    assert distance < 0.12
    assert sampler.events()["invalid_cavities"] == 0


def test_fixed_weights(small):
    m, rows = small
    n_times = m.cells.y.shape[1]
    weights = np.array([0.7, 0.3])
    logs = []
    labellings = list(itertools.product(range(2), repeat=5))
    for z in labellings:
        total = np.log(weights[list(z)]).sum()
        for k in range(2):
            members = [i for i in range(5) if z[i] == k]
            total += oracle.joint_loglik(m, rows, members, np.zeros(n_times), np.eye(n_times))
        logs.append(total)
    probability = np.exp(np.array(logs) - max(logs))
    probability /= probability.sum()
    sampler, rng = chain(m, fixed_weights(weights), "collapsed")
    index = {z: s for s, z in enumerate(labellings)}
    counts = np.zeros(len(labellings))
    for _ in range(2500):
        sampler.sweep(rng)
        sampler.sweep(rng)
        counts[index[tuple(int(k) for k in sampler.labels())]] += 1
    assert chi_square(counts, probability) > LEVEL


@jit
def _evidences(model, q, i, out):
    evidences(model, q, i, out)


def test_ep_score_is_exact_for_a_cluster_without_members(small):
    m, rows = small
    n_times = m.cells.y.shape[1]
    sampler, _ = chain(m, prior_of("dirichlet"), "ep", labels=np.zeros(5, dtype=int))
    state = sampler.collapse.state
    out = np.empty(8)
    for i in range(5):
        _evidences(state.model, state.family, i, out)
        alone = oracle.joint_loglik(m, rows, [i], np.zeros(n_times), np.eye(n_times))
        assert out[1] == pytest.approx(alone, rel=1e-10)


@pytest.mark.parametrize("collapse", ["ep", "corrected", "collapsed", "naive"])
def test_a_restored_chain_continues_bit_for_bit(small, collapse):
    m, _ = small
    moving = EVERYTHING
    sampler, rng = chain(m, dirichlet_process(8), collapse, moving=moving,
                         concentration_prior=(1.0, 1.0))  # fmt: skip
    for _ in range(7):
        sampler.sweep(rng)
        sampler.keep()
    saved, word = sampler.state(), rng.bit_generator.state
    for _ in range(5):
        sampler.sweep(rng)
        sampler.keep()
    other, other_rng = chain(m, dirichlet_process(8), collapse, seed=9, moving=moving,
                             concentration_prior=(1.0, 1.0))  # fmt: skip
    other.restore(saved)
    other_rng.bit_generator.state = word
    for _ in range(5):
        other.sweep(other_rng)
        other.keep()
    assert sampler.log_joint() == other.log_joint()
    for name, value in sampler.state().items():
        np.testing.assert_array_equal(value, other.state()[name], err_msg=name)


@pytest.mark.parametrize("collapse", ["ep", "corrected", "collapsed", "naive"])
def test_open_priors_find_room_for_more_clusters(collapse):
    rng = np.random.default_rng(4)
    m, _ = oracle.model_of(rng, n=40, n_times=5)
    sampler, rng = chain(m, dirichlet_process(1, 60.0), collapse, labels=np.zeros(40, dtype=int))
    before = sampler.n_slots
    for _ in range(4):
        sampler.sweep(rng)
    assert sampler.n_slots > before
    assert len(np.unique(sampler.labels())) > before
    used = np.flatnonzero(sampler.counts).max() + 1
    assert sampler.record()["factor"].shape == (used, 5)
    assert math.isfinite(sampler.log_joint())


def test_parameters_held_fixed_stay(small):
    m, _ = small
    present = [name for name in Moving._fields if getattr(m.own, name).size]
    for name in present:
        moving = Moving(*(field != name for field in Moving._fields))
        sampler, rng = chain(m, dirichlet(3), "naive", moving=moving)
        for _ in range(3):
            sampler.sweep(rng)
        for field in present:
            same = np.array_equal(getattr(sampler.model.own, field), getattr(m.own, field))
            assert same == (field == name)
    assert m.own.var_x[0] == 0.2


def test_only_one_sweep_is_compiled_per_prior(small):
    m, _ = small
    sampler, rng = chain(m, dirichlet(3), "ep")
    run = compiled(sweep, (sampler.collapse.state, sampler.prior))
    sampler.sweep(rng)
    n = len(run.signatures)
    other, rng = chain(m, dirichlet(5), "ep")
    other.sweep(rng)
    assert len(run.signatures) == n
