"""A series fit's data in plain arrays and text, for its file, and back."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

import numpy as np

from cavity.series.data import SeriesData
from cavity.series.results import TrendMoments
from cavity.series.time_axis import TimeAxis

if TYPE_CHECKING:
    import pandas as pd

    from cavity.posterior.posterior import Posterior


def summaries_of(data: SeriesData, moments: TrendMoments) -> dict[str, np.ndarray]:
    """What answers need beyond the draws: observations and moments of the trends."""
    return {
        "y": data.y,
        "count": data.count,
        "covariates": data.covariates,
        "series": _index_values(data.series),
        "trend_mean": moments.mean,
        "trend_variance": moments.variance,
        "trend_cross": moments.cross,
    }


def details_of(data: SeriesData) -> dict[str, Any]:
    """What the record says of the data, readable again by `data_from`."""
    times = data.axis.labels()
    axis = {f.name: getattr(data.axis, f.name) for f in dataclasses.fields(data.axis)}
    axis["zone"] = None if data.axis.zone is None else str(data.axis.zone)
    return {
        "n_times": data.axis.size,
        "n_values": int(data.count.sum(dtype=float)),
        "times": [str(times[0]), str(times[-1])],
        "covariates": list(data.covariate_names),
        "axis": axis,
        "columns": list(data.columns),
        "offset_column": data.offset_column,
        "season": data.season,
        "series_dtype": str(data.series.dtype),
        "curves": ["factor"],
        "series_name": None if data.series.name is None else str(data.series.name),
    }


def data_from(posterior: Posterior) -> tuple[SeriesData, TrendMoments]:
    """Data (but for what cells scatter about their means) and moments of a saved fit."""
    kept, details = posterior.summaries, posterior.record.details
    y = kept["y"]
    names = tuple(details["covariates"])
    data = SeriesData(
        y=y,
        count=kept["count"],
        covariates=kept["covariates"],
        scatter=np.zeros((len(y), 1, 1)),
        series=_index(kept["series"], details["series_dtype"], details["series_name"]),
        axis=TimeAxis(**details["axis"]),
        covariate_names=names,
        columns=tuple(details["columns"]),
        offset_column=details["offset_column"],
        season=details.get("season"),
    )
    moments = TrendMoments(kept["trend_mean"], kept["trend_variance"], kept["trend_cross"])
    return data, moments


def _index_values(index: pd.Index) -> np.ndarray:
    if index.dtype.kind in "iuf":
        return index.to_numpy()
    return np.array([str(v) for v in index], dtype=str)


def _index(values: np.ndarray, dtype: str, name: str | None) -> pd.Index:
    """The user's names of the series; those that are neither numbers nor text come as text."""
    import pandas as pd

    if values.dtype.kind in "iuf":
        return pd.Index(values, name=name)
    index = pd.Index(values.astype(object), name=name)
    if dtype.startswith("datetime64"):
        return pd.DatetimeIndex(pd.to_datetime(index), name=name)
    if dtype.startswith("period"):
        return pd.PeriodIndex(index, freq=dtype[len("period[") : -1], name=name)
    return index
