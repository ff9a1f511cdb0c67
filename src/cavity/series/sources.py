"""Series in Parquet files, a row for each, or in memory; their clusters written to files."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from cavity.distributed.blocks import Piece
from cavity.distributed.results import predict_to_parquet
from cavity.distributed.sources import ArraySource, Source, parquet_source, read_rows
from cavity.series.assign import Assigner
from cavity.series.data import SeriesData

# Series that are assigned together: their cells are all in memory.
CHUNK = 4_096


def series_source(Y: str | os.PathLike[str], names: str | None) -> Source:
    """Return files with a row per series and a column per time."""
    source = parquet_source(Y, None, () if names is None else (names,))
    return replace(source, gaps=True)


def times_of(columns: Sequence[str]) -> list[Any]:
    """Return times from the names of columns: numbers if all are, otherwise the text.

    Examples
    --------
    >>> times_of(["0", "1"]), times_of(["2001-01", "2001-02"])
    ([0, 1], ['2001-01', '2001-02'])
    """
    for kind in (int, float):
        try:
            return [kind(name) for name in columns]
        except ValueError:
            continue
    return list(columns)


def array_source(data: SeriesData) -> Source:
    """Return series in memory."""
    return ArraySource(data.y, tuple(map(str, range(data.y.shape[1]))), gaps=True)


def names_of(source: Any, column: str | None, rows: np.ndarray) -> list[str]:
    """Return the names of the chosen series: a column of their files, or numbers."""
    if column is None:
        return [str(row) for row in rows]
    out: list[str] = []
    first = 0
    for part, size in enumerate(source.sizes):
        own = rows[(rows >= first) & (rows < first + size)] - first
        if own.size:
            names = names_of_part(source, column, part)
            out += [names[row] for row in own]
        first += size
    return out


def names_of_part(source: Any, column: str, part: int) -> list[str]:
    """Return the names of all series of one file."""
    piece = Piece(part, 0, source.sizes[part])
    table = read_rows(source.name(part), piece, (column,))
    return [str(value) for value in table.column(column).to_pylist()]


def position_of(columns: tuple[str, ...], assigner: Assigner) -> np.ndarray:
    """Return the positions of the columns of files on the axis of the fit."""
    import pandas as pd

    position = assigner.axis.locate(pd.Index(times_of(columns)))
    if position.max(initial=0) >= assigner.axis.size:
        raise ValueError(
            f"The files reach beyond the fit's last time, {assigner.axis.labels()[-1]}. Leave the "
            "later columns out."
        )
    return position


class SeriesPredictor(NamedTuple):
    """Assign series of files to clusters."""

    assigner: Assigner
    source: Any
    position: np.ndarray  # of the columns on the axis of the fit
    series: str | None  # column with names

    def __call__(self, rows: np.ndarray, part: int) -> Iterator[Any]:
        """Yield tables of the results for the series of one file, a chunk at a time."""
        import pandas as pd
        import pyarrow as pa

        axis = self.assigner.axis
        rng = np.random.default_rng(part)
        names = None if self.series is None else names_of_part(self.source, self.series, part)
        for start in range(0, len(rows), CHUNK):
            some = rows[start : start + CHUNK]
            y = np.full((len(some), axis.size), np.nan)
            y[:, self.position] = some
            data = SeriesData(
                y, (~np.isnan(y)).astype(np.uint16), np.zeros((len(y), axis.size, 0)),
                np.zeros((len(y), 1, 1)), pd.RangeIndex(len(y)), axis,
            )  # fmt: skip
            found = self.assigner.table(data, rng)
            if names is not None:
                found.insert(0, str(self.series), names[start : start + CHUNK])
            yield pa.Table.from_pandas(found, preserve_index=False)


def predict_series(
    assigner: Assigner,
    Y: str | os.PathLike[str],
    folder: Path,
    series: str | None,
    client: Any = None,
) -> list[Path]:
    """Write a file of results for every file of series that has any."""
    source: Any = series_source(Y, series)
    position = position_of(source.columns, assigner)
    predictor = SeriesPredictor(assigner, source, position, series)
    return predict_to_parquet(source, predictor, folder, client)
