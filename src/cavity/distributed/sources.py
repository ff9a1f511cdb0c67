"""Where rows come from: arrays, Parquet files, partitions of a Dask DataFrame.

A source knows the sizes of its parts before any of them is read, and refuses in one sentence what
does not fit together. Its parts are read where they are needed, on whichever worker.
"""

from __future__ import annotations

import glob
import os
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from cavity.distributed.blocks import Layout, Piece
from cavity.distributed.clusters import Shape
from cavity.io.words import listed

_NUMBERS = "iufb"


class ShardError(ValueError):
    """A part of the data cannot be used; the message names it and says what to do."""


class Source(Protocol):
    """Rows in parts."""

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the columns."""

    @property
    def named(self) -> bool:
        """Whether the columns have names of their own."""

    @property
    def shape(self) -> Shape:
        """What the columns are."""

    @property
    def sizes(self) -> tuple[int, ...]:
        """Rows of each part."""

    @property
    def digest(self) -> dict[str, Any]:
        """What identifies the data, for a checkpoint."""

    def reader(self, layout: Layout) -> Any:
        """What reads the rows of a shard: small, and ready to be sent to a worker."""

    def name(self, part: int) -> str:
        """A part, in words."""


def checked(
    rows: np.ndarray, place: str, columns: tuple[str, ...], first: int = 0, gaps: bool = False
) -> np.ndarray:
    """Refuse rows that are not finite numbers, naming the place; with `gaps`, infinite ones."""
    bad = np.isinf(rows) if gaps else ~np.isfinite(rows)
    if not bad.any():
        return rows
    row, column = (int(v) for v in np.argwhere(bad)[0])
    what = "missing" if np.isnan(rows[row, column]) else "infinite"
    raise ShardError(
        f"Row {first + row}, column {columns[column]!r} of {place} is {what}. Drop such rows or "
        "fill them in first."
    )


# --------------------------------------------------------------------------- arrays


@dataclass(frozen=True)
class ArraySource:
    """Rows of an array in memory."""

    rows: np.ndarray
    columns: tuple[str, ...]
    named: bool = False
    kinds: Shape | None = None
    gaps: bool = False

    @property
    def shape(self) -> Shape:
        """All columns are measurements, unless it is known better."""
        return Shape(self.rows.shape[1]) if self.kinds is None else self.kinds

    @property
    def sizes(self) -> tuple[int, ...]:
        """One part."""
        return (len(self.rows),)

    @property
    def digest(self) -> dict[str, Any]:
        """Of all values."""
        from cavity.mcmc.fingerprint import data_digest

        return {"values": data_digest(self.rows)}

    def reader(self, layout: Layout) -> Callable[[], np.ndarray]:
        """Return what has the rows of a shard."""
        (piece,) = layout.pieces
        rows = self.rows[piece.start : piece.stop]
        return partial(_floats, rows, piece.start, self.columns, self.gaps)

    def name(self, part: int) -> str:
        """The array."""
        return "X"


def _floats(rows: Any, first: int, columns: tuple[str, ...], gaps: bool) -> np.ndarray:
    return checked(np.asarray(rows, dtype=float), "X", columns, first, gaps)


# --------------------------------------------------------------------------- Parquet


@dataclass(frozen=True)
class ParquetSource:
    """Rows of Parquet files that have the same columns.

    Attributes
    ----------
    paths : tuple of str
    columns : tuple of str
        Columns to use, in this order.
    sizes : tuple of int
    stamps : tuple of (int, int)
        Bytes of each file, and when it was last changed.
    gaps : bool
        Whether values may be missing.
    """

    paths: tuple[str, ...]
    columns: tuple[str, ...]
    sizes: tuple[int, ...]
    stamps: tuple[tuple[int, int], ...]
    named: bool = True
    gaps: bool = False

    @property
    def shape(self) -> Shape:
        """All columns are measurements."""
        return Shape(len(self.columns))

    @property
    def digest(self) -> dict[str, Any]:
        """Names and sizes of the files, and when they were changed."""
        return {
            "files": [os.path.basename(path) for path in self.paths],
            "rows": list(self.sizes),
            "bytes": [size for size, _ in self.stamps],
            "changed": [str(when) for _, when in self.stamps],
        }

    def reader(self, layout: Layout) -> Callable[[], np.ndarray]:
        """Return what reads the rows of a shard."""
        paths = tuple(self.paths[piece.part] for piece in layout.pieces)
        return partial(read_pieces, read_parquet, paths, layout.pieces, self.columns, self.gaps)

    def name(self, part: int) -> str:
        """The file."""
        return self.paths[part]


def read_pieces(
    read: Callable[..., np.ndarray], paths: tuple[str, ...], pieces: tuple[Piece, ...], *how: Any
) -> np.ndarray:
    """Return the rows of pieces of files, each of them ``read(path, piece, *how)``."""
    n, at = sum(piece.stop - piece.start for piece in pieces), 0
    out = np.empty((n, 0))
    for path, piece in zip(paths, pieces, strict=True):
        rows = read(path, piece, *how)
        # One array for all: parts in a list would exist twice while they are joined.
        out = out if at else np.empty((n, rows.shape[1]))
        out[at : at + len(rows)] = rows
        at += len(rows)
    return out


def read_parquet(
    path: str, piece: Piece, columns: tuple[str, ...], gaps: bool = False
) -> np.ndarray:
    """Some rows of a file as numbers."""
    table = read_rows(path, piece, columns)
    out = np.empty((table.num_rows, len(columns)))
    for j, name in enumerate(columns):
        out[:, j] = table.column(name).to_numpy()
    return checked(out, path, columns, piece.start, gaps)


def read_rows(path: str, piece: Piece, columns: tuple[str, ...]) -> Any:
    """Some rows of a file as a table of Arrow, reading no more row groups than they are in."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        with pq.ParquetFile(path) as file:
            sizes = [file.metadata.row_group(g).num_rows for g in range(file.num_row_groups)]
            ends = np.cumsum(sizes)
            if piece.stop > (ends[-1] if sizes else 0):
                raise ShardError(
                    f"{path} has fewer rows than it had when the run began; put it back."
                )
            first = int(np.searchsorted(ends, piece.start, side="right"))
            last = int(np.searchsorted(ends, piece.stop - 1, side="right"))
            table = file.read_row_groups(list(range(first, last + 1)), columns=list(columns))
            skipped = piece.start - (int(ends[first - 1]) if first else 0)
            table = table.slice(skipped, piece.stop - piece.start)
    except ShardError:
        raise
    except (OSError, pa.ArrowException, KeyError) as error:
        said = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise ShardError(
            f"{path} cannot be read ({said.rstrip('.')}). Put it back and run again with the "
            "same checkpoint to go on."
        ) from error
    return table


