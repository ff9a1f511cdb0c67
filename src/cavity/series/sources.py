"""Where many series are: Parquet files with a row for each, or memory."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from cavity.distributed.blocks import Piece
from cavity.distributed.sources import ArraySource, Source, parquet_source, read_rows
from cavity.series.data import SeriesData


def series_source(Y: str | os.PathLike[str], names: str | None) -> Source:
    """Files with a row per series and a column per time."""
    source = parquet_source(Y, None, () if names is None else (names,))
    return replace(source, gaps=True)


def times_of(columns: Sequence[str]) -> list[Any]:
    """Times by the names of columns: numbers where all of them are, dates as they are written.

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
    """Series in memory."""
    return ArraySource(data.y, tuple(map(str, range(data.y.shape[1]))), gaps=True)


def names_of(source: Any, column: str | None, rows: np.ndarray) -> list[str]:
    """What the chosen series are called: by a column of their files, or by number."""
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
