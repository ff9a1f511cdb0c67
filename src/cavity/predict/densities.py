"""Densities of rows under kept draws, and the probabilities of their clusters.

Continuous columns, categories and counts each have a density of their own under every entry of
`MixtureDraws`. Missing values are integrated out.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from scipy import special

from cavity._numba.jit import jit
from cavity.conjugate.marginal import Reduction, reduce_slot, reduction_room
from cavity.likelihoods.gaussian import log_student_t
from cavity.predict.draws import MixtureDraws, Rows

# Entries times rows that are in memory at a time.
_CELLS = 2_000_000
# Makes differences beyond 1e154, whose squares overflow, safe to square.
REDUCE = 1e-170
# Rows with missing values are taken to lie at most this far out, where squares are still finite.
FARTHEST = 1e140


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
def add_whole_rows(draws, X, rows, out):
    """Add the log densities of rows without missing values, at `rows` of `out` (entry, n)."""
    n, d = X.shape
    for k in range(draws.alpha.shape[0]):
        a = draws.alpha[k]
        for i in range(n):
            delta = 0.0
            for r in range(d):
                e = 0.0
                for c in range(r + 1):
                    e += draws.whiten[k, r, c] * (X[i, c] - draws.mean[k, c])
                delta += e * e
            value = draws.log_norm[k]
            if a < math.inf:
                if delta < math.inf:
                    value -= (a + 0.5 * d) * math.log1p(0.5 * delta / a)
                else:
                    value -= (a + 0.5 * d) * far_log(draws, X, i, k, a)
            else:
                value -= 0.5 * delta
            out[k, rows[i]] += value


class PartialRows(NamedTuple):
    """Rows with missing values, and scratch space."""

    X: np.ndarray  # (n, d)
    start: np.ndarray  # (n + 1,)
    gaps: np.ndarray  # (cells,), columns of the missing values, row by row
    room: Reduction


def partial_rows(X: np.ndarray) -> PartialRows:
    """Prepare rows in the model's units, NaN where a value is missing."""
    missing = np.isnan(X)
    n_gaps = missing.sum(axis=1)
    return PartialRows(
        np.ascontiguousarray(np.where(missing, 0.0, np.clip(X, -FARTHEST, FARTHEST))),
        np.concatenate([[0], np.cumsum(n_gaps)]).astype(np.int64),
        np.nonzero(missing)[1].astype(np.int64),
        reduction_room(X.shape[1], int(n_gaps.max(initial=0))),
    )


def slots_last(draws: MixtureDraws) -> MixtureDraws:
    """Return the draws with entries on the last axis of means and whiteners."""
    whiten = np.ascontiguousarray(np.moveaxis(draws.whiten, 0, 2))
    return draws._replace(mean=np.ascontiguousarray(draws.mean.T), whiten=whiten)


@jit(internal=True)
def partial_density(draws, rows, i, k):
    """Log density of the observed values of row i under one entry, and their distance.

    Entries are on the last axis (`slots_last`).
    """
    first = rows.start[i]
    m = rows.start[i + 1] - first
    for a in range(m):
        rows.room.columns[a] = rows.gaps[first + a]
    d = rows.X.shape[1] - m
    delta, half_log_det = reduce_slot(draws.whiten, draws.mean, k, rows.X[i], rows.room, m)
    value = log_student_t(delta, draws.alpha[k], d) - half_log_det
    for r in range(rows.X.shape[1]):
        value += math.log(draws.whiten[r, r, k])
    return value, delta


@jit
def add_partial_rows(draws, partial, rows, out):
    """Add the log densities of rows with missing values, at `rows` of `out` (entry, n)."""
    for k in range(draws.alpha.shape[0]):
        for i in range(partial.X.shape[0]):
            out[k, rows[i]] += partial_density(draws, partial, i, k)[0]


def _add_continuous(draws: MixtureDraws, own: Rows, out: np.ndarray) -> None:
    X = own.continuous
    if not X.shape[1]:
        return
    latent = own.latent
    missing = np.isnan(X).any(axis=1) & ~latent
    whole = np.flatnonzero(~missing & ~latent)
    if whole.size:
        add_whole_rows(draws, np.ascontiguousarray(X[whole]), whole, out)
    rest = np.flatnonzero(missing)
    if rest.size:
        add_partial_rows(slots_last(draws), partial_rows(X[rest]), rest, out)
    at = np.flatnonzero(latent)
    if at.size:
        from cavity.predict.latent_rows import (
            add_latent_rows,
            entries_of,
            latent_rows,
            room_for,
        )

        rows, room = latent_rows(own.take(at)), room_for(X.shape[1])
        add_latent_rows(entries_of(draws), rows, at, out, room)


def _add_categories(draws: MixtureDraws, codes: np.ndarray, out: np.ndarray) -> None:
    log_share = np.log(np.maximum(draws.share, 1e-300))
    for j in range(codes.shape[1]):
        there = np.flatnonzero(codes[:, j] >= 0)
        out[:, there] += log_share[:, draws.levels[j] + codes[there, j]]


