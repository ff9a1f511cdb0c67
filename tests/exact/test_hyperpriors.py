"""What the clusters have in common, learned: as often as enumeration and their priors say."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import enumeration
import numpy as np
import pytest
import small
from scipy import special, stats

from cavity._numba.jit import compiled
from cavity.conjugate.common import draw_from, load_from
from cavity.conjugate.niw import (
    gaussian_parameters,
    normal_inverse_wishart,
    pack,
    unpack,
)
from cavity.interface import End
from cavity.mcmc.chain import PartitionSampler
from cavity.priors.cluster import common_of
from cavity.priors.covariance_df import LEAST, MOST
from cavity.priors.covariance_scale import DIAGONAL, FULL, scale_prior
from cavity.priors.hyperpriors import ClusterHyperpriors
from cavity.priors.mean_spread import SpreadPrior
from cavity.updates import CLUSTER_PRIOR, Update

LEVEL = 1e-4
N_SWEEPS = 8000
# Of a learned mean of the mean covariance.
TAIL = 0.5
# The same prior of a number, as a gamma and as a Wishart distribution.
FORMS = {
    "diagonal": ClusterHyperpriors(1, scale_prior(DIAGONAL, small.SCALE_SHAPE, np.ones(1))),
    "full": ClusterHyperpriors(1, scale_prior(FULL, 2.0 * small.SCALE_SHAPE, np.ones(1))),
}


class At(NamedTuple):
    """What the updates look at of a chain."""

    family: Any
    parameters: Any
    counts: np.ndarray
    model: Any = End()
    prior: Any = End()
    z: np.ndarray = np.zeros(0, dtype=np.int32)


def run(name, prior, update, seed, n_sweeps=N_SWEEPS):
    """Visited states and log scales of a chain that learns the scale."""
    rng = np.random.default_rng(seed)
    exact, (log_scale, share) = small.exact_with_scale(
        small.likelihood_of(name), prior, update.scale.tail
    )
    chain = small.sampler(name, prior, rng, updates=(update,))
    labels = np.empty((n_sweeps, small.N), dtype=int)
    found = np.empty(n_sweeps)
    for j in range(-50, n_sweeps):
        chain.sweep(rng)
        if j >= 0:
            labels[j] = chain.labels()
            found[j] = math.log(common_of(chain.family.prior, 1).scale[0, 0])
    return exact, enumeration.lookup(exact, labels), found, (log_scale, share)


def score(found, values, share, n_batches=40):
    """How far the mean is from the exact one, in its standard errors."""
    means = found[: len(found) // n_batches * n_batches].reshape(n_batches, -1).mean(axis=1)
    exact = (values * share).sum()
    return (means.mean() - exact) / (means.std(ddof=1) / np.sqrt(n_batches))


@pytest.mark.variants("exact", "gaussian-naive-*", "gaussian-collapsed-dirichlet", "student-t-*")
@pytest.mark.parametrize("prior", ["dirichlet", "dp"])
@pytest.mark.parametrize("name", small.EXACT_SAMPLERS)
def test_frequencies_of_partitions_and_the_mean_scale(name, prior):
    form = "full" if prior == "dp" else "diagonal"
    seed = sum(map(ord, name + prior))
    exact, visited, found, grid = run(name, prior, FORMS[form], seed)
    result = enumeration.compare(exact, visited)
    z = score(found, *grid)
    print(f"{name}, {prior}: {result}, scale {z:.2f} standard errors off")
    assert result.p_value > LEVEL
    assert abs(z) < stats.t.isf(0.5 * LEVEL, 39)


@pytest.mark.variants("exact", "diagonal", "full")
@pytest.mark.parametrize("form", [DIAGONAL, FULL], ids=["diagonal", "full"])
def test_frequencies_where_the_scale_s_own_mean_is_learned(form):
    strength = small.SCALE_SHAPE if form == DIAGONAL else 2.0 * small.SCALE_SHAPE
    update = ClusterHyperpriors(1, scale_prior(form, strength, np.ones(1), TAIL))
    exact, visited, found, grid = run("gaussian-collapsed", "dp", update, seed=7)
    result = enumeration.compare(exact, visited)
    z = score(found, *grid)
    print(f"{result}, scale {z:.2f} standard errors off")
    assert result.p_value > LEVEL
    assert abs(z) < stats.t.isf(0.5 * LEVEL, 39)
    known = small.exact_with_scale("gaussian", "dp")[1]
    assert abs(score(found, *known)) > stats.t.isf(0.5e-8, 39)  # negative control: it is known


def test_a_fixed_scale_is_told_from_a_learned_one():
    """The comparison has power: the posterior under a scale of 1 is another one."""
    _, visited, _, _ = run("gaussian-collapsed", "dp", FORMS["full"], seed=1)
    assert enumeration.compare(small.exact("gaussian", "dp"), visited).p_value < 1e-8


@pytest.mark.variants("exact", "gaussian-naive")
@pytest.mark.parametrize("name", ["gaussian-collapsed", "gaussian-naive"])
def test_a_scale_that_forgets_a_cluster_fails(name, monkeypatch):
    right = ClusterHyperpriors.draw

    def without_one(self, chain, rng):
        some = chain.counts.copy()
        some[np.flatnonzero(some)[1:2]] = 0
        right(self, At(chain.family, chain.parameters, some), rng)

    monkeypatch.setattr(ClusterHyperpriors, "draw", without_one)
    _, _, found, grid = run(name, "dp", FORMS["full"], seed=2, n_sweeps=16_000)
    assert abs(score(found, *grid)) > stats.t.isf(0.5e-8, 39)


@pytest.mark.exact
@pytest.mark.parametrize("prior", [pytest.param("dirichlet", marks=pytest.mark.exact), "dp"])
def test_distance_of_ep_from_exact(prior, record_property):
    """Bounds are measurements with room, as those of test_limits, where exact ones have .02."""
    chains = [run("student-t-ep", prior, FORMS["full"], seed, n_sweeps=12_000) for seed in (5, 6)]
    exact, _, _, (log_scale, share) = chains[0]
    distance = enumeration.distance(exact, chains[0][1], chains[1][1])
    bias = np.mean([found.mean() for _, _, found, _ in chains]) - (log_scale * share).sum()
    record_property("distance", distance)
    record_property("bias of the log scale", float(bias))
    print(f"EP, {prior}: distance {distance:.4f}, log scale off by {bias:.3f}")
    assert distance < 0.06
    assert abs(bias) < 0.15


def df_update(typical=4.0):
    return ClusterHyperpriors(1, typical=typical)


def exact_with_df(prior, typical=4.0):
    """The Gaussian posterior where nu is learned and the mean variance is one, over a grid."""
    step = 0.2
    x = np.arange(math.log(LEAST), math.log(MOST), step) + 0.5 * step
    log_weight = x - 2.0 * np.log(typical + np.exp(x))
    states = enumeration.partitions(small.N)
    log_p = np.empty((len(states), len(x)))
    for j, spare in enumerate(np.exp(x)):
        niw = small.NIW._replace(nu=spare + 2.0, psi=np.array([[spare]]))
        table = enumeration.gaussian_marginals(small.Y, *niw)
        log_p[:, j] = enumeration.log_joint(states, table, small.log_prior(prior)) + log_weight[j]
    joint = special.softmax(log_p)
    return enumeration.Exact(states, joint.sum(axis=1), False), (x, joint.sum(axis=0))


def run_df(parts, prior, n_sweeps=N_SWEEPS):
    rng = np.random.default_rng(21)
    chain = PartitionSampler(parts, small.partition_prior(prior), np.zeros(small.N, int), rng)
    labels, found = np.empty((n_sweeps, small.N), dtype=int), np.empty(n_sweeps)
    for j in range(-50, n_sweeps):
        chain.sweep(rng)
        if j >= 0:
            labels[j] = chain.labels()
            found[j] = math.log(chain.family.prior[1] - 2.0)
    return labels, found


@pytest.mark.variants("exact", "collapsed", "given")
@pytest.mark.parametrize("kinds", ["both", "collapsed", "given"])
def test_degrees_of_freedom_with_and_without_the_covariances(kinds):
    """Each of the two steps alone, and both, follow the enumerated posterior."""
    exact, grid = exact_with_df("dp")
    parts = small.collapse("gaussian-collapsed", updates=(df_update(),))
    extra, plain = parts.updates
    if kinds == "collapsed":
        plain.draw = lambda chain, rng: None
    parts = parts._replace(updates=(plain,) if kinds == "given" else (extra, plain))
    labels, found = run_df(parts, "dp")
    result = enumeration.compare(exact, enumeration.lookup(exact, labels))
    z = score(found, *grid)
    print(f"{kinds}: {result}, {z:.2f} standard errors off")
    assert result.p_value > LEVEL
    assert abs(z) < stats.t.isf(0.5 * LEVEL, 39)


def test_a_collapsed_step_without_its_prior_fails():
    _, grid = exact_with_df("dp")
    parts = small.collapse("gaussian-collapsed", updates=(df_update(typical=40.0),))
    _, found = run_df(parts, "dp")
    assert abs(score(found, *grid)) > stats.t.isf(0.5e-8, 39)


# --------------------------------------------------------------------------- updates alone

D, CLUSTERS = 2, 5
SCALES = np.array([0.4, 2.0])


def learners(tail=0.0):
    """One update for each part, which is the same as one for all."""
    return (
        ClusterHyperpriors(D, scale_prior(FULL, 6.0, SCALES, tail)),
        ClusterHyperpriors(D, typical=4.0),
        ClusterHyperpriors(D, spread=SpreadPrior(3.0, 2.0, 0.7)),
    )


def from_priors(rng, tail=0.0):
    """Hyperparameters from their priors, by SciPy."""
    ratio = stats.betaprime.rvs(tail, tail, size=D, random_state=rng) if tail else 1.0
    scale = stats.wishart.rvs(6.0, np.diag(SCALES * ratio / 6.0), random_state=rng)
    ends = np.array([LEAST, MOST]) / (np.array([LEAST, MOST]) + 4.0)
    share = rng.uniform(*ends)
    spare = 4.0 * share / (1.0 - share)
    kappa = rng.gamma(3.0, 0.5)
    return rng.standard_normal(D) * 0.7, kappa, spare + D + 1.0, spare * scale


def statistics(centre, kappa, nu, psi):
    spare = nu - D - 1.0
    scale = psi / spare
    correlation = scale[0, 1] / math.sqrt(scale[0, 0] * scale[1, 1])
    return [
        math.log(scale[0, 0]),
        math.log(scale[1, 1]),
        math.log(scale[0, 0]) ** 2,
        math.log(scale[1, 1]) ** 2,
        correlation,
        correlation**2,
        np.linalg.slogdet(scale)[1],
        math.log(spare),
        math.log(spare) ** 2,
        math.log(kappa),
        math.log(kappa) ** 2,
        *centre,
        *np.square(centre),
        math.log(spare) * math.log(scale[0, 0]),
        math.log(kappa) * centre[0] ** 2,
    ]


def joint_scores(updates, n_sweeps=20_000, seed=0, tail=0.0):
    """Updates and new clusters from the prior by turns must keep the hyperparameters' priors."""
    rng = np.random.default_rng(seed)
    prior = np.array([statistics(*from_priors(rng, tail)) for _ in range(8000)])
    family = normal_inverse_wishart(*from_priors(rng, tail), 8)
    counts = np.array([3.0, 1.0, 4.0, 0.0, 2.0, 0.0, 7.0, 0.0])
    at_these = At(family, gaussian_parameters(D, 8), counts)
    load, draw = compiled(load_from, family), compiled(draw_from, family)
    chain = np.empty((n_sweeps, prior.shape[1]))
    for row in chain:
        family.natural[:] = family.prior
        load(family, 0)
        draw(family, at_these.parameters, 0, rng)
        for update in updates:
            update.draw(at_these, rng)
        row[:] = statistics(*unpack(family.prior, D))
    means = chain.reshape(50, -1, chain.shape[1]).mean(axis=1)
    error = np.sqrt(means.var(axis=0, ddof=1) / 50 + prior.var(axis=0) / len(prior))
    t = (chain.mean(axis=0) - prior.mean(axis=0)) / error
    return np.abs(t).max(), stats.t.isf(0.5 * LEVEL / t.size, 49)


