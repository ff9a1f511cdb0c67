"""Series on the command line."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from cavity.cli import folder as files
from cavity.cli.model_base import Model, speaking_of_options
from cavity.cli.record import RunFile
from cavity.cli.series_rows import select_rows
from cavity.cli.tables import Choice, Selection
from cavity.cli.wide_series import (
    SERIES,
    TIME,
    VALUE,
    has_times,
    is_wide,
    new_rows,
    select_wide,
)
from cavity.io.files import Table
from cavity.io.names import column_names

if TYPE_CHECKING:
    import pandas as pd

AHEAD = 12  # times that forecast.csv reaches beyond the data, if nothing else is asked for


class SeriesModel(Model):
    """Time series: one observation per row of the file, or one series."""

    def make(self, settings: Mapping[str, Any], **run: Any) -> Any:
        """An estimator with these settings; Gaussian noise has no degrees of freedom."""
        given = dict(settings)
        if given.get("df") == "gaussian":
            given["df"] = None
        return super().make(given, **run)

    def read(self, table: Table, choice: Choice) -> Selection:
        """The observations of a file."""
        if is_wide(choice) and has_times(table, choice):
            return select_wide(table, choice)
        return select_rows(table, choice)

    def _names(self, choice: Choice, settings: Mapping[str, Any]) -> dict[str, Any]:
        freq = {"freq": settings.get("freq")}
        if is_wide(choice):
            return freq
        return {
            "series": choice.series,
            "time": choice.time,
            "value": choice.value,
            "covariates": list(choice.columns),
            "offset": None,
            **freq,
        }

    def check(self, estimator: Any, selection: Selection, choice: Choice, settings: Any) -> None:
        """Refuse settings and data that the estimator would refuse."""
        self.refuse_few(_n_series(selection), settings)
        with speaking_of_options(), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the fit itself will say it
            estimator.check(selection.table, **self._names(choice, settings))

    def size(self, selection: Selection) -> str:
        """How much there is to cluster, in words."""
        n = _n_series(selection)
        wide = _is_indexed(selection)
        n_values = int(selection.table.notna().to_numpy().sum()) if wide else len(selection.table)
        return f"{n:,} series, {n_values:,} observations,"

    def fit(
        self, estimator: Any, selection: Any, choice: Choice, settings: Any, client: Any = None
    ) -> None:
        """Sample, with whole chains on the workers of a cluster if there is one."""
        estimator.fit(selection.table, **self._names(choice, settings), client=client)

    def heading(self, estimator: Any) -> str:
        """What clusters are without."""
        parts = []
        if words := estimator.common_factor_words():
            parts.append(words)
            parts.append(
                "(Its course is the last of factors.csv; --no-common-factor leaves it in.)"
                if "common_factor" in estimator.posterior_.drawn
                else "--common-factor takes one out; clusters may then be others."
            )
        if estimator.season is not None:
            parts.append("Trends, factors and clusters are without the season.")
        return " ".join(parts)

    def tail(self, estimator: Any, table: Any) -> np.ndarray | None:
        """Series have no distance from their cluster."""
        return None

    def features(self, estimator: Any) -> list[str] | None:
        """What sets each cluster apart."""
        return estimator.distinguishing_features()

    def tables(self, estimator: Any, run: RunFile, table: Any) -> dict[str, pd.DataFrame]:
        """Trends, factors and forecasts, one row per curve and time; parameters of each series."""
        key, time = run.data.id_name, run.data.choice.time or TIME
        steps = run.settings.get("forecast", AHEAD)
        ahead = long_band(estimator.forecast(steps), key, time)
        trend = long_band(estimator.forecast(steps, of="trend"), key, time)
        for name in ("mean", "lower", "upper"):
            ahead[f"trend_{name}"] = trend[name]
        out = {
            files.TRENDS: long_band(estimator.trends_, key, time),
            files.FACTORS: long_band(estimator.all_factors_, "cluster", time),
            files.FORECAST: ahead,
            files.PARAMETERS: estimator.series_.rename_axis(index=key).reset_index(),
        }
        if estimator.season is not None:
            out[files.SEASONS] = long_band(estimator.seasons_, key, "place")
        return out

    def report(self, path: Path, estimator: Any, table: Any, **words: Any) -> None:
        """Write the page."""
        estimator.report(path, **words)

    def draw(self, path: Path, estimator: Any, table: Any) -> None:
        """Write the picture."""
        # In the data's units, unless that would show again what clusters are without.
        shared = "common_factor" in estimator.posterior_.drawn
        files.save_picture(path, estimator.plot_clusters(standardised=shared))

    def predict(self, estimator: Any, table: Table, choice: Choice) -> pd.DataFrame:
        """What is expected at new rows, and how far out their values lie; clusters of new series.

        Series of which the run knows none are put into its clusters by their values.
        """
        import pandas as pd
        from scipy import stats

        if is_wide(choice):
            series, time, value = SERIES, TIME, VALUE
            rows, written = new_rows(table, choice)
        else:
            series, time, value = str(choice.series), str(choice.time), str(choice.value)
            rows = select_rows(table, choice, with_value=value in table.names).table
            written = column_names(table.column(time), time, str(table.path))
        cluster = estimator.series_["cluster"]
        with speaking_of_options():
            if value in rows.columns and not rows[series].isin(cluster.index).any():
                placed = estimator.membership(rows, series=series, time=time, value=value)
                return placed.rename_axis(index=choice.series or SERIES).reset_index()
            expected = estimator.predict_values(rows)
        result = pd.DataFrame(
            {
                choice.series or SERIES: rows[series],
                time: written,
                "cluster": cluster.loc[rows[series]].to_numpy(),
                **{name: expected[name].to_numpy() for name in expected.columns},
            }
        )
        if value in rows.columns:
            away = np.abs(rows[value] - expected["mean"]) / expected["sd"]
            result[value if value not in result.columns else f"{value} (observed)"] = rows[value]
            result["tail_probability"] = 2.0 * stats.norm.sf(away)
        return result

    def title(self, source: str) -> str:
        """Of the report."""
        return f"Clusters of series in {source}"

    def written(self) -> list[tuple[str, str]]:
        """Files of a run and what is in them."""
        return [
            (files.LABELS, "each series' cluster, probabilities and certainty"),
            (files.TRENDS, "each series' trend: mean and 90% interval at every time"),
            (files.FORECAST, "the next times: mean and 90% interval of observations and trends"),
            (
                files.FACTORS,
                "what the series of a cluster, or of all, share: mean and 90% interval",
            ),
            (files.PARAMETERS, "each series' parameters: how strongly it follows its cluster, ..."),
            (files.SEASONS, "each series' season"),
            (files.PICTURE, "the trends, cluster by cluster"),
        ]


def _is_indexed(selection: Selection) -> bool:
    """Whether series are the rows of a wide table."""
    return selection.table.index.name is not None


def _n_series(selection: Selection) -> int:
    if _is_indexed(selection):
        return len(selection.table)
    return int(selection.table[selection.id_name].nunique())


def long_band(band: Any, key: str, time: str) -> pd.DataFrame:
    """A band as a long table: one row per curve and time, with mean, lower and upper."""
    import pandas as pd

    parts = [
        getattr(band, part).rename_axis(index=key, columns=time).stack().rename(part)
        for part in ("mean", "lower", "upper")
    ]
    return pd.concat(parts, axis=1).reset_index()
