"""Models of the command line: how each reads, checks, fits, reports and predicts."""

from __future__ import annotations

import glob
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from cavity.cli import folder as files
from cavity.cli.errors import UserError, note
from cavity.cli.options import (
    AUTO,
    ESTIMATORS,
    TABLE_SETTINGS,
    Choice,
    option,
    speaking_of_options,
)
from cavity.cli.selection import (
    SERIES,
    TIME,
    VALUE,
    Selection,
    has_times,
    is_wide,
    needs_table,
    new_rows,
    read_table,
    select,
    select_rows,
    select_table,
    select_wide,
    types_of,
)
from cavity.io.files import PARQUET, Table
from cavity.io.names import column_names
from cavity.io.words import printable
from cavity.posterior.record import ERRORS
from cavity.utils.text import count, plural

if TYPE_CHECKING:
    import pandas as pd

    from cavity.cli.record import RunFile

AHEAD = 12  # default of --forecast
PARALLEL = "parallel"
SHARDS = "rows"  # folder of a run with one file of results per Parquet file of the data


# ---------------------------------------------------------------- data in shards


def is_in_shards(data: Path, settings: Mapping[str, Any], client: Any) -> bool:
    """Return whether a table is read file by file, where it is needed."""
    if data.is_file():
        shared = client is not None or settings.get("collapse") == PARALLEL
        return shared and data.suffix in PARQUET
    return data.is_dir() or glob.has_magic(str(data))


def _refuse_for_shards(choice: Choice, *names: str) -> None:
    """Refuse options about how text is written, and further ones that shards do not support."""
    written = ("separator", "encoding", "decimal", "thousands", "drop_missing", "log")
    for name in (*written, "errors", "errors_pattern", *names):
        if getattr(choice, name):
            raise UserError(
                f"{option(name)} does not go with Parquet files in shards; leave it out."
            )


def followed_table(estimator: Any) -> pd.DataFrame | None:
    """Return the rows that a fit over shards stores labels of; None for other fits."""
    import pandas as pd

    if hasattr(type(estimator), "followed_"):
        found: pd.DataFrame | None = estimator.followed_
        return found
    posterior = estimator.posterior_
    values = posterior.summaries.get("followed_values")
    if values is None:
        return None
    return pd.DataFrame(values, index=posterior.names, columns=list(posterior.record.columns))


# Dask gives up a worker that is not back some seconds after a loss, even if it is being restarted.
KEPT_WORKERS = {"distributed.deploy.lost-worker-timeout": "1 day"}


@contextmanager
def cluster(workers: int | None, scheduler: str | None) -> Iterator[Any]:
    """Start or join a Dask cluster and yield its client; None if neither is requested."""
    if workers is None and scheduler is None:
        yield None
        return
    option_name = "--workers" if scheduler is None else "--scheduler"
    if workers is not None and scheduler is not None:
        raise UserError("--workers starts a cluster and --scheduler joins one; give one of them.")
    try:
        import dask

        from distributed import Client, LocalCluster
    except ImportError:
        raise UserError(f"{option_name} needs Dask: pip install 'cavity[dask]'.") from None
    if scheduler is not None:
        try:
            # A client that never connected must not stay the default.
            client = Client(scheduler, timeout=10, set_as_default=False)
        except (OSError, ValueError, TimeoutError) as error:
            raise UserError(
                f"No Dask scheduler answers at {scheduler} ({type(error).__name__}); check the "
                "address, such as tcp://host:8786, and that it runs."
            ) from error
        with client:
            yield client
        return
    with (
        dask.config.set(KEPT_WORKERS),
        LocalCluster(
            n_workers=workers, threads_per_worker=1, processes=True, dashboard_address=":0"
        ) as local,
        Client(local) as client,
    ):
        yield client


# ---------------------------------------------------------------- models


