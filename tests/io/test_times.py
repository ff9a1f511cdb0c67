"""Dates have one reading for the whole column, or none."""

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from cavity.io.times import column_times, text_times
from cavity.io.words import ReadingError


@pytest.mark.parametrize(
    ("texts", "read"),
    [
        (["2024-01-31", "2024-02-01"], ["2024-01-31", "2024-02-01"]),
        (["2024-01", "2024-03"], ["2024-01-01", "2024-03-01"]),
        (["2024-01-31 06:00", "2024-01-31T07:00:30"], ["2024-01-31 06:00", "2024-01-31 07:00:30"]),
        (["2024/1/5", "2024/12/31"], ["2024-01-05", "2024-12-31"]),
        (["2024.1.5 6:30", "2024.1.6"], ["2024-01-05 06:30", "2024-01-06"]),
        (["01/02/2024", "31/12/2024"], ["2024-02-01", "2024-12-31"]),
        (["1/2/2024", "12/31/2024"], ["2024-01-02", "2024-12-31"]),
        (["01.02.2024 06:00", "13.02.2024 06:00"], ["2024-02-01 06:00", "2024-02-13 06:00"]),
        (["01/01/2024", "02/02/2024"], ["2024-01-01", "2024-02-02"]),
        (["01/2024", "12/2024"], ["2024-01-01", "2024-12-01"]),
        (["Jan 2024", "Dec 2024"], ["2024-01-01", "2024-12-01"]),
        (["31 January 2024", "1 May 2024"], ["2024-01-31", "2024-05-01"]),
    ],
)
def test_dates(texts, read):
    assert text_times(texts, "day").tolist() == [pd.Timestamp(t) for t in read]


def test_quarters_are_periods():
    assert [str(p) for p in text_times(["2024Q1", "2024-q3"], "time")] == ["2024Q1", "2024Q3"]


def test_zones_are_kept():
    times = text_times(["2024-01-31T06:00Z", "2024-01-31T07:00Z"], "time")
    assert str(times.tz) == "UTC"
    for texts in (
        ["2024-01-31T06:00Z", "2024-01-31T06:00"],
        ["2024-01-31T06:00+01:00", "2024-01-31T06:00+02:00"],
    ):
        with pytest.raises(ReadingError, match=r"mixes time zones"):
            text_times(texts, "time")


@pytest.mark.parametrize(
    ("texts", "message"),
    [
        (["01/02/2024", "03/04/2024"], r"'01/02/2024', which may be day or month first.*%d/%m/%Y"),
        (["13/02/2024", "02/13/2024"], "'13/02/2024' with the day first and '02/13/2024'"),
        (["01/02/24"], "years of two digits.*%d/%m/%y"),
        (["2024-02-30"], "'2024-02-30' in row 0, which is not a day of the calendar"),
        (["2024-01-01", "soon"], "'soon' in row 1: text that is not a date"),
        (["2024-01-01", "01/02/2024"], "'01/02/2024' in row 1: not written as the other dates are"),
        (["Jan-20"], "not a date"),
        (["12:30"], "not a date"),
    ],
)
def test_refused_dates(texts, message):
    with pytest.raises(ReadingError, match=message):
        text_times(texts, "day")


def test_a_format_settles_it():
    texts = ["01/02/2024", "03/04/2024"]
    times = text_times(texts, "day", date_format="%d/%m/%Y")
    assert times.tolist() == [pd.Timestamp("2024-02-01"), pd.Timestamp("2024-04-03")]
    with pytest.raises(ReadingError, match=r"'03/14/2024' in row 1, which the date format"):
        text_times(["01/02/2024", "03/14/2024"], "day", date_format="%d/%m/%Y")
    with pytest.raises(ReadingError, match=r"date format '%Q' cannot be used"):
        text_times(texts, "day", date_format="%Q")


def test_columns_of_times():
    big = 2**53
    whole = column_times(pa.array([str(big), str(big + 1), "+7"]), "t", "a.csv")
    assert whole.dtype == np.int64
    assert whole.tolist() == [big, big + 1, 7]
    assert column_times(pa.array([1, 2], pa.uint8()), "t", "a").tolist() == [1, 2]
    assert column_times(pa.array(["0.5", "1"]), "t", "a.csv").tolist() == [0.5, 1.0]
    days = column_times(pa.array(["2024-01-31"]), "t", "a.csv")
    assert days.tolist() == [pd.Timestamp("2024-01-31")]
    assert column_times(pa.array([0], pa.date32()), "t", "a").tolist() == [pd.Timestamp(0)]
    compact = column_times(pa.array(["20240131"]), "t", "a.csv", "%Y%m%d")
    assert compact.tolist() == [pd.Timestamp("2024-01-31")]
    months = pa.array(pd.period_range("2020-01", periods=2, freq="M"))
    assert [str(p) for p in column_times(months, "t", "a")] == ["2020-01", "2020-02"]


@pytest.mark.parametrize(
    ("column", "message"),
    [
        (pa.array(["2024-01-01", ""]), "Row 2, column 't' of a.csv is missing"),
        (pa.array(["2024-01-01", "NaT"]), "Row 2, column 't' of a.csv is missing"),
        (pa.array([0, None], pa.timestamp("ns")), "Row 2, column 't' of a.csv is missing"),
        (pa.array([1.0, np.nan]), "Row 2, column 't' of a.csv is missing"),
        (pa.array([str(2**64)]), "no longer fit into 64 bits"),
        (pa.array([2**64 - 1], pa.uint64()), "no longer fit into 64 bits"),
        (pa.array(["01/02/2024"]), "--date-format %d/%m/%Y"),
        (pa.array(["2024-01-01", "x"]), "Column 't' of a.csv is 'x' in row 2"),
        (pa.array([0], pa.duration("s")), "holds durations"),
    ],
)
def test_columns_that_are_no_times(column, message):
    with pytest.raises(ReadingError, match=message):
        column_times(column, "t", "a.csv")
