"""The generator on the page of formulas against the densities that the sampler uses.

Univariate draws are compared by Kolmogorov and Smirnov's test at level 1e-3 each, with fixed seeds,
against the code's density integrated on a grid.
"""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from scipy import special, stats

from cavity.likelihoods import degrees_of_freedom
from cavity.priors import ClusterPrior, FiniteMixture
from cavity.priors.covariance_df import spare_log_density
from cavity.priors.covariance_scale import widths_log_density, wishart_log_density
from cavity.priors.mean_spread import spread_log_density
from cavity.priors.partition import log_prior

PAGE = Path(__file__).parents[2] / "docs" / "maths.md"
N_DRAWS = 600
LEVEL = 1e-3


def generator(page=None):
    """Return the function that the page shows."""
    text = PAGE.read_text(encoding="utf-8") if page is None else page
    section = text[text.index("## The model") : text.index("## The sweep")]
    names: dict[str, object] = {}
    exec(re.search(r"```python\n(.*?)```", section, re.DOTALL).group(1), names)
    return names["draw_from_the_model"]


def simulated(n, d, n_clusters, seed, draw=None):
    rng = np.random.default_rng(seed)
    draw = generator() if draw is None else draw
    return [draw(n, d, n_clusters, rng) for _ in range(N_DRAWS)]


@pytest.fixture(scope="module")
def hyperpriors():
    """What the code learns for one column, as a fit makes it."""
    return ClusterPrior().full(1, 5)[1][0]


@pytest.fixture(scope="module")
def draws():
    return simulated(4, 1, 5, 0)


def p_value(values, log_density, low, high, n=20_000):
    """Test draws of a positive number against a log density, up to a constant, in log steps."""
    x = np.linspace(np.log(low), np.log(high), n)
    log_mass = np.array([log_density(v) for v in np.exp(x)]) + x
    mass = np.exp(log_mass - log_mass.max())
    cdf = np.concatenate([[0.0], np.cumsum(0.5 * (mass[1:] + mass[:-1]))])
    u = np.interp(np.log(values), x, cdf / cdf[-1])
    return stats.kstest(u, "uniform").pvalue


def of(draws, name):
    return np.array([np.ravel(one[name])[0] for one in draws])


def test_degrees_of_freedom(draws):
    shape, rate = degrees_of_freedom.DF_PRIOR
    low, high = degrees_of_freedom.LOWEST, degrees_of_freedom.HIGHEST
    own = degrees_of_freedom.draw_df(shape, rate, N_DRAWS, np.random.default_rng(1))
    assert stats.ks_2samp(of(draws, "df"), own).pvalue > LEVEL
    gamma = stats.gamma(shape, scale=1.0 / rate)
    assert p_value(of(draws, "df"), gamma.logpdf, low, high, 2000) > LEVEL


def test_spare_degrees_of_freedom(draws, hyperpriors):
    typical = hyperpriors.typical
    assert p_value(of(draws, "c"), lambda c: spare_log_density(typical, c), 1.0, 1e5) > LEVEL
    # Negative control: another median.
    assert p_value(of(draws, "c"), lambda c: spare_log_density(5.0, c), 1.0, 1e5) < 1e-8


def test_widths(draws, hyperpriors):
    scale = hyperpriors.scale

    def log_density(x):
        return widths_log_density(scale._replace(mean=np.array([x])))

    assert p_value(of(draws, "M"), log_density, 1e-12, 1e12) > LEVEL


def test_strength_and_centre(draws, hyperpriors):
    spread, zero = hyperpriors.spread, np.zeros(1)
    kappa = of(draws, "kappa")
    assert p_value(kappa, lambda k: spread_log_density(*spread, zero, k), 1e-14, 50.0) > LEVEL
    centre = of(draws, "m")
    here = np.array([spread_log_density(*spread, np.array([x]), 1.0) for x in (0.0, 1.0)])
    assert here[1] - here[0] == pytest.approx(-0.5)
    assert stats.kstest(centre, "norm").pvalue > LEVEL


