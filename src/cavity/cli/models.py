"""The models of the command line: of rows here, of series beside."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from cavity.cli import folder as files
from cavity.cli.errors import UserError
from cavity.cli.model_base import Model, speaking_of_options
from cavity.cli.record import RunFile
from cavity.cli.series_model import SeriesModel
from cavity.cli.tables import (
    Choice,
    Selection,
    needs_table,
    select,
    select_table,
    types_of,
)
from cavity.io.files import Table
from cavity.io.words import printable

if TYPE_CHECKING:
    import pandas as pd

FAR = 1e-3  # tail probability of a new row that is worth a look


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

    def furthest(self, estimator: Any, table: Any) -> list[str] | None:
        """In which column each row lies furthest out, where the data is at hand."""
        return None if table is None else estimator.furthest_columns(table)

    def features(self, estimator: Any) -> list[str] | None:
        """What sets each cluster apart."""
        return estimator.distinguishing()

    def report(self, path: Path, estimator: Any, table: Any, **words: Any) -> None:
        """Write the page."""
        estimator.report(path, table, count_from=1, **words)

    def tables(self, estimator: Any, run: RunFile, table: Any) -> dict[str, pd.DataFrame]:
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

    def furthest(self, estimator: Any, table: Any) -> list[str] | None:
        """Nor do they lie far out in one."""
        return None

    def tables(self, estimator: Any, run: RunFile, table: Any) -> dict[str, pd.DataFrame]:
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
            (files.IMPUTED, "what gaps may hold, with 90% intervals"),
        ]


FORMS = ("--covariance", "--factors")
MODELS: dict[str, RowsModel | SeriesModel] = {
    "student-t": RowsModel(
        "student-t", "StudentTMixture", "row",
        ("--columns", "--id-column", "--drop-missing", "--log", "--noise", "--df", *FORMS),
    ),
    "gaussian": RowsModel(
        "gaussian", "GaussianMixture", "row",
        ("--columns", "--id-column", "--drop-missing", "--log", "--noise", *FORMS),
    ),
    "table": TableModel(
        "table", "TableMixture", "row",
        ("--columns", "--id-column", "--drop-missing", "--log", "--noise", "--df", "--types",
         *FORMS),
    ),
    "series": SeriesModel(
        "series", "SeriesMixture", "series",
        ("--series", "--time", "--value", "--covariates", "--date-format", "--freq", "--df",
         "--common-factor", "--season", "--scales", "--forecast"),
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
