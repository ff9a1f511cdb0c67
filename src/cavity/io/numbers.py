"""Columns of any type as floats; errors name the cell and the option that helps."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import numpy as np

from cavity.io.words import ReadingError, quoted, shell_word

# Missing values in files of numbers. Names of rows are never compared with these.
MISSING = (
    "", "NA", "N/A", "n/a", "#N/A", "#NA", "<NA>", "NaN", "nan", "-NaN", "-nan", "NULL", "null",
    "None",
)  # fmt: skip
_EXPONENT = r"([eE][+-]?[0-9]+)?"
_INFINITE = r"[+-]?(inf|Inf|INF|infinity|Infinity)"


@dataclass(frozen=True)
class NumberFormat:
    """Format of numbers in a text file.

    Attributes
    ----------
    decimal : str
        Between whole part and fraction.
    thousands : str or None
        Between groups of three digits.
    """

    decimal: str = "."
    thousands: str | None = None

    def __post_init__(self) -> None:
        """Refuse marks that are ambiguous."""
        for option, mark in (("--decimal", self.decimal), ("--thousands", self.thousands)):
            if mark is not None and (len(mark) != 1 or mark.isalnum() or mark in "+-"):
                raise ReadingError(f"{option} must be one mark such as ',' or '.', not {mark!r}.")
        if self.decimal == self.thousands:
            raise ReadingError(f"--decimal and --thousands cannot both be {self.decimal!r}.")

    @property
    def pattern(self) -> str:
        """Pattern of a complete cell that is a number."""
        point = re.escape(self.decimal)
        whole = "[0-9]+"
        if self.thousands is not None:
            whole = f"([0-9]{{1,3}}({re.escape(self.thousands)}[0-9]{{3}})+|[0-9]+)"
        finite = f"[+-]?({whole}({point}[0-9]*)?|{point}[0-9]+){_EXPONENT}"
        return f"^({finite}|{_INFINITE})$"


PLAIN = NumberFormat()


@dataclass(frozen=True)
class Numbers:
    """A column as floats.

    Attributes
    ----------
    values : array of float
        NaN where the cell is empty or no number.
    bad : array of bool
        True where a cell is neither empty nor a number.
    """

    values: np.ndarray
    bad: np.ndarray


def text_numbers(column: Any, form: NumberFormat = PLAIN) -> Numbers:
    """Convert text cells to numbers.

    Parameters
    ----------
    column : pyarrow array of strings
    form : NumberFormat

    Examples
    --------
    >>> import pyarrow as pa
    >>> text_numbers(pa.array(["3,14", "NA", "x"]), NumberFormat(decimal=",")).values
    array([3.14,  nan,  nan])
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    text = pc.utf8_trim_whitespace(column)
    gap = pc.or_(pc.is_null(text), pc.is_in(text, value_set=pa.array(MISSING, text.type)))
    valid = pc.fill_null(pc.match_substring_regex(text, form.pattern), False)
    lower = pc.utf8_lower(text)
    truth = pc.or_(pc.equal(lower, "true"), pc.equal(lower, "false"))
    if not pc.any(valid).as_py() and pc.all(pc.or_(gap, truth)).as_py():
        values = pc.cast(pc.equal(lower, "true"), pa.float64())
        values = pc.if_else(gap, pa.scalar(None, pa.float64()), values)
        return Numbers(_floats(values), np.zeros(len(column), dtype=bool))
    number = pc.if_else(valid, text, pa.scalar(None, text.type))
    if form.thousands is not None:
        number = pc.replace_substring(number, form.thousands, "")
    if form.decimal != ".":
        number = pc.replace_substring(number, form.decimal, ".")
    number = pc.replace_substring_regex(number, r"^\+", "")
    bad = pc.and_not(pc.invert(valid), gap)
    return Numbers(_floats(pc.cast(number, pa.float64())), _booleans(bad))


