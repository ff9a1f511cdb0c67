"""Data of the plots of clustered series."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

if TYPE_CHECKING:
    import pandas as pd


class Curves(Protocol):
    """Posterior mean and interval of curves: one row each, one column per time."""

    @property
    def mean(self) -> pd.DataFrame: ...  # noqa: D102

    @property
    def lower(self) -> pd.DataFrame: ...  # noqa: D102

    @property
    def upper(self) -> pd.DataFrame: ...  # noqa: D102


@dataclass(frozen=True)
class SeriesPicture:
    """Everything that the plots of series show.

    Attributes
    ----------
    trends : Curves
        Trend of each series; the rows of its tables name the series.
    labels : array of int, shape (series,)
        Cluster of each series, 0, 1, ...
    factors : Curves, optional
        Factor of each cluster.
    common : Curves, optional
        Factor that all series share: one row.
    apart : DataFrame, optional
        Trends without what the common factor moves in them, as `trends.mean`.
    signs : array, shape (series,), optional
        Negative where a series moves against its cluster's factor.
    observed : DataFrame, optional
        The data, series by time as `trends`, NaN where nothing was observed.
    forecast : Curves, optional
        Trends beyond the data.
    value_name, time_name : str
    level : float
        Probability of the intervals.

    Examples
    --------
    >>> import pandas as pd
    >>> from types import SimpleNamespace
    >>> mean = pd.DataFrame([[1.0, 2, 3], [1, 3, 4]], index=["a", "b"])
    >>> trends = SimpleNamespace(mean=mean, lower=mean - 1, upper=mean + 1)
    >>> picture = SeriesPicture(trends, np.array([0, 0]), value_name="sales")
    >>> picture.position("b"), picture.sizes.tolist()
    (1, [2])
    """

    trends: Curves
    labels: np.ndarray
    factors: Curves | None = None
    common: Curves | None = None
    apart: pd.DataFrame | None = None
    signs: np.ndarray | None = None
    observed: pd.DataFrame | None = None
    forecast: Curves | None = None
    value_name: str = "value"
    time_name: str = "time"
    level: float = 0.9

    def __post_init__(self) -> None:
        n = len(self.trends.mean)
        if np.shape(self.labels) != (n,):
            raise ValueError(f"labels has shape {np.shape(self.labels)} for {n} series")
        if self.signs is not None and np.shape(self.signs) != (n,):
            raise ValueError(f"signs has shape {np.shape(self.signs)} for {n} series")
        if self.observed is not None and self.observed.shape != self.trends.mean.shape:
            raise ValueError(
                f"observed has shape {self.observed.shape}, the trends {self.trends.mean.shape}"
            )

    @property
    def sizes(self) -> np.ndarray:
        """Number of series in each cluster."""
        return np.bincount(self.labels)

    @property
    def turned(self) -> np.ndarray:
        """Return which series have a negative loading."""
        return np.zeros(len(self.labels), bool) if self.signs is None else np.less(self.signs, 0)

    @property
    def standardised(self) -> np.ndarray:
        """Standardize trends, and reverse those with negative loadings.

        The common factor is removed, since it would hide the factors of the clusters.
        """
        trends = self.trends.mean if self.apart is None else self.apart
        lines = _standard(trends.to_numpy().astype(float))
        return np.where(self.turned[:, None], -lines, lines)

    @property
    def interval(self) -> str:
        """Return the name of the intervals."""
        return f"{self.level:.0%} interval"

    def position(self, name: Any) -> int:
        """Return the position of a series by its name, or by text that matches one name."""
        names = list(self.trends.mean.index)
        if name in names:
            return names.index(name)
        alike = [i for i, known in enumerate(names) if str(known) == str(name)]
        if len(alike) == 1:
            return alike[0]
        raise ValueError(f"series {name!r} was not in the data that the model was fitted to.")


def _standard(lines: np.ndarray) -> np.ndarray:
    spread = lines.std(axis=1, keepdims=True)
    return (lines - lines.mean(axis=1, keepdims=True)) / np.where(spread > 0, spread, 1.0)


def drawn_times(times: Any) -> np.ndarray:
    """Times as matplotlib draws them."""
    import pandas as pd

    if isinstance(times, pd.PeriodIndex):
        times = times.to_timestamp()
    return times.to_numpy()
