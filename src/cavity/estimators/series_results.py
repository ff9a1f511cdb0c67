"""What the draws of a series model say: trends, factors, predictions, forecasts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

if TYPE_CHECKING:
    import pandas as pd


class Band(NamedTuple):
    """Posterior mean and interval of curves, one row each, one column per time.

    Attributes
    ----------
    mean, lower, upper : pandas.DataFrame
    """

    mean: pd.DataFrame
    lower: pd.DataFrame
    upper: pd.DataFrame


def normal_quantile(level: float) -> float:
    """Half width, in standard deviations, of a central interval of a normal distribution."""
    from scipy.special import ndtri

    if not 0.0 < level < 1.0:
        raise ValueError(f"level must lie between 0 and 1, not {level!r}.")
    return float(ndtri(0.5 + 0.5 * level))


class TrendMoments(NamedTuple):
    """Posterior moments of every trend over all chains, in the model's units."""

    mean: np.ndarray  # (n, T)
    variance: np.ndarray  # (n, T)
    cross: np.ndarray  # (n, T, c) covariance with the coefficients of the covariates
    n_draws: int


def pool_trends(updates: list[Any]) -> TrendMoments:
    """Moments over all chains from each chain's running ones, by the law of total variance."""
    weights = np.array([u.n_kept for u in updates], dtype=float)
    if not weights.sum():
        raise ValueError("no draw was kept, so there are no trends. Ask for more draws.")
    share = [float(w) for w in weights / weights.sum()]
    if len(updates) == 1:
        # The chain's own arrays are used up: of many series, memory holds little else.
        (only,), n = updates, np.float32(weights[0])
        only.trend_square /= n
        only.trend_cross /= n
        return TrendMoments(only.trend_mean, only.trend_square, only.trend_cross, int(n))
    mean = np.zeros_like(updates[0].trend_mean)
    beta = np.zeros_like(updates[0].beta_mean)
    for s, u in zip(share, updates, strict=True):
        mean += s * u.trend_mean
        beta += s * u.beta_mean
    variance = np.zeros_like(mean)
    cross = np.zeros_like(updates[0].trend_cross)
    for s, n, u in zip(share, weights, updates, strict=True):
        if n:
            apart = u.trend_mean - mean
            variance += s * (u.trend_square / np.float32(n) + apart**2)
            cross += s * (u.trend_cross / np.float32(n))
            cross += s * apart[..., None] * (u.beta_mean - beta)[:, None]
    return TrendMoments(mean, variance, cross, int(weights.sum()))


class AlignedFactors(NamedTuple):
    """Factors and loadings of the point estimate's clusters, draw by draw."""

    mean: np.ndarray  # (cluster, T)
    variance: np.ndarray  # (cluster, T)
    loading: np.ndarray  # (n,) posterior mean, with its factor's sign
    loading_sd: np.ndarray  # (n,)


def align_factors(
    labels: np.ndarray, factor: np.ndarray, loading: np.ndarray, estimate: np.ndarray
) -> AlignedFactors:
    """Match every draw's factors to the clusters of the estimate, in number and in sign.

    A cluster of the estimate takes, in each draw, the factor of the slot that holds most of its
    members. Neither sign of (loading, factor) is preferred by the model: each draw's is turned to
    agree with the others', and all together so that most loadings are positive.

    Parameters
    ----------
    labels : (draw, n), factor : (draw, slot, T), loading : (draw, n), estimate : (n,)
    """
    n_draws = len(labels)
    n_clusters = int(estimate.max()) + 1
    n_times = factor.shape[2]
    mean = np.zeros((n_clusters, n_times))
    variance = np.zeros((n_clusters, n_times))
    total = np.zeros(len(estimate))
    square = np.zeros(len(estimate))
    for k in range(n_clusters):
        members = np.flatnonzero(estimate == k)
        own = labels[:, members]
        slots = np.array([np.bincount(row).argmax() for row in own.astype(np.int64)])
        paths = factor[np.arange(n_draws), slots].astype(float)
        loads = loading[:, members].astype(float)
        # Loadings of members that sat elsewhere in a draw belong to another factor.
        loads_here = np.where(own == slots[:, None], loads, 0.0)
        sign = np.ones(n_draws)
        for _ in range(3):
            reference = (sign[:, None] * loads_here).mean(0)
            if not reference.any():
                reference = loads_here[-1]
            sign = np.where(loads_here @ reference < 0, -1.0, 1.0)
        if (sign[:, None] * loads_here).mean() < 0:
            sign = -sign
        paths *= sign[:, None]
        mean[k] = paths.mean(0)
        variance[k] = paths.var(0)
        total[members] = (sign[:, None] * loads).mean(0)
        square[members] = (sign[:, None] * loads).std(0)
    return AlignedFactors(mean, variance, total, square)


def forecast_moments(
    steps: np.ndarray,
    a: np.ndarray,
    loading: np.ndarray,
    var_x: np.ndarray,
    last: np.ndarray,
    level: np.ndarray,
) -> tuple[np.ndarray, np.ndarray]:
    """Mean and variance of trends some steps beyond the data, over all draws.

    Parameters
    ----------
    steps : (h,)
        Numbers of steps, at least one.
    a, loading, last, level : (draw, n)
        Parameters, the last state and the intercept.
    var_x : (draw,)

    Returns
    -------
    mean, variance : (n, h)
    """
    n = a.shape[1]
    mean = np.empty((n, len(steps)))
    variance = np.empty((n, len(steps)))
    step_variance = loading.astype(float) ** 2 + np.asarray(var_x)[:, None]
    a = a.astype(float)
    for j, h in enumerate(steps):
        power = a**h
        centre = level + power * last
        grown = np.where(
            np.abs(a) < 1 - 1e-12, (1 - power**2) / np.maximum(1 - a**2, 1e-300), float(h)
        )
        mean[:, j] = centre.mean(0)
        variance[:, j] = centre.var(0) + (step_variance * grown).mean(0)
    return mean, variance


def typical_members(similarity: np.ndarray, estimate: np.ndarray, n: int) -> list[np.ndarray]:
    """For each cluster its members most often found with the others, most typical first."""
    out = []
    for k in range(int(estimate.max()) + 1):
        members = np.flatnonzero(estimate == k)
        score = similarity[np.ix_(members, members)].mean(1)
        out.append(members[np.argsort(-score, kind="stable")[:n]])
    return out