def column_numbers(column: Any, form: NumberFormat = PLAIN) -> Numbers | None:
    """Convert a column of a file to floats; None if its type is not numeric.

    Parameters
    ----------
    column : pyarrow array
        Text is read as `form` says; integers, floats, decimals and booleans are numbers, and
        so are columns without any value.
    form : NumberFormat

    Examples
    --------
    >>> import pyarrow as pa
    >>> column_numbers(pa.array([True, None])).values
    array([ 1., nan])
    >>> column_numbers(pa.array([[1, 2]])) is None
    True
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    kind = column.type
    if pa.types.is_dictionary(kind):
        column = pc.cast(column, kind.value_type)
        kind = column.type
    if is_text(kind):
        return text_numbers(column, form)
    if pa.types.is_null(kind):
        return Numbers(np.full(len(column), np.nan), np.zeros(len(column), dtype=bool))
    if pa.types.is_decimal(kind):
        # By way of text: a decimal rounds to the nearest float, as it would from a CSV.
        return text_numbers(pc.cast(column, pa.string()))
    if pa.types.is_boolean(kind) or pa.types.is_integer(kind) or pa.types.is_floating(kind):
        return Numbers(
            _floats(pc.cast(column, pa.float64(), safe=False)), np.zeros(len(column), dtype=bool)
        )
    return None


def is_text(kind: Any) -> bool:
    """Return whether an Arrow type is a string type."""
    import pyarrow as pa

    is_view = getattr(pa.types, "is_string_view", lambda kind: False)  # from pyarrow 16 on
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or is_view(kind))


def _floats(column: Any) -> np.ndarray:
    return np.array(column.to_numpy(zero_copy_only=False), dtype=float)


def _booleans(column: Any) -> np.ndarray:
    return np.array(column.to_numpy(zero_copy_only=False), dtype=bool)


def remedy(cell: str) -> str | None:
    """Return the option that makes a cell a number, in words; None if there is none.

    Examples
    --------
    >>> remedy("3,14")
    "if ',' is the decimal mark, add --decimal ','"
    """
    cell = cell.strip()
    digits = r"[+-]?[0-9]"
    if re.fullmatch(rf"{digits}{{1,3}}(,[0-9]{{3}})+\.[0-9]+", cell):
        return "if ',' separates thousands, add --thousands ','"
    if re.fullmatch(rf"{digits}{{1,3}}(\.[0-9]{{3}})+,[0-9]+", cell):
        return "if it is written with '.' for thousands, add --decimal ',' --thousands '.'"
    if re.fullmatch(rf"{digits}{{1,3}}(\.[0-9]{{3}}){{2,}}", cell):
        return "if '.' separates thousands, add --decimal ',' --thousands '.'"
    if re.fullmatch(rf"{digits}{{1,3}}(,[0-9]{{3}}){{2,}}", cell):
        return "if ',' separates thousands, add --thousands ','"
    if re.fullmatch(rf"{digits}{{1,3}},[0-9]{{3}}", cell):
        return (
            "if ',' is the decimal mark, add --decimal ','; if it separates thousands, "
            "--thousands ','"
        )
    if re.fullmatch(rf"{digits}*,[0-9]+([eE][+-]?[0-9]+)?", cell):
        return "if ',' is the decimal mark, add --decimal ','"
    found = re.fullmatch(rf"{digits}{{1,3}}(([ '_\u00a0\u2009\u202f\u2019])[0-9]{{3}})+(.*)", cell)
    if found and re.fullmatch(r"([.,][0-9]+)?", found.group(3)):
        mark = found.group(2)
        more = " --decimal ','" if found.group(3).startswith(",") else ""
        return f'if {mark!r} separates thousands, add --thousands "{mark}"{more}'
    return None


def refusal(name: str, where: str, column: Any, numbers: Numbers, rows: Any) -> ReadingError:
    """Return the error for a column with cells that are not numbers.

    Parameters
    ----------
    name : str
        Name of the column.
    where : str
        Path of the file.
    column : pyarrow array
    numbers : Numbers
    rows : sequence
        Names of the rows.
    """
    row = int(numbers.bad.argmax())
    cell = str(column[row].as_py())
    place = f"column {name!r} of {where}"
    option = remedy(cell)
    if option is not None:
        return ReadingError(
            f"Row {rows[row]!s}, {place} is {quoted(cell)}, not a number as it stands; {option}."
        )
    if numbers.bad.sum() * 2 < np.isfinite(numbers.values).sum():
        return ReadingError(
            f"Row {rows[row]!s}, {place} is {quoted(cell)}, not a number; correct it (empty is "
            f"missing), or leave the column out with --exclude {shell_word(name)}."
        )
    return ReadingError(
        f"{place[0].upper()}{place[1:]} holds text, not numbers (row {rows[row]!s} is "
        f"{quoted(cell)}); leave it out with --exclude {shell_word(name)}, or name the rows "
        f"by it with --id-column {shell_word(name)}."
    )


_KINDS = (
    ("timestamp", "dates", "turn them into numbers such as days since a date"),
    ("date", "dates", "turn them into numbers such as days since a date"),
    ("period", "periods", "turn them into numbers such as months since a date"),
    ("duration", "durations", "turn them into numbers of seconds or days"),
    ("time", "times of day", "turn them into numbers of seconds or hours"),
)


def type_refusal(name: str, where: str, kind: Any) -> ReadingError:
    """Return the error for a column of a type that is not numeric."""
    words = str(kind)
    for start, what, advice in _KINDS:
        if start in words.partition("[")[0]:
            return ReadingError(
                f"Column {name!r} of {where} holds {what}, not numbers; leave it out with "
                f"--exclude {shell_word(name)}, or {advice} first."
            )
    return ReadingError(
        f"Column {name!r} of {where} holds values of type {words[:60]}, not numbers; leave it out "
        f"with --exclude {shell_word(name)}, or turn them into numbers first."
    )
