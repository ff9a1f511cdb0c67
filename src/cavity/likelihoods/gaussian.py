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
from cavity._numba.simd import require_whole
from cavity._numba.slots import take
from cavity.conjugate.niw import add_row, add_statistics, mahalanobis
from cavity.interface import (
    accumulate,
    evidence,
    log_density,
    log_likelihood,
    observe,
    settle,
    visit,
)
from cavity.likelihoods.selection import side_by_side

_LOG_PI = math.log(math.pi)
_LOG_2PI = math.log(2.0 * math.pi)


class ScaledGaussian(NamedTuple):
    """Data, and the scale variables of the present assignments."""

    y: np.ndarray  # (n, d)
    alpha: np.ndarray  # (slots,), half the degrees of freedom; infinite for Gaussian data
    scale: np.ndarray  # (n,), u_i in the present cluster
    scales: np.ndarray  # (slots,), u_ik of the observation being visited


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
    require_whole(alpha.size)
    scale = first_scales(y, float(alpha[0]))
    return ScaledGaussian(y, np.array(alpha, dtype=float), scale, np.ones(alpha.size))


@visit.register(ScaledGaussian)
def _(model, i, k, rng):
    for j in range(model.alpha.shape[0]):
        if model.alpha[j] < math.inf:
            model.scales[j] = rng.standard_gamma(model.alpha[j]) / model.alpha[j]
    model.scales[k] = model.scale[i]


@settle.register(ScaledGaussian)
def _(model, i, k):
    model.scale[i] = model.scales[k]


side_by_side(ScaledGaussian)


@jit(forceinline=True, internal=True)
def log_collapsed(q, k, s, delta, d, n1):
    """Return the part of a row's evidence in a slot that depends on its scale s and distance.

    Of d columns: c^(d/2) (1 + c delta)^(-n1/2) with c = kappa s / (kappa + s).
    """
    kappa = take(k, q.kappa)
    c = s * kappa / (kappa + s)
    return 0.5 * d * fast_log(c) - 0.5 * n1 * fast_log(1.0 + c * delta)


@evidence.register(ScaledGaussian)
def _(model, q, k, i):
    d = model.y.shape[1]
    delta = mahalanobis(q, k, model.y[i])
    constant = take(k, q.log_ratio) - take(k, q.half_log_det) - 0.5 * d * _LOG_PI
    return constant + log_collapsed(q, k, take(k, model.scales), delta, d, take(k, q.nu) + 1.0)


@log_density.register(ScaledGaussian)
def _(model, parameters, k, i):
    d = model.y.shape[1]
    u = take(k, model.scales)
    delta = mahalanobis(parameters, k, model.y[i])
    score = 0.5 * (d * fast_log(u) - u * delta) - take(k, parameters.half_log_det)
    return score - 0.5 * d * _LOG_2PI


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
def log_scale(s, w, a, d):
    """Log density of the sum s of w scales, with what is left of their powers in d columns."""
    if a == math.inf:
        return 0.0
    shape = a + 0.5 * d
    value = w * (a * math.log(a) - math.lgamma(a)) + (w * shape - 1.0) * math.log(s) - a * s
    if w != 1.0:
        value += w * math.lgamma(shape) - math.lgamma(w * shape)
    return value


@jit
def log_norm(a, d):
    """Return the log normalizer of a Student-t density with 2a degrees of freedom in d columns.

    Of a Gaussian density where a is infinite. The determinant of the scale matrix is left out.
    """
    if a == math.inf:
        return -0.5 * d * _LOG_2PI
    return math.lgamma(a + 0.5 * d) - math.lgamma(a) - 0.5 * d * (math.log(2.0 * a) + _LOG_PI)


@jit
def set_log_norms(alpha, d, out):
    """Write ``log_norm`` of every slot."""
    for k in range(alpha.shape[0]):
        out[k] = log_norm(alpha[k], d)


def log_norms(alpha: np.ndarray, d: int) -> np.ndarray:
    """Return ``log_norm`` for many values of half the degrees of freedom.

    Examples
    --------
    >>> log_norms(np.array([0.5, np.inf]), 1)  # Cauchy, Gaussian
    array([-1.14472989, -0.91893853])
    """
    out = np.empty(alpha.shape)
    set_log_norms(np.ascontiguousarray(alpha, dtype=float), d, out)
    return out


@jit(forceinline=True, internal=True)
def student_t_tail(delta, a, d):
    """Return the log of the factor of a Student-t density that falls with the distance, negated."""
    return (a + 0.5 * d) * fast_log(1.0 + 0.5 * delta / a)


@jit(internal=True)
def log_student_t(delta, a, d):
    """Return the log density at a squared distance, but for the determinant."""
    return log_norm(a, d) - (student_t_tail(delta, a, d) if a < math.inf else 0.5 * delta)


@jit(internal=True)
def total_log_student_t(y, parameters, alpha, z):
    """Return the log likelihood given cluster parameters, scale variables integrated out."""
    n, d = y.shape
    total = 0.0
    # The constant of the degrees of freedom last met, which most often are all clusters'.
    known, constant = -1.0, 0.0
    for i in range(n):
        k = np.int64(z[i])
        delta = mahalanobis(parameters, k, y[i])
        a = alpha[k]
        if a != known:
            known, constant = a, log_norm(a, d)
        total += constant - (student_t_tail(delta, a, d) if a < math.inf else 0.5 * delta)
        total -= parameters.half_log_det[k]
    return total


@log_likelihood.register(ScaledGaussian)
def _(model, parameters, z):
    return total_log_student_t(model.y, parameters, model.alpha, z)
