"""Scores of rows with gaps or weights, by the likelihood that they are rows of.

For a row of weight w with d columns there, m missing, against a slot NIW(m, kappa, nu, Psi): with
delta the distance of the columns that are there, Psi_O their block, n1 = nu - m + w and a scale s,

    p(y | s) = (s^w / pi^w)^(d/2) * (1 + s / kappa)^(-d/2) * Gamma_d(n1 / 2) / Gamma_d((nu - m) / 2)
               * |Psi_O|^(-w/2) * (1 + c(s) delta)^(-n1/2),   c(s) = kappa s / (kappa + s).

s is w for Gaussian rows, without the power of s. For Student-t rows it is the sum of w scales; what
is left of these, given s, is a Dirichlet distribution, whose normaliser belongs to the constant.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from cavity._numba.jit import jit
from cavity._numba.numerics import fast_log
from cavity._numba.simd import WIDTH, load8, splat8, store8
from cavity.conjugate.marginal import (
    fill_gaps,
    log_gamma_steps8,
    log_multigamma_gain,
    reduce_eight,
    reduce_slot,
    reduction_room,
)
from cavity.conjugate.niw import log_gamma_ratio, mahalanobis, mahalanobis8
from cavity.interface import (
    evidences,
    log_likelihood,
    part_bounds,
    part_complete,
    part_evidence,
    part_evidences,
    part_log_densities,
    part_log_density,
    part_pick,
    part_settle,
    part_visit,
)
from cavity.likelihoods.rows import NO_NOISE, RowKinds, UnevenRows
from cavity.likelihoods.sampled_student_t import (
    MarginalStudentT,
    SampledStudentT,
    draw_scale_of_shape,
)
from cavity.likelihoods.scale_integral import (
    BOUND,
    LOG_ALPHA,
    N_CONSTANTS,
    REACH,
    SCORE_TOLERANCE,
    SHAPE,
    TAIL,
    bounds_of_integral,
    log_integral,
    set_rule,
)
from cavity.likelihoods.scaled_gaussian import ScaledGaussian
from cavity.likelihoods.selection import draw_by_bounds, draw_from_scores

_LOG_PI = math.log(math.pi)
_LOG_2PI = math.log(2.0 * math.pi)


def uneven_rows(base: Any, kinds: RowKinds, noise_slot: int = NO_NOISE) -> UnevenRows:
    """A likelihood's rows with what is known of each; the `y` of `base` must be the chain's own."""
    d = base.y.shape[1]
    # Gaussian rows of weight w have a scale of w; others start as plain ones do, w times.
    base.scale[:] *= kinds.weight
    n_kinds = kinds.n_there.size
    model = UnevenRows(
        base=base,
        **kinds._asdict(),
        rule=np.zeros((n_kinds, N_CONSTANTS, base.alpha.size)),
        constant=np.zeros((n_kinds, base.alpha.size)),
        noise_slot=np.array([noise_slot], dtype=np.int64),
        room=reduction_room(d, int(np.diff(kinds.start).max(initial=0))),
    )
    follow_tails(model)
    return model


@jit(internal=True)
def take_gaps(rows, i):
    """Put the columns that row i lacks into the room; how many they are."""
    first = rows.start[i]
    m = rows.start[i + 1] - first
    for a in range(m):
        rows.room.columns[a] = rows.gaps[first + a]
    return m


@jit(internal=True)
def distance_of_rest(rows, q, k, i, m):
    """Distance of what is there of row i in slot k, and half the log determinant gained."""
    if m == 0:
        return mahalanobis(q, k, rows.base.y[i]), 0.0
    return reduce_slot(q.whiten[:, :, k], q.mean[:, k], rows.base.y[i], rows.room, m)


@jit(forceinline=True, internal=True)
def distance_of_rest8(rows, q, j, i, m):
    """``distance_of_rest`` for the eight slots from j on."""
    if m == 0:
        return mahalanobis8(q, j, rows.base.y[i], rows.base.residual), splat8(0.0)
    return reduce_eight(q, j, rows.base.y[i], rows.room, m)


@jit(internal=True)
def log_ratio_of_rest(q, k, m, w):
    """Log of Gamma_d(n1 / 2) / Gamma_d((nu - m) / 2), for the columns that are there."""
    if w == 1.0:
        return q.log_ratio[k] - log_gamma_ratio(0.5 * (q.nu[k] + 1.0), m)
    d = q.mean.shape[0] - m
    return log_multigamma_gain(0.5 * (q.nu[k] - m), 0.5 * w, d)


@jit(internal=True)
def _fill(rows, q, k, i, m, delta, s, rng):
    """Draw the gaps of row i in slot k, whose parameters are integrated out, given its scale."""
    freedom = 2.0 * rng.standard_gamma(0.5 * (q.nu[k] + 1.0 - m))
    spread = math.sqrt((1.0 / s + 1.0 / q.kappa[k] + delta) / freedom)
    fill_gaps(rows.base.y[i], q.mean[:, k], spread, rows.room, m, rng)


# --------------------------------------------------------------------------- known scales


@part_evidence.register(ScaledGaussian)
def _(base, rows, q, k, i):
    m = take_gaps(rows, i)
    w = rows.weight[i]
    d = base.y.shape[1] - m
    s, power = w, 0.0
    if base.alpha[k] < math.inf:
        s, power = base.scales[k], w * d
    kappa = q.kappa[k]
    delta, half_log_det = distance_of_rest(rows, q, k, i, m)
    return (
        rows.constant[rows.kind[i], k]
        + 0.5 * (power * math.log(s) - w * d * _LOG_PI - d * math.log1p(s / kappa))
        + log_ratio_of_rest(q, k, m, w)
        - w * (q.half_log_det[k] + half_log_det)
        - 0.5 * (q.nu[k] - m + w) * math.log1p(s * kappa / (kappa + s) * delta)
    )


@part_evidences.register(ScaledGaussian)
def _(base, rows, q, i, out):
    m = take_gaps(rows, i)
    w = rows.weight[i]
    d = base.y.shape[1] - m
    if w != 1.0:
        for k in range(out.shape[0]):
            out[k] = part_evidence(base, rows, q, np.int64(k), i)
        return
    for j in range(0, out.shape[0], WIDTH):
        delta, half_log_det = distance_of_rest8(rows, q, j, i, m)
        s = load8(base.scales, j)
        kappa = load8(q.kappa, j)
        c = s * kappa / (kappa + s)
        n1 = load8(q.nu, j) + 1.0
        score = load8(q.log_ratio, j) - log_gamma_steps8(0.5 * n1, m)
        score = score - load8(q.half_log_det, j) - half_log_det
        score = score + 0.5 * d * (fast_log(c) - _LOG_PI)
        store8(out, j, score - 0.5 * (n1 - m) * fast_log(1.0 + c * delta))


@part_pick.register(ScaledGaussian)
def _(base, rows, q, i, weights, scores, mass, visited, rng):
    evidences(rows, q, i, scores)
    return draw_from_scores(weights, scores, mass, rng)


@part_visit.register(ScaledGaussian)
def _(base, rows, i, k, rng):
    w = rows.weight[i]
    for j in range(base.alpha.shape[0]):
        if base.alpha[j] < math.inf:
            base.scales[j] = rng.standard_gamma(w * base.alpha[j]) / base.alpha[j]
    if base.alpha[k] < math.inf:
        base.scales[k] = base.scale[i]


@part_settle.register(ScaledGaussian)
def _(base, rows, i, k):
    # The scale of a Gaussian row is its weight, and stays.
    if base.alpha[k] < math.inf:
        base.scale[i] = base.scales[k]


@part_complete.register(ScaledGaussian)
def _(base, rows, q, k, i, rng):
    m = take_gaps(rows, i)
    if m > 0:
        delta, _half = distance_of_rest(rows, q, k, i, m)
        _fill(rows, q, k, i, m, delta, base.scales[k], rng)


@part_log_density.register(ScaledGaussian)
def _(base, rows, parameters, k, i):
    m = take_gaps(rows, i)
    w = rows.weight[i]
    delta, half_log_det = distance_of_rest(rows, parameters, k, i, m)
    d = base.y.shape[1] - m
    return -w * (0.5 * (d * _LOG_2PI + delta) + parameters.half_log_det[k] + half_log_det)


@part_log_densities.register(ScaledGaussian)
def _(base, rows, parameters, i, out):
    m = take_gaps(rows, i)
    w = rows.weight[i]
    d = base.y.shape[1] - m
    for j in range(0, out.shape[0], WIDTH):
        delta, half_log_det = distance_of_rest8(rows, parameters, j, i, m)
        score = 0.5 * (delta + d * _LOG_2PI) + load8(parameters.half_log_det, j) + half_log_det
        store8(out, j, -w * score)


# --------------------------------------------------------------------------- sampled scales


@part_evidence.register(SampledStudentT)
def _(base, rows, q, k, i):
    m = take_gaps(rows, i)
    w = rows.weight[i]
    d = base.y.shape[1] - m
    kind = rows.kind[i]
    delta, half_log_det = distance_of_rest(rows, q, k, i, m)
    constant = log_ratio_of_rest(q, k, m, w) - w * (q.half_log_det[k] + half_log_det)
    # Gauss' nodes of every kind of row would take longer to make than they save.
    value = log_integral(
        rows.rule[kind],
        rows.constant[:, :0],
        k,
        base.alpha[k],
        1.0 / q.kappa[k],
        delta,
        q.nu[k] - m + w,
        d,
    )
    return constant + rows.constant[kind, k] + value


@part_bounds.register(SampledStudentT)
def _(base, rows, q, i, most, least):
    # Only of rows of weight one.
    m = take_gaps(rows, i)
    d = base.y.shape[1] - m
    rule = rows.rule[rows.kind[i]]
    for j in range(0, most.shape[0], WIDTH):
        delta, half_log_det = distance_of_rest8(rows, q, j, i, m)
        n1 = load8(q.nu, j) + 1.0
        above, below = bounds_of_integral(
            load8(most, j),
            delta,
            load8(q.kappa, j),
            load8(base.alpha, j),
            n1 - m,
            d,
            load8(rule[SHAPE], j),
            load8(rule[LOG_ALPHA], j),
        )
        constant = load8(q.log_ratio, j) - log_gamma_steps8(0.5 * n1, m) + load8(rule[BOUND], j)
        constant = constant - load8(q.half_log_det, j) - half_log_det
        store8(most, j, constant + above)
        store8(least, j, constant - below)


@part_pick.register(SampledStudentT)
def _(base, rows, q, i, weights, scores, mass, visited, rng):
    return draw_by_bounds(rows, q, i, weights, scores, mass, visited, rng)


@part_complete.register(SampledStudentT)
def _(base, rows, q, k, i, rng):
    m = take_gaps(rows, i)
    w = rows.weight[i]
    d = base.y.shape[1] - m
    delta, _half = distance_of_rest(rows, q, k, i, m)
    alpha = base.alpha[k]
    shape = w * (alpha + 0.5 * d)
    n1 = q.nu[k] - m + w
    rule = rows.rule[rows.kind[i]]
    reach, tail = rule[REACH, k], rule[TAIL, k]
    base.scale[i] = draw_scale_of_shape(alpha, shape, d, q.kappa[k], n1, delta, reach, tail, rng)
    if m > 0:
        _fill(rows, q, k, i, m, delta, base.scale[i], rng)


# --------------------------------------------------------------------------- given parameters


@part_log_density.register(MarginalStudentT)
def _(base, rows, parameters, k, i):
    m = take_gaps(rows, i)
    delta, half_log_det = distance_of_rest(rows, parameters, k, i, m)
    a = base.alpha[k]
    half = 0.5 * (base.y.shape[1] - m)
    score = rows.constant[rows.kind[i], k] - (a + half) * math.log1p(0.5 * delta / a)
    return rows.weight[i] * (score - parameters.half_log_det[k] - half_log_det)


@part_log_densities.register(MarginalStudentT)
def _(base, rows, parameters, i, out):
    m = take_gaps(rows, i)
    half = 0.5 * (base.y.shape[1] - m)
    constant = rows.constant[rows.kind[i]]
    for j in range(0, out.shape[0], WIDTH):
        delta, half_log_det = distance_of_rest8(rows, parameters, j, i, m)
        a = load8(base.alpha, j)
        tail = (a + half) * fast_log(1.0 + 0.5 * delta / a)
        score = load8(constant, j) - load8(parameters.half_log_det, j) - half_log_det - tail
        store8(out, j, rows.weight[i] * score)


@log_likelihood.register(UnevenRows)
def _(rows, parameters, z):
    base = rows.base
    total = 0.0
    for i in range(z.shape[0]):
        k = np.int64(z[i])
        if k == rows.noise_slot[0]:
            total += rows.log_noise[i]
            continue
        m = take_gaps(rows, i)
        d = base.y.shape[1] - m
        delta, half_log_det = distance_of_rest(rows, parameters, k, i, m)
        a = base.alpha[k]
        score = -parameters.half_log_det[k] - half_log_det
        if a < math.inf:
            score += math.lgamma(a + 0.5 * d) - math.lgamma(a)
            score -= 0.5 * d * (math.log(2.0 * a) + _LOG_PI)
            score -= (a + 0.5 * d) * math.log1p(0.5 * delta / a)
        else:
            score -= 0.5 * (d * _LOG_2PI + delta)
        total += rows.weight[i] * score
    return total


def fill_all_gaps(rows, parameters, z, rng):
    """Draw all gaps, and the scales of the rows that have some, given the clusters' parameters."""
    base = rows.base
    for i in range(z.shape[0]):
        m = take_gaps(rows, i)
        k = np.int64(z[i])
        if m == 0:
            continue
        if k == rows.noise_slot[0]:
            for a in range(m):
                c = rows.room.columns[a]
                base.y[i, c] = rows.box[0, c] + rows.box[1, c] * rng.random()
            continue
        delta, _half = distance_of_rest(rows, parameters, k, i, m)
        a = base.alpha[k]
        if a < math.inf:
            shape = a + 0.5 * (base.y.shape[1] - m)
            base.scale[i] = rng.standard_gamma(shape) / (a + 0.5 * delta)
        spread = 1.0 / math.sqrt(base.scale[i])
        fill_gaps(base.y[i], parameters.mean[:, k], spread, rows.room, m, rng)