# In the default run they are part of the joint distributions of tests/geweke.
@pytest.mark.exact
@pytest.mark.parametrize("tail", [TAIL, 0.0])
@pytest.mark.parametrize("apart", [True, False])
def test_the_hyperparameters_keep_their_priors(apart, tail):
    together = ClusterHyperpriors(
        D, scale_prior(FULL, 6.0, SCALES, tail), 4.0, SpreadPrior(3.0, 2.0, 0.7)
    )
    worst, bound = joint_scores(learners(tail) if apart else [together], tail=tail)
    print(f"largest score {worst:.1f} of {bound:.1f}")
    assert worst < bound


class _Spoiled:
    """An update that is given wrong parameters."""

    def __init__(self, update, change):
        self.update, self.change = update, change

    def draw(self, chain, rng):
        self.update.draw(self.change(chain), rng)


def _wider(chain):
    return chain._replace(
        parameters=chain.parameters._replace(whiten=1.03 * chain.parameters.whiten)
    )


@pytest.mark.exact
def test_a_width_that_stays_as_it_was_fails():
    """Negative control: the mean of the mean covariance is taken for known."""
    worst, bound = joint_scores(learners(), tail=TAIL)
    assert worst > 1.2 * bound


@pytest.mark.exact
@pytest.mark.parametrize("at", [0, *(pytest.param(at, marks=pytest.mark.exact) for at in (1, 2))])
def test_an_update_with_wrong_covariances_fails(at):
    parts = list(learners())
    parts[at] = _Spoiled(parts[at], _wider)
    worst, bound = joint_scores(parts)
    assert worst > 1.2 * bound


