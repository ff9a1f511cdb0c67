"""Draws of what is not a label, against NumPy: the same random numbers, the same values."""

from __future__ import annotations

import math
from types import SimpleNamespace

import numpy as np
import pytest
from scipy import special, stats

from cavity._numba.arrays import copied
from cavity.collapse.problems import CategoricalProblem, CountsProblem, StructuredProblem
from cavity.collapse.registry import assemble
from cavity.conjugate.nig import DiagonalParameters, pack_diagonal, unpack_diagonal
from cavity.conjugate.normal import Tied
from cavity.likelihoods.category_shares import ShareHyperpriors
from cavity.likelihoods.count_rates import LEAST_SHAPE, MOST_SHAPE, RateHyperpriors
from cavity.likelihoods.degrees_of_freedom import TailUpdate
from cavity.likelihoods.factor_loadings import FactorUpdate
from cavity.likelihoods.missing import CellTraits, RowTraits
from cavity.likelihoods.shared_covariance import TiedCovarianceUpdate
from cavity.mcmc.chain import PartitionSampler
from cavity.priors.collapsed_df import CollapsedSpareUpdate
from cavity.priors.covariance_df import LEAST, MOST
from cavity.priors.covariance_scale import DIAGONAL, scale_prior
from cavity.priors.hyperpriors import DiagonalHyperpriors, MeanSpreadUpdate
from cavity.priors.mean_spread import SpreadPrior
from cavity.priors.partition import dirichlet_process
from cavity.priors.structured import StructuredPrior

N, D, SLOTS = 30, 3, 8
TYPICAL = 4.0
STRENGTH_PRIOR = 2.0, 1.0
SCALE = scale_prior(DIAGONAL, 4.0, np.array([0.7, 1.1, 0.4]), 0.5)
SPREAD = SpreadPrior(3.0, 6.0, 0.5)
PRIOR = StructuredPrior(np.array([0.3, -0.2, 0.1]), 0.4, 6.0, SCALE.typical, SCALE, TYPICAL, SPREAD)


def view(sampler):
    """A copy of a chain's state, as an update sees it."""
    return SimpleNamespace(
        model=copied(sampler.model),
        family=copied(sampler.family),
        parameters=copied(sampler.parameters),
        prior=sampler.prior,
        z=sampler.z.copy(),
        counts=sampler.counts.copy(),
    )


def slice_step(log_density, x, width, rng):
    """A slice step with stepping out, as in the paper by Neal."""
    level = log_density(x) + math.log1p(-rng.random())
    left = x - width * rng.random()
    right = left + width
    to_left = int(rng.random() * 60)
    to_right = 59 - to_left
    while to_left > 0 and log_density(left) > level:
        left, to_left = left - width, to_left - 1
    while to_right > 0 and log_density(right) > level:
        right, to_right = right + width, to_right - 1
    while True:
        proposal = left + rng.random() * (right - left)
        if log_density(proposal) > level:
            return proposal
        left, right = (proposal, right) if proposal < x else (left, proposal)


def draw_widths(scale, drawn, rng):
    """Mean of the prior of the mean variances, given these."""
    for j in range(D):
        rate = rng.standard_gamma(2.0 * scale.tail) / (1.0 + scale.typical[j] / scale.mean[j])
        rate += scale.strength * drawn[j] / scale.typical[j]
        scale.mean[j] = scale.typical[j] * rate / rng.standard_gamma(scale.tail + scale.strength)


def draw_variances(scale, nu, variance, rng):
    """Mean variances given those of the clusters."""
    shape = scale.strength + 0.5 * len(variance) * nu
    rate = scale.strength / scale.mean + 0.5 * (nu - 2.0) * (1.0 / variance).sum(axis=0)
    drawn = rng.standard_gamma(shape, D) / rate
    draw_widths(scale, drawn, rng)
    return drawn


def draw_centre(n_clusters, form, precision, weighed, rng):
    """Strength and center of the means' prior."""
    kappa = rng.standard_gamma(SPREAD.shape + 0.5 * n_clusters * D) / (SPREAD.rate + 0.5 * form)
    noise = rng.standard_normal(D)
    root = np.linalg.cholesky(np.eye(D) / SPREAD.spread**2 + kappa * precision)
    half = np.linalg.solve(root, kappa * weighed) + noise
    return np.linalg.solve(root.T, half), kappa


def sigma_of(parameters, k):
    """Covariance matrix of a slot."""
    if isinstance(parameters, DiagonalParameters):
        return np.diag(parameters.variance[:, k])
    own = parameters.covariance
    if isinstance(own, Tied):
        return np.linalg.inv(own.whiten.T @ own.whiten)
    loading = own.scaled[:, :, k].T / own.root[:, k][:, None]
    return np.diag(own.variance[:, k]) + loading @ loading.T


