"""What each column of a table is taken for, and its cells as numbers that a model can use.

The rule, from the column's own values: true and false, text and pandas' categories are categories,
ordinal if pandas has them ordered;
numbers are measurements, but those of two values, which are categories too. Whole numbers are
measurements unless the user says that they are counts or categories; a note asks about those of
few values. Columns of date types and columns that mix text with numbers are refused. Dates as text
are categories here; the command line refuses those in digits, such as 31/12/2024.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from decimal import Decimal
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any

import numpy as np

from cavity.io.frames import as_float
from cavity.io.words import ReadingError, listed, quoted, shell_word

if TYPE_CHECKING:
    import pandas as pd

CONTINUOUS, ORDINAL, CATEGORICAL, COUNT, OVERDISPERSED = KINDS = (
    "continuous",
    "ordinal",
    "categorical",
    "count",
    "overdispersed",
)
EMPTY = "empty"
# Whole numbers of no more values than this are asked about; a category column may have so many.
FEW_VALUES = 10
MOST_CATEGORIES = 1000
MOST_ORDERED = 50
# More distinct texts than this, and than half the rows, are names of the rows.
FEW_NAMES = 50
LARGEST_COUNT = 1e9
# A measurement that is one value in this share of the rows is asked about.
SPIKE = 0.25
# Text that so large a share of the rows has not is asked about.
MANY_GAPS = 0.3
# Why a number is taken for a category unasked.
TWO_VALUES = "numbers of two values"
_NUMBER = re.compile(r"-?[0-9]+(\.[0-9]+)?")


@dataclass(frozen=True)
class Column:
    """One column as it was taken.

    Attributes
    ----------
    name : str
    kind : {"continuous", "ordinal", "categorical", "count", "overdispersed", "empty"}
        A column without any value is empty, and has no part in the model.
    reason : str
        Why, in words.
    categories : tuple of str
        Of a categorical column, sorted, numbers by size; of an ordinal one in order.
    note : str
        What the user may want to look at; empty if nothing.
    proposed : str
        What a column that is asked about may be better taken for; empty if nothing.
    thresholds : tuple of float
        Of an ordinal column, between the intervals of its categories: normal quantiles of their
        cumulative shares.
    """

    name: str
    kind: str
    reason: str
    categories: tuple[str, ...] = ()
    note: str = ""
    proposed: str = ""
    thresholds: tuple[float, ...] = ()

    @property
    def measured(self) -> bool:
        """Whether it is in the continuous block: a measurement, or an ordinal column's latent."""
        return self.kind in (CONTINUOUS, ORDINAL)

    @property
    def ends(self) -> np.ndarray:
        """Ends of the intervals of an ordinal column's categories."""
        return np.array([-np.inf, *self.thresholds, np.inf])

    def to_plain(self) -> dict[str, Any]:
        """As plain values, for a file."""
        lists = {"categories": list(self.categories), "thresholds": list(self.thresholds)}
        return asdict(self) | lists

    @classmethod
    def from_plain(cls, plain: Mapping[str, Any]) -> Column:
        """The column that `to_plain` wrote; ValueError if it is none."""
        try:
            categories = tuple(map(str, plain["categories"]))
            thresholds = tuple(map(float, plain["thresholds"]))
            found = cls(**{**plain, "categories": categories, "thresholds": thresholds})
        except (TypeError, KeyError) as error:
            raise ValueError(f"a column of the file is damaged: {error}") from error
        if found.kind not in (*KINDS, EMPTY):
            raise ValueError(f"a column of the file is of an unknown kind, {found.kind!r}")
        return found


@dataclass(frozen=True)
class Cells:
    """A table's cells by what they are; gaps are NaN, or -1 among codes.

    Attributes
    ----------
    continuous, counts, overdispersed : arrays of float, shape (n, columns)
        Ordinal columns are among the continuous ones: the mean of a standard normal variable within
        the interval of the category.
    codes : array of int, shape (n, columns)
    unseen : dict of str to int
        Of categorical columns: cells with a category that was not in the fit, taken as missing.
    errors : array of float, shape (n, columns), or None
        Standard errors of the continuous cells, zero where they are exact; None without any.
    low, high : array of float, shape (n, columns), or None
        Intervals of the latent values of ordinal cells, infinite elsewhere; None without any.
    """

    continuous: np.ndarray
    codes: np.ndarray
    counts: np.ndarray
    overdispersed: np.ndarray
    unseen: dict[str, int] = field(default_factory=dict)
    errors: np.ndarray | None = None
    low: np.ndarray | None = None
    high: np.ndarray | None = None

    def __len__(self) -> int:
        return len(self.continuous)

    def scaled_errors(self, scale: np.ndarray) -> np.ndarray | None:
        """Return standard errors in units of `scale`; None without any."""
        return None if self.errors is None else self.errors / scale


