"""Densities of new observations under kept draws of the mixture."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from cavity.core.compile import jit

MAX_DRAWS = 200


class MixtureDraws(NamedTuple):
    """Mixtures of some kept draws, clusters packed one after another."""

    start: np.ndarray  # (draw + 1,), where each draw's clusters begin
    log_weight: np.ndarray  # (cluster,)
    mean: np.ndarray  # (cluster, d)
    whiten: np.ndarray  # (cluster, d, d), lower triangular
    log_norm: np.ndarray  # (cluster,)
    alpha: np.ndarray  # (cluster,), half the degrees of freedom; infinite for a Gaussian
    target: np.ndarray  # (cluster,), the estimate's cluster it is matched to; -1 for none


def spread_draws(n_total: int, n_kept: int = MAX_DRAWS) -> np.ndarray:
    """Indices of at most `n_kept` draws, evenly spread."""
    if n_total <= n_kept:
        return np.arange(n_total)
    return np.linspace(0, n_total - 1, n_kept).round().astype(int)


def cholesky(covariance: np.ndarray) -> np.ndarray:
    """Cholesky factors of many matrices, with a floor under the eigenvalues where one needs it.

    A covariance that was drawn is positive definite; one whose axes differ by more than the
    digits of a number may not look so.
    """
    try:
        return np.linalg.cholesky(covariance)
    except np.linalg.LinAlgError:
        values, vectors = np.linalg.eigh(covariance)
        floor = 1e-14 * np.maximum(values[..., -1:], np.finfo(float).tiny)
        values = np.maximum(values, floor)
        mended = np.einsum("...ij,...j,...kj->...ik", vectors, values, vectors)
        jitter = 1e-13 * values[..., -1][..., None, None] * np.eye(covariance.shape[-1])
        return np.linalg.cholesky(0.5 * (mended + np.swapaxes(mended, -1, -2)) + jitter)


def mixture_draws(
    weight: np.ndarray,
    mean: np.ndarray,
    covariance: np.ndarray,
    df: np.ndarray | None,
    targets: np.ndarray,
) -> MixtureDraws:
    """Pack the occupied clusters of each draw.

    Parameters
    ----------
    weight, mean, covariance, df : arrays, shape (draw, slot, ...)
        Parameters of the draws; NaN where a slot is empty.
    targets : array of int, shape (draw, slot)
        The estimate's cluster that each slot is matched to; -1 for none.
    """
    d = mean.shape[2]
    use = np.isfinite(weight) & (weight > 0.0)
    start = np.concatenate([[0], np.cumsum(use.sum(axis=1))])
    root = cholesky(covariance[use])
    whiten = np.linalg.solve(root, np.broadcast_to(np.eye(d), root.shape))
    log_det = np.log(np.diagonal(root, axis1=1, axis2=2)).sum(axis=1)
    alpha = np.full(len(root), np.inf) if df is None else 0.5 * df[use]
    log_norm = -log_det - 0.5 * d * math.log(2.0 * math.pi)
    heavy = np.isfinite(alpha)
    from scipy.special import gammaln

    a = alpha[heavy]
    log_norm[heavy] += gammaln(a + 0.5 * d) - gammaln(a) - 0.5 * d * np.log(a)
    return MixtureDraws(
        start,
        np.log(weight[use]),
        np.ascontiguousarray(mean[use]),
        np.ascontiguousarray(whiten),
        log_norm,
        alpha,
        np.ascontiguousarray(targets[use]).astype(np.int64),
    )


# Makes differences beyond 1e154, whose squares overflow, safe to square.
REDUCE = 1e-170


@jit
def far_log(draws, X, i, k, a):
    """Logarithm of half the squared distance over `a`, where the square itself overflows."""
    d = X.shape[1]
    delta = 0.0
    for r in range(d):
        e = 0.0
        for c in range(r + 1):
            e += draws.whiten[k, r, c] * (REDUCE * (X[i, c] - draws.mean[k, c]))
        delta += e * e
    return math.log(0.5 * delta / a) - 2.0 * math.log(REDUCE)


@jit
def evaluate(draws, X, log_density, probability, scratch):
    """Fill the log density per (draw, row) and add up the membership probabilities per row."""
    n, d = X.shape
    n_draws = draws.start.shape[0] - 1
    for s in range(n_draws):
        first, last = draws.start[s], draws.start[s + 1]
        for i in range(n):
            top = -math.inf
            for k in range(first, last):
                delta = 0.0
                for r in range(d):
                    e = 0.0
                    for c in range(r + 1):
                        e += draws.whiten[k, r, c] * (X[i, c] - draws.mean[k, c])
                    delta += e * e
                a = draws.alpha[k]
                value = draws.log_weight[k] + draws.log_norm[k]
                if a < math.inf:
                    if delta < math.inf:
                        value -= (a + 0.5 * d) * math.log1p(0.5 * delta / a)
                    else:
                        value -= (a + 0.5 * d) * far_log(draws, X, i, k, a)
                else:
                    value -= 0.5 * delta
                scratch[k] = value
                top = max(top, value)
            total = 0.0
            if top > -math.inf:
                for k in range(first, last):
                    scratch[k] = math.exp(scratch[k] - top)
                    total += scratch[k]
                for k in range(first, last):
                    # The last column is that of clusters without a match: elsewhere.
                    probability[i, draws.target[k]] += scratch[k] / total
                log_density[s, i] = top + math.log(total)
            else:
                log_density[s, i] = -math.inf


def predict(draws: MixtureDraws, X: np.ndarray, n_estimate: int) -> tuple[np.ndarray, np.ndarray]:
    """Log densities (draw, n) and mean membership probabilities (n, K + 1), the last elsewhere."""
    n_draws = draws.start.size - 1
    log_density = np.empty((n_draws, len(X)))
    probability = np.zeros((len(X), n_estimate + 1))
    target = np.where(draws.target < 0, n_estimate, draws.target)
    packed = draws._replace(target=target)
    evaluate(packed, np.ascontiguousarray(X), log_density, probability, np.empty(draws.alpha.size))
    total = probability.sum(axis=1, keepdims=True)
    # Where every density underflows (absurdly far from all data) the weights alone decide.
    shares = np.bincount(target, np.exp(draws.log_weight), minlength=n_estimate + 1)
    probability = np.where(
        total > 0.0, probability / np.where(total > 0.0, total, 1.0), shares / shares.sum()
    )
    return log_density, probability


def replicate(
    draws: MixtureDraws, s: int, n: int, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """N new rows from the mixture of draw s, in its own units, and where they came from."""
    clusters = np.arange(draws.start[s], draws.start[s + 1])
    weight = np.exp(draws.log_weight[clusters])
    k = rng.choice(clusters, size=n, p=weight / weight.sum())
    noise = rng.standard_normal((n, draws.mean.shape[1]))
    alpha = draws.alpha[k]
    heavy = np.isfinite(alpha)
    scale = np.ones(n)
    # A gamma of tiny shape can round to zero, and no row lies at infinity.
    scale[heavy] = np.maximum(rng.gamma(alpha[heavy]) / alpha[heavy], 1e-200)
    root = np.linalg.inv(draws.whiten)
    rows = draws.mean[k] + np.einsum("nij,nj->ni", root[k], noise) / np.sqrt(scale)[:, None]
    return rows, draws.target[k]
