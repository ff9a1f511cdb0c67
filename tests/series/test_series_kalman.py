"""Kalman kernels of one series against one dense joint Gaussian."""

from __future__ import annotations

import math

import numpy as np
import pytest
import series_oracle as oracle

from cavity._numba.jit import jit
from cavity._numba.simd import whole_vectors
from cavity.series import kalman
from cavity.series.state_space import PRECISION, SHIFT, factor_series

CASES = {
    "several per cell and gaps": {},
    "no gaps": {"missing": 0.0, "most": 1},
    "covariates": {"p": 2},
    "intercept": {"p": 3, "intercept": True},
    "one time": {"n_times": 1, "missing": 0.0},
    "one time, all missing": {"n_times": 1, "missing": 1.1},
    "no data at all": {"missing": 1.1},
    "one observation": {"missing": 0.92, "most": 1},
    "other units": {"scale": 1e-7},
}


@pytest.fixture(params=CASES, ids=list(CASES))
def case(request):
    rng = np.random.default_rng(11)
    m, rows = oracle.model_of(rng, n_slots=11, **CASES[request.param])
    n_times = m.cells.y.shape[1]
    mean = np.zeros((n_times, whole_vectors(11)))
    variance = np.ones((n_times, whole_vectors(11)))
    mean[:, :11] = rng.standard_normal((n_times, 11))
    variance[:, :11] = rng.uniform(0, 1, (n_times, 11))
    variance[:, 3] = 0.0
    return m, rows, mean, variance


def test_likelihood_of_one_series(case):
    m, rows, mean, variance = case
    for i in range(len(m.own.a)):
        for k in (0, 3):
            expected = oracle.joint_loglik(m, rows, [i], mean[:, k], np.diag(variance[:, k]))
            got = kalman.log_likelihood(m, i, mean, variance, k)
            assert got == pytest.approx(expected, rel=1e-10, abs=1e-10)


@pytest.mark.parametrize("n_slots", [1, 8, 9, 11])
def test_scores_of_all_clusters_at_once(case, n_slots):
    m, rows, mean, variance = case
    out = np.empty((2, n_slots))
    for i in range(len(m.own.a)):
        kalman.prepare(m, m.scratch.row, i)
        kalman.score_lanes(m, i, mean, variance, 1.0, out)
        constant = kalman.observation_constant(m, i)
        for k in range(n_slots):
            expected = oracle.joint_loglik(m, rows, [i], mean[:, k], np.diag(variance[:, k]))
            assert out[0, k] + constant == pytest.approx(expected, rel=1e-10, abs=1e-10)
            m.own.loading[i] *= -1.0
            expected = oracle.joint_loglik(m, rows, [i], mean[:, k], np.diag(variance[:, k]))
            m.own.loading[i] *= -1.0
            assert out[1, k] + constant == pytest.approx(expected, rel=1e-10, abs=1e-10)


def test_tilted_moments(case):
    m, rows, mean, variance = case
    for i in range(len(m.own.a)):
        for k in (0, 1):
            kalman.prepare(m, m.scratch.row, i)
            kalman.filter_forward(m.scratch.row, kalman.dynamics(m, i), mean, variance, k)
            kalman.tilted_site(m.scratch.row, kalman.dynamics(m, i), mean, variance, k)
            precision, shift = m.scratch.row[PRECISION], m.scratch.row[SHIFT]
            expected, cov = oracle.eta_posterior(m, rows, [i], mean[:, k], np.diag(variance[:, k]))
            total = 1 / variance[:, k] + precision
            np.testing.assert_allclose(1 / total, np.diag(cov), rtol=1e-10)
            got = (mean[:, k] / variance[:, k] + shift) / total
            np.testing.assert_allclose(got, expected, rtol=1e-9, atol=1e-10)
            assert (precision >= 0).all()


@jit
def _many_draws(m, i, mean, variance, k, out, rng):
    kalman.prepare(m, m.scratch.row, i)
    kalman.filter_forward(m.scratch.row, kalman.dynamics(m, i), mean, variance, k)
    for s in range(out.shape[0]):
        kalman.draw_states(m.scratch.row, kalman.dynamics(m, i), mean, variance, k, out[s], rng)


