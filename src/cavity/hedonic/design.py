"""From a table of sales to regressors: checks, months, splines of the features, a smooth trend."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.preprocessing import SplineTransformer
from sklearn.utils.validation import check_is_fitted

if TYPE_CHECKING:
    import pandas as pd


class LogQuartileSplines(TransformerMixin, BaseEstimator):
    """B-splines of the logarithm of each column, knots at its quartiles, centred.

    Beyond the range seen in fitting the splines go on linearly. Quartiles that coincide (a count
    such as bathrooms has many ties) make one knot.

    Parameters
    ----------
    degree : int
        Degree of the splines. Quadratic by default: the outermost cubic one rests on a handful of
        extreme houses, and regressions of single regions then go astray there.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.random.default_rng(0).lognormal(size=(100, 2))
    >>> LogQuartileSplines().fit_transform(X).shape
    (100, 10)
    """

    def __init__(self, degree: int = 2) -> None:
        self.degree = degree

    def fit(self, X: Any, y: Any = None) -> LogQuartileSplines:
        """Place the knots and remember the mean of every spline."""
        values = self._logs(X)
        self.splines_: list[SplineTransformer | None] = []
        for column in values.T:
            knots = np.unique(np.quantile(column, [0, 0.25, 0.5, 0.75, 1]))
            if len(knots) < 2:
                self.splines_.append(None)  # a constant column carries no information
                continue
            spline = SplineTransformer(
                degree=self.degree, knots=knots[:, None], extrapolation="linear", include_bias=False
            )
            self.splines_.append(spline.fit(column[:, None]))
        self.means_ = np.zeros(1)
        self.means_ = self._splines(values).mean(axis=0)
        return self

    def transform(self, X: Any) -> np.ndarray:
        """Return the centred splines."""
        check_is_fitted(self)
        values = self._logs(X)
        if values.shape[1] != len(self.splines_):
            raise ValueError(f"X has {values.shape[1]} columns; fitted with {len(self.splines_)}.")
        return self._splines(values) - self.means_

    def _splines(self, values: np.ndarray) -> np.ndarray:
        parts = [
            spline.transform(values[:, [j]])
            for j, spline in enumerate(self.splines_)
            if spline is not None
        ]
        return np.hstack(parts) if parts else np.empty((len(values), 0))

    @staticmethod
    def _logs(X: Any) -> np.ndarray:
        names = [str(c) for c in getattr(X, "columns", [])]
        values = np.asarray(X, dtype=float)
        bad = ~(np.isfinite(values) & (values > 0))
        if bad.any():
            row, column = (int(i) for i in np.argwhere(bad)[0])
            where = f"column {names[column]!r}" if names else f"column {column}"
            raise ValueError(
                f"Features must be positive and finite to take logarithms: {where}, row {row} "
                f"is {values[row, column]}. Drop or correct such rows."
            )
        return np.log(values)


class SeasonalTrend(TransformerMixin, BaseEstimator):
    """Smooth trend and season of a month number: cubic splines, and periodic ones of the year.

    Parameters
    ----------
    months_per_knot : int
        Distance between the knots of the trend.

    Examples
    --------
    >>> import numpy as np
    >>> months = np.arange(480, 564)
    >>> SeasonalTrend().fit(months).transform(months).shape
    (84, 14)
    """

    def __init__(self, months_per_knot: int = 12) -> None:
        self.months_per_knot = months_per_knot

    def fit(self, months: Any, y: Any = None) -> SeasonalTrend:
        """Place the knots over the months seen."""
        month = np.asarray(months, dtype=float).reshape(-1, 1)
        low, high = month.min(), month.max()
        n_knots = max(2, round((high - low) / self.months_per_knot) + 1)
        self.trend_ = None
        if high > low:
            knots = np.linspace(low, high, n_knots)[:, None]
            self.trend_ = SplineTransformer(
                degree=3, knots=knots, extrapolation="linear", include_bias=False
            ).fit(month)
        # A period of twelve months needs the months to fill it: knots every second month.
        self.season_ = SplineTransformer(
            degree=3,
            knots=np.arange(0.0, 13.0, 2.0)[:, None],
            extrapolation="periodic",
            include_bias=False,
        ).fit(np.arange(12.0)[:, None])
        return self

    def transform(self, months: Any, *, season: bool = True) -> np.ndarray:
        """Return the splines; without the season its average over the year stands for it."""
        check_is_fitted(self)
        month = np.asarray(months, dtype=float).reshape(-1, 1)
        parts = [] if self.trend_ is None else [self.trend_.transform(month)]
        if season:
            parts.append(self.season_.transform(month % 12))
        else:
            mean = self.season_.transform(np.arange(12.0)[:, None]).mean(axis=0)
            parts.append(np.broadcast_to(mean, (len(month), len(mean))))
        return np.hstack(parts)


def month_numbers(dates: Any, name: str = "date") -> np.ndarray:
    """Return months since January 1970 of dates, timestamps, periods or ISO text.

    Examples
    --------
    >>> month_numbers(["1970-01-15", "1971-02-01"]).tolist()
    [0, 13]
    """
    import pandas as pd

    values: Any = pd.Series(dates)
    if isinstance(values.dtype, pd.PeriodDtype):
        values = values.dt.to_timestamp()
    try:
        stamps = pd.to_datetime(values)
    except (ValueError, TypeError) as error:
        raise ValueError(f"Column {name!r} must hold dates: {error}") from None
    if stamps.isna().any():
        row = int(np.argmax(stamps.isna().to_numpy()))
        raise ValueError(f"Column {name!r} has no date in row {row}.")
    return ((stamps.dt.year - 1970) * 12 + stamps.dt.month - 1).to_numpy(dtype=np.int64)


def month_labels(months: Any) -> pd.PeriodIndex:
    """Return month numbers as pandas periods.

    Examples
    --------
    >>> [str(p) for p in month_labels([0, 13])]
    ['1970-01', '1971-02']
    """
    import pandas as pd

    # pandas itself counts monthly periods from January 1970.
    ordinals = np.asarray(months, dtype=np.int64).tolist()
    return pd.PeriodIndex([pd.Period(ordinal=m, freq="M") for m in ordinals], freq="M")


class Rows(NamedTuple):
    """Sales in the form the local models take: one entry per sale."""

    month: np.ndarray
    region: np.ndarray
    splines: np.ndarray


def check_table(X: Any, region: str, date: str, features: Sequence[str]) -> pd.DataFrame:
    """Refuse sales that are not a table, lack a column, or have no region."""
    import pandas as pd

    if not isinstance(X, pd.DataFrame):
        raise TypeError(f"Sales must come as a pandas DataFrame; got {type(X).__name__}.")
    missing = [c for c in (region, date, *features) if c not in X.columns]
    if missing:
        raise ValueError(
            f"The sales lack the column(s) {', '.join(map(repr, missing))}; name yours by the "
            "arguments region, date and features."
        )
    if X[region].isna().any():
        row = int(np.argmax(X[region].isna().to_numpy()))
        raise ValueError(f"Column {region!r} has no value in row {row}.")
    return X


def check_prices(y: Any, n_sales: int) -> np.ndarray:
    """Refuse prices that are not one per sale, positive and finite."""
    price = np.asarray(y, dtype=float)
    if price.shape != (n_sales,):
        raise ValueError(f"y must have one price per sale: {n_sales}; got {price.shape}.")
    bad = ~(np.isfinite(price) & (price > 0))
    if bad.any():
        row = int(np.argmax(bad))
        raise ValueError(f"Prices must be positive and finite; row {row} is {price[row]}.")
    if not n_sales:
        raise ValueError("There are no sales to fit.")
    return price


def region_positions(table: pd.DataFrame, column: str, regions: np.ndarray) -> np.ndarray:
    """Position of each sale's region among those of the fit; others are refused by name."""
    names = table[column].astype(str).to_numpy()
    position = np.searchsorted(regions, names)
    unknown = regions[np.minimum(position, len(regions) - 1)] != names
    if unknown.any():
        row = int(np.argmax(unknown))
        raise ValueError(
            f"Column {column!r}, row {row}: no sales were seen in the region {names[row]!r} "
            f"({len(set(names[unknown]))} such region(s), {unknown.sum()} row(s)). Leave such rows "
            "out, or fit with sales from there."
        )
    return position


def known_months(
    table: pd.DataFrame, column: str, first: int, last: int, horizon: int
) -> np.ndarray:
    """Month of each sale; those before the fit or beyond the horizon are refused by name."""
    months = month_numbers(table[column], column)
    odd = (months < first) | (months > last + horizon)
    if odd.any():
        row = int(np.argmax(odd))
        asked, start, end = month_labels([months[row], first, last + horizon])
        why = (
            f"lies before the first sale of the fit, {start}"
            if months[row] < first
            else f"lies after {end}, horizon={horizon} months after the last sale of the fit"
        )
        raise ValueError(
            f"Column {column!r}, row {row}: {asked} {why}. Leave such rows out, or fit with sales "
            "of that time."
        )
    return months
