"""Rows of a Dask DataFrame, partition by partition."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from cavity.distributed.blocks import Layout, Piece
from cavity.distributed.clusters import Shape
from cavity.distributed.dask_workers import results_of
from cavity.distributed.sources import ShardError, checked


@dataclass(frozen=True)
class FrameSource:
    """Partitions of a Dask DataFrame, as futures that the cluster can make again."""

    partitions: tuple[Any, ...]
    columns: tuple[str, ...]
    sizes: tuple[int, ...]
    digests: tuple[str, ...]
    named: bool = True

    @property
    def shape(self) -> Shape:
        """All columns are measurements."""
        return Shape(len(self.columns))

    @property
    def digest(self) -> dict[str, Any]:
        """Of every partition's values."""
        return {"partitions": list(self.digests)}

    def reader(self, layout: Layout) -> FrameReader:
        """What cuts the rows of a shard out of its partitions."""
        needed = tuple(self.partitions[piece.part] for piece in layout.pieces)
        return FrameReader(layout.pieces, self.columns, needed)

    def name(self, part: int) -> str:
        """The partition."""
        return f"partition {part}"


@dataclass
class FrameReader:
    """Rows of some partitions, which the scheduler hands over."""

    pieces: tuple[Piece, ...]
    columns: tuple[str, ...]
    needed: tuple[Any, ...] = ()

    def __getstate__(self) -> dict[str, Any]:
        # Futures go to the scheduler as arguments of the task, not inside one.
        return {**vars(self), "needed": ()}

    def __call__(self, *frames: Any) -> np.ndarray:
        """The rows."""
        return np.concatenate(
            [
                checked(
                    values(frame, self.columns)[piece.start : piece.stop],
                    f"partition {piece.part}",
                    self.columns,
                    piece.start,
                )
                for frame, piece in zip(frames, self.pieces, strict=True)
            ]
        )


def values(frame: Any, columns: tuple[str, ...]) -> np.ndarray:
    """The numbers of a partition."""
    return frame[list(columns)].to_numpy(dtype=float, na_value=np.nan)


def _facts(frame: Any, columns: tuple[str, ...]) -> tuple[int, str]:
    from cavity.mcmc.fingerprint import data_digest

    return len(frame), data_digest(values(frame, columns))


def frame_source(frame: Any, client: Any, columns: tuple[str, ...] | None = None) -> FrameSource:
    """The partitions of a Dask DataFrame.

    Parameters
    ----------
    frame : dask.dataframe.DataFrame
    client : distributed.Client
    columns : tuple of str, optional
        Columns to use; all by default.
    """
    chosen = tuple(map(str, frame.columns)) if columns is None else columns
    for name in chosen:
        if name not in frame.columns:
            raise ShardError(f"The Dask DataFrame has no column {name!r}.")
        if getattr(frame.dtypes[name], "kind", "O") not in "fiub":
            raise ShardError(
                f"Column {name!r} of the Dask DataFrame holds {frame.dtypes[name]}, not numbers; "
                "drop it first."
            )
    partitions = tuple(client.compute(frame.to_delayed()))
    facts = results_of(client, [client.submit(_facts, part, chosen) for part in partitions])
    sizes, digests = zip(*facts, strict=True)
    return FrameSource(partitions, chosen, sizes, digests)
