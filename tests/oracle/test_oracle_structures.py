"""Scores of rows under structured covariances against SciPy."""

from __future__ import annotations

import numpy as np
import pytest
from builders import precisions
from scipy import integrate, stats

from cavity._numba.jit import compiled
from cavity.collapse.problems import StructuredProblem
from cavity.collapse.registry import assemble
from cavity.conjugate.normal import set_factors, set_tied
from cavity.interface import complete, evidence, evidences, integrated_evidence, load, observe
from cavity.likelihoods.missing import RowTraits
from cavity.likelihoods.scale_mixture_rows import distance_of_row, log_scale_of_row
from cavity.priors.structured import StructuredPrior

N, D, SLOTS = 6, 3, 8
MISSING = np.zeros((N, D), dtype=bool)
MISSING[1, 0] = MISSING[2, 1] = MISSING[2, 2] = True
WEIGHT = np.array([1.0, 1.0, 1.0, 3.0, 0.5, 1.0])


def _evidence(model, q, k, i):
    return evidence(model, q, k, i)


def _evidences(model, q, i, out):
    evidences(model, q, i, out)


def _integrated(model, q, k, i):
    return integrated_evidence(model, q, k, i)


def _log_scale(rows, i, a):
    return log_scale_of_row(rows, i, a)


def _observe(model, q, k, i, sign):
    return observe(model, q, k, i, sign)


def _load(q, k):
    return load(q, k)


def _distance(parameters, rows, k, i):
    return distance_of_row(parameters, rows, k, i)


def _fill(model, q, k, i, n, out, rng):
    for t in range(n):
        complete(model, q, k, i, rng)
        for c in range(out.shape[1]):
            out[t, c] = model.y[i, c]


def call(kernel, *args):
    return compiled(kernel, args)(*args)


# Each has kernels of its own.
OTHERS = [pytest.param(name, marks=pytest.mark.exact) for name in ("diag", "factor")]


@pytest.fixture(scope="module", params=["tied", *OTHERS])
def case(request):
    """Rows, and slots that have taken some of them."""
    structure = request.param
    rng = np.random.default_rng(0)
    y = rng.standard_normal((N, D))
    weight = np.ones(N) if structure == "factor" else WEIGHT
    prior = StructuredPrior(np.array([0.1, 0.0, -0.2]), 0.4, 6.0, np.array([0.5, 1.0, 1.5]))
    made = StructuredProblem(y, structure, prior, 5.0, rows=RowTraits(MISSING, weight), n_factors=2)
    parts = assemble(made, "collapsed", SLOTS)
    model, q = parts.collapse.model, parts.collapse.family
    model.scale[:] = rng.gamma(2.0, size=N) + 0.1
    for k in range(SLOTS):
        if structure == "factor":
            set_factors(q.covariance, k, rng.gamma(2.0, size=D), rng.standard_normal((D, 2)))
        for i in rng.choice(N, 3):
            assert call(_observe, model, q, k, int(i), 1.0)
    if structure == "tied":
        set_tied(q.covariance, stats.invwishart.rvs(7.0, np.eye(D), random_state=1))
    parameters = parts.collapse.parameters
    parameters.mean[:] = q.mean
    if structure != "diag":
        for there, here in zip(q.covariance, parameters.covariance, strict=True):
            here[...] = there
    return structure, model, q, parameters


