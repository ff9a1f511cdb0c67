"""Approximate information of a series about its cluster's factor: one number per frequency.

Given a and the variances, the information J of a completely observed series is nearly diagonal in
the cosines of the DCT-IV, whatever its a: its inverse is tridiagonal with constant diagonals but
for the ends. A *site* is the diagonal Gaussian in these coordinates that has the moments of the
series' likelihood times N(0, v I), divided by the latter. It depends on the series' own data and
parameters alone; a cluster is the prior times the sites of its members, and sites multiply in any
order. So the cluster's score for a series is a function of who its other members are, as a proposal
must be whose acceptance is exact (`cavity.series.corrected`).
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from cavity._numba.arrays import declare
from cavity._numba.jit import jit, wide_vectors
from cavity._numba.simd import WIDTH, load8, splat8, store8, whole_vectors
from cavity.interface import complete, evidence
from cavity.series.cluster_information import describe_against
from cavity.series.likelihood import both_signs, sign_pull
from cavity.series.state_space import DIAGONAL, PHI, SLOPE, FactorSeries

# Variance of the factor against which a site has the right moments: between the prior's, 1, and
# that of a factor which many series have shown. Measured: docs/series.md.
REFERENCE = 0.3


class SpectralSeries(NamedTuple):
    """The series with their sites, as moves of many labels and the scan's proposals see them."""

    series: FactorSeries
    basis: np.ndarray  # (T, padded T) cosines, a frequency per column
    sites: np.ndarray  # (n, 2 T) precisions, then shifts, by frequency
    most: np.ndarray  # (n,) largest precision of a site


declare(SpectralSeries, slots={}, constant=("basis", "sites", "most"))


def spectral_series(series: FactorSeries) -> SpectralSeries:
    """Series whose sites are still to be found."""
    n, n_times = series.cells.y.shape
    return SpectralSeries(series, cosines(n_times), np.zeros((n, 2 * n_times)), np.zeros(n))


def cosines(n_times: int) -> np.ndarray:
    """Orthonormal cosines of the DCT-IV, a frequency per column, in whole vectors of columns."""
    half = np.arange(n_times) + 0.5
    out = np.zeros((n_times, whole_vectors(n_times)))
    out[:, :n_times] = math.sqrt(2.0 / n_times) * np.cos(np.pi / n_times * np.outer(half, half))
    return out


@jit
def find_site(m, i):
    """Fill the site of series i from its data and parameters.

    With M the information matrix of a filter whose process variance has v loading^2 added, and r
    its smoothed disturbances, the posterior of the factor under N(0, v I) has covariance
    v I - v^2 M and mean v r: the site's precision is M_ff / (1 - v M_ff), its shift r_f over the
    same.
    """
    wide_vectors()
    row = m.series.scratch.row
    describe_against(m.series, row, i, REFERENCE)
    phi = row[PHI]
    diagonal = row[DIAGONAL]
    slope = row[SLOPE]
    n_times, stride = m.basis.shape
    flat = m.basis.reshape(m.basis.size)
    site = m.sites[i]
    b = m.series.own.loading[i]
    # 1 - v M_ff is at least what it is when nothing but the factor's share is unknown.
    least = m.series.own.var_x[0] / (m.series.own.var_x[0] + b * b * REFERENCE)
    room = m.series.scratch.lanes.reshape(m.series.scratch.lanes.size)
    most = 0.0
    for f in range(0, n_times, WIDTH):
        before = splat8(0.0)
        matrix = splat8(0.0)
        shift = splat8(0.0)
        for t in range(n_times):
            here = load8(flat, t * stride + f)
            matrix = matrix + splat8(diagonal[t]) * here * (here + 2.0 * before)
            shift = shift + splat8(slope[t]) * here
            before = splat8(phi[t]) * (before + here)
        store8(room, 0, matrix)
        store8(room, WIDTH, shift)
        for j in range(min(WIDTH, n_times - f)):
            known = max(room[j], 0.0)
            left = max(1.0 - REFERENCE * known, least)
            site[f + j] = known / left
            site[n_times + f + j] = room[WIDTH + j] / left
            most = max(most, site[f + j])
    m.most[i] = most


