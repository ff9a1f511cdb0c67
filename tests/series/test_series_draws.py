"""Conditional draws against their textbook distributions."""

from __future__ import annotations

import math

import numpy as np
import pytest
import series_oracle as oracle
from scipy import stats

from cavity._numba.jit import jit
from cavity._numba.numerics import truncated_normal
from cavity.series import parameters
from cavity.series.coefficients import draw_hyper

FLAT = parameters.SeriesPriors(
    3.0, 0.2, 2.5, 0.7, np.zeros(0), np.zeros(0), np.zeros(0), np.zeros(0)
)
POPULATION = np.array([0.3, 2.0, 0.5, 1.5])
ALL = parameters.EVERYTHING
LEVEL = 1e-4  # of each Kolmogorov-Smirnov test, at fixed seeds


@jit
def _truncated(rng, mean, sd, low, high, out):
    for s in range(out.shape[0]):
        out[s] = truncated_normal(rng, mean, sd, low, high)


@pytest.mark.parametrize(
    ("mean", "sd"),
    [(0.2, 0.1), (0.99, 0.1), (0, 5), (3, 1), (-8, 0.5), (1.5, 1e-3), (-1.0001, 1e-5), (40, 0.7)],
)
def test_truncated_normal_is_right_in_the_bulk_and_in_the_tails(mean, sd):
    out = np.empty(20_000)
    _truncated(np.random.default_rng(1), mean, sd, -1.0, 1.0, out)
    assert (np.abs(out) < 1).all()
    alpha, beta = (-1 - mean) / sd, (1 - mean) / sd
    reference = stats.truncnorm(alpha, beta, loc=mean, scale=sd)
    assert stats.kstest(out, reference.cdf).pvalue > LEVEL


def test_clamping_would_be_caught():
    rng = np.random.default_rng(1)
    clamped = np.clip(rng.normal(0.99, 0.1, 20_000), -1 + 1e-12, 1 - 1e-12)
    reference = stats.truncnorm((-1 - 0.99) / 0.1, (1 - 0.99) / 0.1, loc=0.99, scale=0.1)
    assert stats.kstest(clamped, reference.cdf).pvalue < LEVEL


@jit
def _dynamics(m, i, x, mean, k, moving, rng, out):
    for s in range(out.shape[0]):
        parameters.draw_dynamics(m, i, x, mean, k, moving, rng)
        out[s, 0] = m.own.a[i]
        out[s, 1] = m.own.loading[i]
        if m.own.common.shape[0] > 0:
            out[s, 2] = m.own.common[i]


@pytest.mark.parametrize("shift", [0.0, 1.2], ids=["inside", "against the unit root"])
def test_autoregression_and_loading_jointly(shift):
    rng = np.random.default_rng(3)
    m, _ = oracle.model_of(rng, n=1, n_times=25, var_x=0.3, population=POPULATION)
    eta = rng.standard_normal((25, 2))
    x = np.zeros(26)
    for t in range(25):
        x[t + 1] = (0.4 + shift) * x[t] + 0.8 * eta[t, 1] + rng.normal(0, 0.5)
        x[t + 1] = np.clip(x[t + 1], -4, 4)
    out = np.empty((20_000, 2))
    _dynamics(m, 0, x, eta, 1, ALL, rng, out)
    D = np.column_stack([x[:-1], eta[:, 1]])
    precision = D.T @ D / 0.3 + np.diag([2.0, 1.5])
    shift_vector = D.T @ x[1:] / 0.3 + np.array([2.0 * 0.3, 1.5 * 0.5])
    mean = np.linalg.solve(precision, shift_vector)
    cov = np.linalg.inv(precision)
    sd = math.sqrt(cov[0, 0])
    reference = stats.truncnorm((-1 - mean[0]) / sd, (1 - mean[0]) / sd, loc=mean[0], scale=sd)
    assert stats.kstest(out[:, 0], reference.cdf).pvalue > LEVEL
    # given a, the loading is normal
    conditional = (shift_vector[1] - precision[0, 1] * out[:, 0]) / precision[1, 1]
    z = (out[:, 1] - conditional) * math.sqrt(precision[1, 1])
    assert stats.kstest(z, "norm").pvalue > LEVEL


