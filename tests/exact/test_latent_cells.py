"""Cells known up to an interval or an error, against brute-force integration.

The chi-square tests are at level 1e-4 each, with fixed seeds, as in `test_enumeration`.
"""

from __future__ import annotations

import functools

import enumeration
import numpy as np
import pytest
import small
import uneven
from builders import gaussian_collapse, student_t_collapse
from scipy import special, stats

from cavity._numba.jit import jit
from cavity.conjugate.nig import DiagonalParameters
from cavity.conjugate.niw import GaussianParameters
from cavity.conjugate.normal import MeanParameters, factors, set_factors, tied_covariance
from cavity.likelihoods.latent_cells import begin_cells, cell_pull, latent_cells, move_cell
from cavity.mcmc.chain import PartitionSampler
from cavity.priors.rows import RowPlaces

LEVEL = 1e-4
Y, N, D = uneven.Y, uneven.N, uneven.D
ROWS, COLUMNS = np.array([0, 2, 4]), np.array([1, 0, 1])
HALF = np.array([2.5, 2.0, np.inf])  # half the width of each interval
# With errors the last row has two, and another one has one and a missing value.
ERROR = {(4, 0): 0.8, (4, 1): 1.5, (1, 0): 2.0}
MISSING = np.zeros((N, D), dtype=bool)
MISSING[1, 1] = True
LOG_PRIOR = small.log_prior("dp")


def missing(errors):
    """Missing values come with errors, but for those of whole rows."""
    return MISSING & (errors is True)


def cells(errors):
    """Latent cells; without errors the last one has an interval open to one side."""
    low, high = np.full((2, N, D), -np.inf)
    high = -high
    error = np.zeros((N, D))
    low[ROWS, COLUMNS] = Y[ROWS, COLUMNS] - HALF
    high[ROWS, COLUMNS] = Y[ROWS, COLUMNS] + HALF
    value = Y
    if errors:
        for place, e in ERROR.items():
            error[place] = e
        value = np.where(missing(errors), np.nan, Y)
    else:
        low[ROWS[2], COLUMNS[2]] = Y[ROWS[2], COLUMNS[2]] - 1.0
    return latent_cells(low, high, value, error), low, high, error


def with_errors(i, mean, sigma, df, errors):
    """Log density of a row that has errors under many parameters, and its cell's mean."""
    there = ~missing(errors)[i]
    error = np.diag([ERROR.get((i, c), 0.0) ** 2 for c in range(D)])[np.ix_(there, there)]
    away = Y[i, there] - mean[:, there]
    sigma = sigma[:, there][:, :, there]
    if df is None:
        scales, weights = [1.0], [1.0]
    else:
        scales, weights = special.roots_genlaguerre(24, 0.5 * df - 1.0)
        scales, weights = scales / (0.5 * df), weights / special.gamma(0.5 * df)
    total = []
    for u, w in zip(scales, weights, strict=True):
        whole = sigma / u + error
        solved = np.linalg.solve(whole, away[..., None])[..., 0]
        value = np.linalg.slogdet(2.0 * np.pi * whole)[1] + (away * solved).sum(axis=1)
        total.append(np.log(w) - 0.5 * value)
    latent = mean[:, there] + (sigma @ solved[..., None])[..., 0]
    return special.logsumexp(total, axis=0), latent[:, -1] if df is None else None


def row_terms(i, mean, sigma, df, errors):
    """Log density of row i under many parameters, and the mean of its latent cell given them."""
    _, low, high, _ = cells(errors)
    if errors and i in (1, 4):
        return with_errors(i, mean, sigma, df, errors)
    at = np.flatnonzero(i == ROWS)
    if not at.size:
        return uneven.log_density_of(Y[i], np.ones(D, dtype=bool), mean, sigma, df), None
    c = int(COLUMNS[at[0]])
    o = 1 - c
    there = np.arange(D) == o
    log_p = uneven.log_density_of(Y[i], there, mean, sigma, df)
    slope = sigma[:, c, o] / sigma[:, o, o]
    away = Y[i, o] - mean[:, o]
    centre = mean[:, c] + slope * away
    variance = sigma[:, c, c] - slope * sigma[:, o, c]
    if df is None:
        sd = np.sqrt(variance)
        a, b = (low[i, c] - centre) / sd, (high[i, c] - centre) / sd
        inside = np.maximum(special.ndtr(b) - special.ndtr(a), 1e-300)
        pdf = stats.norm.pdf
        return log_p + np.log(inside), centre + sd * (pdf(a) - pdf(b)) / inside
    sd = np.sqrt(variance * (df + away**2 / sigma[:, o, o]) / (df + 1.0))
    ends = [special.stdtr(df + 1.0, (end - centre) / sd) for end in (low[i, c], high[i, c])]
    return log_p + np.log(np.maximum(ends[1] - ends[0], 1e-300)), None


