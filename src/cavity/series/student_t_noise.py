"""Student-t noise of the observations: what multiplies each cell's precision, drawn given states.

    mean of cell (i, t) = state + regression + N(0, var_y_i / (n_it w_it))
    w_it ~ Gamma(df / 2, df / 2)

An outlier has a small w: it has little influence on the state and makes no cluster. With one
observation per cell this is Student-t noise; the observations of a cell differ among themselves by
Gaussian noise. The degrees of freedom are drawn with the w integrated out, and these given them.

The w are as many as the cells, and a density that has them in it compares nothing. Since
p(noise | w) p(w) / p(w | noise) is the Student-t density of the noise, the sum over all cells of
log p(w) - log p(w | noise), added to a log density that is given w, takes them out again: on
average but for what noise and w say of each other, which is alike wherever the noise is.
"""

from __future__ import annotations

import math

import numpy as np

from cavity._numba.jit import jit
from cavity._numba.numerics import fast_log_pair
from cavity.likelihoods.degrees_of_freedom import HIGHEST, LOWEST, slice_df

SHAPE, RATE = 2.0, 0.1  # gamma prior of the degrees of freedom, as that of the mixtures
_LEAST, _MOST = 1e-12, 1e12
_NO_LABELS = np.zeros(0, dtype=np.int32)


@jit
def draw_weights(tails, repeats, df, rng):
    """Replace the squared noise of every cell, in units of its variance, by a draw of its w.

    Returns the sum of log p(w) - log p(w | noise).
    """
    n, n_times = tails.shape
    shape = 0.5 * (df + 1.0)
    half = 0.5 * df
    constant = half * math.log(half) - math.lgamma(half) + math.lgamma(shape)
    total = 0.0
    for i in range(n):
        for t in range(n_times):
            if repeats[i, t] > 0:
                noise = tails[i, t]
                rate = 0.5 * (df + noise)
                w = min(max(rng.standard_gamma(shape) / rate, _LEAST), _MOST)
                log_rate, log_w = fast_log_pair(rate, w)
                total += constant - shape * log_rate + 0.5 * (noise * w - log_w)
                tails[i, t] = w
            else:
                tails[i, t] = 1.0
    return total


def draw_noise_weights(model, n_cells: float, learn: bool, rng: np.random.Generator) -> float:
    """Draw the degrees of freedom, if they are learned, and every cell's weight.

    ``model.own.tails`` has the squared noise of `n_cells` observed cells, 0 elsewhere. Returns what
    a log density given the weights gains without them.
    """
    own = model.own
    if learn:
        noise = own.tails.reshape(-1)
        own.df[0] = slice_df(own.df[0], noise, _NO_LABELS, -1, n_cells, 1, SHAPE, RATE, rng)
    return float(draw_weights(own.tails, model.cells.repeats, own.df[0], rng))


def log_density_of_weights(model) -> float:
    """Log density of the weights given the degrees of freedom."""
    own = model.own
    w = own.tails[model.cells.repeats > 0]
    a = 0.5 * own.df[0]
    each = a * math.log(a) - math.lgamma(a)
    return float(w.size * each + ((a - 1.0) * np.log(w) - a * w).sum())


def log_density_of_df(df: float) -> float:
    """Log prior density of learned degrees of freedom."""
    from scipy.special import gammainc

    low, high = gammainc(SHAPE, RATE * np.array([LOWEST, HIGHEST]))
    total = SHAPE * math.log(RATE) - math.lgamma(SHAPE) - math.log(high - low)
    return float(total + (SHAPE - 1.0) * math.log(df) - RATE * df)
