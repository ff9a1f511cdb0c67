"""Gaussian observations with a known scale each: y_i ~ N(mean_k, Sigma_k / u_ik).

With every scale at one this is the Gaussian mixture. With scales drawn from Gamma(df/2, df/2) it
is the Student-t mixture conditioned on its scale variables, as the naive and the blocked sampler
see it. The scale u_ik of an observation in a cluster that is not its own has its prior for
conditional distribution, whatever the rest; so it is drawn afresh when the observation is
visited, and only the scale in the present cluster is stored.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from cavity._numba.arrays import declare
from cavity._numba.jit import jit
from cavity._numba.numerics import fast_log
from cavity._numba.simd import WIDTH, load8, require_whole, store8
from cavity.conjugate.niw import (
    add_row,
    add_statistics,
    mahalanobis,
    mahalanobis8,
)
from cavity.interface import (
    accumulate,
    evidence,
    evidences,
    log_densities,
    log_density,
    log_likelihood,
    observe,
    settle,
    visit,
)

_LOG_PI = math.log(math.pi)
_LOG_2PI = math.log(2.0 * math.pi)


class ScaledGaussian(NamedTuple):
    """Data, and the scale variables of the present assignments."""

    y: np.ndarray  # (n, d)
    alpha: np.ndarray  # (slots,), half the degrees of freedom; infinite for Gaussian data
    scale: np.ndarray  # (n,), u_i in the present cluster
    scales: np.ndarray  # (slots,), u_ik of the observation being visited
    residual: np.ndarray  # (d, 8)


declare(ScaledGaussian, slots={"alpha": 0, "scales": 0}, constant=("y",))


def first_scales(y: np.ndarray, alpha: float) -> np.ndarray:
    """Where the scales of standardised rows start: at one, but for those far out.

    A row that lies far out would otherwise make its first cluster so wide that all others leave it.

    Examples
    --------
    >>> first_scales(np.array([[0.5], [1e3]]), 2.0).round(6).tolist()
    [1.0, 5e-06]
    """
    if np.isinf(alpha):
        return np.ones(len(y))
    with np.errstate(over="ignore"):
        far = np.square(y).sum(axis=1)
    scales = (2.0 * alpha + y.shape[1]) / (2.0 * alpha + far)
    return np.clip(scales, 1e-280, 1.0)


def scaled_gaussian(y: np.ndarray, alpha: np.ndarray) -> ScaledGaussian:
    """Model with its first scales; alpha has a multiple of eight slots."""
    d = y.shape[1]
    n_slots = alpha.size
    require_whole(n_slots)
    return ScaledGaussian(
        y,
        np.array(alpha, dtype=float),
        first_scales(y, float(alpha[0])),
        np.ones(n_slots),
        np.zeros((d, WIDTH)),
    )


@visit.register(ScaledGaussian)
def _(model, i, k, rng):
    for j in range(model.alpha.shape[0]):
        if model.alpha[j] < math.inf:
            model.scales[j] = rng.standard_gamma(model.alpha[j]) / model.alpha[j]
    model.scales[k] = model.scale[i]


@settle.register(ScaledGaussian)
def _(model, i, k):
    model.scale[i] = model.scales[k]


@evidence.register(ScaledGaussian)
def _(model, q, k, i):
    d = model.y.shape[1]
    u = model.scales[k]
    kappa = q.kappa[k]
    shrink = kappa / (kappa + u)
    delta = mahalanobis(q, k, model.y[i])
    return (
        0.5 * d * (math.log(u * shrink) - _LOG_PI)
        + q.log_ratio[k]
        - q.half_log_det[k]
        - 0.5 * (q.nu[k] + 1.0) * math.log1p(u * shrink * delta)
    )


@evidences.register(ScaledGaussian)
def _(model, q, i, out):
    d = model.y.shape[1]
    for j in range(0, out.shape[0], WIDTH):
        delta = mahalanobis8(q, j, model.y[i], model.residual)
        u = load8(model.scales, j)
        kappa = load8(q.kappa, j)
        c = u * kappa / (kappa + u)
        constant = load8(q.log_ratio, j) - load8(q.half_log_det, j) - 0.5 * d * _LOG_PI
        power = 0.5 * (load8(q.nu, j) + 1.0)
        score = constant + 0.5 * d * fast_log(c) - power * fast_log(1.0 + c * delta)
        store8(out, j, score)


@log_density.register(ScaledGaussian)
def _(model, parameters, k, i):
    d = model.y.shape[1]
    u = model.scales[k]
    delta = mahalanobis(parameters, k, model.y[i])
    return 0.5 * (d * (math.log(u) - _LOG_2PI) - u * delta) - parameters.half_log_det[k]


@log_densities.register(ScaledGaussian)
def _(model, parameters, i, out):
    d = model.y.shape[1]
    for j in range(0, out.shape[0], WIDTH):
        delta = mahalanobis8(parameters, j, model.y[i], model.residual)
        u = load8(model.scales, j)
        score = 0.5 * (d * fast_log(u) - u * delta) - load8(parameters.half_log_det, j)
        store8(out, j, score - 0.5 * d * _LOG_2PI)


@observe.register(ScaledGaussian)
def _(model, q, k, i, sign):
    return add_row(q, k, sign * model.scale[i], sign, model.y[i])


@accumulate.register(ScaledGaussian)
def _(model, q, k, i):
    add_statistics(q.natural[k], model.scale[i], 1.0, model.y[i])


@jit
def distances(y, parameters, z, out):
    """Squared Mahalanobis distance of every observation under its own cluster's parameters."""
    for i in range(y.shape[0]):
        out[i] = mahalanobis(parameters, np.int64(z[i]), y[i])


@jit
def draw_scales(scale, alpha, distance, z, d, rng):
    """Draw every scale in its present cluster given the cluster's parameters."""
    for i in range(z.shape[0]):
        a = alpha[z[i]]
        scale[i] = rng.standard_gamma(a + 0.5 * d) / (a + 0.5 * distance[i])


@jit(internal=True)
def total_log_student_t(y, parameters, alpha, z):
    """Log likelihood given cluster parameters, scale variables integrated out."""
    n, d = y.shape
    total = 0.0
    # The constant of the degrees of freedom last met, which most often are all clusters'.
    known, constant = -1.0, 0.0
    for i in range(n):
        k = np.int64(z[i])
        delta = mahalanobis(parameters, k, y[i])
        a = alpha[k]
        if a < math.inf:
            if a != known:
                known = a
                constant = math.lgamma(a + 0.5 * d) - math.lgamma(a)
                constant -= 0.5 * d * (math.log(2.0 * a) + _LOG_PI)
            total += constant - (a + 0.5 * d) * math.log1p(0.5 * delta / a)
        else:
            total -= 0.5 * (d * _LOG_2PI + delta)
        total -= parameters.half_log_det[k]
    return total


@log_likelihood.register(ScaledGaussian)
def _(model, parameters, z):
    return total_log_student_t(model.y, parameters, model.alpha, z)
