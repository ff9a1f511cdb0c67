"""Recording steps of rounded values, which limit how narrow a cluster can be.

A density is unbounded where values are tied, or where columns add up exactly: a cluster of equal
values would be as narrow as the prior lets it, and beat every other. So the model is given each
value somewhere within the step that it was recorded with. Where a step is more than a trace of the
column's spread, the chains draw that place in every sweep (`cavity.likelihoods.latent_cells`), so
that what is not known of it is part of the posterior; otherwise it is drawn once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from scipy.special import ndtr, ndtri

if TYPE_CHECKING:
    from cavity.likelihoods.latent_cells import LatentCells

# The least step, in units of a column's spread: nothing finer than this is told apart.
LEAST_STEP = 0.003
# From this step on the place of a value within it is drawn in every sweep.
LEAST_DRAWN = 0.02
_SEED = 20_180_719


def recording_steps(X: np.ndarray) -> np.ndarray:
    """Return the recording step of each standardized column.

    The smallest gap between distinct values, rounding errors apart: one for counts, next to
    nothing for measurements. At most that of a uniform distribution as wide as the column; a
    column of one value has no step and gets that. Gaps have none.

    Examples
    --------
    >>> recording_steps(np.array([[0.0, 0.5], [1.0, 0.5], [3.0, 0.5]])).round(4).tolist()
    [1.0, 3.4641]
    """
    widest = np.sqrt(12.0)
    out = np.full(X.shape[1], widest)
    for j, column in enumerate(X.T):
        column = column[~np.isnan(column)]
        if not column.size:
            continue
        gaps = np.diff(np.unique(column))
        # Compared with the bulk of the column: one absurd value must not make real gaps look
        # like rounding errors.
        low, high = np.quantile(column, [0.25, 0.75])
        bulk = high - low if high > low else gaps.sum()
        gaps = gaps[gaps > 1e-9 * bulk]
        if gaps.size:
            out[j] = min(gaps.min(), widest)
    return out


def _exact(X: np.ndarray, errors: np.ndarray | None) -> np.ndarray:
    return X if errors is None else np.where(errors > 0.0, np.nan, X)


def within_steps(
    X: np.ndarray,
    errors: np.ndarray | None = None,
    low: np.ndarray | None = None,
    high: np.ndarray | None = None,
) -> np.ndarray:
    """Return each value of the standardized X at a random position within its recording step.

    Values with errors stay as they are. Those with an interval of their own, from `low` to `high`,
    are drawn from a standard normal distribution within it.
    """
    rng = np.random.default_rng(_SEED)
    width = np.maximum(recording_steps(_exact(X, errors)), LEAST_STEP)
    seen = X + width * (rng.random(X.shape) - 0.5)
    # A constant column must stay uninformative: one Gaussian cluster fits it.
    constant = np.flatnonzero(np.nanmin(X, axis=0) == np.nanmax(X, axis=0))
    seen[:, constant] = X[:, constant] + 0.1 * rng.standard_normal((len(X), constant.size))
    if low is not None and high is not None:
        ends = [ndtr(np.where(np.isnan(X), 0.0, side)) for side in (low, high)]
        inside = ndtri(ends[0] + (0.01 + 0.98 * rng.random(X.shape)) * (ends[1] - ends[0]))
        seen = np.where(_bounded(low, high) & ~np.isnan(X), inside, seen)
    return seen if errors is None else np.where(errors > 0.0, X, seen)


def _bounded(low: np.ndarray, high: np.ndarray) -> np.ndarray:
    return np.isfinite(low) | np.isfinite(high)


def drawn_steps(
    X: np.ndarray,
    errors: np.ndarray | None = None,
    low: np.ndarray | None = None,
    high: np.ndarray | None = None,
) -> np.ndarray:
    """Return the step of each column whose values are drawn within it; zero for all others.

    Columns recorded to finer steps than `LEAST_DRAWN`, those of one value, and those without any
    exact value are not drawn.

    Examples
    --------
    >>> drawn_steps(np.array([[0.0, 0.5, 0.001], [1.0, 0.5, 0.0], [3.0, 0.5, 3.0]])).tolist()
    [1.0, 0.0, 0.0]
    """
    exact = _exact(X, errors)
    step = recording_steps(exact)
    drawn = (step > LEAST_DRAWN) & (np.nanmin(X, axis=0) < np.nanmax(X, axis=0))
    drawn &= ~np.isnan(exact).all(axis=0)
    if low is not None and high is not None:
        drawn &= ~_bounded(low, high).any(axis=0)
    return np.where(drawn, step, 0.0)


def uncertain_cells(
    X: np.ndarray,
    values: np.ndarray,
    errors: np.ndarray | None = None,
    low: np.ndarray | None = None,
    high: np.ndarray | None = None,
) -> LatentCells | None:
    """Return the cells of X that have errors, an interval, or are drawn within their steps.

    Parameters
    ----------
    X : array of shape (n, d)
        As recorded.
    values : array of shape (n, d)
        Starting values of chains: `within_steps` of X.
    errors, low, high : array of shape (n, d), optional
        Standard errors, and ends of intervals.
    """
    step = drawn_steps(X, errors, low, high)
    errors = np.zeros(X.shape) if errors is None else errors
    half = np.where((step > 0.0) & (errors == 0.0), 0.5 * step, np.inf)
    lower, upper = X - half, X + half
    if low is not None and high is not None:
        own = _bounded(low, high)
        lower, upper = np.where(own, low, lower), np.where(own, high, upper)
    if not (np.isfinite(lower) | np.isfinite(upper) | (errors > 0.0)).any():
        return None
    from cavity.likelihoods.latent_cells import latent_cells

    return latent_cells(lower, upper, values, errors)