def test_the_conditional_of_a_full_scale():
    """The draws are the Wishart that the inverse Wishart densities give."""
    rng = np.random.default_rng(0)
    nu = 5.5
    covariance = np.array([[[1.0, 0.5], [0.5, 2.0]], [[0.3, -0.1], [-0.1, 0.2]]])
    parameters = gaussian_parameters(D, 8)
    for k, sigma in enumerate(covariance):
        # Sigma^-1 = B'B with B lower triangular: the inverse of sigma's Cholesky factor.
        parameters.whiten[:, :, k] = np.linalg.inv(np.linalg.cholesky(sigma))
    family = normal_inverse_wishart(np.array([1.0, -2.0]), 0.3, nu, np.diag(SCALES), 8)
    at_these = At(family, parameters, np.array([3.0, 1.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0]))
    update = learners()[0]
    spare = nu - D - 1.0
    rate = np.diag(6.0 / SCALES) + spare * np.linalg.inv(covariance).sum(axis=0)
    exact = stats.wishart(6.0 + 2 * nu, np.linalg.inv(rate))

    def log_density(scale):
        value = stats.wishart.logpdf(scale, 6.0, np.diag(SCALES / 6.0))
        return value + sum(stats.invwishart.logpdf(c, nu, spare * scale) for c in covariance)

    at = exact.rvs(3, random_state=rng)
    gap = [log_density(scale) - exact.logpdf(scale) for scale in at]
    np.testing.assert_allclose(gap, gap[0], rtol=1e-9)
    draws = np.empty((4000, D, D))
    for row in draws:
        update.draw(at_these, rng)
        row[:] = common_of(family.prior, D).scale
    other = exact.rvs(4000, random_state=rng)
    for function in (
        lambda s: s[:, 0, 0],
        lambda s: s[:, 0, 1],
        lambda s: np.linalg.det(s),
    ):
        assert stats.ks_2samp(function(draws), function(other)).pvalue > LEVEL
    # Everything else of the prior stays.
    centre, kappa, nu_after, _ = unpack(family.prior, D)
    np.testing.assert_allclose(centre, [1.0, -2.0])
    assert (kappa, nu_after) == (0.3, nu)


