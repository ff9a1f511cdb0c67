"""The learned scale of the covariances: partitions and scale as often as enumeration says."""

from __future__ import annotations

from typing import Any, NamedTuple

import enumeration
import numpy as np
import pytest
import small
from scipy import stats

from cavity.families.normal_inverse_wishart import (
    gaussian_parameters,
    normal_inverse_wishart,
    pack,
    unpack,
)
from cavity.priors.covariance_scale import CovarianceScaleUpdate, gamma_above
from cavity.updates import CLUSTER_PRIOR, Update

LEVEL = 1e-4
N_SWEEPS = 8000


class At(NamedTuple):
    """What the update looks at of a chain."""

    family: Any
    parameters: Any
    counts: np.ndarray


def learner():
    return CovarianceScaleUpdate(small.SCALE_SHAPE, np.ones(1), np.full(1, small.SCALE_FLOOR))


def run(name, prior, seed, n_sweeps=N_SWEEPS):
    """Visited states and log scales of a chain that learns the scale."""
    rng = np.random.default_rng(seed)
    exact, (log_psi, share) = small.exact_with_scale(small.likelihood_of(name), prior)
    chain = small.sampler(name, prior, rng, updates=(learner(),))
    labels = np.empty((n_sweeps, small.N), dtype=int)
    found = np.empty(n_sweeps)
    for j in range(-50, n_sweeps):
        chain.sweep(rng)
        if j >= 0:
            labels[j] = chain.labels()
            # The prior mean of a variance is psi over nu - 2.
            record = chain.updates[-1].record(chain)
            found[j] = np.log(record["covariance_prior_scale"][0] * (small.NIW.nu - 2.0))
    return exact, enumeration.lookup(exact, labels), found, (log_psi, share)