def tails(update, chain, rng):
    """Degrees of freedom given distances of rows whose gaps are filled, then scales."""
    m, z = chain.model, chain.z
    inside = z != m.noise_slot[0]
    distance = np.zeros(N)
    for i in np.flatnonzero(inside):
        away = m.y[i] - chain.parameters.mean[:, z[i]]
        distance[i] = away @ np.linalg.solve(sigma_of(chain.parameters, z[i]), away)

    def log_density(x):
        df = math.exp(x)
        value = update.shape * x - update.rate * df
        each = special.gammaln(0.5 * (df + D)) - special.gammaln(0.5 * df)
        each = each - 0.5 * D * math.log(df) - 0.5 * (df + D) * np.log1p(distance / df)
        return value + (m.weight * inside * each).sum()

    m.alpha[:] = 0.5 * math.exp(slice_step(log_density, math.log(2.0 * m.alpha[0]), 0.5, rng))
    own = m.alpha[z]
    shape = m.weight * (own + np.where(inside, 0.5 * D, 0.0))
    m.scale[:] = rng.standard_gamma(shape) / (own + 0.5 * distance)
    return m.alpha, m.scale


def tied(update, chain, rng):
    """The shared covariance with the clusters' means integrated out."""
    rows, q = chain.model, chain.family
    inside = chain.z != rows.noise_slot[0]
    z, y, s = chain.z[inside], rows.y[inside], rows.scale[inside]
    kappa, centre = q.prior[0], q.prior[1:] / q.prior[0]
    psi = np.diag(update.psi)
    for k in np.unique(z):
        own, weight = y[z == k], s[z == k]
        mean = weight @ own / weight.sum()
        psi = psi + (weight[:, None] * (own - mean)).T @ (own - mean)
        psi = psi + kappa * weight.sum() / (kappa + weight.sum()) * np.outer(
            mean - centre, mean - centre
        )
    df = update.nu + rows.weight[inside].sum()
    bartlett = np.tril(rng.standard_normal((D, D)), -1)
    np.fill_diagonal(bartlett, np.sqrt(2.0 * rng.standard_gamma(0.5 * (df - np.arange(D)))))
    half = np.linalg.solve(bartlett, np.linalg.cholesky(psi).T)
    root = np.linalg.cholesky(half.T @ half)
    return np.linalg.inv(root), np.log(np.diag(root)).sum()


def diagonal(update, chain, rng):
    """The prior of independent columns given the clusters' parameters."""
    centre, kappa, nu, _ = unpack_diagonal(chain.family.prior)
    used = chain.counts > 0
    mean, variance = chain.parameters.mean.T[used], chain.parameters.variance.T[used]
    form = float(((mean - centre) ** 2 / variance).sum())
    scale = draw_variances(update.scale, nu, variance, rng)
    precision, weighed = np.diag((1.0 / variance).sum(axis=0)), (mean / variance).sum(axis=0)
    centre, kappa = draw_centre(len(mean), form, precision, weighed, rng)
    return pack_diagonal(centre, kappa, nu, (nu - 2.0) * scale), update.scale.mean


def spare(update, chain, rng):
    """Degrees of freedom of the variances' prior given the members of every cluster."""
    q = chain.family
    centre, kappa, nu, psi = unpack_diagonal(q.prior)
    used = np.flatnonzero(chain.counts > 0)
    members, sizes = np.maximum(q.psi[:, used].T - psi, 0.0), q.nu[used] - nu

    def log_density(x):
        c = math.exp(x)
        if not LEAST <= c <= MOST:
            return -math.inf
        total = x - 2.0 * math.log(TYPICAL + c)
        for n, own in zip(sizes, members, strict=True):
            before, after = c + 2.0, c + 2.0 + n
            total += D * (math.lgamma(0.5 * after) - math.lgamma(0.5 * before))
            prior = c * psi / (nu - 2.0)
            total += (0.5 * before * np.log(prior) - 0.5 * after * np.log(prior + own)).sum()
        return total

    drawn = math.exp(slice_step(log_density, math.log(nu - 2.0), 1.0, rng))
    change = drawn + 2.0 - nu
    return (
        pack_diagonal(centre, kappa, nu + change, drawn * psi / (nu - 2.0)),
        q.nu + change,
        q.psi + change * psi[:, None] / (nu - 2.0),
    )


def mean_spread(update, chain, rng):
    """Strength and center given the occupied clusters' means and covariances."""
    natural = chain.family.prior
    centre = natural[1:] / natural[0]
    precision, weighed, form = np.zeros((D, D)), np.zeros(D), 0.0
    used = np.flatnonzero(chain.counts > 0)
    for k in used:
        own = np.linalg.inv(sigma_of(chain.parameters, k))
        mean = chain.parameters.mean[:, k]
        precision, weighed = precision + own, weighed + own @ mean
        form += (mean - centre) @ own @ (mean - centre)
    centre, kappa = draw_centre(used.size, form, precision, weighed, rng)
    return (np.append(kappa, kappa * centre),)