def parquet_paths(where: str | os.PathLike[str]) -> tuple[str, ...]:
    """Parquet files of a folder or a pattern, by name."""
    text = os.fspath(where)
    path = Path(text).expanduser()
    if path.is_dir():
        found = [str(p) for p in path.iterdir() if p.suffix in (".parquet", ".pq")]
        missing = f"The folder {text} holds no Parquet files (*.parquet)."
    elif path.is_file():
        found, missing = [str(path)], ""
    else:
        found = glob.glob(str(path), recursive=True)
        missing = f"No file matches {text}; check the name and the folder."
    if not found:
        raise ShardError(missing)
    return tuple(sorted(found))


def parquet_source(
    where: str | os.PathLike[str],
    columns: tuple[str, ...] | None = None,
    exclude: tuple[str, ...] = (),
    of_numbers: bool = True,
) -> ParquetSource:
    """Files that match a path, checked against each other by their footers alone.

    Parameters
    ----------
    where : path
        A file, a folder, or a pattern such as ``"rows/*.parquet"``.
    columns : tuple of str, optional
        Columns to use; all but the excluded by default.
    exclude : tuple of str
        Columns to leave out.
    of_numbers : bool
        Whether columns that hold anything else are refused.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    paths = parquet_paths(where)
    sizes, stamps = [], []
    first: dict[str, Any] = {}
    for path in paths:
        try:
            metadata = pq.read_metadata(path)
            schema = metadata.schema.to_arrow_schema()
            status = os.stat(path)
        except (OSError, pa.ArrowException) as error:
            said = str(error).splitlines()[0] if str(error) else type(error).__name__
            raise ShardError(
                f"{path} is no Parquet file that can be read ({said.rstrip('.')}). Remove or "
                "replace it."
            ) from error
        kinds = {field.name: field.type for field in schema}
        if not first:
            first = kinds
            columns = _chosen(path, kinds, columns, exclude)
        for name in columns or ():
            if name not in kinds:
                raise ShardError(
                    f"{path} has no column {name!r}, which {paths[0]} has; it has "
                    f"{listed(kinds, 12)}. All files need the same columns."
                )
            if of_numbers and _kind(kinds[name]) not in _NUMBERS:
                raise ShardError(
                    f"Column {name!r} of {path} holds {kinds[name]}, not numbers; exclude it, or "
                    "write the file again with numbers."
                )
        sizes.append(int(metadata.num_rows))
        stamps.append((int(status.st_size), int(status.st_mtime_ns)))
    return ParquetSource(paths, tuple(columns or ()), tuple(sizes), tuple(stamps))


def is_of_numbers(source: ParquetSource) -> bool:
    """Whether all columns of files hold numbers, by the first one's footer."""
    import pyarrow.parquet as pq

    schema = pq.read_schema(source.paths[0])
    return all(_kind(schema.field(name).type) in _NUMBERS for name in source.columns)


def _kind(arrow_type: Any) -> str:
    import pyarrow as pa

    if pa.types.is_floating(arrow_type):
        return "f"
    if pa.types.is_integer(arrow_type):
        return "i"
    return "b" if pa.types.is_boolean(arrow_type) else "O"


def _chosen(
    path: str, kinds: dict[str, Any], columns: tuple[str, ...] | None, exclude: tuple[str, ...]
) -> tuple[str, ...]:
    absent = [name for name in (*(columns or ()), *exclude) if name not in kinds]
    if absent:
        raise ShardError(f"{path} has no column {absent[0]!r}; it has {listed(kinds, 12)}.")
    chosen = tuple(name for name in (columns or kinds) if name not in exclude)
    if not chosen:
        raise ShardError(f"No column of {path} is left to cluster by.")
    return chosen
