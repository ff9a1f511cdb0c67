"""Normal family of cluster means given covariances: shared, or factors plus a diagonal.

A slot holds mean ~ N(m, Sigma / kappa). Natural parameters, packed in a row: kappa, kappa m. Sigma
is drawn by an update (`likelihoods.shared_covariance`, `likelihoods.factor_loadings`) and held
while labels are drawn. It comes in one of two forms,

* `Tied`: one matrix for all slots, by its whitener W, Sigma^-1 = W'W;
* `Factors`: Sigma_k = D_k + L_k L_k' with a diagonal D_k and few columns in L_k. With A = D^-1/2 L
  and the Cholesky factor R of I + A'A, the distance of e is |D^-1/2 e|^2 - |R^-1 A' D^-1/2 e|^2,
  and log|Sigma| = log|D| + 2 log|R|: no matrix has d rows and d columns.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from cavity._numba.arrays import declare
from cavity._numba.jit import jit, verb
from cavity._numba.linalg import cholesky_in_place
from cavity.interface import draw, load, log_mass, log_partition, prior_density


class Tied(NamedTuple):
    """One covariance for all slots."""

    whiten: np.ndarray  # (d, d), lower triangular
    half_log_det: np.ndarray  # (1,)
    work: np.ndarray  # (d,)


declare(Tied, slots={})


class Factors(NamedTuple):
    """A covariance of low rank and a diagonal for every slot."""

    variance: np.ndarray  # (d, slots), D
    root: np.ndarray  # (d, slots), D^-1/2
    scaled: np.ndarray  # (q, d, slots), A'
    project: np.ndarray  # (q, d, slots), R^-1 A'
    half_log_det: np.ndarray  # (slots,)
    prior: np.ndarray  # (2 + d,), what D and A have in common over clusters: nu, v, mean of D
    work: np.ndarray  # (q, q)


declare(
    Factors,
    slots={"variance": 1, "root": 1, "scaled": 2, "project": 2, "half_log_det": 0},
)


class NormalMeans(NamedTuple):
    """One normal distribution of a cluster's mean per slot, given its covariance."""

    prior: np.ndarray  # (1 + d,)
    natural: np.ndarray  # (slots, 1 + d)
    kappa: np.ndarray  # (slots,)
    mean: np.ndarray  # (d, slots)
    covariance: Any


declare(NormalMeans, slots={"natural": 0, "kappa": 0, "mean": 1})


class MeanParameters(NamedTuple):
    """One mean per slot, and the covariances that it was drawn with."""

    mean: np.ndarray  # (d, slots)
    covariance: Any


declare(MeanParameters, slots={"mean": 1})


def normal_means(mean: np.ndarray, kappa: float, covariance: Any, n_slots: int) -> NormalMeans:
    """Return a family with every slot at the prior N(mean, Sigma / kappa)."""
    mean = np.asarray(mean, dtype=float)
    prior = np.concatenate([[kappa], kappa * mean])
    return NormalMeans(
        prior=prior,
        natural=np.tile(prior, (n_slots, 1)),
        kappa=np.full(n_slots, float(kappa)),
        mean=np.tile(mean[:, None], (1, n_slots)),
        covariance=covariance,
    )


def tied_covariance(sigma: np.ndarray) -> Tied:
    """Return all slots with this covariance."""
    d = len(sigma)
    out = Tied(np.zeros((d, d)), np.zeros(1), np.zeros(d))
    set_tied(out, np.array(sigma, dtype=float))
    return out


@jit
def set_tied(tied, sigma):
    """Set the covariance of all slots; its lower triangle becomes the Cholesky factor."""
    d = sigma.shape[0]
    cholesky_in_place(sigma)
    invert_lower(sigma, tied.whiten)
    tied.half_log_det[0] = 0.0
    for r in range(d):
        tied.half_log_det[0] += math.log(sigma[r, r])


@jit(internal=True)
def invert_lower(root, out):
    """Write the inverse of a lower triangular matrix into the lower triangle of `out`."""
    for c in range(root.shape[0]):
        for r in range(c, root.shape[0]):
            s = 1.0 if r == c else 0.0
            for m in range(c, r):
                s -= root[r, m] * out[m, c]
            out[r, c] = s / root[r, r]


def factors(variance: np.ndarray, n_factors: int, n_slots: int, prior: np.ndarray) -> Factors:
    """Return every slot with these variances and no loadings."""
    d = variance.size
    out = Factors(
        np.tile(np.asarray(variance, dtype=float)[:, None], (1, n_slots)),
        np.zeros((d, n_slots)),
        np.zeros((n_factors, d, n_slots)),
        np.zeros((n_factors, d, n_slots)),
        np.zeros(n_slots),
        np.array(prior, dtype=float),
        np.zeros((n_factors, n_factors)),
    )
    for k in range(n_slots):
        set_factors(out, k, np.array(variance, dtype=float), np.zeros((d, n_factors)))
    return out


@jit
def set_factors(to, k, variance, loading):
    """Set the covariance of slot k to diag(variance) + loading loading', loading (d, q)."""
    n_factors, d, _slots = to.scaled.shape
    for c in range(d):
        to.variance[c, k] = variance[c]
        for f in range(n_factors):
            to.scaled[f, c, k] = loading[c, f] / math.sqrt(variance[c])
    settle_factors(to, k)


