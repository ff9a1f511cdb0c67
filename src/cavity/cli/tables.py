"""Reading a table from CSV or Parquet and choosing what is to be clustered."""

from __future__ import annotations

import hashlib
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cavity.cli.errors import UserError

if TYPE_CHECKING:
    import pandas as pd

PARQUET = (".parquet", ".pq")
_NAMELESS = "Unnamed: "
_SEPARATORS = {"\t": "tab", ";": ";", "|": "|"}


def note(message: str) -> None:
    """Tell the user something on standard error."""
    print(f"Note: {message}", file=sys.stderr, flush=True)


@dataclass(frozen=True)
class Choice:
    """Which part of a file is meant.

    Attributes
    ----------
    columns : tuple of str
        Columns to use; none means all but the identifier.
    id_column : str or None
        Column that names the rows.
    separator : str or None
        Between fields of a CSV; by default a tab for ``.tsv`` and a comma otherwise.
    drop_missing : bool
        Leave out rows with missing values.
    """

    columns: tuple[str, ...] = ()
    id_column: str | None = None
    separator: str | None = None
    drop_missing: bool = False


@dataclass(frozen=True)
class Selection:
    """What was read: `table` holds numbers only, indexed by the names of its rows."""

    table: pd.DataFrame
    id_name: str
    id_column: str | None
    n_dropped: int


def split_names(text: str | None) -> tuple[str, ...]:
    """Names separated by commas.

    Examples
    --------
    >>> split_names("height, weight")
    ('height', 'weight')
    """
    return tuple(name.strip() for name in (text or "").split(",") if name.strip())


def file_digest(path: Path) -> str:
    """Digest of a file's bytes."""
    with path.open("rb") as stream:
        return f"sha256:{hashlib.file_digest(stream, 'sha256').hexdigest()}"


def read_table(path: Path, separator: str | None = None) -> pd.DataFrame:
    """Read a whole CSV or Parquet file."""
    import pandas as pd

    if path.is_dir():
        raise UserError(f"{path} is a folder; give a CSV or Parquet file.")
    if not path.exists():
        raise UserError(f"There is no file {path}; check the name and the folder.")
    if path.suffix.lower() in PARQUET:
        try:
            table = pd.read_parquet(path)
        except (ValueError, OSError) as error:
            raise UserError(f"{path} cannot be read as Parquet: {_first_line(error)}") from error
        # An index that says something is a column to us.
        if table.index.name is not None or table.index.nlevels > 1:
            table = table.reset_index()
        table.columns = [str(name) for name in table.columns]
    else:
        table = _read_csv(path, separator)
    if table.shape[1] == 0:
        raise UserError(f"{path} has no columns.")
    if len(table) == 0:
        raise UserError(f"{path} has a header but no rows, so there is nothing to read.")
    return table


def _read_csv(path: Path, separator: str | None) -> pd.DataFrame:
    import pandas as pd

    if separator is None:
        separator = "\t" if ".tsv" in path.suffixes else ","
    elif separator in ("tab", "\\t"):
        separator = "\t"
    elif len(separator) != 1:
        raise UserError(f"--separator must be one character or the word tab, not {separator!r}.")
    try:
        table = pd.read_csv(path, sep=separator, encoding="utf-8-sig", low_memory=False)
    except pd.errors.EmptyDataError as error:
        raise UserError(f"{path} is empty: it has neither a header nor rows.") from error
    except UnicodeDecodeError as error:
        raise UserError(
            f"{path} is not text in UTF-8; save it as CSV in UTF-8, or as Parquet."
        ) from error
    except (pd.errors.ParserError, ValueError) as error:
        raise UserError(f"{path} cannot be read as CSV: {_first_line(error)}") from error
    table.columns = [str(name) for name in table.columns]
    if table.shape[1] == 1:
        header = table.columns[0]
        found = next((mark for mark in _SEPARATORS if mark in header), None)
        if found is not None and found != separator:
            word = _SEPARATORS[found]
            raise UserError(
                f"{path} seems to separate its columns by {word!r}; add --separator '{word}'."
            )
    return table


def _first_line(error: Exception) -> str:
    return str(error).strip().partition("\n")[0].rstrip(".") + "."


def listed(names: Any, most: int = 6) -> str:
    """Names in quotes, the first few of them.

    Examples
    --------
    >>> listed(["a", "b", "c"], most=2)
    "'a', 'b' and 1 more"
    """
    names = list(names)
    text = ", ".join(repr(str(name)) for name in names[:most])
    return f"{text} and {len(names) - most} more" if len(names) > most else text


def require_columns(table: pd.DataFrame, wanted: Any, path: Path) -> None:
    """Refuse a table that lacks a column."""
    missing = [name for name in wanted if name not in table.columns]
    if missing:
        raise UserError(
            f"{path} has no column {listed(missing)}; it has {listed(table.columns, 12)}."
        )


