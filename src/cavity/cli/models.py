"""What the commands need to know of each model: the one file that speaks to the estimators."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from cavity.cli import folder as files
from cavity.cli.errors import UserError
from cavity.cli.record import in_options
from cavity.cli.series_rows import select_rows
from cavity.cli.tables import (
    Choice,
    Selection,
    needs_table,
    read_table,
    select,
    select_table,
    types_of,
)
from cavity.reading.files import Table
from cavity.reading.names import column_names
from cavity.reading.words import printable

if TYPE_CHECKING:
    import pandas as pd

AHEAD = 12  # times that forecast.csv reaches beyond the data
FAR = 1e-3  # tail probability of a new row that is worth a look


@contextmanager
def speaking_of_options() -> Iterator[None]:
    """Errors of the estimators in the words of the command line."""
    try:
        yield
    except ValueError as error:
        raise UserError(in_options(str(error))) from error


@dataclass(frozen=True)
class Model:
    """A model of the command line.

    Attributes
    ----------
    name : str
        As ``--model`` has it.
    estimator : str
        Its class in `cavity`.
    noun : {"row", "series"}
        What is clustered.
    options : tuple of str
        Options of this model that not every model has.
    """

    name: str
    estimator: str
    noun: str
    options: tuple[str, ...]

    def make(self, settings: Mapping[str, Any], **run: Any) -> Any:
        """An estimator with these settings."""
        import cavity

        given = {name: value for name, value in settings.items() if name != "freq"}
        return getattr(cavity, self.estimator)(**given, **run)

    def refuse_few(self, n: int, settings: Mapping[str, Any]) -> None:
        """Refuse more clusters than there are things to cluster."""
        n_clusters = settings.get("n_clusters", 10)
        if n < n_clusters and settings.get("prior") not in ("dp", "pitman-yor"):
            noun = self.noun if self.noun == "series" else f"{self.noun}s"
            raise UserError(
                f"There are {n} {noun}, fewer than --clusters {n_clusters}; lower --clusters, or "
                "use --prior dp."
            )

    def load(self, run: Path) -> Any:
        """The fitted estimator of a run, from its folder alone."""
        import cavity

        return getattr(cavity, self.estimator).load(run / files.POSTERIOR)

    def title(self, source: str) -> str:
        """Of the report."""
        return f"Clusters of {source}"

    def heading(self, estimator: Any) -> str:
        """What to say before the summary."""
        return ""

    def open(self, data: Path, choice: Choice) -> Any:
        """What of a file is meant."""
        return self.read(read_table(data, choice), choice)  # type: ignore[attr-defined]

    def shown(self, selection: Any, estimator: Any) -> Any:
        """The rows that pictures and tables show."""
        return selection.table

    def place(self, estimator: Any, selection: Any, out: Path) -> None:
        """Write what is known of every row, where tables in memory do not have it."""


class RowsModel(Model):
    """Rows of numbers."""

    def read(self, table: Table, choice: Choice) -> Selection:
        """The numbers of a file."""
        return select(table, choice)

    def check(self, estimator: Any, selection: Selection, choice: Choice, settings: Any) -> None:
        """Refuse settings and data that the estimator would refuse."""
        if len(selection.table) < 2:
            raise UserError("There is one row only; clustering needs at least two.")
        self.refuse_few(len(selection.table), settings)
        with speaking_of_options():
            estimator.check(selection.table)

    def size(self, selection: Selection) -> str:
        """How much there is to cluster, in words."""
        n, d = selection.table.shape
        return f"{n:,} {'row' if n == 1 else 'rows'} and {d} {'column' if d == 1 else 'columns'}"

    def fit(
        self, estimator: Any, selection: Any, choice: Choice, settings: Any, client: Any = None
    ) -> None:
        """Sample, with whole chains on the workers of a cluster if there is one."""
        estimator.fit(selection.table, client=client)

    def shown(self, selection: Any, estimator: Any) -> Any:
        """All rows, or those that a fit over blocks of rows has followed."""
        from cavity.cli.shards import followed_table

        followed = followed_table(estimator)
        return selection.table if followed is None else followed

    def tail(self, estimator: Any, table: Any) -> np.ndarray | None:
        """How far out each row of the fit lies; None where the rows are not at hand."""
        return None if table is None else estimator.tail_probabilities(table)

    def features(self, estimator: Any) -> list[str] | None:
        """What sets each cluster apart."""
        return estimator.distinguishing()

    def report(self, path: Path, estimator: Any, table: Any, **words: Any) -> None:
        """Write the page."""
        estimator.report(path, table, count_from=1, **words)

    def tables(self, estimator: Any, choice: Choice, table: Any) -> dict[str, pd.DataFrame]:
        """Further tables by the name of their file."""
        return {}

    def draw(self, path: Path, estimator: Any, table: Any) -> None:
        """Write the picture, where the rows are at hand."""
        if table is not None:
            axes = estimator.posterior_.plot_clusters(table, estimator.partition_)
            files.save_picture(path, axes)

    def predict(self, estimator: Any, table: Table, choice: Choice) -> pd.DataFrame:
        """Clusters of new rows, and how far out these lie."""
        return self._placed(estimator, select(table, choice))

    def _placed(self, estimator: Any, selection: Selection) -> pd.DataFrame:
        result = estimator.membership(selection.table).reset_index(drop=True)
        name = selection.id_name
        name = f"{name} (row)" if name in result.columns else name
        result.insert(0, name, selection.table.index)
        return result

    def written(self) -> list[tuple[str, str]]:
        """Files of a run and what is in them."""
        return [
            (files.LABELS, "each row's cluster, probabilities and certainty"),
            (files.PICTURE, "the rows coloured by cluster"),
        ]


class TableModel(RowsModel):
    """Rows of measurements, categories and counts, with gaps."""

    def read(self, table: Table, choice: Choice) -> Selection:
        """The cells of a file."""
        return select_table(table, choice)

    def check(self, estimator: Any, selection: Selection, choice: Choice, settings: Any) -> None:
        """Refuse settings and data that the estimator would refuse; say what columns are."""
        estimator.feature_types = types_of(choice) or None
        super().check(estimator, selection, choice, settings)

    def fit(
        self, estimator: Any, selection: Any, choice: Choice, settings: Any, client: Any = None
    ) -> None:
        """Sample, with whole chains on the workers of a cluster if there is one."""
        estimator.feature_types = types_of(choice) or None
        estimator.fit(selection.table, client=client)

    def heading(self, estimator: Any) -> str:
        """What the columns were taken for."""
        kinds = estimator.columns_["kind"]
        parts = [
            f"{kind}: {', '.join(printable(name) for name in kinds.index[kinds == kind])}"
            for kind in dict.fromkeys(kinds)
        ]
        return "Columns were taken as " + "; ".join(parts) + "."

    def tail(self, estimator: Any, table: Any) -> np.ndarray | None:
        """Rows of mixed columns have no distance from their cluster."""
        return None

    def tables(self, estimator: Any, choice: Choice, table: Any) -> dict[str, pd.DataFrame]:
        """Clusters and columns, and what gaps may hold where the rows are at hand."""
        out = {
            files.CLUSTERS: estimator.summary().reset_index(),
            files.COLUMNS: estimator.columns_.reset_index(),
        }
        if table is not None and table.isna().to_numpy().any():
            out[files.IMPUTED] = estimator.impute(table).cells.reset_index()
        return out

    def draw(self, path: Path, estimator: Any, table: Any) -> None:
        """Write the picture of the continuous columns, if there are any."""
        kinds = estimator.columns_["kind"]
        names = list(kinds.index[kinds == "continuous"])
        if table is not None and names:
            axes = estimator.posterior_.plot_clusters(table[names], estimator.partition_)
            files.save_picture(path, axes)

    def predict(self, estimator: Any, table: Table, choice: Choice) -> pd.DataFrame:
        """Clusters of new rows."""
        return self._placed(estimator, select_table(table, choice))

    def written(self) -> list[tuple[str, str]]:
        """Files of a run and what is in them."""
        return [
            (files.LABELS, "each row's cluster, probabilities and certainty"),
            (files.CLUSTERS, "each cluster's means, shares and rates with 95% intervals"),
            (files.COLUMNS, "what each column was taken for"),
            (files.IMPUTED, "what gaps may hold, with 90% intervals, if there are any"),
        ]


class SeriesModel(Model):
    """Time series, one observation per row of the file."""

    def read(self, table: Table, choice: Choice) -> Selection:
        """The observations of a file."""
        return select_rows(table, choice)

    def _names(self, choice: Choice, settings: Mapping[str, Any]) -> dict[str, Any]:
        return {
            "series": choice.series,
            "time": choice.time,
            "value": choice.value,
            "covariates": list(choice.columns),
            "offset": None,
            "freq": settings.get("freq"),
        }

    def check(self, estimator: Any, selection: Selection, choice: Choice, settings: Any) -> None:
        """Refuse settings and data that the estimator would refuse."""
        self.refuse_few(selection.table[selection.id_name].nunique(), settings)
        with speaking_of_options(), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the fit itself will say it
            estimator.check(selection.table, **self._names(choice, settings))

    def size(self, selection: Selection) -> str:
        """How much there is to cluster, in words."""
        n = selection.table[selection.id_name].nunique()
        return f"{n:,} series, {len(selection.table):,} observations,"

    def fit(
        self, estimator: Any, selection: Any, choice: Choice, settings: Any, client: Any = None
    ) -> None:
        """Sample, with whole chains on the workers of a cluster if there is one."""
        estimator.fit(selection.table, **self._names(choice, settings), client=client)

    def tail(self, estimator: Any, table: Any) -> np.ndarray | None:
        """Series have no distance from their cluster."""
        return None

    def features(self, estimator: Any) -> list[str] | None:
        """Pictures say more of series than numbers."""
        return None

    def tables(self, estimator: Any, choice: Choice, table: Any) -> dict[str, pd.DataFrame]:
        """Trends, factors and forecasts, one row per curve and time."""
        key, time = choice.series or self.noun, choice.time or "time"
        return {
            files.TRENDS: long_band(estimator.trends_, key, time),
            files.FACTORS: long_band(estimator.all_factors(), "cluster", time),
            files.FORECAST: long_band(estimator.forecast(AHEAD, of="trend"), key, time),
        }

    def report(self, path: Path, estimator: Any, table: Any, **words: Any) -> None:
        """Write the page."""
        estimator.report(path, **words)

    def draw(self, path: Path, estimator: Any, table: Any) -> None:
        """Write the picture."""
        files.save_picture(path, estimator.plot_clusters(standardised=False))

    def predict(self, estimator: Any, table: Table, choice: Choice) -> pd.DataFrame:
        """What is expected at new rows; with values, how far out these lie."""
        import pandas as pd
        from scipy import stats

        value, series, time = str(choice.value), str(choice.series), str(choice.time)
        with_value = value in table.names
        rows = select_rows(table, choice, with_value=with_value).table
        with speaking_of_options():
            expected = estimator.predict(rows)
        cluster = estimator.series_["cluster"]
        path = str(table.path)
        result = pd.DataFrame(
            {
                series: rows[series],
                time: column_names(table.column(time), time, path),
                "cluster": cluster.loc[rows[series]].to_numpy(),
                **{name: expected[name].to_numpy() for name in expected.columns},
            }
        )
        if with_value:
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
            (files.FORECAST, f"the same for the next {AHEAD} times"),
            (
                files.FACTORS,
                "what the series of a cluster, or of all, share: mean and 90% interval",
            ),
            (files.PICTURE, "the trends, cluster by cluster"),
        ]


FORMS = ("--covariance", "--factors")
MODELS: dict[str, RowsModel | SeriesModel] = {
    "student-t": RowsModel(
        "student-t", "StudentTMixture", "row",
        ("--columns", "--id-column", "--drop-missing", "--noise", "--df", *FORMS),
    ),
    "gaussian": RowsModel(
        "gaussian", "GaussianMixture", "row",
        ("--columns", "--id-column", "--drop-missing", "--noise", *FORMS),
    ),
    "table": TableModel(
        "table", "TableMixture", "row",
        ("--columns", "--id-column", "--drop-missing", "--noise", "--df", "--types", *FORMS),
    ),
    "series": SeriesModel(
        "series", "SeriesMixture", "series",
        ("--series", "--time", "--value", "--covariates", "--date-format", "--freq"),
    ),
}  # fmt: skip


AUTO = "auto"


def chosen_model(model: str, table: Table, choice: Choice) -> str:
    """The model of a file, where none is asked for: by whether it has columns of text."""
    if model != AUTO:
        return model
    return "table" if needs_table(table, choice) else "student-t"


def options_of(model: str) -> set[str]:
    """Options that go with a model; one that is still to be found takes those of either."""
    names = ("student-t", "table") if model == AUTO else (model,)
    return {option for name in names for option in MODELS[name].options}


def long_band(band: Any, key: str, time: str) -> pd.DataFrame:
    """A band as a long table: one row per curve and time, with mean, lower and upper."""
    import pandas as pd

    parts = [
        getattr(band, part).rename_axis(index=key, columns=time).stack().rename(part)
        for part in ("mean", "lower", "upper")
    ]
    return pd.concat(parts, axis=1).reset_index()
