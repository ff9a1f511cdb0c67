"""Five rows in two columns under structured covariances, and their exact posteriors.

Marginals of clusters are the mean likelihood over very many draws of the parameters from their
priors, with scales integrated out in closed form; that of a covariance which all clusters share
is averaged over once for all clusters of a partition.
"""

from __future__ import annotations

import functools

import enumeration
import numpy as np
import small
from scipy import special, stats

from cavity.collapse.problems import StructuredProblem
from cavity.collapse.registry import assemble
from cavity.likelihoods.missing import RowTraits
from cavity.mcmc.chain import PartitionSampler
from cavity.moves.anchors import all_anchors
from cavity.priors.structured import StructuredPrior

Y = small.PLANE
N, D = Y.shape
MISSING = np.zeros((N, D), dtype=bool)
MISSING[[0, 2, 4], [1, 0, 1]] = True
NEVER = 10**9
MEAN, KAPPA, SCALE = np.array([0.1, 0.2]), 0.3, np.array([0.6, 0.9])
NU = {"diag": 4.0, "tied": 5.0, "factor": 4.0}
N_FACTORS = 1
STRENGTH = 1.0


def prior(structure, **learned):
    return StructuredPrior(MEAN, KAPPA, NU[structure], SCALE, n_held=NEVER, **learned)


def problem(structure, df=None, missing=None, weight=None, box=None, **more):
    rows = None
    if missing is not None or weight is not None or box is not None:
        missing = np.zeros((N, D), dtype=bool) if missing is None else missing
        rows = RowTraits(missing, np.ones(N) if weight is None else np.asarray(weight, float), box)
    y = Y if missing is None else np.where(missing, 0.0, Y)
    n_factors = N_FACTORS if structure == "factor" else 0
    return StructuredProblem(
        y, structure, prior(structure), df, rows=rows, n_factors=n_factors, **more
    )


def chain(made, partition_prior, rng, moves=(), z=None):
    parts = assemble(made, "collapsed", small.SLOTS)
    kinds = [kind(all_anchors(N), 0) for kind in moves]
    for move in kinds:
        move.pace.rate[:] = 4
    z = np.zeros(N, dtype=int) if z is None else z
    return PartitionSampler(parts, partition_prior, z, rng, moves=kinds)


def covariances(structure, n, rng):
    """Covariances from their prior, (n, d, d)."""
    nu = NU[structure]
    if structure == "tied":
        psi = (nu - D - 1.0) * np.diag(SCALE)
        return stats.invwishart.rvs(nu, psi, n, random_state=rng)
    variance = stats.invgamma.rvs(
        0.5 * nu, scale=0.5 * (nu - 2.0) * SCALE, size=(n, D), random_state=rng
    )
    out = variance[:, :, None] * np.eye(D)
    if structure == "factor":
        loading = rng.standard_normal((n, D)) * np.sqrt(STRENGTH * variance)
        out = out + loading[:, :, None] * loading[:, None, :]
    return out


def log_density_of(y, there, mean, sigma, df):
    """Log density of what is there of a row under each of many parameters."""
    if not there.any():
        return np.zeros(len(mean))
    block = sigma[:, there][:, :, there]
    away = (y - mean)[..., there]
    form = np.einsum("ni,nij,nj->n", away, np.linalg.inv(block), away)
    d = int(there.sum())
    value = -0.5 * np.log(np.linalg.det(block))
    if df is None:
        return value - 0.5 * (d * np.log(2.0 * np.pi) + form)
    value += special.gammaln(0.5 * (df + d)) - special.gammaln(0.5 * df)
    return value - 0.5 * d * np.log(df * np.pi) - 0.5 * (df + d) * np.log1p(form / df)


@functools.cache
def marginals(structure, df, gaps, weight=(1.0,) * N, n_draws=600_000, seed=5):
    """Log marginal of every subset, where clusters share nothing."""
    rng = np.random.default_rng(seed)
    sigma = covariances(structure, n_draws, rng)
    root = np.linalg.cholesky(sigma / KAPPA)
    mean = MEAN + np.einsum("nij,nj->ni", root, rng.standard_normal((n_draws, D)))
    missing = MISSING if gaps else np.zeros_like(MISSING)
    each = [w * log_density_of(Y[i], ~missing[i], mean, sigma, df) for i, w in enumerate(weight)]
    out = {}
    for mask in range(1, 1 << N):
        total = sum(each[i] for i in range(N) if mask >> i & 1)
        out[mask] = float(special.logsumexp(total) - np.log(n_draws))
    return out


