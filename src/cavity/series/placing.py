"""Where every series of files belongs: one Parquet file beside each."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np

from cavity.distributed.blocks import Layout, Piece
from cavity.series.assign import Assigner
from cavity.series.data import SeriesData
from cavity.series.sources import names_of, series_source, times_of
from cavity.utils.files import replacing

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


def place_part(
    assigner: Assigner,
    reader: Any,
    position: np.ndarray,
    names: list[str] | None,
    called: str | None,
    path: str,
    seed: int,
) -> int:
    """Place the series of one file and write them; how many there were."""
    import pandas as pd
    import pyarrow as pa
    import pyarrow.parquet as pq

    rows = reader()
    size = assigner.axis.size
    rng = np.random.default_rng(seed)
    with replacing(path) as part:
        writer = None
        for start in range(0, len(rows), CHUNK):
            some = rows[start : start + CHUNK]
            y = np.full((len(some), size), np.nan)
            y[:, position] = some
            data = SeriesData(
                y, (~np.isnan(y)).astype(np.uint16), np.zeros((len(y), size, 0)),
                np.zeros((len(y), 1, 1)), pd.RangeIndex(len(y)), assigner.axis,
            )  # fmt: skip
            found = assigner.table(data, rng)
            if names is not None:
                found.insert(0, str(called), names[start : start + CHUNK])
            table = pa.Table.from_pandas(found, preserve_index=False)
            if writer is None:
                writer = pq.ParquetWriter(part, table.schema)
            writer.write_table(table)
        if writer is not None:
            writer.close()
    return len(rows)


def place_series(
    assigner: Assigner,
    Y: str | os.PathLike[str],
    folder: Path,
    series: str | None,
    client: Any = None,
) -> list[Path]:
    """Write a file of results for every file of series that has any."""
    source: Any = series_source(Y, series)
    position = position_of(source.columns, assigner)
    folder.mkdir(parents=True, exist_ok=True)
    folder = folder.resolve()
    tasks, paths, first = [], [], 0
    for part, n in enumerate(source.sizes):
        if n:
            reader = source.reader(Layout(0, 0, (Piece(part, 0, n),), np.array([0, n])))
            names = None
            if series is not None:
                names = names_of(source, series, np.arange(first, first + n))
            paths.append(folder / os.path.basename(source.name(part)))
            tasks.append((reader, position, names, series, str(paths[-1]), part))
        first += n
    if client is None:
        for task in tasks:
            place_part(assigner, *task)
    else:
        from cavity.distributed.dask_workers import results_of

        shared = client.submit(_itself, assigner, pure=False)
        futures = [client.submit(place_part, shared, *task, pure=False) for task in tasks]
        results_of(client, futures)
    return paths


def _itself(assigner: Assigner) -> Assigner:
    """A task whose result the workers share."""
    return assigner
