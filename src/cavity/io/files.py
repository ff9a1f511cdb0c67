"""CSV and Parquet files as columns, exactly as written."""

from __future__ import annotations

import bz2
import csv
import gzip
import lzma
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
        Path for messages.
    names : tuple of str
        Column names; may repeat.
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
        """Raise an error if a file lacks a column."""
        missing = [name for name in wanted if name not in self.names]
        if missing:
            raise ReadingError(
                f"{self.path} has no column {listed(missing)}; it has {listed(self.names, 12)}."
            )

    def column(self, name: str) -> Any:
        """Return the column of this name; refuse a repeated name."""
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
        Encoding of a CSV; UTF-8 by default.

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
    if not path.is_file():
        raise ReadingError(
            f"{path} is a pipe or a device, and a run reads its data more than once. Save the data "
            "to a file first."
        )
    if path.suffix.lower() in PARQUET:
        table = _read_parquet(path)
    else:
        table = _read_csv(path, _one_mark(separator, path), encoding or "utf-8-sig")
    if not table.names:
        raise ReadingError(f"{path} has no columns.")
    if not table.rows:
        raise _no_rows(path)
    return table


def _no_rows(path: Path) -> ReadingError:
    return ReadingError(f"{path} has a header but no rows, so there is nothing to read.")


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

    uneven: list[Any] = []

    def skip(row: Any) -> str:
        uneven.append(row)
        return "skip"

    try:
        with _open(path, "rt", newline="", encoding=encoding) as stream:
            reader = csv.reader(stream, delimiter=separator)
            header, empty = _header(reader, path, separator)
            if not any(line.strip("\r\n") for line in stream):
                raise _no_rows(path)
        numbered = [str(j) for j in range(len(header))]
        with _open(path, "rb") as stream:
            table = arrow.read_csv(
                stream,
                read_options=arrow.ReadOptions(
                    column_names=numbered,
                    skip_rows=empty,
                    skip_rows_after_names=1,
                    # Arrow itself skips the byte order mark.
                    encoding="utf-8" if encoding == "utf-8-sig" else encoding,
                    block_size=_BLOCK,
                    use_threads=False,  # else rows have no numbers
                ),
                parse_options=arrow.ParseOptions(
                    delimiter=separator,
                    newlines_in_values=True,
                    invalid_row_handler=skip,
                    ignore_empty_lines=len(header) > 1,
                ),
                convert_options=arrow.ConvertOptions(
                    column_types=dict.fromkeys(numbered, pa.string()),
                    strings_can_be_null=False,
                    quoted_strings_can_be_null=False,
                ),
            )
    except LookupError as error:
        raise ReadingError(
            f"--encoding {encoding} is not an encoding that Python knows; try latin-1 or cp1252."
        ) from error
    except UnicodeError as error:
        raise _undecodable(path, encoding) from error
    except (pa.ArrowException, csv.Error, OSError, EOFError, lzma.LZMAError) as error:
        if "invalid UTF8" in str(error):
            raise _undecodable(path, encoding) from error
        raise ReadingError(f"{path} cannot be read as CSV: {_first_line(error)}") from error
    if uneven:
        raise _uneven(path, uneven[0].number - empty - 1, uneven[0].actual_columns, len(header))
    for name, column in zip(header, table.columns, strict=True):
        _refuse_nul(name, column, path)
    if len(header) == 1:
        table = _without_empty_end(table, path)
    return Table(path, _named(header), tuple(table.columns), table.num_rows, not header[0].strip())


def _refuse_nul(name: str, column: Any, path: Path) -> None:
    import pyarrow.compute as pc

    found = pc.index(pc.match_substring(column, "\0"), True).as_py()
    if "\0" in name or found >= 0:
        place = "The header" if "\0" in name else f"Row {found + 1}"
        raise ReadingError(
            f"{place} of {path} contains a NUL character. If the file is UTF-16, add --encoding "
            "utf-16; otherwise remove it."
        )


def _without_empty_end(table: Any, path: Path) -> Any:
    """Remove empty lines at the end of a one-column table; refuse them elsewhere."""
    empty = [value == "" for value in table.column(0).to_pylist()]
    n = len(empty)
    while n and empty[n - 1]:
        n -= 1
    if any(empty[:n]):
        raise ReadingError(
            f"Row {empty.index(True) + 1} of {path} is empty. Write NA if a value is missing, or "
            "delete the line."
        )
    return table.slice(0, n)


def _named(header: list[str]) -> tuple[str, ...]:
    """Return column names, made from the position if the header has none."""
    return tuple(name if name.strip() else f"column {j + 1}" for j, name in enumerate(header))


def _header(reader: Any, path: Path, separator: str) -> tuple[list[str], int]:
    """Return the column names, and the number of empty lines before them."""
    empty = 0
    for header in reader:
        if header and not (len(header) == 1 and header[0].isspace()):
            break
        empty += 1
    else:
        raise ReadingError(f"{path} is empty: it has neither a header nor rows.")
    if len(header) == 1:
        found = next((mark for mark in _SEPARATORS if mark in header[0]), None)
        if found is not None and found != separator:
            word = _SEPARATORS[found]
            raise ReadingError(
                f"{path} seems to separate its columns by {word!r}; add --separator '{word}'."
            )
    return header, empty


def _uneven(path: Path, row: int, found: int, wanted: int) -> ReadingError:
    advice = "correct the row"
    if found == wanted + 1:
        advice += ", or name every column in the header (the first, if it holds the names of rows)"
    if found > wanted:
        advice += "; text that contains the separator must be in quotation marks"
    return ReadingError(
        f"Row {row} of {path} has {found} {'fields' if found > 1 else 'field'}, but the header "
        f"has {wanted}; {advice}."
    )


def _undecodable(path: Path, encoding: str) -> ReadingError:
    """Return an error with the position of undecodable bytes and a likely encoding."""
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
