"""CSV and Parquet files as columns, exactly as they are written; nothing is guessed here."""

from __future__ import annotations

import bz2
import csv
import gzip
import lzma
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cavity.io.words import ReadingError, listed, shell_word

PARQUET = (".parquet", ".pq")
_SEPARATORS = {"\t": "tab", ";": ";", "|": "|"}
_PACKED: dict[str, Any] = {".gz": gzip.open, ".bz2": bz2.open, ".xz": lzma.open}
_ROW_NAMES = "__index_level_0__"  # pandas keeps a table's row names in Parquet under this name
_BLOCK = 1 << 24


@dataclass(frozen=True)
class Table:
    """A file's columns, not yet read as numbers, names or times.

    Attributes
    ----------
    path : Path
        Where it came from, for messages.
    names : tuple of str
        Of the columns; may repeat.
    columns : tuple of pyarrow.ChunkedArray
        Strings for a CSV file.
    rows : int
    first_is_nameless : bool
        Whether the first column has no name, as one of row names often has.
    """

    path: Path
    names: tuple[str, ...]
    columns: tuple[Any, ...]
    rows: int
    first_is_nameless: bool = False

    def require(self, wanted: Any) -> None:
        """Refuse a file that lacks a column."""
        missing = [name for name in wanted if name not in self.names]
        if missing:
            raise ReadingError(
                f"{self.path} has no column {listed(missing)}; it has {listed(self.names, 12)}."
            )

    def column(self, name: str) -> Any:
        """The one column of this name; a name that is there twice is refused."""
        self.require([name])
        if self.names.count(name) > 1:
            places = [str(j + 1) for j, other in enumerate(self.names) if other == name]
            raise ReadingError(
                f"{self.path} has {len(places)} columns named {name!r} (columns "
                f"{' and '.join(places)}); rename one, or leave them out with "
                f"--exclude {shell_word(name)}."
            )
        return self.columns[self.names.index(name)]


def read_file(path: Path, separator: str | None = None, encoding: str | None = None) -> Table:
    r"""Read a whole CSV or Parquet file.

    Parameters
    ----------
    path : Path
        ``.parquet`` or ``.pq``; anything else is CSV, which may be packed (``.csv.gz``).
    separator : str, optional
        Between fields of a CSV: one character or ``"tab"``; by default a tab for ``.tsv`` and
        a comma otherwise.
    encoding : str, optional
        Of a CSV; UTF-8 by default.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "a.csv"
    >>> _ = path.write_text("id,x\n007,1.50\n")
    >>> table = read_file(path)
    >>> table.names, table.column("id").to_pylist()
    (('id', 'x'), ['007'])
    """
    if path.is_dir():
        raise ReadingError(f"{path} is a folder; give a CSV or Parquet file.")
    if not path.exists():
        raise ReadingError(f"There is no file {path}; check the name and the folder.")
    if path.suffix.lower() in PARQUET:
        table = _read_parquet(path)
    else:
        table = _read_csv(path, _one_mark(separator, path), encoding or "utf-8-sig")
    if not table.names:
        raise ReadingError(f"{path} has no columns.")
    if not table.rows:
        raise ReadingError(f"{path} has a header but no rows, so there is nothing to read.")
    return table


def _one_mark(separator: str | None, path: Path) -> str:
    if separator is None:
        return "\t" if ".tsv" in path.suffixes else ","
    if separator in ("tab", "\\t"):
        return "\t"
    if len(separator) != 1 or separator in '"\r\n':
        raise ReadingError(f"--separator must be one character or the word tab, not {separator!r}.")
    return separator


def _open(path: Path, mode: str, **options: Any) -> Any:
    suffix = path.suffix.lower()
    if suffix in (".zip", ".zst", ".7z", ".xlsx", ".xls", ".ods"):
        raise ReadingError(f"{path} is not CSV or Parquet; unpack it, or save it as CSV.")
    return _PACKED.get(suffix, open)(path, mode, **options)


def _read_csv(path: Path, separator: str, encoding: str) -> Table:
    import pyarrow as pa
    from pyarrow import csv as arrow

    header, n = _check_lines(path, separator, encoding)
    numbered = [str(j) for j in range(len(header))]
    try:
        with _open(path, "rb") as stream:
            table = arrow.read_csv(
                stream,
                read_options=arrow.ReadOptions(
                    column_names=numbered,
                    skip_rows_after_names=1,
                    # The mark at the beginning of a file is skipped by Arrow itself.
                    encoding="utf-8" if encoding == "utf-8-sig" else encoding,
                    block_size=_BLOCK,
                ),
                parse_options=arrow.ParseOptions(delimiter=separator, newlines_in_values=True),
                convert_options=arrow.ConvertOptions(
                    column_types=dict.fromkeys(numbered, pa.string()),
                    strings_can_be_null=False,
                    quoted_strings_can_be_null=False,
                ),
            )
    except (pa.ArrowException, OSError, EOFError, ValueError) as error:
        raise ReadingError(f"{path} cannot be read as CSV: {_first_line(error)}") from error
    if table.num_rows != n:
        raise ReadingError(
            f"{path} cannot be read as CSV: its quotation marks leave open where rows end "
            f"({n} rows by one reading, {table.num_rows} by another); check them."
        )
    nameless = not header[0].strip()
    names = _named(header)
    return Table(path, names, tuple(table.columns), n, nameless)


