"""Joint-distribution test of whole tables: all kinds of columns, with gaps, and labels known.

As in test_geweke_tables.py, whose priors of categories and counts these are. Weights have no part
in it: a row that stands for several has a likelihood to a power, from which no data can be drawn;
they are enumerated (`tests/exact/test_uneven_tables.py`).
"""

from __future__ import annotations

import numpy as np
import pytest
from scipy import special, stats
from test_geweke_tables import (
    CENTRE,
    CONCENTRATION,
    LEVELS,
    SLOTS,
    START,
    N,
    cells,
    from_priors,
    functions,
    threshold,
)

from cavity.collapse.problems import (
    CategoricalProblem,
    CountsProblem,
    GaussianProblem,
    TableProblem,
)
from cavity.collapse.registry import assemble
from cavity.likelihoods import count_rates
from cavity.likelihoods.latent_cells import LatentCellUpdate, latent_cells
from cavity.likelihoods.missing import RowTraits
from cavity.mcmc.chain import PartitionSampler
from cavity.moves.anchors import all_anchors
from cavity.moves.standard import StandardMoves
from cavity.priors.cluster import NIWPrior
from cavity.priors.partition import dirichlet_process
from cavity.priors.rows import RowPlaces

NIW = NIWPrior(np.array([0.5, -0.3]), 0.4, 6.0, np.array([[2.0, 0.8], [0.8, 1.5]]))
MISSING = np.zeros((N, 2), dtype=bool)
MISSING[[0, 2, 3], [1, 0, 1]] = True
ERRORS = np.zeros((N, 2))
ERRORS[0, 0], ERRORS[1], ERRORS[4, 1] = 0.7, [1.5, 0.8], 2.0
KNOWN = np.array([0, -1, 0, -1, 1])
FREE = np.full(N, -1)


def allowed(z):
    return z[0] == z[2] and z[0] != z[4]


def prior_draw(rng):
    """All but the data: that of categories and counts, and each row's mean and root of Sigma."""
    while True:
        drawn = from_priors(rng)
        z = drawn[0]
        if allowed(z):
            break
    sigma = stats.invwishart(NIW.nu, NIW.psi).rvs(N, random_state=rng)
    root = np.linalg.cholesky(sigma)
    mean = NIW.mean + (root @ rng.standard_normal((N, 2, 1)))[..., 0] / np.sqrt(NIW.kappa)
    return drawn, mean[z], root[z]


def measurements(mean, root, rng):
    return mean + (root @ rng.standard_normal((N, 2, 1)))[..., 0]


def compared(drawn, mean, root, codes, counts, y):
    z = drawn[0]
    log_det = np.log(root[:, 0, 0] * root[:, 1, 1])
    away = np.linalg.solve(root, (y - mean)[..., None])[..., 0]
    return [
        *functions(*drawn, codes, counts),
        float(z[1] == z[0]),
        float(z[3] == z[4]),
        np.tanh(mean[0, 0]),
        np.tanh(mean[0, 1] * mean[4, 1]),
        log_det[0],
        log_det[1] * (z[1] == z[0]),
        np.tanh(y[0, 0]),
        np.tanh(y[0, 1]),  # fills a gap, as do the next three
        np.tanh(y[0, 1] * y[2, 0]),
        np.tanh(y[3, 1]) * (z[3] == z[4]),
        np.tanh(y[2, 0]) * np.tanh(y[2, 1]),
        np.tanh(0.5 * np.mean(away**2)),
        np.tanh(away[0, 1]) * np.tanh(away[2, 0]),
        np.tanh(y[1, 0]) * float(codes[1, 0] == 0),
        np.tanh(y[1, 0] * y[1, 1]),
        np.tanh(y[4, 1]) * (z[1] == z[4]),
    ]


def state_of(sampler):
    family, parameters = sampler.family.rest, sampler.parameters
    z = sampler.labels().astype(int)
    a, b = family.rest.prior
    share, rate = parameters.rest.first.share[:, z].T, parameters.rest.rest.rate[0, z]
    drawn = (z, family.first.prior.copy(), a, a / b, share.copy(), rate.copy(), np.ones(3))
    whiten = np.moveaxis(parameters.first.whiten, 2, 0)[z]
    return drawn, parameters.first.mean[:, z].T.copy(), np.linalg.inv(whiten)