@dataclass(frozen=True)
class RowsModel:
    """Rows of numbers.

    Attributes
    ----------
    name : str
        As ``--model`` has it.
    noun : {"row", "series"}
        Unit that is clustered.
    """

    name: str
    noun: ClassVar[str] = "row"
    of_numbers: ClassVar[bool] = True
    after: ClassVar[str] = "puts new rows into these clusters"
    results: ClassVar[tuple[tuple[str, str], ...]] = (
        (
            files.LABELS,
            "each row's cluster, probabilities and certainty; unnamed rows count from 1",
        ),
        (files.PICTURE, "the rows colored by cluster"),
        (files.COLUMNS, "the probability that each column matters"),
        (files.IMPUTED, "true values of cells with errors, with 90% intervals"),
    )

    @property
    def estimator(self) -> str:
        """Name of the estimator in `cavity`."""
        return ESTIMATORS[self.name]

    def make(self, settings: Mapping[str, Any], choice: Choice, **run: Any) -> Any:
        """Return an estimator with these settings."""
        import cavity

        given = {name: value for name, value in settings.items() if name not in TABLE_SETTINGS}
        return getattr(cavity, self.estimator)(**given, **run)

    def load(self, run: Path) -> Any:
        """Return the fitted estimator of a run."""
        import cavity

        return getattr(cavity, self.estimator).load(run / files.POSTERIOR)

    # -------------------------------------------------------- data

    def read(self, table: Table, choice: Choice) -> Selection:
        """Select from a file that was read."""
        return select(table, choice)

    def open_shards(self, data: Path, choice: Choice) -> Selection:
        """Select from Parquet files by their metadata."""
        from cavity.distributed.sources import parquet_source

        _refuse_for_shards(choice, "id_column")
        source = parquet_source(data, choice.columns or None, choice.exclude, self.of_numbers)
        return Selection(None, columns=source.columns, path=data, source=source)

    def n_units(self, selection: Selection) -> int:
        """Return how many rows or series there are to cluster."""
        return selection.n_rows

    def size(self, selection: Selection) -> str:
        """Describe how much there is to cluster."""
        text = f"{count(selection.n_rows, 'row')} and {count(len(selection.columns), 'column')}"
        if selection.source is not None:
            text += f" in {count(len(selection.source.paths), 'file')}"
        return text

    def arguments(
        self, selection: Selection, choice: Choice, settings: Mapping[str, Any]
    ) -> tuple[Any, dict[str, Any]]:
        """Return the data and the keywords that `check` and `fit` of the estimator take."""
        if selection.source is not None:
            return selection.path, {"columns": selection.columns}
        return selection.table, {} if selection.errors is None else {"errors": selection.errors}

    def check(
        self, estimator: Any, selection: Selection, choice: Choice, settings: Mapping[str, Any]
    ) -> Any:
        """Return the prepared problem; settings and data that do not fit are refused."""
        n, n_clusters = self.n_units(selection), settings.get("n_clusters", 10)
        if n < 2 and self.noun == "row":
            raise UserError("There is one row only; clustering needs at least two.")
        if n < n_clusters and settings.get("prior") not in ("dp", "pitman-yor"):
            raise UserError(
                f"There are {n} {plural(self.noun)}, fewer than --clusters {n_clusters}; lower "
                "--clusters, or use --prior dp."
            )
        data, names = self.arguments(selection, choice, settings)
        with speaking_of_options():
            return estimator.check(data, **names)

    # -------------------------------------------------------- results

    def shown(self, selection: Selection, estimator: Any) -> Any:
        """Return the rows that pictures and tables show."""
        followed = followed_table(estimator)
        return selection.table if followed is None else followed

    def place(self, estimator: Any, selection: Selection, out: Path, client: Any) -> None:
        """Write the clusters of all rows of files."""
        if selection.source is not None:
            named = {"series": selection.id_column} if self.noun == "series" else {}
            estimator.predict_to_parquet(selection.path, out / SHARDS, client=client, **named)

    def title(self, source: str) -> str:
        """Return the title of the report."""
        return f"Clusters of {source}"

    def heading(self, estimator: Any) -> str:
        """Return what to print before the summary."""
        return ""

    def unusual(self, estimator: Any, table: Any) -> dict[str, Any]:
        """Return tail probability and least probable cell of each row."""
        if table is None:
            return {}
        tail, furthest = estimator.unusual_rows(table)
        return {"tail": tail, "furthest": furthest}

    def features(self, estimator: Any) -> list[str]:
        """Describe what distinguishes each cluster."""
        return estimator.distinguishing_features()

    def tables(self, estimator: Any, run: RunFile, table: Any) -> dict[str, pd.DataFrame]:
        """Return further tables by file name: columns that matter, true values of cells."""
        out = {}
        if estimator.select_columns:
            out[files.COLUMNS] = estimator.column_relevance(table).reset_index()
        if table is not None and ERRORS in estimator.posterior_.summaries:
            out[files.IMPUTED] = estimator.impute(table).cells.reset_index()
        return out

    def relevance(self, estimator: Any, table: Any) -> str:
        """Return which columns matter, in words."""
        from cavity.predict.column_relevance import relevance_words

        if table is None and not estimator.select_columns:
            return ""
        return printable(relevance_words(estimator.column_relevance(table)))

    def report(self, path: Path, estimator: Any, table: Any, **options: Any) -> None:
        """Write the page."""
        estimator.report(path, table, count_from=1, **options)

    def draw(self, path: Path, estimator: Any, table: Any) -> None:
        """Write the picture, if the rows are available."""
        if table is not None:
            axes = estimator.posterior_.plot_clusters(table, estimator.partition_)
            files.save_picture(path, axes)

    def predict(self, estimator: Any, table: Table, choice: Choice) -> pd.DataFrame:
        """Return the clusters of new rows and how far out they are."""
        selection = self.read(table, choice)
        errors = selection.errors
        if errors is None and ERRORS in estimator.posterior_.summaries:
            note("The run has measurement errors; new rows are taken as exact without --errors.")
        with speaking_of_options():
            result = estimator.predict_proba(selection.table, errors=errors, as_frame=True)
        result = result.reset_index(drop=True)
        name = selection.id_name
        name = f"{name} (row)" if name in result.columns else name
        result.insert(0, name, selection.table.index)
        return result

    def written(self, in_shards: bool) -> list[tuple[str, str]]:
        """Return the files of a run with a description of each."""
        if not in_shards:
            return list(self.results)
        sampled = f"for a sample of {plural(self.noun)}"
        return [
            (f"{SHARDS}/", f"clusters and probabilities of all {plural(self.noun)}, file by file"),
            *((name, f"{text}, {sampled}") for name, text in self.results),
        ]