def number_text(value: float) -> str:
    """A number as the name of a category.

    Examples
    --------
    >>> number_text(1.0), number_text(0.25)
    ('1', '0.25')
    """
    value = float(value)
    return str(int(value)) if abs(value) < 1e15 and value == int(value) else repr(value)


def in_order(categories: set[str]) -> list[str]:
    """Names of categories, sorted; by size if all are numbers.

    Examples
    --------
    >>> in_order({"10", "9", "09"}), in_order({"10", "9", "a"})
    (['09', '9', '10'], ['10', '9', 'a'])
    """
    if all(_NUMBER.fullmatch(text) for text in categories):
        return sorted(categories, key=lambda text: (float(text), text))
    return sorted(categories)


def _place(row: int, name: str, rows: Any) -> str:
    return f"row {row if rows is None else rows[row]!s}, column {name!r}"


def _is_missing(value: Any) -> bool:
    import pandas as pd

    return (
        value is None
        or value is pd.NA
        or value is pd.NaT
        or value is np.ma.masked
        or (isinstance(value, Real | Decimal) and value != value)
    )


def plain_values(
    column: pd.Series, name: str, rows: Any = None, as_text: bool = False
) -> tuple[str, np.ndarray]:
    """A column as ("number", floats with NaN) or ("text", objects with None for gaps).

    Parameters
    ----------
    column : pandas.Series
        Of any dtype.
    name : str
    rows : sequence, optional
        What messages call the rows; their numbers from 0 by default.
    as_text : bool
        Whether numbers are names of categories.
    """
    import pandas as pd

    kind = column.dtype
    words = str(kind).lower()
    if any(word in words for word in ("datetime", "timestamp", "date3", "date6", "period")):
        raise ReadingError(
            f"Column {name!r} holds dates, which are neither amounts nor categories; leave it out, "
            "or turn it into a number first, such as days since a date, or a category, such as "
            "the month."
        )
    if any(word in words for word in ("timedelta", "duration", "time64", "time32")):
        raise ReadingError(
            f"Column {name!r} holds times or durations; turn it into a number of seconds or days "
            "first, or leave it out."
        )
    if isinstance(kind, pd.CategoricalDtype) or pd.api.types.is_bool_dtype(kind):
        return "text", _texts(column.astype(object).to_numpy(), name)
    if pd.api.types.is_complex_dtype(kind):
        raise ValueError(f"Complex data not supported: column {name!r}.")
    if pd.api.types.is_numeric_dtype(kind) and "decimal" not in words:
        numbers = column.to_numpy(dtype=float, na_value=np.nan)
        if not as_text:
            return "number", numbers
        _refuse_infinite(numbers, name, rows)
        return "text", _texts(column.astype(object).to_numpy(), name)
    return _objects(column.astype(object).to_numpy(), name, rows, as_text)


def _texts(values: np.ndarray, name: str) -> np.ndarray:
    """Names of categories as text, None where missing; two that are written alike are refused."""
    out = np.empty(len(values), dtype=object)
    first: dict[str, bool] = {}
    for row, value in enumerate(values):
        if _is_missing(value):
            continue
        is_text = isinstance(value, str)
        number = isinstance(value, Real | Decimal) and not isinstance(value, bool | np.bool_)
        exact = is_text or not number or isinstance(value, Integral)
        out[row] = text = str(value) if exact else number_text(value)
        if first.setdefault(text, is_text) != is_text:
            raise ReadingError(
                f"Column {name!r} has two categories that are written {quoted(text)}: one is text "
                "and one is not. Write all categories as text."
            )
    return out


