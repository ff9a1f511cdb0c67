"""Standard errors of measurements, as a user gives them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from cavity.io.columns import CONTINUOUS, Column
from cavity.io.frames import as_pandas, frame_column, is_frame
from cavity.io.words import listed


def check_errors(
    errors: Any, columns: list[Column], n: int, index: Any = None
) -> np.ndarray | None:
    """Return the standard error of every continuous cell, (n, d); zero where it is exact.

    Parameters
    ----------
    errors : array or DataFrame
        One per cell or per column, NaN or zero where a cell is exact; a DataFrame or a dictionary
        by names of columns.
    columns : list of Column
    n : int
        Rows.
    index : pandas.Index, optional
        Names of the rows, which those of a DataFrame of errors must be.

    Returns
    -------
    array or None
        None where all are zero.

    Examples
    --------
    >>> check_errors([0.1, np.nan], [Column("a", CONTINUOUS, ""), Column("b", CONTINUOUS, "")], 2)
    array([[0.1, 0. ],
           [0.1, 0. ]])
    """
    if errors is None:
        return None
    names = [column.name for column in columns]
    if isinstance(errors, Mapping):
        import pandas as pd

        errors = pd.DataFrame(dict(errors), index=pd.RangeIndex(n) if index is None else index)
    values = _by_name(errors, names, n, index) if is_frame(errors) else _by_place(errors, n, names)
    values = np.where(np.isnan(values), 0.0, values)
    for bad, words in ((values < 0.0, "below zero"), (np.isinf(values), "infinite")):
        if bad.any():
            row, place = (int(at) for at in np.argwhere(bad)[0])
            remedy = "Correct it." if words == "below zero" else "Make the cell itself missing."
            raise ValueError(
                f"errors is {words} in row {row}, column {names[place]!r}. It must be a standard "
                f"deviation, or NaN for an exact cell. {remedy}"
            )
    for j, column in enumerate(columns):
        if column.kind != CONTINUOUS and values[:, j].any():
            raise ValueError(
                f"errors are given for column {column.name!r}, which is {column.kind}. Only "
                "continuous columns have errors. Leave it out of errors."
            )
    values = values[:, [column.measured for column in columns]]
    return np.ascontiguousarray(values) if values.any() else None


def _by_place(errors: Any, n: int, names: list[str]) -> np.ndarray:
    try:
        values = np.asarray(errors, dtype=float)
    except (TypeError, ValueError, OverflowError):
        raise ValueError(
            "errors must hold numbers, one per cell or per column of X. Pass NaN for exact cells."
        ) from None
    shape = (n, len(names))
    if values.shape not in (shape, shape[1:]):
        raise ValueError(
            f"errors has shape {values.shape}, but X has {shape}. Give one standard deviation per "
            f"cell, or one per column, of shape {shape[1:]}."
        )
    return np.broadcast_to(values, shape)


def _by_name(errors: Any, names: list[str], n: int, index: Any) -> np.ndarray:
    frame = as_pandas(errors)
    given = [str(name) for name in frame.columns]
    if unknown := [name for name in given if name not in names]:
        raise ValueError(
            f"errors has {listed(unknown)}, but X has the columns {listed(names, 12)}. Name "
            "columns of errors as in X."
        )
    if twice := [name for name in given if given.count(name) > 1]:
        raise ValueError(f"errors has more than one column named {twice[0]!r}. Rename one.")
    if len(frame) != n:
        raise ValueError(f"errors has {len(frame)} rows, but X has {n}. Give one per row of X.")
    if index is not None and is_frame(errors) and not frame.index.equals(index):
        same = np.asarray(frame.index == index)
        row = int(np.argmin(same)) if same.ndim and not same.all() else 0
        raise ValueError(
            f"Row {row} of errors is named {frame.index[row]!s}, that of X {index[row]!s}. Put the "
            "rows of errors in the order of X."
        )
    out = np.zeros((n, len(names)))
    for j, name in enumerate(given):
        out[:, names.index(name)] = frame_column(frame.iloc[:, j], f"Column {name!r} of errors")
    return out
