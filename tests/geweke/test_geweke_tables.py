"""Joint-distribution tests of categories and counts with learned priors and gaps.

As in test_geweke.py: a false alarm of 1e-4 per sampler, Bonferroni over its functions.
"""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from joint import seen
from scipy import special, stats

from cavity.collapse.problems import CategoricalProblem, CountsProblem, TableProblem
from cavity.collapse.registry import assemble
from cavity.likelihoods import category_shares, count_rates
from cavity.mcmc.chain import PartitionSampler
from cavity.moves.anchors import all_anchors
from cavity.moves.standard import StandardMoves
from cavity.priors.partition import dirichlet_process

N, SLOTS, CONCENTRATION = 5, 8, 1.0
LEVELS = (2, 3)
START = np.array([0, 2, 5])
CENTRE = np.array([2.0])
THERE = np.array([[1, 1, 1], [1, 0, 1], [0, 1, 1], [1, 1, 0], [1, 1, 1]], dtype=bool)


def from_priors(rng, select=False):
    """Labels, concentrations, (shape, mean), shares and rates of each row's cluster, indicators."""
    z, sizes = np.zeros(N, dtype=int), []
    for i in range(N):
        weight = np.array([*sizes, CONCENTRATION])
        z[i] = rng.choice(weight.size, p=weight / weight.sum())
        sizes = np.bincount(z[: i + 1]).tolist()
    concentration = np.concatenate([prior_concentration(n, rng) for n in LEVELS])
    low, high = (v / (1.0 + v) for v in (count_rates.LEAST_SHAPE, count_rates.MOST_SHAPE))
    u = rng.uniform(low, high)
    shape = u / (1.0 - u)
    mean = CENTRE[0] * np.exp(count_rates.MEAN_SPREAD * rng.standard_normal())
    share = np.array([one_share(concentration, rng) for _ in range(N)])
    rate = rng.gamma(shape, mean / shape, N)
    share, rate = share[z], rate[z]
    active = np.ones(3)
    if select:
        active = (rng.random(3) < rng.random(2)[[0, 0, 1]]).astype(float)
        for j, (a, b) in enumerate(itertools.pairwise(START)):
            share[:, a:b] = share[:, a:b] if active[j] else share[0, a:b]
        rate = rate if active[2] else np.full(N, rate[0])
    return z, concentration, shape, mean, share, rate, active


def one_share(concentration, rng):
    """Shares of a cluster in both columns."""
    ends = itertools.pairwise(START)
    return np.concatenate([dirichlet_draw(concentration[a:b], rng) for a, b in ends])


def dirichlet_draw(a, rng):
    log_g = np.log(rng.gamma(a + 1.0)) + np.log(rng.random(a.size)) / a
    return np.exp(log_g - special.logsumexp(log_g))


def prior_concentration(n, rng):
    while True:
        u = rng.random()
        a = n * u / (1.0 - u) * rng.dirichlet(np.ones(n))
        if a.min() >= category_shares.LEAST and a.max() <= category_shares.MOST:
            return a


def cells(share, rate, rng):
    """Codes and counts given each row's shares and rate; gaps where they always are."""
    codes = np.full((N, 2), -1)
    for i in range(N):
        for j in range(2):
            if THERE[i, j]:
                own = share[i, START[j] : START[j + 1]]
                codes[i, j] = rng.choice(own.size, p=own / own.sum())
    y = np.where(THERE[:, 2], rng.poisson(rate), np.nan)[:, None]
    return codes, y.astype(float)


def functions(z, concentration, shape, mean, share, rate, active, codes, y):
    pairs = np.mean([z[i] == z[j] for i in range(N) for j in range(i)])
    s = [np.log(concentration[a:b].sum()) for a, b in itertools.pairwise(START)]
    g = concentration[0] / concentration[:2].sum()
    filled = np.nan_to_num(y[:, 0], nan=-1.0)
    # Without indicators the last ones are constant, or among the others.
    of_indicators = [
        *active,
        active[0] * active[1],
        active[0] * s[0],
        active[2] * np.log(shape),
        active[2] * np.log1p(filled[0]) * np.log1p(filled[2]),
    ]
    return [
        *of_indicators,
        pairs,
        len(set(z.tolist())),
        s[0],
        s[1],
        s[0] * pairs,
        g,
        g * share[0, 0],
        share[0, 0],
        share[0, 0] ** 2,
        share[1, 3],
        np.log(shape),
        np.log(shape) ** 2,
        np.log(mean),
        np.log(mean) * np.tanh(np.log(rate[0] + 1e-3)),
        np.tanh(np.log(rate[0] + 1e-3)),
        np.log(mean) * np.log1p(filled[0]),
        np.log1p(filled[0]) * (z[0] == z[1]),
        np.tanh(0.1 * filled[0] * filled[4]),
        float(codes[0, 0] == codes[1, 0]),
        float(codes[0, 1] == codes[2, 1]) * s[1],
        float(codes[3, 0] == 0) * share[3, 0],
    ]