def factor(update, chain, rng):
    """Factors, loadings, variances and what clusters have in common."""
    rows, q, own = chain.model, chain.family, chain.family.covariance
    kappa, centre = q.prior[0], q.prior[1:] / q.prior[0]
    n_factors = own.scaled.shape[0]
    eye = np.eye(n_factors)
    used = np.flatnonzero(chain.counts > 0)
    for k in used:
        nu, v = own.prior[:2]
        members = chain.z == k
        mean = chain.parameters.mean[:, k]
        away = (rows.y[members] - mean) * np.sqrt(rows.scale[members])[:, None]
        away = np.vstack([away, math.sqrt(kappa) * (mean - centre)])
        scaled, root = own.scaled[:, :, k], own.root[:, k]
        inner = np.linalg.cholesky(eye + scaled @ scaled.T)
        half = np.linalg.solve(inner, scaled @ (away * root).T)
        factors = np.linalg.solve(inner.T, half + rng.standard_normal(half.shape)).T
        outer = np.linalg.cholesky(factors.T @ factors + eye / v)
        half = np.linalg.solve(outer, factors.T @ away)
        psi = (nu - 2.0) * own.prior[2:] + (away * away).sum(axis=0) - (half * half).sum(axis=0)
        variance = 0.5 * psi / rng.standard_gamma(0.5 * (nu + len(away)), D)
        noise = rng.standard_normal((n_factors, D)) * np.sqrt(variance)
        own.variance[:, k] = variance
        own.scaled[:, :, k] = np.linalg.solve(outer.T, half + noise) / np.sqrt(variance)
    variance, scaled = own.variance[:, used].T, own.scaled[:, :, used]
    a, b = STRENGTH_PRIOR
    own.prior[1] = (b + 0.5 * (scaled**2).sum()) / rng.standard_gamma(a + 0.5 * scaled.size)
    ratio = own.prior[2:] / variance

    def log_density(x):
        c = math.exp(x)
        if not LEAST <= c <= MOST:
            return -math.inf
        nu = c + 2.0
        each = stats.invgamma.logpdf(variance, 0.5 * nu, scale=0.5 * c * own.prior[2:])
        return x - 2.0 * math.log(TYPICAL + c) + each.sum()

    assert ratio.shape == (used.size, D)
    own.prior[0] = 2.0 + math.exp(slice_step(log_density, math.log(own.prior[0] - 2.0), 1.0, rng))
    own.prior[2:] = draw_variances(update.scale, own.prior[0], variance, rng)
    for k in np.flatnonzero(chain.counts == 0):
        nu, v = own.prior[:2]
        own.variance[:, k] = 0.5 * (nu - 2.0) * own.prior[2:] / rng.standard_gamma(0.5 * nu, D)
        own.scaled[:, :, k] = (rng.standard_normal((D, n_factors)) * math.sqrt(v)).T
    inner = [np.linalg.cholesky(eye + a @ a.T) for a in np.moveaxis(own.scaled, 2, 0)]
    log_det = [2.0 * np.log(np.diag(r)).sum() for r in inner] + np.log(own.variance).sum(axis=0)
    project = [np.linalg.solve(r, own.scaled[:, :, k]) for k, r in enumerate(inner)]
    return own.variance, own.scaled, np.stack(project, axis=2), 0.5 * log_det, own.prior


def drawn_by(update, chain):
    """What an update has drawn, in the order of its twin."""
    q, own = chain.family, getattr(chain.family, "covariance", None)
    if isinstance(update, TailUpdate):
        return chain.model.alpha, chain.model.scale
    if isinstance(update, TiedCovarianceUpdate):
        return chain.parameters.covariance.whiten, own.half_log_det[0]
    if isinstance(update, DiagonalHyperpriors):
        return q.prior, update.scale.mean
    if isinstance(update, CollapsedSpareUpdate):
        return q.prior, q.nu, q.psi
    if isinstance(update, MeanSpreadUpdate):
        return (q.prior,)
    own = chain.parameters.covariance
    return own.variance, own.scaled, own.project, own.half_log_det, own.prior


TWINS = {
    TailUpdate: tails,
    TiedCovarianceUpdate: tied,
    DiagonalHyperpriors: diagonal,
    CollapsedSpareUpdate: spare,
    MeanSpreadUpdate: mean_spread,
    FactorUpdate: factor,
}