@pytest.mark.variants("exact", "1")
@pytest.mark.parametrize("d", [1, 3])
def test_the_mean_covariance(d):
    """Another density over the code's has the mean one under the page's draws."""
    scale = ClusterPrior().full(d, 5)[1][0].scale
    density = wishart_log_density
    rng, draw = np.random.default_rng(3), generator()
    ratio = []
    for _ in range(N_DRAWS):
        one = draw(1, d, 1, rng)
        own = density(scale._replace(mean=one["M"]), one["S"], np.empty((d, d)))
        other = stats.wishart(d + 4, np.diag(one["M"]) / (d + 4)).logpdf(one["S"])
        ratio.append(np.exp(other - own))
    error = np.std(ratio) / np.sqrt(N_DRAWS)
    assert abs(np.mean(ratio) - 1.0) < 4.0 * error
    assert error < 0.1


def test_partitions(draws):
    """Of four rows: shares of cluster sizes, the concentration integrated out."""
    shape, rate = FiniteMixture().gamma
    alphas = stats.gamma(shape, scale=1.0 / rate).ppf((np.arange(200) + 0.5) / 200)
    sizes = {(4,): 1, (3, 1): 4, (2, 2): 3, (2, 1, 1): 6, (1, 1, 1, 1): 1}
    expected = np.zeros(len(sizes))
    for alpha in alphas:
        state = FiniteMixture(concentration=float(alpha)).state(5, 8, 4)
        for at, (one, ways) in enumerate(sizes.items()):
            counts = np.zeros(8)
            counts[: len(one)] = one
            # The prior is that of one labeling out of those that name the slots otherwise.
            names = special.perm(5, len(one))
            expected[at] += ways * names * np.exp(log_prior(state, counts)) / len(alphas)
    assert expected.sum() == pytest.approx(1.0)
    seen = [tuple(sorted(np.unique(one["z"], return_counts=True)[1])[::-1]) for one in draws]
    counts = np.array([seen.count(one) for one in sizes])
    assert stats.chisquare(counts, N_DRAWS * expected).pvalue > LEVEL
    # Negative control: a prior of 1 / K, as if twice as many were half as likely.
    text = PAGE.read_text(encoding="utf-8").replace("numbers**-2.0", "numbers**-1.0")
    other = simulated(4, 1, 5, 2, generator(text))
    seen = [tuple(sorted(np.unique(one["z"], return_counts=True)[1])[::-1]) for one in other]
    counts = np.array([seen.count(one) for one in sizes])
    assert stats.chisquare(counts, N_DRAWS * expected).pvalue < 1e-5


def test_clusters_and_rows(draws):
    """Given everything above, the page's last lines are the documented model."""
    z = [one["z"][0] for one in draws]
    away = [(one["mu"][k, 0] - one["m"][0]) for k, one in zip(z, draws, strict=True)]
    spread = [
        np.sqrt(one["Sigma"][k, 0, 0] / one["kappa"]) for k, one in zip(z, draws, strict=True)
    ]
    assert stats.kstest(np.array(away) / spread, "norm").pvalue > LEVEL
    ratio = [
        one["c"] * one["S"][0, 0] / one["Sigma"][k, 0, 0] for k, one in zip(z, draws, strict=True)
    ]
    uniform = stats.chi2(2.0 + of(draws, "c")).cdf(ratio)
    assert stats.kstest(uniform, "uniform").pvalue > LEVEL
    row = [(one["y"][0, 0] - one["mu"][k, 0]) for k, one in zip(z, draws, strict=True)]
    root = [np.sqrt(one["Sigma"][k, 0, 0]) for k, one in zip(z, draws, strict=True)]
    uniform = stats.t(of(draws, "df")).cdf(np.array(row) / root)
    assert stats.kstest(uniform, "uniform").pvalue > LEVEL
