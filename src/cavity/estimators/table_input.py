"""A table as it is given: what each column is taken for, and what a user is told of it."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from sklearn.utils.validation import validate_data

from cavity.io.columns import EMPTY, TWO_VALUES, Column, check_types, take_column
from cavity.io.frames import as_pandas, is_frame
from cavity.io.words import shell_word
from cavity.utils.notices import ColumnsNote


class TableInput:
    """How an estimator reads tables."""

    feature_types: Any
    _columns: list[Column]

    def _frame(self, X: Any, *, reset: bool) -> Any:
        """A pandas table of the rows; scikit-learn's own checks of shape and names are made."""
        import pandas as pd

        X = as_pandas(X) if is_frame(X) else X
        if not isinstance(X, pd.DataFrame):
            if np.ma.isMaskedArray(X):
                X = np.ma.filled(X.astype(float), np.nan)
            values = validate_data(
                self, X, reset=reset, dtype=None, ensure_all_finite=False, ensure_min_samples=1
            )
            names = [f"x{j}" for j in range(values.shape[1])]
            if not reset:
                names = [column.name for column in self._columns]
            return pd.DataFrame(values, columns=names)
        if not X.columns.is_unique:
            twice = X.columns[X.columns.duplicated()][0]
            raise ValueError(f"X has more than one column named {twice!r}; rename one.")
        if X.shape[1] == 0 or len(X) == 0:
            raise ValueError(
                f"Found array with {len(X)} sample(s) and {X.shape[1]} feature(s) (shape="
                f"{X.shape}) while a minimum of 1 is required."
            )
        validate_data(self, X, reset=reset, skip_check_array=True)
        return X

    def _take(self, frame: Any) -> list[Column]:
        names = [str(name) for name in frame.columns]
        types = check_types(self.feature_types, names)
        columns = [
            take_column(frame.iloc[:, j], name, types.get(name)) for j, name in enumerate(names)
        ]
        if all(column.kind == EMPTY for column in columns):
            raise ValueError("No column of X has any value, so there is nothing to cluster by.")
        return columns

    def _warn_of_columns(self) -> None:
        notes = [column.note for column in self._columns if column.note]
        notes += [
            f"column {column.name!r} has no value and no part in the clustering"
            for column in self._columns
            if column.kind == EMPTY
        ]
        if notes:
            text = "; ".join(notes)
            told = {column.name: column.proposed for column in self._columns if column.proposed}
            why = python = typed = settle = ""
            if told:
                why = (
                    " Clusters may gather at single values of a column that has few, and chains "
                    "then seldom agree: if they are kinds rather than amounts, take it as "
                    "categorical."
                )
                python = f"={told}"
                typed = " " + shell_word(",".join(f"{name}={told[name]}" for name in told))
            if told or any(column.reason == TWO_VALUES for column in self._columns):
                settle = (
                    f" Settle it by feature_types{python} (--types{typed} on the command line)."
                )
            warnings.warn(
                f"{text[0].upper()}{text[1:]}.{why}{settle} Filter cavity.ColumnsNote to silence "
                "this.",
                ColumnsNote,
                stacklevel=3,
            )