def log_spare_density(x, form, covariance):
    """Of log(nu - d - 1) given covariances, S integrated out: joint over conditional, at any S."""
    spare = math.exp(x)
    nu, n = spare + D + 1.0, len(covariance)
    precision = np.linalg.inv(covariance).sum(axis=0)
    S = np.array([[0.5, 0.1], [0.1, 0.3]]) if form == FULL else np.diag([0.5, 0.3])
    value = x - 2.0 * np.log(4.0 + spare)
    value += sum(stats.invwishart.logpdf(sigma, nu, spare * S) for sigma in covariance)
    if form == FULL:
        value += stats.wishart.logpdf(S, 6.0, np.diag(SCALES / 6.0))
        rate = np.diag(6.0 / SCALES) + spare * precision
        return value - stats.wishart.logpdf(S, 6.0 + n * nu, np.linalg.inv(rate))
    s, rate = np.diag(S), 6.0 / SCALES
    value += stats.gamma.logpdf(s, 6.0, scale=1.0 / rate).sum()
    rate = rate + 0.5 * spare * np.diag(precision)
    return value - stats.gamma.logpdf(s, 6.0 + 0.5 * n * nu, scale=1.0 / rate).sum()


@pytest.mark.parametrize("form", [DIAGONAL, FULL], ids=["diagonal", "full"])
def test_degrees_of_freedom_given_the_covariances(form):
    """The density with the mean covariance integrated out, and hardly a trace of the last draw."""
    rng = np.random.default_rng(1)
    root = rng.standard_normal((4, D, D)) + 2.0 * np.eye(D)
    covariance = 0.3 * root @ root.transpose(0, 2, 1)
    parameters = gaussian_parameters(D, 8)
    for k, sigma in enumerate(covariance):
        lower = np.linalg.cholesky(sigma)
        parameters.whiten[:, :, k] = np.linalg.inv(lower)
        parameters.half_log_det[k] = np.log(np.diag(lower)).sum()
    family = normal_inverse_wishart(np.zeros(D), 0.3, 5.5, np.diag(SCALES), 8)
    at_these = At(family, parameters, np.array([3.0, 1.0, 5.0, 2.0, 0.0, 0.0, 0.0, 0.0]))
    update = ClusterHyperpriors(D, scale_prior(form, 6.0, SCALES), 4.0)
    draws = np.empty(6000)
    for j in range(draws.size):
        update.draw(at_these, rng)
        draws[j] = math.log(common_of(family.prior, D).nu[0] - D - 1.0)
    assert np.corrcoef(draws[1:], draws[:-1])[0, 1] < 0.2
    grid = np.linspace(math.log(LEAST), math.log(MOST), 400)

    def p_value(known):
        log_p = np.array([log_spare_density(x, form, known) for x in grid])
        cdf = np.concatenate([[0.0], np.cumsum(np.exp(log_p - log_p.max()))])
        middles = np.append(grid, grid[-1]) - 0.5 * (grid[1] - grid[0])
        return stats.kstest(np.interp(draws[::3], middles, cdf / cdf[-1]), "uniform").pvalue

    assert p_value(covariance) > LEVEL
    assert p_value(covariance[:3]) < 1e-6  # negative control: a cluster is forgotten


