"""Densities of new rows of a table under kept draws, and what fills their gaps.

A draw's clusters, and what stands for those that are empty or still to come, are entries one
after another. Of every entry each part of a row has a density of its own; a gap has none.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from scipy import special

from cavity.likelihoods.predictive import MixtureDraws

# Cells of the table of entries by rows that are worked on at a time.
_CELLS = 2_000_000


class TableDraws(NamedTuple):
    """Mixtures of some kept draws."""

    start: np.ndarray  # (draw + 1,), where each draw's entries begin
    log_weight: np.ndarray  # (entry,)
    target: np.ndarray  # (entry,), the estimate's cluster it is matched to; -1 for none
    slot: np.ndarray  # (entry,), its label in the draw; -1 for what stands for empty clusters
    mean: np.ndarray  # (entry, d)
    covariance: np.ndarray  # (entry, d, d)
    alpha: np.ndarray  # (entry,), half the degrees of freedom; infinite for a Gaussian
    share: np.ndarray  # (entry, P)
    levels: np.ndarray  # (columns + 1,), where each column's categories begin
    rate: np.ndarray  # (entry, counts), mean of each count
    size: np.ndarray  # (entry, counts), dispersion; infinite for Poisson counts


class Rows(NamedTuple):
    """Rows in the model's units."""

    continuous: np.ndarray  # (n, d), NaN where missing
    codes: np.ndarray  # (n, columns), -1 where missing
    counts: np.ndarray  # (n, counts), NaN where missing

    def take(self, rows: np.ndarray | slice) -> Rows:
        """Some of them."""
        return Rows(*(part[rows] for part in self))


def covariances_of(draws: MixtureDraws) -> np.ndarray:
    """Covariance (scale matrix) of every entry, from its whitener."""
    root = np.linalg.inv(draws.whiten)
    return root @ np.swapaxes(root, 1, 2)


def _patterns(missing: np.ndarray) -> list[tuple[np.ndarray, np.ndarray]]:
    """Each pattern of columns that are there, and the rows that have it."""
    if not missing.shape[1]:
        return []
    kinds, which = np.unique(missing, axis=0, return_inverse=True)
    which = which.reshape(-1)
    return [(np.flatnonzero(~kind), np.flatnonzero(which == j)) for j, kind in enumerate(kinds)]


def _continuous(draws: TableDraws, X: np.ndarray, out: np.ndarray) -> None:
    """Add the log density of the columns that are there."""
    for there, rows in _patterns(np.isnan(X)):
        d = there.size
        if not d:
            continue
        root = np.linalg.cholesky(draws.covariance[:, there[:, None], there])
        away = X[rows][:, there].T[None] - draws.mean[:, there, None]
        with np.errstate(over="ignore", invalid="ignore"):
            white = np.linalg.solve(root, away)
            distance = np.nan_to_num(np.square(white).sum(axis=1), nan=np.inf)
        log_det = np.log(np.diagonal(root, axis1=1, axis2=2)).sum(axis=1)
        a = draws.alpha
        heavy = np.isfinite(a)
        score = -0.5 * (distance + d * math.log(2.0 * math.pi))
        if heavy.any():
            b = a[heavy, None]
            constant = special.gammaln(b + 0.5 * d) - special.gammaln(b)
            constant -= 0.5 * d * np.log(2.0 * math.pi * b)
            score[heavy] = constant - (b + 0.5 * d) * np.log1p(0.5 * distance[heavy] / b)
        out[:, rows] += score - log_det[:, None]


def _categories(draws: TableDraws, codes: np.ndarray, out: np.ndarray) -> None:
    log_share = np.log(np.maximum(draws.share, 1e-300))
    for j in range(codes.shape[1]):
        there = np.flatnonzero(codes[:, j] >= 0)
        out[:, there] += log_share[:, draws.levels[j] + codes[there, j]]


