"""Fits of a mixture to sharded rows, and predictions written next to them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from cavity.distributed.results import RowPredictor, predict_to_parquet
from cavity.distributed.sources import ArraySource, Source, parquet_source
from cavity.distributed.tables import (
    as_taken,
    cells_from,
    names_in_order,
    numbers_of,
    shape_of,
    table_source,
)
from cavity.estimators.description import Describer
from cavity.estimators.model import ModelRows, components, features_of, joint_problem, levels_of
from cavity.estimators.sharded import (
    ShardProblem,
    check_start,
    fit_shards,
    run_of,
    source_of,
)
from cavity.estimators.sharding import is_dask_frame, is_in_shards
from cavity.io.columns import CONTINUOUS, EMPTY, OVERDISPERSED, Cells, Column
from cavity.posterior.posterior import Posterior
from cavity.predict.draws import spread_draws

if TYPE_CHECKING:
    from cavity.predict.predictor import Predictor


def source_of_files(
    m: Any, X: Any, client: Any, columns: tuple[str, ...] | None, *, metadata_only: bool = False
) -> tuple[Source, list[Column]]:
    """Return sharded rows and their columns; with `metadata_only` no file is read."""
    if not m._mixed:
        source = source_of(X, client, columns, True)
        return source, [Column(name, CONTINUOUS, "numbers") for name in source.columns]
    if is_dask_frame(X):
        raise ValueError(
            "A table with categories is spread from Parquet files, not from a Dask DataFrame: "
            "X.to_parquet(folder), then fit(folder, client=client)."
        )
    files = parquet_source(X, columns, of_numbers=False)
    if metadata_only:
        return files, []
    found = table_source(files, m.feature_types, client)
    return found, list(found.taken)


def array_source(cells: Cells, columns: list[Column], named: bool) -> Source:
    """Return rows in memory as a source; missing measurements are refused."""
    gaps = np.isnan(cells.continuous)
    if gaps.any():
        row, at = (int(v) for v in np.argwhere(gaps)[0])
        names = [column.name for column in columns if column.kind == CONTINUOUS]
        raise ValueError(
            f"Row {row} has no value in column {names[at]!r}. Missing measurements are not "
            "supported for sharded data (categories and counts may be missing). Impute them, or "
            "use the default collapse."
        )
    return ArraySource(numbers_of(cells), names_in_order(columns), named, shape_of(columns))


def check_columns(columns: list[Column]) -> None:
    """Refuse columns that sharded rows cannot have."""
    over = [column.name for column in columns if column.kind == OVERDISPERSED]
    if over:
        raise ValueError(
            f"Overdispersed counts such as column {over[0]!r} are not supported for sharded data, "
            'since only expectation propagation samples them. Use "count".'
        )
    if all(column.kind == EMPTY for column in columns):
        raise ValueError("No column of X has any value, so there is nothing to cluster by.")


def fit_sharded(m: Any, X: Any, client: Any, selected: tuple[str, ...] | None) -> Posterior:
    """Sample the posterior of an estimator over sharded rows, here or on a cluster.

    Sets the estimator's columns.
    """
    if is_in_shards(X):
        init = check_start(m, None)
        source, m._columns = source_of_files(m, X, client, selected)
        names = [column.name for column in m._columns]
        m.n_features_in_ = len(names)
        m.feature_names_in_ = np.array(names, dtype=object)
    else:
        cells = m._cells(X, reset=True)
        source = array_source(cells, m._columns, hasattr(m, "feature_names_in_"))
        init = check_start(m, len(cells))
    taken: list[Column] = m._columns
    check_columns(taken)
    m._warn_of_columns(None)
    shape = shape_of(taken)

    def parts(rows: np.ndarray) -> tuple[Any, ...]:
        cells = cells_from(rows, shape)
        own = ModelRows(cells.continuous, cells, levels_of(taken), n_held=m._n_held)
        made: tuple[Any, ...] = m.build_model(own)
        return made

    def points(rows: np.ndarray) -> np.ndarray:
        cells = cells_from(rows, shape)
        return features_of(cells.continuous, cells)

    def described(problem: Any) -> tuple[Any, tuple[str, ...]]:
        describe = Describer(getattr(problem, "parts", (problem,)))
        return describe, describe.names

    problem = ShardProblem(
        build=lambda rows: joint_problem(parts(rows), "collapsed"),
        prior=m._specification(),
        n_clusters=m.n_clusters,
        init=init,
        moves=m._option("moves"),
        points=points,
        describe=described,
    )
    return fit_shards(
        problem,
        source,
        run_of(m, source, client),
        recorded={
            "settings": m._settings(),
            "columns": tuple(column.name for column in taken),
            "components": components(taken),
        },
        details={"taken_for": [column.to_plain() for column in taken]},
    )


def predict_files(
    m: Any, predictor: Predictor, X: Any, folder: Path, client: Any, n_draws: int
) -> list[Path]:
    """Write the predictions of sharded rows, one Parquet file per part of X."""
    if predictor.noise is not None:
        raise ValueError(
            "Predictions of a fit with noise are not supported for sharded data. Use "
            "predict_proba, or fit with noise=False."
        )
    columns = predictor.columns
    if not is_in_shards(X):
        source = array_source(m._cells(X), columns, False)
    elif m._mixed:
        names = tuple(column.name for column in columns)
        source = as_taken(parquet_source(X, names, of_numbers=False), columns)
    else:
        source = source_of(X, client, tuple(column.name for column in columns), True)
    posterior = m.posterior_
    chosen = spread_draws(posterior.n_chains * posterior.n_draws, n_draws)
    units = predictor.units
    row_predictor = RowPredictor(
        predictor.pack(chosen), m.n_clusters_, units.centre, units.scale, source.shape
    )
    return predict_to_parquet(source, row_predictor, folder, client)
