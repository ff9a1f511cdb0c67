"""Degrees of freedom over many rows: a df_grid of them tried in one pass.

Given labels and clusters, scale variables summed out, their density needs a sum over all rows for
every value that is asked about. A pass sums for eight values at once: a df_grid around the present
ones, whose step is drawn at random and on which they have a place drawn at random. From each of
its rungs the same df_grid would be drawn as often, so that a rung chosen by its posterior
probability leaves that invariant.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from scipy.special import gammainc, gammaln

from cavity.distributed.kernel import GRID_SIZE
from cavity.likelihoods.degrees_of_freedom import HIGHEST, LOWEST
from cavity.priors.cluster import DF_PRIOR

# Sweeps from one draw of the degrees of freedom to the next.
DF_EVERY = 2
WIDEST = 0.5


class DFSettings(NamedTuple):
    """How degrees of freedom are dealt with.

    Attributes
    ----------
    df : float
        Their value, or where learned ones start; infinite for Gaussian clusters.
    learn : {None, "shared", "each"}
    shape, rate : float
        Of learned ones' gamma prior.
    """

    df: float
    learn: str | None = None
    shape: float = DF_PRIOR[0]
    rate: float = DF_PRIOR[1]

    @property
    def gamma(self) -> tuple[float, float]:
        """Shape and rate."""
        return self.shape, self.rate


def no_df_grid() -> np.ndarray:
    """Nothing to try."""
    return np.zeros((0, GRID_SIZE))


def draw_df_grid(
    alpha: np.ndarray, tails: DFSettings, n: int, rng: np.random.Generator
) -> np.ndarray:
    """Degrees of freedom to try: of all clusters together (1, 8), or of each (K, 8)."""
    df = 2.0 * (alpha[:1] if tails.learn == "shared" else alpha)
    narrow = min(0.5 / math.sqrt(n), 0.2)
    step = np.exp(rng.uniform(math.log(narrow), math.log(WIDEST), df.size))
    place = rng.integers(GRID_SIZE, size=df.size)
    return df[:, None] * np.exp(step[:, None] * (np.arange(GRID_SIZE) - place[:, None]))


def choose_df(
    df_grid: np.ndarray,
    sums: np.ndarray,
    counts: np.ndarray,
    d: int,
    tails: DFSettings,
    rng: np.random.Generator,
) -> np.ndarray:
    """Degrees of freedom by their posterior probability on the df_grid.

    Parameters
    ----------
    df_grid, sums : arrays of shape (1, 8) or (K, 8)
        Values, and sums over rows of log(1 + distance / value).
    counts : array of shape (K,)
    d : int
        Columns.
    tails : DFSettings
    rng : numpy.random.Generator
    """
    n = counts if tails.learn == "each" else np.array([counts.sum()])
    constant = gammaln(0.5 * (df_grid + d)) - gammaln(0.5 * df_grid) - 0.5 * d * np.log(df_grid)
    value = n[:, None] * constant - 0.5 * (df_grid + d) * sums
    value += tails.shape * np.log(df_grid) - tails.rate * df_grid
    value[(df_grid < LOWEST) | (df_grid > HIGHEST)] = -np.inf
    mass = np.exp(value - value.max(axis=1, keepdims=True)).cumsum(axis=1)
    target = rng.random(len(df_grid)) * mass[:, -1]
    return df_grid[np.arange(len(df_grid)), (mass > target[:, None]).argmax(axis=1)]


def log_density(alpha: np.ndarray, counts: np.ndarray, tails: DFSettings) -> float:
    """Of learned degrees of freedom (of occupied clusters) under their truncated gamma prior."""
    if tails.learn is None:
        return 0.0
    shape, rate = tails.gamma
    df = 2.0 * (alpha[:1] if tails.learn == "shared" else alpha[counts > 0])
    ends = gammainc(shape, rate * np.array([LOWEST, HIGHEST]))
    constant = shape * math.log(rate) - math.lgamma(shape) - math.log(ends[1] - ends[0])
    return float((constant + (shape - 1.0) * np.log(df) - rate * df).sum())