@pytest.mark.parametrize("which", ["a", "loading"])
def test_one_of_the_two_held_fixed(which):
    rng = np.random.default_rng(3)
    m, _ = oracle.model_of(rng, n=1, n_times=25, var_x=0.3, population=POPULATION)
    before = m.own.a[0], m.own.loading[0]
    eta, x = rng.standard_normal((25, 1)), rng.standard_normal(26)
    out = np.empty((5_000, 2))
    _dynamics(m, 0, x, eta, 0, ALL._replace(**{which: False}), rng, out)
    D = np.column_stack([x[:-1], eta[:, 0]])
    precision = D.T @ D / 0.3 + np.diag([2.0, 1.5])
    shift = D.T @ x[1:] / 0.3 + np.array([2.0 * 0.3, 1.5 * 0.5])
    if which == "a":
        assert (out[:, 0] == before[0]).all()
        loc = (shift[1] - precision[0, 1] * before[0]) / precision[1, 1]
        reference = stats.norm(loc, precision[1, 1] ** -0.5)
        assert stats.kstest(out[:, 1], reference.cdf).pvalue > LEVEL
    else:
        assert (out[:, 1] == before[1]).all()
        loc = (shift[0] - precision[0, 1] * before[1]) / precision[0, 0]
        sd = precision[0, 0] ** -0.5
        reference = stats.truncnorm((-1 - loc) / sd, (1 - loc) / sd, loc=loc, scale=sd)
        assert stats.kstest(out[:, 0], reference.cdf).pvalue > LEVEL


@jit
def _noise(m, i, x, prior, rng, out):
    for s in range(out.shape[0]):
        parameters.draw_noise(m, i, x, prior, rng)
        out[s] = m.own.var_y[i]


def test_observation_variance_uses_every_observation_of_a_cell():
    rng = np.random.default_rng(4)
    m, rows = oracle.model_of(rng, n=2, n_times=10, p=2)
    x = rng.standard_normal(11)
    out = np.empty(10_000)
    _noise(m, 1, x, FLAT, rng, out)
    mine = rows[rows[:, 0] == 1]
    e = mine[:, 2] - mine[:, 3:] @ m.own.beta[1] - x[mine[:, 1].astype(int) + 1]
    reference = stats.invgamma(2.5 + len(e) / 2, scale=0.7 + (e @ e) / 2)
    assert stats.kstest(out, reference.cdf).pvalue > LEVEL


@jit
def _hyper(beta, centre, spread, prior, rng, out):
    for s in range(out.shape[0]):
        draw_hyper(beta, centre, spread, prior, rng)
        out[s, 0] = centre[0]
        out[s, 1] = spread[0]


def test_hyper_parameters_reach_their_posterior():
    rng = np.random.default_rng(7)
    beta = rng.normal(1.0, 0.7, (12, 1))
    one = np.ones(1)
    prior = FLAT._replace(beta_mean=0.2 * one, beta_precision=one, beta_shape=3 * one,
                          beta_scale=0.5 * one)  # fmt: skip
    out = np.empty((40_000, 2))
    _hyper(beta, np.zeros(1), np.ones(1), prior, rng, out)
    centre = np.linspace(-2, 4, 600)[:, None]
    log_var = np.linspace(-4, 3, 500)[None]
    log_post = -0.5 * (centre - 0.2) ** 2 - 3 * log_var - 0.5 * np.exp(-log_var)
    log_post = log_post - 6 * log_var
    log_post = log_post - 0.5 * ((beta[:, 0] - centre[..., None]) ** 2).sum(-1) * np.exp(-log_var)
    w = np.exp(log_post - log_post.max())
    w /= w.sum()
    mean_c = (w * centre).sum()
    mean_v = (w * log_var).sum()
    # Successive draws are nearly independent here: 4.5 standard errors, doubled for what is not; a
    # false alarm below 2e-5 for the two means.
    assert abs(out[:, 0].mean() - mean_c) < 9 * out[:, 0].std() / 200
    logs = np.log(out[:, 1])
    assert abs(logs.mean() - mean_v) < 9 * logs.std() / 200
