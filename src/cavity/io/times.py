"""Text as dates, with one format for the whole column."""

from __future__ import annotations

import re
import warnings
from contextlib import suppress
from datetime import datetime
from typing import TYPE_CHECKING, Any

import numpy as np

from cavity.io.words import ReadingError, quoted

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pandas as pd

_CLOCK = r"([T ]\d{1,2}:\d{2}(:\d{2}(\.\d+)?)?)?"
_ISO = re.compile(
    r"\d{4}-\d{2}(-\d{2}([T ]\d{2}(:\d{2}(:\d{2}([.,]\d+)?)?)?\s*(Z|[+-]\d{2}(:?\d{2})?)?)?)?"
)
_QUARTER = re.compile(r"\d{4}[- ]?[qQ][1-4]")
_YEAR_FIRST = re.compile(r"(\d{4})([-/.])(\d{1,2})(\2(\d{1,2}))?" + _CLOCK)
_YEAR_LAST = re.compile(r"(\d{1,2})([-/.])(\d{1,2})\2(\d{4})(" + _CLOCK + ")")
_SHORT_YEAR = re.compile(r"\d{1,2}([-/.])\d{1,2}\1\d{2}(" + _CLOCK + ")")
_MONTH_YEAR = re.compile(r"(\d{1,2})[-/.](\d{4})")
# Months by name, the year in full: there is one way to read these.
_NAMED = (
    "%b %Y", "%B %Y", "%b-%Y", "%B-%Y", "%Y %b", "%Y-%b", "%d %b %Y", "%d %B %Y", "%d-%b-%Y",
    "%d. %B %Y", "%b %d, %Y", "%B %d, %Y", "%b %d %Y", "%B %d %Y", "%a %d %b %Y", "%d%b%Y",
)  # fmt: skip
_WHOLE = re.compile(r"[0-9]{1,18}")
_ALONE = (_WHOLE, _ISO, _QUARTER, _YEAR_FIRST, _YEAR_LAST, _SHORT_YEAR, _MONTH_YEAR)
IN_PYTHON = "parse them first with pandas.to_datetime(times, format={format!r})"
IN_COMMAND = "say how they are written with --date-format {format}"


def looks_like_time(text: str, date_format: str | None = None) -> bool:
    """Return whether text may be a time: a whole number or a date.

    Examples
    --------
    >>> [looks_like_time(text) for text in ("2001", "2001-05", "May 2001", "country")]
    [True, True, True, False]
    >>> looks_like_time("X2001", "X%Y")
    True
    """
    text = text.strip()
    if date_format is None and any(pattern.fullmatch(text) for pattern in _ALONE):
        return True
    for form in _NAMED if date_format is None else (date_format,):
        with suppress(ValueError):
            datetime.strptime(text, form)
            return True
    return False


def text_times(
    texts: Any, name: str, *, date_format: str | None = None, advice: str = IN_PYTHON,
    first_row: int = 0,
) -> pd.Index:  # fmt: skip
    """Parse dates or periods with one format; refuse ambiguous text.

    Parameters
    ----------
    texts : sequence of str
    name : str
        Name for messages.
    date_format : str, optional
        Format, as for `datetime.strptime`.
    advice : str
        Advice, with ``{format}`` as placeholder for the format.
    first_row : int
        Number of the first row in messages.

    Returns
    -------
    DatetimeIndex or PeriodIndex

    Examples
    --------
    >>> text_times(["31/12/2024", "01/02/2025"], "day").strftime("%d %B").tolist()
    ['31 December', '01 February']
    """
    import pandas as pd

    texts = [str(text).strip() for text in texts]
    if date_format is not None:
        return _by_format(texts, date_format, name, first_row)
    distinct = list(dict.fromkeys(texts))
    if all(_ISO.fullmatch(text) for text in distinct):
        return _iso(texts, name, first_row)
    if all(_QUARTER.fullmatch(text) for text in distinct):
        return pd.PeriodIndex([re.sub("[- ]", "", text).upper() for text in texts], freq="Q")
    if all(_YEAR_FIRST.fullmatch(text) for text in distinct):
        return _iso([_padded(_YEAR_FIRST, text, (1, 3, 5), 6) for text in texts], name, first_row)
    if all(_YEAR_LAST.fullmatch(text) for text in distinct):
        order = _order(distinct, name, advice)
        return _iso([_padded(_YEAR_LAST, text, order, 5) for text in texts], name, first_row)
    if all(_MONTH_YEAR.fullmatch(text) for text in distinct):
        return _iso([_padded(_MONTH_YEAR, text, (2, 1), None) for text in texts], name, first_row)
    short = next((text for text in distinct if _SHORT_YEAR.fullmatch(text)), None)
    if short is not None:
        raise ReadingError(
            f"{name} holds dates with years of two digits, such as {quoted(short)}; "
            f"{advice.format(format='%d/%m/%y')}."
        )
    for named in _NAMED:
        times = pd.to_datetime(pd.Series(distinct, dtype=object), format=named, errors="coerce")
        if not times.isna().any():
            return _by_format(texts, named, name, first_row)
    raise _no_date(texts, name, advice, first_row)