@jit(internal=True)
def settle_factors(to, k):
    """Update slot k for its variances and scaled loadings."""
    n_factors, d, _slots = to.scaled.shape
    inner = to.work
    factorize_inner(to, k, inner)
    half_log_det = 0.0
    for f in range(n_factors):
        half_log_det += math.log(inner[f, f])
    for c in range(d):
        to.root[c, k] = 1.0 / math.sqrt(to.variance[c, k])
        half_log_det -= math.log(to.root[c, k])
        for f in range(n_factors):
            s = to.scaled[f, c, k]
            for g in range(f):
                s -= inner[f, g] * to.project[g, c, k]
            to.project[f, c, k] = s / inner[f, f]
    to.half_log_det[k] = half_log_det


@jit(internal=True)
def factorize_inner(q, k, out):
    """Write the Cholesky factor of I + A'A of slot k into the lower triangle of `out`."""
    n_factors, d, _slots = q.scaled.shape
    for f in range(n_factors):
        for g in range(f + 1):
            s = 1.0 if f == g else 0.0
            for c in range(d):
                s += q.scaled[f, c, k] * q.scaled[g, c, k]
            out[f, g] = s
    cholesky_in_place(out)


@jit
def copy_factors(source, target):
    """Copy the covariances of all slots, and what they have in common."""
    n_factors, d, n_slots = source.scaled.shape
    for k in range(n_slots):
        target.half_log_det[k] = source.half_log_det[k]
        for c in range(d):
            target.variance[c, k] = source.variance[c, k]
            target.root[c, k] = source.root[c, k]
            for f in range(n_factors):
                target.scaled[f, c, k] = source.scaled[f, c, k]
                target.project[f, c, k] = source.project[f, c, k]
    for p in range(source.prior.shape[0]):
        target.prior[p] = source.prior[p]


@load.register(NormalMeans)
def _(q, k):
    kappa = q.natural[k, 0]
    if not kappa > 0.0:
        return False
    q.kappa[k] = kappa
    for c in range(q.mean.shape[0]):
        q.mean[c, k] = q.natural[k, 1 + c] / kappa
    return True


@log_partition.register(NormalMeans)
def _(q, k):
    # Of exp(-kappa |mean - m|^2 / 2), lengths in the slot's covariance, with its determinant.
    return 0.5 * q.mean.shape[0] * math.log(2.0 * math.pi / q.kappa[k])


@verb
def length(covariance, k, x, base, over):
    """Squared length of x - base / over in slot k's covariance, and half its log determinant."""


@length.register(Tied)
def _(covariance, k, x, base, over):
    total = 0.0
    for r in range(x.shape[0]):
        s = 0.0
        for c in range(r + 1):
            s += covariance.whiten[r, c] * (x[c] - base[c] / over)
        total += s * s
    return total, covariance.half_log_det[0]


@length.register(Factors)
def _(covariance, k, x, base, over):
    total = 0.0
    for c in range(x.shape[0]):
        e = covariance.root[c, k] * (x[c] - base[c] / over)
        total += e * e
    for f in range(covariance.scaled.shape[0]):
        s = 0.0
        for c in range(x.shape[0]):
            s += covariance.project[f, c, k] * covariance.root[c, k] * (x[c] - base[c] / over)
        total -= s * s
    return max(total, 0.0), covariance.half_log_det[k]


@jit(internal=True)
def length_of(covariance, k, x, base, over):
    """Call ``length`` without copying it into the caller."""
    return length(covariance, k, x, base, over)


@log_mass.register(NormalMeans)
def _(q, k):
    # The origin stands for the squares, of which a slot has no sum.
    square = length_of(q.covariance, k, q.mean[:, k], q.prior[1:], math.inf)[0]
    return log_partition(q, k) + 0.5 * q.kappa[k] * square


@prior_density.register(NormalMeans)
def _(q, parameters, k):
    form, half_log_det = length_of(
        parameters.covariance, k, parameters.mean[:, k], q.prior[1:], q.prior[0]
    )
    return -0.5 * q.prior[0] * form - half_log_det


@verb
def add_noise(covariance, k, scale, x, rng):
    """Add a draw of N(0, scale^2 Sigma_k) to x."""


@add_noise.register(Tied)
def _(covariance, k, scale, x, rng):
    work = covariance.work
    for r in range(x.shape[0]):
        s = scale * rng.standard_normal()
        for c in range(r):
            s -= covariance.whiten[r, c] * work[c]
        work[r] = s / covariance.whiten[r, r]
    for r in range(x.shape[0]):
        x[r] += work[r]


@add_noise.register(Factors)
def _(covariance, k, scale, x, rng):
    n_factors, d, _slots = covariance.scaled.shape
    for c in range(d):
        x[c] += scale * rng.standard_normal() / covariance.root[c, k]
    for f in range(n_factors):
        noise = scale * rng.standard_normal()
        for c in range(d):
            x[c] += noise * covariance.scaled[f, c, k] / covariance.root[c, k]


@draw.register(NormalMeans)
def _(q, k, parameters, rng):
    mean = parameters.mean[:, k]
    for c in range(mean.shape[0]):
        mean[c] = q.mean[c, k]
    add_noise(q.covariance, k, 1.0 / math.sqrt(q.kappa[k]), mean, rng)