# --------------------------------------------------------------------------- degrees of freedom


@jit
def _rules(alpha, n_there, weight_of, rule, constant, no_grid):
    for kind in range(1, n_there.shape[0]):
        d, w = n_there[kind], weight_of[kind]
        set_rule(alpha, d, w, SCORE_TOLERANCE, rule[kind], no_grid)
        for k in range(alpha.shape[0]):
            a = alpha[k]
            one = a * math.log(a) - math.lgamma(a) - 0.5 * d * _LOG_PI
            shape = a + 0.5 * d
            constant[kind, k] = (w - 1.0) * one + w * math.lgamma(shape) - math.lgamma(w * shape)


@jit
def _constants(alpha, n_there, weight_of, of_density, constant):
    for kind in range(1, n_there.shape[0]):
        half, w = 0.5 * n_there[kind], weight_of[kind]
        for k in range(alpha.shape[0]):
            a = alpha[k]
            if of_density:
                value = math.lgamma(a + half) - math.lgamma(a)
                constant[kind, k] = value - half * (math.log(2.0 * a) + _LOG_PI)
            elif a < math.inf:
                value = w * (math.lgamma(a + half) - math.lgamma(a))
                constant[kind, k] = value + math.lgamma(w * a) - math.lgamma(w * (a + half))


def follow_tails(rows: UnevenRows) -> None:
    """Bring in line what is kept ready for the degrees of freedom."""
    base: Any = rows.base
    kinds = rows.n_there, rows.weight_of
    if isinstance(base, SampledStudentT):
        _rules(base.alpha, *kinds, rows.rule, rows.constant, np.empty((base.alpha.size, 0)))
    else:
        _constants(base.alpha, *kinds, isinstance(base, MarginalStudentT), rows.constant)
