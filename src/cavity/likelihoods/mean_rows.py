"""Rows in clusters whose covariances are given: scores by the distribution of their means.

For a row of weight w and scale s against N(m, Sigma / kappa), d columns there,

    p(y) = (2 pi)^(-w d/2) |Sigma|^(-w/2) (1 + s / kappa)^(-d/2) exp(-c delta / 2),
    c = kappa s / (kappa + s),

with delta the distance of the columns that are there in their block of Sigma.
"""

from __future__ import annotations

import math

from cavity._numba.jit import jit, verb
from cavity._numba.numerics import fast_log
from cavity._numba.simd import WIDTH, select, store8
from cavity._numba.slots import Eight, get, put, take, zero
from cavity.conjugate.normal import Factors, MeanParameters, NormalMeans, Tied, length_of
from cavity.likelihoods.scale_mixture_rows import (
    row_accumulate,
    row_distance,
    row_evidence,
    row_evidences,
    row_fill,
    row_fill_given,
    row_observe,
    row_shift,
)

_LOG_2PI = math.log(2.0 * math.pi)


# --------------------------------------------------------------------------- forms of covariance


@verb
def distance(covariance, mean, rows, k, i):
    """Distance of a whole row in slot k, or in eight slots, and half the log determinant."""


@verb
def distance_of_some(covariance, mean, rows, k, i):
    """Distance of what is there of a row in slot k, and half the log determinant of its block.

    What ``fill_rest`` needs is left in ``rows.square``.
    """


@verb
def fill_rest(covariance, mean, rows, k, i, spread, rng):
    """Draw the gaps of a row after ``distance_of_some``, Sigma times spread^2 being that of it."""


@jit(internal=True)
def rest_of(covariance, mean, rows, k, i):
    """``distance_of_some`` as a call."""
    if rows.n_there[i] == rows.y.shape[1]:
        return distance(covariance, mean, rows, k, i)
    return distance_of_some(covariance, mean, rows, k, i)


@distance.register(Tied)
def _(covariance, mean, rows, k, i):
    total = zero(k)
    for r in range(mean.shape[0]):
        s = zero(k)
        for c in range(r + 1):
            s = s + covariance.whiten[r, c] * (rows.y[i, c] - take(k, mean[c]))
        total = total + s * s
    return total, zero(k) + covariance.half_log_det[0]


@distance.register(Factors)
def _(covariance, mean, rows, k, i):
    d = mean.shape[0]
    total = zero(k)
    for c in range(d):
        e = (rows.y[i, c] - take(k, mean[c])) * take(k, covariance.root[c])
        put(k, rows.room[c], e)
        total = total + e * e
    # Sums side by side, of two factors and of even and odd columns: one would wait for itself.
    n_factors = covariance.scaled.shape[0]
    for f in range(0, n_factors, 2):
        first = covariance.project[f]
        second = covariance.project[min(f + 1, n_factors - 1)]
        a, b = zero(k), zero(k)
        p, q = zero(k), zero(k)
        for c in range(0, d - 1, 2):
            even, odd = get(k, rows.room[c]), get(k, rows.room[c + 1])
            a = a + take(k, first[c]) * even
            b = b + take(k, first[c + 1]) * odd
            p = p + take(k, second[c]) * even
            q = q + take(k, second[c + 1]) * odd
        if d % 2 == 1:
            even = get(k, rows.room[d - 1])
            a = a + take(k, first[d - 1]) * even
            p = p + take(k, second[d - 1]) * even
        a = a + b
        p = p + q
        total = total - a * a
        if f + 1 < n_factors:
            total = total - p * p
    return select(total > 0.0, total, 0.0), take(k, covariance.half_log_det)