def _by_format(texts: list[str], date_format: str, name: str, first_row: int) -> pd.Index:
    import pandas as pd

    try:
        times = pd.to_datetime(
            pd.Series(texts, dtype=object), format=date_format, errors="coerce", exact=True
        )
    except ValueError as error:
        raise ReadingError(
            f"The date format {date_format!r} cannot be used: {error}. Write it as %d/%m/%Y, "
            "with %H:%M for times of day."
        ) from None
    bad = times.isna().to_numpy()
    if bad.any():
        row = int(bad.argmax())
        raise ReadingError(
            f"{name} is {quoted(texts[row])} in row {row + first_row}, which the date format "
            f"{date_format!r} does not describe. Correct the cell or the format."
        )
    return pd.DatetimeIndex(times)


def _iso(texts: list[str], name: str, first_row: int) -> pd.Index:
    import pandas as pd

    zones = {bool(re.search(r":\d{2}.*(Z|[+-]\d{2}(:?\d{2})?)$", text)) for text in set(texts)}
    if len(zones) > 1:
        raise ReadingError(
            f"{name} mixes time zones: some times have one and some do not. Write all alike, "
            "for instance in UTC."
        )
    series = pd.Series(texts, dtype=object)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FutureWarning)
            times = pd.to_datetime(series, format="ISO8601", errors="coerce", utc=False)
        mixed = times.dtype == object  # until pandas 3, which refuses
    except ValueError as error:
        mixed = "time zone" in str(error).lower() or "timezone" in str(error).lower()
        if not mixed:
            raise
    if mixed:
        raise ReadingError(
            f"{name} mixes time zones. Convert all times to one zone first, for instance "
            "with pandas.to_datetime(times, utc=True)."
        )
    bad = np.asarray(times.isna())
    if bad.any():
        row = int(bad.argmax())
        raise ReadingError(
            f"{name} is {quoted(texts[row])} in row {row + first_row}, which is not a day of the "
            "calendar. Correct it."
        )
    return pd.DatetimeIndex(times)


def _padded(pattern: re.Pattern[str], text: str, order: tuple[int, ...], clock: int | None) -> str:
    """Return the parts of a date in ISO order, with leading zeros."""
    found = pattern.fullmatch(text)
    assert found is not None  # callers have matched it
    parts = [found.group(g) for g in order]
    day = "-".join(part.zfill(2) for part in parts if part is not None)
    hours = found.group(clock) if clock is not None else None
    if not hours:
        return day
    first, _, rest = hours[1:].partition(":")
    return f"{day}T{first.zfill(2)}:{rest}"


def _order(distinct: list[str], name: str, advice: str) -> tuple[int, int, int]:
    """Groups of (year, month, day) in dates with the year last."""
    found = [_YEAR_LAST.fullmatch(text) for text in distinct]
    parts = np.array([[int(m.group(1)), int(m.group(3))] for m in found if m is not None])
    mark = found[0].group(2) if found[0] is not None else "/"
    day_first, month_first = f"%d{mark}%m{mark}%Y", f"%m{mark}%d{mark}%Y"
    late_first, late_second = bool((parts[:, 0] > 12).any()), bool((parts[:, 1] > 12).any())
    if late_first and late_second:
        one = distinct[int((parts[:, 0] > 12).argmax())]
        other = distinct[int((parts[:, 1] > 12).argmax())]
        raise ReadingError(
            f"{name} holds {quoted(one)} with the day first and {quoted(other)} with the month "
            "first. Write all dates alike, best as 2024-01-31."
        )
    if late_first:
        return (4, 3, 1)
    if late_second or (parts[:, 0] == parts[:, 1]).all():
        return (4, 1, 3)
    example = distinct[int((parts[:, 0] != parts[:, 1]).argmax())]
    raise ReadingError(
        f"{name} holds dates such as {quoted(example)}, which may be day or month first; "
        f"{advice.format(format=day_first)}, or {month_first!r} if the month comes first."
    )


