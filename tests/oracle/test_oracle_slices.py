"""Slice samplers against the densities they should follow, normalised numerically.

Each chain is thinned to near independence and put to a Kolmogorov-Smirnov test at level 1e-4.
"""

from __future__ import annotations

import numpy as np
import pytest
from scipy import special, stats

from cavity.likelihoods.degrees_of_freedom import HIGHEST, LOWEST, slice_df
from cavity.priors.concentration import update_concentration
from cavity.priors.partition import dirichlet, dirichlet_process, finite, pitman_yor

N_DRAWS, THIN = 4000, 8


def distribution(log_density, low, high):
    """Cumulative distribution function over (low, high) from a log density on a fine grid."""
    x = np.linspace(low, high, 20_001)
    value = log_density(x)
    weight = np.exp(value - value.max())
    cumulative = np.concatenate([[0.0], np.cumsum(0.5 * (weight[1:] + weight[:-1]))])
    return lambda v: np.interp(v, x, cumulative / cumulative[-1])


@pytest.mark.parametrize("case", ["heavy", "light", "none"])
def test_degrees_of_freedom(case):
    rng = np.random.default_rng(0)
    n, d, shape, rate = 30, 2, 2.0, 0.1
    distance = rng.chisquare(d, n) / (rng.gamma(1.0, 1.0, n) if case == "heavy" else 1.0)
    z = rng.integers(0, 2, n).astype(np.int32)
    members = 0 if case == "none" else int((z == 1).sum())
    mine = distance[z == 1][:members]

    def log_density(log_df):
        df = np.exp(log_df)[:, None]
        terms = (
            special.gammaln(0.5 * (df + d))
            - special.gammaln(0.5 * df)
            - 0.5 * d * np.log(df * np.pi)
            - 0.5 * (df + d) * np.log1p(mine[None, :] / df)
        )
        return terms.sum(axis=1) + stats.gamma.logpdf(df[:, 0], shape, scale=1 / rate) + log_df

    df, draws = 4.0, np.empty(N_DRAWS)
    for j in range(N_DRAWS):
        for _ in range(THIN):
            df = slice_df(df, distance, z, 1, members, d, shape, rate, rng)
        draws[j] = np.log(df)
    cdf = distribution(log_density, np.log(LOWEST), np.log(HIGHEST))
    assert stats.kstest(draws, cdf).pvalue > 1e-4


def restaurant(counts, concentration, discount):
    """Log probability of a seating plan, up to what does not depend on the concentration."""
    tables = np.arange(len(counts))[None, :]
    new = np.log(concentration[:, None] + discount * tables).sum(axis=1)
    return new + special.gammaln(concentration) - special.gammaln(concentration + counts.sum())


def multinomial(counts, concentration):
    total = len(counts) * concentration
    each = (
        special.gammaln(concentration[:, None] + counts) - special.gammaln(concentration)[:, None]
    )
    return special.gammaln(total) - special.gammaln(total + counts.sum()) + each.sum(axis=1)


def unknown_number(counts, concentration):
    """Two thirds as likely for each of up to four clusters, K summed out."""
    sizes, n, most = counts[counts > 0], counts.sum(), counts.size
    k = np.arange(sizes.size, most + 1)[:, None]
    terms = k * np.log(2 / 3) - special.gammaln(k - sizes.size + 1) + special.gammaln(k + 1)
    terms = terms + special.gammaln(k * concentration) - special.gammaln(k * concentration + n)
    each = special.gammaln(concentration[:, None] + sizes)
    each = each - special.gammaln(concentration)[:, None]
    return special.logsumexp(terms, axis=0) + each.sum(axis=1)


@pytest.mark.parametrize(
    ("prior", "likelihood"),
    [
        (dirichlet(4), multinomial),
        (finite(4, 10, 1.0, 2 / 3), unknown_number),
        (dirichlet_process(4), lambda c, a: restaurant(c[c > 0], a, 0.0)),
        (pitman_yor(4, 1.0, 0.3), lambda c, a: restaurant(c[c > 0], a, 0.3)),
    ],
    ids=["dirichlet", "finite", "dp", "pitman-yor"],
)
def test_concentration(prior, likelihood):
    rng = np.random.default_rng(1)
    counts = np.array([7, 0, 2, 1])
    shape, rate = 1.5, 0.8
    draws = np.empty(N_DRAWS)
    for j in range(N_DRAWS):
        for _ in range(THIN):
            update_concentration(prior, counts, shape, rate, rng)
        draws[j] = np.log(prior.concentration[0])

    def log_density(x):
        a = np.exp(x)
        return likelihood(counts, a) + stats.gamma.logpdf(a, shape, scale=1 / rate) + x

    assert stats.kstest(draws, distribution(log_density, -16.0, 5.0)).pvalue > 1e-4
