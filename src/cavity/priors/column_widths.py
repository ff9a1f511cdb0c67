"""How wide clusters are in each column, before any data: known up to orders of magnitude only.

The mean of the clusters' covariances has a prior with mean M, a diagonal. How much of a column's
variance lies within clusters is anything from all of it, in a column that tells no groups apart,
to a thousandth. A prior of light tails around one guess would have its say against the data: it
makes clusters of a column without groups too narrow, and then there must be more of them. So the
guess itself is learned, column by column, under a prior that rules no order of magnitude out:

    M_j = typical_j x_j,    x_j ~ BetaPrime(a, a),

a ratio of two Gamma(a, 1) variables; with a = 1/2 the root of x_j is half-Cauchy. With
1 / x_j = u_j ~ Gamma(a, b_j) and b_j ~ Gamma(a, 1), and a mean variance s_j whose density given
M_j is proportional to M_j^-w exp(-w s_j / M_j),

    b_j | u_j ~ Gamma(2 a, 1 + u_j),    u_j | b_j, s_j ~ Gamma(a + w, b_j + w s_j / typical_j).
"""

from __future__ import annotations

import numpy as np
from scipy.special import betaln

from cavity._numba.jit import jit


@jit
def draw_widths(expected, typical, tail, weight, variance, rng):
    """Draw M given the mean variances, in place."""
    for j in range(expected.shape[0]):
        rate = rng.standard_gamma(2.0 * tail) / (1.0 + typical[j] / expected[j])
        rate += weight * variance[j] / typical[j]
        expected[j] = typical[j] * rate / rng.standard_gamma(tail + weight)


def widths_log_density(expected: np.ndarray, typical: np.ndarray, tail: float) -> float:
    """Log density of M under its prior.

    Examples
    --------
    >>> import numpy as np
    >>> from scipy import stats
    >>> value = widths_log_density(np.array([0.3]), np.array([0.1]), 0.5)
    >>> bool(np.isclose(value, stats.betaprime(0.5, 0.5, scale=0.1).logpdf(0.3)))
    True
    """
    ratio = expected / typical
    each = (tail - 1.0) * np.log(ratio) - 2.0 * tail * np.log1p(ratio) - np.log(typical)
    return float(each.sum() - expected.size * betaln(tail, tail))