class TableModel(RowsModel):
    """Rows of measurements, categories and counts, with missing values."""

    of_numbers: ClassVar[bool] = False
    results: ClassVar[tuple[tuple[str, str], ...]] = (
        RowsModel.results[0],
        (files.CLUSTERS, "each cluster's means, shares and rates with 95% intervals"),
        (files.COLUMNS, "what each column was taken for, and whether it matters"),
        (files.IMPUTED, "missing values and true values of cells with errors, 90% intervals"),
    )

    def make(self, settings: Mapping[str, Any], choice: Choice, **run: Any) -> Any:
        """Return an estimator with these settings and kinds of columns."""
        return super().make(settings, choice, feature_types=types_of(choice) or None, **run)

    def read(self, table: Table, choice: Choice) -> Selection:
        """Select from a file that was read."""
        return select_table(table, choice)

    def heading(self, estimator: Any) -> str:
        """Return the kinds of the columns."""
        kinds = estimator.columns_["kind"]
        parts = [
            f"{kind}: {', '.join(printable(name) for name in kinds.index[kinds == kind])}"
            for kind in dict.fromkeys(kinds)
        ]
        return "Columns were taken as " + "; ".join(parts) + "."

    def tables(self, estimator: Any, run: RunFile, table: Any) -> dict[str, pd.DataFrame]:
        """Return clusters and columns, and imputed values if the rows are available."""
        columns = estimator.columns_
        if table is not None or estimator.select_columns:
            found = estimator.column_relevance(table)
            columns = columns.assign(p_matters=found["probability"], basis=found["basis"])
        out = {
            files.CLUSTERS: estimator.summary().reset_index(),
            files.COLUMNS: columns.reset_index(),
        }
        uncertain = ERRORS in estimator.posterior_.summaries
        if table is not None and (uncertain or table.isna().to_numpy().any()):
            out[files.IMPUTED] = estimator.impute(table).cells.reset_index()
        return out

    def draw(self, path: Path, estimator: Any, table: Any) -> None:
        """Write the picture of the continuous columns, if there are any."""
        kinds = estimator.columns_["kind"]
        names = list(kinds.index[kinds == "continuous"])
        if table is not None and names:
            super().draw(path, estimator, table[names])


