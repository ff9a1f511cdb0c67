"""Tables of measurements, categories and counts in Parquet files.

What each column is taken for is settled before any row is used: every file tells the values of its
columns, as far as they matter to that, and the rule is that of tables in memory
(`cavity.io.columns`). After that rows are numbers: measurements, then codes of categories, -1
where one is missing, then counts, likewise.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from cavity.distributed.blocks import Layout, Piece
from cavity.distributed.clusters import Shape
from cavity.distributed.sources import ParquetSource, ShardError, checked, read_pieces, read_rows
from cavity.io.columns import (
    CATEGORICAL,
    CONTINUOUS,
    COUNT,
    MOST_CATEGORIES,
    Cells,
    Column,
    cells_of,
    check_types,
    plain_values,
    take_column,
)
from cavity.io.words import ReadingError

if TYPE_CHECKING:
    import pandas as pd

# Different values of a column that a file tells: one more than a column of categories may have.
MOST_TOLD = MOST_CATEGORIES + 1
# Rows that are text or numbers of Python's at a time.
CHUNK = 1 << 17


def shape_of(columns: list[Column]) -> Shape:
    """What the numbers of rows are, for a table with such columns."""
    levels = [len(column.categories) for column in columns if column.kind == CATEGORICAL]
    return Shape(
        sum(column.kind == CONTINUOUS for column in columns),
        tuple(int(at) for at in np.cumsum([0, *levels])),
        sum(column.kind == COUNT for column in columns),
    )


def numbers_of(cells: Cells) -> np.ndarray:
    """The cells of a table, all columns side by side; gaps of measurements are NaN."""
    counts = np.where(np.isnan(cells.counts), -1.0, cells.counts)
    return np.ascontiguousarray(np.hstack([cells.continuous, cells.codes, counts]))


def cells_from(rows: np.ndarray, shape: Shape) -> Cells:
    """The reverse."""
    measured, codes, counts = shape.split(rows)
    counts = np.where(counts < 0.0, np.nan, counts)
    return Cells(measured, codes, counts, np.empty((len(rows), 0)))


def frame_from(rows: np.ndarray, columns: list[Column], index: Any = None) -> pd.DataFrame:
    """Rows of numbers as a table with the columns of the fit; gaps are None or NaN."""
    import pandas as pd

    cells = cells_from(rows, shape_of(columns))
    parts = {CONTINUOUS: iter(cells.continuous.T), COUNT: iter(cells.counts.T)}
    codes = iter(cells.codes.T)
    out: dict[str, Any] = {}
    for column in columns:
        if column.kind == CATEGORICAL:
            names = np.array([*column.categories, None], dtype=object)
            out[column.name] = names[next(codes)]
        elif column.kind in parts:
            out[column.name] = next(parts[column.kind])
        else:
            out[column.name] = np.full(len(rows), np.nan)
    return pd.DataFrame(out, index=index)


def names_in_order(columns: list[Column]) -> tuple[str, ...]:
    """Names of the columns in the order that their numbers have."""
    return tuple(
        column.name
        for kind in (CONTINUOUS, CATEGORICAL, COUNT)
        for column in columns
        if column.kind == kind
    )


@dataclass(frozen=True)
class TableSource:
    """Rows of Parquet files with columns of several kinds.

    Attributes
    ----------
    files : ParquetSource
        Where the rows are, with all columns of the fit.
    taken : tuple of Column
        What these were taken for.
    """

    files: ParquetSource
    taken: tuple[Column, ...]
    named: bool = True

    @property
    def columns(self) -> tuple[str, ...]:
        """Names in the order of the numbers."""
        return names_in_order(list(self.taken))

    @property
    def shape(self) -> Shape:
        """What the numbers are."""
        return shape_of(list(self.taken))

    @property
    def sizes(self) -> tuple[int, ...]:
        """Rows of each file."""
        return self.files.sizes

    @property
    def digest(self) -> dict[str, Any]:
        """Of the files, and of what their columns were taken for."""
        kinds = {c.name: f"{c.kind} {' '.join(c.categories)}" for c in self.taken}
        return {**self.files.digest, "columns": kinds}

    def reader(self, layout: Layout) -> Callable[[], np.ndarray]:
        """Return what reads the rows of a shard."""
        paths = tuple(self.files.paths[piece.part] for piece in layout.pieces)
        return partial(read_pieces, _read, paths, layout.pieces, self.taken)

    def name(self, part: int) -> str:
        """The file."""
        return self.files.paths[part]


def _read(path: str, piece: Piece, taken: tuple[Column, ...]) -> np.ndarray:
    columns = list(taken)
    names = tuple(column.name for column in columns)
    out = np.empty((piece.stop - piece.start, shape_of(columns).n_columns))
    for start in range(piece.start, piece.stop, CHUNK):
        part = Piece(piece.part, start, min(start + CHUNK, piece.stop))
        frame = read_rows(path, part, names).to_pandas()
        try:
            rows = numbers_of(cells_of(frame, columns, range(start, part.stop)))
        except ReadingError as error:
            raise ShardError(f"{path}: {error}") from error
        out[start - piece.start : part.stop - piece.start] = rows
    return checked(out, path, names_in_order(columns), piece.start)


class Values(NamedTuple):
    """What a file tells of a column."""

    form: str  # "number" or "text"
    different: tuple[Any, ...]  # at most MOST_TOLD of them


def values_of(
    path: str, size: int, names: tuple[str, ...], as_text: frozenset[str] = frozenset()
) -> list[Values]:
    """The different values of every column of a file; numbers in `as_text` name categories."""
    found: list[Values] = []
    for name in names:
        form = "number"
        different: set[Any] = set()
        for start in range(0, size, CHUNK):
            piece = Piece(0, start, min(start + CHUNK, size))
            column = read_rows(path, piece, (name,)).to_pandas()[name]
            try:
                own, values = plain_values(column, name, range(start, piece.stop), name in as_text)
            except ReadingError as error:
                raise ShardError(f"{path}: {error}") from error
            form = "text" if own == "text" else form
            there = values[[v is not None for v in values]] if own == "text" else values
            there = there if own == "text" else there[~np.isnan(there)]
            if len(different) < MOST_TOLD:
                different |= set(np.unique(there).tolist())
        found.append(Values(form, tuple(sorted(different)[:MOST_TOLD])))
    return found


def table_source(
    files: ParquetSource, feature_types: Any = None, client: Any = None
) -> TableSource:
    """Files, and what their columns are taken for.

    Parameters
    ----------
    files : ParquetSource
    feature_types : dict, optional
        What the user says of columns, by name.
    client : distributed.Client, optional
        Cluster whose workers look at the files.
    """
    import pandas as pd

    names = files.columns
    types = check_types(feature_types, list(names))
    tasks = list(zip(files.paths, files.sizes, strict=True))
    as_text = frozenset(name for name, kind in types.items() if kind == CATEGORICAL)
    if client is None:
        told = [values_of(path, size, names, as_text) for path, size in tasks]
    else:
        from cavity.distributed.dask_workers import results_of

        futures = [
            client.submit(values_of, path, size, names, as_text, pure=False) for path, size in tasks
        ]
        told = results_of(client, futures)
    taken = []
    for j, name in enumerate(names):
        forms = {own[j].form for own in told if own[j].different}
        if len(forms) > 1:
            odd = next(p for p, own in zip(files.paths, told, strict=True) if own[j].form == "text")
            raise ShardError(
                f"Column {name!r} holds text in {odd} and numbers in other files; write them alike."
            )
        form = forms.pop() if forms else "number"
        values = sorted({value for own in told for value in own[j].different})
        column = pd.Series(values, dtype=object if form == "text" else float)
        taken.append(take_column(column, name, types.get(name), n=sum(files.sizes)))
    return TableSource(files, tuple(taken))


def as_taken(files: ParquetSource, taken: list[Column]) -> TableSource:
    """New files with the columns of a fit."""
    return TableSource(replace(files, columns=tuple(c.name for c in taken)), tuple(taken))
