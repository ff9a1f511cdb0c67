"""Fits of tables over rows in blocks, and where each row of such data belongs."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from sklearn.utils.validation import check_is_fitted

from cavity.distributed.results import N_DRAWS
from cavity.distributed.sources import ArraySource, ParquetSource, Source, parquet_source
from cavity.distributed.tables import (
    as_taken,
    cells_from,
    frame_from,
    names_in_order,
    numbers_of,
    shape_of,
    table_source,
)
from cavity.estimators.kept import VALUES
from cavity.estimators.sharded import (
    check_client,
    check_start,
    fit_estimator,
    is_dask_frame,
    is_in_shards,
    predict_parts,
)
from cavity.estimators.table_answers import TableAnswers
from cavity.estimators.table_model import Describer, components, features_of
from cavity.io.columns import CONTINUOUS, EMPTY, OVERDISPERSED, Cells, Column, cells_of

if TYPE_CHECKING:
    import pandas as pd


class TableShards(TableAnswers):
    """What a table has beside a fit in memory."""

    collapse: str
    covariance: str
    noise: bool | str
    feature_types: Any
    init: Any
    moves: bool
    n_jobs: int | None

    def _refuse_columns(self, columns: list[Column]) -> None:
        over = [column.name for column in columns if column.kind == OVERDISPERSED]
        if over:
            raise ValueError(
                f"Overdispersed counts such as column {over[0]!r} cannot be had with rows in "
                'shards, since only expectation propagation samples them. Take it as "count".'
            )
        if all(column.kind == EMPTY for column in columns):
            raise ValueError("No column of X has any value, so there is nothing to cluster by.")

    def _files(self, X: Any, columns: tuple[str, ...] | None) -> ParquetSource:
        if is_dask_frame(X):
            raise ValueError(
                "A table with categories is spread from Parquet files, not from a Dask DataFrame: "
                "X.to_parquet(folder), then fit(folder, client=client)."
            )
        return parquet_source(X, columns, of_numbers=False)

    def _fit_rows(self, X: Any, client: Any, columns: tuple[str, ...] | None) -> Self:
        """Sample over rows in blocks, here or on a cluster."""
        source: Source
        if is_in_shards(X):
            init = check_start(self, None)
            found = table_source(self._files(X, columns), self.feature_types, client)
            self._columns = list(found.taken)
            names = [column.name for column in self._columns]
            self.n_features_in_ = len(names)
            self.feature_names_in_ = np.array(names, dtype=object)
            source = found
        else:
            frame = self._frame(X, reset=True)
            self._columns = self._take(frame)
            cells = cells_of(frame, self._columns)
            _refuse_gaps(cells, self._columns)
            named = hasattr(self, "feature_names_in_")
            source = ArraySource(
                numbers_of(cells), names_in_order(self._columns), named, shape_of(self._columns)
            )
            init = check_start(self, len(frame))
        self._refuse_columns(self._columns)
        taken = self._columns
        shape = shape_of(taken)

        def problem(rows: np.ndarray) -> Any:
            cells = cells_from(rows, shape)
            return self._problem(cells, cells.continuous, taken)  # type: ignore[attr-defined]

        def points(rows: np.ndarray) -> np.ndarray:
            cells = cells_from(rows, shape)
            return features_of(cells.continuous, cells)

        def described(problem: Any) -> tuple[Any, tuple[str, ...]]:
            return Describer(problem), Describer(problem).names

        self._warn_of_columns()
        fit_estimator(
            self,
            source,
            client,
            init,
            problem,
            recorded={
                "columns": tuple(column.name for column in taken),
                "components": components(taken),
            },
            details={"taken_for": [column.to_plain() for column in taken]},
            points=points,
            describe=described,
        )
        return self

    @property
    def followed_(self) -> pd.DataFrame | None:
        """The rows that a fit over shards has followed; None of any other fit."""
        check_is_fitted(self, "posterior_")
        values = self.posterior_.summaries.get(VALUES)
        return None if values is None else frame_from(values, self._columns, self.posterior_.names)

    def predict_to_parquet(
        self, X: Any, folder: str | os.PathLike[str], *, client: Any = None, n_draws: int = N_DRAWS
    ) -> list[Path]:
        """Write each row's cluster, probabilities and log density, one Parquet file per part of X.

        Rows of the fit and new ones alike. Files have the names of X's files, and their rows
        are in the same order.

        Parameters
        ----------
        X : path, DataFrame or array
            With the columns of the fit; a path is that of a Parquet file, a folder or a pattern.
            Categories that the fit has not seen are taken as missing.
        folder : path
            Where to write; made if it is not there.
        client : distributed.Client, optional
            Cluster that does it.
        n_draws : int
            Draws to average over, evenly spread.

        Returns
        -------
        list of Path
            The files, with the columns ``cluster``, ``probability`` (of that cluster),
            ``log_density``, ``p_0``, ``p_1``, ... and ``p_unmatched``; see `membership`.
        """
        check_is_fitted(self, "posterior_")
        check_client(client)
        self._refuse_noise_in_files()
        source: Source
        if is_in_shards(X):
            names = tuple(column.name for column in self._columns)
            source = as_taken(self._files(X, names), self._columns)
        else:
            cells = cells_of(self._frame(X, reset=False), self._columns)
            _refuse_gaps(cells, self._columns)
            source = ArraySource(
                numbers_of(cells), names_in_order(self._columns), False, shape_of(self._columns)
            )
        return predict_parts(self, source, folder, client, n_draws)


def _refuse_gaps(cells: Cells, columns: list[Column]) -> None:
    """Refuse measurements that are missing; categories and counts may be."""
    gaps = np.isnan(cells.continuous)
    if gaps.any():
        row, at = (int(v) for v in np.argwhere(gaps)[0])
        names = [column.name for column in columns if column.kind == CONTINUOUS]
        raise ValueError(
            f"Row {row}, column {names[at]!r} is missing, and rows in shards have all their "
            "measurements (categories and counts may be missing). Drop such rows, fill them in, or "
            "leave collapse out."
        )
