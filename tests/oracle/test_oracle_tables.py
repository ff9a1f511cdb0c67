"""Kernels of categories, counts and overdispersed counts against SciPy."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import integrate, special, stats

from cavity._numba.jit import compiled
from cavity.conjugate.dirichlet import dirichlets, shares
from cavity.conjugate.gamma import gammas, rates, shape_of_gap
from cavity.interface import divergence, draw, evidence, evidences, load, log_partition, project
from cavity.likelihoods.categorical import categorical
from cavity.likelihoods.negative_binomial import negative_binomial
from cavity.likelihoods.poisson import poisson

SLOTS = 8


def _load(q, k):
    return load(q, k)


def _evidence(model, q, k, i):
    return evidence(model, q, k, i)


def _evidences(model, q, i, out):
    evidences(model, q, i, out)


def _project(model, q, k, i, fraction):
    project(model, q, k, i, fraction)


def _divergence(q, k, r, j):
    return divergence(q, k, r, j)


def _log_partition(q, k):
    return log_partition(q, k)


def _draw(q, k, parameters, rng):
    draw(q, k, parameters, rng)


def _shape_of_gap(gap):
    return shape_of_gap(gap)


def call(name, *args):
    """A verb as a kernel that a test can call."""
    return compiled(globals()[f"_{name}"], args)(*args)


def spread_gammas(rng):
    """Slots of all sizes."""
    shape, rate = np.exp(rng.normal(1.0, 2.0, SLOTS)), np.exp(rng.normal(0.0, 2.0, SLOTS))
    q = gammas([1.0], [1.0], SLOTS)
    q.natural[:, 0], q.natural[:, 1] = shape, rate
    for k in range(SLOTS):
        assert call("load", q, k)
    return q, shape, rate


def test_categories_are_as_probable_as_their_shares():
    rng = np.random.default_rng(0)
    start = np.array([0, 2, 5, 25])
    q = dirichlets(np.ones(25), start, SLOTS)
    q.natural[:] = rng.gamma(0.5, size=q.natural.shape) + 0.01
    for k in range(SLOTS):
        assert call("load", q, k)
    codes = np.array([[1, 2, 7], [-1, 0, -1], [-1, -1, -1]])
    model = categorical(codes, start, SLOTS)
    for i, row in enumerate(codes):
        expected = np.zeros(SLOTS)
        for j, c in enumerate(row):
            if c >= 0:
                own = q.natural[:, start[j] : start[j + 1]]
                expected += np.log(own[:, c] / own.sum(axis=1))
        out = np.empty(SLOTS)
        call("evidences", model, q, i, out)
        np.testing.assert_allclose(out, expected, rtol=1e-12, atol=1e-12)
        one = [call("evidence", model, q, k, i) for k in range(SLOTS)]
        np.testing.assert_allclose(one, expected, rtol=1e-12, atol=1e-12)


def test_many_columns_do_not_underflow():
    n_columns = 400
    start = np.arange(n_columns + 1) * 2
    prior = np.tile([1e-8, 1.0], n_columns)
    q = dirichlets(prior, start, SLOTS)
    model = categorical(np.zeros((1, n_columns), dtype=int), start, SLOTS)
    out = np.empty(SLOTS)
    call("evidences", model, q, 0, out)
    np.testing.assert_allclose(out, n_columns * np.log(1e-8 / (1.0 + 1e-8)), rtol=1e-12)


def test_counts_are_negative_binomial_given_a_gamma():
    rng = np.random.default_rng(1)
    q, shape, rate = spread_gammas(rng)
    y = np.array([[0.0], [1.0], [12.0], [13.0], [400.0], [1e6], [np.nan]])
    model = poisson(y, SLOTS)
    for i, value in enumerate(y[:, 0]):
        expected = stats.nbinom.logpmf(value, shape, rate / (rate + 1.0))
        expected = np.zeros(SLOTS) if np.isnan(value) else expected
        out = np.empty(SLOTS)
        call("evidences", model, q, i, out)
        np.testing.assert_allclose(out, expected, rtol=1e-9, atol=1e-8)
        one = [call("evidence", model, q, k, i) for k in range(SLOTS)]
        np.testing.assert_allclose(one, out, rtol=1e-9, atol=1e-8)


@pytest.mark.parametrize("fraction", [1.0, 0.5])
def test_overdispersed_counts_against_a_grid(fraction):
    """Evidence and the two matched moments, by the trapezoid rule on a fine grid."""
    x = np.linspace(-400.0, 20.0, 400_001)
    for shape, rate, r in [(1.0, 0.2, 2.0), (0.15, 3.0, 0.3), (300.0, 40.0, 20.0), (2.0, 1.0, 1e4)]:
        for y in (0.0, 4.0, 120.0):
            model = negative_binomial(np.array([[y]]), np.array([r]), SLOTS)
            log_w = stats.gamma.logpdf(np.exp(x), shape, scale=1.0 / rate) + x
            log_f = special.gammaln(y + r) - special.gammaln(r) - special.gammaln(y + 1.0)
            log_f = log_f + r * np.log(r) + y * x - (y + r) * np.log(r + np.exp(x))
            value = log_w + fraction * log_f + np.log(x[1] - x[0])
            total = special.logsumexp(value)
            w = np.exp(value - total)
            q = gammas([shape], [rate], SLOTS)
            if fraction == 1.0:
                assert call("evidence", model, q, 0, 0) == pytest.approx(total, abs=1e-8)
            call("project", model, q, 0, 0, fraction)
            mean, log_mean = w @ np.exp(x), w @ x
            a, b = q.natural[0]
            assert a / b == pytest.approx(mean, rel=1e-8)
            assert special.digamma(a) - np.log(b) == pytest.approx(log_mean, abs=1e-7)


def test_overdispersed_counts_become_poisson():
    q = gammas([2.0], [0.5], SLOTS)
    y = np.array([[3.0]])
    over = negative_binomial(y, np.array([1e9]), SLOTS)
    plain = poisson(y, SLOTS)
    assert call("evidence", over, q, 0, 0) == pytest.approx(
        call("evidence", plain, q, 0, 0), abs=1e-5
    )


@pytest.mark.parametrize("shape", [1e-2, 0.5, 3.0, 1e5])
def test_the_shape_of_a_gap(shape):
    gap = np.log(shape) - special.digamma(shape)
    assert call("shape_of_gap", gap) == pytest.approx(shape, rel=1e-8)


def test_normalisers_and_divergences():
    rng = np.random.default_rng(2)
    q, shape, rate = spread_gammas(rng)
    for k, j in ((0, 1), (2, 3)):
        a, b, c, d = shape[k], rate[k], shape[j], rate[j]
        assert call("log_partition", q, k) == pytest.approx(special.gammaln(a) - a * np.log(b))
        expected = (a - c) * special.digamma(a) - special.gammaln(a) + special.gammaln(c)
        expected += c * (np.log(b) - np.log(d)) + a * (d - b) / b
        assert call("divergence", q, k, q, j) == pytest.approx(expected, rel=1e-8, abs=1e-8)
    one = dirichlets([2.0, 1.3], [0, 2], SLOTS)
    two = dirichlets([0.7, 1.5], [0, 2], SLOTS)
    found = integrate.quad(
        lambda t: stats.beta.pdf(t, 2.0, 1.3)
        * (stats.beta.logpdf(t, 2.0, 1.3) - stats.beta.logpdf(t, 0.7, 1.5)), 0.0, 1.0, limit=400
    )[0]  # fmt: skip
    assert call("divergence", one, 0, two, 0) == pytest.approx(found, rel=1e-4)


def test_draws_have_their_moments():
    rng = np.random.default_rng(3)
    q = dirichlets([0.05, 2.0, 4.0, 1.0, 3.0], [0, 3, 5], SLOTS)
    room, drawn = shares(5, SLOTS), []
    g, of_rates, rates_drawn = gammas([0.3], [2.0], SLOTS), rates(1, SLOTS), []
    for _ in range(3000):
        call("draw", q, 0, room, rng)
        drawn.append(room.share[:, 0].copy())
        call("draw", g, 0, of_rates, rng)
        rates_drawn.append(of_rates.rate[0, 0])
    expected = np.array([0.05, 2.0, 4.0, 0.0, 0.0]) / 6.05 + np.array([0, 0, 0, 1.0, 3.0]) / 4.0
    # Five standard errors of a share whose deviation is at most a half.
    np.testing.assert_allclose(np.mean(drawn, axis=0), expected, atol=5 * 0.3 / np.sqrt(3000))
    assert np.mean(rates_drawn) == pytest.approx(0.15, abs=5 * np.sqrt(0.3) / 2.0 / np.sqrt(3000))