@distance_of_some.register(Tied)
def _(covariance, mean, rows, k, i):
    # With e nought at the gaps and r = W e: |r|^2 less its part within the columns of W that
    # belong to gaps, which Gram and Schmidt make orthogonal in the rows of `square`. The last
    # two rows hold r and the columns' places.
    d = mean.shape[0]
    square = rows.square
    whitened = square[d]
    total = 0.0
    for r in range(d):
        s = 0.0
        for c in range(r + 1):
            if rows.there[i, c] != 0:
                s += covariance.whiten[r, c] * (rows.y[i, c] - mean[c, k])
        whitened[r] = s
        total += s * s
    half_log_det = covariance.half_log_det[0]
    m = 0
    for at in range(d):
        if rows.there[i, at] != 0:
            continue
        own = square[m]
        for r in range(d):
            own[r] = covariance.whiten[r, at] if r >= at else 0.0
        for b in range(m):
            s = 0.0
            for r in range(d):
                s += own[r] * square[b, r]
            for r in range(d):
                own[r] -= s * square[b, r]
        norm = 0.0
        for r in range(d):
            norm += own[r] * own[r]
        norm = math.sqrt(norm)
        half_log_det += math.log(norm)
        s = 0.0
        for r in range(d):
            own[r] /= norm
            s += own[r] * whitened[r]
        total -= s * s
        m += 1
    return max(total, 0.0), half_log_det


@fill_rest.register(Tied)
def _(covariance, mean, rows, k, i, spread, rng):
    # Within the columns of the gaps the whitened row is standard normal: W_M x = Q t, t the
    # coordinates. Q's rows came from the columns in turn, so that t = R x with R upper triangular
    # and R_ab = Q_a . W_b.
    d = mean.shape[0]
    square = rows.square
    whitened = square[d]
    solved = square[d + 1]
    m = 0
    for at in range(d):
        if rows.there[i, at] == 0:
            s = 0.0
            for r in range(d):
                s += square[m, r] * whitened[r]
            solved[m] = spread * rng.standard_normal() - s
            m += 1
    b = m
    for at in range(d - 1, -1, -1):
        if rows.there[i, at] != 0:
            continue
        b -= 1
        pivot = 0.0
        for r in range(at, d):
            pivot += square[b, r] * covariance.whiten[r, at]
        x = solved[b] / pivot
        for a in range(b):
            s = 0.0
            for r in range(at, d):
                s += square[a, r] * covariance.whiten[r, at]
            solved[a] -= s * x
        rows.y[i, at] = mean[at, k] + x


@distance_of_some.register(Factors)
def _(covariance, mean, rows, k, i):
    # The Cholesky factor of I + A_O'A_O goes to the first rows of `square`, and the solution of
    # it with A_O' e to the row after them.
    n_factors, d, _slots = covariance.scaled.shape
    square = rows.square
    solved = square[n_factors]
    total = 0.0
    half_log_det = 0.0
    for c in range(d):
        if rows.there[i, c] != 0:
            e = covariance.root[c, k] * (rows.y[i, c] - mean[c, k])
            total += e * e
            half_log_det -= math.log(covariance.root[c, k])
    for f in range(n_factors):
        s = 0.0
        for c in range(d):
            if rows.there[i, c] != 0:
                e = covariance.root[c, k] * (rows.y[i, c] - mean[c, k])
                s += covariance.scaled[f, c, k] * e
        for g in range(f + 1):
            inner = 1.0 if f == g else 0.0
            for c in range(d):
                if rows.there[i, c] != 0:
                    inner += covariance.scaled[f, c, k] * covariance.scaled[g, c, k]
            for h in range(g):
                inner -= square[f, h] * square[g, h]
            if f == g:
                square[f, f] = math.sqrt(inner)
            else:
                square[f, g] = inner / square[g, g]
        for h in range(f):
            s -= square[f, h] * solved[h]
        solved[f] = s / square[f, f]
        total -= solved[f] * solved[f]
        half_log_det += math.log(square[f, f])
    return max(total, 0.0), half_log_det


