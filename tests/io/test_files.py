"""Files are read as they are written, or refused by row."""

import gzip
import os

import pandas as pd
import pyarrow as pa
import pyarrow.parquet
import pytest

from cavity.io.files import read_file
from cavity.io.names import column_names
from cavity.io.words import ReadingError


def write(path, text, encoding="utf-8"):
    path.write_bytes(text.encode(encoding))
    return path


def test_text_stays_as_written(tmp_path):
    path = write(tmp_path / "a.csv", 'id,x\n00501,1\nNA,2\n" a, b ",3\nNone,4\n,5\n1.0,6\n')
    table = read_file(path)
    assert column_names(table.column("id"), "id", "a.csv") == [
        "00501", "NA", " a, b ", "None", "", "1.0",
    ]  # fmt: skip


@pytest.mark.parametrize("row", ["1,2,3", "1", "1,2,", '"1,2"', "1,2,3,4,5"])
@pytest.mark.parametrize("place", [0, 2])
def test_rows_of_another_length_are_refused_by_row(tmp_path, row, place):
    rows = ["1,2"] * 4
    rows[place] = row
    path = write(tmp_path / "a.csv", "\n".join(["a,b", *rows]) + "\n")
    with pytest.raises(ReadingError, match=rf"^Row {place + 1} of .*, but the header has 2;"):
        read_file(path)


def test_rows_that_are_all_longer_than_the_header_are_refused(tmp_path):
    """Pandas would take the first field of each for its name, and shift the others."""
    path = write(tmp_path / "a.csv", "a,b\nx,1,2\ny,3,4\n")
    with pytest.raises(ReadingError, match=r"Row 1 .* has 3 fields, but the header has 2.*names"):
        read_file(path)


def test_rows_are_counted_through_quoted_newlines(tmp_path):
    path = write(tmp_path / "a.csv", 'a,b\n"x\ny",2\n\n1,2\n1\n')
    with pytest.raises(ReadingError, match=r"^Row 3 of "):
        read_file(path)
    path = write(tmp_path / "a.csv", 'a,b\n"x\ny",2\n\n1,2\n')
    assert read_file(path).column("a").to_pylist() == ["x\ny", "1"]


def test_an_empty_line_in_one_column_may_be_a_gap(tmp_path):
    path = write(tmp_path / "a.csv", "a\n1\n\n3\n")
    with pytest.raises(ReadingError, match=r"^Row 2 of .* is empty"):
        read_file(path)
    assert read_file(write(path, "a\n1\n3\n\n\n")).rows == 2


def test_empty_lines_before_the_header(tmp_path):
    path = write(tmp_path / "a.csv", "\n\na,b\n\n1,2\n3\n")
    with pytest.raises(ReadingError, match=r"^Row 2 of "):
        read_file(path)
    table = read_file(write(path, '\n\n"a\nb",c\n1,2\n'))
    assert table.names == ("a\nb", "c")
    assert table.column("c").to_pylist() == ["2"]


def test_encodings(tmp_path):
    text = "name,x\nMünchen,1\nKöln,2\n"
    path = write(tmp_path / "a.csv", text, "latin-1")
    with pytest.raises(ReadingError, match=r"^Line 2 of .* UTF-8.* --encoding latin-1"):
        read_file(path)
    assert read_file(path, encoding="latin-1").column("name").to_pylist() == ["München", "Köln"]
    path = write(tmp_path / "a.csv", "name,x\n5€,1\n", "cp1252")
    with pytest.raises(ReadingError, match=r"--encoding cp1252"):
        read_file(path)
    path = write(tmp_path / "a.csv", text, "utf-16")
    with pytest.raises(ReadingError, match=r"--encoding utf-16"):
        read_file(path)
    assert read_file(path, encoding="utf-16").column("name").to_pylist() == ["München", "Köln"]
    assert read_file(write(path, text, "utf-8-sig")).names == ("name", "x")
    with pytest.raises(ReadingError, match=r"--encoding klingon is not an encoding"):
        read_file(path, encoding="klingon")


def test_nul_in_a_text_file_is_refused_by_row(tmp_path):
    with pytest.raises(ReadingError, match=r"^Row 2 of .* NUL"):
        read_file(write(tmp_path / "a.csv", "a,b\n1,2\n1\0,2\n"))


def test_repeated_names_are_refused_when_asked_for(tmp_path):
    table = read_file(write(tmp_path / "a.csv", "a,b,a\n1,2,3\n"))
    assert table.column("b").to_pylist() == ["2"]
    with pytest.raises(ReadingError, match=r"2 columns named 'a' \(columns 1 and 3\).*--exclude a"):
        table.column("a")


def test_packed_files_and_separators(tmp_path):
    path = tmp_path / "a.tsv.gz"
    path.write_bytes(gzip.compress(b"a\tb\n1\t2\n"))
    assert read_file(path).column("b").to_pylist() == ["2"]
    path.write_bytes(gzip.compress(b"a\tb\n1\t2\n")[:-9])
    with pytest.raises(ReadingError, match=r"cannot be read as CSV"):
        read_file(path)
    path = write(tmp_path / "a.csv", "a;b\n1;2\n")
    assert read_file(path, ";").names == ("a", "b")
    with pytest.raises(ReadingError, match=r"add --separator ';'"):
        read_file(path)


def test_parquet_keeps_the_names_of_rows(tmp_path):
    pd.DataFrame({"x": [1.0, 2.0]}, index=["u", "v"]).to_parquet(tmp_path / "a.parquet")
    table = read_file(tmp_path / "a.parquet")
    assert table.first_is_nameless
    assert table.columns[0].to_pylist() == ["u", "v"]
    assert table.names[1:] == ("x",)


@pytest.mark.parametrize(
    ("column", "names"),
    [
        (pa.array([1, None, 2**63 - 1]), ["1", "", str(2**63 - 1)]),
        (pa.array(["007", None, "NaN"]).dictionary_encode(), ["007", "", "NaN"]),
        (pa.array([1.5, 2.0]), ["1.5", "2.0"]),
        (pa.array([True, False]), ["True", "False"]),
        (pa.array([0], pa.timestamp("s")), ["1970-01-01 00:00:00"]),
    ],
)
def test_names_of_any_type(column, names):
    assert column_names(column, "id", "a.parquet") == names


def test_names_that_cannot_be_kept():
    with pytest.raises(ReadingError, match=r"Row 2, column 'id' of a.parquet holds a NUL"):
        column_names(pa.array(["a", "b\0"]), "id", "a.parquet")
    with pytest.raises(ReadingError, match=r"which name nothing"):
        column_names(pa.array([[1]]), "id", "a.parquet")


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("a,b", "has a header but no rows"),
        ("\na,b", "has a header but no rows"),
        ("\n\n", "is empty: it has neither"),
    ],
)
def test_files_without_rows_get_the_right_reason(tmp_path, text, sentence):
    with pytest.raises(ReadingError, match=sentence):
        read_file(write(tmp_path / "a.csv", text))


def test_blank_lines_before_the_header_are_skipped(tmp_path):
    assert read_file(write(tmp_path / "a.csv", " \n\na,b\n1,2\n")).names == ("a", "b")


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs pipes with names")
def test_pipes_are_refused_without_opening_them(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(ReadingError, match="is a pipe or a device"):
        read_file(tmp_path / "pipe")
