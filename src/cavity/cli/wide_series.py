"""Series in a wide table: a row for each series, a column for each time, whose name is the time."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

import numpy as np

from cavity.cli.errors import UserError, note
from cavity.cli.series_rows import note_dates_as_numbers, select_rows
from cavity.cli.tables import Choice, Selection, numbers_of
from cavity.io.files import Table
from cavity.io.names import column_names
from cavity.io.times import header_times, looks_like_time
from cavity.io.words import listed, shell_word

if TYPE_CHECKING:
    import pandas as pd

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
        index = column_names(table.column(column), column, path)
        _refuse_names(index, column, path)
        nameless = table.first_is_nameless and column == table.names[0]
        id_name = SERIES if nameless else column
    times = header_times(header, path, choice.date_format)
    note_dates_as_numbers(times, f"The header of {path}")
    values = pd.DataFrame(
        numbers_of(table, header, choice, index), index=pd.Index(index, dtype=object, name=id_name)
    )
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


def _refuse_names(names: list[str], column: str, path: str) -> None:
    if "" in names:
        raise UserError(
            f"Row {names.index('') + 1}, column {column!r} of {path} is missing; every row needs "
            "the name of its series. Fill it in, or delete such rows."
        )
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
