"""What the commands need to know of each model: the one file that speaks to the estimators."""

from __future__ import annotations

import copy
import dataclasses
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
from cavity.cli.tables import Choice, Selection, select, select_rows
from cavity.reading.files import Table
from cavity.reading.names import column_names

if TYPE_CHECKING:
    import pandas as pd

AHEAD = 12  # times that forecast.csv reaches beyond the data
FAR = 1e-3  # tail probability of a new row that is worth a look
SHOWN = 40  # series drawn in one panel


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
        """An estimator, its settings checked."""
        import cavity

        given = {name: value for name, value in settings.items() if name != "freq"}
        estimator = getattr(cavity, self.estimator)(**given, **run)
        with speaking_of_options():
            estimator._check_settings()
        return estimator

    def refuse_few(self, n: int, settings: Mapping[str, Any]) -> None:
        """Refuse more clusters than there are things to cluster."""
        n_clusters = settings.get("n_clusters", 10)
        if n < n_clusters and settings.get("prior") not in ("dp", "pitman-yor"):
            noun = self.noun if self.noun == "series" else f"{self.noun}s"
            raise UserError(
                f"There are {n} {noun}, fewer than --clusters {n_clusters}; lower --clusters, or "
                "use --prior dp."
            )

    def save(self, estimator: Any, path: Path) -> None:
        """Write all draws."""
        estimator.posterior_.save(path)

    def title(self, source: str) -> str:
        """Of the report."""
        return f"Clusters of {source}"