@functools.cache
def by_brute_force(df, errors):
    """Log marginal of every subset, and the means of the latent cells with all rows together."""
    mean, sigma = uneven.parameter_draws(400_000)
    each = [row_terms(i, mean, sigma, df, errors) for i in range(N)]
    marginals = {}
    for mask in range(1, 1 << N):
        total = sum(each[i][0] for i in range(N) if mask >> i & 1)
        marginals[mask] = float(special.logsumexp(total) - np.log(len(mean)))
    together = special.softmax(sum(terms[0] for terms in each))
    means = [None if each[i][1] is None else float(together @ each[i][1]) for i in ROWS]
    return marginals, means


def parts_of(name, errors):
    likelihood, _, kind = name.rpartition("-")
    y, given = Y, {"latent": cells(errors)[0]}
    if missing(errors).any():
        y, given["rows"] = np.where(MISSING, 0.0, Y), uneven.traits(MISSING)
    if likelihood == "gaussian":
        return gaussian_collapse(y, uneven.NIW, small.SLOTS, kind, **given)
    return student_t_collapse(y, uneven.NIW, small.SLOTS, kind, small.DF, **given)


def chain(name, errors, rng):
    z = np.zeros(N, dtype=int)
    return PartitionSampler(parts_of(name, errors), small.partition_prior("dp"), z, rng)


@pytest.mark.variants(
    "exact",
    "student-t-*",
    "gaussian-naive-*",
    "gaussian-collapsed-False",
    "gaussian-collapsed-True",
)
@pytest.mark.parametrize(
    ("name", "errors"),
    [
        ("gaussian-collapsed", "whole rows"),
        ("gaussian-collapsed", True),
        ("gaussian-collapsed", False),
        ("gaussian-naive", True),
        ("student-t-collapsed", True),
        ("student-t-collapsed", False),
        ("student-t-blocked", True),
        ("student-t-blocked", False),
        ("student-t-naive", True),
        ("student-t-naive", False),
    ],
)
def test_frequencies_of_partitions(name, errors):
    rng = np.random.default_rng(21)
    df = None if small.likelihood_of(name) == "gaussian" else small.DF
    exact = uneven.exact(by_brute_force(df, errors)[0], LOG_PRIOR)
    sampler = chain(name, errors, rng)
    result = enumeration.compare(exact, enumeration.visits(sampler, exact, 12_000, rng))
    print(f"{name}, errors {errors}: {result}")
    assert result.n_cells > 10
    assert result.p_value > LEVEL


def test_values_that_stay_where_they_start_are_found_out(monkeypatch):
    """Negative control: labels are right only if the latent values are drawn."""
    monkeypatch.setattr(
        "cavity.likelihoods.latent_cells.LatentCellUpdate.draw", lambda *given: None
    )
    rng = np.random.default_rng(22)
    exact = uneven.exact(by_brute_force(None, "whole rows")[0], LOG_PRIOR)
    sampler = chain("gaussian-collapsed", "whole rows", rng)
    result = enumeration.compare(exact, enumeration.visits(sampler, exact, 6000, rng))
    assert result.p_value < 1e-8