@jit(internal=True)
def turn_series(m, i):
    """Turn the sign of series i's loading, and its site with it."""
    m.series.own.loading[i] = -m.series.own.loading[i]
    n_times = m.basis.shape[0]
    for f in range(n_times, 2 * n_times):
        m.sites[i, f] = -m.sites[i, f]


@jit(internal=True)
def _log_each(n_terms, most):
    """Return how many factors 1 + precision may be multiplied before taking the logarithm."""
    growth = math.log1p(most)
    return n_terms if growth * n_terms < 600.0 else max(1, int(600.0 / growth))


@jit(internal=True)
def score_slots(m, q, i, out):
    """Log evidence of series i's site in every slot, and with the loading turned.

    With mean mu and variance v of the slot and the site's precision d and shift h, by frequency,
    half of the sum of (v h^2 - d mu^2 + 2 h mu) / (1 + d v) - log(1 + d v).
    """
    wide_vectors()
    site = m.sites[i]
    n_times, slots = q.mean.shape
    means = q.mean.reshape(q.mean.size)
    variances = q.variance.reshape(q.variance.size)
    room = m.series.scratch.lanes.reshape(m.series.scratch.lanes.size)
    length = _log_each(n_times, m.most[i])
    used = -(-out.shape[1] // WIDTH) * WIDTH
    for k in range(0, used, WIDTH):
        for j in range(WIDTH):
            room[2 * WIDTH + j] = 0.0
        even = splat8(0.0)
        odd = splat8(0.0)
        for start in range(0, n_times, length):
            product = splat8(1.0)
            for f in range(start, min(start + length, n_times)):
                d = splat8(site[f])
                h = splat8(site[n_times + f])
                mean = load8(means, f * slots + k)
                variance = load8(variances, f * slots + k)
                here = 1.0 + d * variance
                inverse = splat8(1.0) / here
                product = product * here
                even = even + (h * h * variance - d * mean * mean) * inverse
                odd = odd + h * mean * inverse
            store8(room, 0, product)
            for j in range(WIDTH):
                room[2 * WIDTH + j] += math.log(room[j])
        store8(room, 0, even)
        store8(room, WIDTH, odd)
        for j in range(min(WIDTH, out.shape[1] - k)):
            common = 0.5 * (room[j] - room[2 * WIDTH + j])
            out[0, k + j] = common + room[WIDTH + j]
            out[1, k + j] = common - room[WIDTH + j]


@jit
def score_slot(m, q, k, i, inside):
    """The same of one slot; `inside`: the series is a member, and is scored by the others."""
    n_times = m.basis.shape[0]
    natural = q.natural[k]
    site = m.sites[i]
    away = 1.0 if inside else 0.0
    even = 0.0
    odd = 0.0
    log_det = 0.0
    product = 1.0
    for f in range(n_times):
        d = site[f]
        h = site[n_times + f]
        p = natural[f] - away * d
        pull = natural[n_times + f] - away * h
        more = p + d
        inverse = 1.0 / (p * more)
        even += (h * h * p - pull * pull * d) * inverse
        odd += h * pull * p * inverse
        product *= more * more * inverse
        if product > 1e200:
            log_det += math.log(product)
            product = 1.0
    common = 0.5 * (even - log_det - math.log(product))
    return common + odd, common - odd


@evidence.register(SpectralSeries)
def _(model, q, k, i):
    here, turned = score_slot(model, q, k, i, False)
    return both_signs(model.series, i, here, turned)


@complete.register(SpectralSeries)
def _(model, q, k, i, rng):
    if model.series.own.free_signs:
        here, turned = score_slot(model, q, k, i, False)
        ratio = math.exp(min(here - turned + 2.0 * sign_pull(model.series, i), 700.0))
        if rng.random() * (1.0 + ratio) < 1.0:
            turn_series(model, i)
