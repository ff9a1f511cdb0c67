"""Coefficients integrated out of the factors, and drawn, against dense Gaussians."""

from __future__ import annotations

import numpy as np
import pytest
import series_oracle as oracle
from builders import series_chain
from scipy import linalg, stats

from cavity._numba.jit import jit
from cavity.priors.partition import dirichlet
from cavity.series import coefficients as module
from cavity.series.batched_filter import series_batch
from cavity.series.cluster_information import information_matrix
from cavity.series.gibbs import (
    all_constants,
    draw_factorized,
    draw_factors_jointly,
    marginal_likelihood,
)
from cavity.series.likelihood import factor_paths
from cavity.series.parameters import SeriesPriors

LEVEL = 1e-4  # of each Kolmogorov-Smirnov test, at fixed seeds
# Of the types that chains have, so that kernels are shared with them.
Z, COUNTS = np.array([0, 1, 1, 0, 2], dtype=np.int32), np.array([2.0, 2.0, 1.0])
T, LONG = 12, 101  # the matrices of the longer ones are held by their columns


def case(p, intercept, seed=3, free=True, n_times=T, **options):
    """Five series in three clusters, their coefficients' population, rows of data."""
    rng = np.random.default_rng(seed)
    options = {"n": 5, "n_slots": 8} | options
    m, rows = oracle.model_of(rng, n_times=n_times, p=p, intercept=intercept, **options)
    hyper = np.array([rng.standard_normal(p), rng.uniform(0.3, 2.0, p)])
    return m, rows, module.coefficients(hyper, free=free)


def dense(m, rows, members, c):
    """Covariance of some series' observations less U m, and of those with the factor."""
    T = m.cells.y.shape[1]
    picked = rows[np.isin(rows[:, 0], members)]
    series, times = picked[:, 0].astype(int), picked[:, 1].astype(int)
    total, load = np.zeros((len(picked),) * 2), np.zeros((len(picked), T))
    for i in members:
        at = np.flatnonzero(series == i)
        full = oracle.propagate(m.own.a[i], T)
        start = m.own.a[i] ** np.arange(1, T + 1)
        own = m.own.var_x[0] * full @ full.T + m.own.var_x0[0] * np.outer(start, start)
        load[at] = m.own.loading[i] * full[times[at]]
        U = picked[at, 3:]
        block = own[np.ix_(times[at], times[at])] + m.own.var_y[i] * np.eye(at.size)
        total[np.ix_(at, at)] = block + U @ np.diag(c.spread) @ U.T
    return picked[:, 2] - picked[:, 3:] @ c.centre, total + load @ load.T, load


def evidence(m, c, equations=None, z=Z):
    (n, n_times), p = m.cells.y.shape, m.own.beta.shape[1]
    matrices, room = information_matrix(n_times, 3), series_batch(n, n_times, p)
    equations = module.mean_equations(0, n_times) if equations is None else equations
    got = marginal_likelihood(m, z, np.bincount(z).astype(float), c, equations, matrices, room)
    return got + all_constants(m), matrices


def lower_factor(matrix):
    """The Cholesky factor that was left, made whole if it is held by columns."""
    n_times = len(matrix) - 2
    width = int(matrix[n_times, n_times + 1])
    if not width:
        return np.tril(matrix[:n_times, :n_times])
    u, w, phi = (matrix[:n_times, j * width : (j + 1) * width] for j in range(3))
    lower = np.eye(n_times)
    for s in range(n_times):
        carried = w[s]
        for t in range(s + 1, n_times):
            carried = phi[t - 1] * carried
            lower[t, s] = u[t] @ carried
    return lower * np.sqrt(matrix[:n_times, 3 * width])


def check_against_dense(m, rows, c, z=Z, tolerance=1e-9):
    got, matrices = evidence(m, c, z=z)
    T = m.cells.y.shape[1]
    expected = 0.0
    for k in range(z.max() + 1):
        response, total, load = dense(m, rows, np.flatnonzero(k == z), c)
        expected += stats.multivariate_normal(np.zeros(len(total)), total).logpdf(response)
        # P^{-1} h and P^{-1} from the factor that was left: of eta given the data.
        lower = lower_factor(matrices[k])
        mean = np.linalg.solve(lower.T, matrices[k][T, :T])
        exact = load.T @ np.linalg.solve(total, response)
        np.testing.assert_allclose(mean, exact, atol=tolerance)
        covariance = np.eye(T) - load.T @ np.linalg.solve(total, load)
        np.testing.assert_allclose(np.linalg.inv(lower @ lower.T), covariance, atol=tolerance)
    assert got == pytest.approx(expected, abs=10 * tolerance)
    return matrices


