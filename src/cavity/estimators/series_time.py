"""The time axis of a set of series: regular steps, in the user's own kind of label."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    import pandas as pd

# A grid finer than this many steps per observed time is taken for a mistake in the data.
_SPARSEST = 50


@dataclass(frozen=True)
class TimeAxis:
    """Equally spaced times.

    Attributes
    ----------
    kind : {"period", "timestamp", "number"}
    start : int or float
        First time: ordinal of the period, nanoseconds, or the number itself.
    step : int or float
        Distance of neighbours on the same scale.
    size : int
        Number of times.
    frequency : str or None
        Of periods.
    zone : object or None
        Time zone of timestamps.
    name : str
        What messages call the times.
    """

    kind: str
    start: Any
    step: Any
    size: int
    frequency: str | None = None
    zone: Any = None
    name: str = "time"

    def labels(self, first: int = 0, size: int | None = None) -> pd.Index:
        """Labels of `size` times from number `first` on, which may lie beyond the data."""
        import pandas as pd

        size = self.size - first if size is None else size
        position = np.arange(first, first + size)
        if self.kind == "period":
            ordinals: Any = pd.PeriodIndex
            return ordinals.from_ordinals(self.start + position, freq=self.frequency)
        if self.kind == "timestamp":
            index = pd.DatetimeIndex((self.start + position * self.step).astype("M8[ns]"))
            return index if self.zone is None else index.tz_localize("UTC").tz_convert(self.zone)
        return pd.Index(self.start + position * self.step)

    def locate(self, values: Any) -> np.ndarray:
        """Positions of times on the axis; later than the end is allowed, off the grid is not."""
        codes = _codes(values, self.name, self.frequency if self.kind == "period" else None)
        if codes.kind != self.kind or (codes.zone is None) != (self.zone is None):
            raise ValueError(
                f"{self.name} holds {_KINDS[codes.kind]}, but the model was fitted with "
                f"{_KINDS[self.kind]}{'' if self.zone is None else ' in a time zone'}. "
                "Give times of the same kind."
            )
        position = (codes.values - self.start) / self.step
        nearest = np.rint(position)
        bad = np.abs(position - nearest) > 1e-6
        if bad.any():
            raise ValueError(
                f"{self.name} {_show(values, bad)} falls between the steps of the fitted series. "
                f"Their times run from {self.labels(0, 1)[0]} in steps like those of the data."
            )
        if (nearest < 0).any():
            raise ValueError(
                f"{self.name} {_show(values, nearest < 0)} lies before the first time of the "
                f"fitted series, {self.labels(0, 1)[0]}. Only later times can be predicted."
            )
        return nearest.astype(np.int64)


_KINDS = {"period": "periods", "timestamp": "timestamps", "number": "numbers"}


@dataclass(frozen=True)
class _Codes:
    kind: str
    values: np.ndarray
    frequency: str | None = None
    zone: Any = None


def _show(values: Any, bad: np.ndarray) -> str:
    return repr(str(np.asarray(values, dtype=object)[np.flatnonzero(bad)[0]]))


def _codes(values: Any, name: str, frequency: str | None) -> _Codes:
    """Times as numbers on a scale of their own."""
    import pandas as pd

    index = pd.Index(values)
    if index.dtype == object or pd.api.types.is_string_dtype(index.dtype):
        index = _parsed(index, name)
    missing = np.asarray(index.isna())
    if missing.any():
        row = int(np.argmax(missing))
        raise ValueError(f"{name} is missing in row {row}. Drop or fill such rows first.")
    if isinstance(index, pd.DatetimeIndex) and frequency is not None:
        local = index if index.tz is None else index.tz_localize(None)
        index = local.to_period(frequency)
    if isinstance(index, pd.PeriodIndex):
        if frequency is not None and index.freqstr != frequency:
            try:
                index = index.asfreq(frequency)
            except ValueError as error:
                raise ValueError(
                    f"{name} holds periods of frequency {index.freqstr}, which do not convert to "
                    f"{frequency}: {error}."
                ) from None
        return _Codes("period", index.asi8, index.freqstr)
    if isinstance(index, pd.DatetimeIndex):
        zone = index.tz
        plain = index if zone is None else index.tz_convert("UTC").tz_localize(None)
        return _Codes("timestamp", plain.values.astype("M8[ns]").astype(np.int64), zone=zone)
    if pd.api.types.is_numeric_dtype(index.dtype) and not pd.api.types.is_bool_dtype(index.dtype):
        numbers = np.asarray(index, dtype=float)
        if not np.isfinite(numbers).all():
            raise ValueError(f"{name} holds an infinite number. Times must be finite.")
        return _Codes("number", numbers)
    raise ValueError(
        f"{name} holds {index.dtype}, neither dates, periods nor numbers. Convert it first."
    )


def _parsed(index: pd.Index, name: str) -> pd.Index:
    """Text or mixed objects as dates or periods."""
    import pandas as pd

    first = index[0] if len(index) else None
    if isinstance(first, pd.Period):
        try:
            return pd.PeriodIndex(index)
        except (ValueError, TypeError):
            raise ValueError(
                f"{name} holds periods of different frequencies. Convert them to one with "
                "asfreq first."
            ) from None
    zones = {str(getattr(v, "tzinfo", None)) for v in index if hasattr(v, "tzinfo")}
    if len(zones) > 1:
        raise ValueError(
            f"{name} mixes time zones ({', '.join(sorted(zones)[:3])}). Convert all times to one "
            "zone first, for instance with pandas.to_datetime(times, utc=True)."
        )
    try:
        with warnings.catch_warnings():
            # Pandas says when it has to guess a format; the axis shows what it guessed.
            warnings.simplefilter("ignore", UserWarning)
            return pd.DatetimeIndex(pd.to_datetime(index))
    except (ValueError, TypeError) as error:
        if "time zone" in str(error).lower() or "timezone" in str(error).lower():
            raise ValueError(
                f"{name} mixes time zones. Convert all times to one zone first, for instance "
                "with pandas.to_datetime(times, utc=True)."
            ) from None
        raise ValueError(
            f"{name} holds text that is not a date: {str(first)[:40]!r}. Give dates, periods or "
            "numbers."
        ) from None


def time_axis(values: Any, name: str = "time", freq: str | None = None) -> TimeAxis:
    """The regular grid on which these times lie; times between them become gaps.

    Parameters
    ----------
    values : array, Series or Index
        Periods, timestamps, date text or numbers, in any order, repeated or not.
    name : str
        What messages call them.
    freq : str, optional
        Pandas frequency of the periods into which timestamps are put, such as ``"M"``.

    Examples
    --------
    >>> axis = time_axis(["2020-01", "2020-04", "2020-02"], freq="M")
    >>> axis.size, str(axis.labels()[2])
    (4, '2020-03')
    """
    import pandas as pd

    try:
        codes = _codes(values, name, freq)
    except ValueError as error:
        if freq is not None and "requency" in str(error) and "periods" not in str(error):
            raise ValueError(f"freq={freq!r} is not a pandas frequency: {error}.") from None
        raise
    unique = np.unique(codes.values)
    if not unique.size:
        raise ValueError(f"{name} is empty. Give at least one row.")
    if codes.kind == "period":
        return _grid(codes, unique, 1, name)
    if codes.kind == "timestamp" and freq is None and unique.size > 1:
        stamps = pd.DatetimeIndex(unique.astype("M8[ns]"))
        if codes.zone is not None:
            stamps = stamps.tz_localize("UTC").tz_convert(codes.zone)
        local = stamps.tz_localize(None) if codes.zone is not None else stamps
        for period in ("Y", "Q", "M"):
            # Months differ in length, so a common step in nanoseconds would be a day at most.
            if _one_per_period(local, period):
                return time_axis(local.to_period(period), name)
    if unique.size == 1:
        step: Any = 1 if codes.kind == "number" else 86_400_000_000_000
        return _grid(codes, unique, step, name)
    return _grid(codes, unique, _common_step(unique, codes.kind, name), name)


def _one_per_period(stamps: pd.DatetimeIndex, period: str) -> bool:
    """Whether all stamps are the first (or all the last) days of different periods, at one hour."""
    periods = stamps.to_period(period)
    if periods.has_duplicates:
        return False
    same = (stamps - stamps.normalize()).nunique() == 1
    days = stamps.normalize()
    starts = (days == periods.to_timestamp(how="start")).all()
    ends = (days == periods.to_timestamp(how="end").normalize()).all()
    return bool(same and (starts or ends))


def _common_step(unique: np.ndarray, kind: str, name: str) -> Any:
    gaps = np.diff(unique)
    if kind == "timestamp":
        step: Any = int(np.gcd.reduce(gaps))
    else:
        step = gaps.min()
        ratio = gaps / step
        if (np.abs(ratio - np.rint(ratio)) > 1e-6).any():
            raise ValueError(
                f"{name} is not equally spaced: steps of {gaps.min():g} and {gaps.max():g} have no "
                "common step. Round or number the times first."
            )
    if (unique[-1] - unique[0]) / step > _SPARSEST * unique.size:
        raise ValueError(
            f"{name} has {unique.size} different values on a grid of "
            f"{int((unique[-1] - unique[0]) / step) + 1} steps. Group the times first, for "
            "instance with freq='D' or freq='M'."
        )
    return step


def _grid(codes: _Codes, unique: np.ndarray, step: Any, name: str) -> TimeAxis:
    size = round(float((unique[-1] - unique[0]) / step)) + 1
    start = unique[0]
    if codes.kind == "number" and start == int(start) and step == int(step):
        start, step = int(start), int(step)
    elif codes.kind != "number":
        start = int(start)
    return TimeAxis(codes.kind, start, step, size, codes.frequency, codes.zone, name)
