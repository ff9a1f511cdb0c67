"""What SeriesMixture makes of data: right answers or sentences that name the remedy."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from cavity.priors.series import SeriesPrior
from cavity.series.data import from_rows, from_wide, locate_rows
from cavity.series.initialization import find_units
from cavity.series.problem import build_model
from cavity.series.time_axis import time_axis


def rows(**changes):
    frame = pd.DataFrame(
        {
            "tract": ["b", "a", "a", "b", "a"],
            "month": pd.to_datetime(
                ["2020-03-01", "2020-01-01", "2020-01-01", "2020-01-01", "2020-06-01"]
            ),
            "price": [1.0, 2.0, 4.0, 5.0, 7.0],
            "area": [0.5, 1.0, 3.0, 1.0, 0.0],
        }
    )
    return frame.assign(**changes)


def read(frame, **options):
    return from_rows(frame, "tract", "month", "price", **options)


# --------------------------------------------------------------------------- right answers


def test_rows_in_any_order_become_cells():
    data = read(rows(), covariates=("area",))
    assert list(data.series) == ["a", "b"]
    assert data.axis.size == 6
    assert data.y[0, 0] == 3.0
    assert data.count.tolist() == [[2, 0, 0, 0, 0, 1], [1, 0, 1, 0, 0, 0]]
    assert data.covariates[0, 0, 0] == 2.0
    np.testing.assert_allclose(data.scatter[0], [[2.0, 2.0], [2.0, 2.0]])
    assert np.isnan(data.y[1, 1])
    shuffled = read(rows().sample(frac=1, random_state=3), covariates=("area",))
    np.testing.assert_array_equal(shuffled.y, data.y)


def test_repeated_row_labels_of_a_long_frame_do_not_matter():
    frame = rows()
    frame.index = [0] * len(frame)
    np.testing.assert_array_equal(read(frame).y, read(rows()).y)


def test_missing_values_are_not_observations():
    data = read(rows(price=[1.0, np.nan, 4.0, 5.0, None]))
    assert data.count.sum() == 3
    assert data.y[0, 0] == 4.0


def test_offset_is_subtracted():
    data = read(rows(trend=[0.5, 1.0, 1.0, 1.0, 1.0]), offset="trend")
    assert data.y[0, 0] == 2.0
    Y = np.array([[1.0, np.nan], [3.0, 4.0]])
    wide = from_wide(Y, offset=np.array([1.0, 2.0]))
    np.testing.assert_array_equal(wide.y, [[0.0, np.nan], [2.0, 2.0]])


def test_a_users_array_is_read_where_it_is():
    Y = np.random.default_rng(0).standard_normal((4, 6))
    Y[1, 2] = np.nan
    assert np.shares_memory(from_wide(Y).y, Y)


def test_wide_frame_with_gaps_and_unsorted_times():
    times = pd.PeriodIndex(["2020-05", "2020-01", "2020-02"], freq="M")
    Y = pd.DataFrame([[5.0, 1.0, 2.0]], index=["x"], columns=times)
    data = from_wide(Y)
    assert data.axis.size == 5
    np.testing.assert_array_equal(data.y, [[1.0, 2.0, np.nan, np.nan, 5.0]])
    assert [str(t) for t in data.axis.labels(4, 2)] == ["2020-05", "2020-06"]


def test_numbers_given_as_text_are_numbers():
    data = read(rows(price=["1", "2", "4.0", "5", "7"]))
    assert data.y[0, 0] == 3.0


# --------------------------------------------------------------------------- times


@pytest.mark.parametrize(
    ("values", "size", "second"),
    [
        (pd.date_range("2020-01-31", periods=5, freq="ME"), 5, "2020-02"),
        (pd.date_range("2020-01-01", periods=4, freq="QS"), 4, "2020Q2"),
        (pd.to_datetime(["2020-01-01", "2021-01-01", "2024-01-01"]), 5, "2021"),
        (pd.date_range("2020-01-01", periods=4, freq="W"), 4, "2020-01-12 00:00:00"),
        (pd.to_datetime(["2020-01-01 00:00", "2020-01-01 06:00", "2020-01-02 00:00"]), 5, None),
        ([2001, 2002, 2005], 5, "2002"),
        ([0.5, 1.0, 2.5], 5, "1.0"),
        (["2020-01-01", "2020-01-02"], 2, None),
        (pd.date_range("2020-01-01", periods=3, tz="Europe/Rome"), 3, None),
        (pd.date_range("2020-03-25", periods=9, tz="Europe/Rome").tz_convert("UTC"), None, None),
        ([7], 1, None),
        (pd.to_datetime(["2020-01-17"]), 1, None),
    ],
)
def test_time_axes(values, size, second):
    axis = time_axis(values)
    if size is not None:
        assert axis.size == size
    if second is not None:
        assert str(axis.labels()[1]) == second
    position = axis.locate(values)
    assert position.min() == 0
    assert position.max() == axis.size - 1


def test_years_at_the_head_of_a_file_are_numbers():
    """``pandas.read_csv`` leaves the names of columns as text."""
    wide = pd.DataFrame([[1.0, 2.0, 3.0], [2.0, np.nan, 1.0]], columns=["1960", "1961", "1963"])
    data = from_wide(wide)
    assert data.axis.labels().tolist() == [1960, 1961, 1962, 1963]
    assert data.axis.locate(["1964"]).tolist() == [4]
    assert time_axis(["8", "9", "10"]).labels().tolist() == [8, 9, 10]
    with pytest.raises(ValueError, match="not a date"):
        time_axis(["007", "008"])


def test_timestamps_put_into_periods():
    days = pd.to_datetime(["2020-01-03", "2020-01-20", "2020-03-01"])
    axis = time_axis(days, freq="M")
    assert axis.size == 3
    assert axis.locate(days).tolist() == [0, 0, 2]
    assert axis.locate(pd.PeriodIndex(["2020-04"], freq="M")).tolist() == [3]


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (pd.to_datetime(["2020-01-01", "2020-01-02", "2021-05-05 01:02:03"], format="ISO8601"),
         "Group the times"),
        ([1.0, 2.0, 2.3], "not equally spaced"),
        ([1.0, np.inf], "infinite"),
        ([1.0, np.nan], "missing in row 1"),
        (["soon", "later"], "not a date"),
        ([True, False], "neither dates"),
        ([pd.Timestamp("2020-01-01", tz="UTC"), pd.Timestamp("2020-01-02", tz="Asia/Tokyo")],
         "mixes time zones"),
        ([pd.Timestamp("2020-01-01", tz="UTC"), pd.Timestamp("2020-01-02")], "mixes time zones"),
        ([pd.Period("2020-01", "M"), pd.Period("2020", "Y")], "different frequencies"),
        ([], "empty"),
    ],
)  # fmt: skip
def test_times_that_are_refused(values, message):
    with pytest.raises(ValueError, match=message):
        time_axis(values)


def test_an_unknown_frequency_is_named():
    with pytest.raises(ValueError, match="freq='fortnight'"):
        time_axis(pd.to_datetime(["2020-01-01", "2020-02-01"]), freq="fortnight")


# --------------------------------------------------------------------------- refusals


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"price": [1.0, 2.0, "much", 5.0, 7.0]}, "'much' in row 2"),
        ({"price": [1.0, 2.0, np.inf, 5.0, 7.0]}, "infinite value in row 2"),
        ({"price": [np.nan] * 5}, "every value is missing"),
        ({"tract": ["b", None, "a", "b", "a"]}, "missing in row 1"),
        (
            {"area": [0.5, np.nan, 3.0, 1.0, 0.0]},
            "covariate 'area' is missing or infinite in row 1",
        ),
        ({"area": ["s", 1.0, 3.0, 1.0, 0.0]}, "covariate 'area' holds something"),
        ({"price": [True, False, True, True, True]}, "not real numbers"),
    ],
)
def test_rows_that_are_refused(changes, message):
    with pytest.raises(ValueError, match=message):
        read(rows(**changes), covariates=("area",))


def test_missing_columns_and_no_rows():
    with pytest.raises(ValueError, match="'cost' is not a column"):
        from_rows(rows(), "tract", "month", "cost")
    with pytest.raises(ValueError, match="no rows"):
        read(rows()[:0])
    twice = rows()
    twice.columns = ["tract", "month", "price", "price"]
    with pytest.raises(ValueError, match="more than once"):
        read(twice)


@pytest.mark.parametrize(
    ("Y", "message"),
    [
        (np.array([[1.0, np.inf]]), "row 0, column 1"),
        (np.array([["a", 1.0]], dtype=object), "'a' in row 0, column 0"),
        (np.ones(3), "two dimensions"),
        (np.ones((0, 3)), "no series"),
        (np.full((2, 2), np.nan), "every value is missing"),
        (pd.DataFrame(np.ones((2, 2)), index=["x", "x"]), "series 'x' appears more than once"),
        (pd.DataFrame(np.ones((2, 2)), columns=[1, 1]), "time '1' appears more than once"),
    ],
)
def test_wide_tables_that_are_refused(Y, message):
    with pytest.raises(ValueError, match=message):
        from_wide(Y)


def test_offsets_that_are_refused():
    Y = np.ones((2, 3))
    with pytest.raises(ValueError, match="does not fit"):
        from_wide(Y, offset=np.ones((3, 2)))
    with pytest.raises(ValueError, match="offset is missing"):
        from_wide(Y, offset=np.array([[1.0, np.nan, 1.0]]))


def test_new_rows():
    data = read(rows(), covariates=("area",))
    new = pd.DataFrame({"tract": ["b", "a"], "month": ["2020-02-01", "2020-09-01"], "area": [1, 2]})
    series, time, u, shift, y = locate_rows(new, data)
    assert series.tolist() == [1, 0]
    assert time.tolist() == [1, 8]
    assert u.ravel().tolist() == [1.0, 2.0]
    assert np.isnan(y).all()
    assert not shift.any()
    with pytest.raises(ValueError, match="series 'z' was not in the data"):
        locate_rows(new.assign(tract=["z", "a"]), data)
    with pytest.raises(ValueError, match="before the first time"):
        locate_rows(new.assign(month=["2019-02-01", "2020-09-01"]), data)
    with pytest.raises(ValueError, match="covariate 'area' is missing"):
        locate_rows(new.assign(area=[np.nan, 1.0]), data)
    with pytest.raises(ValueError, match="holds numbers, but the model was fitted with periods"):
        locate_rows(new.assign(month=[1, 2]), data)
    with pytest.raises(ValueError, match="missing or infinite in row 0"):
        locate_rows(new.assign(price=[np.nan, 1.0]), data, with_value=True)


def test_times_between_the_steps_are_refused():
    axis = time_axis([0, 2, 4])
    with pytest.raises(ValueError, match="falls between"):
        axis.locate([3])


# --------------------------------------------------------------------------- units


@pytest.mark.parametrize("factor", [1e-130, 1e-9, 1.0, 1e12, 1e130])
def test_units_make_the_scale_irrelevant(factor):
    frame = rows()
    data = read(frame.assign(price=frame["price"] * factor), covariates=("area",))
    units = find_units(data, True)
    standard = (data.y - units.centre) / units.scale[:, None]
    plain = read(frame, covariates=("area",))
    plain_units = find_units(plain, True)
    expected = (plain.y - plain_units.centre) / plain_units.scale[:, None]
    np.testing.assert_allclose(standard, expected)
    values = frame["price"].to_numpy()
    np.testing.assert_allclose(units.scale, values.std() * factor, rtol=1e-9)


def test_each_series_has_its_own_robust_scale():
    rng = np.random.default_rng(0)
    loud = np.array([1.0, 1.0, 50.0, 1.0, 1.0, 1.0])
    Y = loud[:, None] * rng.standard_normal((6, 200))
    Y[0, 7] = 1e6
    Y[3, 2:] = np.nan
    Y[4] = 3.0
    units = find_units(from_wide(Y), True, each=True)
    # Of 200 values the robust spread is known to 6% (one standard error); 4.5 of them.
    np.testing.assert_allclose(units.scale[[0, 1, 2, 5]] / loud[[0, 1, 2, 5]], 1.0, atol=0.27)
    # Two values, and one value throughout, say little: the median of the others.
    assert 0.5 < units.scale[3] < 2.0
    assert 0.5 < units.scale[4] < 2.0
    volume = np.average(np.log(units.scale), weights=np.isfinite(Y).sum(1))
    assert units.log_volume == pytest.approx(volume)


@pytest.mark.parametrize("size", [1e200, 1e-200])
def test_values_whose_squares_are_no_numbers(size):
    with pytest.raises(ValueError, match="power of ten"):
        find_units(from_wide(np.full((2, 3), size)), True)


def test_constant_data_have_unit_scale():
    units = find_units(from_wide(np.full((3, 4), 7.0)), True)
    assert units.centre == 7.0
    assert (units.scale == 7.0).all()


def test_coefficients_there_and_back():
    data = read(rows(), covariates=("area",))
    units = find_units(data, True)
    beta = np.array([[3.0, 0.5], [2.0, -1.0]])
    fixed = {"a": 0.5, "loading": 2.0, "var_x": 0.1, "var_y": [1.0, 2.0], "beta": beta}
    m = build_model(data, units, fixed | {"var_x0": 0.3}, SeriesPrior())
    np.testing.assert_allclose(units.coefficients(m.own.beta), beta)
    # y - beta'u in the model's units, whichever way it is computed
    got = (data.y[0, 0] - units.centre) / units.scale[0] - m.own.beta[0] @ [
        1,
        m.cells.covariates[0, 0, 0],
    ]
    assert got * units.scale[0] == pytest.approx(3.0 - 3.0 - 0.5 * 2.0)
    assert m.own.var_y[1] == pytest.approx(2.0 / units.scale[1] ** 2)
    assert m.own.var_x0[0] == pytest.approx(0.3 / units.scale[0] ** 2)


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("a", 1.5, "a must be held between -1 and 1"),
        ("a", "free", "a must be held at a number"),
        ("var_y", [1.0], None),
        ("var_y", [1.0, 2.0, 3.0], "one number per series"),
        ("var_x", -1.0, "var_x is held at -1.0, which is outside"),
        ("beta", [1.0, 2.0, 3.0], "beta must be held at"),
    ],
)
def test_fixed_values_are_checked(name, value, message):
    data = read(rows(), covariates=("area",))
    fixed = {name: value}
    if message is None:
        build_model(data, find_units(data, True), fixed, SeriesPrior())
    else:
        with pytest.raises(ValueError, match=message):
            build_model(data, find_units(data, True), fixed, SeriesPrior())


def test_a_few_conflicting_rows_are_said():
    frame = pd.DataFrame(
        {"tract": np.repeat(["a", "b"], 10), "month": [*range(10)] * 2, "price": np.arange(20.0)}
    )
    read(frame)
    read(pd.concat([frame, frame.iloc[:2]]))  # twice the same is no conflict
    again = pd.concat([frame, frame.iloc[[13]].assign(price=-1.0)])
    with pytest.warns(UserWarning, match="1 in all, first series 'b' at time 3"):
        read(again)
