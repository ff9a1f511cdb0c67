"""Densities and draws of rows with errors or intervals against quadrature and SciPy."""

import numpy as np
import pytest
from scipy import special, stats

from cavity.predict.latent_rows import (
    INTERVAL,
    MISSING,
    VALUE,
    Entries,
    LatentRows,
    add_latent_rows,
    draw_latent_rows,
    normal_quantile,
    room_for,
)

D = 3
RNG = np.random.default_rng(0)
ROOT = RNG.standard_normal((D, D))
COVARIANCE = np.array([ROOT @ ROOT.T + np.eye(D), 0.01 * (ROOT @ ROOT.T + np.eye(D))])
MEAN = RNG.standard_normal((2, D))
KIND = np.array([[VALUE, VALUE, VALUE], [VALUE, MISSING, VALUE], [VALUE, INTERVAL, INTERVAL]])
Y = 2.0 * RNG.standard_normal((3, D))
VARIANCE = np.array([[0.5, 0.0, 2.0], [0.3, 0.0, 0.0], [0.0, 0.0, 0.0]])
LOW, HIGH = np.full((3, D), -np.inf), np.full((3, D), np.inf)
LOW[2, 1:], HIGH[2, 1] = [-0.5, 0.3], 1.0
ROWS = LatentRows(KIND, Y, VARIANCE, LOW, HIGH)


def entries(alpha, mean=MEAN, covariance=COVARIANCE):
    alphas = np.full(len(mean), alpha)
    return Entries(mean, covariance, np.linalg.cholesky(covariance), alphas)


def density(k, i, u):
    """Density of row i in entry k given its scale."""
    t, b = KIND[i] == VALUE, KIND[i] == INTERVAL
    sigma = COVARIANCE[k] / u
    whole = sigma[np.ix_(t, t)] + np.diag(VARIANCE[i][t])
    value = stats.multivariate_normal(MEAN[k][t], whole).pdf(Y[i][t])
    if b.any():
        slope = sigma[np.ix_(b, t)] @ np.linalg.inv(whole)
        center = MEAN[k][b] + slope @ (Y[i][t] - MEAN[k][t])
        rest = stats.multivariate_normal(center, sigma[np.ix_(b, b)] - slope @ sigma[np.ix_(t, b)])
        ends = np.clip([LOW[i][b], HIGH[i][b]], -60.0, 60.0)
        value *= rest.cdf(ends[1], lower_limit=ends[0])
    return value


@pytest.mark.parametrize("alpha", [np.inf, 0.7, 2.5, 60.0])
def test_density(alpha):
    out = np.zeros((2, 3))
    add_latent_rows(entries(alpha), ROWS, np.arange(3), out, room_for(D))
    for k in range(2):
        for i in range(3 if k == 0 and alpha in (np.inf, 2.5) else 2):
            if alpha == np.inf:
                wanted = density(k, i, 1.0)
            else:
                x = np.linspace(-20.0, 4.0, 800)
                weight = stats.gamma(alpha, scale=1.0 / alpha).pdf(np.exp(x)) * np.exp(x)
                own = np.flatnonzero(weight > 1e-12)
                wanted = sum(density(k, i, np.exp(x[j])) * weight[j] for j in own) * (x[1] - x[0])
            tolerance = 3e-4 if i < 2 else 0.03
            assert abs(out[k, i] - np.log(wanted)) < tolerance, (k, i)


def test_quantiles():
    p = np.concatenate([10.0 ** -np.arange(1.0, 300.0, 7.0), np.linspace(0.01, 0.99, 37)])
    found = [normal_quantile(one) for one in p]
    np.testing.assert_allclose(found, special.ndtri(p), rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("alpha", [np.inf, 2.5])
def test_draws(alpha):
    """Means of drawn values against importance sampling, 1% of a standard deviation or so."""
    n = 20_000
    rng = np.random.default_rng(1)
    values = np.zeros((3, n, D))
    draw_latent_rows(
        entries(alpha, MEAN[:1], COVARIANCE[:1]), np.array([0, 1]), ROWS, np.zeros((1, 3)),
        np.full((3, 1), -1), n, values, np.zeros((3, 1)), np.zeros((3, n), dtype=np.int64),
        np.zeros(1), room_for(D), rng,
    )  # fmt: skip
    m = 1_000_000
    u = np.ones(m) if alpha == np.inf else rng.gamma(alpha, 1.0 / alpha, m)
    y = (
        MEAN[0]
        + rng.standard_normal((m, D)) @ np.linalg.cholesky(COVARIANCE[0]).T / np.sqrt(u)[:, None]
    )
    for i in range(2):
        there = KIND[i] == VALUE
        error = np.maximum(VARIANCE[i][there], 0.02**2)
        weight = np.exp(-0.5 * ((y[:, there] - Y[i][there]) ** 2 / error).sum(axis=1))
        weight /= weight.sum()
        mean = weight @ y
        sd = np.sqrt(weight @ (y - mean) ** 2)
        noise = 5.0 * sd * np.sqrt((weight**2).sum() + 1.0 / n)
        assert (np.abs(values[i].mean(axis=0) - mean) < noise + 1e-9).all()
        assert (np.abs(values[i].std(axis=0) / sd - 1.0)[VARIANCE[i] > 0.0] < 0.1).all()
    inside = (values[2] >= LOW[2] - 1e-9) & (values[2] <= HIGH[2] + 1e-9)
    assert inside.all()
