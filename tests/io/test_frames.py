"""Tables of other libraries, nullable and masked numbers, through the estimators' own readers."""

from decimal import Decimal

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from cavity.estimators.validation import check_numeric
from cavity.io.frames import as_pandas
from cavity.series.data import from_rows, from_wide, locate_rows
from cavity.series.time_axis import time_axis


class Stream:
    """A table of another library: nothing but the Arrow protocol and its columns' names."""

    def __init__(self, **columns):
        self._table = pa.table(columns)
        self.columns = self._table.column_names

    def __arrow_c_stream__(self, requested_schema=None):
        return self._table.__arrow_c_stream__(requested_schema)


class Convertible:
    """A table that converts itself."""

    columns = ("a",)

    def to_pandas(self):
        return pd.DataFrame({"a": [1, 2]})


class Interchangeable:
    """A table that speaks the interchange protocol only."""

    def __dataframe__(self, nan_as_null=False, allow_copy=True):
        return pd.DataFrame({"a": [1, 2]}).__dataframe__(nan_as_null, allow_copy)


@pytest.mark.parametrize("table", [Stream(a=[1, 2]), Convertible(), Interchangeable()])
@pytest.mark.filterwarnings("ignore:.*interchange.*")
def test_tables_of_others(table):
    assert as_pandas(table)["a"].tolist() == [1, 2]
    assert check_numeric(table)["a"].tolist() == [1.0, 2.0]


class Numeric(Stream):
    """A numeric table as polars has it: the Arrow protocol, and an array of its values."""

    @property
    def shape(self):
        return self._table.shape

    def __len__(self):
        return len(self._table)

    def __array__(self, dtype=None, copy=None):
        return np.asarray(self._table.to_pandas(), dtype=dtype)


def test_the_estimators_take_tables_of_others():
    from cavity import GaussianMixture, SeriesMixture

    settings = {"n_chains": 1, "n_warmup": 3, "n_draws": 3, "random_state": 0}
    X = np.random.default_rng(0).standard_normal((20, 2))
    m = GaussianMixture(2, **settings).fit(Numeric(a=X[:, 0], b=X[:, 1]))
    same = GaussianMixture(2, **settings).fit(pd.DataFrame(X, columns=["a", "b"]))
    np.testing.assert_array_equal(m.posterior_.labels, same.posterior_.labels)
    rows = {"s": ["a", "b", "c"] * 6, "t": np.repeat(np.arange(6), 3), "v": X.ravel()[:18]}
    names = {"series": "s", "time": "t", "value": "v"}
    s = SeriesMixture(2, **settings).fit(Stream(**rows), **names)
    same = SeriesMixture(2, **settings).fit(pd.DataFrame(rows), **names)
    np.testing.assert_array_equal(s.posterior_.labels, same.posterior_.labels)


def test_what_is_no_table_is_left_alone():
    X = np.ones((2, 2))
    assert as_pandas(X) is X
    assert check_numeric(X) is X
    frame = pd.DataFrame(X)
    assert check_numeric(frame) is frame


def test_series_of_other_tables():
    table = Stream(s=["b", "a", "a"], t=["2024-01", "2024-01", "2024-03"], v=[1.0, None, 3.0])
    data = from_rows(table, "s", "t", "v")
    np.testing.assert_array_equal(data.y, [[np.nan, np.nan, 3.0], [1.0, np.nan, np.nan]])
    assert locate_rows(Stream(s=["a"], t=["2024-02"]), data)[1].tolist() == [1]
    wide = from_wide(Stream(**{"2024-01": [1.0, 2.0], "2024-02": [3.0, None]}))
    np.testing.assert_array_equal(wide.y, [[1.0, 3.0], [2.0, np.nan]])


@pytest.mark.parametrize(
    "column",
    [
        pd.array([1, 2], dtype="Int64"),
        pd.array([1.0, 2.0], dtype="Float64"),
        pd.array([Decimal(1), Decimal(2)], dtype=object),
        pd.array([Decimal(1), Decimal(2)], dtype=pd.ArrowDtype(pa.decimal128(5, 2))),
        pd.array([1, 2], dtype=object),
        pd.array([1, 2], dtype="int64[pyarrow]"),
    ],
)
def test_numbers_of_any_make(column):
    assert check_numeric(pd.DataFrame({"a": column})).to_numpy().tolist() == [[1.0], [2.0]]


def test_truth_and_gaps():
    frame = pd.DataFrame({"a": pd.array([True, None], dtype="boolean"), "b": [2**70, None]})
    np.testing.assert_array_equal(check_numeric(frame), [[1.0, 2.0**70], [np.nan, np.nan]])


@pytest.mark.parametrize(
    ("X", "message"),
    [
        (np.array([["2024-01-01", "NaT"]], dtype="M8[D]"), "dates or durations"),
        (np.array([[1.0, pd.NaT]], dtype=object), "row 0, column 1 is 'NaT'"),
        (np.array([[1.0, pd.Timestamp("2024-01-01")]], dtype=object), "row 0, column 1"),
        (pd.DataFrame({"a": [1.0, pd.NaT]}, dtype=object), "'a' of X holds .* row 1 is 'NaT'"),
        (pd.DataFrame({"a": pd.to_datetime(["2024-01-01", None])}), "'a' of X holds text or dates"),
        (Stream(a=[1.0], b=["x"]), "Column 'b' of X holds text"),
        (Stream(a=["x"], b=["x"]), "Columns 'a', 'b' of X hold text"),
    ],
)
def test_what_is_no_number_is_named(X, message):
    with pytest.raises(ValueError, match=message):
        check_numeric(X)


def test_a_mask_without_masked_cells_is_none():
    X = check_numeric(np.ma.masked_array([[1.0, 2.0]], mask=[[0, 0]]))
    assert not np.ma.isMaskedArray(X)