def state_of(sampler):
    family, parameters = sampler.family, sampler.parameters
    z = sampler.labels().astype(int)
    a, b = family.rest.prior
    model = sampler.model
    codes = np.where(model.first.cell < 0, -1, model.first.cell - START[:-1])
    y = np.where(model.rest.y < 0.0, np.nan, model.rest.y)
    share, rate = parameters.first.share[:, z].T, parameters.rest.rate[0, z]
    active = np.concatenate(
        [getattr(q, "active", np.ones(n)) for q, n in ((family.first, 2), (family.rest, 1))]
    )
    return z, family.first.prior.copy(), a, a / b, share.copy(), rate.copy(), active, codes, y


def new_data(sampler, rng):
    *_, share, rate, _, _, _ = state_of(sampler)
    codes, y = cells(share, rate, rng)
    sampler.model.first.cell[:] = np.where(codes < 0, -1, codes + START[:-1])
    sampler.model.rest.y[:] = np.where(np.isnan(y), -1.0, y)
    sampler.model.rest.log_factorial[:] = special.gammaln(np.nan_to_num(y) + 1.0)
    if sampler.collapse.state.__class__.__name__ == "Conjugate":
        sampler.collapse.renew(sampler.z, sampler.counts, frozenset(), rng)


def z_scores(collapse, n_sweeps, seed, moves=False, spoil=lambda sampler: None, select=False):
    rng = np.random.default_rng(seed)
    prior = []
    for _ in range(3000):
        drawn = from_priors(rng, select)
        prior.append(functions(*drawn, *cells(drawn[4], drawn[5], rng)))
    prior = np.array(prior)
    z, concentration, shape, mean, share, rate, _ = from_priors(rng, select)
    codes, y = cells(share, rate, rng)
    gamma = (np.array([shape]), np.array([shape / mean]))
    problem = TableProblem(
        (
            CategoricalProblem(codes, LEVELS, concentration, select=select),
            CountsProblem(y, gamma, select=select),
        )
    )
    parts = assemble(problem, collapse, SLOTS)
    for update in parts.updates:
        if isinstance(update.update, count_rates.RateHyperpriors):
            update.update.centre = CENTRE  # by default the data's, which change here
    made = [StandardMoves(all_anchors(N), 0)] if moves else []
    sampler = PartitionSampler(parts, dirichlet_process(SLOTS, CONCENTRATION), z, rng, moves=made)
    chain = np.empty((n_sweeps, prior.shape[1]))
    for row in range(-100, n_sweeps):
        sampler.sweep(rng)
        new_data(sampler, rng)
        spoil(sampler)
        if row >= 0:
            chain[row] = functions(*state_of(sampler))
    means = chain.reshape(50, -1, chain.shape[1]).mean(axis=1)
    variance = means.var(axis=0, ddof=1) / 50 + prior.var(axis=0) / len(prior)
    scores = (chain.mean(axis=0) - prior.mean(axis=0)) / np.sqrt(np.maximum(variance, 1e-300))
    return np.sign(scores) * stats.norm.isf(np.clip(stats.t.sf(np.abs(scores), 49), 1e-300, 0.5))


def threshold(n_functions):
    return stats.norm.isf(0.5e-4 / n_functions)


@pytest.mark.exact
@pytest.mark.parametrize(
    ("collapse", "moves", "select"),
    [
        ("collapsed", True, False),
        ("collapsed", False, False),
        ("naive", False, False),
        ("collapsed", True, True),
        ("collapsed", False, True),
    ],
)
def test_joint_distribution(collapse, moves, select):
    scores = z_scores(collapse, 6000, seed=1, moves=moves, select=select)
    print(f"{collapse}, indicators {select}: {scores.round(1)} of {threshold(scores.size):.1f}")
    assert np.abs(scores).max() < threshold(scores.size)


@pytest.mark.exact
def test_concentrations_that_drift_fail():
    def drift(sampler):
        sampler.family.first.prior[:2] *= 4.0

    scores = z_scores("collapsed", 6000, seed=2, spoil=drift)
    assert np.abs(scores).max() > 1.2 * threshold(scores.size)


@pytest.mark.exact
def test_counts_of_gaps_fail(monkeypatch):
    """Learning the rates from gaps as if they were zeros is found out."""
    right = count_rates.RateHyperpriors.draw

    def with_gaps(self, chain, rng):
        zeros = chain.model._replace(y=np.maximum(chain.model.y, 0.0))
        right(self, seen(chain, model=zeros), rng)

    monkeypatch.setattr(count_rates.RateHyperpriors, "draw", with_gaps)
    scores = z_scores("collapsed", 6000, seed=3)
    assert np.abs(scores).max() > 1.2 * threshold(scores.size)
