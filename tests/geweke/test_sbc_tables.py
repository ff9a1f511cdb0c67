"""Simulation-based calibration of tables: ranks of prior draws among posterior draws are uniform.

Tables of twenty rows, one categorical column and one of counts, a fifth of the cells missing. Of
each quantity the ranks of 200 tables fall into ten cells; chi-square at level 1e-4 each.
"""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats
from test_geweke_tables import dirichlet_draw, prior_concentration

from cavity.collapse.problems import CategoricalProblem, CountsProblem, TableProblem
from cavity.collapse.registry import assemble
from cavity.likelihoods import count_rates
from cavity.mcmc.chain import PartitionSampler
from cavity.priors.partition import dirichlet_process

N, SLOTS, LEVELS, CENTRE = 20, 16, 3, 2.0
N_TABLES, N_DRAWS, THIN, WARMUP = 200, 49, 6, 60


def simulated(rng):
    """Quantities and a table drawn from the priors."""
    z = np.zeros(N, dtype=int)
    for i in range(1, N):
        weight = np.append(np.bincount(z[:i]), 1.0)
        z[i] = rng.choice(weight.size, p=weight / weight.sum())
    a = prior_concentration(LEVELS, rng)
    ends = np.array([count_rates.LEAST_SHAPE, count_rates.MOST_SHAPE])
    u = rng.uniform(*(ends / (1.0 + ends)))
    shape, mean = u / (1.0 - u), CENTRE * np.exp(count_rates.MEAN_SPREAD * rng.standard_normal())
    n_clusters = z.max() + 1
    share = np.array([dirichlet_draw(a, rng) for _ in range(n_clusters)])
    rate = rng.gamma(shape, mean / shape, n_clusters)
    codes = np.array([rng.choice(LEVELS, p=share[k] / share[k].sum()) for k in z])[:, None]
    y = rng.poisson(rate[z]).astype(float)[:, None]
    codes[rng.random(codes.shape) < 0.2] = -1
    y[rng.random(y.shape) < 0.2] = np.nan
    return (a.sum(), a[0] / a.sum(), shape, mean, float(n_clusters)), codes, y


def quantities(sampler):
    a = sampler.family.first.prior
    shape, rate = sampler.family.rest.prior
    return a.sum(), a[0] / a.sum(), shape, shape / rate, float((sampler.counts > 0).sum())


def ranks(seed, wrong=1.0):
    rng = np.random.default_rng(seed)
    out = np.empty((N_TABLES, 5))
    for row in out:
        truth, codes, y = simulated(rng)
        problem = TableProblem((CategoricalProblem(codes, (LEVELS,)), CountsProblem(y)))
        parts = assemble(problem, "collapsed", SLOTS)
        for update in parts.updates:
            if isinstance(update.update, count_rates.RateHyperpriors):
                update.update.centre = np.array([CENTRE * wrong])
        z = rng.integers(0, 3, N)
        sampler = PartitionSampler(parts, dirichlet_process(SLOTS, 1.0), z, rng)
        drawn = np.empty((N_DRAWS, 5))
        for t in range(-WARMUP, N_DRAWS * THIN):
            sampler.sweep(rng)
            if t >= 0 and t % THIN == 0:
                drawn[t // THIN] = quantities(sampler)
        ties = rng.random(drawn.shape) < rng.random(5)
        row[:] = ((drawn < truth) | ((drawn == truth) & ties)).sum(axis=0)
    return out


def p_values(found):
    cells = (found * 10 // (N_DRAWS + 1)).astype(int)
    return np.array([stats.chisquare(np.bincount(c, minlength=10)).pvalue for c in cells.T])


@pytest.mark.slow
def test_ranks_are_uniform():
    found = p_values(ranks(0))
    print(found)
    assert found.min() > 1e-4


@pytest.mark.slow
def test_a_wrong_prior_is_found_out():
    assert p_values(ranks(1, wrong=20.0)).min() < 1e-4