def select(table: pd.DataFrame, choice: Choice, path: Path) -> Selection:
    """Choose the columns, name the rows, and refuse what is not a finite number.

    Parameters
    ----------
    table : DataFrame
        As `read_table` gave it.
    choice : Choice
    path : Path
        Where the table came from, for messages.
    """
    import numpy as np
    import pandas as pd

    id_column = choice.id_column
    first = str(table.columns[0])
    if id_column is None and first.startswith(_NAMELESS) and first not in choice.columns:
        note("The first column has no name; it is taken as the names of the rows.")
        id_column = first
    require_columns(table, [id_column] if id_column else [], path)
    require_columns(table, choice.columns, path)
    if id_column in choice.columns:
        raise UserError(f"{id_column!r} cannot be both the id column and one to cluster by.")
    columns = list(dict.fromkeys(choice.columns)) or [c for c in table.columns if c != id_column]
    if not columns:
        raise UserError(f"{path} has no column besides {id_column!r}; nothing is left to cluster.")
    if id_column is None:
        index, id_name = pd.RangeIndex(1, len(table) + 1), "row"
    else:
        index = pd.Index(table[id_column])
        id_name = "row" if id_column.startswith(_NAMELESS) else id_column
    index.name = id_name
    chosen = table[columns].set_axis(index, axis=0)
    _refuse_text(chosen, path, bool(choice.columns))
    chosen = chosen.astype(float)
    _refuse_infinite(chosen, path)
    n_dropped = 0
    if chosen.isna().to_numpy().any():
        if not choice.drop_missing:
            _refuse_missing(chosen, path)
        kept = chosen.dropna()
        n_dropped = len(chosen) - len(kept)
        if not len(kept):
            raise UserError(
                f"Every row of {path} has a missing value; choose fuller columns with --columns."
            )
        note(f"{n_dropped} of {len(chosen)} rows have missing values and are left out.")
        chosen = kept
    if not choice.columns:
        for name in columns:
            if _looks_like_row_numbers(name, chosen[name].to_numpy(), np):
                note(
                    f"Column {name!r} looks like row numbers; if it is, leave it out of the "
                    f"clustering with --id-column {name}."
                )
    return Selection(chosen, id_name, id_column, n_dropped)


def _refuse_text(chosen: pd.DataFrame, path: Path, were_chosen: bool) -> None:
    import pandas as pd

    text = [c for c in chosen.columns if not pd.api.types.is_numeric_dtype(chosen[c])]
    if not text:
        return
    column = chosen[text[0]]
    as_number = pd.to_numeric(column, errors="coerce")
    bad = (as_number.isna() & column.notna()).to_numpy()
    if not bad.any():
        bad[0] = True
    row = int(bad.argmax())
    what = f"row {column.index[row]!s} of {text[0]!r} is {str(column.iloc[row])[:40]!r}"
    numeric = [str(c) for c in chosen.columns if c not in text]
    if were_chosen or not numeric:
        remedy = "choose columns of numbers with --columns"
    else:
        remedy = f"choose columns of numbers, such as --columns {','.join(numeric[:3])}"
    several = len(text) > 1
    raise UserError(
        f"{'Columns' if several else 'Column'} {listed(text)} of {path} "
        f"{'hold' if several else 'holds'} text or dates, not numbers ({what}); {remedy}, and name "
        "a column of row names with --id-column."
    )


def _refuse_infinite(chosen: pd.DataFrame, path: Path) -> None:
    import numpy as np

    bad = np.isinf(chosen.to_numpy())
    if bad.any():
        row, column = (int(v) for v in np.argwhere(bad)[0])
        raise UserError(
            f"Row {chosen.index[row]!s}, column {chosen.columns[column]!r} of {path} is infinite; "
            "replace such values first."
        )


def _refuse_missing(chosen: pd.DataFrame, path: Path) -> None:
    import numpy as np

    bad = chosen.isna().to_numpy()
    row, column = (int(v) for v in np.argwhere(bad)[0])
    rows = int(bad.any(axis=1).sum())
    more = f" ({rows} rows have missing values)" if rows > 1 else ""
    raise UserError(
        f"Row {chosen.index[row]!s}, column {chosen.columns[column]!r} of {path} is missing{more}; "
        "fill such values in, or add --drop-missing to leave those rows out."
    )


def _looks_like_row_numbers(name: str, values: Any, np: Any) -> bool:
    if name.lower() not in ("id", "index", "row", "rowid", "row_id", "no", "nr", "number"):
        return False
    return len(values) > 2 and bool(np.all(np.diff(values) == 1))
