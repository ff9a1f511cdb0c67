"""Validation of settings and data, with errors that name rows, columns and fixes."""

from __future__ import annotations

import datetime
from numbers import Integral, Real
from typing import Any

import numpy as np

from cavity.io.frames import as_float, as_pandas, frame_column, is_frame, without_mask
from cavity.io.words import listed
from cavity.utils.text import shown

# Beyond this many robust standard deviations squared distances leave the range of floats.
FARTHEST = 1e120
# Covariances are reported in the data's units, squared: beyond these they are no numbers.
SMALLEST, LARGEST = 1e-140, 1e140
# Largest count of anything.
MOST = 10**9


def check_count(name: str, value: Any, least: int, most: int = MOST) -> int:
    """Check an integer from `least` to `most`."""
    if isinstance(value, bool) or not isinstance(value, Integral) or value < least:
        raise ValueError(f"{name} must be an integer of at least {least}, not {shown(value)}.")
    if int(value) > most:
        raise ValueError(f"{name} must be at most {most:,}, not {shown(value)}.")
    return int(value)


def check_flag(name: str, value: Any) -> bool:
    """Check that a value is True or False."""
    if not isinstance(value, bool | np.bool_):
        raise ValueError(f"{name} must be True or False, not {shown(value)}.")
    return bool(value)


def check_number(
    name: str, value: Any, low: float, high: float = np.inf, *, strict: bool = True
) -> float:
    """Check a finite real number in (low, high], or [low, high] if not strict."""
    number = as_float(value) if isinstance(value, Real) and not isinstance(value, bool) else np.nan
    if not np.isfinite(number) or number > high or number < low or (strict and number == low):
        sign = "greater than" if strict else "at least"
        top = f" and at most {high:g}" if np.isfinite(high) else ""
        raise ValueError(f"{name} must be a number {sign} {low:g}{top}, not {shown(value)}.")
    return number


def check_choice(name: str, value: Any, choices: tuple[str, ...]) -> str:
    """Check that a value is one of a few words."""
    if not isinstance(value, str) or value not in choices:
        listed = ", ".join(repr(c) for c in choices)
        raise ValueError(f"{name} must be one of {listed}, not {value!r}.")
    return value


def column_words(names: np.ndarray | None, j: int) -> str:
    """Return a column's name or number for a message."""
    return f"column {j}" if names is None else f"column {names[j]!r}"


def check_numeric(X: Any) -> Any:
    """Convert to numbers like scikit-learn; errors on text and dates name the cell.

    Parameters
    ----------
    X : array or table
        A table of any library (pandas, polars, Arrow); nullable columns, booleans and decimals
        are numbers.

    Returns
    -------
    X itself, or a pandas DataFrame of floats where it was another kind of table.

    Examples
    --------
    >>> import pandas as pd
    >>> check_numeric(pd.DataFrame({"a": pd.array([1, 2], dtype="Int64")}))["a"].tolist()
    [1.0, 2.0]
    """
    X = without_mask(X)
    if isinstance(X, np.ndarray):
        _check_array(X)
        return X
    if not is_frame(X):
        return X
    import pandas as pd

    frame = as_pandas(X)
    if not isinstance(frame, pd.DataFrame):
        return X
    kinds = [t for t in frame.dtypes if isinstance(t, np.dtype) and t.kind in "fiu"]
    if frame is X and len(kinds) == frame.shape[1]:
        return X
    columns, refused = [], {}
    for j, name in enumerate(frame.columns):
        try:
            columns.append(frame_column(frame.iloc[:, j], f"Column {str(name)!r} of X"))
        except ValueError as error:
            refused[str(name)] = error
    if len(refused) > 1:
        raise ValueError(
            f"Columns {listed(refused, 5)} of X hold text or dates, not numbers. "
            f"{next(iter(refused.values()))}"
        )
    if refused:
        raise next(iter(refused.values()))
    values = np.column_stack(columns) if columns else np.empty((len(frame), 0))
    return pd.DataFrame(values, index=frame.index, columns=frame.columns)


def first_place(bad: np.ndarray) -> str:
    """Return the row, and the column if there are any, of the first marked cell.

    Examples
    --------
    >>> first_place(np.array([[False, False], [False, True]]))
    'row 1, column 1'
    """
    place = np.argwhere(bad)[0]
    return f"row {place[0]}" + (f", column {place[1]}" if len(place) > 1 else "")


_DATES = (datetime.date, datetime.timedelta, np.datetime64, np.timedelta64)


def check_cells(X: Any) -> None:
    """Refuse lists, one per row, that hold what is no number, naming the place; others pass."""
    if not isinstance(X, list) or not all(isinstance(row, list) for row in X):
        return
    uneven = len({len(row) for row in X}) != 1
    if uneven or all(isinstance(cell, list) for row in X for cell in row):
        return
    cells = np.empty((len(X), len(X[0])), dtype=object)
    for row, column in np.ndindex(cells.shape):
        cells[row, column] = X[row][column]
    _check_array(cells)


def _check_array(X: np.ndarray) -> None:
    if X.dtype.kind in "mM":
        raise ValueError(
            f"X holds {X.dtype}, dates or durations, not numbers. Turn them into numbers first."
        )
    if X.ndim != 2 or X.dtype.kind not in "USO":
        return
    for row, column in np.ndindex(X.shape):
        value = X[row, column]
        try:
            # NaT and dates have no float; NumPy would take the first for -9.2e18.
            as_float(value if value is not None else np.nan)
        except (ValueError, TypeError) as error:
            if isinstance(error, TypeError) and not isinstance(value, _DATES):
                # scikit-learn's contract for things that are neither text nor numbers
                raise TypeError(
                    f"X holds a {type(value).__name__} in row {row}, column {column}: {error}"
                ) from None
            raise ValueError(
                f"X holds text or dates: row {row}, column {column} is {str(value)[:40]!r}, "
                "could not convert string to float. Drop or encode such columns first."
            ) from None


