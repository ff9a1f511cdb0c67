"""The time axis of a set of series: regular steps, in the user's own kind of label."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from cavity.io.times import text_times

if TYPE_CHECKING:
    import pandas as pd

# A grid finer than this many steps per observed time is taken for a mistake in the data.
_SPARSEST = 50
# Whole numbers beyond this are not all floats: neighbours would become one time.
_EXACT = 2**53
# Years, or numbers of steps: what the head of a CSV file has for them. With more digits it may be
# a day written without marks.
_COUNTED = re.compile("0|[1-9][0-9]{0,3}")


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
        nearest, bad = self._steps(codes.values)
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
        return nearest

    def _steps(self, values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Nearest steps, and which values lie between two; whole numbers are not rounded."""
        if values.dtype.kind == "i" and isinstance(self.start, int) and isinstance(self.step, int):
            low, high = int(values.min(initial=self.start)), int(values.max(initial=self.start))
            if high - self.start < 2**63 and self.start - low < 2**63:
                steps, rest = np.divmod(values - self.start, self.step)
                return steps, rest != 0
        position = (values - self.start) / self.step
        nearest = np.rint(position)
        return nearest.astype(np.int64), np.abs(position - nearest) > 1e-6


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
        try:
            plain = plain.as_unit("ns")
        except ValueError:
            raise ValueError(
                f"{name} holds dates outside the years 1678 to 2261, which nanoseconds cannot "
                "count. Give freq='Y' or periods."
            ) from None
        return _Codes("timestamp", plain.asi8, zone=zone)
    if pd.api.types.is_numeric_dtype(index.dtype) and not pd.api.types.is_bool_dtype(index.dtype):
        if pd.api.types.is_integer_dtype(index.dtype):
            return _Codes("number", _whole(index, name))
        numbers = index.to_numpy(dtype=float)
        if not np.isfinite(numbers).all():
            raise ValueError(f"{name} holds an infinite number. Times must be finite.")
        if np.abs(numbers).max(initial=0.0) > _EXACT:
            raise ValueError(
                f"{name} holds numbers beyond 2**53 as floats, where neighboring times are one "
                "number. Give them as integers, or subtract the first from all."
            )
        if (numbers == np.rint(numbers)).all():
            numbers = numbers.astype(np.int64)
        return _Codes("number", numbers)
    raise ValueError(
        f"{name} holds {index.dtype}, neither dates, periods nor numbers. Convert it first."
    )


def _whole(index: pd.Index, name: str) -> np.ndarray:
    values = index.to_numpy()
    if values.dtype.kind == "u" and values.size and int(values.max()) > np.iinfo(np.int64).max:
        raise ValueError(
            f"{name} holds whole numbers beyond 64 bits with sign. Subtract the first from all."
        )
    return values.astype(np.int64)


def _parsed(index: pd.Index, name: str) -> pd.Index:
    """Text or mixed objects as dates, periods or numbers."""
    import pandas as pd

    missing = np.asarray(index.isna())
    if missing.any():
        # Before anything is converted: NaT is the number -9.2e18 to some conversions.
        row = int(np.argmax(missing))
        raise ValueError(f"{name} is missing in row {row}. Drop or fill such rows first.")
    first = index[0] if len(index) else None
    if isinstance(first, pd.Period):
        try:
            return pd.PeriodIndex(index)
        except (ValueError, TypeError):
            raise ValueError(
                f"{name} holds periods of different frequencies. Convert them to one with "
                "asfreq first."
            ) from None
    text = np.array([isinstance(v, str) for v in index], dtype=bool)
    if text.all():
        if len(index) and all(_COUNTED.fullmatch(label) for label in index):
            return pd.Index([int(label) for label in index])
        return text_times(list(index), name)
    if text.any():
        row = int(np.argmin(text)) if text[0] else int(np.argmax(text))
        raise ValueError(
            f"{name} mixes text with other things: row {row} is {str(index[row])[:40]!r}, unlike "
            "the rows before. Give all times in one form."
        )
    if all(isinstance(v, int | np.integer) and not isinstance(v, bool) for v in index):
        raise ValueError(
            f"{name} holds whole numbers beyond 64 bits. Subtract the first from all of them."
        )
    zones = {str(getattr(v, "tzinfo", None)) for v in index if hasattr(v, "tzinfo")}
    if len(zones) > 1:
        raise ValueError(
            f"{name} mixes time zones ({', '.join(sorted(zones)[:3])}). Convert all times to one "
            "zone first, for instance with pandas.to_datetime(times, utc=True)."
        )
    try:
        return pd.DatetimeIndex(pd.to_datetime(index))
    except (ValueError, TypeError):
        raise ValueError(
            f"{name} holds things that are not times: {str(first)[:40]!r}. Give dates, periods or "
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
    if unique.dtype.kind == "i" and int(unique[-1]) - int(unique[0]) >= 2**63:
        raise ValueError(
            f"{name} runs from {unique[0]} to {unique[-1]}, too far apart for 64 bits. Check these."
        )
    gaps = np.diff(unique)
    if unique.dtype.kind == "i":
        step: Any = int(np.gcd.reduce(gaps))
    else:
        step = gaps.min()
        ratio = gaps / step
        if (np.abs(ratio - np.rint(ratio)) > 1e-6).any():
            raise ValueError(
                f"{name} is not equally spaced: steps of {gaps.min():g} and {gaps.max():g} have no "
                "common step. Round or number the times first."
            )
    if float(unique[-1] - unique[0]) / step > _SPARSEST * unique.size:
        raise ValueError(
            f"{name} has {unique.size} different values on a grid of "
            f"{int((unique[-1] - unique[0]) // step) + 1} steps. Group the times first, for "
            "instance with freq='D' or freq='M'."
        )
    return step


def _grid(codes: _Codes, unique: np.ndarray, step: Any, name: str) -> TimeAxis:
    start: Any = unique[0]
    if unique.dtype.kind == "i":
        start, step = int(start), int(step)
        size = (int(unique[-1]) - start) // step + 1
    else:
        size = round(float((unique[-1] - start) / step)) + 1
    return TimeAxis(codes.kind, start, step, size, codes.frequency, codes.zone, name)
