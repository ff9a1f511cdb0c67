"""Data of a scatter plot: validation, projection and axis limits.

A frame leaves out values so far away that they would squeeze the rest into a dot.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

_FENCE = 1.5


class Table(NamedTuple):
    """Numbers with the names of their columns."""

    values: np.ndarray  # (n, column)
    names: list[str]


def as_table(X: Any, n: int, feature_names: Sequence[Any] | None = None) -> Table:
    """Check data for plotting; a DataFrame provides the names.

    Raises
    ------
    ValueError
        If the shape is wrong or an entry is infinite; the message names the column and row. NaN is
        a gap.
    TypeError
        If a column is not numeric.
    """
    names: list[str] | None = None
    if hasattr(X, "columns") and hasattr(X, "to_numpy"):
        names = [str(name) for name in X.columns]
        for name, dtype in zip(names, X.dtypes, strict=True):
            if getattr(dtype, "kind", "O") not in "fiub":
                raise TypeError(f"X: column {name!r} is not numeric ({dtype}); leave it out")
        X = X.to_numpy(dtype=float)
    values = np.asarray(X)
    if values.dtype.kind not in "fiub":
        raise TypeError(f"X must be numeric; got an array of {values.dtype}")
    values = values.astype(float)
    if values.ndim == 1:
        values = values[:, None]
    if values.ndim != 2 or values.shape[1] == 0:
        raise ValueError(
            f"X must have one row per observation and at least one column; got {values.shape}"
        )
    if len(values) != n:
        raise ValueError(
            f"X has {len(values)} rows, the posterior has {n} observations: "
            "pass the data that was clustered"
        )
    if feature_names is not None:
        names = [str(name) for name in feature_names]
        if len(names) != values.shape[1]:
            raise ValueError(
                f"feature_names has {len(names)} names for {values.shape[1]} columns of X"
            )
    names = names or [f"column {j}" for j in range(values.shape[1])]
    bad = np.argwhere(np.isinf(values))
    if len(bad):
        row, column = bad[0]
        raise ValueError(
            f"X: row {row} of column {names[column]!r} is {values[row, column]}; "
            "replace it before drawing"
        )
    empty = np.flatnonzero(np.isnan(values).all(axis=0))
    if len(empty):
        raise ValueError(f"X: column {names[empty[0]]!r} has no value in any row; leave it out")
    return Table(values, names)


def standardise(values: np.ndarray) -> np.ndarray:
    """Center on the median and divide by the interquartile range (the sd where that is zero).

    Missing values are put at the center.
    """
    largest = np.nanmax(np.abs(values), axis=0)
    # Scaled first: squares and differences of values near 1e300 would overflow.
    scaled = values / np.where(largest > 0, largest, 1.0)
    low, middle, high = np.nanquantile(scaled, [0.25, 0.5, 0.75], axis=0)
    spread = (high - low) / 1.349
    spread = np.where(spread > 0, spread, np.nanstd(scaled, axis=0))
    return np.nan_to_num((scaled - middle) / np.where(spread > 0, spread, 1.0))


def principal_plane(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Project on the first two principal components of the standardized columns.

    The components, and the shares of variance they explain, are those of the data with every value
    drawn in to 4 robust standard deviations: else one gross error would choose the plane.

    Returns
    -------
    scores : array, shape (n, 2)
    share : array, shape (2,)
    """
    robust = standardise(values)
    tame = np.clip(robust, -4.0, 4.0)
    centre = tame.mean(axis=0)
    _, singular, axes = np.linalg.svd(tame - centre, full_matrices=False)
    axes = axes[:2]
    # The sign of a component is arbitrary: its largest weight is made positive.
    axes = axes * np.sign(axes[np.arange(len(axes)), np.abs(axes).argmax(axis=1)])[:, None]
    total = float((singular**2).sum())
    share = singular[:2] ** 2 / total if total > 0 else np.zeros(len(axes))
    scores = (robust - centre) @ axes.T
    missing = 2 - scores.shape[1]
    return np.pad(scores, ((0, 0), (0, missing))), np.pad(share, (0, missing))


def sensible_limits(values: np.ndarray) -> tuple[float, float]:
    """Limits of an axis: the range of all values that do not lie far out.

    Far out is beyond the central 90% by more than 1.5 times its width: such values would squeeze
    the rest.

    Examples
    --------
    >>> sensible_limits(np.array([0.0, 1.0, 2.0, 3.0]))
    (0.0, 3.0)
    >>> sensible_limits(np.append(np.arange(100.0), 1e6))
    (0.0, 99.0)
    """
    values = values[~np.isnan(values)]
    # Halves, lest the difference of two huge values overflow.
    low, high = 0.5 * np.quantile(values, [0.05, 0.95])
    reach = 2.0 * _FENCE * (high - low)
    if reach > 0:
        near = values[(0.5 * values >= low - 0.5 * reach) & (0.5 * values <= high + 0.5 * reach)]
        values = near if len(near) else values
    return float(values.min()), float(values.max())