def _named(header: list[str]) -> tuple[str, ...]:
    """Names of columns, made up by position where the header has none."""
    return tuple(name if name.strip() else f"column {j + 1}" for j, name in enumerate(header))


def _check_lines(path: Path, separator: str, encoding: str) -> tuple[list[str], int]:
    """The header and the number of rows; refuses rows of another length, by their line."""
    try:
        with _open(path, "rt", newline="", encoding=encoding) as stream:
            reader = csv.reader(_without_nul(stream, path), delimiter=separator)
            header = _header(reader, path, separator)
            n, empty = 0, 0
            for row in reader:
                if not row:
                    empty = empty or reader.line_num
                    continue
                if len(row) != len(header):
                    raise _uneven(path, reader.line_num, len(row), len(header))
                if empty and len(header) == 1:
                    raise ReadingError(
                        f"Line {empty} of {path} is empty: it may be a gap or a slip. Write NA "
                        "where a value is missing, or delete the line."
                    )
                n += 1
            return header, n
    except LookupError as error:
        raise ReadingError(
            f"--encoding {encoding} is not an encoding that Python knows; try latin-1 or cp1252."
        ) from error
    except UnicodeError as error:
        raise _undecodable(path, encoding) from error
    except (csv.Error, EOFError, gzip.BadGzipFile, lzma.LZMAError) as error:
        raise ReadingError(f"{path} cannot be read as CSV: {_first_line(error)}") from error


def _header(reader: Any, path: Path, separator: str) -> list[str]:
    header: list[str] = next((row for row in reader if row), [])
    if not header:
        raise ReadingError(f"{path} is empty: it has neither a header nor rows.")
    if len(header) == 1:
        found = next((mark for mark in _SEPARATORS if mark in header[0]), None)
        if found is not None and found != separator:
            word = _SEPARATORS[found]
            raise ReadingError(
                f"{path} seems to separate its columns by {word!r}; add --separator '{word}'."
            )
    return header


def _uneven(path: Path, line: int, found: int, wanted: int) -> ReadingError:
    advice = "correct the line"
    if found == wanted + 1:
        advice += ", or name every column in the header (the first, if it holds the names of rows)"
    if found > wanted:
        advice += "; text that has the separator in it must stand in quotation marks"
    return ReadingError(
        f"Line {line} of {path} has {found} {'fields' if found > 1 else 'field'}, but the header "
        f"has {wanted}; {advice}."
    )


def _without_nul(lines: Iterable[str], path: Path) -> Iterator[str]:
    for number, line in enumerate(lines, 1):
        if "\0" in line:
            raise ReadingError(
                f"Line {number} of {path} holds a NUL character, which no table of text has; if "
                "the file is UTF-16, add --encoding utf-16, else remove it."
            )
        yield line


def _undecodable(path: Path, encoding: str) -> ReadingError:
    """Say where the bytes are that are no text, and which encoding they may be in."""
    with _open(path, "rb") as stream:
        start = stream.read(2)
    if start in (b"\xff\xfe", b"\xfe\xff"):
        return ReadingError(
            f"{path} is not text in {_spoken(encoding)} but in UTF-16; add --encoding utf-16."
        )
    line, raw = 0, b""
    with _open(path, "rb") as stream:
        for raw in stream:
            line += 1
            try:
                raw.decode(encoding)
            except UnicodeError:
                break
    western = "cp1252" if any(0x80 <= byte <= 0x9F for byte in raw) else "latin-1"
    return ReadingError(
        f"Line {line} of {path} is not text in {_spoken(encoding)}; if the file was saved by an "
        f"older program, add --encoding {western}, else save it as CSV in UTF-8."
    )


def _spoken(encoding: str) -> str:
    return "UTF-8" if encoding == "utf-8-sig" else encoding


def _read_parquet(path: Path) -> Table:
    import pyarrow as pa
    from pyarrow import parquet

    try:
        table = parquet.ParquetFile(path).read()
    except (pa.ArrowException, OSError, ValueError) as error:
        raise ReadingError(f"{path} cannot be read as Parquet: {_first_line(error)}") from error
    names, columns = list(table.column_names), list(table.columns)
    nameless = _ROW_NAMES in names
    if nameless:
        place = names.index(_ROW_NAMES)
        names.insert(0, names.pop(place))
        columns.insert(0, columns.pop(place))
        names[0] = ""
    return Table(path, _named(names), tuple(columns), table.num_rows, nameless)


def _first_line(error: Exception) -> str:
    return str(error).strip().partition("\n")[0].rstrip(".") + "."
