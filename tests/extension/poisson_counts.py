"""Counts with a log rate per cluster: y_i ~ Poisson(exp(x_k)), x_k approximately normal."""

import math
from typing import NamedTuple

import numpy as np

from cavity.extend import evidence, jit, project, set_moments


class Counts(NamedTuple):
    y: np.ndarray  # (n,)


@jit
def tilted(y, m, v, fraction):
    """Log integral, mean and variance of N(x; m, v) times the likelihood to a power."""
    # Newton's method finds the maximum of the log-concave integrand.
    x = m
    for _ in range(100):
        rate = fraction * math.exp(x)
        step = (fraction * y - rate - (x - m) / v) / (rate + 1.0 / v)
        x += min(max(step, -2.0), 2.0)
        if abs(step) < 1e-9:
            break
    # The trapezoid rule runs outwards from there until the terms vanish.
    h = 0.3 * min(1.0 / math.sqrt(fraction * math.exp(x) + 1.0 / v), 1.0)
    top = fraction * (y * x - math.exp(x)) - 0.5 * (x - m) ** 2 / v
    total = first = second = 0.0
    for side in range(2):
        u, w = (h, 1.0) if side == 0 else (0.0, 1.0)
        while w > 1e-18:
            t = x + u
            w = math.exp(fraction * (y * t - math.exp(t)) - 0.5 * (t - m) ** 2 / v - top)
            total += w
            first += w * u
            second += w * u * u
            u += h if side == 0 else -h
    shift = first / total
    constant = -fraction * math.lgamma(y + 1.0) - 0.5 * math.log(2.0 * math.pi * v)
    return top + constant + math.log(total * h), x + shift, second / total - shift * shift


@evidence.register(Counts)
def _(model, q, k, i):
    return tilted(model.y[i], q.mean[0, k], q.variance[0, k], 1.0)[0]


@project.register(Counts)
def _(model, q, k, i, fraction):
    _, mean, variance = tilted(model.y[i], q.mean[0, k], q.variance[0, k], fraction)
    set_moments(q, k, 0, mean, variance)
