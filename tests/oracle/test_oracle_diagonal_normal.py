"""The diagonal normal family against SciPy."""

from __future__ import annotations

import numpy as np
from entries import _divergence, _load, _log_partition, _vector_draws, call
from scipy import stats

from cavity.conjugate.diagonal_normal import diagonal_normal, vector_parameters

MEAN, VARIANCE = np.array([0.3, -2.0, 5.0]), np.array([0.5, 2.0, 1e-3])


def test_load_inverts_the_natural_parameters():
    q = diagonal_normal(MEAN, VARIANCE, n_slots=2)
    q.natural[1] = np.concatenate([[4.0, 1.0, 2.0], [8.0, 3.0, -2.0]])
    assert call(_load, q, 1)
    np.testing.assert_allclose(q.variance[:, 1], [0.25, 1.0, 0.5])
    np.testing.assert_allclose(q.mean[:, 1], [2.0, 3.0, -1.0])
    np.testing.assert_allclose(q.mean[:, 0], MEAN)


def test_improper_precisions_are_refused():
    q = diagonal_normal(MEAN, VARIANCE, n_slots=1)
    for bad in (0.0, -1.0, np.nan):
        q.natural[0, 1] = bad
        assert not call(_load, q, 0)
        np.testing.assert_allclose(q.variance[:, 0], VARIANCE)


def test_log_partition_normalises_the_density():
    q = diagonal_normal(MEAN, VARIANCE, n_slots=1)
    x = np.array([0.1, -1.0, 5.01])
    statistics = np.concatenate([-0.5 * x**2, x])
    exact = stats.norm.logpdf(x, MEAN, np.sqrt(VARIANCE)).sum()
    np.testing.assert_allclose(
        q.natural[0] @ statistics - call(_log_partition, q, 0), exact, rtol=1e-10
    )


def test_divergence_by_the_textbook():
    q = diagonal_normal(MEAN, VARIANCE, n_slots=1)
    r = diagonal_normal(MEAN + 0.1, 2.0 * VARIANCE, n_slots=1)
    exact = np.sum(np.log(np.sqrt(2.0)) + (VARIANCE + 0.01) / (4.0 * VARIANCE) - 0.5)
    np.testing.assert_allclose(call(_divergence, q, 0, r, 0), exact, rtol=1e-12)


def test_draws_are_normal():
    """Kolmogorov-Smirnov at level 1e-4 for each coordinate; correlations at five standard errors.

    Three of the latter: a false alarm below 2e-6.
    """
    q = diagonal_normal(MEAN, VARIANCE, n_slots=1)
    out = np.empty((20_000, 3))
    call(_vector_draws, q, 0, vector_parameters(3, 1), np.random.default_rng(0), out)
    for t in range(3):
        assert stats.kstest(out[:, t], stats.norm(MEAN[t], np.sqrt(VARIANCE[t])).cdf).pvalue > 1e-4
    assert np.all(np.abs(np.corrcoef(out.T)[np.triu_indices(3, 1)]) < 5 / np.sqrt(20_000))