def test_latent_values_of_one_cluster():
    """Means against brute force, five standard errors of 40 batches: 1e-5 false alarms."""
    rng = np.random.default_rng(23)
    wanted = np.array(by_brute_force(None, "whole rows")[1])
    sampler = chain("gaussian-collapsed", "whole rows", rng)
    sampler.moves = ()
    prior = RowPlaces(np.ones(N), np.zeros(N, dtype=np.int64))
    parts = parts_of("gaussian-collapsed", "whole rows")
    known = prior.around(small.partition_prior("dp"), small.SLOTS)
    sampler = PartitionSampler(parts, known, np.zeros(N, dtype=int), rng)
    draws = np.empty((8000, 3))
    for row in draws:
        sampler.sweep(rng)
        row[:] = sampler.model.y[ROWS, COLUMNS]
    assert (sampler.z == sampler.z[0]).all()
    batches = draws.reshape(40, -1, 3).mean(axis=1)
    error = batches.std(axis=0, ddof=1) / np.sqrt(40)
    print(f"{batches.mean(axis=0)} for {wanted} +- {error}")
    assert (error < 0.05).all()
    assert (np.abs(batches.mean(axis=0) - wanted) < 5.0 * error + 0.01).all()
    low, high = cells("whole rows")[1:3]
    assert (draws >= low[ROWS, COLUMNS]).all()
    assert (draws <= high[ROWS, COLUMNS]).all()


@jit
def pulls(parameters, k, y, column, step, work, out):
    """Pull and precision of each column before and after one of them has moved."""
    begin_cells(parameters, k, y, work)
    for c in range(y.shape[0]):
        out[0, c], out[1, c] = cell_pull(parameters, k, c, y, work)
    move_cell(parameters, k, column, step, work)
    y[column] += step
    for c in range(y.shape[0]):
        out[2, c] = cell_pull(parameters, k, c, y, work)[0]


@pytest.mark.parametrize("structure", ["full", "diag", "tied", "factor"])
def test_conditional_normal_of_a_cell(structure):
    """The pull and precision of each column against those of the precision matrix."""
    rng = np.random.default_rng(3)
    d, slots, k = 4, 8, 2
    mean = rng.standard_normal((d, slots))
    if structure == "diag":
        variance = rng.uniform(0.5, 2.0, (d, slots))
        sigma = np.diag(variance[:, k])
        parameters = DiagonalParameters(mean, variance)
    elif structure == "factor":
        own = factors(np.ones(d), 2, slots, np.ones(2 + d))
        loading, variance = rng.standard_normal((d, 2)), rng.uniform(0.5, 2.0, d)
        set_factors(own, k, variance, loading)
        sigma = np.diag(variance) + loading @ loading.T
        parameters = MeanParameters(mean, own)
    else:
        root = rng.standard_normal((d, d)) + 2.0 * np.eye(d)
        sigma = root @ root.T
        if structure == "tied":
            parameters = MeanParameters(mean, tied_covariance(sigma))
        else:
            whiten = np.zeros((d, d, slots))
            whiten[:, :, k] = np.linalg.inv(np.linalg.cholesky(sigma))
            parameters = GaussianParameters(mean, whiten, np.zeros(slots))
    precision = np.linalg.inv(sigma)
    y = rng.standard_normal(d)
    before = precision @ (y - mean[:, k])
    out = np.zeros((3, d))
    pulls(parameters, k, y, 1, 0.7, np.zeros(d), out)
    np.testing.assert_allclose(out[0], before, atol=1e-10)
    np.testing.assert_allclose(out[1], np.diag(precision), atol=1e-10)
    np.testing.assert_allclose(out[2], precision @ (y - mean[:, k]), atol=1e-10)


def test_a_restored_chain_draws_the_same():
    rng = np.random.default_rng(5)
    first = chain("gaussian-collapsed", "whole rows", rng)
    for _ in range(5):
        first.sweep(rng)
    state, at = first.state(), rng.bit_generator.state
    other = chain("gaussian-collapsed", "whole rows", np.random.default_rng(6))
    other.restore(state)
    again = np.random.default_rng(7)
    again.bit_generator.state = at
    for _ in range(5):
        first.sweep(rng)
        other.sweep(again)
    assert np.array_equal(first.model.y, other.model.y)
    assert first.log_joint() == other.log_joint()
    state["update.latent_cells.values"] = state["update.latent_cells.values"] + 100.0
    with pytest.raises(ValueError, match="outside its interval"):
        other.restore(state)