def check_finite(X: np.ndarray, names: np.ndarray | None) -> None:
    """Refuse infinite values, naming the first one; NaN is a missing value."""
    bad = np.isinf(X)
    if not bad.any():
        return
    row, column = (int(v) for v in np.argwhere(bad)[0])
    total = int(bad.sum())
    more = f" ({total} such values in all)" if total > 1 else ""
    raise ValueError(
        f"Input X contains infinity: row {row}, {column_words(names, column)}{more}. "
        "Replace infinite values first."
    )


def weighted_quantiles(X: np.ndarray, q: list[float], weight: np.ndarray | None) -> np.ndarray:
    """Return quantiles of the columns, (quantile, column), missing values ignored.

    A row is at the middle of its share of the total weight, and values between rows are linear. For
    equal weights these are NumPy's quantiles.

    Examples
    --------
    >>> X = np.array([[1.0], [2.0], [5.0]])
    >>> weighted_quantiles(X, [0.0, 0.5, 1.0], np.array([1.0, 1.0, 4.0])).ravel().round(6).tolist()
    [1.0, 2.9, 5.0]
    """
    if weight is None:
        return np.nanquantile(X, q, axis=0)
    out = np.empty((len(q), X.shape[1]))
    for j, column in enumerate(X.T):
        seen = np.flatnonzero(np.isfinite(column))
        order = seen[np.argsort(column[seen], kind="stable")]
        middle = np.cumsum(weight[order]) - 0.5 * weight[order]
        place = (middle - middle[0]) / max(middle[-1] - middle[0], np.finfo(float).tiny)
        out[:, j] = np.interp(q, place, column[order])
    return out


def robust_standardiser(
    X: np.ndarray, names: np.ndarray | None, weight: np.ndarray | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """Return center (median) and scale (from the quartiles) of every column, weighted.

    If the quartiles agree the standard deviation is used, and one for a constant column. Gaps
    have no part in either, and no column is without values. Values are reduced by the column's
    largest before anything is squared.
    """
    size = np.nanmax(np.abs(X), axis=0)
    size[size == 0.0] = 1.0
    reduced = X / size
    quartiles = weighted_quantiles(reduced, [0.25, 0.5, 0.75], weight)
    centre = quartiles[1]
    scale = (quartiles[2] - quartiles[0]) / 1.349
    spread = np.nanstd(reduced, axis=0)
    # A spread that is rounding error only is none. Quartiles are held against their own size, not
    # the column's: one absurd value, or a code for "missing" such as 1e30, must not flatten it.
    rounding = 1e-13 * np.abs(quartiles).max(axis=0)
    scale = np.where(scale > rounding, scale, np.where(spread > 1e-13, spread, 1.0))
    with np.errstate(over="ignore"):
        farthest = np.minimum(np.abs(reduced - centre) / scale, np.finfo(float).max)
    if np.any(farthest > FARTHEST):
        row, column = np.unravel_index(int(np.nanargmax(farthest)), farthest.shape)
        raise ValueError(
            f"X[{int(row)}], {column_words(names, int(column))} is {farthest[row, column]:.1g} "
            "standard deviations from the rest, beyond what floating point can square. Check that "
            "value."
        )
    for j in np.flatnonzero((size > LARGEST) | (size < SMALLEST)):
        place = column_words(names, int(j))
        raise ValueError(
            f"{place[0].upper()}{place[1:]} reaches {size[j]:.1g}, whose square is beyond floating "
            f"point. {'Divide' if size[j] > 1.0 else 'Multiply'} it by a power of ten first."
        )
    return centre * size, scale * size


def check_names(names: Any, what: str) -> list[str]:
    """Check names and return them as text that files can store.

    Parameters
    ----------
    names : iterable
    what : str
        Kind of thing that each names, for messages.

    Examples
    --------
    >>> check_names([1, "b"], "row")
    ['1', 'b']
    """
    out = [str(name) for name in names]
    for at, name in enumerate(out):
        if not name.isprintable() and any(c == "\0" or "\ud800" <= c <= "\udfff" for c in name):
            raise ValueError(
                f"the name of {what} {at}, {name[:40]!r}, holds a character that no file of "
                "results can keep (NUL, or half of a surrogate pair). Remove it first."
            )
    return out


def check_labels(labels: Any, n: int, n_clusters: int, prior_is_open: bool) -> np.ndarray:
    """Check initial labels and return them as 0..K-1."""
    z = np.asarray(labels)
    if z.shape != (n,):
        raise ValueError(
            f"init has shape {z.shape}, but X has {n} rows: give one label per row, or one of "
            "'dispersed', 'k-means++', 'random'."
        )
    if z.dtype.kind not in "iu":
        raise ValueError("init must hold integer labels, one per row of X.")
    _, z = np.unique(z, return_inverse=True)
    z = z.reshape(-1)
    if not prior_is_open and z.max() >= n_clusters:
        raise ValueError(
            f"init has {z.max() + 1} distinct labels, but n_clusters={n_clusters}. Raise "
            "n_clusters or use prior='dp'."
        )
    return z
