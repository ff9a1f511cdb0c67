"""The exact collapse: evidence by matrix and by columns against one dense Gaussian."""

from __future__ import annotations

import math

import numpy as np
import pytest
import series_oracle as oracle

from cavity._numba.jit import jit
from cavity.series import cluster_information, exact, kalman
from cavity.series.state_space import DIAGONAL, PHI, SLOPE

CASES = {
    "several per cell and gaps": {},
    "covariates": {"p": 2},
    "one time": {"n_times": 1, "missing": 0.0},
    "no data at all": {"missing": 1.1},
    "one observation": {"missing": 0.92, "most": 1},
    "tiny own noise": {"var_x": 1e-9},
    "long": {"n_times": 90, "missing": 0.1},
}


@pytest.fixture(params=CASES, ids=list(CASES))
def case(request):
    return oracle.model_of(np.random.default_rng(21), n=5, **CASES[request.param])


def information_of(m, members):
    """Sum of c, and the (T + 1)-square array of a cluster."""
    n_times = m.cells.y.shape[1]
    target = cluster_information.information_matrix(n_times)
    products = np.empty(target.shape[1])
    cluster_information.start_information(target)
    total = 0.0
    for i in members:
        total += cluster_information.describe(m, m.scratch.row, i)
        cluster_information.add_information(m.scratch.row, target, target, 1.0, products)
    return total, target


@pytest.mark.variants("slow", "long-members2")
@pytest.mark.parametrize("members", [[0], [2, 4], [0, 1, 2, 3, 4]])
def test_the_matrix_equals_the_dense_evidence(case, members):
    m, rows = case
    n_times = m.cells.y.shape[1]
    expected = oracle.joint_loglik(m, rows, members, np.zeros(n_times), np.eye(n_times))
    constant, target = information_of(m, members)
    # The last row: the part of the vector that the last member has, whose sign is then turned.
    target[n_times + 1, :n_times] = m.scratch.row[SLOPE]
    by_information, turned_information = (
        constant + v for v in cluster_information.factorize(target)
    )
    tolerance = 1e-10 if m.own.var_x[0] > 1e-6 else 1e-8
    assert by_information == pytest.approx(expected, rel=tolerance, abs=tolerance)
    m.own.loading[members[-1]] *= -1.0
    expected = oracle.joint_loglik(m, rows, members, np.zeros(n_times), np.eye(n_times))
    m.own.loading[members[-1]] *= -1.0
    assert turned_information == pytest.approx(expected, rel=tolerance, abs=tolerance)


@pytest.mark.variants("slow", "options1")
@pytest.mark.parametrize("options", [{}, {"var_x": 1e-9}, {"missing": 0.0, "most": 1}])
def test_the_route_by_columns_equals_the_dense_evidence(options):
    """Groups of up to eight series, and of more; the last one's loading as it is and turned."""
    m, rows = oracle.model_of(np.random.default_rng(8), n=11, n_times=60, **options)
    room = exact.evidence_workspace(m)
    for members in ([3], [4, 0, 7], list(range(8)), [10, *range(9)], list(range(11))):
        n = len(members)
        room.members[:n] = members
        found = exact.group_evidence(m, room, n)
        for got in found:
            expected = oracle.joint_loglik(m, rows, members, np.zeros(60), np.eye(60))
            assert got == pytest.approx(expected, rel=1e-9, abs=1e-9)
            m.own.loading[members[-1]] *= -1.0


def test_columns_without_enough_digits_give_way():
    """Series that know their factor to the last digit: the matrix is made from its members."""
    m, _ = oracle.model_of(np.random.default_rng(8), n=5, n_times=60, var_x=1e-12, missing=0.0)
    m.own.var_y[:] = 1e-11
    m.own.loading[:] = 1.0
    room = exact.evidence_workspace(m)
    room.members[:5] = np.arange(5)
    found = exact.group_evidence(m, room, 5)
    constant, target = information_of(m, range(5))
    target[61, :60] = m.scratch.row[SLOPE]
    expected = [constant + v for v in cluster_information.factorize(target)]
    np.testing.assert_allclose(found, expected, rtol=1e-12)


def test_information_is_that_of_the_textbook_formula():
    m, _ = oracle.model_of(np.random.default_rng(3), n=1, n_times=9)
    a, b, var_x = m.own.a[0], m.own.loading[0], m.own.var_x[0]
    B = np.eye(9) - a * np.eye(9, k=-1)
    Q = np.diag(np.r_[1 / (var_x + a**2 * m.own.var_x0[0]), np.full(8, 1 / var_x)])
    w = m.cells.repeats[0] / m.own.var_y[0]
    inverse = np.linalg.inv(B.T @ Q @ B + np.diag(w))
    J = b**2 * (Q - Q @ B @ inverse @ B.T @ Q)
    h = b * Q @ B @ inverse @ (w * np.nan_to_num(m.cells.y[0]))
    _, target = information_of(m, [0])
    np.testing.assert_allclose(np.tril(target[:9, :9]), np.tril(np.eye(9) + J), atol=1e-11)
    np.testing.assert_allclose(target[9, :9], h, atol=1e-11)


