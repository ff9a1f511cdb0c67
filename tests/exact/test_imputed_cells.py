"""What `impute` says of missing cells, against brute-force numerical integration.

Six rows of two measurements, one missing in each of two rows, two clusters with a fixed prior. The
posterior of a cell is a mixture over all labellings of the rows; within one the missing cells are
on a grid, the clusters' parameters in closed form.
"""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import uneven
from scipy import special

from cavity import GaussianMixture
from cavity.estimators.dequantize import within_steps
from cavity.priors import ClusterPrior

# Two values of each column are close, so that none is known to have been rounded.
X = np.array([[0.1, 0.3], [0.9, np.nan], [0.905, 1.1], [4.8, 3.1], [np.nan, 3.905], [6.2, 3.9]])
CELLS = [(1, 1), (4, 0)]
CONCENTRATION = 2.0
LEVEL = 0.9
STEP = 0.07  # of the grid, before it is stretched


@pytest.fixture(scope="module")
def fitted():
    return GaussianMixture(
        2,
        prior="dirichlet",
        concentration=CONCENTRATION,
        cluster_prior=ClusterPrior(0.5, 9.0, 0.4),
        n_chains=2,
        n_warmup=100,
        n_draws=4000,
        n_jobs=1,
        random_state=0,
    ).fit(X)


def cluster_tables(standard, niw):
    """Log marginal of every set of rows, and density over the nodes of each missing cell in it."""
    missing = np.isnan(standard)
    nodes, _ = uneven.grid(STEP)
    marginal, density = {0: 0.0}, {}
    for mask in range(1, 1 << len(standard)):
        own = [i for i in range(len(standard)) if mask >> i & 1]
        rows, weight = uneven.with_cells(standard[own], missing[own], STEP)
        log_p = uneven.log_niw(rows, niw) + weight
        marginal[mask] = special.logsumexp(log_p)
        inside = [cell for cell in CELLS if cell[0] in own]
        shaped = special.softmax(log_p).reshape((nodes.size,) * len(inside))
        for axis, cell in enumerate(inside):
            others = tuple(a for a in range(len(inside)) if a != axis)
            density[mask, cell] = shaped.sum(axis=others)
    return nodes, marginal, density


def by_brute_force(standard, niw):
    """Nodes, and the posterior probability of each for each missing cell."""
    nodes, marginal, density = cluster_tables(standard, niw)
    logs, found = [], []
    for z in itertools.product((0, 1), repeat=len(standard)):
        masks = [sum(1 << i for i, k in enumerate(z) if k == slot) for slot in (0, 1)]
        sizes = np.array([mask.bit_count() for mask in masks])
        log_p = special.gammaln(sizes + CONCENTRATION).sum()
        logs.append(log_p + sum(marginal[mask] for mask in masks))
        found.append([density[masks[z[i]], (i, j)] for i, j in CELLS])
    return nodes, np.tensordot(special.softmax(logs), np.array(found), axes=1)


def quantiles(nodes, p):
    """Mean, and ends of the interval, of probabilities on the nodes."""
    below = np.cumsum(p) - 0.5 * p
    return np.array([nodes @ p, *np.interp([0.5 - LEVEL / 2, 0.5 + LEVEL / 2], below, nodes)])


@pytest.mark.exact
def test_means_and_intervals(fitted, monkeypatch):
    """Within .06 of a column's spread: three to four standard errors of the ends of intervals.

    All draws are averaged over, where an answer takes 200 of them.
    """
    monkeypatch.setattr("cavity.predict.predictor.MAX_DRAWS", 8000)
    standard = within_steps(fitted._units.standardise(X))
    nodes, posterior = by_brute_force(standard, fitted.cluster_prior.full(2, fitted.n_clusters)[0])
    np.testing.assert_allclose(posterior.sum(axis=1), 1.0)
    filled = fitted.impute(X, LEVEL)
    scale, centre = fitted._units.scale, fitted._units.centre
    wrong = []
    for (i, j), p in zip(CELLS, posterior, strict=True):
        parts = (filled.mean, filled.lower, filled.upper)
        got = np.array([(part[i, j] - centre[j]) / scale[j] for part in parts])
        wanted = quantiles(nodes, p)
        print(f"row {i}, column {j}: {got.round(3)} for {wanted.round(3)}")
        np.testing.assert_allclose(got, wanted, atol=0.06)
        # The mean of the column's other values is no such answer.
        wrong.append(abs(np.nanmean(standard[:, j]) - wanted[0]))
    assert max(wrong) > 0.3
