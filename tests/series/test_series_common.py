"""The common factor: its conditional draws, and partitions with it integrated out."""

from __future__ import annotations

import math

import numpy as np
import pytest
import series_oracle as oracle
from scipy import stats
from test_series_draws import ALL, POPULATION, _dynamics
from test_series_sampler import (
    LEVEL,
    chain,
    chi_square,
    frequencies,
    log_partition_prior,
    partitions,
    prior_of,
)

from cavity._numba.jit import jit
from cavity.series.cluster_information import information_matrix
from cavity.series.common_factor import draw_common_given_states, draw_common_jointly
from cavity.series.likelihood import factor_paths
from cavity.series.moves import add_to_sums, clear_sums, state_sums
from cavity.series.state_space import factor_series


def with_common(m, loadings):
    """The same series with a common factor, at zero."""
    n_times = m.cells.y.shape[1]
    own = m.own._replace(common=np.array(loadings, dtype=float), common_factor=np.zeros(n_times))
    return m._replace(own=own)


@pytest.fixture(scope="module")
def small():
    rng = np.random.default_rng(31)
    m, rows = oracle.model_of(rng, n=5, n_times=7, p=1, missing=0.25, most=2, var_x=0.2)
    m.own.loading[:] = [1.3, -1.1, 0.9, 1.5, -0.8]
    m.own.a[:] = [0.8, 0.5, 0.9, -0.3, 0.7]
    return with_common(m, [0.9, 1.2, -0.4, 0.7, 1.0]), rows


def dense(m, rows, z):
    """Mean and covariance of all observations given labels, both factors integrated out."""
    n_times = m.cells.y.shape[1]
    series, times = rows[:, 0].astype(int), rows[:, 1].astype(int)
    total = np.diag(m.own.var_y[series])
    common = np.zeros((len(rows), n_times))
    loads = [np.zeros((len(rows), n_times)) for _ in range(max(z) + 1)]
    for i in range(len(m.own.a)):
        at = series == i
        full = oracle.propagate(m.own.a[i], n_times)
        start = m.own.a[i] ** np.arange(1, n_times + 1)
        cov = m.own.var_x[0] * full @ full.T + m.own.var_x0[0] * np.outer(start, start)
        total[np.ix_(at, at)] += cov[np.ix_(times[at], times[at])]
        common[at] = m.own.common[i] * full[times[at]]
        loads[z[i]][at] = m.own.loading[i] * full[times[at]]
    for load in loads:
        total += load @ load.T
    return (rows[:, 3:] * m.own.beta[series]).sum(1), total, common, loads


def exact_posterior(m, rows, kind):
    states = partitions(len(m.own.a))
    logs = []
    for z in states:
        mean, total, common, _ = dense(m, rows, z)
        log_p = stats.multivariate_normal(mean, total + common @ common.T).logpdf(rows[:, 2])
        logs.append(log_p + log_partition_prior(z, kind))
    p = np.exp(np.array(logs) - np.max(logs))
    return states, p / p.sum()


@pytest.mark.parametrize(
    ("kind", "collapse", "settings"),
    [
        ("dirichlet", "collapsed", {}),
        pytest.param("dp", "naive", {"draw": "joint"}, marks=pytest.mark.exact),
        pytest.param("dirichlet", "naive", {"draw": "alternate"}, marks=pytest.mark.exact),
    ],
    ids=["collapsed", "naive joint", "naive alternating"],
)
def test_partitions_are_visited_with_their_probabilities(small, kind, collapse, settings):
    m, rows = small
    states, probability = exact_posterior(m, rows, kind)
    sampler, rng = chain(m, prior_of(kind), collapse, **settings)
    # Labels and the common factor are drawn in turns, so that draws are further apart.
    counts = frequencies(sampler, rng, states, 2500, 8 if collapse == "collapsed" else 16)
    assert chi_square(counts, probability) > LEVEL


def test_the_enumeration_notices_a_common_factor_that_is_held(small):
    m, rows = small
    states, probability = exact_posterior(m, rows, "dirichlet")
    held = m._replace(own=m.own._replace(common=1e-6 * m.own.common))
    sampler, rng = chain(held, prior_of("dirichlet"), "collapsed")
    assert chi_square(frequencies(sampler, rng, states, 2500, 2), probability) < LEVEL


def moments_agree(draws, mean, cov):
    """Standardised draws are standard normal, in each direction; a false alarm of 1e-4 each."""
    z = (draws - mean) @ np.linalg.inv(np.linalg.cholesky(cov)).T
    worst = min(stats.kstest(z[:, j], "norm").pvalue for j in range(z.shape[1]))
    return worst > 1e-4