def _objects(
    values: np.ndarray, name: str, rows: Any, as_text: bool = False
) -> tuple[str, np.ndarray]:
    """Python's own values: all numbers, all text, or refused where they are mixed."""
    import datetime

    first: dict[str, int] = {}
    for row, value in enumerate(values):
        if isinstance(value, datetime.date | np.datetime64 | datetime.timedelta | np.timedelta64):
            raise ReadingError(
                f"Column {name!r} holds dates ({_place(row, name, rows)} is {quoted(value)}); "
                "leave it out, or turn it into a number first, such as days since a date."
            )
        if _is_missing(value):
            continue
        if isinstance(value, bool | np.bool_ | str):
            first.setdefault("text", row)
        elif isinstance(value, Real | Decimal):
            first.setdefault("number", row)
        else:
            raise TypeError(
                f"{_place(row, name, rows)[0].upper()}{_place(row, name, rows)[1:]} holds a "
                f"{type(value).__name__}: a cell's argument must be a string or a real number. "
                "Turn it into one of these."
            )
        if len(first) == 2:
            number, text = first["number"], first["text"]
            raise ReadingError(
                f"Column {name!r} mixes numbers and text: {_place(number, name, rows)} is "
                f"{quoted(values[number])}, {_place(text, name, rows)} is {quoted(values[text])}. "
                "Correct the odd ones, or make the whole column text if these are categories."
            )
    if "text" in first:
        return "text", _texts(values, name)
    numbers = np.array([np.nan if _is_missing(v) else as_float(v) for v in values])
    if not as_text:
        return "number", numbers
    _refuse_infinite(numbers, name, rows)
    return "text", _texts(values, name)


def _empty_cells_note(name: str, share: float) -> str:
    return (
        f"column {name!r} has no value in {share:.0%} of the rows. These values are treated as "
        "unknown; if an empty cell means 'none', write that into the cells"
    )


def take_column(
    column: pd.Series,
    name: str,
    wanted: str | None = None,
    rows: Any = None,
    n: int | None = None,
) -> Column:
    """Decide what a column is.

    Parameters
    ----------
    column : pandas.Series
    name : str
    wanted : str, optional
        What the user says it is.
    rows : sequence, optional
        What messages call the rows.
    n : int, optional
        Rows of the table, where the column has each of its values once.

    Examples
    --------
    >>> import pandas as pd
    >>> take_column(pd.Series(["a", None, "b"]), "town").categories
    ('a', 'b')
    >>> take_column(pd.Series([1.5, 2.5, 4.0]), "size").kind
    'continuous'
    """
    import pandas as pd

    whole_column = n is None
    ordered = isinstance(column.dtype, pd.CategoricalDtype) and bool(column.dtype.ordered)
    if wanted == ORDINAL or (wanted is None and ordered and whole_column):
        found = _ordinal(column, name, rows, wanted, ordered, whole_column)
        if found is not None:
            return found
    form, values = plain_values(column, name, rows, wanted == CATEGORICAL)
    n = len(values) if n is None else n
    if form == "text":
        if wanted not in (None, CATEGORICAL):
            row = int(np.argmax([value is not None for value in values]))
            raise ReadingError(
                f"Column {name!r} cannot be {wanted}: it holds text ({_place(row, name, rows)} is "
                f"{quoted(values[row])})."
            )
        seen = in_order({value for value in values if value is not None})
        if not seen:
            return Column(name, EMPTY, "it has no value")
        found = _categorical(name, tuple(seen), n, "text" if wanted is None else "as told")
        empty = sum(value is None for value in values) / n if whole_column else 0.0
        return replace(found, note=_empty_cells_note(name, empty)) if empty >= MANY_GAPS else found
    _refuse_infinite(values, name, rows)
    there = values[np.isfinite(values)]
    if not there.size:
        return Column(name, EMPTY, "it has no value")
    distinct = np.unique(there)
    if wanted is None and distinct.size == 2:
        names = tuple(number_text(value) for value in distinct)
        note = (
            f"column {name!r} has two values, {names[0]} and {names[1]}, and is taken as "
            "categorical"
        )
        return Column(name, CATEGORICAL, TWO_VALUES, names, note)
    if wanted in (COUNT, OVERDISPERSED):
        _check_counts(values, name, rows)
        return Column(name, wanted, "as told")
    if wanted == CONTINUOUS:
        return Column(name, CONTINUOUS, "as told")
    note = proposed = ""
    whole = bool(np.all(distinct == np.floor(distinct)))
    if 2 < distinct.size <= FEW_VALUES and n > 2 * FEW_VALUES:
        proposed = CATEGORICAL
        note = f"column {name!r} has {distinct.size} values and is taken as continuous"
        note += ", not as 'count'" if whole and distinct[0] >= 0.0 else ""
    values_of, times = np.unique(there, return_counts=True)
    share = times.max() / there.size
    if not note and there.size > 2 * FEW_VALUES and share >= SPIKE and distinct.size > 1:
        note = (
            f"column {name!r} is {number_text(values_of[times.argmax()])} in {share:.0%} of its "
            "rows, and a cluster of these may take the clustering over; if they are of another "
            "kind, such as none at all, leave the column out or give them a column of their own"
        )
    reason = "whole numbers" if whole else "numbers"
    return Column(name, CONTINUOUS, reason, note=note, proposed=proposed)