def score(found, log_psi, share, n_batches=40):
    """How far the mean of the log scale is from the exact one, in its standard errors."""
    means = found[: len(found) // n_batches * n_batches].reshape(n_batches, -1).mean(axis=1)
    exact = (log_psi * share).sum()
    return (means.mean() - exact) / (means.std(ddof=1) / np.sqrt(n_batches))


@pytest.mark.parametrize("prior", ["dirichlet", "dp"])
@pytest.mark.parametrize("name", small.EXACT_SAMPLERS)
def test_frequencies_of_partitions_and_the_mean_scale(name, prior):
    exact, visited, found, grid = run(name, prior, seed=sum(map(ord, name + prior)))
    result = enumeration.compare(exact, visited)
    z = score(found, *grid)
    print(f"{name}, {prior}: {result}, scale {z:.2f} standard errors off")
    assert result.p_value > LEVEL
    assert abs(z) < stats.t.isf(0.5 * LEVEL, 39)


def test_a_fixed_scale_is_told_from_a_learned_one():
    """The comparison has power: the posterior under psi = 1 is another one."""
    _, visited, _, _ = run("gaussian-collapsed", "dp", seed=1)
    assert enumeration.compare(small.exact("gaussian", "dp"), visited).p_value < 1e-8


@pytest.mark.parametrize("name", ["gaussian-collapsed", "gaussian-naive"])
def test_a_scale_that_forgets_a_cluster_fails(name, monkeypatch):
    right = CovarianceScaleUpdate.draw

    def without_one(self, chain, rng):
        some = chain.counts.copy()
        some[np.flatnonzero(some)[1:2]] = 0
        right(self, At(chain.family, chain.parameters, some), rng)

    monkeypatch.setattr(CovarianceScaleUpdate, "draw", without_one)
    _, _, found, grid = run(name, "dp", seed=2, n_sweeps=16_000)
    assert abs(score(found, *grid)) > stats.t.isf(0.5e-8, 39)


def test_a_scale_without_its_floor_fails():
    _, (log_psi, share) = small.exact_with_scale("gaussian", "dp")
    rng = np.random.default_rng(3)
    update = CovarianceScaleUpdate(small.SCALE_SHAPE, np.ones(1), np.zeros(1))
    chain = small.sampler("gaussian-collapsed", "dp", rng, updates=(update,))
    found = np.empty(12_000)
    for j in range(len(found)):
        chain.sweep(rng)
        found[j] = np.log(unpack(chain.collapse.family.prior, 1)[3][0, 0])
    assert abs(score(found, log_psi, share)) > stats.t.isf(0.5e-8, 39)


@pytest.mark.parametrize("prior", ["dirichlet", "dp"])
def test_distance_of_ep_from_exact(prior, record_property):
    """Measured 0.03 and 0.02, with room: see `excess` of test_limits for the level, 4e-6 each."""
    exact, visited, found, (log_psi, share) = run("student-t-ep", prior, seed=5, n_sweeps=12_000)
    result = enumeration.compare(exact, visited)
    excess = np.sqrt(max(result.total_variation**2 - result.noise**2, 0.0))
    bias = found.mean() - (log_psi * share).sum()
    record_property("total variation", float(result.total_variation))
    record_property("bias of the log scale", float(bias))
    print(f"EP, {prior}: {result}, excess {excess:.3f}, log scale off by {bias:.3f}")
    assert excess < 0.06
    assert abs(bias) < 0.15


def test_the_conditional_in_two_dimensions():
    """Each column's draws are the gamma that the inverse Wishart density gives."""
    rng = np.random.default_rng(0)
    d, nu, shape, mean = 2, 5.0, 1.5, np.array([0.4, 2.0])
    covariance = np.array([[[1.0, 0.5], [0.5, 2.0]], [[0.3, -0.1], [-0.1, 0.2]]])
    parameters = gaussian_parameters(d, 8)
    for k, sigma in enumerate(covariance):
        # Sigma^-1 = B'B with B lower triangular: the inverse of sigma's Cholesky factor.
        parameters.whiten[:, :, k] = np.linalg.inv(np.linalg.cholesky(sigma))
    family = normal_inverse_wishart(np.array([1.0, -2.0]), 0.3, nu, np.diag(mean), 8)
    counts = np.array([3, 1, 0, 0, 0, 0, 0, 0])
    update = CovarianceScaleUpdate(shape, mean, np.zeros(d))
    at_these = At(family, parameters, counts)
    draws = np.empty((4000, d))
    for row in draws:
        update.draw(at_these, rng)
        row[:] = update.record(at_these)["covariance_prior_scale"] * (nu - d - 1.0)
    precision = np.linalg.inv(covariance)

    def log_density(psi):
        value = stats.gamma.logpdf(psi, shape, scale=mean / shape).sum()
        for k in range(2):
            value += stats.invwishart.logpdf(covariance[k], nu, np.diag(psi))
        return value

    for j in range(d):
        rate = shape / mean[j] + 0.5 * precision[:, j, j].sum()
        exact = stats.gamma(shape + 2 * 0.5 * nu, scale=1.0 / rate)
        # The same density as by the definition, up to a constant.
        at = [np.where(np.arange(d) == j, x, mean) for x in (0.3, 0.9, 2.5)]
        gap = [log_density(psi) - exact.logpdf(psi[j]) for psi in at]
        np.testing.assert_allclose(gap, gap[0], rtol=1e-9)
        assert stats.kstest(draws[:, j], exact.cdf).pvalue > LEVEL
    # Everything else of the prior stays.
    centre, kappa, nu_after, _ = unpack(family.prior, d)
    np.testing.assert_allclose(centre, [1.0, -2.0])
    assert (kappa, nu_after) == (0.3, nu)


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


@pytest.mark.parametrize(
    ("floor", "shape"),
    [(0.0, 6.5), (1.0, 6.5), (3.0, 6.5), (8.0, 6.5), (30.0, 6.5), (200.0, 500.0), (260.0, 500.0)],
)
def test_gammas_above_a_floor(floor, shape):
    rng = np.random.default_rng(2)
    rate = np.full(4000, 2.5)
    draws = gamma_above(np.full(4000, floor), shape, rate, rng)
    exact = stats.gamma(shape, scale=1.0 / rate[0])
    assert draws.min() >= floor
    assert stats.kstest(exact.sf(draws) / exact.sf(floor), "uniform").pvalue > LEVEL


def test_gammas_above_a_floor_beyond_the_range_of_their_tail():
    """As good as the floor plus an exponential, whose mean is 1 / (rate - (shape - 1) / floor)."""
    rng = np.random.default_rng(3)
    floor, shape, rate = 5.0, 6.5, 1000.0
    excess = gamma_above(np.full(4000, floor), shape, np.full(4000, rate), rng) - floor
    assert stats.kstest(excess * (rate - (shape - 1.0) / floor), "expon").pvalue > LEVEL


def test_a_cluster_without_width_cannot_take_the_scale_below_its_floor():
    rng = np.random.default_rng(1)
    parameters = gaussian_parameters(1, 8)
    parameters.whiten[0, 0, :] = 1e9
    family = normal_inverse_wishart(np.zeros(1), 0.1, 3.0, np.eye(1), 8)
    update = CovarianceScaleUpdate(0.5, np.ones(1), np.full(1, 1e-6))
    for _ in range(20):
        at_these = At(family, parameters, np.ones(8, dtype=int))
        update.draw(at_these, rng)
        assert update.record(at_these)["covariance_prior_scale"][0] == pytest.approx(1e-6)
