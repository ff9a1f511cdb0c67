"""Suspicious cells: how unlikely each observed cell is given the other cells of its row.

The cell is left out of its row, the clusters are weighed by what is left, and its tail probability
is that of the predictive distribution, averaged over draws. Measurements that are all positive are
compared by their logarithms too: a value a thousand times too small is hardly unusual among skewed
ones otherwise.
"""

from __future__ import annotations

import numpy as np
from scipy import special

from cavity.predict.densities import entry_densities, log_count
from cavity.predict.draws import MixtureDraws, Rows, cholesky

# Draws to average over, cells in memory at a time, and rows that a cluster's logarithms need.
N_DRAWS = 20
_CELLS = 1_000_000
LEAST_ROWS = 10


def cell_tails(
    draws: MixtureDraws, rows: Rows, logarithms: np.ndarray, labels: np.ndarray, n_clusters: int
) -> np.ndarray:
    """Return the tail probability of every cell, (n, cell); NaN where one is missing.

    Parameters
    ----------
    draws : MixtureDraws
    rows : Rows
        Rows of the fit.
    logarithms : array, shape (n, d)
        Logarithms of the measurements, NaN in columns that are not all positive.
    labels : array of int, shape (n,)
        Their clusters; -1 for noise.
    n_clusters : int

    Returns
    -------
    array
        Measurements, categories, counts. Two-sided for numbers; for a category the probability of
        all that are no more probable.
    """
    n, d = rows.continuous.shape
    width = d + rows.codes.shape[1] + rows.counts.shape[1]
    out = np.full((n, width), np.nan)
    scores = _scores_of_logarithms(logarithms, labels, n_clusters)
    step = max(1, _CELLS // draws.target.size)
    patterns, pattern = np.unique(~np.isnan(rows.continuous), axis=0, return_inverse=True)
    for at, there in enumerate(patterns):
        members = np.flatnonzero(pattern.reshape(-1) == at)
        for first in range(0, members.size, step):
            piece = members[first : first + step]
            some = rows.take(piece)
            whole = entry_densities(draws, some)
            _measurements(draws, some, there, whole, scores[:, piece], out, piece)
            _categories(draws, some, whole, out[:, d:], piece)
            _counts(draws, some, whole, out[:, d + rows.codes.shape[1] :], piece)
    return out


def _shares(value: np.ndarray) -> np.ndarray:
    """Return probabilities of entries from log densities, (entry, n), over all draws at once."""
    return special.softmax(value, axis=0)


def _two_sided(below: np.ndarray, above: np.ndarray) -> np.ndarray:
    return np.minimum(1.0, 2.0 * np.minimum(below, above))


def _measurements(
    draws: MixtureDraws,
    rows: Rows,
    there: np.ndarray,
    whole: np.ndarray,
    scores: np.ndarray,
    out: np.ndarray,
    piece: np.ndarray,
) -> None:
    """Write the tails of measurements of rows that have the same columns observed."""
    seen = np.flatnonzero(there)
    if not seen.size:
        return
    root = np.linalg.inv(draws.whiten)
    covariance = (root @ np.swapaxes(root, 1, 2))[:, seen][:, :, seen]
    factor = np.linalg.inv(cholesky(covariance))
    precision = np.swapaxes(factor, 1, 2) @ factor
    away = rows.continuous[:, seen] - draws.mean[:, None, seen]
    pulled = away @ precision
    distance = (away * pulled).sum(axis=2)
    df, m = 2.0 * draws.alpha[:, None], seen.size
    normal = np.isinf(df)
    df = np.where(normal, 1.0, df)
    freedom = df + m - 1.0
    matched = (draws.target == np.arange(scores.shape[0])[:, None]).astype(float)
    for at, j in enumerate(seen):
        # Given the rest of the row a cell is t around what the precision matrix pulls it to.
        own = precision[:, at, at][:, None]
        rest = np.maximum(distance - pulled[:, :, at] ** 2 / own, 0.0)
        spread = np.where(normal, 1.0, np.sqrt((df + rest) / freedom)) / np.sqrt(own)
        z = pulled[:, :, at] / own / spread
        share = _shares(whole - _log_standard(z, freedom, normal) + np.log(spread))
        below = np.where(normal, special.ndtr(z), special.stdtr(freedom, z))
        above = np.where(normal, special.ndtr(-z), special.stdtr(freedom, -z))
        tail = _two_sided((share * below).sum(axis=0), (share * above).sum(axis=0))
        known = np.isfinite(scores[:, :, j])
        if known.any():
            weight = np.where(known, matched @ share, 0.0)
            far = (weight * np.exp(-np.abs(np.nan_to_num(scores[:, :, j])))).sum(axis=0)
            total = weight.sum(axis=0)
            of_logarithm = np.where(total > 0.0, far / np.where(total > 0.0, total, 1.0), 1.0)
            tail = np.minimum(1.0, 2.0 * np.minimum(tail, of_logarithm))
        out[piece, j] = tail


def _log_standard(z: np.ndarray, freedom: np.ndarray, normal: np.ndarray) -> np.ndarray:
    """Return the log density of standard t, or normal, variables."""
    heavy = special.gammaln(0.5 * (freedom + 1.0)) - special.gammaln(0.5 * freedom)
    heavy = (
        heavy - 0.5 * np.log(np.pi * freedom) - 0.5 * (freedom + 1.0) * np.log1p(z * z / freedom)
    )
    return np.where(normal, -0.5 * z * z - 0.5 * np.log(2.0 * np.pi), heavy)


def _categories(
    draws: MixtureDraws, rows: Rows, whole: np.ndarray, out: np.ndarray, piece: np.ndarray
) -> None:
    for c in range(rows.codes.shape[1]):
        there = np.flatnonzero(rows.codes[:, c] >= 0)
        share = draws.share[:, draws.levels[c] : draws.levels[c + 1]]
        code = rows.codes[there, c]
        left = whole[:, there] - np.log(np.maximum(share, 1e-300))[:, code]
        predicted = _shares(left).T @ share
        own = predicted[np.arange(there.size), code]
        no_more = predicted <= own[:, None] * (1.0 + 1e-12)
        out[piece[there], c] = np.minimum(np.where(no_more, predicted, 0.0).sum(axis=1), 1.0)


def _counts(
    draws: MixtureDraws, rows: Rows, whole: np.ndarray, out: np.ndarray, piece: np.ndarray
) -> None:
    for j in range(rows.counts.shape[1]):
        there = np.flatnonzero(np.isfinite(rows.counts[:, j]))
        y, rate, size = rows.counts[there, j], draws.rate[:, [j]], draws.size[:, [j]]
        share = _shares(whole[:, there] - log_count(y[None], rate, size))
        poisson = np.isinf(size)
        r = np.where(poisson, 1.0, size)
        up_to = np.where(
            poisson, special.gammaincc(y + 1.0, rate), special.betainc(r, y + 1.0, r / (r + rate))
        )
        from_on = np.where(
            poisson,
            special.gammainc(np.maximum(y, 0.5), rate),
            special.betainc(np.maximum(y, 0.5), r, rate / (r + rate)),
        )
        from_on = np.where(y == 0.0, 1.0, from_on)
        out[piece[there], j] = _two_sided(
            (share * up_to).sum(axis=0), (share * from_on).sum(axis=0)
        )


def _scores_of_logarithms(x: np.ndarray, labels: np.ndarray, n_clusters: int) -> np.ndarray:
    """Return how many robust deviations each logarithm is from every cluster's median, (K, n, d).

    NaN where a column is not all positive or a cluster has too few values to say. A tail of e^-|z|
    is that of gamma variables near zero; logarithms of normal or lognormal ones have less.
    """
    out = np.full((n_clusters, *x.shape), np.nan)
    for j in np.flatnonzero(np.isfinite(x).any(axis=0)):
        for k in range(n_clusters):
            own = x[labels == k, j]
            own = own[np.isfinite(own)]
            if own.size < LEAST_ROWS:
                continue
            low, middle, high = np.quantile(own, [0.25, 0.5, 0.75])
            if high > low:
                out[k, :, j] = 1.349 * (x[:, j] - middle) / (high - low)
    return out
