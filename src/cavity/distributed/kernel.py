"""One block of rows: labels and scales given drawn parameters, and what they sum to.

A row has measurements, codes of categories and counts, any of which may be none; a category or a
count that is missing says nothing and adds nothing. Eight rows go side by side through all
clusters. A row's label is drawn with its scale variable integrated out (the Student-t density in
closed form), then the scale given the label; the block leaves sums only: the sufficient statistics
of every cluster and log densities.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from cavity._numba.jit import jit
from cavity._numba.numerics import fast_exp, fast_log
from cavity._numba.simd import WIDTH, load8, select, splat8, store8
from cavity.likelihoods.gaussian import log_norms

# Degrees of freedom that are tried at once.
GRID_SIZE = WIDTH
# Sums beside the clusters': log density with labels summed out, and rows that no cluster gives a
# finite density.
N_TOTALS = 2


class Columns(NamedTuple):
    """Rows, column by column, the last eight of them padding."""

    y: np.ndarray  # (d, n + 8), measurements
    cells: np.ndarray  # (codes, n + 8), place among all columns' categories; -1 where missing
    counts: np.ndarray  # (counts, n + 8), negative where missing


class Components(NamedTuple):
    """The clusters that rows may go to, as drawn: weights, locations, whiteners, shares, rates."""

    constant: np.ndarray  # (K,), log weight and the density's constant
    log_weight: np.ndarray  # (K,)
    mean: np.ndarray  # (K, d)
    whiten: np.ndarray  # (K, d (d + 1) / 2), rows of the lower triangle
    alpha: np.ndarray  # (K,), half the degrees of freedom; infinite for a Gaussian
    log_share: np.ndarray  # (K, categories)
    rate: np.ndarray  # (K, counts)
    log_rate: np.ndarray  # (K, counts)


class Scratch(NamedTuple):
    """What a kernel scribbles on."""

    residual: np.ndarray  # (d, 8)
    score: np.ndarray  # (K, 8)
    distance: np.ndarray  # (K, 8)
    mass: np.ndarray  # (K, 8), summed over the clusters so far
    lanes: np.ndarray  # (5, 8)


def scratch_for(n_components: int, d: int) -> Scratch:
    """Scratch for so many clusters and columns."""
    score, distance, mass = (np.zeros((n_components, WIDTH)) for _ in range(3))
    return Scratch(np.zeros((d, WIDTH)), score, distance, mass, np.zeros((5, WIDTH)))


def components_of(
    weight: np.ndarray,
    mean: np.ndarray,
    whiten: np.ndarray,
    half_log_det: np.ndarray,
    alpha: np.ndarray,
    log_share: np.ndarray | None = None,
    log_rate: np.ndarray | None = None,
) -> Components:
    """Clusters ready for the kernel.

    Parameters
    ----------
    weight : array of shape (K,)
    mean, whiten : arrays of shape (K, d) and (K, d, d)
        Sigma^-1 = B'B with B lower triangular.
    half_log_det : array of shape (K,)
        Half the log determinant of Sigma.
    alpha : array of shape (K,)
        Half the degrees of freedom; infinite for Gaussian clusters.
    log_share, log_rate : arrays of shape (K, categories) and (K, counts), optional
    """
    d = mean.shape[1]
    none = np.zeros((len(weight), 0))
    log_share = none if log_share is None else log_share
    log_rate = none if log_rate is None else log_rate
    with np.errstate(divide="ignore"):
        log_weight = np.log(weight)
    rows, columns = np.tril_indices(d)
    return Components(
        log_weight + log_norms(alpha, d) - half_log_det,
        log_weight,
        np.ascontiguousarray(mean),
        np.ascontiguousarray(whiten[:, rows, columns]),
        np.array(alpha, dtype=float),
        np.ascontiguousarray(log_share),
        np.exp(log_rate),
        np.ascontiguousarray(log_rate),
    )


@jit
def draw_block(
    columns, first, last, components, inverse_df, labels, sums, totals, tails, scratch, rng
):
    """Draw labels and scales of the rows from `first` to `last`, and add up what they give.

    Parameters
    ----------
    columns : Columns
    first, last : int
    components : Components
    inverse_df : array of shape (K, 8), (1, 8) or (0, 8)
        One over degrees of freedom to try: of each cluster, of all, or none.
    labels : array of int, of at least ``last - first``
    sums : array of shape (K, P)
        Scales, rows, then first and second moments with the scales for weights; then rows in
        every category; then of each count its sum and the rows that have it.
    totals : array of shape (2,)
    tails : array like inverse_df
        Sum of log(1 + distance / df) over the rows of each cluster, or of all.
    scratch : Scratch
    rng : numpy.random.Generator
    """
    y, cells, counts = columns.y, columns.cells, columns.counts
    d, n_codes, n_counts = y.shape[0], cells.shape[0], counts.shape[0]
    n_shares = components.log_share.shape[1]
    half = 0.5 * d
    n_components = components.constant.shape[0]
    n_grids = inverse_df.shape[0]
    for i in range(first, last, WIDTH):
        top = splat8(-math.inf)
        for k in range(n_components):
            for c in range(d):
                store8(scratch.residual[c], 0, load8(y[c], i) - components.mean[k, c])
            delta = splat8(0.0)
            at = 0
            for r in range(d):
                s = load8(scratch.residual[0], 0) * components.whiten[k, at]
                for c in range(1, r + 1):
                    s = s + load8(scratch.residual[c], 0) * components.whiten[k, at + c]
                at += r + 1
                delta = delta + s * s
            a = components.alpha[k]
            if a < math.inf:
                score = components.constant[k] - (a + half) * fast_log(1.0 + delta * (0.5 / a))
            else:
                score = components.constant[k] - 0.5 * delta
            if n_codes > 0:
                for lane in range(WIDTH):
                    scratch.lanes[4, lane] = 0.0
                for c in range(n_codes):
                    for lane in range(WIDTH):
                        p = cells[c, i + lane]
                        if p >= 0:
                            scratch.lanes[4, lane] += components.log_share[k, p]
                score = score + load8(scratch.lanes[4], 0)
            for c in range(n_counts):
                count = load8(counts[c], i)
                said = count * components.log_rate[k, c] - components.rate[k, c]
                score = score + select(count < 0.0, splat8(0.0), said)
            store8(scratch.score[k], 0, score)
            store8(scratch.distance[k], 0, delta)
            top = select(score > top, score, top)
        mass = splat8(0.0)
        for k in range(n_components):
            mass = mass + fast_exp(load8(scratch.score[k], 0) - top)
            store8(scratch.mass[k], 0, mass)
        n_here = min(last - i, WIDTH)
        for lane in range(n_here):
            scratch.lanes[0, lane] = rng.random()
        target = load8(scratch.lanes[0], 0) * mass
        label = splat8(n_components - 1.0)
        distance = load8(scratch.distance[n_components - 1], 0)
        for k in range(n_components - 2, -1, -1):
            reached = load8(scratch.mass[k], 0) > target
            label = select(reached, k * 1.0, label)
            distance = select(reached, load8(scratch.distance[k], 0), distance)
        store8(scratch.lanes[1], 0, label)
        store8(scratch.lanes[2], 0, distance)
        store8(scratch.lanes[3], 0, top + fast_log(mass))
        for lane in range(n_here):
            if not scratch.lanes[3, lane] > -math.inf:
                totals[1] += 1.0
                labels[i - first + lane] = 0
                continue
            k = int(scratch.lanes[1, lane])
            labels[i - first + lane] = k
            totals[0] += scratch.lanes[3, lane]
            u = 1.0
            a = components.alpha[k]
            if a < math.inf:
                u = rng.standard_gamma(a + half) / (a + 0.5 * scratch.lanes[2, lane])
            own = sums[k]
            own[0] += u
            own[1] += 1.0
            at = 2 + d
            for r in range(d):
                weighted = u * y[r, i + lane]
                own[2 + r] += weighted
                for c in range(r + 1):
                    own[at] += weighted * y[c, i + lane]
                    at += 1
            for c in range(n_codes):
                p = cells[c, i + lane]
                if p >= 0:
                    own[at + p] += 1.0
            at += n_shares
            for c in range(n_counts):
                if counts[c, i + lane] >= 0.0:
                    own[at + 2 * c] += counts[c, i + lane]
                    own[at + 2 * c + 1] += 1.0
            if n_grids > 0:
                j = k if n_grids > 1 else 0
                more = fast_log(1.0 + scratch.lanes[2, lane] * load8(inverse_df[j], 0))
                store8(tails[j], 0, load8(tails[j], 0) + more)
