"""The normal-inverse-Wishart family against its plain twin."""

from __future__ import annotations

import numpy as np
import pytest
from entries import (
    _add_row,
    _divergence,
    _draws,
    _hold,
    _load,
    _log_partition,
    _move,
    _put_back,
    call,
)
from niw import NIW, divergence, expected_statistics, log_partition, random_niw
from scipy import stats

from cavity.conjugate.niw import (
    covariances,
    gaussian_parameters,
    normal_inverse_wishart,
    pack,
    unpack,
)

DIMENSIONS = [1, 2, 3, 10, 30]


def whitened(q, k=0):
    """Psi^-1 from the working parameters of a slot."""
    w = np.tril(q.whiten[:, :, k])
    return w.T @ w


def assert_working_parameters(q, k, p: NIW, tolerance):
    np.testing.assert_allclose(q.kappa[k], p.kappa, rtol=tolerance)
    np.testing.assert_allclose(q.nu[k], p.nu, rtol=tolerance)
    np.testing.assert_allclose(q.mean[:, k], p.mean, rtol=tolerance, atol=tolerance)
    np.testing.assert_allclose(whitened(q, k) @ p.psi, np.eye(p.mean.size), atol=tolerance)
    np.testing.assert_allclose(
        2.0 * q.half_log_det[k], np.linalg.slogdet(p.psi)[1], rtol=tolerance, atol=tolerance
    )