def log_count(y: np.ndarray, rate: np.ndarray, size: np.ndarray) -> np.ndarray:
    """Log probability of counts: negative binomial, Poisson where the size is infinite.

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


def _counts(draws: TableDraws, y: np.ndarray, out: np.ndarray) -> None:
    for j in range(y.shape[1]):
        there = np.flatnonzero(np.isfinite(y[:, j]))
        out[:, there] += log_count(
            y[there, j][None], draws.rate[:, j, None], draws.size[:, j, None]
        )


def entry_densities(draws: TableDraws, rows: Rows) -> np.ndarray:
    """Log weight and density of each row under every entry, (entry, n)."""
    out = np.repeat(draws.log_weight[:, None], len(rows.codes), axis=1)
    _continuous(draws, rows.continuous, out)
    _categories(draws, rows.codes, out)
    _counts(draws, rows.counts, out)
    return out


def _normalised(draws: TableDraws, value: np.ndarray) -> np.ndarray:
    """Log density (draw, n); `value` becomes every entry's probability within its draw."""
    begin = draws.start[:-1]
    of = np.repeat(np.arange(begin.size), np.diff(draws.start))
    top = np.maximum.reduceat(value, begin, axis=0)
    safe = np.where(np.isfinite(top), top, 0.0)
    np.exp(value - safe[of], out=value)
    total = np.add.reduceat(value, begin, axis=0)
    with np.errstate(divide="ignore"):
        log_density = safe + np.log(total)
    value /= np.where(total > 0.0, total, 1.0)[of]
    return log_density