def log_count(y: np.ndarray, rate: np.ndarray, size: np.ndarray) -> np.ndarray:
    """Return the log probability of counts: negative binomial, Poisson where the size is infinite.

    Examples
    --------
    >>> log_count(np.array([0.0]), np.array([2.0]), np.array([np.inf])).tolist()
    [-2.0]
    """
    y, rate, size = np.broadcast_arrays(y, rate, size)
    out = special.xlogy(y, rate) - rate - special.gammaln(y + 1.0)
    some = np.isfinite(size)
    r, v, m = size[some], y[some], rate[some]
    out[some] = special.gammaln(v + r) - special.gammaln(r) - special.gammaln(v + 1.0)
    out[some] += special.xlogy(v, m) - v * np.log(r + m) - r * np.log1p(m / r)
    return out


def _add_counts(draws: MixtureDraws, y: np.ndarray, out: np.ndarray) -> None:
    for j in range(y.shape[1]):
        there = np.flatnonzero(np.isfinite(y[:, j]))
        out[:, there] += log_count(
            y[there, j][None], draws.rate[:, j, None], draws.size[:, j, None]
        )


def cell_densities(draws: MixtureDraws, rows: Rows) -> np.ndarray:
    """Return the log weight plus the log density of categories and counts, (entry, n)."""
    out = np.repeat(draws.log_weight[:, None], len(rows.codes), axis=1)
    _add_categories(draws, rows.codes, out)
    _add_counts(draws, rows.counts, out)
    return out


def entry_densities(draws: MixtureDraws, rows: Rows) -> np.ndarray:
    """Return the log weight plus the log density of each row under every entry, (entry, n)."""
    out = cell_densities(draws, rows)
    _add_continuous(draws, rows, out)
    return out


def _normalize(draws: MixtureDraws, value: np.ndarray) -> np.ndarray:
    """Return log densities (draw, n); `value` becomes every entry's probability in its draw."""
    begin, draw = draws.start[:-1], draws.draw
    top = np.maximum.reduceat(value, begin, axis=0)
    safe = np.where(np.isfinite(top), top, 0.0)
    np.exp(value - safe[draw], out=value)
    total = np.add.reduceat(value, begin, axis=0)
    with np.errstate(divide="ignore"):
        log_density = safe + np.log(total)
    value /= np.where(total > 0.0, total, 1.0)[draw]
    return log_density


def pieces(draws: MixtureDraws, n: int) -> list[slice]:
    """Return slices of rows to work on at a time."""
    step = max(1, _CELLS // max(draws.target.size, 1))
    return [slice(begin, begin + step) for begin in range(0, n, step)]


def predict_rows(
    draws: MixtureDraws, rows: Rows, n_clusters: int, log_noise: np.ndarray | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """Return log densities and the probabilities of the estimate's clusters.

    Parameters
    ----------
    draws : MixtureDraws
    rows : Rows
    n_clusters : int
        Clusters of the estimate.
    log_noise : array, shape (draw, n), optional
        Log of weight times density of every row as noise.

    Returns
    -------
    log_density : array, shape (draw, n)
    probability : array, shape (n, n_clusters + 1)
        The last column is the probability of a cluster that matches none of the estimate's. With
        `log_noise`, the column before it is the probability of noise.
    """
    n, n_draws = len(rows.codes), draws.start.size - 1
    noisy = log_noise is not None
    log_density = np.empty((n_draws, n))
    probability = np.zeros((n, n_clusters + 1 + noisy))
    target = np.where(draws.target < 0, n_clusters + noisy, draws.target)
    matched = (target == np.arange(probability.shape[1])[:, None]).astype(float)
    for piece in pieces(draws, n):
        value = entry_densities(draws, rows.take(piece))
        log_density[:, piece] = _normalize(draws, value)
        if log_noise is not None:
            both = np.logaddexp(log_density[:, piece], log_noise[:, piece])
            log_density[:, piece] = both
            noise = np.exp(log_noise[:, piece] - both)
            value *= (1.0 - noise)[draws.draw]
            probability[piece, n_clusters] = noise.sum(axis=0)
        probability[piece] += (matched @ value).T
    total = probability.sum(axis=1, keepdims=True)
    # Where every density underflows (absurdly far from all data) the weights alone decide.
    shares = matched @ np.exp(draws.log_weight)
    return log_density, np.where(
        total > 0.0, probability / np.where(total > 0.0, total, 1.0), shares / shares.sum()
    )


def log_mean_exp(log_density: np.ndarray) -> np.ndarray:
    """Return the logarithm of the mean density over draws."""
    top = log_density.max(axis=0)
    # So far out that no draw gives a density above zero, the answer is minus infinity.
    lift = np.where(np.isfinite(top), top, 0.0)
    with np.errstate(divide="ignore"):
        return lift + np.log(np.mean(np.exp(log_density - lift), axis=0))
