"""Where each row belongs, for data in shards: one Parquet file beside each part."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from cavity.distributed.blocks import Layout, Piece
from cavity.distributed.clusters import Shape
from cavity.distributed.sources import ShardError, Source
from cavity.likelihoods.predictive import MixtureDraws, predict
from cavity.likelihoods.table_predictive import Rows, TableDraws, predict_rows
from cavity.utils.files import replacing

# Rows whose densities under all draws are in memory at once, and the draws there are of each.
CHUNK = 1 << 15
N_DRAWS = 50
# Further out than this, in robust standard deviations, rows are taken to be this far.
FARTHEST = 1e300


def _standard(rows: np.ndarray, centre: np.ndarray, scale: np.ndarray) -> np.ndarray:
    with np.errstate(over="ignore"):
        return np.clip((rows - centre) / scale, -FARTHEST, FARTHEST)


class Placement(NamedTuple):
    """What puts rows of measurements into clusters."""

    draws: MixtureDraws  # in the model's units
    n_clusters: int
    centre: np.ndarray
    scale: np.ndarray

    def evaluate(self, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Log densities (draw, n) and probabilities (n, K + 1), in the model's units."""
        return predict(self.draws, _standard(rows, self.centre, self.scale), self.n_clusters)


class TablePlacement(NamedTuple):
    """What puts rows of measurements, codes and counts into clusters."""

    draws: TableDraws
    n_clusters: int
    centre: np.ndarray
    scale: np.ndarray
    shape: Shape

    def evaluate(self, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Log densities (draw, n) and probabilities (n, K + 1), in the model's units."""
        measured, codes, counts = self.shape.split(rows)
        counts = np.where(counts < 0.0, np.nan, counts)
        standard = _standard(measured, self.centre, self.scale)
        return predict_rows(self.draws, Rows(standard, codes, counts), self.n_clusters)


def placed(
    placement: Placement | TablePlacement, rows: np.ndarray
) -> Iterator[dict[str, np.ndarray]]:
    """Columns of the result for some rows, a chunk at a time."""
    for start in range(0, len(rows), CHUNK):
        log_density, probability = placement.evaluate(rows[start : start + CHUNK])
        top = log_density.max(axis=0)
        lift = np.where(np.isfinite(top), top, 0.0)
        with np.errstate(divide="ignore"):
            density = lift + np.log(np.exp(log_density - lift).mean(axis=0))
        cluster = probability[:, :-1].argmax(axis=1)
        out = {
            "cluster": cluster.astype(np.int32),
            "probability": probability[np.arange(len(cluster)), cluster],
            "log_density": density - np.log(placement.scale).sum(),
        }
        for k in range(placement.n_clusters):
            out[f"p_{k}"] = probability[:, k].astype(np.float32)
        out["p_unmatched"] = probability[:, -1].astype(np.float32)
        yield out


def write_placed(
    placement: Placement | TablePlacement,
    reader: Callable[..., np.ndarray],
    needed: list[Any],
    path: str,
) -> int:
    """Place the rows of one part and write them; how many there were."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    rows = reader(*needed)
    with replacing(path) as part:
        writer = None
        for columns in placed(placement, rows):
            table = pa.table(columns)
            if writer is None:
                writer = pq.ParquetWriter(part, table.schema)
            writer.write_table(table)
        if writer is None:
            raise ShardError(f"there are no rows to write to {path}.")
        writer.close()
    return len(rows)


def place_all(
    source: Source, placement: Placement | TablePlacement, folder: Path, client: Any = None
) -> list[Path]:
    """Write a file of results for every part of the data.

    Parameters
    ----------
    source : Source
    placement : Placement or TablePlacement
    folder : Path
        Made if it is not there. Files have the names of the parts'.
    client : distributed.Client, optional
        Cluster whose workers do it; each must reach the folder.
    """
    folder.mkdir(parents=True, exist_ok=True)
    folder = folder.resolve()
    parts = [part for part, size in enumerate(source.sizes) if size]
    paths = [folder / _name(source, part) for part in parts]
    if len(set(paths)) < len(paths):
        paths = [folder / f"part-{part:05d}.parquet" for part in parts]
    tasks = []
    for part, path in zip(parts, paths, strict=True):
        size = source.sizes[part]
        reader = source.reader(Layout(0, 0, (Piece(part, 0, size),), np.array([0, size])))
        tasks.append((reader, list(getattr(reader, "needed", ())), str(path)))
    if client is None:
        for task in tasks:
            write_placed(placement, *task)
    else:
        from cavity.distributed.dask_workers import results_of

        shared = client.submit(_itself, placement, pure=False)
        futures = [client.submit(write_placed, shared, *task, pure=False) for task in tasks]
        results_of(client, futures)
    return paths


def _itself(placement: Placement | TablePlacement) -> Placement | TablePlacement:
    """A task whose result the workers share."""
    return placement


def _name(source: Source, part: int) -> str:
    name = os.path.basename(source.name(part))
    return name if name.endswith(".parquet") else f"part-{part:05d}.parquet"
