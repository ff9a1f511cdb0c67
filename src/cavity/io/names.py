"""Columns of identifiers, as text exactly as written."""

from __future__ import annotations

from typing import Any

from cavity.io.numbers import MISSING, is_text
from cavity.io.words import ReadingError


def column_names(column: Any, name: str, where: str) -> list[str]:
    """Return names as text: ``007`` stays ``007`` and ``NA`` stays ``NA``.

    Parameters
    ----------
    column : pyarrow array
        Text is kept; numbers and dates become text as written. A null is an empty name.
    name, where : str
        The column and its file, for messages.

    Examples
    --------
    >>> import pyarrow as pa
    >>> column_names(pa.array(["007", "NA"]), "id", "a.csv")
    ['007', 'NA']
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    kind = column.type
    if pa.types.is_dictionary(kind):
        column = pc.cast(column, kind.value_type)
        kind = column.type
    if is_text(kind):
        names = column.to_pylist()
    elif pa.types.is_nested(kind) or pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
        raise ReadingError(
            f"Column {name!r} of {where} holds values of type {str(kind)[:60]}, which name "
            "nothing; choose a column of text or numbers."
        )
    elif pa.types.is_timestamp(kind):
        names = [None if v is None else str(v) for v in column.to_pandas().astype(object)]
    else:
        names = [None if v is None else str(v) for v in column.to_pylist()]
    for row, text in enumerate(names):
        if text is not None and "\0" in text:
            raise ReadingError(
                f"Row {row + 1}, column {name!r} of {where} holds a NUL character, which no file "
                "of results can keep; remove it first."
            )
    return ["" if text is None else text for text in names]


def column_categories(column: Any) -> list[str | None]:
    """Return cells as names of categories, None where missing.

    Examples
    --------
    >>> import pyarrow as pa
    >>> column_categories(pa.array(["red ", "NA", ""]))
    ['red', None, None]
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    if pa.types.is_dictionary(column.type):
        column = pc.cast(column, column.type.value_type)
    texts = [None if value is None else str(value).strip() for value in column.to_pylist()]
    return [None if text is None or text in MISSING else text for text in texts]
