"""Overdispersed counts: negative binomial with the cluster's mean and the column's dispersion.

    p(y | m) = Gamma(y + r) / (Gamma(r) y!) (r / (r + m))^r (m / (r + m))^y

has mean m and variance m + m^2 / r. No prior of m is conjugate to it, so clusters are collapsed by
expectation propagation with a gamma distribution of m. Against Gamma(a, b) the tilted density of
x = log m is proportional to

    exp(h(x)),   h(x) = (a + y) x - b exp(x) - (y + r) log(r + exp(x)),

which is concave with its top at a root of a quadratic; the trapezoid rule around it converges
geometrically. The projection matches E[m] and E[log m].
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from cavity._numba.arrays import declare
from cavity._numba.jit import jit
from cavity._numba.numerics import fast_exp, fast_log
from cavity._numba.simd import WIDTH, max8, ramp8, require_whole, splat8, sum8
from cavity.conjugate.gamma import set_gamma, shape_of_gap
from cavity.interface import evidence, log_density, project
from cavity.likelihoods.poisson import whole_counts

# Steps: at most so wide, and so many of them on each side, eight at a time.
_WIDEST = 0.35
_MOST_BLOCKS = 1000


class NegativeBinomial(NamedTuple):
    """Rows of overdispersed counts."""

    y: np.ndarray  # (n, columns); negative where missing
    log_factorial: np.ndarray  # (n, columns)
    dispersion: np.ndarray  # (columns,), r
    base: np.ndarray  # (n, columns), what of the density the mean does not change


declare(NegativeBinomial, slots={}, constant=("y", "log_factorial"))


def negative_binomial(y: np.ndarray, dispersion: np.ndarray, n_slots: int) -> NegativeBinomial:
    """Model of whole numbers, NaN where missing; slots come in eights."""
    require_whole(n_slots)
    y, log_factorial = whole_counts(np.asarray(y, dtype=float))
    model = NegativeBinomial(y, log_factorial, np.array(dispersion, dtype=float), np.zeros_like(y))
    set_base(model)
    return model


@jit
def set_base(model):
    """Bring the densities' constants in line with the dispersions."""
    for j in range(model.y.shape[1]):
        r = model.dispersion[j]
        constant = r * math.log(r) - math.lgamma(r)
        for i in range(model.y.shape[0]):
            y = max(model.y[i, j], 0.0)
            model.base[i, j] = constant + math.lgamma(y + r) - model.log_factorial[i, j]


@jit(internal=True)
def tilted(shape, rate, y, r, fraction):
    """Log integral, E[m], and log E[m] - E[log m] of Gamma(shape, rate) times the likelihood.

    The likelihood is to the power `fraction`, without its constants.
    """
    up = shape + fraction * y
    down = fraction * (y + r)
    linear = rate * r + down - up
    root = math.sqrt(linear * linear + 4.0 * rate * up * r)
    # The positive root of rate m^2 + linear m - up r, without cancellation.
    m = 2.0 * up * r / (linear + root) if linear > 0.0 else 0.5 * (root - linear) / rate
    x = math.log(m)
    curvature = rate * m + down * r * m / ((r + m) * (r + m))
    step = min(0.5 / math.sqrt(curvature), _WIDEST)
    top = up * x - rate * m - down * math.log(r + m)
    total, means, logs = splat8(0.0), splat8(0.0), splat8(0.0)
    for side in range(2):
        direction = step if side == 0 else -step
        for block in range(_MOST_BLOCKS):
            away = (ramp8() + (block * WIDTH + side)) * direction
            ratio = fast_exp(away)
            height = up * away - (rate * m) * (ratio - 1.0)
            height = height - down * (fast_log(r + m * ratio) - math.log(r + m))
            weight = fast_exp(height)
            total = total + weight
            means = means + weight * (ratio - 1.0)
            logs = logs + weight * away
            # The integrand falls from its top on: what is left is next to nothing.
            if max8(weight * ratio) + max8(weight) < 1e-17:
                break
    mass = sum8(total)
    over = sum8(means) / mass
    gap = math.log1p(over) - sum8(logs) / mass
    constant = shape * math.log(rate) - math.lgamma(shape)
    return top + constant + math.log(mass * step), m * (1.0 + over), gap


@evidence.register(NegativeBinomial)
def _(model, q, k, i):
    total = 0.0
    for j in range(model.y.shape[1]):
        y = model.y[i, j]
        if y >= 0.0:
            found = tilted(q.shape[j, k], q.rate[j, k], y, model.dispersion[j], 1.0)
            total += found[0] + model.base[i, j]
    return total


@project.register(NegativeBinomial)
def _(model, q, k, i, fraction):
    for j in range(model.y.shape[1]):
        y = model.y[i, j]
        if y >= 0.0:
            _, mean, gap = tilted(q.shape[j, k], q.rate[j, k], y, model.dispersion[j], fraction)
            shape = shape_of_gap(gap)
            set_gamma(q, j, k, shape, shape / mean)


@log_density.register(NegativeBinomial)
def _(model, parameters, k, i):
    total = 0.0
    for j in range(model.y.shape[1]):
        y = model.y[i, j]
        if y >= 0.0:
            r = model.dispersion[j]
            total += model.base[i, j] + y * parameters.log_rate[j, k]
            total -= (y + r) * math.log(r + parameters.rate[j, k])
    return total
