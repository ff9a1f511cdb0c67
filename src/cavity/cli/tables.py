"""What of a file is meant: the columns to cluster by and the names of rows."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from cavity.cli.errors import UserError, note
from cavity.io.columns import CATEGORICAL, KINDS
from cavity.io.files import Table, read_file
from cavity.io.names import column_categories, column_names
from cavity.io.numbers import (
    NumberFormat,
    column_numbers,
    is_text,
    refusal,
    remedy,
    type_refusal,
)
from cavity.io.words import listed, shell_word

if TYPE_CHECKING:
    import pandas as pd

_DATE = re.compile(
    r"\s*(\d{4}[-/.]\d{1,2}[-/.]\d{1,2}|\d{1,2}[-/.]\d{1,2}[-/.]\d{2,4})([ T]\d{1,2}:\d{2}.*)?\s*"
)


@dataclass(frozen=True)
class Choice:
    """Which part of a file is meant, and how it is written.

    Attributes
    ----------
    columns : tuple of str
        Columns to cluster by, or covariates of series; none means all that are not named
        otherwise (no covariates, for series).
    exclude : tuple of str
        Columns to leave out.
    id_column : str or None
        Column that names the rows.
    series, time, value : str or None
        Columns of a long table of series; a wide one, with a column for each time, has `series`
        at most.
    separator, encoding, decimal, thousands, date_format : str or None
        How the file is written.
    drop_missing : bool
        Leave out rows with missing values.
    types : tuple of str
        What columns are, as ``name=kind``, where their cells do not say it.
    log : tuple of str
        Columns to take the logarithm of.
    """

    columns: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    id_column: str | None = None
    series: str | None = None
    time: str | None = None
    value: str | None = None
    separator: str | None = None
    encoding: str | None = None
    decimal: str | None = None
    thousands: str | None = None
    date_format: str | None = None
    drop_missing: bool = False
    types: tuple[str, ...] = ()
    log: tuple[str, ...] = ()

    @property
    def form(self) -> NumberFormat:
        """How numbers are written."""
        return NumberFormat(self.decimal or ".", self.thousands)


@dataclass(frozen=True)
class Selection:
    """What was read.

    Attributes
    ----------
    table : DataFrame
        Numbers only, indexed by the names of its rows; or a long table of series.
    id_name : str
        What the names are called.
    id_column : str or None
        Where they came from.
    n_dropped : int
        Rows left out for gaps.
    columns : tuple of str
        What the file calls the columns to cluster by.
    """

    table: pd.DataFrame
    id_name: str
    id_column: str | None = None
    n_dropped: int = 0
    columns: tuple[str, ...] = ()

    @property
    def n_rows(self) -> int:
        """Rows to cluster."""
        return len(self.table)


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


def read_table(path: Path, choice: Choice) -> Table:
    """Read a file as its options say, without the columns that are left out."""
    table = read_file(path, choice.separator, choice.encoding)
    table.require(choice.exclude)
    kept = [j for j, name in enumerate(table.names) if name not in choice.exclude]
    if not kept:
        raise UserError(f"--exclude leaves no column of {path}.")
    return Table(
        table.path,
        tuple(table.names[j] for j in kept),
        tuple(table.columns[j] for j in kept),
        table.rows,
        table.first_is_nameless and kept[0] == 0,
    )


def select(table: Table, choice: Choice) -> Selection:
    """Choose the columns, name the rows, and refuse what is not a finite number.

    Parameters
    ----------
    table : Table
        As `read_table` gave it.
    choice : Choice

    Examples
    --------
    >>> import pyarrow as pa
    >>> table = Table(Path("a.csv"), ("id", "x"), (pa.array(["007"]), pa.array(["1.5"])), 1)
    >>> select(table, Choice(id_column="id")).table["x"].to_dict()
    {'007': 1.5}
    """
    import pandas as pd

    columns, index, id_column = _named_rows(table, choice)
    path = table.path
    chosen = pd.DataFrame(numbers_of(table, columns, choice, index), index=index)
    _refuse_infinite(chosen, path)
    chosen, n_dropped = _whole_rows(chosen, choice, path)
    if not choice.columns:
        for name in columns:
            if _looks_like_row_numbers(name, chosen[name].to_numpy()):
                note(
                    f"Column {name!r} looks like row numbers; if it is, leave it out of the "
                    f"clustering with --id-column {shell_word(name)}."
                )
    chosen = _with_logs(chosen, choice, path)
    return Selection(chosen, str(index.name), id_column, n_dropped, tuple(columns))


def _with_logs(chosen: pd.DataFrame, choice: Choice, path: Path) -> pd.DataFrame:
    """The columns, with the logarithms of those that --log names in their places."""
    new = {}
    for name in dict.fromkeys(choice.log):
        if name not in chosen.columns:
            raise UserError(
                f"--log names {name!r}, which is not among the columns to cluster by: "
                f"{listed(list(chosen.columns), 12)}."
            )
        values = chosen[name].to_numpy()
        if values.dtype.kind != "f" or name in types_of(choice):
            raise UserError(
                f"--log is for measurements, and {name!r} is text or of a kind that --types names; "
                "leave it out of one of them."
            )
        if (values <= 0.0).any():
            row = int((values <= 0.0).argmax())
            raise UserError(
                f"Row {chosen.index[row]!s}, column {name!r} of {path} is {values[row]:g}, which "
                f"has no logarithm; leave {name!r} out of --log, or correct such values first."
            )
        if (called := f"log {name}") in chosen.columns:
            raise UserError(f"--log {name} would be the second column {called!r} of {path}.")
        new[name] = called
        chosen = chosen.assign(**{name: np.log(values)})
    return chosen.rename(columns=new)


def _named_rows(table: Table, choice: Choice) -> tuple[list[str], pd.Index, str | None]:
    """The columns to cluster by, the names of the rows, and the column that these came from."""
    import pandas as pd

    path = table.path
    id_column = choice.id_column
    first = table.names[0]
    nameless = table.first_is_nameless and first not in choice.columns
    if nameless and id_column is None:
        note("The first column has no name; it is taken as the names of the rows.")
        id_column = first
    nameless = nameless and id_column == first
    table.require([id_column] if id_column else [])
    table.require(choice.columns)
    if id_column in choice.columns:
        raise UserError(f"{id_column!r} cannot be both the id column and one to cluster by.")
    columns = list(dict.fromkeys(choice.columns)) or [c for c in table.names if c != id_column]
    if not columns:
        raise UserError(f"{path} has no column besides {id_column!r}; nothing is left to cluster.")
    index: pd.Index = pd.RangeIndex(1, table.rows + 1)
    if id_column is not None:
        index = pd.Index(column_names(table.column(id_column), id_column, str(path)), dtype=object)
        if n_repeated := int(index.duplicated().sum()):
            note(
                f"{n_repeated:,} rows have a name in {id_column!r} that an earlier row has; rows "
                "of one name are in the order of the file."
            )
    id_name = "row" if nameless or id_column is None else id_column
    return columns, index.rename(id_name), id_column


def types_of(choice: Choice) -> dict[str, str]:
    """What columns are, by name, as ``--types`` says it.

    Examples
    --------
    >>> types_of(Choice(types=("visits=count",)))
    {'visits': 'count'}
    """
    out = {}
    for text in choice.types:
        name, equals, kind = text.rpartition("=")
        if not equals or not name.strip() or kind.strip() not in KINDS:
            raise UserError(
                f"--types must be written as column=kind,column=kind with kinds "
                f"{', '.join(KINDS)}, not {text!r}."
            )
        out[name.strip()] = kind.strip()
    return out


def needs_table(table: Table, choice: Choice) -> bool:
    """Whether a file has columns of text, which only a model of tables takes."""
    if choice.types:
        return True
    columns, _, _ = _named_rows(table, choice)
    for name in columns:
        numbers = column_numbers(table.column(name), choice.form)
        if numbers is None or _is_text_column(table.column(name), numbers):
            return True
    return False


def select_table(table: Table, choice: Choice) -> Selection:
    """Choose the columns and name the rows; numbers, text and gaps as they are.

    Examples
    --------
    >>> import pyarrow as pa
    >>> columns = (pa.array(["red", "NA"]), pa.array(["1.5", ""]))
    >>> table = Table(Path("a.csv"), ("colour", "x"), columns, 2)
    >>> select_table(table, Choice()).table.isna().to_numpy().tolist()
    [[False, False], [True, True]]
    """
    import pandas as pd

    columns, index, id_column = _named_rows(table, choice)
    types, path = types_of(choice), table.path
    table.require(types)
    out: dict[str, Any] = {}
    for name in columns:
        column = table.column(name)
        numbers = column_numbers(column, choice.form)
        if numbers is None:
            raise type_refusal(name, str(path), column.type)
        if _is_text_column(column, numbers) or (
            numbers.bad.any() and types.get(name) == CATEGORICAL
        ):
            texts = column_categories(column)
            _refuse_dates(texts, name, path, index)
            out[name] = np.array(texts, dtype=object)
        elif numbers.bad.any():
            error = refusal(name, str(path), column, numbers, index)
            text = str(error)
            if "add --" not in text:
                told = shell_word(f"{name}=categorical")
                text = f"{text.rstrip('.')}; if they are categories, add --types {told}."
            raise UserError(text)
        else:
            bad = np.isinf(numbers.values)
            if bad.any():
                raise UserError(
                    f"Row {index[int(bad.argmax())]!s}, column {name!r} of {path} is infinite; "
                    "replace such values first."
                )
            out[name] = numbers.values
    chosen = pd.DataFrame(out, index=index)
    n_dropped = 0
    if choice.drop_missing:
        chosen, n_dropped = _whole_rows(chosen, choice, path)
    chosen = _with_logs(chosen, choice, path)
    return Selection(chosen, str(index.name), id_column, n_dropped, tuple(columns))


def _is_text_column(column: Any, numbers: Any) -> bool:
    """Whether a column is one of categories: true and false, or text with no option to read it."""
    import pyarrow as pa

    kind = column.type
    if pa.types.is_boolean(kind):
        return True
    if not (is_text(kind) or pa.types.is_dictionary(kind)):
        return False
    texts = column_categories(column)
    there = [text for text in texts if text is not None]
    if there and all(text.lower() in ("true", "false") for text in there):
        return True
    bad = numbers.bad
    if bad.sum() * 2 < np.isfinite(numbers.values).sum() or not bad.any():
        return False
    return remedy(str(texts[int(bad.argmax())])) is None


def _refuse_dates(texts: list[str | None], name: str, path: Path, rows: Any) -> None:
    there = [(at, text) for at, text in enumerate(texts) if text is not None]
    if there and all(_DATE.fullmatch(text) for _, text in there):
        at, text = there[0]
        raise UserError(
            f"Column {name!r} of {path} holds dates (row {rows[at]!s} is {text!r}), which are "
            f"neither amounts nor categories; leave it out with --exclude {shell_word(name)}, or "
            "turn it into a number first, such as days since a date, or a category, such as the "
            "month."
        )


def numbers_of(
    table: Table, columns: list[str], choice: Choice, rows: Any
) -> dict[str, np.ndarray]:
    """Columns of numbers by name; refuses the others, with a remedy for all of them at once."""
    out, refused = {}, []
    for name in columns:
        column = table.column(name)
        numbers = column_numbers(column, choice.form)
        if numbers is None:
            refused.append((name, type_refusal(name, str(table.path), column.type)))
        elif numbers.bad.any():
            refused.append((name, refusal(name, str(table.path), column, numbers, rows)))
        else:
            out[name] = numbers.values
    if not refused:
        return out
    solvable = [error for _, error in refused if "add --" in str(error)]
    if solvable or len(refused) == 1:
        raise solvable[0] if solvable else refused[0][1]
    names = [name for name, _ in refused]
    raise UserError(
        f"{len(names)} columns of {table.path} are not of numbers: {listed(names)}; leave them out "
        f"with --exclude '{','.join(names)}', or name the rows by one of them with --id-column."
    )


def _whole_rows(chosen: pd.DataFrame, choice: Choice, path: Path) -> tuple[pd.DataFrame, int]:
    """The rows without gaps, if the others are to be left out; else all, with a note."""
    bad = chosen.isna().to_numpy()
    if not bad.any():
        return chosen, 0
    rows: np.ndarray = np.any(bad, axis=1)
    if not choice.drop_missing:
        note(
            f"{int(bad.sum())} values in {int(rows.sum())} of {len(chosen)} rows are missing; rows "
            "are clustered by the others. --drop-missing leaves such rows out."
        )
        return chosen, 0
    if rows.all():
        raise UserError(
            f"Every row of {path} has a missing value; choose fuller columns with --columns."
        )
    n_dropped = int(rows.sum())
    note(f"{n_dropped} of {len(chosen)} rows have missing values and are left out.")
    return chosen.loc[np.logical_not(rows)], n_dropped


def _refuse_infinite(chosen: pd.DataFrame, path: Path) -> None:
    bad = np.isinf(chosen.to_numpy())
    if bad.any():
        row, column = (int(v) for v in np.argwhere(bad)[0])
        raise UserError(
            f"Row {chosen.index[row]!s}, column {chosen.columns[column]!r} of {path} is infinite; "
            "replace such values first."
        )


def _looks_like_row_numbers(name: str, values: np.ndarray) -> bool:
    if name.lower() not in ("id", "index", "row", "rowid", "row_id", "no", "nr", "number"):
        return False
    return len(values) > 2 and bool(np.all(np.diff(values) == 1))
