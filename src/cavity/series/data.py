"""Reading series: wide tables or long frames, checked and gathered into cells (series x time).

A season adds waves of time as covariates, with coefficients for each series.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from cavity.estimators.validation import LARGEST, check_count, first_place
from cavity.io.frames import as_pandas, without_mask
from cavity.series.time_axis import TimeAxis, time_axis

if TYPE_CHECKING:
    import pandas as pd


# Waves per season at most; three make most shapes that repeat, with six numbers per series.
MOST_WAVES = 3


def check_season(season: Any) -> None:
    """Refuse a season that is no number of times, two at least."""
    if season is not None:
        check_count("season", season, 2)


def season_names(season: int) -> tuple[str, ...]:
    """Names of the waves' coefficients."""
    out = []
    for j in range(1, min(MOST_WAVES, season // 2) + 1):
        out.append(f"season cos {j}")
        if 2 * j < season:  # of the fastest wave the sine is zero at all times
            out.append(f"season sin {j}")
    return tuple(out)


def season_terms(season: int, position: np.ndarray) -> np.ndarray:
    """The waves at some times: shape (times, number of `season_names`)."""
    out = []
    for j in range(1, min(MOST_WAVES, season // 2) + 1):
        angle = 2.0 * np.pi * j * (np.asarray(position) % season) / season
        out.append(np.cos(angle))
        if 2 * j < season:
            out.append(np.sin(angle))
    return np.stack(out, axis=-1)


def with_terms(data: SeriesData, season: int | None, difference: bool) -> SeriesData:
    """Return the data as modeled: differences if asked, and the season's waves as covariates."""
    if difference:
        data = differenced(data)
    if season is None:
        return data
    n, n_times = data.y.shape
    if n_times < 2 * season:
        raise ValueError(
            f"season={season} needs two seasons of data at least, {2 * season} times, and there "
            f"are {n_times}. Leave it out, or give more data."
        )
    terms = season_terms(season, np.arange(n_times))
    c, more = data.covariates.shape[2], terms.shape[1]
    waves = np.broadcast_to(terms, (n, n_times, more))
    # Within a cell the waves do not vary: their cross-products about its means are zero.
    place = np.append(np.arange(c), c + more)
    scatter = np.zeros((n, c + more + 1, c + more + 1))
    scatter[:, place[:, None], place] = data.scatter
    return replace(
        data,
        covariates=np.concatenate([data.covariates, waves], axis=2),
        scatter=scatter,
        covariate_names=(*data.covariate_names, *season_names(season)),
        season=season,
    )


def differences(
    levels: np.ndarray, last: np.ndarray | float = np.nan, since: np.ndarray | int = 0
) -> tuple[np.ndarray, np.ndarray]:
    """Return changes from one time to the next, and the new end of the series.

    A change is missing unless both its times are observed.

    Parameters
    ----------
    levels : (n, T) array
        NaN where nothing was observed.
    last, since : (n,) arrays
        Last value of each series before these times, and the number of times since.

    Examples
    --------
    >>> changes, end = differences(np.array([[1.0, 3.0, np.nan, 4.0, 5.0, np.nan]]))
    >>> changes.tolist(), end.tolist()
    ([[nan, 2.0, nan, nan, 1.0, nan]], [[5.0], [1.0]])
    """
    n, n_times = levels.shape
    joined = np.column_stack([np.broadcast_to(last, (n,)), levels])
    changes = np.diff(joined, axis=1)
    changes[np.broadcast_to(since, (n,)) > 0, 0] = np.nan
    back = np.isfinite(joined)[:, ::-1].argmax(1)
    end = joined[np.arange(n), n_times - back]
    return changes, np.array([end, back + np.where(back == n_times, since, 0)])


def differenced(data: SeriesData) -> SeriesData:
    """Return the changes of the series; several values of one cell are averaged.

    The times stay the same, and the first has no change.
    """
    if data.covariates.shape[2]:
        raise ValueError("difference=True does not go with covariates. Leave one of them out.")
    y, end = differences(np.where(data.count > 0, data.y, np.nan))
    if np.isnan(end[0]).any():
        name = data.series[int(np.isnan(end[0]).argmax())]
        raise ValueError(
            f"difference=True needs a value of every series, and {str(name)!r} has none. Leave "
            "it out."
        )
    count = np.isfinite(y).astype(np.uint16)
    if not count.any():
        raise ValueError("difference=True needs values at two times in a row, and there are none.")
    return replace(data, y=y, count=count, scatter=np.zeros_like(data.scatter), end=end)


@dataclass(frozen=True)
class SeriesData:
    """Observations gathered into cells, in the user's units.

    Attributes
    ----------
    y : array of shape (n, T)
        Mean of each cell's values less the offset; NaN where there are none.
    count : array of shape (n, T)
        Number of values of each cell.
    covariates : array of shape (n, T, c)
        Means of the covariates.
    scatter : array of shape (n, c + 1, c + 1)
        Cross-products of (covariates, value) about their cells' means.
    series : pandas.Index
        The user's names.
    axis : TimeAxis
    covariate_names : tuple of str
    columns : tuple of str
        Names of the series, time and value columns.
    offset_column : str or None
    season : int or None
        Times in a season, whose waves are the last of the covariates.
    end : array of shape (2, n) or None
        For differenced series: the last value of each, and the number of times since.
    """

    y: np.ndarray
    count: np.ndarray
    covariates: np.ndarray
    scatter: np.ndarray
    series: pd.Index
    axis: TimeAxis
    covariate_names: tuple[str, ...] = ()
    columns: tuple[str, str, str] = ("series", "time", "value")
    offset_column: str | None = None
    season: int | None = None
    end: np.ndarray | None = None

    @property
    def given_covariates(self) -> tuple[str, ...]:
        """Covariates that are columns of the data."""
        n_waves = 0 if self.season is None else len(season_names(self.season))
        return self.covariate_names[: len(self.covariate_names) - n_waves]


def _numbers(values: Any, what: str) -> np.ndarray:
    """Floats, or an error that names the first value which is none."""
    import pandas as pd

    values = without_mask(values)
    kind = getattr(values, "dtype", None)
    if isinstance(kind, pd.api.extensions.ExtensionDtype) and pd.api.types.is_numeric_dtype(kind):
        # Nullable numbers have NA, which NumPy alone would keep as an object.
        if pd.api.types.is_bool_dtype(kind):
            raise ValueError(f"{what} holds {kind}, not real numbers.")
        values = values.to_numpy(dtype=float, na_value=np.nan)
    array = np.asarray(values)
    if array.dtype.kind in "fiu":
        return array.astype(float, copy=False)
    if array.dtype.kind in "bcmM":
        raise ValueError(f"{what} holds {array.dtype}, not real numbers.")
    flat = pd.Series(array.ravel(), dtype=object)
    # NaT counts as missing, yet a column that has one holds dates.
    kinds = (pd.Timestamp, pd.Timedelta, pd.Period, type(pd.NaT), np.datetime64, np.timedelta64)
    dates = np.array([isinstance(v, kinds) for v in flat], dtype=bool)
    numbers = pd.to_numeric(flat.mask(dates), errors="coerce")
    bad = (numbers.isna().to_numpy() & ~flat.isna().to_numpy()) | dates
    if bad.any():
        first = int(np.argmax(bad))
        if array.ndim == 2:
            place = f"row {first // array.shape[1]}, column {first % array.shape[1]}"
        else:
            place = f"row {first}"
        raise ValueError(
            f"{what} holds something that is not a number: {str(flat[first])[:40]!r} in {place}. "
            "Correct or remove it."
        )
    return numbers.to_numpy(dtype=float).reshape(array.shape)


def _refuse_infinite(values: np.ndarray, what: str) -> None:
    bad = np.isinf(values)
    if bad.any():
        raise ValueError(
            f"{what} holds an infinite value in {first_place(bad)} ({int(bad.sum())} in all). "
            "Replace it by NaN if it was not observed."
        )


def _refuse_huge(values: np.ndarray, what: str) -> None:
    """Refuse a column whose squares are no numbers, naming the row."""
    size = np.abs(values)
    bad = (size > LARGEST) & np.isfinite(size)  # what is infinite may not be needed
    if bad.any():
        row = int(np.argmax(bad))
        raise ValueError(
            f"{what} reaches {size[row]:.1g} in row {row}, whose square is beyond floating point. "
            "Check that value, or divide all by a power of ten first."
        )


def _refuse_repeated(index: pd.Index, what: str) -> None:
    if index.has_duplicates:
        name = index[index.duplicated()][0]
        raise ValueError(
            f"{what} {str(name)!r} appears more than once in a wide table. Give every series and "
            "time once, or pass the rows in long form (series=, time=, value=)."
        )


# Cells beyond this, far more than there are observations, are a mistake in the frequency.
_FEW_CELLS, _CELLS_PER_VALUE, _MOST_CELLS = 10_000_000, 200, 2_000_000_000


def _refuse_vast(n: int, axis: TimeAxis, n_values: int) -> None:
    """Refuse a grid of series and times before its memory is asked for."""
    cells = n * axis.size
    if cells <= max(_FEW_CELLS, min(_CELLS_PER_VALUE * n_values, _MOST_CELLS)):
        return
    raise ValueError(
        f"{n:,} series on a grid of {axis.size:,} times are {cells:,} cells for {n_values:,} "
        f"values, at least {cells * 24 / 2**30:.1f} GiB. Group the times more coarsely, for "
        "instance with freq='D', freq='W' or freq='M'."
    )


def _check_some(count: np.ndarray) -> None:
    if not count.size:
        raise ValueError("there is no series, or no time, in the data. Give at least one of each.")
    if not count.any():
        raise ValueError("every value is missing: there is nothing to learn from.")


def _count_type(most: float) -> type:
    return np.uint16 if most <= np.iinfo(np.uint16).max else np.float64


def _wide_numbers(Y: pd.DataFrame) -> np.ndarray:
    if all(isinstance(t, np.dtype) for t in Y.dtypes):
        return _numbers(Y.to_numpy(), "Y")
    columns = [_numbers(Y.iloc[:, j], f"Y, column {j},") for j in range(Y.shape[1])]
    return np.column_stack(columns)


def series_on(
    axis: TimeAxis, position: np.ndarray, values: np.ndarray, series: pd.Index
) -> SeriesData:
    """Return series of one value per time, NaN where there is none, at positions on an axis."""
    n = len(values)
    if not np.array_equal(position, np.arange(axis.size)):
        full = np.full((n, axis.size), np.nan)
        full[:, position] = values
        values = full
    # A user's own array of floats is read where it is: no copy is made.
    values = np.ascontiguousarray(values)
    count = (~np.isnan(values)).astype(np.uint16)
    return SeriesData(values, count, np.zeros((n, axis.size, 0)), np.zeros((n, 1, 1)), series, axis)


def from_wide(Y: Any, offset: Any = None, freq: str | None = None) -> SeriesData:
    """Read a table with a row per series and a column per time; NaN is not observed."""
    import pandas as pd

    Y = as_pandas(Y)
    if isinstance(Y, pd.DataFrame):
        _refuse_repeated(Y.index, "series")
        axis = time_axis(Y.columns, "time (the column labels)", freq)
        position = axis.locate(Y.columns)
        values = _wide_numbers(Y)
        series = Y.index
        _refuse_vast(len(Y), axis, values.size)
        if len(np.unique(position)) < len(position):
            labels = axis.labels()[position]
            _refuse_repeated(labels, "time")
    else:
        values = _numbers(Y, "Y")
        if values.ndim != 2:
            raise ValueError(
                f"Y must have two dimensions (series, time), not shape {values.shape}. One series "
                "alone is Y[None, :]."
            )
        axis = TimeAxis("number", 0, 1, values.shape[1])
        position = np.arange(values.shape[1])
        series = pd.RangeIndex(len(values))
    _refuse_infinite(values, "Y")
    if offset is not None:
        shift = _numbers(offset, "offset")
        try:
            shift = np.broadcast_to(shift, values.shape)
        except ValueError:
            raise ValueError(
                f"offset has shape {shift.shape}, which does not fit Y's {values.shape}."
            ) from None
        bad = ~np.isfinite(shift) & ~np.isnan(values)
        if bad.any():
            row, column = np.argwhere(bad)[0]
            raise ValueError(f"offset is missing where Y is observed: row {row}, column {column}.")
        values = values - shift
    data = series_on(axis, position, values, series)
    _check_some(data.count)
    return data


def _column(frame: pd.DataFrame, name: str, what: str) -> pd.Series:
    if name not in frame.columns:
        raise ValueError(
            f"{what}={name!r} is not a column of the data; it has "
            f"{', '.join(repr(str(c)) for c in frame.columns[:8])}."
        )
    column = frame[name]
    if getattr(column, "ndim", 1) != 1:
        raise ValueError(f"column {name!r} appears more than once in the data. Rename one.")
    return column


def _covariates(
    frame: pd.DataFrame, names: tuple[str, ...], needed: np.ndarray | None = None
) -> np.ndarray:
    """Columns of covariates as floats; NaN is refused, naming column and row."""
    out = np.empty((len(frame), len(names)))
    for j, name in enumerate(names):
        column = _numbers(_column(frame, name, "covariates"), f"covariate {name!r}")
        bad = ~np.isfinite(column)
        if needed is not None:
            bad &= needed
        if bad.any():
            row = int(np.argmax(bad))
            raise ValueError(
                f"covariate {name!r} is missing or infinite in row {row} "
                f"({int(bad.sum())} such rows). Drop those rows or fill them in."
            )
        _refuse_huge(column, f"covariate {name!r}")
        out[:, j] = column
    return out


def from_rows(
    frame: pd.DataFrame,
    series: str,
    time: str,
    value: str,
    covariates: tuple[str, ...] = (),
    offset: str | None = None,
    freq: str | None = None,
) -> SeriesData:
    """Read one row per observation, in any order; any number of rows per series and time."""
    import pandas as pd

    frame = as_pandas(frame)
    if not len(frame):
        raise ValueError("the data have no rows. Give at least one observation.")
    owner = _column(frame, series, "series")
    if owner.isna().any():
        row = int(np.argmax(owner.isna().to_numpy()))
        raise ValueError(f"column {series!r} is missing in row {row}. Drop or fill such rows.")
    y = _numbers(_column(frame, value, "value"), f"column {value!r}")
    _refuse_infinite(y, f"column {value!r}")
    _refuse_huge(y, f"column {value!r}")
    seen = ~np.isnan(y)
    if offset is not None:
        shift = _numbers(_column(frame, offset, "offset"), f"column {offset!r}")
        bad = ~np.isfinite(shift) & seen
        if bad.any():
            raise ValueError(f"offset {offset!r} is missing in row {int(np.argmax(bad))}.")
        y = y - shift
    u = _covariates(frame, covariates, seen)
    axis = time_axis(_column(frame, time, "time"), time, freq)
    position = axis.locate(frame[time])
    code, names = pd.factorize(owner, sort=True)
    n, n_times, c = len(names), axis.size, len(covariates)
    _refuse_vast(n, axis, int(seen.sum()))
    cell = (code * n_times + position)[seen]
    values = np.column_stack([u[seen], y[seen]])
    count = np.bincount(cell, minlength=n * n_times)
    _check_some(count)
    means = np.empty((n * n_times, c + 1))
    for j in range(c + 1):
        total = np.bincount(cell, values[:, j], minlength=n * n_times)
        means[:, j] = np.divide(total, count, out=np.full(len(count), np.nan), where=count > 0)
    apart = values - means[cell]
    _warn_of_repeated(count, cell, apart, freq, names, n_times, axis)
    scatter = np.zeros((n, c + 1, c + 1))
    for j in range(c + 1):
        for k in range(j + 1):
            product = np.bincount(code[seen], apart[:, j] * apart[:, k], minlength=n)
            scatter[:, j, k] = scatter[:, k, j] = product
    shape = (n, n_times)
    return SeriesData(
        y=np.ascontiguousarray(means[:, c]).reshape(shape),
        count=count.reshape(shape).astype(_count_type(count.max())),
        covariates=np.nan_to_num(means[:, :c]).reshape(*shape, c),
        scatter=scatter,
        series=pd.Index(names, name=series),
        axis=axis,
        covariate_names=covariates,
        columns=(series, time, value),
        offset_column=offset,
    )


# With fewer of the cells than this, several values in one cell look like an accident.
_ACCIDENT = 0.2


def _warn_of_repeated(
    count: np.ndarray,
    cell: np.ndarray,
    apart: np.ndarray,
    freq: str | None,
    names: Any,
    n_times: int,
    axis: TimeAxis,
) -> None:
    """Warn about different values of one series at one time, unless times are grouped."""
    different = np.unique(cell[np.any(np.abs(apart) > 0.0, axis=1)])
    if freq is not None or not 0 < different.size < _ACCIDENT * np.count_nonzero(count):
        return
    series, time = divmod(int(different[0]), n_times)
    warnings.warn(
        "Different values for the same series and time are averaged, as repeated measurements "
        f"({different.size:,} in all, first series {str(names[series])!r} at time "
        f"{axis.labels()[time]}). Remove duplicates if they are a mistake.",
        UserWarning,
        stacklevel=5,
    )


def read_series(
    Y: Any,
    series: str | None = None,
    time: str | None = None,
    value: str | None = None,
    covariates: Sequence[str] = (),
    offset: Any = None,
    freq: str | None = None,
) -> SeriesData:
    """Read a wide table or, where columns are named, a long frame; warn of empty series."""
    names = {"series": series, "time": time, "value": value}
    given = [name for name, column in names.items() if column is not None]
    if not given:
        if len(covariates):
            raise ValueError(
                "covariates need a long frame: name its columns by series=, time= and value=."
            )
        data = from_wide(Y, offset, freq)
    else:
        if len(given) < 3:
            missing = ", ".join(f"{n}=" for n in names if n not in given)
            raise ValueError(f"a long frame needs {missing} as well as {', '.join(given)}.")
        if not hasattr(Y, "columns"):
            raise ValueError("series=, time= and value= name columns, but Y is no DataFrame.")
        if isinstance(covariates, str):
            covariates = (covariates,)
        if offset is not None and not isinstance(offset, str):
            raise ValueError("offset must name a column of the long frame.")
        data = from_rows(Y, str(series), str(time), str(value), tuple(covariates), offset, freq)
    silent = np.flatnonzero(data.count.sum(1) == 0)
    if silent.size:
        listed = ", ".join(str(data.series[i]) for i in silent[:5])
        warnings.warn(
            f"{silent.size} series without any observation ({listed}"
            f"{' ...' if silent.size > 5 else ''}): their clusters are the prior's guess.",
            UserWarning,
            stacklevel=4,
        )
    return data


def locate_rows(
    frame: pd.DataFrame, data: SeriesData, *, with_value: bool = False
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Series, time, covariates, offset and value (NaN if not asked for) of new rows."""
    import pandas as pd

    frame = as_pandas(frame)
    series, time, value = data.columns
    owner = _column(frame, series, "series")
    code = data.series.get_indexer(pd.Index(owner))
    if (code < 0).any():
        unknown = list(dict.fromkeys(str(v) for v in owner[code < 0]))
        listed = ", ".join(repr(v) for v in unknown[:5]) + (" ..." if len(unknown) > 5 else "")
        raise ValueError(
            f"series {listed} {'was' if len(unknown) == 1 else 'were'} not in the data that the "
            "model was fitted to. Only series with a history can be predicted; fit them too."
        )
    position = data.axis.locate(_column(frame, time, "time"))
    u = _covariates(frame, data.given_covariates)
    if data.season is not None:
        u = np.concatenate([u, season_terms(data.season, position)], axis=1)
    shift = np.zeros(len(frame))
    if data.offset_column is not None:
        shift = _numbers(_column(frame, data.offset_column, "offset"), "offset")
    y = np.full(len(frame), np.nan)
    if with_value:
        y = _numbers(_column(frame, value, "value"), f"column {value!r}")
        if not np.isfinite(y).all():
            row = int(np.argmax(~np.isfinite(y)))
            raise ValueError(f"column {value!r} is missing or infinite in row {row}.")
    return code, position, u, shift, y
