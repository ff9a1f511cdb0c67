"""Densities of new observations under kept draws of the mixture."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from cavity._numba.jit import jit
from cavity.conjugate.niw import unpack
from cavity.likelihoods.gaussian import log_norms

MAX_DRAWS = 200
# Under this name draws hold the natural parameters of the prior of a cluster's mean and covariance.
CLUSTER_PRIOR = "cluster_prior"
# And under this one the weight of rows outside every cluster, where there may be some.
NOISE_WEIGHT = "noise_weight"
# Scales that the rows of a new cluster may have: so many at most, and so close in logarithms where
# that many are enough.
MOST_SCALES, SCALE_STEP = 64, 0.3


class MixtureDraws(NamedTuple):
    """Mixtures of some kept draws, clusters packed one after another.

    Among a draw's clusters are those that stand for the empty ones, if it has some: the density of
    a row whose cluster has no other is a mixture of t distributions.
    """

    start: np.ndarray  # (draw + 1,), where each draw's clusters begin
    log_weight: np.ndarray  # (cluster,)
    mean: np.ndarray  # (cluster, d)
    whiten: np.ndarray  # (cluster, d, d), lower triangular
    log_norm: np.ndarray  # (cluster,)
    alpha: np.ndarray  # (cluster,), half the degrees of freedom; infinite for a Gaussian
    target: np.ndarray  # (cluster,), the estimate's cluster it is matched to; -1 for none


class FreshClusters(NamedTuple):
    """Clusters to come, one for each draw, parameters integrated out or drawn.

    Given its scale u a row of one is t (normal, for an infinite alpha) around the centre, with
    scale matrix ``scale`` times 1/u + 1/kappa.
    """

    centre: np.ndarray  # (draw, d)
    kappa: np.ndarray  # (draw,)
    scale: np.ndarray  # (draw, d, d)
    alpha: np.ndarray  # (draw,), half the degrees of freedom


def fresh_niw(prior: np.ndarray, d: int) -> FreshClusters:
    """Those of normal inverse Wishart priors, (draw, P): t with nu - d + 1 degrees of freedom."""
    parts = [unpack(row, d) for row in prior]
    spare = np.array([nu for _, _, nu, _ in parts]) - d + 1.0
    return FreshClusters(
        np.array([mean for mean, *_ in parts]),
        np.array([kappa for _, kappa, *_ in parts]),
        np.array([psi for *_, psi in parts]) / spare[:, None, None],
        0.5 * spare,
    )


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
    fresh: FreshClusters,
    new_df: np.ndarray | None,
    noise: np.ndarray | float = 0.0,
) -> MixtureDraws:
    """Pack the occupied clusters of each draw, and what stands for its empty ones.

    Parameters
    ----------
    weight, mean, covariance, df : arrays, shape (draw, slot, ...)
        Parameters of the draws; NaN where a slot is empty.
    targets : array of int, shape (draw, slot)
        The estimate's cluster that each slot is matched to; -1 for none.
    fresh : FreshClusters
        What a cluster to come would be like in each draw.
    new_df : array, shape (draw,), or None
        Degrees of freedom of a new cluster.
    noise : array, shape (draw,), or 0
        Weight of rows outside every cluster, which is no cluster's.
    """
    d = mean.shape[2]
    use = np.isfinite(weight) & (weight > 0.0)
    root = cholesky(covariance[use])
    clusters = _Clusters(
        np.nonzero(use)[0],
        weight[use],
        mean[use],
        np.linalg.solve(root, np.broadcast_to(np.eye(d), root.shape)),
        np.full(len(root), np.inf) if df is None else 0.5 * df[use],
        targets[use],
    )
    empty = 1.0 - noise - np.where(use, weight, 0.0).sum(axis=1)
    parts = [clusters]
    for s in np.flatnonzero(empty > 1e-12).tolist():
        alpha = np.inf if new_df is None else 0.5 * float(new_df[s])
        parts.append(_new_cluster(s, float(empty[s]), fresh, alpha))
    packed = _Clusters(*(np.concatenate(field) for field in zip(*parts, strict=True)))
    order = np.argsort(packed.draw, kind="stable")
    packed = _Clusters(*(np.ascontiguousarray(field[order]) for field in packed))
    log_norm = np.log(np.diagonal(packed.whiten, axis1=1, axis2=2)).sum(axis=1)
    log_norm += log_norms(packed.alpha, d)
    return MixtureDraws(
        np.searchsorted(packed.draw, np.arange(len(weight) + 1)),
        np.log(packed.weight),
        packed.mean,
        packed.whiten,
        log_norm,
        packed.alpha,
        packed.target.astype(np.int64),
    )


class _Clusters(NamedTuple):
    """Clusters one after another, each with the draw that it belongs to."""

    draw: np.ndarray
    weight: np.ndarray
    mean: np.ndarray
    whiten: np.ndarray
    alpha: np.ndarray
    target: np.ndarray


def _new_cluster(s: int, share: float, fresh: FreshClusters, alpha: float) -> _Clusters:
    """What stands for the empty clusters of draw s: the density of a row in one of them."""
    d = fresh.centre.shape[1]
    whiten = np.linalg.solve(cholesky(fresh.scale[s]), np.eye(d))
    weight, spread = _spreads(alpha, float(fresh.kappa[s]))
    n = len(weight)
    return _Clusters(
        np.full(n, s),
        share * weight,
        np.tile(fresh.centre[s], (n, 1)),
        whiten / np.sqrt(spread)[:, None, None],
        np.full(n, fresh.alpha[s]),
        np.full(n, -1),
    )


def _spreads(alpha: float, kappa: float) -> tuple[np.ndarray, np.ndarray]:
    """Distribution of 1/u + 1/kappa for u ~ Gamma(alpha, alpha), on few points.

    By the trapezoid rule in log u; points whose logarithms lie close together become one.

    Examples
    --------
    >>> _spreads(np.inf, 0.25)
    (array([1.]), array([5.]))
    """
    if not np.isfinite(alpha):
        return np.ones(1), np.array([1.0 + 1.0 / kappa])
    from scipy.special import gammaincinv

    low, high = np.maximum(gammaincinv(alpha, [1e-7, 1.0 - 1e-7]) / alpha, 1e-250)
    log_u = np.linspace(np.log(low), np.log(high), 1000)
    mass = np.exp(alpha * (log_u - np.exp(log_u) + 1.0))
    log_spread = np.logaddexp(-log_u, -np.log(kappa))
    width = max(SCALE_STEP, 1.001 * float(np.ptp(log_spread)) / MOST_SCALES)
    point = np.floor((log_spread - log_spread.min()) / width).astype(int)
    weight = np.bincount(point, mass)
    mean = np.bincount(point, mass * log_spread)
    kept = weight > 0.0
    return weight[kept] / weight.sum(), np.exp(mean[kept] / weight[kept])


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


@jit(internal=True)
def share_out(draws, s, top, scratch, probability):
    """Log density of a row in draw s, whose share of each cluster is added to `probability`.

    Logs of weight times density of the draw's clusters are in `scratch`, `top` the largest.
    """
    if top == -math.inf:
        return top
    total = 0.0
    for k in range(draws.start[s], draws.start[s + 1]):
        scratch[k] = math.exp(scratch[k] - top)
        total += scratch[k]
    for k in range(draws.start[s], draws.start[s + 1]):
        # The last column is that of clusters without a match: elsewhere.
        probability[draws.target[k]] += scratch[k] / total
    return top + math.log(total)


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
            log_density[s, i] = share_out(draws, s, top, scratch, probability[i])


def predict(draws: MixtureDraws, X: np.ndarray, n_estimate: int) -> tuple[np.ndarray, np.ndarray]:
    """Log densities (draw, n) and mean membership probabilities (n, K + 1), the last elsewhere.

    Those of a row with gaps are by the values that are there.
    """
    n_draws = draws.start.size - 1
    log_density = np.empty((n_draws, len(X)))
    probability = np.zeros((len(X), n_estimate + 1))
    target = np.where(draws.target < 0, n_estimate, draws.target)
    packed = draws._replace(target=target)
    scratch = np.empty(draws.alpha.size)
    whole = ~np.isnan(X).any(axis=1)
    if whole.all():
        evaluate(packed, np.ascontiguousarray(X), log_density, probability, scratch)
    else:
        if whole.any():
            some, there = np.empty((n_draws, int(whole.sum()))), probability[whole]
            evaluate(packed, np.ascontiguousarray(X[whole]), some, there, scratch)
            log_density[:, whole], probability[whole] = some, there
        from cavity.likelihoods.imputation import evaluate_rest, gappy, slots_last

        some, there = np.empty((n_draws, int((~whole).sum()))), probability[~whole]
        evaluate_rest(slots_last(packed), gappy(X[~whole]), some, there, scratch)
        log_density[:, ~whole], probability[~whole] = some, there
    total = probability.sum(axis=1, keepdims=True)
    # Where every density underflows (absurdly far from all data) the weights alone decide.
    shares = np.bincount(target, np.exp(draws.log_weight), minlength=n_estimate + 1)
    probability = np.where(
        total > 0.0, probability / np.where(total > 0.0, total, 1.0), shares / shares.sum()
    )
    return log_density, probability


def predict_with_noise(
    draws: MixtureDraws, X: np.ndarray, n_estimate: int, log_noise: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """``predict``, and the probability of noise in one more column, before elsewhere.

    Parameters
    ----------
    log_noise : array, shape (draw, n)
        Log of weight times density of every row as noise.
    """
    n_draws = draws.start.size - 1
    log_density = np.empty((n_draws, len(X)))
    probability = np.zeros((len(X), n_estimate + 2))
    for s in range(n_draws):
        own = slice(draws.start[s], draws.start[s + 1])
        one = MixtureDraws(np.array([0, own.stop - own.start]), *(part[own] for part in draws[1:]))
        inside, places = predict(one, X, n_estimate)
        log_density[s] = np.logaddexp(inside[0], log_noise[s])
        noise = np.exp(log_noise[s] - log_density[s])
        probability[:, n_estimate] += noise / n_draws
        places *= (1.0 - noise)[:, None] / n_draws
        probability[:, :n_estimate] += places[:, :-1]
        probability[:, -1] += places[:, -1]
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
