"""Rows in clusters whose columns are independent: scores by normal inverse gammas.

For a row of weight w and scale s against NIG(m_j, kappa, nu, psi_j), column by column,

    p(y_j) = pi^(-w/2) (1 + s / kappa)^(-1/2) Gamma((nu + w) / 2) / Gamma(nu / 2)
             * psi_j^(-w/2) (1 + c e_j^2 / psi_j)^(-(nu + w) / 2),   c = kappa s / (kappa + s).
"""

from __future__ import annotations

import math

from cavity._numba.numerics import fast_log, log_gamma
from cavity._numba.slots import take, zero
from cavity.conjugate.nig import DiagonalParameters, NormalInverseGammas
from cavity.conjugate.niw import log_gamma_ratio
from cavity.interface import is_scored
from cavity.likelihoods.scale_mixture_rows import (
    row_accumulate,
    row_distance,
    row_evidence,
    row_fill,
    row_fill_given,
    row_observe,
)

_LOG_PI = math.log(math.pi)


@row_evidence.register(NormalInverseGammas)
def _(q, rows, k, i):
    w, s = rows.weight[i], rows.scale[i]
    kappa, nu, ratio = take(k, q.kappa), take(k, q.nu), take(k, q.log_ratio)
    if w != 1.0:
        ratio = log_gamma(0.5 * (nu + w)) - log_gamma(0.5 * nu)
    weight = kappa * s / (kappa + s)
    logs, log_psi = zero(k), zero(k)
    n_scored = 0
    for c in range(q.mean.shape[0]):
        if rows.there[i, c] != 0 and is_scored(q, c):
            e = rows.y[i, c] - take(k, q.mean[c])
            logs = logs + fast_log(1.0 + weight * e * e / take(k, q.psi[c]))
            log_psi = log_psi + take(k, q.log_psi[c])
            n_scored += 1
    each = ratio - 0.5 * (w * _LOG_PI + fast_log(1.0 + s / kappa))
    return n_scored * each - 0.5 * (nu + w) * logs - 0.5 * w * log_psi


@row_observe.register(NormalInverseGammas)
def _(q, rows, k, i, sign):
    d = q.mean.shape[0]
    s = sign * rows.scale[i]
    kappa = q.kappa[k] + s
    nu = q.nu[k] + sign * rows.weight[i]
    if not (kappa > 0.0 and nu > 0.0):
        return False
    weight = s * q.kappa[k] / kappa
    for c in range(d):
        e = rows.y[i, c] - q.mean[c, k]
        if not q.psi[c, k] + weight * e * e > 0.0:
            return False
    natural = q.natural[k]
    for c in range(d):
        e = rows.y[i, c] - q.mean[c, k]
        q.psi[c, k] += weight * e * e
        q.mean[c, k] += s / kappa * e
        q.log_psi[c, k] = fast_log(q.psi[c, k])
        natural[2 + c] = kappa * q.mean[c, k]
        natural[2 + d + c] = q.psi[c, k] + kappa * q.mean[c, k] * q.mean[c, k]
    natural[0] = kappa
    natural[1] = nu
    q.kappa[k] = kappa
    q.nu[k] = nu
    q.log_ratio[k] = log_gamma_ratio(0.5 * (nu + 1.0), 1)
    return True


@row_accumulate.register(NormalInverseGammas)
def _(q, rows, k, i):
    d = q.mean.shape[0]
    s = rows.scale[i]
    q.natural[k, 0] += s
    q.natural[k, 1] += rows.weight[i]
    for c in range(d):
        weighted = s * rows.y[i, c]
        q.natural[k, 2 + c] += weighted
        q.natural[k, 2 + d + c] += weighted * rows.y[i, c]


@row_fill.register(NormalInverseGammas)
def _(q, rows, k, i, rng):
    spread = 1.0 / rows.scale[i] + 1.0 / q.kappa[k]
    # A cell of a column that is not scored depends on no label, and is not drawn with it.
    for c in range(q.mean.shape[0]):
        if rows.there[i, c] == 0 and is_scored(q, c):
            variance = 0.5 * q.psi[c, k] / rng.standard_gamma(0.5 * q.nu[k])
            rows.y[i, c] = q.mean[c, k] + math.sqrt(spread * variance) * rng.standard_normal()


@row_fill_given.register(DiagonalParameters)
def _(parameters, rows, k, i, rng):
    for c in range(rows.y.shape[1]):
        if rows.there[i, c] == 0:
            noise = rng.standard_normal() * math.sqrt(parameters.variance[c, k] / rows.scale[i])
            rows.y[i, c] = parameters.mean[c, k] + noise


@row_distance.register(DiagonalParameters)
def _(parameters, rows, k, i):
    delta = 0.0
    half_log_det = 0.0
    for c in range(rows.y.shape[1]):
        if rows.there[i, c] != 0:
            e = rows.y[i, c] - parameters.mean[c, k]
            delta += e * e / parameters.variance[c, k]
            half_log_det += 0.5 * math.log(parameters.variance[c, k])
    return delta, half_log_det
