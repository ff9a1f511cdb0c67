"""The population of the a_i and of the loadings, against its posterior on a grid."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from cavity._numba.jit import jit
from cavity.series import parameters
from cavity.series.parameters import Hyperprior

HYPER = Hyperprior(True, 1.5, 3.0, 0.3)
N_DRAWS = 40_000


@jit
def _autoregressions(values, state, hyper, rng, out):
    for s in range(out.shape[0]):
        parameters.draw_autoregression_population(values, state, hyper, rng)
        out[s, 0] = state[0]
        out[s, 1] = -np.log(state[1])


@jit
def _loadings(values, state, hyper, rng, out):
    for s in range(out.shape[0]):
        parameters.draw_normal_population(values, state[2:], hyper, rng)
        out[s, 0] = state[2]
        out[s, 1] = -np.log(state[3])


def on_a_grid(values, means, truncated):
    """Weights over (mean, log variance), by the textbook densities."""
    log_v = np.linspace(-7.0, 3.0, 401)[None]
    m = means[:, None]
    sd = np.exp(0.5 * log_v)
    log_p = stats.norm(0.0, HYPER.precision**-0.5).logpdf(m)
    log_p = log_p + stats.invgamma(HYPER.shape, scale=HYPER.scale).logpdf(np.exp(log_v)) + log_v
    for value in values:
        log_p = log_p + stats.norm(m, sd).logpdf(value)
        if truncated:
            log_p = log_p - np.log(stats.norm(m, sd).cdf(1.0) - stats.norm(m, sd).cdf(-1.0))
    weight = np.exp(log_p - log_p.max())
    return m, log_v, weight / weight.sum()


@pytest.mark.variants("slow", "*-near zero", "a-one value", "loading-near one")
@pytest.mark.parametrize("name", ["near one", "near zero", "one value"])
@pytest.mark.parametrize("kind", ["a", "loading"])
def test_the_population_reaches_its_posterior(name, kind):
    rng = np.random.default_rng(5)
    values = {
        "near one": 0.97 + 0.02 * rng.standard_normal(9).clip(-1.4, 1.4),
        "near zero": 0.3 * rng.standard_normal(9).clip(-3.0, 3.0),
        "one value": np.array([-0.4]),
    }[name]
    state = np.array([0.1, 4.0, 0.1, 4.0])
    out = np.empty((N_DRAWS, 2))
    draw = _autoregressions if kind == "a" else _loadings
    draw(values, state, HYPER, rng, out)
    means = np.linspace(-0.9995, 0.9995, 2000) if kind == "a" else np.linspace(-6, 6, 3001)
    m, log_v, weight = on_a_grid(values, means, kind == "a")
    # Means and squares of both, by 50 batches: eight comparisons of 4.5 standard errors for each
    # of six cases, a false alarm below 4e-4.
    for power in (1, 2):
        for column, grid in ((0, m), (1, log_v)):
            expected = (weight * grid**power).sum()
            batches = (out[:, column] ** power).reshape(50, -1).mean(1)
            error = batches.std(ddof=1) / np.sqrt(50)
            assert abs(batches.mean() - expected) < 4.5 * error + 1e-4


def test_a_population_without_its_truncation_would_be_noticed():
    values = 0.97 + 0.02 * np.random.default_rng(5).standard_normal(9).clip(-1.4, 1.4)
    out = np.empty((N_DRAWS, 2))
    state = np.array([0.1, 4.0, 0.1, 4.0])
    _loadings(values, state, HYPER, np.random.default_rng(6), out)
    m, _, weight = on_a_grid(values, np.linspace(-0.9995, 0.9995, 2000), True)
    batches = out[:, 0].reshape(50, -1).mean(1)
    error = batches.std(ddof=1) / np.sqrt(50)
    assert abs(batches.mean() - (weight * m).sum()) > 4.5 * error + 1e-4