def in_pieces(draws: TableDraws, n: int) -> list[slice]:
    """Rows to work on at a time."""
    step = max(1, _CELLS // max(draws.target.size, 1))
    return [slice(begin, begin + step) for begin in range(0, n, step)]


def predict_rows(
    draws: TableDraws, rows: Rows, n_estimate: int, log_noise: np.ndarray | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """Log densities (draw, n) and mean membership probabilities (n, K + 1), the last elsewhere.

    With `log_noise` (draw, n), the log of weight times density of every row as noise, there is one
    column more, that of noise, before the last.
    """
    if log_noise is not None:
        return _predict_with_noise(draws, rows, n_estimate, log_noise)
    n, n_draws = len(rows.codes), draws.start.size - 1
    log_density = np.empty((n_draws, n))
    probability = np.zeros((n, n_estimate + 1))
    target = np.where(draws.target < 0, n_estimate, draws.target)
    weight = np.exp(draws.log_weight)
    shares = np.bincount(target, weight, minlength=n_estimate + 1)
    for piece in in_pieces(draws, n):
        value = entry_densities(draws, rows.take(piece))
        log_density[:, piece] = _normalised(draws, value)
        for k in range(n_estimate + 1):
            probability[piece, k] = value[target == k].sum(axis=0)
    total = probability.sum(axis=1, keepdims=True)
    # Where every density underflows the weights alone decide.
    even = shares / shares.sum()
    return log_density, np.where(total > 0.0, probability / np.where(total > 0, total, 1.0), even)


def _predict_with_noise(
    draws: TableDraws, rows: Rows, n_estimate: int, log_noise: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    n, n_draws = len(rows.codes), draws.start.size - 1
    log_density = np.empty((n_draws, n))
    probability = np.zeros((n, n_estimate + 2))
    target = np.where(draws.target < 0, n_estimate + 1, draws.target)
    of = np.repeat(np.arange(n_draws), np.diff(draws.start))
    for piece in in_pieces(draws, n):
        value = entry_densities(draws, rows.take(piece))
        inside = _normalised(draws, value)
        log_density[:, piece] = np.logaddexp(inside, log_noise[:, piece])
        noise = np.exp(log_noise[:, piece] - log_density[:, piece])
        value *= (1.0 - noise)[of]
        probability[piece, n_estimate] = noise.sum(axis=0)
        for k in (*range(n_estimate), n_estimate + 1):
            probability[piece, k] = value[target == k].sum(axis=0)
    return log_density, probability / n_draws


class Filled(NamedTuple):
    """What the gaps of some rows may hold, in the model's units; NaN where there is no gap."""

    mean: np.ndarray  # (n, d) of the measurements
    draws: np.ndarray  # (draw, n, d)
    share: np.ndarray  # (n, P) probability of every category, given the row
    rate: np.ndarray  # (n, counts)
    counted: np.ndarray  # (draw, n, counts)


def fill_rows(
    draws: TableDraws,
    rows: Rows,
    n_samples: int,
    rng: np.random.Generator,
    labels: np.ndarray | None = None,
    noise_slot: int | None = None,
) -> Filled:
    """Means, probabilities and draws of what is missing in each row, given what is there.

    With `labels` (draw, n), those of the draws, each row is in the cluster that a draw has it in;
    `noise_slot` is the label of rows in none, where there may be some.
    """
    n, d = rows.continuous.shape
    n_draws = draws.start.size - 1
    out = Filled(
        np.full((n, d), np.nan),
        np.full((n_samples, n, d), np.nan),
        np.zeros((n, draws.share.shape[1])),
        np.full((n, rows.counts.shape[1]), np.nan),
        np.full((n_samples, n, rows.counts.shape[1]), np.nan),
    )
    for piece in in_pieces(draws, n):
        some = rows.take(piece)
        if labels is None:
            value = entry_densities(draws, some)
            _normalised(draws, value)
        else:
            of = np.repeat(np.arange(n_draws), np.diff(draws.start))
            here = labels[of][:, piece]
            value = (here == draws.slot[:, None]).astype(float)
            if noise_slot is not None:
                # Noise says nothing of a gap: the row is then as one of which nothing is known.
                share = np.exp(draws.log_weight)
                share /= np.bincount(of, share)[of]
                value += np.where(here == noise_slot, share[:, None], 0.0)
        value /= n_draws
        dead = value.sum(axis=0) <= 0.0
        value[:, dead] = (np.exp(draws.log_weight) / n_draws)[:, None]
        out.share[piece] = value.T @ draws.share
        out.rate[piece] = value.T @ draws.rate
        # An entry for each sample of each row, by inverse of the cumulative probabilities.
        cumulative = np.cumsum(value, axis=0)
        uniform = rng.random((n_samples, value.shape[1])) * cumulative[-1]
        entry = np.array(
            [np.searchsorted(c, u) for c, u in zip(cumulative.T, uniform.T, strict=True)]
        )
        entry = np.minimum(entry.T, value.shape[0] - 1)
        _fill_counts(draws, some, entry, out.counted[:, piece], rng)
        _fill_continuous(draws, some, value, entry, out.mean[piece], out.draws[:, piece], rng)
    out.rate[np.isfinite(rows.counts)] = np.nan
    return out


def _fill_counts(
    draws: TableDraws, rows: Rows, entry: np.ndarray, out: np.ndarray, rng: np.random.Generator
) -> None:
    for j in range(rows.counts.shape[1]):
        gap = np.flatnonzero(np.isnan(rows.counts[:, j]))
        rate, size = draws.rate[entry[:, gap], j], draws.size[entry[:, gap], j]
        with np.errstate(invalid="ignore"):
            own = np.where(
                np.isfinite(size), rng.gamma(np.where(np.isfinite(size), size, 1.0)), 1.0
            )
            own = np.where(np.isfinite(size), own / np.where(np.isfinite(size), size, 1.0), 1.0)
        out[:, gap, j] = rng.poisson(np.minimum(rate * own, 1e15))


def _fill_continuous(
    draws: TableDraws,
    rows: Rows,
    value: np.ndarray,
    entry: np.ndarray,
    mean: np.ndarray,
    out: np.ndarray,
    rng: np.random.Generator,
) -> None:
    d = rows.continuous.shape[1]
    n_samples = len(entry)
    for there, own in _patterns(np.isnan(rows.continuous)):
        gap = np.setdiff1d(np.arange(d), there)
        if not gap.size:
            continue
        cov = draws.covariance
        away = rows.continuous[own][:, there][None] - draws.mean[:, None, there]
        if there.size:
            # Regression of what is missing on what is there, for every entry.
            slope = np.linalg.solve(cov[:, there[:, None], there], cov[:, there[:, None], gap])
            distance = np.einsum(
                "eri,eir->er",
                away,
                np.linalg.solve(cov[:, there[:, None], there], np.swapaxes(away, 1, 2)),
            )
            left = (
                cov[:, gap[:, None], gap] - np.swapaxes(slope, 1, 2) @ cov[:, there[:, None], gap]
            )
            centre = draws.mean[:, None, gap] + away @ slope
        else:
            left = cov[:, gap[:, None], gap]
            distance = np.zeros((len(cov), own.size))
            centre = np.broadcast_to(draws.mean[:, None, gap], (len(cov), own.size, gap.size))
        mean[np.ix_(own, gap)] = np.einsum("er,erg->rg", value[:, own], centre)
        root = np.linalg.cholesky(0.5 * (left + np.swapaxes(left, 1, 2)))
        chosen = entry[:, own]
        a = draws.alpha[chosen]
        heavy = np.isfinite(a)
        scale = np.ones(chosen.shape)
        after = np.where(heavy, a, 1.0) + 0.5 * there.size
        rate = np.where(heavy, a, 1.0) + 0.5 * distance[chosen, np.arange(own.size)]
        scale[heavy] = np.maximum(rng.gamma(after)[heavy] / rate[heavy], 1e-200)
        noise = rng.standard_normal((n_samples, own.size, gap.size))
        noise = np.einsum("srij,srj->sri", root[chosen], noise) / np.sqrt(scale)[..., None]
        drawn = centre[chosen, np.arange(own.size)] + noise
        for j, column in enumerate(gap):
            out[:, own, column] = drawn[:, :, j]