def test_log_densities_against_scipy():
    rng = np.random.default_rng(1)
    family = normal_inverse_wishart(*from_priors(rng), 8)
    chain = At(family, gaussian_parameters(D, 8), np.ones(8))
    common = common_of(family.prior, D)
    kappa, nu, scale = common.kappa[0], common.nu[0], common.scale
    full, df, spread = learners()
    assert full.log_density(chain) == pytest.approx(
        stats.wishart.logpdf(scale, 6.0, np.diag(SCALES / 6.0))
    )
    diagonal = ClusterHyperpriors(D, scale_prior(DIAGONAL, 2.5, SCALES, TAIL))
    diagonal.scale.mean[:] = mean = np.array([0.2, 5.0])
    assert diagonal.log_density(chain) == pytest.approx(
        stats.gamma.logpdf(np.diag(scale), 2.5, scale=mean / 2.5).sum()
        + stats.betaprime(TAIL, TAIL, scale=SCALES).logpdf(mean).sum()
    )
    spare = nu - D - 1.0
    ends = np.array([LEAST, MOST]) / (np.array([LEAST, MOST]) + 4.0)
    assert df.log_density(chain) == pytest.approx(
        math.log(4.0 / (4.0 + spare) ** 2 / (ends[1] - ends[0]))
    )
    assert spread.log_density(chain) == pytest.approx(
        stats.gamma.logpdf(kappa, 3.0, scale=0.5) + stats.norm.logpdf(common.centre, 0.0, 0.7).sum()
    )


class Widened(Update):
    """Takes the prior's scale up by six orders of magnitude."""

    changes = frozenset({CLUSTER_PRIOR})

    def draw(self, chain, rng):
        centre, kappa, nu, psi = unpack(chain.family.prior, 1)
        chain.family.prior[:] = pack(centre, kappa, nu, 1e6 * psi)


def test_empty_slots_of_the_naive_sampler_follow_the_scale():
    """Their parameters were drawn before it; a sampler that keeps them seats by stale ones."""
    rng = np.random.default_rng(4)
    chain = small.sampler("gaussian-naive", "dp", rng, updates=(Widened(),))
    variance = chain.collapse.parameters.whiten[0, 0] ** -2.0
    assert variance[chain.counts > 0].max() < 1e3
    assert variance[chain.counts == 0].min() > 1e4


def test_chains_share_nothing_of_an_update():
    """Chains are threads: an update with room of its own must not be another chain's too."""
    first, second = (small.collapse("gaussian-collapsed", updates=(FORMS["full"],)) for _ in "ab")
    assert len(first.updates) == 1
    assert first.updates[0] is not second.updates[0]
    assert not np.shares_memory(first.updates[0].n_drawn, second.updates[0].n_drawn)
    assert first.updates[0].scale.form == FULL
