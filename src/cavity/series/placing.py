"""Where every series of files belongs: one Parquet file beside each."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from cavity.distributed.results import predict_to_parquet
from cavity.series.assign import Assigner
from cavity.series.data import SeriesData
from cavity.series.sources import names_of_part, series_source, times_of

# Series that are placed together: so many are in memory with all their cells.
CHUNK = 4_096


def position_of(columns: tuple[str, ...], assigner: Assigner) -> np.ndarray:
    """Where the columns of files lie on the axis of the fit."""
    import pandas as pd

    position = assigner.axis.locate(pd.Index(times_of(columns)))
    if position.max(initial=0) >= assigner.axis.size:
        raise ValueError(
            f"The files reach beyond the fit's last time, {assigner.axis.labels()[-1]}. Leave the "
            "later columns out."
        )
    return position


class SeriesPredictor(NamedTuple):
    """Puts series of files into clusters."""

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
