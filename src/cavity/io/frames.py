"""Conversion of tables of other libraries (polars, Arrow) to pandas."""

from __future__ import annotations

from typing import Any

import numpy as np


def is_frame(X: Any) -> bool:
    """Return whether an object is a table with named columns, of any library.

    Examples
    --------
    >>> import pyarrow as pa
    >>> is_frame(pa.table({"a": [1]})), is_frame(np.ones(2))
    (True, False)
    """
    if isinstance(X, np.ndarray):
        return False
    return hasattr(X, "columns") or hasattr(X, "__arrow_c_stream__") or hasattr(X, "__dataframe__")


def as_pandas(X: Any) -> Any:
    """Convert a table of any library to pandas; return any other object unchanged.

    Parameters
    ----------
    X : object
        A pandas DataFrame is returned unchanged. Otherwise the Arrow stream, ``to_pandas`` or the
        interchange protocol is used, the first that the object has.

    Examples
    --------
    >>> import pyarrow as pa
    >>> as_pandas(pa.table({"a": [1.0, 2.0]}))["a"].tolist()
    [1.0, 2.0]
    """
    import pandas as pd

    if isinstance(X, pd.DataFrame | pd.Series | pd.Index) or not is_frame(X):
        return X
    if hasattr(X, "__arrow_c_stream__"):
        import pyarrow as pa

        return _signed(pa.RecordBatchReader.from_stream(X).read_all()).to_pandas()
    if hasattr(X, "to_pandas"):
        return X.to_pandas()
    if hasattr(X, "__dataframe__"):
        from pandas.api.interchange import from_dataframe

        return from_dataframe(X)
    return X


def _signed(table: Any) -> Any:
    """Convert category codes of an Arrow table to signed integers, as pandas requires.

    Those of polars are not, and before 20 pyarrow does not convert them.
    """
    import pyarrow as pa

    for at, (name, column) in enumerate(zip(table.column_names, table.columns, strict=True)):
        kind = column.type
        if not (pa.types.is_dictionary(kind) and pa.types.is_unsigned_integer(kind.index_type)):
            continue
        signed = [
            pa.DictionaryArray.from_arrays(
                chunk.indices.cast(pa.int64()), chunk.dictionary, ordered=kind.ordered
            )
            for chunk in column.chunks
        ]
        kind = pa.dictionary(pa.int64(), kind.value_type, kind.ordered)
        table = table.set_column(at, name, pa.chunked_array(signed, kind))
    return table


def as_float(value: Any) -> float:
    """Convert a number to float; integers beyond its range become infinite.

    Examples
    --------
    >>> as_float(2), as_float(-(10**400))
    (2.0, -inf)
    """
    try:
        return float(value)
    except OverflowError:
        return np.inf if value > 0 else -np.inf


def frame_column(column: Any, what: str) -> np.ndarray:
    """Convert one column of a pandas frame to floats, NaN where missing.

    Parameters
    ----------
    column : pandas.Series
        Numbers of any kind: NumPy's, nullable, Arrow's, booleans, `decimal.Decimal`.
    what : str
        Name for messages.

    Examples
    --------
    >>> import pandas as pd
    >>> frame_column(pd.Series([1, None], dtype="Int64"), "a")
    array([ 1., nan])
    """
    import pandas as pd

    from cavity.io.words import ReadingError, quoted

    kind = column.dtype
    if pd.api.types.is_numeric_dtype(kind) and not pd.api.types.is_complex_dtype(kind):
        return column.to_numpy(dtype=float, na_value=np.nan)
    if "decimal" in str(kind) or kind.kind == "O":
        return _objects(column.to_numpy(dtype=object), what)
    if pd.api.types.is_string_dtype(kind) or isinstance(kind, pd.CategoricalDtype):
        row = int(np.argmax(column.notna().to_numpy()))
        raise ReadingError(
            f"{what} holds text or dates, not numbers: row {row} is {quoted(column.iloc[row])}, "
            "could not convert string to float. Drop or encode such columns first."
        )
    raise ReadingError(
        f"{what} holds text or dates, not numbers: its type is {kind}. Drop it or turn it into "
        "numbers first."
    )


def _objects(values: np.ndarray, what: str) -> np.ndarray:
    """Convert Python numbers to floats; report the first object that is not one."""
    from decimal import Decimal
    from numbers import Real

    import pandas as pd

    from cavity.io.words import ReadingError, quoted

    out = np.full(len(values), np.nan)
    for row, value in enumerate(values):
        if value is pd.NaT or isinstance(value, np.datetime64 | np.timedelta64):
            raise ReadingError(
                f"{what} holds text or dates, not numbers: row {row} is {quoted(value)}. Drop it "
                "or turn it into numbers first."
            )
        if value is None or value is pd.NA:
            continue
        if not isinstance(value, Real | Decimal):
            raise ReadingError(
                f"{what} holds text or dates, not numbers: row {row} is {quoted(value)}, could "
                "not convert string to float. Drop or encode such columns first."
            )
        out[row] = as_float(value)
    return out


def without_mask(X: Any) -> Any:
    """Convert a masked array to one with NaN; return anything else unchanged.

    Examples
    --------
    >>> without_mask(np.ma.masked_array([1.0, 2.0], mask=[False, True]))
    array([ 1., nan])
    """
    if not np.ma.isMaskedArray(X):
        return X
    if X.dtype.kind not in "biuf":
        if np.ma.getmaskarray(X).any():
            raise ValueError(f"A masked array must hold numbers, not {X.dtype}.")
        return X.data
    values: np.ndarray = np.ma.filled(X.astype(float), np.nan)
    return values