@fill_rest.register(Factors)
def _(covariance, mean, rows, k, i, spread, rng):
    n_factors, d, _slots = covariance.scaled.shape
    square = rows.square
    score = square[n_factors]
    for f in range(n_factors):
        score[f] += spread * rng.standard_normal()
    for f in range(n_factors - 1, -1, -1):
        for h in range(f + 1, n_factors):
            score[f] -= square[h, f] * score[h]
        score[f] /= square[f, f]
    for c in range(d):
        if rows.there[i, c] == 0:
            s = spread * rng.standard_normal()
            for f in range(n_factors):
                s += covariance.scaled[f, c, k] * score[f]
            rows.y[i, c] = mean[c, k] + s / covariance.root[c, k]


# --------------------------------------------------------------------------- rows


@jit(forceinline=True, internal=True)
def _score(q, rows, k, i, delta, half_log_det):
    w, s, d = rows.weight[i], rows.scale[i], rows.n_there[i]
    kappa = take(k, q.kappa)
    value = -0.5 * d * (w * _LOG_2PI + fast_log(1.0 + s / kappa)) - w * half_log_det
    return value - 0.5 * kappa * s / (kappa + s) * delta


@row_evidence.register(NormalMeans)
def _(q, rows, k, i):
    delta, half_log_det = rest_of(q.covariance, q.mean, rows, k, i)
    return _score(q, rows, k, i, delta, half_log_det)


@row_evidences.register(NormalMeans)
def _(q, rows, i, out):
    if rows.n_there[i] < rows.y.shape[1]:
        for k in range(out.shape[0]):
            out[k] = row_evidence(q, rows, k, i)
        return
    for j in range(0, out.shape[0], WIDTH):
        delta, half_log_det = distance(q.covariance, q.mean, rows, Eight(j), i)
        store8(out, j, _score(q, rows, Eight(j), i, delta, half_log_det))


@row_observe.register(NormalMeans)
def _(q, rows, k, i, sign):
    s = sign * rows.scale[i]
    kappa = q.kappa[k] + s
    if not kappa > 0.0:
        return False
    natural = q.natural[k]
    natural[0] = kappa
    q.kappa[k] = kappa
    for c in range(q.mean.shape[0]):
        q.mean[c, k] += s / kappa * (rows.y[i, c] - q.mean[c, k])
        natural[1 + c] = kappa * q.mean[c, k]
    return True


@row_shift.register(NormalMeans)
def _(q, rows, i, old, new):
    # Slots have no sums of squares: what rows are from the origin is in no slot's mass.
    before, half = length_of(q.covariance, old, rows.y[i], q.prior[1:], math.inf)
    after, other = length_of(q.covariance, new, rows.y[i], q.prior[1:], math.inf)
    return 0.5 * rows.scale[i] * (before - after) + rows.weight[i] * (half - other)


@row_accumulate.register(NormalMeans)
def _(q, rows, k, i):
    s = rows.scale[i]
    q.natural[k, 0] += s
    for c in range(q.mean.shape[0]):
        q.natural[k, 1 + c] += s * rows.y[i, c]


@row_fill.register(NormalMeans)
def _(q, rows, k, i, rng):
    rest_of(q.covariance, q.mean, rows, k, i)
    spread = math.sqrt(1.0 / rows.scale[i] + 1.0 / q.kappa[k])
    fill_rest(q.covariance, q.mean, rows, k, i, spread, rng)


@row_fill_given.register(MeanParameters)
def _(parameters, rows, k, i, rng):
    covariance, mean = parameters.covariance, parameters.mean
    rest_of(covariance, mean, rows, k, i)
    fill_rest(covariance, mean, rows, k, i, 1.0 / math.sqrt(rows.scale[i]), rng)


@row_distance.register(MeanParameters)
def _(parameters, rows, k, i):
    return rest_of(parameters.covariance, parameters.mean, rows, k, i)
