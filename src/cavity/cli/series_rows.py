"""Series in rows of a file: names as text, times, values and covariates."""

from __future__ import annotations

from typing import Any

import numpy as np

from cavity.cli.errors import UserError, note
from cavity.cli.tables import Choice, Selection, numbers_of
from cavity.io.files import Table
from cavity.io.names import column_names
from cavity.io.times import column_times


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
    names = column_names(table.column(series), series, path)
    if "" in names:
        raise UserError(
            f"Row {names.index('') + 1}, column {series!r} of {path} is missing; every row needs "
            "the name of its series. Fill it in, or delete such rows."
        )
    rows = range(1, table.rows + 1)
    out: dict[str, Any] = {
        series: pd.Series(names, dtype=object),
        time: column_times(table.column(time), time, path, choice.date_format),
    }
    note_dates_as_numbers(out[time], f"Column {time!r}")
    out.update(numbers_of(table, wanted[2:], choice, rows))
    return Selection(pd.DataFrame(out), series, series)


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