@pytest.mark.parametrize("d", DIMENSIONS)
def test_pack_and_load(d):
    rng = np.random.default_rng(d)
    for _ in range(5):
        p = random_niw(d, rng)
        q = normal_inverse_wishart(*p, n_slots=2)
        assert_working_parameters(q, 1, p, 1e-9)
        for a, b in zip(unpack(pack(*p), d), p, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize(
    "spoil",
    [
        lambda natural: natural.__setitem__(0, -0.1),
        lambda natural: natural.__setitem__(0, np.nan),
        lambda natural: natural.__setitem__(1, 1.0),
        lambda natural: natural.__setitem__(4, -50.0),
        lambda natural: natural.__setitem__(6, np.inf),
        lambda natural: natural.__setitem__(slice(None), np.nan),
    ],
)
def test_improper_parameters_are_refused_and_nothing_changes(spoil):
    p = random_niw(2, np.random.default_rng(0))
    q = normal_inverse_wishart(*p, n_slots=1)
    spoil(q.natural[0])
    assert not call(_load, q, 0)
    assert_working_parameters(q, 0, p, 1e-10)


@pytest.mark.parametrize("d", DIMENSIONS)
@pytest.mark.parametrize("weight", [0.7, -0.2])
def test_rank_one_against_a_dense_update(d, weight):
    rng = np.random.default_rng(d)
    p = random_niw(d, rng)
    q = normal_inverse_wishart(*p, n_slots=1)
    y = rng.standard_normal(d)
    e = y - p.mean
    weight = weight / max(e @ np.linalg.solve(p.psi, e), 1.0)
    moved = NIW(p.mean + 0.3 * e, 1.7, p.nu + 0.5, 0.9 * (p.psi + weight * np.outer(e, e)))
    assert call(_move, q, 0, 1.7, p.nu + 0.5, 0.3, 0.9, weight, y)
    assert_working_parameters(q, 0, moved, 1e-9)
    np.testing.assert_allclose(q.natural[0], pack(*moved), rtol=1e-10, atol=1e-10)
    # The natural parameters left behind say the same as the working ones.
    before = q.whiten.copy()
    assert call(_load, q, 0)
    np.testing.assert_allclose(q.whiten, before, rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize("d", DIMENSIONS)
def test_a_row_goes_in_and_out(d):
    """Scaled, and counted for more than one, against the natural parameters' sums."""
    rng = np.random.default_rng(d)
    p = random_niw(d, rng)
    q = normal_inverse_wishart(*p, n_slots=1)
    y = rng.standard_normal(d)
    lower = np.tril_indices(d)
    statistics = np.concatenate([[0.4, 2.0], 0.4 * y, 0.4 * np.outer(y, y)[lower]])
    after = NIW(*unpack(pack(*p) + statistics, d))
    assert call(_add_row, q, 0, 0.4, 2.0, y)
    assert_working_parameters(q, 0, after, 1e-9)
    np.testing.assert_allclose(q.natural[0], pack(*after), rtol=1e-10, atol=1e-10)
    assert call(_add_row, q, 0, -0.4, -2.0, y)
    assert_working_parameters(q, 0, p, 1e-9)
    np.testing.assert_allclose(q.natural[0], pack(*p), rtol=1e-10, atol=1e-10)
    # What was never in cannot be taken out.
    assert not call(_add_row, q, 0, -2.0 * p.kappa, -1.0, y)
    assert_working_parameters(q, 0, p, 1e-9)


def test_rank_one_refuses_what_is_not_positive_definite():
    p = random_niw(3, np.random.default_rng(1))
    q = normal_inverse_wishart(*p, n_slots=1)
    y = p.mean + 1.0
    delta = np.ones(3) @ np.linalg.solve(p.psi, np.ones(3))
    assert not call(_move, q, 0, 1.0, p.nu, 0.0, 1.0, -1.01 / delta, y)
    assert not call(_move, q, 0, -1.0, p.nu, 0.0, 1.0, 0.0, y)
    assert not call(_move, q, 0, 1.0, 1.5, 0.0, 1.0, 0.0, y)
    assert_working_parameters(q, 0, p, 1e-10)


@pytest.mark.parametrize("d", DIMENSIONS)
def test_log_partition_and_divergence(d):
    rng = np.random.default_rng(100 + d)
    for _ in range(5):
        p, r = random_niw(d, rng), random_niw(d, rng)
        q, s = normal_inverse_wishart(*p, n_slots=1), normal_inverse_wishart(*r, n_slots=1)
        np.testing.assert_allclose(call(_log_partition, q, 0), log_partition(p), rtol=1e-11)
        exact = divergence(p, r)
        np.testing.assert_allclose(call(_divergence, q, 0, s, 0), exact, rtol=1e-8)
        assert abs(call(_divergence, q, 0, q, 0)) < 1e-8


@pytest.mark.parametrize("d", DIMENSIONS)
def test_a_slot_that_was_held_is_put_back_to_the_last_bit(d):
    rng = np.random.default_rng(200 + d)
    q = normal_inverse_wishart(*random_niw(d, rng), n_slots=3)
    before = [array.copy() for array in q[:-2]]
    room = np.zeros((2, q.natural.shape[1]))
    call(_hold, q, 1, room)
    call(_move, q, 1, 2.0 * q.kappa[1], q.nu[1] + 1.0, 0.3, 1.1, 0.2, rng.standard_normal(d))
    assert not np.array_equal(q.whiten, before[5])
    call(_put_back, q, 1, room)
    for array, old in zip(q[:-2], before, strict=True):
        np.testing.assert_array_equal(array, old)


@pytest.mark.parametrize("d", DIMENSIONS)
def test_covariances_of_whiteners(d):
    rng = np.random.default_rng(300 + d)
    whiten = np.tril(rng.standard_normal((4, d, d))) + 2.0 * np.eye(d)
    counts = np.array([3.0, 0.0, 1.0, 2.0])
    out = np.empty((4, d, d))
    covariances(np.ascontiguousarray(np.moveaxis(whiten, 0, 2)), counts, out)
    assert np.isnan(out[1]).all()
    for k in (0, 2, 3):
        np.testing.assert_allclose(out[k], np.linalg.inv(whiten[k].T @ whiten[k]), rtol=1e-8)


@pytest.mark.parametrize("d", [1, 3])
def test_draws_have_the_moments_of_the_family(d):
    """Five standard errors per coordinate: a false alarm below 1e-5 for the whole test."""
    rng = np.random.default_rng(3)
    p = random_niw(d, rng)._replace(nu=d + 5.0)
    q = normal_inverse_wishart(*p, n_slots=1)
    n = 40_000
    mean, whiten = np.empty((n, d)), np.zeros((n, d, d))
    call(_draws, q, 0, gaussian_parameters(d, 1), rng, mean, whiten)
    precision = np.einsum("nji,njk->nik", whiten, whiten)
    log_det = np.linalg.slogdet(precision)[1]
    linear = np.einsum("nij,nj->ni", precision, mean)
    square = np.einsum("ni,ni->n", linear, mean)
    drawn = [square, linear, precision, log_det]
    for sample, exact in zip(drawn, expected_statistics(p), strict=True):
        error = np.std(sample, axis=0) / np.sqrt(n)
        assert np.all(np.abs(np.mean(sample, axis=0) - exact) < 5.0 * error)
    if d == 1:
        # In one dimension the marginals are known whole: Kolmogorov-Smirnov at level 1e-4.
        scale = np.sqrt(p.psi[0, 0] / (p.nu * p.kappa))
        assert stats.kstest(mean[:, 0], stats.t(p.nu, p.mean[0], scale).cdf).pvalue > 1e-4
        wishart = stats.gamma(0.5 * p.nu, scale=2.0 / p.psi[0, 0])
        assert stats.kstest(precision[:, 0, 0], wishart.cdf).pvalue > 1e-4