class TableModel(Model):
    """Rows of numbers."""

    def read(self, table: Table, choice: Choice) -> Selection:
        """The numbers of a file."""
        return select(table, choice)

    def check(self, estimator: Any, selection: Selection, choice: Choice, settings: Any) -> None:
        """Refuse data that the estimator would refuse, or a saved run cannot hold."""
        from cavity.estimators.validation import robust_standardiser

        values = selection.table.to_numpy()
        if len(values) < 2:
            raise UserError("There is one row only; clustering needs at least two.")
        self.refuse_few(len(values), settings)
        _, scale = robust_standardiser(values, selection.table.columns.to_numpy())
        for column, spread in zip(selection.table.columns, scale, strict=True):
            if not 1e-140 < spread < 1e140:
                raise UserError(
                    f"The values of column {column!r} spread over {spread:.0e}, whose square no "
                    "number can hold; multiply the column by a power of ten first."
                )

    def size(self, selection: Selection) -> str:
        """How much there is to cluster, in words."""
        n, d = selection.table.shape
        return f"{n:,} {'row' if n == 1 else 'rows'} and {d} {'column' if d == 1 else 'columns'}"

    def fit(self, estimator: Any, selection: Selection, choice: Choice, settings: Any) -> None:
        """Sample."""
        estimator.fit(selection.table)

    def load(self, run: Path, labels: Any) -> Any:
        """The fitted estimator of a run, from its folder alone."""
        from cavity.estimators.saved import mixture_from_posterior
        from cavity.posterior import Posterior

        posterior = Posterior.load(run / files.POSTERIOR)
        if labels is not None and len(labels) != posterior.n_observations:
            labels = None
        return mixture_from_posterior(posterior, labels)

    def tail(self, estimator: Any, table: Any) -> np.ndarray | None:
        """How far out each row of the fit lies; None where the rows are not at hand."""
        from cavity.estimators.unusual import tail_probabilities

        return None if table is None else tail_probabilities(estimator, table)

    def features(self, estimator: Any) -> list[str] | None:
        """What sets each cluster apart."""
        from cavity.cli.summary import distinguishing

        columns = list(estimator.posterior_.record.columns)
        return distinguishing(
            estimator.cluster_centers_, estimator._centre, estimator._scale, columns
        )

    def tables(self, estimator: Any, choice: Choice) -> dict[str, pd.DataFrame]:
        """Further tables by the name of their file."""
        return {}

    def draw(self, run: Path, estimator: Any, table: Any, choice: Choice) -> list[Any]:
        """Write the picture; sections of the report beyond the common ones."""
        from cavity.report.plots import plot_clusters

        if table is not None:
            axes = plot_clusters(estimator.posterior_, table, estimator.labels_)
            files.save_picture(run / files.PICTURE, axes)
        return []

    def predict(self, estimator: Any, table: Table, choice: Choice) -> pd.DataFrame:
        """Clusters of new rows, and how far out these lie."""
        from cavity.estimators.unusual import tail_probabilities

        selection = select(table, choice)
        rows = selection.table
        probability = estimator.predict_proba(rows)
        placed = copy.copy(estimator)
        placed.labels_ = probability.argmax(axis=1)
        result = rows.index.to_frame(index=False, name=selection.id_name)
        result["cluster"] = placed.labels_
        result["probability"] = probability.max(axis=1)
        result["tail_probability"] = tail_probabilities(placed, rows)
        result["log_density"] = estimator.score_samples(rows)
        for k in range(probability.shape[1]):
            result[f"p_{k}"] = probability[:, k]
        rest = 1.0 - probability.sum(axis=1)
        result["elsewhere"] = np.where(rest > 1e-12, rest, 0.0)  # less is rounding
        return result

    def written(self) -> list[tuple[str, str]]:
        """Files of a run and what is in them."""
        return [
            (files.LABELS, "each row's cluster, probabilities and certainty"),
            (files.PICTURE, "the rows coloured by cluster"),
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
        """Refuse data that the estimator would refuse."""
        from cavity.estimators.series_model import find_units

        names = self._names(choice, settings)
        with speaking_of_options(), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the fit itself will say it
            data = estimator._read(selection.table, **names)
            self.refuse_few(len(data.series), settings)
            find_units(data, True)

    def size(self, selection: Selection) -> str:
        """How much there is to cluster, in words."""
        n = selection.table[selection.id_name].nunique()
        return f"{n:,} series, {len(selection.table):,} observations,"

    def fit(self, estimator: Any, selection: Selection, choice: Choice, settings: Any) -> None:
        """Sample."""
        estimator.fit(selection.table, **self._names(choice, settings))

    # What follows until `tail` keeps in the posterior's file what SeriesMixture needs to be
    # rebuilt; SeriesMixture.save and load take its place.

    def save(self, estimator: Any, path: Path) -> None:
        """Write all draws, and the trends' moments with them."""
        posterior, data, units = estimator.posterior_, estimator._data, estimator._units
        axis = dataclasses.asdict(data.axis)
        axis["zone"] = None if data.axis.zone is None else str(data.axis.zone)
        posterior.record = dataclasses.replace(
            posterior.record,
            details={
                **posterior.record.details,
                "axis": axis,
                "units": {f.name: getattr(units, f.name) for f in dataclasses.fields(units)},
                "columns": list(data.columns),
                "covariates": list(data.covariate_names),
            },
        )
        for name in ("mean", "variance", "cross"):
            posterior.summaries[f"trend_{name}"] = getattr(estimator._moments, name)
        posterior.save(path)

    def load(self, run: Path, labels: Any) -> Any:
        """The fitted estimator of a run, from its folder alone."""
        import pandas as pd

        from cavity import SeriesMixture
        from cavity.estimators.series_data import SeriesData
        from cavity.estimators.series_model import Units
        from cavity.estimators.series_results import TrendMoments
        from cavity.estimators.series_time import TimeAxis
        from cavity.posterior import Posterior

        posterior = Posterior.load(run / files.POSTERIOR)
        details, n = posterior.record.details, posterior.n_observations
        try:
            axis = TimeAxis(**details["axis"])
            units = Units(**details["units"])
            moments = TrendMoments(
                mean=posterior.summaries["trend_mean"],
                variance=posterior.summaries["trend_variance"],
                cross=posterior.summaries["trend_cross"],
                n_draws=posterior.n_chains * posterior.n_draws,
            )
            columns, covariates = details["columns"], details["covariates"]
        except (KeyError, TypeError) as error:
            raise UserError(
                f"{run / files.POSTERIOR} is not of series fitted by this version of cavity; run "
                "the fit again."
            ) from error
        estimator = SeriesMixture()
        none = np.zeros((n, 0))
        estimator.posterior_ = posterior
        estimator._units = units
        estimator._moments = moments
        estimator._data = SeriesData(
            y=none, count=none, covariates=none, scatter=none,
            series=pd.Index(posterior.names, dtype=object, name=columns[0]), axis=axis,
            covariate_names=tuple(covariates), columns=tuple(columns),
        )  # fmt: skip
        estimator._aligned = None
        if labels is None or len(labels) != n:
            labels = posterior.partition("vi").labels
        estimator.labels_ = np.asarray(labels, dtype=np.int64)
        estimator.n_clusters_ = int(estimator.labels_.max()) + 1
        return estimator

    def tail(self, estimator: Any, table: Any) -> np.ndarray | None:
        """Series have no distance from their cluster."""
        return None

    def features(self, estimator: Any) -> list[str] | None:
        """Pictures say more of series than numbers."""
        return None

    def tables(self, estimator: Any, choice: Choice) -> dict[str, pd.DataFrame]:
        """Trends, factors and forecasts, one row per curve and time."""
        key, time = str(choice.series), str(choice.time)
        return {
            files.TRENDS: long_band(estimator.trends_, key, time),
            files.FACTORS: long_band(estimator.factors_, "cluster", time),
            files.FORECAST: long_band(estimator.forecast(AHEAD), key, time),
        }

    def draw(self, run: Path, estimator: Any, table: Any, choice: Choice) -> list[Any]:
        """Write the picture; sections of the report beyond the common ones."""
        trends = estimator.trends_.mean
        figure = draw_clusters(trends, estimator.labels_, str(choice.time), str(choice.value))
        files.save_picture(run / files.PICTURE, figure.axes[0])
        caption = "Posterior mean of each series' trend; the thick line is the mean of the cluster."
        return [("The series, cluster by cluster", figure, caption)]

    def predict(self, estimator: Any, table: Table, choice: Choice) -> pd.DataFrame:
        """What is expected at new rows; with values, how far out these lie."""
        import pandas as pd
        from scipy import stats

        value, series, time = str(choice.value), str(choice.series), str(choice.time)
        with_value = value in table.names
        rows = select_rows(table, choice, with_value=with_value).table
        with speaking_of_options():
            expected = estimator.predict(rows)
        cluster = pd.Series(estimator.labels_, index=estimator._data.series)
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
            (files.FACTORS, "what the series of a cluster share: mean and 90% interval"),
            (files.PICTURE, "the trends, cluster by cluster"),
        ]


