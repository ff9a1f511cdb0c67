"""Rows with gaps under kept draws of the mixture: densities of what is there, draws of the rest."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from cavity._numba.jit import jit
from cavity.conjugate.marginal import Reduction, fill_gaps, reduce_slot, reduction_room
from cavity.likelihoods.gaussian import log_student_t
from cavity.likelihoods.predictive import MixtureDraws, share_out

# Squared distances of rows further out than this are beyond numbers where gaps are taken out.
FARTHEST = 1e140


class Gappy(NamedTuple):
    """Rows of which each has some gaps."""

    X: np.ndarray  # (n, d)
    start: np.ndarray  # (n + 1,)
    gaps: np.ndarray  # (cells,)
    room: Reduction


def gappy(X: np.ndarray) -> Gappy:
    """Rows in the model's units, NaN at the gaps."""
    missing = np.isnan(X)
    n_gaps = missing.sum(axis=1)
    return Gappy(
        np.ascontiguousarray(np.where(missing, 0.0, np.clip(X, -FARTHEST, FARTHEST))),
        np.concatenate([[0], np.cumsum(n_gaps)]).astype(np.int64),
        np.nonzero(missing)[1].astype(np.int64),
        reduction_room(X.shape[1], int(n_gaps.max(initial=0))),
    )


def slots_last(draws: MixtureDraws) -> MixtureDraws:
    """Return the draws with clusters on the last axis of means and whiteners."""
    whiten = np.ascontiguousarray(np.moveaxis(draws.whiten, 0, 2))
    return draws._replace(mean=np.ascontiguousarray(draws.mean.T), whiten=whiten)


@jit(internal=True)
def _log_density(draws, rows, i, k):
    """Log of weight times density of what is there of row i in one cluster, and its distance."""
    first = rows.start[i]
    m = rows.start[i + 1] - first
    for a in range(m):
        rows.room.columns[a] = rows.gaps[first + a]
    d = rows.X.shape[1] - m
    delta, half_log_det = reduce_slot(draws.whiten, draws.mean, k, rows.X[i], rows.room, m)
    a = draws.alpha[k]
    value = draws.log_weight[k] - half_log_det + log_student_t(delta, a, d)
    for r in range(rows.X.shape[1]):
        value += math.log(draws.whiten[r, r, k])
    return value, delta


@jit
def evaluate_rest(draws, rows, log_density, probability, scratch):
    """``evaluate`` of `cavity.likelihoods.predictive` for rows with gaps, after ``slots_last``."""
    for s in range(draws.start.shape[0] - 1):
        first, last = draws.start[s], draws.start[s + 1]
        for i in range(rows.X.shape[0]):
            top = -math.inf
            for k in range(first, last):
                scratch[k] = _log_density(draws, rows, i, k)[0]
                top = max(top, scratch[k])
            log_density[s, i] = share_out(draws, s, top, scratch, probability[i])


@jit
def impute_rows(draws, rows, own, n_each, mean, values, scratch, rng):
    """Posterior mean of every missing cell, and draws of it.

    Parameters
    ----------
    draws : MixtureDraws
    rows : Gappy
    own : array of int, shape (n, draw)
        The cluster that each row is in, in each draw; -1 for a row that may be in any.
    n_each : int
        Values drawn from each draw.
    mean : array, shape (cells,)
        Means are added here.
    values : array, shape (cells, draw * n_each)
    """
    n_draws = draws.start.shape[0] - 1
    for i in range(rows.X.shape[0]):
        at = rows.start[i]
        m = rows.start[i + 1] - at
        for s in range(n_draws):
            first, last = draws.start[s], draws.start[s + 1]
            if own[i, s] >= 0:
                first, last = own[i, s], own[i, s] + 1
            top = -math.inf
            for k in range(first, last):
                scratch[k] = _log_density(draws, rows, i, k)[0]
                top = max(top, scratch[k])
            total = 0.0
            for k in range(first, last):
                scratch[k] = math.exp(scratch[k] - top) if top > -math.inf else 1.0
                total += scratch[k]
            for k in range(first, last):
                # The mean given the cluster: as a draw with no spread.
                if scratch[k] > 1e-12 * total:
                    _log_density(draws, rows, i, k)
                    fill_gaps(rows.X[i], draws.mean[:, k], 0.0, rows.room, m, rng)
                    for a in range(m):
                        value = rows.X[i, rows.gaps[at + a]]
                        mean[at + a] += scratch[k] / (total * n_draws) * value
            for t in range(n_each):
                target = rng.random() * total
                chosen = first
                for k in range(first, last):
                    if scratch[k] > 0.0:
                        chosen = k
                        target -= scratch[k]
                        if target < 0.0:
                            break
                delta = _log_density(draws, rows, i, chosen)[1]
                u = 1.0
                alpha = draws.alpha[chosen]
                if alpha < math.inf:
                    shape = alpha + 0.5 * (rows.X.shape[1] - m)
                    u = max(rng.standard_gamma(shape), 1e-290) / (alpha + 0.5 * delta)
                fill_gaps(rows.X[i], draws.mean[:, chosen], 1.0 / math.sqrt(u), rows.room, m, rng)
                for a in range(m):
                    values[at + a, s * n_each + t] = rows.X[i, rows.gaps[at + a]]


def impute(
    draws: MixtureDraws, X: np.ndarray, own: np.ndarray, level: float, n_values: int = 2000
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Posterior mean, lower and upper end of the missing cells of rows that have some each.

    Parameters
    ----------
    draws : MixtureDraws
    X : array of shape (n, d)
        In the units of the draws, NaN at the gaps.
    own : array of int, shape (n, draw)
        The cluster of each row in each draw, or -1.
    level : float
        Probability of the interval between the ends.
    n_values : int
        Draws of each cell that the ends are quantiles of, about.

    Returns
    -------
    mean, lower, upper : arrays of shape (cells,)
        Row by row.
    """
    n_draws = draws.start.size - 1
    draws = slots_last(draws)
    n_each = max(-(-n_values // n_draws), 1)
    rng = np.random.default_rng(0)
    parts = []
    # So many rows at a time that their draws take some fifty megabytes.
    step = max(1, 6_000_000 // (n_draws * n_each * X.shape[1]))
    for first in range(0, len(X), step):
        rows = gappy(X[first : first + step])
        mean = np.zeros(rows.gaps.size)
        values = np.empty((rows.gaps.size, n_draws * n_each))
        scratch = np.empty(draws.alpha.size)
        impute_rows(draws, rows, own[first : first + step], n_each, mean, values, scratch, rng)
        ends = np.quantile(values, [0.5 - 0.5 * level, 0.5 + 0.5 * level], axis=1)
        parts.append(np.vstack([mean, ends]))
    out = np.concatenate(parts, axis=1) if parts else np.empty((3, 0))
    return out[0], out[1], out[2]