def _ordinal(
    column: pd.Series, name: str, rows: Any, wanted: str | None, ordered: bool, whole: bool
) -> Column | None:
    """Return an ordinal column; None where nobody asked and there is one category."""
    from scipy.special import ndtri

    if not whole:
        raise ReadingError(
            f"Column {name!r} cannot be ordinal in sharded data. Take it as categorical."
        )
    _, values = plain_values(column, name, rows, True)
    seen = {value for value in values if value is not None}
    if ordered:
        names = list(_texts(np.array(column.cat.categories, object), name))
        names = [text for text in names if text in seen]
    elif all(_NUMBER.fullmatch(text) for text in seen) or seen <= {"False", "True"}:
        names = in_order(seen)
    else:
        row = int(np.argmax([v is not None and not _NUMBER.fullmatch(v) for v in values]))
        raise ReadingError(
            f"Column {name!r} cannot be ordinal: it holds text ({_place(row, name, rows)} is "
            f"{quoted(values[row])}), whose order is unknown. Write the categories as numbers, or "
            "make it an ordered pandas categorical."
        )
    if len(names) < 2:
        if wanted is None or not names:
            return None
        raise ReadingError(
            f"Column {name!r} has the category {quoted(names[0])} alone: an ordinal column needs "
            "two. Leave it out."
        )
    if len(names) > MOST_ORDERED:
        raise ReadingError(
            f"Column {name!r} has {len(names):,} ordered categories; at most {MOST_ORDERED} can be "
            "told apart. Take it as continuous, or group its categories."
        )
    counts = np.array([np.sum(values == text) for text in names], dtype=float)
    thresholds = ndtri(np.cumsum(counts)[:-1] / counts.sum())
    return Column(
        name,
        ORDINAL,
        "ordered categories" if wanted is None else "as told",
        tuple(names),
        thresholds=tuple(thresholds.tolist()),
    )


def _categorical(name: str, names: tuple[str, ...], n: int, reason: str) -> Column:
    if len(names) > MOST_CATEGORIES:
        raise ReadingError(
            f"Column {name!r} has {len(names):,} categories in {n:,} rows; at most "
            f"{MOST_CATEGORIES:,} can be told apart. Group the rare ones, or leave the column out."
        )
    if len(names) > FEW_NAMES and len(names) > 0.5 * n and reason == "text":
        raise ReadingError(
            f"Column {name!r} has {len(names):,} different texts in {n:,} rows: it looks like the "
            "names of the rows. Make it the index (--id-column on the command line), or leave it "
            f"out (--exclude {shell_word(name)}); if it is a category all the same, say so in "
            "feature_types."
        )
    return Column(name, CATEGORICAL, reason, names)


def _refuse_infinite(values: np.ndarray, name: str, rows: Any) -> None:
    bad = np.isinf(values)
    if bad.any():
        place = _place(int(bad.argmax()), name, rows)
        raise ReadingError(f"Input X contains infinity: {place}. Replace infinite values first.")


