"""Columns and row names to use of a file: tables of rows, long and wide tables of series."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from cavity.cli.errors import UserError, note
from cavity.cli.options import Choice
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
from cavity.io.times import column_times, header_times, looks_like_time
from cavity.io.words import listed, shell_word

if TYPE_CHECKING:
    import pandas as pd

_DATE = re.compile(
    r"\s*(\d{4}[-/.]\d{1,2}[-/.]\d{1,2}|\d{1,2}[-/.]\d{1,2}[-/.]\d{2,4})([ T]\d{1,2}:\d{2}.*)?\s*"
)


def number_format(choice: Choice) -> NumberFormat:
    """Return how numbers are written."""
    return NumberFormat(choice.decimal or ".", choice.thousands)


@dataclass(frozen=True)
class Selection:
    """Data to cluster.

    Attributes
    ----------
    table : DataFrame or None
        Rows indexed by their names, or a long table of series; None for data in shards.
    id_name : str
        Title of the names.
    id_column : str or None
        Column of the file that they came from.
    n_dropped : int
        Rows left out for missing values.
    columns : tuple of str
        The file's names of the columns to cluster by.
    path : Path or None
    source : ParquetSource or None
        Data in shards.
    errors : DataFrame or None
        Standard deviations of measurement errors of the rows.
    """

    table: Any
    id_name: str = "row"
    id_column: str | None = None
    n_dropped: int = 0
    columns: tuple[str, ...] = ()
    path: Path | None = None
    source: Any = None
    errors: Any = None

    @property
    def n_rows(self) -> int:
        """Rows to cluster."""
        return len(self.table) if self.source is None else sum(self.source.sizes)

    def digest(self, path: Path) -> str:
        """Return the digest of the file, or of the names, sizes and times of many files."""
        if self.source is None:
            return file_digest(path)
        text = json.dumps(self.source.digest, sort_keys=True)
        return f"sha256:{hashlib.sha256(text.encode()).hexdigest()}"


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
    errors = _errors_of(table, chosen, choice)
    chosen, errors, n_dropped = _whole_rows(chosen, errors, choice, path)
    if not choice.columns:
        for name in columns:
            if _looks_like_row_numbers(name, chosen[name].to_numpy()):
                note(
                    f"Column {name!r} looks like row numbers; if it is, leave it out of the "
                    f"clustering with --id-column {shell_word(name)}."
                )
    chosen = _with_logs(chosen, choice, path)
    return Selection(chosen, str(index.name), id_column, n_dropped, tuple(columns), errors=errors)


def _errors_of(table: Table, chosen: pd.DataFrame, choice: Choice) -> pd.DataFrame | None:
    """Return the measurement errors of the chosen columns, in a file of their own or the table."""
    import pandas as pd

    if choice.errors and choice.errors_pattern:
        raise UserError("--errors and --errors-pattern both name measurement errors; give one.")
    if choice.errors_pattern:
        names = _error_columns(table, list(chosen.columns), choice)
        if not names:
            raise UserError(
                f"--errors-pattern {choice.errors_pattern} matches no column of {table.path}, "
                f"which has {listed(table.names, 12)}."
            )
        source, index = table, chosen.index
    elif choice.errors:
        path = Path(choice.errors)
        source = read_table(path, dataclasses.replace(choice, exclude=()))
        named = choice.id_column if choice.id_column in source.names else None
        index = chosen.index
        if named is not None:
            index = pd.Index(column_names(source.column(named), named, str(path)), dtype=object)
        if unknown := [n for n in source.names if n not in chosen.columns and n != named]:
            raise UserError(
                f"{path} has {listed(unknown)}, but the columns to cluster by are "
                f"{listed(list(chosen.columns), 12)}; name columns of errors as in the table."
            )
        if source.rows != len(chosen):
            raise UserError(
                f"{path} has {source.rows:,} rows, and {table.path} has {len(chosen):,}; give one "
                "row of errors for each row."
            )
        names = {name: name for name in source.names if name != named}
    else:
        return None
    for name in names:
        if name in choice.log:
            raise UserError(
                f"{name!r} has errors, so it cannot be in --log; leave out one of them."
            )
    values = numbers_of(source, list(names.values()), choice, index)
    out = pd.DataFrame({name: values[own] for name, own in names.items()}, index=index)
    out.index.name = chosen.index.name
    return out


def _error_columns(table: Table, columns: list[str], choice: Choice) -> dict[str, str]:
    """Return the column of errors of each column that has one."""
    pattern = choice.errors_pattern or ""
    if pattern.count("{}") != 1 or pattern == "{}":
        raise UserError(
            f"--errors-pattern must have {{}} in place of a column's name, as in {{}}_err, not "
            f"{pattern!r}."
        )
    named = {name: pattern.replace("{}", name) for name in columns}
    return {name: own for name, own in named.items() if own in table.names}


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
        logs = _logs(values, chosen.index, f"column {name!r} of {path}", name)
        if (called := f"log {name}") in chosen.columns:
            raise UserError(f"--log {name} would be the second column {called!r} of {path}.")
        new[name] = called
        chosen = chosen.assign(**{name: logs})
    return chosen.rename(columns=new)


def _logs(values: np.ndarray, rows: Any, where: str, name: str) -> np.ndarray:
    """Return logarithms, or refuse the first value that has none."""
    bad = values <= 0.0
    if bad.any():
        row = int(bad.argmax())
        raise UserError(
            f"Row {rows[row]!s}, {where} is {values[row]:g}, which has no logarithm; leave "
            f"{name!r} out of --log, or correct such values first."
        )
    return np.log(values)


def _named_rows(table: Table, choice: Choice) -> tuple[list[str], pd.Index, str | None]:
    """The columns to cluster by, the names of the rows, and the column that these came from."""
    import pandas as pd

    path = table.path
    columns, id_column = _columns_and_names(table, choice)
    nameless = table.first_is_nameless and id_column == table.names[0]
    if nameless and choice.id_column is None:
        note("The first column has no name; it is taken as the names of the rows.")
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


def _columns_and_names(table: Table, choice: Choice) -> tuple[list[str], str | None]:
    """The columns to cluster by, and the one that names the rows."""
    id_column, first = choice.id_column, table.names[0]
    if table.first_is_nameless and first not in choice.columns and id_column is None:
        id_column = first
    table.require([id_column] if id_column else [])
    table.require(choice.columns)
    if id_column in choice.columns:
        raise UserError(f"{id_column!r} cannot be both the id column and one to cluster by.")
    columns = list(dict.fromkeys(choice.columns)) or [c for c in table.names if c != id_column]
    if choice.errors_pattern and not choice.columns:
        taken = _error_columns(table, columns, choice).values()
        columns = [name for name in columns if name not in taken]
    if not columns:
        raise UserError(
            f"{table.path} has no column besides {id_column!r}; nothing is left to cluster."
        )
    return columns, id_column


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
    for name in _columns_and_names(table, choice)[0]:
        numbers = column_numbers(table.column(name), number_format(choice))
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
    import pyarrow as pa

    columns, index, id_column = _named_rows(table, choice)
    types, path = types_of(choice), table.path
    table.require(types)
    out: dict[str, Any] = {}
    for name in columns:
        column = table.column(name)
        numbers = column_numbers(column, number_format(choice))
        if numbers is None:
            raise type_refusal(name, str(path), column.type)
        # Codes declared categorical stay as they are written: 001 is not 1.
        code = types.get(name) == CATEGORICAL and not pa.types.is_floating(column.type)
        if code or _is_text_column(column, numbers):
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
            _refuse_infinite(pd.DataFrame({name: numbers.values}, index), path)
            out[name] = numbers.values
    chosen = pd.DataFrame(out, index=index)
    n_dropped, errors = 0, _errors_of(table, chosen, choice)
    if choice.drop_missing:
        chosen, errors, n_dropped = _whole_rows(chosen, errors, choice, path)
    chosen = _with_logs(chosen, choice, path)
    return Selection(chosen, str(index.name), id_column, n_dropped, tuple(columns), errors=errors)


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
        numbers = column_numbers(column, number_format(choice))
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


def _whole_rows(
    chosen: pd.DataFrame, errors: pd.DataFrame | None, choice: Choice, path: Path
) -> tuple[pd.DataFrame, pd.DataFrame | None, int]:
    """The rows without gaps, if the others are to be left out; else all, with a note."""
    bad = chosen.isna().to_numpy()
    if not bad.any():
        return chosen, errors, 0
    rows: np.ndarray = np.any(bad, axis=1)
    if not choice.drop_missing:
        note(
            f"{int(bad.sum())} values in {int(rows.sum())} of {len(chosen)} rows are missing; rows "
            "are clustered by the others. --drop-missing leaves such rows out."
        )
        return chosen, errors, 0
    if rows.all():
        raise UserError(
            f"Every row of {path} has a missing value; choose fuller columns with --columns."
        )
    n_dropped = int(rows.sum())
    note(f"{n_dropped} of {len(chosen)} rows have missing values and are left out.")
    kept = np.logical_not(rows)
    return chosen.loc[kept], None if errors is None else errors.loc[kept], n_dropped


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


# ---------------------------------------------------------------- series


def select_rows(table: Table, choice: Choice, *, with_value: bool = True) -> Selection:
    """Series in rows: names as text, times, values and covariates.

    Parameters
    ----------
    table : Table
        As `read_table` gave it.
    choice : Choice
        With `series`, `time` and `value`.
    with_value : bool
        Whether the values are needed; rows to predict have none.
    """
    import pandas as pd

    path = str(table.path)
    series, time, value = choice.series, choice.time, choice.value
    if series is None or time is None or value is None:
        named = {"series": series, "time": time, "value": value}
        option = next(name for name, column in named.items() if column is None)
        raise UserError(
            f"--model series needs --series, --time and --value, the columns of a long table "
            f"with one observation per row; --{option} is missing. In a wide table, one row per "
            "series, columns are named by their times, as 2001 or 2001-05, or as --date-format "
            "says."
        )
    wanted = [series, time, *([value] if with_value else []), *choice.columns]
    table.require(wanted)
    if len(set(wanted)) < len(wanted):
        raise UserError("--series, --time, --value and --covariates must name different columns.")
    names = _series_names(table, series)
    rows = range(1, table.rows + 1)
    out: dict[str, Any] = {
        series: pd.Series(names, dtype=object),
        time: column_times(table.column(time), time, path, choice.date_format),
    }
    note_dates_as_numbers(out[time], f"Column {time!r}")
    numbers = numbers_of(table, wanted[2:], choice, rows)
    if unknown := sorted(set(choice.log) - {value, *choice.columns}):
        raise UserError(
            f"--log names {unknown[0]!r}, which is neither --value nor one of --covariates."
        )
    for name in numbers:
        if name in choice.log:
            numbers[name] = _logs(numbers[name], rows, f"column {name!r} of {path}", name)
    return Selection(pd.DataFrame(out | numbers), series, series)


def note_dates_as_numbers(times: Any, what: str) -> None:
    """Numbers that look like days or months written together would have gaps of 89 steps."""
    import pandas as pd

    if not isinstance(times, np.ndarray) or times.dtype.kind != "i":
        return
    for low, high, form in ((18000101, 21991231, "%Y%m%d"), (180001, 219912, "%Y%m")):
        if times.min() >= low and times.max() <= high and len(np.unique(times)) > 1:
            texts = pd.Series(np.unique(times)).astype(str)
            if not pd.to_datetime(texts, format=form, errors="coerce").isna().any():
                note(
                    f"{what} looks like dates but is read as numbers; add --date-format "
                    f"{form} if it holds dates."
                )


# What a fit to a wide table calls its series, times and values.
SERIES, TIME, VALUE = "series", "time", "value"


def is_wide(choice: Choice) -> bool:
    """Whether times are to be found in the header, and no column has them."""
    return choice.time is None and choice.value is None


def has_times(table: Table, choice: Choice) -> bool:
    """Whether a header has times, more than by accident."""
    return len(_times(table, choice)) > 1


def _times(table: Table, choice: Choice) -> list[str]:
    return [
        name
        for name in table.names
        if name != choice.series and looks_like_time(name, choice.date_format)
    ]


def select_wide(table: Table, choice: Choice) -> Selection:
    """The values of a wide table, indexed by the names of its series, columns by their times.

    Parameters
    ----------
    table : Table
        As `read_table` gave it, with times in its header.
    choice : Choice
        With `series` at most.
    """
    import pandas as pd

    path = str(table.path)
    if choice.columns:
        raise UserError(
            "--covariates are columns of a long table, one observation per row; name its other "
            "columns by --series, --time and --value."
        )
    header = _times(table, choice)
    column = _names_column(table, choice, header)
    index: Any = [str(row + 1) for row in range(table.rows)]
    id_name = SERIES
    if column is not None:
        index = _series_names(table, column)
        _refuse_repeated(index, column, path)
        nameless = table.first_is_nameless and column == table.names[0]
        id_name = SERIES if nameless else column
    times = header_times(header, path, choice.date_format)
    note_dates_as_numbers(times, f"The header of {path}")
    numbers = numbers_of(table, header, choice, index)
    if choice.log:
        if choice.log != (VALUE,):
            raise UserError(
                f"--log of a wide table takes the logarithm of every value. Pass --log {VALUE}."
            )
        for name in numbers:
            numbers[name] = _logs(numbers[name], index, f"column {name!r} of {path}", VALUE)
    values = pd.DataFrame(numbers, index=pd.Index(index, dtype=object, name=id_name))
    return Selection(values.set_axis(pd.Index(times), axis=1), id_name, column)


def _names_column(table: Table, choice: Choice, header: list[str]) -> str | None:
    """The column that names the series; None if every column is a time."""
    path = str(table.path)
    first, times = table.names[0], set(header)
    table.require([] if choice.series is None else [choice.series])
    others = [name for name in table.names if name not in times and name != choice.series]
    if choice.series is not None or not others:
        named = choice.series
    elif others == [first]:
        called = "The first column" if table.first_is_nameless else f"Column {first!r}"
        note(f"{called} is taken as the names of the series.")
        return first
    else:
        raise UserError(
            f"{path} has times as names of {len(header)} columns, and {listed(others)} beside "
            "them; say which column names the series with --series, and leave others out with "
            "--exclude."
        )
    if others:
        raise UserError(
            f"{path} has times as names of its columns, but for {listed(others)}; leave such "
            f"columns out with --exclude {shell_word(','.join(others))}."
        )
    return named


def _series_names(table: Table, column: str) -> list[str]:
    """The names of series, one per row."""
    names = column_names(table.column(column), column, str(table.path))
    if "" in names:
        raise UserError(
            f"Row {names.index('') + 1}, column {column!r} of {table.path} is missing; every row "
            "needs the name of its series. Fill it in, or delete such rows."
        )
    return names


def _refuse_repeated(names: list[str], column: str, path: str) -> None:
    seen: set[str] = set()
    for row, name in enumerate(names):
        if name in seen:
            raise UserError(
                f"Row {row + 1}, column {column!r} of {path} has the name {name!r} of an earlier "
                "row; in a wide table every series is one row. Rename or merge such rows."
            )
        seen.add(name)


def new_rows(table: Table, choice: Choice) -> tuple[pd.DataFrame, list[str]]:
    """Cells of a new table one by one, as a fit to a wide table calls them; times as written.

    The table is wide, or long with columns ``time`` and, if there are any, ``value``.
    """
    import pandas as pd

    if choice.series not in table.names:
        choice = dataclasses.replace(choice, series=None)
    if TIME in table.names or not has_times(table, choice):
        series = choice.series or SERIES
        long = dataclasses.replace(choice, series=series, time=TIME, value=VALUE)
        rows = select_rows(table, long, with_value=VALUE in table.names).table
        written = column_names(table.column(TIME), TIME, str(table.path))
        return rows.rename(columns={series: SERIES}), written
    wide = select_wide(table, choice).table
    n, n_times = wide.shape
    cells = pd.DataFrame(
        {
            SERIES: np.repeat(wide.index.to_numpy(), n_times),
            TIME: wide.columns.take(np.tile(np.arange(n_times), n)),
            VALUE: wide.to_numpy().ravel(),
        }
    )
    return cells.dropna(axis=1, how="all"), _times(table, choice) * n