class SeriesModel(RowsModel):
    """Time series: one observation per row of the file, or one series."""

    noun: ClassVar[str] = "series"
    after: ClassVar[str] = "predicts these series at other times"
    results: ClassVar[tuple[tuple[str, str], ...]] = (
        (files.LABELS, "each series' cluster, probabilities and certainty"),
        (files.TRENDS, "each series' trend: mean and 90% interval at every time"),
        (files.FORECAST, "the next times: mean and 90% interval of observations and trends"),
        (files.FACTORS, "what the series of a cluster, or of all, share: mean and 90% interval"),
        (files.PARAMETERS, "each series' parameters: how strongly it follows its cluster, ..."),
        (files.SEASONS, "each series' season"),
        (files.PICTURE, "the trends, cluster by cluster"),
    )

    def make(self, settings: Mapping[str, Any], choice: Choice, **run: Any) -> Any:
        """Return an estimator with these settings; Gaussian noise has no degrees of freedom."""
        given = dict(settings)
        if given.get("df") == "gaussian":
            given["df"] = None
        return super().make(given, choice, **run)

    def read(self, table: Table, choice: Choice) -> Selection:
        """Select from a file that was read."""
        if choice.log:
            note("Trends, forecasts and predictions are in logarithms, as the values are.")
        if is_wide(choice) and has_times(table, choice):
            return select_wide(table, choice)
        return select_rows(table, choice)

    def open_shards(self, data: Path, choice: Choice) -> Selection:
        """Select from Parquet files, one row per series, by their metadata."""
        from cavity.distributed.sources import parquet_source

        _refuse_for_shards(
            choice, "id_column", "time", "value", "date_format", "columns", "exclude"
        )
        named = () if choice.series is None else (choice.series,)
        source = parquet_source(data, None, named)
        return Selection(
            None, choice.series or SERIES, choice.series, 0, source.columns, data, source
        )

    def n_units(self, selection: Selection) -> int:
        """Return how many series there are."""
        table = selection.table
        if table is None or table.index.name is not None:
            return selection.n_rows
        return int(table[selection.id_name].nunique())

    def size(self, selection: Selection) -> str:
        """Describe how much there is to cluster."""
        n, table = self.n_units(selection), selection.table
        if selection.source is not None:
            n_files = count(len(selection.source.paths), "file")
            return f"{n:,} series of {len(selection.columns):,} times in {n_files}"
        wide = table.index.name is not None
        n_values = int(table.notna().to_numpy().sum()) if wide else len(table)
        return f"{n:,} series, {n_values:,} observations,"

    def arguments(
        self, selection: Selection, choice: Choice, settings: Mapping[str, Any]
    ) -> tuple[Any, dict[str, Any]]:
        """Return the data and the keywords that `check` and `fit` of the estimator take."""
        freq = settings.get("freq")
        if selection.source is not None:
            if freq:
                raise UserError("--freq does not go with series in shards; leave it out.")
            return selection.path, {"series": choice.series}
        if is_wide(choice):
            return selection.table, {"freq": freq}
        return selection.table, {
            "series": choice.series,
            "time": choice.time,
            "value": choice.value,
            "covariates": list(choice.columns),
            "offset": None,
            "freq": freq,
        }

    def relevance(self, estimator: Any, table: Any) -> str:
        """Return nothing: series have one kind of value."""
        return ""

    def heading(self, estimator: Any) -> str:
        """Return what was taken out before clustering."""
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

    def shown(self, selection: Selection, estimator: Any) -> Any:
        """Return nothing: pictures and tables show trends."""
        return None

    def unusual(self, estimator: Any, table: Any) -> dict[str, Any]:
        """Return nothing: series have no distance from their cluster."""
        return {}

    def tables(self, estimator: Any, run: RunFile, table: Any) -> dict[str, pd.DataFrame]:
        """Return trends, factors and forecasts as long tables, and each series' parameters."""
        key, time = run.data.id_name, run.data.choice.time or TIME
        steps = run.settings.get("forecast", AHEAD)
        # One call, whose warning about series that trend is shown once.
        ahead, trend = (
            _long_band(estimator.forecast(steps, of=of), key, time)
            for of in ("observation", "trend")
        )
        for name in ("mean", "lower", "upper"):
            ahead[f"trend_{name}"] = trend[name]
        out = {
            files.TRENDS: _long_band(estimator.trends_, key, time),
            files.FACTORS: _long_band(estimator.all_factors_, "cluster", time),
            files.FORECAST: ahead,
            files.PARAMETERS: estimator.series_.rename_axis(index=key).reset_index(),
        }
        if estimator.season is not None:
            out[files.SEASONS] = _long_band(estimator.seasons_, key, "place")
        return out

    def report(self, path: Path, estimator: Any, table: Any, **options: Any) -> None:
        """Write the page."""
        estimator.report(path, **options)

    def draw(self, path: Path, estimator: Any, table: Any) -> None:
        """Write the picture."""
        # In the data's units, unless that would show again what clusters are without.
        shared = "common_factor" in estimator.posterior_.drawn
        files.save_picture(path, estimator.plot_clusters(standardised=shared))

    def predict(self, estimator: Any, table: Table, choice: Choice) -> pd.DataFrame:
        """Return predictions at new rows, or the clusters of series that are all new."""
        import pandas as pd
        from scipy import stats

        if is_wide(choice):
            series, time, value = SERIES, TIME, VALUE
            rows, written = new_rows(table, choice)
        else:
            series, time, value = str(choice.series), str(choice.time), str(choice.value)
            rows = select_rows(table, choice, with_value=value in table.names).table
            written = column_names(table.column(time), time, str(table.path))
        assigned = estimator.series_["cluster"]
        with speaking_of_options():
            if value in rows.columns and not rows[series].isin(assigned.index).any():
                placed = estimator.membership(rows, series=series, time=time, value=value)
                return placed.rename_axis(index=choice.series or SERIES).reset_index()
            expected = estimator.predict_values(rows)
        result = pd.DataFrame(
            {
                choice.series or SERIES: rows[series],
                time: written,
                "cluster": assigned.loc[rows[series]].to_numpy(),
                **{name: expected[name].to_numpy() for name in expected.columns},
            }
        )
        if value in rows.columns:
            away = np.abs(rows[value] - expected["mean"]) / expected["sd"]
            result[value if value not in result.columns else f"{value} (observed)"] = rows[value]
            result["tail_probability"] = 2.0 * stats.norm.sf(away)
        return result

    def title(self, source: str) -> str:
        """Return the title of the report."""
        return f"Clusters of series in {source}"