def test_the_common_factor_given_the_clusters_factors(small):
    """States integrated out, against one dense Gaussian."""
    m, rows = small
    n_times = m.cells.y.shape[1]
    rng = np.random.default_rng(2)
    z = np.array([0, 1, 0, 1, 1], dtype=np.int32)
    paths = factor_paths(n_times, 2)
    paths.value[:, :2] = rng.standard_normal((n_times, 2))
    mean, _, common, loads = dense(m, rows, z)
    shift = mean + sum(load @ paths.value[:, k] for k, load in enumerate(loads))
    alone = m._replace(own=m.own._replace(loading=np.zeros(5)))
    total = dense(alone, rows, z)[1]
    precision = np.eye(n_times) + common.T @ np.linalg.solve(total, common)
    cov = np.linalg.inv(precision)
    expected = cov @ common.T @ np.linalg.solve(total, rows[:, 2] - shift)
    matrix = information_matrix(n_times)
    products = np.empty(matrix.shape[1])
    draws = np.empty((4000, n_times))
    for row in draws:
        draw_common_jointly(m, z, paths, matrix, products, rng)
        row[:] = m.own.common_factor
    assert moments_agree(draws, expected, cov)
    assert not moments_agree(draws, expected + 0.1, cov)


@jit
def _gather(m, z, x, sums):
    clear_sums(sums)
    for i in range(z.shape[0]):
        add_to_sums(m, i, z[i], x[i], sums)


def test_the_common_factor_given_the_states():
    """Clusters' factors integrated out, against dense Gaussians at every time."""
    rng = np.random.default_rng(4)
    n, n_times = 6, 5
    m = factor_series(
        rng.standard_normal((n, n_times)), a=rng.uniform(0, 0.9, n),
        loading=rng.standard_normal(n), var_x=0.3, var_y=1.0, common=rng.standard_normal(n),
    )  # fmt: skip
    z = np.array([0, 1, 2, 0, 1, 0], dtype=np.int32)
    x = rng.standard_normal((n, n_times + 1))
    member = (z[:, None] == z) * np.outer(m.own.loading, m.own.loading)
    total = np.linalg.inv(0.3 * np.eye(n) + member)
    c = m.own.common
    precision = 1.0 + c @ total @ c
    steps = x[:, 1:] - m.own.a[:, None] * x[:, :-1]
    expected = c @ total @ steps / precision
    m.own.common_factor[:] = rng.standard_normal(n_times)
    draws = np.empty((4000, n_times))
    for row in draws:
        sums = state_sums(n_times, 4, common=True)
        _gather(m, z, x, sums)
        draw_common_given_states(m, sums, rng)
        row[:] = m.own.common_factor
    # What the sums hold now is what they would hold if they were made anew.
    again = state_sums(n_times, 4, common=True)
    _gather(m, z, x, again)
    np.testing.assert_allclose(sums.pull, again.pull, atol=1e-12)
    np.testing.assert_allclose(sums.common_pull, again.common_pull, atol=1e-12)
    assert moments_agree(draws, expected, np.eye(n_times) / precision)
    assert not moments_agree(draws, expected + 0.05, np.eye(n_times) / precision)


def test_three_coefficients_jointly():
    """Autoregression, loading and that of the common factor given states: one regression."""
    rng = np.random.default_rng(3)
    m, _ = oracle.model_of(rng, n=1, n_times=25, var_x=0.3, population=POPULATION)
    m = with_common(m, [0.2])
    m.own.common_factor[:] = rng.standard_normal(25)
    m.own.common_population[:] = 0.4, 2.5
    eta, x = rng.standard_normal((25, 2)), rng.standard_normal(26)
    out = np.empty((20_000, 3))
    _dynamics(m, 0, x, eta, 1, ALL, rng, out)
    D = np.column_stack([x[:-1], eta[:, 1], m.own.common_factor])
    precision = D.T @ D / 0.3 + np.diag([2.0, 1.5, 2.5])
    shift = D.T @ x[1:] / 0.3 + np.array([2.0 * 0.3, 1.5 * 0.5, 2.5 * 0.4])
    mean, cov = np.linalg.solve(precision, shift), np.linalg.inv(precision)
    sd = math.sqrt(cov[0, 0])
    a = stats.truncnorm((-1 - mean[0]) / sd, (1 - mean[0]) / sd, loc=mean[0], scale=sd)
    assert stats.kstest(out[:, 0], a.cdf).pvalue > 1e-4
    given = cov[1:, 0] / cov[0, 0]
    rest = cov[1:, 1:] - np.outer(given, cov[0, 1:])
    centred = out[:, 1:] - (out[:, :1] - mean[0]) * given
    assert moments_agree(centred, mean[1:], rest)