def _check_counts(values: np.ndarray, name: str, rows: Any) -> None:
    for bad, words in (
        (values < 0.0, "below zero"),
        (np.isfinite(values) & (values != np.floor(values)), "no whole number"),
        (values > LARGEST_COUNT, "too large for a count"),
    ):
        if bad.any():
            row = int(bad.argmax())
            raise ReadingError(
                f"{_place(row, name, rows).capitalize().replace(repr(name).lower(), repr(name))} "
                f"is {number_text(values[row])}, {words}: counts are whole numbers from zero on. "
                "Correct it, or take the column as continuous."
            )


def cells_of(frame: pd.DataFrame, columns: list[Column], rows: Any = None) -> Cells:
    """The cells of a table whose columns are known, such as new rows of a fit's table.

    Categories that are not among a column's own are taken as missing, and counted.
    """
    import pandas as pd

    parts: dict[str, list[np.ndarray]] = {kind: [] for kind in KINDS}
    unseen: dict[str, int] = {}
    n = len(frame)
    infinite = np.full(n, np.inf)
    ends: list[tuple[np.ndarray, np.ndarray]] = []
    for j, column in enumerate(columns):
        named = column.kind in (CATEGORICAL, ORDINAL)
        form, values = plain_values(frame.iloc[:, j], column.name, rows, named)
        if column.kind == EMPTY:
            continue
        if named:
            codes = pd.Index(column.categories, dtype=object).get_indexer(
                pd.Index(values, dtype=object)
            )
            lost = int(np.sum((codes < 0) & np.array([v is not None for v in values], dtype=bool)))
            if lost:
                unseen[column.name] = lost
            codes = np.asarray(codes, dtype=np.int64)
            if column.kind == CATEGORICAL:
                parts[CATEGORICAL].append(codes)
                continue
            known = codes >= 0
            parts[CONTINUOUS].append(np.where(known, _scores(column)[codes], np.nan))
            ends.append(
                (
                    np.where(known, column.ends[codes], -np.inf),
                    np.where(known, column.ends[codes + 1], np.inf),
                )
            )
            continue
        if form == "text":
            there = [value is not None for value in values]
            if any(there):
                row = int(np.argmax(there))
                raise ReadingError(
                    f"Column {column.name!r} was taken as {column.kind}, but "
                    f"{_place(row, column.name, rows)} is {quoted(values[row])}, not a number."
                )
            values = np.full(len(values), np.nan)
        _refuse_infinite(values, column.name, rows)
        if column.kind in (COUNT, OVERDISPERSED):
            _check_counts(values, column.name, rows)
        parts[column.kind].append(values)
        if column.kind == CONTINUOUS:
            ends.append((-infinite, infinite))
    whole = {
        kind: np.column_stack(parts[kind])
        if parts[kind]
        else np.empty((n, 0), dtype=np.int64 if kind == CATEGORICAL else float)
        for kind in KINDS
    }
    low = high = None
    if any(column.kind == ORDINAL for column in columns):
        low, high = (np.column_stack(side) for side in zip(*ends, strict=True))
    return Cells(
        whole[CONTINUOUS], whole[CATEGORICAL], whole[COUNT], whole[OVERDISPERSED], unseen,
        low=low, high=high,
    )  # fmt: skip


def _scores(column: Column) -> np.ndarray:
    """Return the mean of a standard normal variable within each interval."""
    from scipy.special import ndtr

    density = np.exp(-0.5 * column.ends**2) / np.sqrt(2.0 * np.pi)
    scores: np.ndarray = -np.diff(density) / np.diff(ndtr(column.ends))
    return scores


def check_types(feature_types: Any, names: list[str]) -> dict[str, str]:
    """What the user says of columns, by name; refuses unknown columns and kinds."""
    if feature_types is None:
        return {}
    if not isinstance(feature_types, Mapping):
        raise ValueError(
            "feature_types must be a dictionary from column names to kinds, such as "
            f"{{'visits': 'count'}}, not {type(feature_types).__name__}."
        )
    out = {str(name): kind for name, kind in feature_types.items()}
    unknown = [name for name in out if name not in names]
    if unknown:
        raise ValueError(
            f"feature_types names {listed(unknown)}, but X has the columns {listed(names, 12)}."
        )
    for name, kind in out.items():
        if kind not in KINDS:
            raise ValueError(
                f"feature_types says that {name!r} is {kind!r}; a column is one of "
                f"{', '.join(map(repr, KINDS))}."
            )
    return out