@pytest.mark.parametrize("k", [3, 0], ids=["factor known", "factor integrated out"])
def test_state_draws_have_the_smoothed_moments(k):
    # z-scores of 13 means and 13 variances: 26 comparisons at 4.5 sigma, false alarm below 2e-4
    rng = np.random.default_rng(5)
    m, rows = oracle.model_of(rng, n_times=12, most=2)
    mean, variance = rng.standard_normal((12, 8)), rng.uniform(0, 1, (12, 8))
    variance[:, 3] = 0.0
    n = 20_000
    draws = np.empty((n, 13))
    i = 0
    _many_draws(m, i, mean, variance, k, draws, rng)
    prior_mean, prior_cov = oracle.state_moments(m, i, mean[:, k], variance[:, k])
    times = rows[rows[:, 0] == i, 1].astype(int) + 1
    y = rows[rows[:, 0] == i, 2]
    total = prior_cov[np.ix_(times, times)] + m.own.var_y[i] * np.eye(len(times))
    gain = np.linalg.solve(total, prior_cov[times]).T
    post_mean = prior_mean + gain @ (y - prior_mean[times])
    post_cov = prior_cov - gain @ prior_cov[times]
    sd = np.sqrt(np.diag(post_cov))
    z = (draws.mean(0) - post_mean) / (sd / math.sqrt(n))
    assert np.abs(z).max() < 4.5
    z = (draws.var(0) / sd**2 - 1) / math.sqrt(2 / n)
    assert np.abs(z).max() < 4.5
    lag = np.corrcoef(draws[:, 4], draws[:, 5])[0, 1]
    expected = post_cov[4, 5] / (sd[4] * sd[5])
    assert abs(math.atanh(lag) - math.atanh(expected)) < 4.5 / math.sqrt(n)


@pytest.mark.parametrize("a", [1 - 1e-14, 0.999, -0.999999, 0.0])
@pytest.mark.parametrize("var_x", [1e-14, 1e-3, 1e8])
@pytest.mark.parametrize("var_y", [1e-12, 1.0, 1e12])
@pytest.mark.parametrize("loading", [0.0, 1e-8, 1.0, 1e6])
def test_extremes_stay_finite(a, var_x, var_y, loading):
    rng = np.random.default_rng(2)
    n_times = 700
    y = np.cumsum(rng.standard_normal((1, n_times)), axis=1)
    y[0, 100:400] = np.nan
    m = factor_series(y, a=a, loading=loading, var_x=var_x, var_y=var_y, n_slots=9)
    mean = rng.standard_normal((n_times, 16))
    variance = rng.uniform(1e-12, 1, (n_times, 16))
    out = np.empty((2, 9))
    kalman.prepare(m, m.scratch.row, 0)
    kalman.score_lanes(m, 0, mean, variance, 1.0, out)
    assert np.isfinite(out).all()
    single = kalman.filter_forward(m.scratch.row, kalman.dynamics(m, 0), mean, variance, 4)
    assert out[0, 4] == pytest.approx(single, rel=1e-8)
    kalman.tilted_site(m.scratch.row, kalman.dynamics(m, 0), mean, variance, 4)
    precision, shift = m.scratch.row[PRECISION], m.scratch.row[SHIFT]
    assert np.isfinite(precision).all()
    assert np.isfinite(shift).all()
    assert (precision >= 0).all()
    x = np.empty(n_times + 1)
    kalman.draw_states(m.scratch.row, kalman.dynamics(m, 0), mean, variance, 4, x, rng)
    assert np.isfinite(x).all()


def test_long_series_are_rescaled_without_loss():
    rng = np.random.default_rng(3)
    y = rng.standard_normal((1, 20_000))
    m = factor_series(y, a=0.9, loading=1.0, var_x=0.1, var_y=0.01, n_slots=8)
    mean, variance = rng.standard_normal((20_000, 8)), rng.uniform(0, 1, (20_000, 8))
    out = np.empty((2, 8))
    kalman.prepare(m, m.scratch.row, 0)
    assert kalman.segment_length(kalman.dynamics(m, 0), 20_000, 100.0, 1.0) < 20_000
    kalman.score_lanes(m, 0, mean, variance, 1.0, out)
    for k in range(8):
        assert out[0, k] == pytest.approx(
            kalman.filter_forward(m.scratch.row, kalman.dynamics(m, 0), mean, variance, k),
            rel=1e-12,
        )
