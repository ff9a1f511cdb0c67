"""Cells are numbers, gaps, or named in an error that gives the option which solves it."""

from decimal import Decimal

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from cavity.io.numbers import (
    NumberFormat,
    column_numbers,
    refusal,
    remedy,
    text_numbers,
    type_refusal,
)
from cavity.io.words import ReadingError


def test_text_as_numbers():
    texts = ["1", " -2.5 ", "+3", "4e-2", ".5", "6.", "NA", "", "inf", "1_000", "0x1", "1,5", "nan"]
    got = text_numbers(pa.array(texts))
    np.testing.assert_array_equal(
        got.values,
        [1, -2.5, 3, 0.04, 0.5, 6, np.nan, np.nan, np.inf, np.nan, np.nan, np.nan, np.nan],
    )
    assert [texts[i] for i in np.flatnonzero(got.bad)] == ["1_000", "0x1", "1,5"]


def test_digits_are_rounded_as_python_does():
    texts = ["0.1", "123456789012345678901234567890", "9007199254740993", "2.2250738585072014e-308"]
    np.testing.assert_array_equal(text_numbers(pa.array(texts)).values, [float(t) for t in texts])


def test_truth_is_a_number():
    np.testing.assert_array_equal(
        text_numbers(pa.array(["True", "FALSE", "NA"])).values, [1.0, 0.0, np.nan]
    )
    assert text_numbers(pa.array(["True", "1"])).bad.tolist() == [True, False]


def test_decimal_commas_and_thousands():
    form = NumberFormat(",", ".")
    got = text_numbers(pa.array(["1.234,5", "-3,14", "1.234", "12.34,5", "1,2,3", "7"]), form)
    np.testing.assert_array_equal(got.values, [1234.5, -3.14, 1234.0, np.nan, np.nan, 7.0])
    got = text_numbers(pa.array(["1,234.5", "1,23", "1234", "3.14"]), NumberFormat(".", ","))
    np.testing.assert_array_equal(got.values, [1234.5, np.nan, 1234.0, 3.14])


@pytest.mark.parametrize("marks", [(",", ","), ("ab", None), (".", "3"), ("", None)])
def test_marks_that_are_refused(marks):
    with pytest.raises(ReadingError, match=r"--decimal|--thousands"):
        NumberFormat(*marks)


@pytest.mark.parametrize(
    ("cell", "option"),
    [
        ("3,14", "--decimal ','"),
        ("-0,5", "--decimal ','"),
        ("1,234", "--thousands ','"),
        ("1,234,567", "--thousands ','"),
        ("1,234.5", "--thousands ','"),
        ("1.234,5", "--decimal ',' --thousands '.'"),
        ("1.234.567", "--decimal ',' --thousands '.'"),
        ("1 234", '--thousands " "'),
        ("1'234,5", "--thousands \"'\" --decimal ','"),
    ],
)
def test_the_option_that_solves_it(cell, option):
    assert option in remedy(cell)


@pytest.mark.parametrize("cell", ["x", "1,2,3", "2024-01-31", "", "1.5"])
def test_no_option_solves_it(cell):
    assert remedy(cell) is None


@pytest.mark.parametrize(
    "column",
    [
        pa.array([Decimal("1.10"), None, Decimal("-3")]),
        pa.array([1.1, None, -3]),
        pa.array(["1.1", "NA", "-3"]).dictionary_encode(),
        pa.array(["1.1", None, "-3"], pa.large_string()),
    ],
)
def test_columns_of_numbers(column):
    np.testing.assert_array_equal(column_numbers(column).values, [1.1, np.nan, -3.0])


@pytest.mark.parametrize(
    ("column", "values"),
    [
        (pa.array([True, None, False]), [1, np.nan, 0]),
        (pa.array([2**64 - 1, 1], pa.uint64()), [float(2**64), 1.0]),
        (pa.array([Decimal(2**64), Decimal(2**70)]), [2.0**64, 2.0**70]),
        (pa.array([None, None]), [np.nan, np.nan]),
        (pa.array([1, 2], pa.int8()), [1, 2]),
    ],
)
def test_other_numbers(column, values):
    np.testing.assert_array_equal(column_numbers(column).values, values)


@pytest.mark.parametrize(
    ("column", "words"),
    [
        (pa.array([0], pa.timestamp("us")), "holds dates, not numbers"),
        (pa.array([0], pa.date32()), "holds dates"),
        (pa.array([0], pa.duration("s")), "holds durations"),
        (pa.array([0], pa.time32("s")), "holds times of day"),
        (pa.array(pd.period_range("2020-01", periods=2, freq="M")), "holds periods"),
        (pa.array([[1]]), "values of type list"),
        (pa.array([b"x"]), "values of type binary"),
    ],
)
def test_types_that_are_no_numbers(column, words):
    assert column_numbers(column) is None
    sentence = str(type_refusal("c", "a.parquet", column.type))
    assert sentence.startswith("Column 'c' of a.parquet holds ")
    assert words in sentence
    assert "--exclude c" in sentence


def test_refusals_name_column_row_and_remedy():
    def sentence(*texts):
        column = pa.array(texts)
        return str(refusal("c", "a.csv", column, text_numbers(column), range(1, 9)))

    assert sentence("1", "3,14") == (
        "Row 2, column 'c' of a.csv is '3,14', not a number as it stands; if ',' is the decimal "
        "mark, add --decimal ','."
    )
    assert "correct it (empty is missing), or leave the column out with --exclude c" in sentence(
        "1", "2", "3", "x"
    )
    assert sentence("x", "y", "1") == (
        "Column 'c' of a.csv holds text, not numbers (row 1 is 'x'); leave it out with "
        "--exclude c, or name the rows by it with --id-column c."
    )