MODELS: dict[str, TableModel | SeriesModel] = {
    "student-t": TableModel(
        "student-t", "StudentTMixture", "row",
        ("--columns", "--id-column", "--drop-missing", "--df"),
    ),
    "gaussian": TableModel(
        "gaussian", "GaussianMixture", "row",
        ("--columns", "--id-column", "--drop-missing"),
    ),
    "series": SeriesModel(
        "series", "SeriesMixture", "series",
        ("--series", "--time", "--value", "--covariates", "--date-format", "--freq"),
    ),
}  # fmt: skip


def long_band(band: Any, key: str, time: str) -> pd.DataFrame:
    """A band as a long table: one row per curve and time, with mean, lower and upper."""
    import pandas as pd

    parts = [
        getattr(band, part).rename_axis(index=key, columns=time).stack().rename(part)
        for part in ("mean", "lower", "upper")
    ]
    return pd.concat(parts, axis=1).reset_index()


def draw_clusters(trends: pd.DataFrame, labels: Any, time: str, value: str) -> Any:
    """One panel per cluster: the trends of its series, and their mean."""
    import matplotlib.pyplot as plt
    import pandas as pd

    from cavity.report import style

    times = trends.columns
    if isinstance(times, pd.PeriodIndex):
        times = times.to_timestamp()
    n = min(int(labels.max()) + 1, 12)
    columns = min(n, 3)
    rows = -(-n // columns)
    figure, axes = plt.subplots(
        rows, columns, figsize=(3.6 * columns, 2.4 * rows), sharex=True, sharey=True,
        squeeze=False, layout="constrained",
    )  # fmt: skip
    values = trends.to_numpy()
    for k, ax in enumerate(axes.flat):
        if k >= n:
            ax.set_visible(False)
            continue
        own = values[labels == k]
        colour = style.cluster_colour(k)
        ax.plot(times, own[:SHOWN].T, color=colour, alpha=0.35, linewidth=0.7)
        ax.plot(times, np.nanmean(own, axis=0), color=colour, linewidth=2.2)
        ax.set_title(f"cluster {k}: {len(own)} series", fontsize=10)
        ax.tick_params(axis="x", rotation=30)
    figure.supxlabel(time)
    figure.supylabel(value)
    return figure