@functools.cache
def tied_log_likelihoods(df, gaps, weight=(1.0,) * N, n_draws=20_000, n_means=400, seed=6):
    """Log likelihood of every partition, in the order of `enumeration.partitions`.

    Over draws of the covariance, and for each over draws of a cluster's mean.
    """
    rng = np.random.default_rng(seed)
    states = enumeration.partitions(N)
    missing = MISSING if gaps else np.zeros_like(MISSING)
    sigma = covariances("tied", n_draws, rng)
    root = np.linalg.cholesky(sigma / KAPPA)
    # Means from a wider normal, weighed, so that none of the rows is out of reach.
    noise = rng.standard_normal((n_draws, n_means, D))
    wide = 1.5
    log_weight = -0.5 * (noise**2).sum(axis=2) * (wide**2 - 1.0) + D * np.log(wide)
    mean = MEAN + wide * np.einsum("nij,nmj->nmi", root, noise)
    each = []
    for i in range(N):
        there = ~missing[i]
        inverse = np.linalg.inv(sigma[:, there][:, :, there])
        away = (Y[i] - mean)[:, :, there]
        form = np.einsum("nmi,nij,nmj->nm", away, inverse, away)
        d = int(there.sum())
        value = 0.5 * np.log(np.linalg.det(inverse))[:, None]
        if df is None:
            each.append(value - 0.5 * (d * np.log(2.0 * np.pi) + form))
        else:
            value = value + special.gammaln(0.5 * (df + d)) - special.gammaln(0.5 * df)
            each.append(value - 0.5 * d * np.log(df * np.pi) - 0.5 * (df + d) * np.log1p(form / df))
    of_mask = {}
    for mask in range(1, 1 << N):
        total = sum(weight[i] * each[i] for i in range(N) if mask >> i & 1) + log_weight
        of_mask[mask] = special.logsumexp(total, axis=1) - np.log(n_means)
    out = []
    for z in states:
        masks = [sum(1 << int(i) for i in np.flatnonzero(z == k)) for k in np.unique(z)]
        total = sum(of_mask[mask] for mask in masks)
        out.append(special.logsumexp(total) - np.log(n_draws))
    return np.array(out)


def tied_closed_form(z, y=Y):
    """Log likelihood of Gaussian rows in a partition, all integrals done."""
    nu, (n_rows, d) = NU["tied"], y.shape
    psi = (nu - d - 1.0) * np.diag(SCALE)
    total, after = 0.0, psi.copy()
    for k in np.unique(z):
        own = y[z == k]
        n = len(own)
        away, shift = own - own.mean(axis=0), own.mean(axis=0) - MEAN
        after += away.T @ away + KAPPA * n / (KAPPA + n) * np.outer(shift, shift)
        total += 0.5 * d * np.log(KAPPA / (KAPPA + n))
    total += special.multigammaln(0.5 * (nu + n_rows), d) - special.multigammaln(0.5 * nu, d)
    total += 0.5 * nu * np.linalg.slogdet(psi)[1]
    total -= 0.5 * (nu + n_rows) * np.linalg.slogdet(after)[1]
    return total - 0.5 * n_rows * d * np.log(np.pi)


def exact(structure, df=None, gaps=False, log_prior=None):
    """The posterior over partitions, under a Dirichlet process unless another prior is given."""
    log_prior = small.log_prior("dp") if log_prior is None else log_prior
    states = enumeration.partitions(N)
    if structure != "tied":
        table = marginals(structure, df, gaps)
        return enumeration.posterior(states, table, log_prior, labelled=False)
    if df is None and not gaps:
        likelihood = np.array([tied_closed_form(z) for z in states])
    else:
        likelihood = tied_log_likelihoods(df, gaps)
    log_p = likelihood + np.array([log_prior(z) for z in states])
    return enumeration.Exact(states, special.softmax(log_p), False)


def exact_of_weighted(structure, df, weight):
    """The posterior over partitions of rows with weights, each of which the prior counts once."""
    row = np.repeat(np.arange(N), np.asarray(weight, dtype=int))
    log_prior = small.log_prior("dp")
    states = enumeration.partitions(N)
    if structure != "tied":
        table = marginals(structure, df, False, tuple(weight))
        return enumeration.posterior(states, table, log_prior, labelled=False)
    if df is None:
        likelihood = np.array([tied_closed_form(z[row], Y[row]) for z in states])
    else:
        likelihood = tied_log_likelihoods(df, False, tuple(weight))
    log_p = likelihood + np.array([log_prior(z) for z in states])
    return enumeration.Exact(states, special.softmax(log_p), False)