@pytest.mark.variants("exact", "tied", "factor")
@pytest.mark.parametrize("structure", ["diag", "tied", "factor"])
def test_structured_covariances(structure):
    rng = np.random.default_rng(1)
    y = rng.standard_normal((N, D)) + 3.0 * (np.arange(N) % 3)[:, None]
    missing = rng.random((N, D)) < 0.1
    box = np.vstack([np.full(D, -5.0), np.full(D, 20.0)])
    problem = StructuredProblem(
        y, structure, PRIOR, 4.0, "shared", (2.0, 0.1), RowTraits(missing, np.ones(N), box),
        n_factors=2 if structure == "factor" else 0,
    )  # fmt: skip
    parts = assemble(problem, "collapsed", SLOTS)
    # The first slot is that of noise.
    prior = dirichlet_process(SLOTS, 1.0)
    sampler = PartitionSampler(parts, prior, 1 + np.arange(N) % 3, rng)
    sampler.z[:2] = 0
    sampler.counts[:] = np.bincount(sampler.z[2:], minlength=SLOTS)
    checked = 0
    for update in sampler.updates:
        twin = next((t for cls, t in TWINS.items() if isinstance(update, cls)), None)
        if twin is None:
            continue
        state = update.arrays()
        expected = [np.array(a) for a in twin(update, view(sampler), np.random.default_rng(7))]
        if state:
            update.restore(state, sampler)
        chain = view(sampler)
        update.draw(chain, np.random.default_rng(7))
        for mine, its in zip(drawn_by(update, chain), expected, strict=True):
            np.testing.assert_allclose(mine, its, rtol=1e-9, atol=1e-12, err_msg=update.name)
        checked += 1
    assert checked == len(sampler.updates) - 1  # all but what keeps the gaps


def test_what_categories_and_counts_have_in_common():
    """Densities against SciPy, and sums of members that weights and noise have a say in."""
    rng = np.random.default_rng(2)
    weight = rng.integers(1, 4, N).astype(float)
    traits = CellTraits(weight, np.full(N, -3.0))
    z = np.arange(N) % 4
    z[:3] = 0
    counts = np.bincount(z[z > 0], minlength=SLOTS)
    codes = np.column_stack([rng.integers(-1, 2, N), rng.integers(0, 3, N)])
    shares = assemble(CategoricalProblem(codes, (2, 3), rows=traits), "collapsed", SLOTS)
    y = rng.poisson(4.0, (N, 2)).astype(float)
    y[4, 0] = np.nan
    rates = assemble(CountsProblem(y, rows=traits), "collapsed", SLOTS)
    for parts in (shares, rates):
        driver, (update,) = parts.collapse, parts.updates
        chain = SimpleNamespace(
            model=driver.model, family=driver.family, parameters=driver.parameters,
            prior=dirichlet_process(SLOTS), z=z.astype(np.int32), counts=counts,
        )  # fmt: skip
        for _ in range(4):  # columns of categories take turns
            update.draw(chain, rng)
        if isinstance(update, ShareHyperpriors):
            members = update._room[0]
            for column, start in enumerate((0, 2)):
                for p in range((2, 3)[column]):
                    own = np.where((codes[:, column] == p) & (z > 0), weight, 0.0)
                    expected = np.bincount(z, own, SLOTS)
                    np.testing.assert_allclose(members[start + p], expected)
            sums = np.add.reduceat(chain.family.prior, [0, 2])
            density = sum(
                math.log(n) - 2.0 * math.log(n + s) + stats.dirichlet.logpdf(
                    np.full(n, 1.0 / n), np.ones(n)
                ) - (n - 1) * math.log(s)
                for n, s in zip((2, 3), sums, strict=True)
            )  # fmt: skip
            shown = {"share_prior_strength": sums}
        else:
            assert isinstance(update, RateHyperpriors)
            inside = np.where((z > 0)[:, None] & ~np.isnan(y), weight[:, None], 0.0)
            for j in range(2):
                cells = np.bincount(z, inside[:, j], SLOTS)
                sums = np.bincount(z, inside[:, j] * np.nan_to_num(y[:, j]), SLOTS)
                np.testing.assert_allclose(update._totals[j], [cells, sums])
            a, b = chain.family.prior[0::2], chain.family.prior[1::2]
            cut = np.diff(np.array([LEAST_SHAPE, MOST_SHAPE]) / (1.0 + np.array([0.1, 1e4])))
            density = stats.lognorm.logpdf(a / b, 1.5, scale=update.centre).sum()
            density -= (2.0 * np.log1p(a) + np.log(cut)).sum()
            shown = {"rate_prior_shape": a, "rate_prior_mean": a / b}
        assert update.log_density(chain) == pytest.approx(density, rel=1e-12)
        record = update.record(chain)
        assert record.keys() == shown.keys()
        for name, values in shown.items():
            np.testing.assert_allclose(record[name], values)