def new_data(sampler, rng):
    drawn, mean, root = state_of(sampler)
    codes, counts = cells(drawn[4], drawn[5], rng)
    rest = sampler.model.rest
    rest.first.cell[:] = np.where(codes < 0, -1, codes + START[:-1])
    rest.rest.y[:] = np.where(np.isnan(counts), -1.0, counts)
    rest.rest.log_factorial[:] = special.gammaln(np.nan_to_num(counts) + 1.0)
    y = measurements(mean, root, rng)
    sampler.model.first.y[:] = y
    for update in sampler.updates:
        if isinstance(getattr(update, "update", None), LatentCellUpdate):
            latent = update.update.cells
            error = np.where(latent.precision > 0.0, 1.0 / np.sqrt(latent.precision + 1e-300), 0.0)
            truth = y[latent.row, latent.column]
            latent.value[:] = np.where(
                error > 0.0, truth + error * rng.standard_normal(truth.size), 0.0
            )
    sampler.collapse.renew(sampler.z, sampler.counts, frozenset(), rng)
    return compared(drawn, mean, root, codes, counts, y)


def z_scores(n_sweeps, seed, home, errors=None):
    rng = np.random.default_rng(seed)
    prior = []
    for _ in range(3000):
        drawn, mean, root = prior_draw(rng)
        data = *cells(drawn[4], drawn[5], rng), measurements(mean, root, rng)
        prior.append(compared(drawn, mean, root, *data))
    prior = np.array(prior)
    drawn, mean, root = prior_draw(rng)
    codes, counts = cells(drawn[4], drawn[5], rng)
    gamma = (np.array([drawn[2]]), np.array([drawn[2] / drawn[3]]))
    rows = RowTraits(MISSING, np.ones(N))
    latent = None
    if errors is not None:
        infinite = np.full(MISSING.shape, np.inf)
        latent = latent_cells(-infinite, infinite, np.where(MISSING, np.nan, 0.0), errors)
    problem = TableProblem(
        (
            GaussianProblem(measurements(mean, root, rng), NIW, rows=rows, latent=latent),
            CategoricalProblem(codes, LEVELS, drawn[1]),
            CountsProblem(counts, gamma),
        )
    )
    parts = assemble(problem, "collapsed", SLOTS)
    for update in parts.updates:
        if isinstance(update.update, count_rates.RateHyperpriors):
            update.update.centre = CENTRE
    state = RowPlaces(home).around(dirichlet_process(SLOTS, CONCENTRATION), SLOTS)
    # The known ones are in the slots of their labels, all others in the third.
    z = np.where(KNOWN >= 0, KNOWN, 2)
    sampler = PartitionSampler(parts, state, z, rng, moves=[StandardMoves(all_anchors(N), 0)])
    chain = np.empty((n_sweeps, prior.shape[1]))
    for row in range(-200, n_sweeps):
        sampler.sweep(rng)
        values = new_data(sampler, rng)
        if row >= 0:
            chain[row] = values
    means = chain.reshape(50, -1, chain.shape[1]).mean(axis=1)
    variance = means.var(axis=0, ddof=1) / 50 + prior.var(axis=0) / len(prior)
    scores = (chain.mean(axis=0) - prior.mean(axis=0)) / np.sqrt(np.maximum(variance, 1e-300))
    return np.sign(scores) * stats.norm.isf(np.clip(stats.t.sf(np.abs(scores), 49), 1e-300, 0.5))


@pytest.mark.exact
def test_joint_distribution():
    scores = z_scores(6000, 1, KNOWN)
    print(f"{scores.round(1)} of {threshold(scores.size):.1f}")
    assert np.abs(scores).max() < threshold(scores.size)


@pytest.mark.exact
def test_joint_distribution_with_errors():
    scores = z_scores(6000, 3, KNOWN, ERRORS)
    print(f"{scores.round(1)} of {threshold(scores.size):.1f}")
    assert np.abs(scores).max() < threshold(scores.size)


@pytest.mark.exact
def test_known_labels_that_are_not_heeded_fail():
    scores = z_scores(1500, 2, FREE)
    assert np.abs(scores).max() > 1.2 * threshold(scores.size)