def twin(structure, model, q, k, i, scale=None):
    """Log density of a row's values given its scale, of those that are there."""
    s = model.scale[i] if scale is None else scale
    w = model.weight[i]
    there = model.there[i] == 1
    y, kappa = model.y[i][there], q.kappa[k]
    mean = q.mean[there, k]
    d = int(there.sum())
    # A row of weight w and a sum of scales s: w Gaussian rows of scale s / w each, the powers of
    # scales apart.
    powers = 0.5 * w * d * np.log(s / w)
    if structure == "diag":
        # One after another, updating by Bayes' theorem, is not possible for w that are not whole:
        # integrate over mean and variance instead.
        total = 0.0
        for j in np.flatnonzero(there):
            nu, psi, m = q.nu[k], q.psi[j, k], q.mean[j, k]

            def density(log_v, j=j, nu=nu, psi=psi, m=m):
                v = np.exp(log_v)
                # The mean integrated out by hand: N(mean; m, v / kappa) and precision s / v.
                spread = kappa * s / (kappa + s)
                value = -0.5 * w * np.log(2 * np.pi * v) - 0.5 * np.log1p(s / kappa)
                value -= 0.5 * spread * (model.y[i, j] - m) ** 2 / v
                return np.exp(value + stats.invgamma.logpdf(v, 0.5 * nu, scale=0.5 * psi) + log_v)

            total += np.log(integrate.quad(density, -12.0, 12.0, limit=400)[0])
        return total
    sigma = np.linalg.inv(precisions(q.covariance, np.array([k]))[0])[np.ix_(there, there)]
    if w == 1.0:
        value = stats.multivariate_normal.logpdf(y, mean, sigma * (1.0 / s + 1.0 / kappa))
        return value - powers if d else 0.0
    spread = kappa * s / (kappa + s)
    form = (y - mean) @ np.linalg.solve(sigma, y - mean)
    value = -0.5 * w * np.linalg.slogdet(2 * np.pi * sigma)[1] - 0.5 * d * np.log1p(s / kappa)
    return value - 0.5 * spread * form


def test_evidence(case):
    structure, model, q, _ = case
    out = np.empty(SLOTS)
    for i in range(N):
        own = call(_log_scale, model, i, 2.5)
        call(_evidences, model, q, i, out)
        for k in (0, 3, 7):
            found = call(_evidence, model, q, k, i)
            assert found - own == pytest.approx(twin(structure, model, q, k, i), rel=1e-7)
            if model.weight[i] == 1.0:
                assert out[k] == pytest.approx(found, rel=1e-9)


@pytest.mark.exact
@pytest.mark.parametrize(("d", "n_factors"), [(3, 1), (4, 3), (5, 2)])
def test_whole_rows_with_any_number_of_factors(d, n_factors):
    """Factors are taken two at a time, and so are columns: one may be left over."""
    rng = np.random.default_rng(d)
    y = rng.standard_normal((N, d))
    prior = StructuredPrior(np.zeros(d), 0.4, 6.0, np.ones(d))
    made = StructuredProblem(y, "factor", prior, 5.0, n_factors=n_factors)
    parts = assemble(made, "collapsed", SLOTS)
    model, q = parts.collapse.model, parts.collapse.family
    for k in range(SLOTS):
        set_factors(q.covariance, k, rng.gamma(2.0, size=d), rng.standard_normal((d, n_factors)))
        assert call(_observe, model, q, k, k % N, 1.0)
    out = np.empty(SLOTS)
    for i in range(N):
        own = call(_log_scale, model, i, 2.5)
        call(_evidences, model, q, i, out)
        for k in range(SLOTS):
            wanted = twin("factor", model, q, k, i)
            assert out[k] - own == pytest.approx(wanted, rel=1e-7)
            assert call(_evidence, model, q, k, i) == pytest.approx(out[k], rel=1e-9)


def test_density_of_scales(case):
    """Of w scales with the powers that w rows leave them, in proportions that are integrated."""
    _, model, _, _ = case
    a = 2.5
    for i in range(N):
        w, d, s = model.weight[i], model.n_there[i], model.scale[i]
        found = call(_log_scale, model, i, a)
        if w == 1.0:
            expected = stats.gamma.logpdf(s, a, scale=1.0 / a) + 0.5 * d * np.log(s)
            assert found == pytest.approx(expected, rel=1e-10)
        if w == 3.0:
            # Three scales on a grid of proportions.
            p = (np.arange(200) + 0.5) / 200
            x, z = np.meshgrid(p, p)
            inside = x + z < 1.0
            parts = np.stack([x[inside], z[inside], 1.0 - x[inside] - z[inside]]) * s
            logs = (stats.gamma.logpdf(parts, a, scale=1.0 / a) + 0.5 * d * np.log(parts)).sum(0)
            expected = np.log(np.exp(logs).sum() / 200**2) + 2.0 * np.log(s)
            assert found == pytest.approx(expected, abs=2e-3)


