"""Log densities of priors, for the log joint density of a draw."""

from __future__ import annotations

import math
from typing import Any

import numpy as np


def log_inverse_gamma(v: Any, shape: Any, scale: Any) -> float:
    """Sum of log densities of inverse gamma distributions."""
    from scipy.special import gammaln

    terms = shape * np.log(scale) - gammaln(shape) - (shape + 1) * np.log(v) - scale / v
    return float(np.sum(terms))


def log_normal(x: Any, mean: Any, precision: Any) -> float:
    """Sum of log densities of normal distributions."""
    terms = 0.5 * np.log(precision / (2 * math.pi)) - 0.5 * precision * (x - mean) ** 2
    return float(np.sum(terms))


def log_mass(low: float, high: float) -> float:
    """Logarithm of a standard normal's probability between two ends, however far out they are."""
    from scipy.special import log_ndtr

    if low <= 0.0 <= high:  # nothing cancels
        root = math.sqrt(2.0)
        return math.log(0.5 * (math.erf(high / root) - math.erf(low / root)))
    if low > 0.0:
        low, high = -high, -low
    top = log_ndtr(high)
    return float(top + np.log(-np.expm1(log_ndtr(low) - top)))
