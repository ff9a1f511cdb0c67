"""Clusters of sharded rows: one Parquet file of results for each part of the data."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from cavity.distributed.blocks import Layout, Piece
from cavity.distributed.clusters import Shape
from cavity.distributed.sources import Source
from cavity.predict.densities import log_mean_exp, predict_rows
from cavity.predict.draws import MixtureDraws, Rows
from cavity.utils.files import replacing

# Rows whose densities under all draws are in memory at once, and the draws there are of each.
CHUNK = 1 << 15
N_DRAWS = 50
# Further out than this, in robust standard deviations, rows are taken to be this far.
FARTHEST = 1e300


class RowPredictor(NamedTuple):
    """Puts rows into clusters; draws are in the model's units."""

    draws: MixtureDraws
    n_clusters: int
    centre: np.ndarray
    scale: np.ndarray
    shape: Shape

    def evaluate(self, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Log densities (draw, n) and probabilities (n, K + 1), in the model's units."""
        measured, codes, counts = self.shape.split(rows)
        with np.errstate(over="ignore"):
            standard = np.clip((measured - self.centre) / self.scale, -FARTHEST, FARTHEST)
        counts = np.where(counts < 0.0, np.nan, counts)
        return predict_rows(self.draws, Rows(standard, codes, counts), self.n_clusters)

    def __call__(self, rows: np.ndarray, part: int) -> Iterator[Any]:
        """Yield tables of the results for some rows, a chunk at a time."""
        import pyarrow as pa

        for start in range(0, len(rows), CHUNK):
            log_density, probability = self.evaluate(rows[start : start + CHUNK])
            cluster = probability[:, :-1].argmax(axis=1)
            out = {
                "cluster": cluster.astype(np.int32),
                "probability": probability[np.arange(len(cluster)), cluster],
                "log_density": log_mean_exp(log_density) - np.log(self.scale).sum(),
            }
            for k in range(self.n_clusters):
                out[f"p_{k}"] = probability[:, k].astype(np.float32)
            out["p_unmatched"] = probability[:, -1].astype(np.float32)
            yield pa.table(out)


def _write_part(
    predictor: Any, reader: Callable[..., np.ndarray], needed: list[Any], path: str, part: int
) -> None:
    """Write the results of one part of the data."""
    import pyarrow.parquet as pq

    with replacing(path) as written:
        writer = None
        for table in predictor(reader(*needed), part):
            if writer is None:
                writer = pq.ParquetWriter(written, table.schema)
            writer.write_table(table)
        if writer is not None:
            writer.close()


def predict_to_parquet(
    source: Source, predictor: Any, folder: Path, client: Any = None
) -> list[Path]:
    """Write a file of results for every part of the data that has rows.

    Parameters
    ----------
    source : Source
    predictor : callable
        ``predictor(rows, part)`` yields Arrow tables, one chunk of rows after the other.
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
        tasks.append((reader, list(getattr(reader, "needed", ())), str(path), part))
    if client is None:
        for task in tasks:
            _write_part(predictor, *task)
    else:
        from cavity.distributed.dask_chains import itself
        from cavity.distributed.dask_workers import results_of

        shared = client.submit(itself, predictor, pure=False)
        futures = [client.submit(_write_part, shared, *task, pure=False) for task in tasks]
        results_of(client, futures)
    return paths


def _name(source: Source, part: int) -> str:
    name = os.path.basename(source.name(part))
    return name if name.endswith(".parquet") else f"part-{part:05d}.parquet"