def _long_band(band: Any, key: str, time: str) -> pd.DataFrame:
    """Return a band as a long table: one row per curve and time, with mean, lower and upper."""
    import pandas as pd

    parts = [
        getattr(band, part).rename_axis(index=key, columns=time).stack().rename(part)
        for part in ("mean", "lower", "upper")
    ]
    return pd.concat(parts, axis=1).reset_index()


MODELS: dict[str, RowsModel] = {
    "student-t": RowsModel("student-t"),
    "gaussian": RowsModel("gaussian"),
    "table": TableModel("table"),
    "series": SeriesModel("series"),
}


def open_data(data: Path, model: str, choice: Choice, in_shards: bool) -> tuple[str, Selection]:
    """Read a file, or the metadata of Parquet files, once; find the model if it is "auto"."""
    if in_shards:
        if model == AUTO:
            model = _model_of_shards(data, choice)
        return model, MODELS[model].open_shards(data, choice)
    table = read_table(data, choice)
    if model == AUTO:
        model = "table" if needs_table(table, choice) else "student-t"
    return model, MODELS[model].read(table, choice)


def _model_of_shards(data: Path, choice: Choice) -> str:
    from cavity.distributed.sources import is_of_numbers, parquet_source

    if choice.types:
        return "table"
    source = parquet_source(data, choice.columns or None, choice.exclude, of_numbers=False)
    return "student-t" if is_of_numbers(source) else "table"