def test_masked_cells_are_gaps():
    X = check_numeric(np.ma.masked_array([[1.0, 2.0], [3.0, -9999.0]], mask=[[0, 0], [0, 1]]))
    np.testing.assert_array_equal(X, [[1.0, 2.0], [3.0, np.nan]])


def test_masked_cells_of_series_are_not_observed():
    Y = np.ma.masked_array([[1.0, 2.0], [-9999.0, 4.0]], mask=[[0, 0], [1, 0]])
    np.testing.assert_array_equal(from_wide(Y).y, [[1.0, 2.0], [np.nan, 4.0]])
    whole = np.ma.masked_array([[1, 2], [-9999, 4]], mask=[[0, 0], [1, 0]])
    np.testing.assert_array_equal(from_wide(whole).y, [[1.0, 2.0], [np.nan, 4.0]])


@pytest.mark.parametrize(
    "values",
    [
        pd.to_datetime(["2024-01-01", None]),
        pd.Series([1.0, pd.NaT], dtype=object),
        pd.Series([pd.Timestamp("2024-01-01"), 1.0], dtype=object),
    ],
)
def test_dates_are_no_values(values):
    frame = pd.DataFrame({"s": ["a", "a"], "t": [1, 2], "v": values})
    with pytest.raises(ValueError, match=r"'v' holds"):
        from_rows(frame, "s", "t", "v")


@pytest.mark.parametrize(
    "times",
    [
        pd.to_datetime(["2024-01-01", None]),
        pd.Series([pd.Timestamp("2024-01-01"), pd.NaT], dtype=object),
        pd.Series(["2024-01-01", None], dtype=object),
        np.array(["2024-01-01", "NaT"], dtype="M8[D]"),
        pd.PeriodIndex(["2024-01", None], freq="M"),
        pd.array([1, None], dtype="Int64"),
    ],
)
def test_missing_times_are_refused_by_row(times):
    with pytest.raises(ValueError, match=r"missing in row 1"):
        time_axis(times)


def test_nullable_values_of_series():
    frame = pd.DataFrame({"s": ["a", "a"], "t": [1, 2], "v": pd.array([1, None], dtype="Int64")})
    np.testing.assert_array_equal(from_rows(frame, "s", "t", "v").y, [[1.0, np.nan]])
    assert from_rows(frame, "s", "t", "v").count.tolist() == [[1, 0]]


def test_ambiguous_dates_are_refused_in_python_too():
    frame = pd.DataFrame({"s": ["a", "a"], "t": ["01/02/2024", "02/03/2024"], "v": [1.0, 2.0]})
    with pytest.raises(ValueError, match=r"pandas.to_datetime\(times, format='%d/%m/%Y'\)"):
        from_rows(frame, "s", "t", "v")
    day_first = frame.assign(t=["01/12/2024", "31/12/2024"])
    assert from_rows(day_first, "s", "t", "v").axis.size == 2


def test_large_whole_times_stay_apart():
    base = 2**53
    frame = pd.DataFrame({"s": ["a"] * 3, "t": [base, base + 1, base + 2], "v": [1.0, 2.0, 3.0]})
    data = from_rows(frame, "s", "t", "v")
    assert data.y.tolist() == [[1.0, 2.0, 3.0]]
    assert data.axis.labels().tolist() == frame["t"].tolist()
    with pytest.raises(ValueError, match=r"beyond 2\*\*53 as floats"):
        from_rows(frame.assign(t=frame["t"].astype(float) * 4), "s", "t", "v")
    with pytest.raises(ValueError, match=r"beyond 64 bits"):
        time_axis([2**64, 2**64 + 1])
    with pytest.raises(ValueError, match=r"beyond 64 bits"):
        time_axis(np.array([2**63, 2**63 + 1], dtype=np.uint64))
    with pytest.raises(ValueError, match=r"too far apart"):
        time_axis([-(2**63), 2**63 - 1])


def test_whole_times_given_as_floats_are_found_again():
    axis = time_axis([1.0, 2.0, 4.0])
    assert axis.locate([3]).tolist() == [2]
    assert axis.locate([3.0]).tolist() == [2]
    with pytest.raises(ValueError, match=r"falls between"):
        axis.locate([2.5])


def test_dates_beyond_nanoseconds_are_refused():
    with pytest.raises(ValueError, match=r"outside the years 1678 to 2261"):
        time_axis(pd.DatetimeIndex(np.array(["1000-01-01", "3000-01-05"], dtype="M8[s]")))


def test_a_vast_grid_is_refused_before_it_is_made():
    frame = pd.DataFrame(
        {"s": ["a", "b"], "t": pd.to_datetime(["2000-01-01", "2020-01-01"]), "v": [1.0, 2.0]}
    )
    with pytest.raises(ValueError, match=r"631,152,001 times .* GiB. Group the times more coarsel"):
        from_rows(frame, "s", "t", "v", freq="s")
    wide = pd.DataFrame([[1.0, 2.0]], columns=frame["t"])
    with pytest.raises(ValueError, match=r"Group the times more coarsely"):
        from_wide(wide, freq="s")
    assert from_rows(frame, "s", "t", "v", freq="D").axis.size == 7306


def test_categories_of_polars_come_over_as_categories():
    import polars

    colours = pd.Categorical(["red", None, "blue"], ["blue", "red"])
    table = polars.from_pandas(pd.DataFrame({"x": [1.0, 2.0, 3.0], "colour": colours}))
    found = as_pandas(table)["colour"]
    assert isinstance(found.dtype, pd.CategoricalDtype)
    assert found.astype(object).where(found.notna(), None).tolist() == ["red", None, "blue"]