@pytest.mark.parametrize(("p", "intercept"), [(1, True), (3, True), (2, False)])
def test_evidence_and_factors_are_those_of_one_dense_gaussian(p, intercept):
    m, rows, c = case(p, intercept)
    matrices = check_against_dense(m, rows, c)
    assert not matrices[:, T, T + 1].any()


@pytest.mark.parametrize("free", [True, False])
def test_so_they_are_where_matrices_are_held_by_their_columns(free):
    m, rows, c = case(1, True, n_times=LONG, free=free)
    if not free:
        # Coefficients that are held are as good as known.
        c = c._replace(centre=m.own.beta.mean(0))
        m.own.beta[:] = c.centre
    known = c if free else c._replace(spread=1e-300 * c.spread)
    got, matrices = evidence(m, c)
    assert (matrices[:, LONG, LONG + 1] == (16 if free else 8)).all()
    if free:
        check_against_dense(m, rows, c)
    total = [dense(m, rows, np.flatnonzero(k == Z), known)[:2] for k in range(3)]
    expected = sum(stats.multivariate_normal(cov=cov).logpdf(y) for y, cov in total)
    assert got == pytest.approx(expected, abs=1e-7)


@pytest.mark.parametrize("n_times", [50, LONG])
def test_more_than_eight_series_and_any_number_of_times(n_times):
    """Eleven in one cluster: a group of eight, and three; rows go four at a time."""
    z = np.repeat(np.arange(3, dtype=np.int32), [11, 1, 2])
    m, rows, c = case(1, True, n_times=n_times, n=14, missing=0.5, most=1)
    matrices = check_against_dense(m, rows, c, z)
    assert (matrices[0, n_times, n_times + 1] > 0) == (n_times == LONG)
    m.own.a[:] = np.linspace(-0.4, 0.3, 14)  # products that are soon negligible
    m.own.var_y[:] = 1e-3
    check_against_dense(m, rows, c, z)


def test_series_that_know_their_factor_have_whole_matrices():
    """Differences of columns would leave too few digits: the matrix is made from them."""
    m, rows, c = case(1, True, n_times=LONG, var_x=1e-10)
    m.own.var_y[:] = 1e-9
    m.own.loading[:] = 1.0
    got, matrices = evidence(m, c)
    assert not matrices[:, LONG, LONG + 1].any()
    expected = 0.0
    for k in range(3):
        y, covariance, _ = dense(m, rows, np.flatnonzero(k == Z), c)
        root = np.linalg.cholesky(covariance)
        expected -= 0.5 * (np.linalg.solve(root, y) ** 2).sum()
        expected -= np.log(np.diag(root)).sum() + 0.5 * len(y) * np.log(2 * np.pi)
    assert got == pytest.approx(expected, rel=1e-6)


def test_where_coefficients_stand_does_not_matter():
    """They are integrated out: moved far away, the evidence stays as it was."""
    m, _, c = case(3, True)
    before, _ = evidence(m, c)
    m.own.beta[:] += np.random.default_rng(0).normal(0.0, 50.0, m.own.beta.shape)
    assert evidence(m, c)[0] == pytest.approx(before, abs=1e-6)
    held = evidence(m, c._replace(free=False))[0]
    assert abs(held - before) > 100.0


@pytest.mark.parametrize(("p", "n_times"), [(3, T), (1, LONG)])
def test_equations_of_the_means_are_the_change_of_the_evidence(p, n_times):
    m, _, c = case(p, True, n_times=n_times)
    equations = module.mean_equations(p, n_times)
    before, _ = evidence(m, c, equations)
    assert before == pytest.approx(evidence(m, c)[0], abs=1e-10)
    rng = np.random.default_rng(1)
    for _ in range(4):
        step = rng.standard_normal(p)
        expected = equations.pull @ step - 0.5 * step @ equations.information @ step
        c.centre[:] += step
        assert evidence(m, c)[0] - before == pytest.approx(expected, abs=1e-7)
        c.centre[:] -= step


