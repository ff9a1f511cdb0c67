"""Scales of Student-t observations: exact draws against the density by quadrature."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import integrate, stats

from cavity._numba.jit import jit
from cavity.conjugate.niw import gaussian_parameters
from cavity.interface import log_densities, log_density
from cavity.likelihoods.gaussian import set_log_norms
from cavity.likelihoods.sampled_student_t import (
    draw_scale,
    draw_scale_of_shape,
    marginal_student_t,
)

LEVEL = 1e-5  # of each test; 37 cases

CASES = [
    (alpha, d, kappa, d + 3.0, delta)
    for alpha in (0.3, 2.0, 40.0)
    for d, kappa in ((1, 0.05), (3, 4.0))
    for delta in (0.0, 0.5, 30.0, 1e6)
]
# Larger clusters, in which simple bounds decide most draws: a row among the others, and far out.
CASES += [
    (alpha, d, float(size), d + 1.0 + size, distance / size)
    for alpha in (0.3, 2.0, 40.0)
    for d, size, distance in ((2, 8, 2.0), (3, 400, 3.0), (10, 60, 200.0))
]


@jit
def many(out, alpha, d, kappa, nu, delta, rng):
    for j in range(out.shape[0]):
        out[j] = draw_scale(alpha, d, kappa, nu, delta, rng)


@jit
def many_by_reach(out, alpha, d, kappa, nu, delta, reach, tail, rng):
    for j in range(out.shape[0]):
        a = alpha + 0.5 * d
        out[j] = draw_scale_of_shape(alpha, a, d, kappa, nu + 1.0, delta, reach, tail, rng)


def log_f(log_u, alpha, d, kappa, nu, delta):
    """Log density of log u, up to a constant, as a textbook writes it."""
    u = np.exp(log_u)
    shrink = kappa / (kappa + u)
    value = stats.gamma.logpdf(u, alpha, scale=1.0 / alpha) + log_u
    return value + 0.5 * d * np.log(u * shrink) - 0.5 * (nu + 1) * np.log1p(u * shrink * delta)


def p_value(draws, alpha, d, kappa, nu, delta):
    """Of the draws under the density, by Kolmogorov and Smirnov's test."""
    grid = np.linspace(-60.0 / alpha if alpha < 1 else -40.0, 12.0, 200_001)
    log_p = log_f(grid, alpha, d, kappa, nu, delta)
    p = np.exp(log_p - log_p.max())
    cdf = integrate.cumulative_trapezoid(p, grid, initial=0.0)
    cdf /= cdf[-1]
    return stats.kstest(np.interp(np.log(draws), grid, cdf), "uniform").pvalue


@pytest.mark.parametrize(("alpha", "d", "kappa", "nu", "delta"), CASES)
def test_draws_follow_the_density(alpha, d, kappa, nu, delta):
    rng = np.random.default_rng(0)
    draws = np.empty(4000)
    many(draws, alpha, d, kappa, nu, delta, rng)
    assert p_value(draws, alpha, d, kappa, nu, delta) > LEVEL


@pytest.mark.parametrize("reach", [1.3, 2.0])
@pytest.mark.parametrize("case", [(2.0, 2, 30.0, 34.0, 0.07), (0.8, 1, 9.0, 12.0, 0.1)])
def test_draws_from_the_tail_follow_the_density(reach, case):
    """A gamma that ends so early that many draws are from beyond it."""
    a = case[0] + 0.5 * case[1]
    reach *= a
    tail = math.exp((a - 1.0) * math.log(reach) - reach - math.lgamma(a))
    draws = np.empty(20_000)
    many_by_reach(draws, *case, reach, tail, np.random.default_rng(4))
    assert p_value(draws, *case) > LEVEL
    # Negative control: a tail of half its weight.
    many_by_reach(draws, *case, reach, 0.5 * tail, np.random.default_rng(4))
    assert p_value(draws, *case) < LEVEL


def test_a_wrong_envelope_is_noticed():
    """Negative control: the two gammas themselves, never refused, are not the density."""
    rng = np.random.default_rng(1)
    alpha, d, kappa, nu, delta = 2.0, 3, 4.0, 6.0, 30.0
    draws = rng.gamma(alpha + 0.5 * d, 1.0 / (alpha + 0.5 * (d / kappa + (nu + 1) * delta)), 4000)
    grid = np.linspace(-40.0, 12.0, 200_001)
    log_p = log_f(grid, alpha, d, kappa, nu, delta)
    cdf = integrate.cumulative_trapezoid(np.exp(log_p - log_p.max()), grid, initial=0.0)
    ranks = np.interp(np.log(draws), grid, cdf / cdf[-1])
    assert stats.kstest(ranks, "uniform").pvalue < LEVEL


def test_a_scale_is_always_a_number():
    rng = np.random.default_rng(2)
    out = np.empty(20)
    for alpha in (0.05, 1e5):
        for kappa in (1e-12, 1e12):
            for delta in (0.0, 1e200, math.nan):
                many(out, alpha, 2, kappa, 3.0, delta, rng)
                if not math.isnan(delta):
                    assert np.all((out > 0) & np.isfinite(out))


@jit
def _density(model, parameters, k, i):
    return log_density(model, parameters, k, i)


@jit
def _densities(model, parameters, i, out):
    log_densities(model, parameters, i, out)


def test_the_closed_density_against_scipy():
    rng = np.random.default_rng(3)
    y = rng.standard_normal((4, 3))
    alpha = rng.uniform(0.5, 20.0, 8)
    model = marginal_student_t(y, alpha)
    parameters = gaussian_parameters(3, 8)
    out = np.empty(8)
    for k in range(8):
        root = np.tril(0.3 * rng.standard_normal((3, 3))) + 2.0 * np.eye(3)
        parameters.whiten[:, :, k] = np.linalg.inv(root)
        parameters.half_log_det[k] = np.log(np.diag(root)).sum()
        parameters.mean[:, k] = rng.standard_normal(3)
    for i in range(4):
        _densities(model, parameters, i, out)
        for k in range(8):
            root = np.linalg.inv(parameters.whiten[:, :, k])
            t = stats.multivariate_t(parameters.mean[:, k], root @ root.T, 2.0 * alpha[k])
            assert _density(model, parameters, k, i) == pytest.approx(t.logpdf(y[i]), rel=1e-10)
            assert out[k] == pytest.approx(t.logpdf(y[i]), rel=1e-9)
    model.alpha[:] = 3.0
    set_log_norms(model.alpha, 3, model.log_norm)
    assert np.ptp(model.log_norm) == 0.0