def test_taking_out_undoes_putting_in(case):
    m, _ = case
    n_times = m.cells.y.shape[1]
    _, without = information_of(m, [1, 2])
    _, target = information_of(m, [1, 2, 3])
    cluster_information.describe(m, m.scratch.row, 3)
    products = np.empty(target.shape[1])
    cluster_information.add_information(m.scratch.row, target, target, -1.0, products)
    scale = max(1.0, np.abs(without).max())
    np.testing.assert_allclose(
        np.tril(target[:, : n_times + 1]),
        np.tril(without[:, : n_times + 1]),
        atol=1e-12 * scale * 100,
    )


def test_negligible_products_are_dropped_and_nothing_else():
    # a strongly observed series forgets within a few steps: most of J is below the threshold
    m, rows = oracle.model_of(np.random.default_rng(4), n=2, n_times=60, missing=0.0, var_x=50.0)
    expected = oracle.joint_loglik(m, rows, [0, 1], np.zeros(60), np.eye(60))
    constant, target = information_of(m, [0, 1])
    assert target[59, 0] == 0.0
    assert target[59, 55] != 0.0
    assert constant + cluster_information.factorize(target)[0] == pytest.approx(expected, rel=1e-11)


def test_indefinite_information_is_reported():
    target = np.diag([1.0, -0.5, 1.0, 1.0])
    assert np.isnan(cluster_information.factorize(target)).all()


def test_score_of_a_series_alone_is_the_filter_with_unit_variance(case):
    m, _ = case
    n_times = m.cells.y.shape[1]
    for i in range(3):
        constant, target = information_of(m, [i])
        alone = kalman.log_likelihood(m, i, np.zeros((n_times, 1)), np.ones((n_times, 1)), 0)
        assert constant + cluster_information.factorize(target)[0] == pytest.approx(
            alone, rel=1e-9, abs=1e-9
        )


@jit
def _many_factors(matrix, kept, out, rng):
    cluster_information.factorize(matrix)
    for t in range(kept.shape[0]):
        kept[t] = matrix[matrix.shape[0] - 2, t]
    for s in range(out.shape[0]):
        for t in range(kept.shape[0]):
            matrix[matrix.shape[0] - 2, t] = kept[t]
        cluster_information.draw_factor(matrix, out[s], rng)


def test_factor_draws_have_the_exact_posterior():
    # 10 means, 10 variances, 9 lag-one correlations at 4.5 sigma: false alarm below 3e-4
    rng = np.random.default_rng(8)
    m, rows = oracle.model_of(rng, n=3, n_times=10)
    expected, cov = oracle.eta_posterior(m, rows, [0, 1, 2], np.zeros(10), np.eye(10))
    _, target = information_of(m, [0, 1, 2])
    n = 20_000
    draws = np.empty((n, 10))
    _many_factors(target, np.empty(target.shape[1]), draws, rng)
    sd = np.sqrt(np.diag(cov))
    assert np.abs((draws.mean(0) - expected) / sd * math.sqrt(n)).max() < 4.5
    assert np.abs((draws.var(0) / sd**2 - 1) / math.sqrt(2 / n)).max() < 4.5
    for t in range(9):
        got = np.corrcoef(draws[:, t], draws[:, t + 1])[0, 1]
        want = cov[t, t + 1] / (sd[t] * sd[t + 1])
        assert abs(math.atanh(got) - math.atanh(want)) * math.sqrt(n) < 4.5


def test_scratch_rows_hold_what_the_docstring_says():
    m, _ = oracle.model_of(np.random.default_rng(1), n=1, n_times=5, missing=0.0)
    _, target = information_of(m, [0])
    cluster_information.describe(m, m.scratch.row, 0)
    np.testing.assert_allclose(np.diag(target)[:5] - 1, m.scratch.row[DIAGONAL], atol=1e-14)
    np.testing.assert_allclose(target[5, :5], m.scratch.row[SLOPE], rtol=1e-12)
    phi = np.array([target[t + 1, t] / m.scratch.row[DIAGONAL, t + 1] for t in range(4)])
    np.testing.assert_allclose(phi, m.scratch.row[PHI, :4], rtol=1e-12)