def test_evidence_with_the_scale_integrated_out(case):
    structure, model, q, _ = case
    i, k = 2, 3
    w, d, a = model.weight[i], model.n_there[i], model.alpha[k]

    def density(log_s):
        s = np.exp(log_s)
        value = stats.gamma.logpdf(s, a, scale=1.0 / a) + 0.5 * w * d * np.log(s)
        return np.exp(value + twin(structure, model, q, k, i, s) + log_s)

    expected = np.log(integrate.quad(density, -15.0, 4.0, limit=200)[0])
    kept = model.scale.copy()
    assert call(_integrated, model, q, k, i) == pytest.approx(expected, rel=1e-6)
    assert np.array_equal(model.scale, kept)


def test_what_joins_and_leaves(case):
    """A row that joins and leaves changes nothing; sums gathered afresh are the same."""
    _, model, q, _ = case
    before = [part.copy() for part in q if isinstance(part, np.ndarray)]
    for i in range(N):
        assert call(_observe, model, q, 2, i, 1.0)
        working = q.mean[:, 2].copy()
        assert call(_load, q, 2)
        assert q.mean[:, 2] == pytest.approx(working, rel=1e-9)
        assert call(_observe, model, q, 2, i, -1.0)
    after = [part for part in q if isinstance(part, np.ndarray)]
    for one, other in zip(before, after, strict=True):
        assert other == pytest.approx(one, rel=1e-7, abs=1e-9)


def test_distances(case):
    structure, model, _, parameters = case
    for k in (0, 5):
        if structure == "diag":
            sigma = np.diag(parameters.variance[:, k])
        else:
            sigma = np.linalg.inv(precisions(parameters.covariance, np.array([k]))[0])
        for i in (0, 1, 2):
            use = model.there[i] == 1
            block, away = sigma[np.ix_(use, use)], (model.y[i] - parameters.mean[:, k])[use]
            delta, half = call(_distance, parameters, model, k, i)
            assert delta == pytest.approx(away @ np.linalg.solve(block, away), rel=1e-8)
            assert half == pytest.approx(0.5 * np.linalg.slogdet(block)[1], rel=1e-8, abs=1e-9)


def test_what_fills_gaps(case):
    """Means and covariances of what is drawn, at five standard errors."""
    structure, model, q, _ = case
    n, i, k = 40_000, 2, 4
    kept = model.y.copy()
    out = np.empty((n, D))
    call(_fill, model, q, k, i, n, out, np.random.default_rng(3))
    model.y[:] = kept
    gap = MISSING[i]
    spread = 1.0 / model.scale[i] + 1.0 / q.kappa[k]
    if structure == "diag":
        centre = q.mean[gap, k]
        covariance = np.diag(spread * q.psi[gap, k] / (q.nu[k] - 2.0))
    else:
        sigma = np.linalg.inv(precisions(q.covariance, np.array([k]))[0])
        slope = sigma[np.ix_(gap, ~gap)] @ np.linalg.inv(sigma[np.ix_(~gap, ~gap)])
        centre = q.mean[gap, k] + slope @ (kept[i] - q.mean[:, k])[~gap]
        covariance = sigma[np.ix_(gap, gap)] - slope @ sigma[np.ix_(~gap, gap)]
        covariance = spread * covariance
    drawn = out[:, gap]
    assert np.array_equal(out[:, ~gap], np.repeat(kept[i][~gap][None], n, axis=0))
    sd = np.sqrt(np.diag(covariance))
    assert np.abs(drawn.mean(axis=0) - centre).max() < 5 * sd.max() / np.sqrt(n)
    found = np.cov(drawn.T)
    slack = 5 * np.outer(sd, sd) * np.sqrt(2.0 / n) * (3.0 if structure == "diag" else 1.0)
    assert np.all(np.abs(found - covariance) < slack)
