"""Scales of factors against loadings: draws from the prior stay draws from the prior.

The likelihood depends on products of the two alone, so the kernel must leave the prior as it is:
it is applied once to many independent draws from it.
"""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from cavity._numba.jit import jit
from cavity.series.likelihood import factor_paths
from cavity.series.moves import add_to_sums, clear_sums, rescale_factors, state_sums
from cavity.series.parameters import KNOWN, Hyperprior
from cavity.series.state_space import factor_series

LEVEL = 1e-4  # of each of six Kolmogorov-Smirnov tests, at a fixed seed
N, T, SLOTS, DRAWS = 5, 3, 8, 20_000
Z = np.array([0, 0, 1, 1, 1], dtype=np.int32)
LEARNED = Hyperprior(True, 2.0, 4.0, 1.5)


@jit
def _rescale_many(m, z, paths, sums, hyper, scales, prior, x, wrong, rng, out):
    own = m.own
    for s in range(out.shape[0]):
        for j in range(4):
            own.population[j] = prior[s, j]
        for i in range(z.shape[0]):
            own.loading[i] = prior[s, 4 + i]
        for t in range(paths.value.shape[0]):
            for k in range(2):
                paths.value[t, k] = prior[s, 9 + 2 * t + k]
        clear_sums(sums)
        for i in range(z.shape[0]):
            add_to_sums(m, i, z[i], x, sums)
        rescale_factors(own.loading, z, paths, sums, own.population, hyper, scales, rng)
        if wrong:  # the population is left behind
            own.population[2] = prior[s, 2]
            own.population[3] = prior[s, 3]
        out[s, 0] = own.population[2]
        out[s, 1] = own.population[3]
        for i in range(z.shape[0]):
            out[s, 2 + i] = own.loading[i]
        for t in range(paths.value.shape[0]):
            for k in range(2):
                out[s, 7 + 2 * t + k] = paths.value[t, k]


def drawn(hyper, wrong=False, seed=0):
    """The six quantities after one step from each of many prior draws, uniform if all is well."""
    rng = np.random.default_rng(seed)
    prior = np.zeros((DRAWS, 9 + 2 * T))
    prior[:, 1] = 1.0
    prior[:, 2], prior[:, 3] = 0.4, 3.0
    if hyper.learned:
        prior[:, 2] = rng.normal(0.0, hyper.precision**-0.5, DRAWS)
        prior[:, 3] = rng.gamma(hyper.shape, size=DRAWS) / hyper.scale
    spread = prior[:, 3, None] ** -0.5
    prior[:, 4:9] = prior[:, 2, None] + spread * rng.standard_normal((DRAWS, N))
    prior[:, 9:] = rng.standard_normal((DRAWS, 2 * T))
    m = factor_series(np.zeros((N, T)), a=0.5, loading=0.4, var_x=0.4, var_y=0.6, n_slots=SLOTS)
    out = np.empty((DRAWS, 7 + 2 * T))
    _rescale_many(
        m, Z, factor_paths(T, SLOTS), state_sums(T, SLOTS), hyper, np.zeros(SLOTS), prior,
        np.zeros(T + 1), wrong, rng, out,
    )  # fmt: skip
    mean, precision = out[:, 0], out[:, 1]
    loadings = (out[:, 2:7] - mean[:, None]) * np.sqrt(precision)[:, None]
    factors = out[:, 7:]
    found = {
        "a loading": stats.norm.cdf(loadings[:, 0]),
        "all loadings": stats.chi2(N).cdf((loadings**2).sum(1)),
        "a factor": stats.norm.cdf(factors[:, 0]),
        "both factors": stats.chi2(2 * T).cdf((factors**2).sum(1)),
    }
    if hyper.learned:
        found["mean"] = stats.norm.cdf(mean * hyper.precision**0.5)
        found["precision"] = stats.gamma(hyper.shape, scale=1 / hyper.scale).cdf(precision)
    return found


@pytest.mark.parametrize("hyper", [LEARNED, KNOWN], ids=["learned", "stated"])
def test_scales_leave_the_prior_as_it_is(hyper):
    for name, values in drawn(hyper).items():
        assert stats.kstest(values, "uniform").pvalue > LEVEL, name


def test_a_population_left_behind_is_noticed():
    found = drawn(LEARNED, wrong=True)
    assert min(stats.kstest(values, "uniform").pvalue for values in found.values()) < LEVEL
