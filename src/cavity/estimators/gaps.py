"""Missing values of a table: checks, and starting values."""

from __future__ import annotations

import numpy as np

from cavity.estimators.validation import column_words

# Rows that the regressions behind the first values are fitted to, at the most; rounds of them; and
# what is added to the variance of each column, which is about one.
FITTED_ROWS = 5_000
ROUNDS = 4
RIDGE = 0.1


def refuse_empty_columns(X: np.ndarray, names: np.ndarray | None) -> None:
    """Refuse columns without any value.

    Examples
    --------
    >>> refuse_empty_columns(np.array([[1.0, np.nan], [np.nan, np.nan]]), None)
    Traceback (most recent call last):
    ...
    ValueError: Column 1 has no value in any row. Leave it out.
    """
    empty = np.flatnonzero(np.isnan(X).all(axis=0))
    if empty.size:
        more = f" (and {empty.size - 1} more)" if empty.size > 1 else ""
        place = column_words(names, int(empty[0]))
        raise ValueError(
            f"{place[0].upper()}{place[1:]}{more} has no value in any row. Leave it out."
        )


def filled(standard: np.ndarray) -> np.ndarray:
    """Return the standardized table with missing values filled by ridge regression.

    Chains start there, and k-means and neighbors see it; no draw of the posterior depends on it
    once the chain has forgotten its start.

    Examples
    --------
    >>> X = np.column_stack([np.linspace(-1, 1, 9), np.linspace(-2, 2, 9)])
    >>> X[0, 1] = np.nan
    >>> bool(filled(X)[0, 1] < -1.0)
    True
    """
    missing = np.isnan(standard)
    if not missing.any():
        return standard
    low, high = np.nanmin(standard, axis=0), np.nanmax(standard, axis=0)
    out = np.where(missing, np.nanmedian(standard, axis=0), standard)
    n, d = out.shape
    rows = np.arange(n)
    if n > FITTED_ROWS:
        rows = np.sort(np.random.default_rng(0).choice(n, FITTED_ROWS, replace=False))
    for _ in range(ROUNDS if d > 1 else 0):
        for j in np.flatnonzero(missing.any(axis=0)):
            fit = rows[~missing[rows, j]]
            if fit.size < 2:
                continue
            # Extreme values would dominate the slopes, so they are clipped.
            tame = np.clip(np.delete(out, j, axis=1), -4.0, 4.0)
            mean = tame[fit].mean(axis=0)
            away = tame[fit] - mean
            target = np.clip(out[fit, j], -4.0, 4.0)
            square = away.T @ away / fit.size + RIDGE * np.eye(d - 1)
            slope = np.linalg.solve(square, away.T @ (target - target.mean()) / fit.size)
            guess = target.mean() + (tame[missing[:, j]] - mean) @ slope
            out[missing[:, j], j] = np.clip(guess, low[j], high[j])
    return out
