"""Reading rows: numbers alone, or tables whose columns are of several kinds."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from sklearn.utils.validation import validate_data

from cavity.estimators.validation import check_cells, check_finite, check_numeric
from cavity.io.columns import EMPTY, TWO_VALUES, Cells, Column, check_types, take_column
from cavity.io.frames import as_float, as_pandas, is_frame, without_mask
from cavity.io.words import shell_word
from cavity.utils.notices import ColumnsNote


def read_numbers(estimator: Any, X: Any, *, reset: bool) -> Cells:
    """Return rows of numbers; text and infinite values are refused."""
    X = check_numeric(X)
    try:
        X = validate_data(
            estimator,
            X,
            reset=reset,
            dtype=np.float64,
            ensure_all_finite=False,
            ensure_min_samples=1,
        )
    except OverflowError:
        # Python's integers have no largest one.
        X = np.vectorize(as_float, otypes=[float])(np.asarray(X, dtype=object))
    except (TypeError, ValueError):
        check_cells(X)
        raise
    check_finite(X, getattr(estimator, "feature_names_in_", None))
    none = np.empty((len(X), 0))
    return Cells(X, none.astype(np.int64), none, none)


def read_frame(estimator: Any, X: Any, *, reset: bool, names: list[str] | None = None) -> Any:
    """Return a pandas table; scikit-learn's checks of shape and column names are made.

    `names` are those of an array's columns.
    """
    import pandas as pd

    X = as_pandas(X) if is_frame(X) else X
    if not isinstance(X, pd.DataFrame):
        values = validate_data(
            estimator,
            without_mask(X),
            reset=reset,
            dtype=None,
            ensure_all_finite=False,
            ensure_min_samples=1,
        )
        own = [f"x{j}" for j in range(values.shape[1])] if names is None else names
        return pd.DataFrame(values, columns=own)
    if not X.columns.is_unique:
        twice = X.columns[X.columns.duplicated()][0]
        raise ValueError(f"X has more than one column named {twice!r}; rename one.")
    if X.shape[1] == 0 or len(X) == 0:
        raise ValueError(
            f"Found array with {len(X)} sample(s) and {X.shape[1]} feature(s) (shape="
            f"{X.shape}) while a minimum of 1 is required."
        )
    validate_data(estimator, X, reset=reset, skip_check_array=True)
    return X


def take_columns(frame: Any, feature_types: Any) -> list[Column]:
    """Decide what each column of a table is."""
    names = [str(name) for name in frame.columns]
    types = check_types(feature_types, names)
    columns = [take_column(frame.iloc[:, j], name, types.get(name)) for j, name in enumerate(names)]
    if all(column.kind == EMPTY for column in columns):
        raise ValueError("No column of X has any value, so there is nothing to cluster by.")
    return columns


def warn_of_columns(columns: list[Column]) -> None:
    """Warn about columns that may be meant as something else."""
    notes = [column.note for column in columns if column.note]
    notes += [
        f"column {column.name!r} has no value and no part in the clustering"
        for column in columns
        if column.kind == EMPTY
    ]
    if notes:
        text = "; ".join(notes)
        told = {column.name: column.proposed for column in columns if column.proposed}
        why = python = typed = settle = ""
        if told:
            why = (
                " Clusters may collapse onto single values of such a column, and chains "
                "then seldom agree. If its values are kinds rather than amounts, make it "
                "categorical."
            )
            python = f"={told}"
            typed = " " + shell_word(",".join(f"{name}={told[name]}" for name in told))
        if told or any(column.reason == TWO_VALUES for column in columns):
            settle = f" Settle it by feature_types{python} (--types{typed} on the command line)."
        warnings.warn(
            f"{text[0].upper()}{text[1:]}.{why}{settle} Filter cavity.ColumnsNote to silence this.",
            ColumnsNote,
            stacklevel=5,
        )