def _no_date(texts: list[str], name: str, advice: str, first_row: int) -> ReadingError:
    patterns = (_ISO, _QUARTER, _YEAR_FIRST, _YEAR_LAST, _MONTH_YEAR)
    # The cell that does not follow the others is the one to look at.
    counts = [sum(bool(p.fullmatch(text)) for text in texts) for p in patterns]
    row = 0
    if max(counts):
        usual = patterns[int(np.argmax(counts))]
        row = next(i for i, text in enumerate(texts) if not usual.fullmatch(text))
    mixed = any(p.fullmatch(texts[row]) for p in patterns)
    what = "not written as the other dates are" if mixed else "text that is not a date"
    return ReadingError(
        f"{name} is {quoted(texts[row])} in row {row + first_row}: {what}. Write dates as "
        f"2024-01-31 or 2024-01, or {advice.format(format='%d/%m/%Y')}."
    )


def header_times(names: Sequence[str], where: str, date_format: str | None = None) -> Any:
    """Parse column names as times: integers stay integers, everything else is parsed as dates.

    Parameters
    ----------
    names : sequence of str
        Each of which `looks_like_time`.
    where : str
        Their file, for messages.
    date_format : str, optional
        Format of dates.

    Returns
    -------
    array of int, DatetimeIndex or PeriodIndex

    Examples
    --------
    >>> header_times(["2001", "2002"], "a.csv").tolist()
    [2001, 2002]
    """
    if date_format is None and all(_WHOLE.fullmatch(name.strip()) for name in names):
        return np.array([int(name) for name in names], dtype=np.int64)
    return text_times(
        names, f"The header of {where} (its times as a column)", date_format=date_format,
        advice=IN_COMMAND, first_row=1,
    )  # fmt: skip


def column_times(column: Any, name: str, where: str, date_format: str | None = None) -> Any:
    """Parse a column of a file as times: integers stay integers, text is parsed as dates.

    Parameters
    ----------
    column : pyarrow array
    name, where : str
        The column and its file, for messages.
    date_format : str, optional
        Format of dates.

    Returns
    -------
    array of int or float, DatetimeIndex or PeriodIndex

    Examples
    --------
    >>> import pyarrow as pa
    >>> column_times(pa.array(["9007199254740993"]), "t", "a.csv").tolist()
    [9007199254740993]
    """
    import pandas as pd
    import pyarrow as pa
    import pyarrow.compute as pc

    from cavity.io.numbers import MISSING, is_text, text_numbers, type_refusal

    place = f"column {name!r} of {where}"
    kind = column.type
    if pa.types.is_dictionary(kind):
        column = pc.cast(column, kind.value_type)
        kind = column.type
    gap = pc.is_null(column, nan_is_null=True)
    if is_text(kind):
        text = pc.utf8_trim_whitespace(column)
        gap = pc.or_(gap, pc.is_in(text, value_set=pa.array((*MISSING, "NaT"), kind)))
    gaps = np.array(gap.to_numpy(zero_copy_only=False), dtype=bool)
    if gaps.any():
        raise ReadingError(
            f"Row {int(gaps.argmax()) + 1}, {place} is missing; every row needs its time. Fill it "
            "in, or delete such rows."
        )
    if pa.types.is_integer(kind):
        return _whole(column, place)
    if pa.types.is_floating(kind):
        return np.array(column.to_numpy(zero_copy_only=False), dtype=float)
    if pa.types.is_decimal(kind):
        column, kind = pc.cast(column, pa.string()), pa.string()
    if is_text(kind):
        if date_format is None:
            text = pc.utf8_trim_whitespace(column)
            if pc.all(pc.match_substring_regex(text, r"^[+-]?[0-9]+$")).as_py():
                return _whole(pc.replace_substring_regex(text, r"^\+", ""), place)
            numbers = text_numbers(text)
            if not numbers.bad.any():
                return numbers.values
        return text_times(
            column.to_pylist(), f"Column {name!r} of {where}", date_format=date_format,
            advice=IN_COMMAND, first_row=1,
        )  # fmt: skip
    if pa.types.is_timestamp(kind) or pa.types.is_date(kind):
        return pd.DatetimeIndex(pd.to_datetime(column.to_pandas()))
    if "period" in str(kind):
        return pd.PeriodIndex(column.to_pandas())
    raise type_refusal(name, where, kind)


def _whole(column: Any, place: str) -> np.ndarray:
    """Return whole numbers unchanged; refuse those beyond 64 bits."""
    import pyarrow as pa
    import pyarrow.compute as pc

    try:
        return np.array(pc.cast(column, pa.int64()).to_numpy(), dtype=np.int64)
    except pa.ArrowInvalid:
        raise ReadingError(
            f"{place[0].upper()}{place[1:]} holds times beyond 9.2e18, where whole numbers no "
            "longer fit into 64 bits; subtract the first time from all of them."
        ) from None
