"""Student-t evidence, bounds and projection against brute-force quadrature."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from entries import _all_evidence, _bounds, _evidence, _evidences, _project, call
from niw import NIW, expected_statistics, random_niw
from scipy import special
from student_t_quadrature import (
    largest_relative_error,
    log_evidence,
    tilted_statistics,
    tilted_statistics_by_grid,
)

from cavity._numba.simd import WIDTH
from cavity.conjugate.niw import normal_inverse_wishart, unpack
from cavity.likelihoods.scale_integral import FEW, MORE
from cavity.likelihoods.student_t import student_t


def grid(seed: int):
    """Cases over the whole range: (df, d, kappa, nu, squared Mahalanobis distance).

    The corners of the range, and points drawn inside it on logarithmic scales.
    """
    corners = itertools.product(
        [1.0, 100.0], [1, 2, 10, 30], [0.1, 1000.0], [0.5, 50.0, 2000.0], [0.0, 1.0, 1000.0]
    )
    cases = [(df, d, kappa, d - 1 + extra, m) for df, d, kappa, extra, m in corners]
    rng = np.random.default_rng(seed)
    for _ in range(150):
        d = int(rng.integers(1, 31))
        cases.append(
            (
                float(np.exp(rng.uniform(0.0, np.log(100.0)))),
                d,
                float(np.exp(rng.uniform(np.log(0.1), np.log(1000.0)))),
                d - 1 + float(np.exp(rng.uniform(np.log(0.5), np.log(2000.0)))),
                float(rng.choice([0.0, np.exp(rng.uniform(-3.0, np.log(1000.0)))], p=[0.05, 0.95])),
            )
        )
    return cases


def one_slot(df, d, kappa, nu, m, fraction=1.0):
    """A cavity with expected precision one, and an observation at squared distance m."""
    psi = nu * np.eye(d)
    q = normal_inverse_wishart(np.zeros(d), kappa, nu, psi, n_slots=WIDTH)
    y = np.full((1, d), np.sqrt(m / d))
    return student_t(y, np.full(WIDTH, 0.5 * df), fraction), q


def test_evidence_over_the_whole_grid(record_property):
    worst = 0.0
    for df, d, kappa, nu, m in grid(0):
        model, q = one_slot(df, d, kappa, nu, m)
        exact = log_evidence(0.5 * df, d, kappa, nu, 0.5 * d * np.log(nu), m / nu)
        worst = max(worst, abs(call(_evidence, model, q, 0, 0) - exact))
    record_property("largest error of a log evidence", float(worst))
    print(f"largest error of a log evidence: {worst:.2g}")
    assert worst < 1e-8


def test_evidence_far_outside_the_grid():
    """Outliers at a million scales and nearly flat or nearly certain cavities."""
    for df, d, kappa, nu, m in [
        (3.0, 2, 1e-3, 1.5, 1e12),
        (0.5, 1, 1e6, 1e5, 1e6),
        (200.0, 30, 0.01, 40.0, 1e4),
        (5.0, 10, 1e5, 1e6, 0.0),
        (200.0, 30, 0.1, 40.0, 1e6),
        (1e3, 2, 1.0, 5.0, 4.0),
        (1e5, 3, 0.1, 5.0, 1e4),
        (1e6, 2, 1.0, 5.0, 4.0),
    ]:
        model, q = one_slot(df, d, kappa, nu, m)
        exact = log_evidence(0.5 * df, d, kappa, nu, 0.5 * d * np.log(nu), m / nu)
        assert abs(call(_evidence, model, q, 0, 0) - exact) < 1e-8 * max(1.0, abs(exact))


def test_evidence_integrates_to_one():
    """As a density of y in one dimension, whatever the quadrature formula."""
    t = np.linspace(-30.0, 30.0, 6001)
    y = np.sinh(t)
    q = normal_inverse_wishart(np.array([0.4]), 0.7, 2.5, np.array([[1.3]]), n_slots=WIDTH)
    model = student_t(y[:, None].copy(), np.full(WIDTH, 1.5))
    out = np.empty(y.size)
    call(_all_evidence, model, q, 0, out)
    assert np.sum(np.exp(out) * np.cosh(t)) * (t[1] - t[0]) == pytest.approx(1.0, abs=1e-8)


def many_slots(rng, d, n_slots, df):
    """Slots of all kinds around the origin."""
    family = normal_inverse_wishart(np.zeros(d), 1.0, d + 2.0, np.eye(d), n_slots)
    for k in range(n_slots):
        p = random_niw(d, rng)
        p = p._replace(
            kappa=float(np.exp(rng.uniform(-3, 6))),
            nu=d - 1 + float(np.exp(rng.uniform(-1, 6))),
            mean=p.mean * np.exp(rng.uniform(-2, 4)),
        )
        one = normal_inverse_wishart(*p, n_slots=WIDTH)
        for name in ("natural", "kappa", "nu", "half_log_det", "log_ratio"):
            getattr(family, name)[k] = getattr(one, name)[0]
        family.mean[:, k] = one.mean[:, 0]
        family.whiten[:, :, k] = one.whiten[:, :, 0]
    return family, np.broadcast_to(np.asarray(df, dtype=float), (n_slots,)) / 2.0


@pytest.mark.parametrize("d", [1, 2, 10, 30])
def test_bounds_bound_and_the_batch_agrees(d):
    rng = np.random.default_rng(d)
    n_slots = 40
    df = np.exp(rng.uniform(0.0, np.log(100.0), n_slots))
    q, alpha = many_slots(rng, d, n_slots, df)
    y = rng.standard_normal((50, d)) * np.exp(rng.uniform(-3, 5, (50, 1)))
    y[0] = q.mean[:, 0]
    model = student_t(y, alpha)
    for i in range(len(y)):
        lower, upper, exact = np.empty(n_slots), np.ones(n_slots), np.empty(n_slots)
        call(_bounds, model, q, i, upper, lower)
        call(_evidences, model, q, i, exact)
        single = [call(_evidence, model, q, k, i) for k in range(n_slots)]
        np.testing.assert_allclose(exact, single, rtol=1e-9, atol=1e-9)
        assert np.all(np.isfinite(exact))
        assert np.all(upper >= exact - 1e-9)
        assert np.all(np.isfinite(upper))
        assert np.all(lower <= exact + 1e-9)
        assert np.all(np.isfinite(lower))


@pytest.mark.parametrize("d", [1, 2, 10, 30])
def test_bounds_in_clusters_with_members(d):
    """Slots that the finer bounds are for, and a proof that these were used: they are close."""
    rng = np.random.default_rng(100 + d)
    n_slots = 40
    df = np.exp(rng.uniform(np.log(1.5), np.log(100.0), n_slots))
    q, alpha = many_slots(rng, d, n_slots, df)
    for k in range(n_slots):
        size = 2.0 * (4.0 + alpha[k] + 0.5 * d) ** 2 * np.exp(rng.uniform(0.0, 5.0))
        root = np.tril(0.2 * rng.standard_normal((d, d)), -1) + np.eye(d)
        one = NIW(rng.standard_normal(d), size, size + d, size * root @ root.T)
        slot = normal_inverse_wishart(*one, n_slots=WIDTH)
        for name in ("natural", "kappa", "nu", "half_log_det", "log_ratio"):
            getattr(q, name)[k] = getattr(slot, name)[0]
        q.mean[:, k], q.whiten[:, :, k] = slot.mean[:, 0], slot.whiten[:, :, 0]
    y = rng.standard_normal((60, d)) * np.exp(rng.uniform(-2, 4, (60, 1)))
    model = student_t(y, alpha)
    gaps = []
    for i in range(len(y)):
        lower, upper, exact = np.empty(n_slots), np.ones(n_slots), np.empty(n_slots)
        call(_bounds, model, q, i, upper, lower)
        call(_evidences, model, q, i, exact)
        assert np.all(upper >= exact - 1e-9)
        assert np.all(lower <= exact + 1e-9)
        gaps.append(upper - lower)
    assert np.median(gaps) < 0.1


@pytest.mark.parametrize("alpha", [0.3, 2.5, 100.0, 1e6])
def test_gauss_rules_against_scipy(alpha):
    model = student_t(np.zeros((1, 3)), np.full(WIDTH, alpha))
    start = 0
    for n in (FEW, MORE):
        nodes, weights = special.roots_genlaguerre(n, alpha + 0.5)
        found = model.score_nodes[0, start : start + n]
        np.testing.assert_allclose(found, nodes, rtol=1e-9)
        found = model.score_nodes[0, start + n : start + 2 * n]
        if alpha < 100.0:  # beyond, SciPy's overflow
            np.testing.assert_allclose(found, weights / weights.sum(), rtol=1e-8)
        assert found.sum() == pytest.approx(1.0)
        start += 2 * n


@pytest.mark.variants("slow", "0.5")
@pytest.mark.parametrize("fraction", [1.0, 0.5])
def test_projection_over_the_whole_grid(fraction, record_property):
    """Expected sufficient statistics match those of the tilted distribution."""
    worst = 0.0
    for df, d, kappa, nu, m in grid(1):
        if d == 30 and nu > 1000.0:
            continue  # expected statistics themselves lose digits in double precision
        model, q = one_slot(df, d, kappa, nu, m, fraction)
        cavity = NIW(np.zeros(d), kappa, nu, nu * np.eye(d))
        exact = tilted_statistics(cavity, model.y[0], 0.5 * df, fraction)
        call(_project, model, q, 0, 0, fraction)
        worst = max(worst, largest_relative_error(NIW(*unpack(q.natural[0], d)), exact))
    record_property("largest relative error of a projected moment", float(worst))
    print(f"largest relative error of a projected moment: {worst:.2g}")
    assert worst < 1e-9


@pytest.mark.parametrize("fraction", [1.0, 0.5])
def test_the_twin_of_the_projection_by_the_definition(fraction):
    """The mixture-over-u identities of the twin against a plain grid over (mu, sigma^2)."""
    q = NIW(np.array([0.3]), 0.8, 3.5, np.array([[1.2]]))
    for y in (0.3, 2.0, -9.0):
        exact = tilted_statistics_by_grid(0.3, 0.8, 3.5, 1.2, y, 3.0, fraction)
        twin = tilted_statistics(q, np.array([y]), 1.5, fraction)
        np.testing.assert_allclose(
            np.ravel(np.concatenate([np.ravel(t) for t in twin])), exact, rtol=1e-9, atol=1e-11
        )


def test_projection_of_a_general_cavity():
    """Full scale matrices, means off the origin: the working parameters follow the natural ones."""
    rng = np.random.default_rng(5)
    for d in (2, 5):
        p = random_niw(d, rng)
        y = rng.standard_normal((1, d)) * 3.0
        q = normal_inverse_wishart(*p, n_slots=WIDTH)
        call(_project, student_t(y, np.full(WIDTH, 2.0)), q, 0, 0, 1.0)
        exact = tilted_statistics(p, y[0], 2.0)
        assert largest_relative_error(NIW(*unpack(q.natural[0], d)), exact) < 1e-9
        w = np.tril(q.whiten[:, :, 0])
        working = NIW(q.mean[:, 0], q.kappa[0], q.nu[0], np.linalg.inv(w.T @ w))
        assert largest_relative_error(working, exact) < 1e-9


def test_projection_far_outside_the_grid():
    """Where the plain sum would overflow, or needs more nodes than there are."""
    for df, d, kappa, nu, m in [
        (200.0, 30, 0.01, 40.0, 1e4),
        (200.0, 30, 0.1, 40.0, 1e6),
        (3.0, 2, 1e-3, 1.5, 1e6),
        (1e5, 3, 0.1, 5.0, 1e4),
    ]:
        model, q = one_slot(df, d, kappa, nu, m)
        exact = tilted_statistics(
            NIW(np.zeros(d), kappa, nu, nu * np.eye(d)), model.y[0], 0.5 * df, nodes=20001
        )
        call(_project, model, q, 0, 0, 1.0)
        assert largest_relative_error(NIW(*unpack(q.natural[0], d)), exact) < 1e-8


def test_projection_never_gains_degrees_of_freedom():
    rng = np.random.default_rng(9)
    for _ in range(50):
        p = random_niw(2, rng)
        y = rng.standard_normal((1, 2)) * 10.0
        q = normal_inverse_wishart(*p, n_slots=WIDTH)
        call(_project, student_t(y, np.full(WIDTH, 1.5)), q, 0, 0, 1.0)
        assert 1.0 < q.nu[0] <= p.nu + 1.0
        assert 0.0 < q.kappa[0]
        assert np.all(np.isfinite(expected_statistics(NIW(*unpack(q.natural[0], 2)))[1]))
