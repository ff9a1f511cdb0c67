"""R-hat and effective draws of many quantities at once, against ArviZ one by one."""

from __future__ import annotations

import numpy as np
import pytest

from cavity.posterior.arviz import import_arviz
from cavity.posterior.effective import ess, rhat


def quantities(rng, kind, n_chains, n_draws, n=6):
    """Autocorrelated ones, as they are, as indicators, or rounded and shifted between chains."""
    x = rng.standard_normal((n_chains, n_draws, n))
    phi = rng.uniform(-0.6, 0.99, n)
    for t in range(1, n_draws):
        x[:, t] += phi * x[:, t - 1]
    if kind == "indicators":
        return (x > rng.normal(size=n)).astype(float)
    if kind == "rounded":
        return np.round(x) + np.arange(n_chains)[:, None, None] * rng.integers(0, 2, n)
    return x


@pytest.mark.parametrize("kind", ["plain", "indicators", "rounded"])
@pytest.mark.parametrize(("n_chains", "n_draws"), [(2, 40), (3, 101), (4, 300)])
def test_against_arviz(kind, n_chains, n_draws):
    az = import_arviz()
    x = quantities(np.random.default_rng(n_draws), kind, n_chains, n_draws)
    found = [rhat(x), ess(x), ess(x, "tail"), ess(x, "mean")]
    for j in range(x.shape[2]):
        one = x[:, :, j]
        if not np.ptp(one, axis=1).any():
            continue
        expected = [
            az.rhat(one),
            az.ess(one),
            az.ess(one, method="tail", prob=(0.05, 0.95)),
            az.ess(one, method="mean"),
        ]
        np.testing.assert_allclose([float(part[j]) for part in found], expected, rtol=1e-9)
        assert float(rhat(one)) == pytest.approx(float(found[0][j]), rel=1e-12)


def test_the_comparison_can_fail():
    """Without ranks, heavy tails are judged otherwise."""
    x = np.random.default_rng(0).standard_cauchy((4, 200))
    assert abs(float(ess(x)) / float(ess(x, "mean")) - 1) > 1e-3


def test_what_cannot_be_judged():
    x = np.random.default_rng(0).standard_normal((2, 30, 4))
    x[:, :, 1] = 5.0
    x[:, :, 2] = [[1.0], [2.0]]
    x[0, 3, 3] = np.nan
    np.testing.assert_array_equal(rhat(x)[1:], [1.0, np.inf, np.nan])
    np.testing.assert_array_equal(ess(x)[1:], [60, 2, np.nan])
    assert np.isnan(rhat(x[:, :3])).all()
    # One that moves in the first halves only, and a tail that no draw is in.
    half = np.zeros((2, 40))
    half[:, 0] = 1.0
    assert np.isfinite(rhat(half))
    assert np.isfinite(ess(half, "tail"))
    assert rhat(np.empty((2, 30, 0))).shape == (0,)