def test_means_are_drawn_from_their_posterior():
    m, _, c = case(2, True)
    equations = module.mean_equations(2, T)
    before, _ = evidence(m, c, equations)
    prior_mean, prior_precision = np.array([0.4, -0.2]), np.array([1.0, 2.5])
    information = equations.information + np.diag(prior_precision)
    pull = equations.pull + prior_precision * (prior_mean - c.centre)
    expected = c.centre + np.linalg.solve(information, pull)
    rng, start = np.random.default_rng(2), c.centre.copy()
    out = np.empty((4000, 2))
    for s in range(len(out)):
        c.centre[:] = start
        gain = module.draw_means(c, equations, prior_mean, prior_precision, rng)
        out[s] = c.centre
    assert evidence(m, c)[0] - before == pytest.approx(gain, abs=1e-7)
    z = (out - expected) @ np.linalg.cholesky(information)
    for j in range(2):
        assert stats.kstest(z[:, j], "norm").pvalue > LEVEL


def test_means_are_integrated_out():
    """Against the dense Gaussian of all observations, means among the unknown."""
    m, rows, c = case(2, True)
    prior_mean, prior_precision = np.array([0.4, -0.2]), np.array([1.0, 2.5])

    def both(spread):
        c.spread[:] = spread
        equations = module.mean_equations(2, T)
        got = evidence(m, c, equations)[0]
        got += module.log_without_means(c, equations, prior_mean, prior_precision)
        zero, dense_total, U = c._replace(centre=0 * c.centre), [], []
        for k in range(3):
            response, total, _ = dense(m, rows, np.flatnonzero(k == Z), zero)
            dense_total.append((response, total))
            U.append(rows[np.isin(rows[:, 0], np.flatnonzero(k == Z))][:, 3:])
        covariance = linalg.block_diag(*[total for _, total in dense_total])
        design = np.concatenate(U)
        covariance = covariance + design @ np.diag(1 / prior_precision) @ design.T
        response = np.concatenate([r for r, _ in dense_total]) - design @ prior_mean
        return got, stats.multivariate_normal(np.zeros(len(response)), covariance).logpdf(response)

    one, other = both([0.5, 1.2]), both([2.0, 0.3])
    assert one[0] - other[0] == pytest.approx(one[1] - other[1], abs=1e-6)


@jit
def _many(m, i, mean, k, c, with_loading, rng, out):
    for s in range(out.shape[0]):
        module.draw_coefficients(m, i, mean, k, c, with_loading, rng)
        for j in range(m.own.beta.shape[1]):
            out[s, j] = m.own.beta[i, j]
        out[s, m.own.beta.shape[1]] = m.own.loading[i]


@pytest.mark.parametrize("free", [True, False])
@pytest.mark.parametrize("with_loading", [True, False])
def test_coefficients_and_loading_are_drawn_with_the_states_integrated_out(free, with_loading):
    m, rows, c = case(3, True, seed=6, free=free)
    m.own.population[2:] = 0.4, 1.7
    eta = np.random.default_rng(5).standard_normal((T, 8))
    i, p = 1, 3
    before = np.append(m.own.beta[i], m.own.loading[i])
    out = np.empty((20_000, p + 1))
    _many(m, i, eta, 0, c, with_loading, np.random.default_rng(4), out)
    mine = rows[rows[:, 0] == i]
    times = mine[:, 1].astype(int) + 1
    m.own.loading[i] = before[p]
    _, cov = oracle.state_moments(m, i, np.zeros(T), np.zeros(T))
    total = cov[np.ix_(times, times)] + m.own.var_y[i] * np.eye(len(times))
    path = oracle.propagate(m.own.a[i], T) @ eta[:, 0]
    U = np.column_stack([mine[:, 3:], path[times - 1]])
    moves = np.array([free] * p + [with_loading])
    assert (out[:, ~moves] == before[~moves]).all()
    if not moves.any():
        return
    response = mine[:, 2] - U[:, ~moves] @ before[~moves]
    centre = np.append(c.centre, 0.4)[moves]
    prior = np.diag(np.append(1 / c.spread, 1.7)[moves])
    W = U[:, moves]
    precision = prior + W.T @ np.linalg.solve(total, W)
    shift = prior @ centre + W.T @ np.linalg.solve(total, response)
    z = (out[:, moves] - np.linalg.solve(precision, shift)) @ np.linalg.cholesky(precision)
    for column in z.T:
        assert stats.kstest(column, "norm").pvalue > LEVEL


