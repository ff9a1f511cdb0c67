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
    target: np.ndarray  # (cluster,), the estimate's cluster that holds most of its members


def spread_draws(n_total: int, n_kept: int = MAX_DRAWS) -> np.ndarray:
    """Indices of at most `n_kept` draws, evenly spread."""
    if n_total <= n_kept:
        return np.arange(n_total)
    return np.linspace(0, n_total - 1, n_kept).round().astype(int)


def mixture_draws(
    labels: np.ndarray,
    estimate: np.ndarray,
    weight: np.ndarray,
    mean: np.ndarray,
    covariance: np.ndarray,
    df: np.ndarray | None,
) -> MixtureDraws:
    """Pack the occupied clusters of each draw.

    Parameters
    ----------
    labels : array of int, shape (draw, n)
    estimate : array of int, shape (n,)
        The point estimate, 0..K-1.
    weight, mean, covariance, df : arrays, shape (draw, slot, ...)
        Parameters of the draws; NaN where a slot is empty.
    """
    n_slots, d = mean.shape[1:]
    n_estimate = int(estimate.max()) + 1
    use = np.isfinite(weight) & (weight > 0.0)
    start = np.concatenate([[0], np.cumsum(use.sum(axis=1))])
    overlap = np.zeros((len(labels), n_slots, n_estimate), dtype=np.int64)
    for s, z in enumerate(labels):
        np.add.at(overlap[s], (z, estimate), 1)
    root = np.linalg.cholesky(covariance[use])
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
        overlap.argmax(axis=2)[use],
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
                    probability[i, draws.target[k]] += scratch[k] / total
                log_density[s, i] = top + math.log(total)
            else:
                log_density[s, i] = -math.inf


def predict(draws: MixtureDraws, X: np.ndarray, n_estimate: int) -> tuple[np.ndarray, np.ndarray]:
    """Log densities (draw, n) and mean membership probabilities (n, K)."""
    n_draws = draws.start.size - 1
    log_density = np.empty((n_draws, len(X)))
    probability = np.zeros((len(X), n_estimate))
    evaluate(draws, np.ascontiguousarray(X), log_density, probability, np.empty(draws.alpha.size))
    total = probability.sum(axis=1, keepdims=True)
    # Where every density underflows (absurdly far from all data) the weights alone decide.
    shares = np.bincount(draws.target, np.exp(draws.log_weight), minlength=n_estimate)
    probability = np.where(
        total > 0.0, probability / np.where(total > 0.0, total, 1.0), shares / shares.sum()
    )
    return log_density, probability