@pytest.mark.parametrize("n_times", [T, LONG])
def test_factors_drawn_from_kept_matrices_are_those_drawn_at_once(n_times):
    m, _, c = case(1, True, n_times=n_times)
    nothing = module.mean_equations(0, n_times)
    matrices, room = information_matrix(n_times, 3), series_batch(5, n_times, 1)
    eta = np.empty(n_times)
    paths = [factor_paths(n_times, 3) for _ in range(2)]
    at_once = draw_factors_jointly(
        m, Z, COUNTS, paths[0], c, nothing, matrices, room, eta, np.random.default_rng(1)
    )
    kept = marginal_likelihood(m, Z, COUNTS, c, nothing, matrices, room)
    lower, pull = lower_factor(matrices[0]), matrices[0][n_times, :n_times].copy()
    draw_factorized(COUNTS, paths[1], matrices, eta, np.random.default_rng(1))
    assert at_once == kept
    np.testing.assert_array_equal(paths[0].value, paths[1].value)
    # The noise is drawn in the order of use: forwards for a whole matrix, else backwards.
    noise = np.random.default_rng(1).standard_normal(n_times)
    noise = noise if n_times == T else noise[::-1]
    expected = np.linalg.solve(lower.T, pull + noise)
    np.testing.assert_allclose(paths[1].value[:, 0], expected, atol=1e-9)


def test_the_log_joint_density_without_factors_and_coefficients():
    """What it lacks is their density given labels, data and all else: one dense Gaussian's."""
    rng = np.random.default_rng(6)
    m, rows = oracle.model_of(rng, n=5, n_times=T, p=1, n_slots=8, intercept=True)
    one = np.ones(1)
    priors = SeriesPriors(3.0, 0.2, 3.0, 1.0, 0 * one, one, 4 * one, one)
    sampler = series_chain(
        m, Z, dirichlet(3), priors, np.array([[0.3], [0.8]]), rng, collapse="corrected"
    )
    sampler.sweep(rng)
    m, z = sampler.model, sampler.z
    centre, spread = sampler.updates[0].hyper[:, 0]
    expected = 0.0
    for k in np.unique(z):
        members = np.flatnonzero(z == k)
        picked = rows[np.isin(rows[:, 0], members)]
        series, times = picked[:, 0].astype(int), picked[:, 1].astype(int)
        design = np.zeros((len(picked), T + members.size))
        noise = np.zeros((len(picked),) * 2)
        for column, i in enumerate(members):
            at = np.flatnonzero(series == i)
            full = oracle.propagate(m.own.a[i], T)
            start = m.own.a[i] ** np.arange(1, T + 1)
            own = m.own.var_x[0] * full @ full.T + m.own.var_x0[0] * np.outer(start, start)
            block = own[np.ix_(times[at], times[at])] + m.own.var_y[i] * np.eye(at.size)
            noise[np.ix_(at, at)] = block
            design[at, :T] = m.own.loading[i] * full[times[at]]
            design[at, T + column] = 1.0
        prior = np.concatenate([np.ones(T), np.full(members.size, 1.0 / spread)])
        mean = np.concatenate([np.zeros(T), np.full(members.size, centre)])
        precision = np.diag(prior) + design.T @ np.linalg.solve(noise, design)
        pull = prior * mean + design.T @ np.linalg.solve(noise, picked[:, 2])
        drawn = np.concatenate([sampler.parameters.value[:, k], m.own.beta[members, 0]])
        posterior = stats.multivariate_normal(
            np.linalg.solve(precision, pull), np.linalg.inv(precision)
        )
        expected += posterior.logpdf(drawn)
    joint = sampler.log_joint()
    assert joint - sampler.log_marginal() == pytest.approx(expected, abs=1e-6)
    assert sampler.record()["log_marginal"] == sampler.log_marginal()
