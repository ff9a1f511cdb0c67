"""Data is never changed in silence: ids, dates, marks and types through the command line."""

import json
from decimal import Decimal

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet
import pytest
from cli_runs import QUICK, make_table

from cavity.posterior import Posterior

pytestmark = pytest.mark.usefixtures("without_page")
FIT = ["fit", "data.csv", "--clusters", 2, "--quiet", *QUICK]


def write(path, frame, **options):
    frame.to_csv(path, index=False, **options)


def series_rows(names, times):
    """Rows of noisy series, one per name and time."""
    rng = np.random.default_rng(0)
    return pd.DataFrame(
        [(name, time, round(float(rng.standard_normal()), 3)) for name in names for time in times],
        columns=["shop", "day", "sales"],
    )


SERIES = ["--model", "series", "--series", "shop", "--time", "day", "--value", "sales"]


def labels(tmp_path):
    return pd.read_csv(tmp_path / "cavity-run" / "labels.csv", dtype=str, keep_default_na=False)


def test_ids_are_text_exactly_as_written(cavity, tmp_path):
    table = make_table()
    table["name"] = [f"{i:05d}" for i in range(500, 540)]
    table.loc[[3, 4, 5, 6], "name"] = ["NA", "None", "1e3", "nan"]
    write(tmp_path / "data.csv", table)
    ran = cavity(*FIT, "--id-column", "name")
    assert ran.code == 0, ran.err
    assert labels(tmp_path)["name"].tolist() == table["name"].tolist()
    posterior = Posterior.load(tmp_path / "cavity-run" / "posterior.nc")
    assert posterior.names.tolist() == table["name"].tolist()


def test_series_names_are_text_exactly_as_written(cavity, tmp_path):
    names = ["01", "1", "001", "NA", "None", "00501"]
    write(tmp_path / "data.csv", series_rows(names, range(2001, 2013)))
    ran = cavity(*FIT, *SERIES)
    assert ran.code == 0, ran.err
    assert sorted(labels(tmp_path)["shop"]) == sorted(names)
    trends = pd.read_csv(tmp_path / "cavity-run" / "trends.csv", dtype=str, keep_default_na=False)
    assert trends["shop"].nunique() == 6
    # The report and predictions find them again from the folder alone.
    assert cavity("report", "cavity-run").code == 0
    new = pd.DataFrame({"shop": ["01", "001"], "day": [2013, 2002]})
    write(tmp_path / "new.csv", new)
    ran = cavity("predict", "cavity-run", "new.csv", "--out", "placed.csv")
    assert ran.code == 0, ran.err
    assert ran.out == "Wrote the predictions of 2 rows to placed.csv.\n"
    made = pd.read_csv(tmp_path / "placed.csv", dtype=str)
    assert made["shop"].tolist() == ["01", "001"]
    assert made["day"].tolist() == ["2013", "2002"]
    write(tmp_path / "new.csv", new.assign(shop=["1", "0001"]))
    assert "'0001' was not in the data" in cavity("predict", "cavity-run", "new.csv").sentence


def test_missing_names_and_times_are_refused_by_row(cavity, tmp_path):
    rows = series_rows(["a", "b", "c"], ["2024-01", "2024-02"])
    write(tmp_path / "data.csv", rows.assign(shop=["a", "a", None, "b", "c", "c"]))
    assert "Row 3, column 'shop' of data.csv is missing" in cavity(*FIT, *SERIES).sentence
    rows["day"] = pd.to_datetime(rows["day"])
    rows.loc[4, "day"] = pd.NaT
    rows.to_parquet(tmp_path / "data.parquet")
    command = [argument if argument != "data.csv" else "data.parquet" for argument in FIT]
    assert "Row 5, column 'day' of data.parquet is missing" in cavity(*command, *SERIES).sentence


def test_dates_that_can_be_read_in_two_ways(cavity, tmp_path):
    days = [f"{d:02d}/01/2024" for d in range(1, 11)]
    write(tmp_path / "data.csv", series_rows("abc", days))
    assert cavity(*FIT, *SERIES).sentence == (
        "Column 'day' of data.csv holds dates such as '02/01/2024', which may be day or month "
        "first; say how they are written with --date-format %d/%m/%Y, or '%m/%d/%Y' if the month "
        "comes first."
    )
    assert not (tmp_path / "cavity-run").exists()
    assert cavity(*FIT, *SERIES, "--date-format", "%d/%m/%Y").code == 0
    trends = pd.read_csv(tmp_path / "cavity-run" / "trends.csv")
    assert sorted(trends["day"].unique())[:2] == ["2024-01-01", "2024-01-02"]
    # The format is the run's: predictions need not repeat it.
    write(tmp_path / "new.csv", series_rows("a", ["03/01/2024"]).drop(columns="sales"))
    assert cavity("predict", "cavity-run", "new.csv").code == 0


def test_one_late_day_settles_the_whole_column(cavity, tmp_path):
    days = [f"{d:02d}/12/2024" for d in range(5, 15)]
    write(tmp_path / "data.csv", series_rows("abc", days))
    assert cavity(*FIT, *SERIES).code == 0
    trends = pd.read_csv(tmp_path / "cavity-run" / "trends.csv")
    assert trends["day"].min() == "2024-12-05"
    assert trends["day"].max() == "2024-12-14"


def test_dates_that_look_like_numbers_are_pointed_out(cavity, tmp_path):
    months = [202011, 202012, 202101, 202102]
    write(tmp_path / "data.csv", series_rows("abc", months))
    aloud = [argument for argument in FIT if argument != "--quiet"]
    assert "add --date-format %Y%m if it holds dates" in cavity(*aloud, *SERIES).err
    ran = cavity(*FIT, *SERIES, "--date-format", "%Y%m", "--overwrite")
    assert ran.code == 0
    assert "--date-format" not in ran.err
    assert len(pd.read_csv(tmp_path / "cavity-run" / "trends.csv")) == 12


def test_large_whole_times_stay_apart(cavity, tmp_path):
    base = 2**60
    write(tmp_path / "data.csv", series_rows("abc", [base + i for i in range(8)]))
    ran = cavity(*FIT, *SERIES)
    assert ran.code == 0, ran.err
    trends = pd.read_csv(tmp_path / "cavity-run" / "trends.csv")
    assert trends["day"].tolist()[:8] == [base + i for i in range(8)]


def test_a_vast_grid_is_refused(cavity, tmp_path):
    write(tmp_path / "data.csv", series_rows("abc", ["2000-01-01", "2020-01-01"]))
    sentence = cavity(*FIT, *SERIES, "--freq", "s").sentence
    assert sentence.endswith("for instance with --freq D, --freq W or --freq M.")


def test_marks_and_encodings(cavity, tmp_path):
    table = make_table()
    table["name"] = [f"Köln {i}" for i in range(40)]
    table["height"] += 1234.0
    text = table.to_csv(index=False, sep=";", decimal=",")
    text = text.replace("123", "1.23").replace("124", "1.24")
    (tmp_path / "data.csv").write_bytes(text.encode("latin-1"))
    command = [*FIT, "--id-column", "name", "--separator", ";"]
    assert "add --encoding latin-1" in cavity(*command).sentence
    command += ["--encoding", "latin-1"]
    assert "add --decimal ',' --thousands '.'" in cavity(*command).sentence
    ran = cavity(*command, "--decimal", ",", "--thousands", ".")
    assert ran.code == 0, ran.err
    posterior = Posterior.load(tmp_path / "cavity-run" / "posterior.nc")
    assert posterior.names[3] == "Köln 3"
    settings = json.loads((tmp_path / "cavity-run" / "run.json").read_text())["data"]
    assert (settings["decimal"], settings["thousands"]) == (",", ".")
    # New rows are read like the run's own, unless told otherwise.
    assert cavity("predict", "cavity-run", "data.csv").code == 0
    plain = make_table()
    plain["height"] += 1234.0
    write(tmp_path / "plain.csv", plain)
    ran = cavity(
        "predict", "cavity-run", "plain.csv", "--separator", ",", "--encoding", "utf-8",
        "--decimal", ".", "--thousands", ",",
    )  # fmt: skip
    assert ran.code == 0, ran.err


def test_columns_are_left_out(cavity, tmp_path):
    table = make_table().assign(town="x")
    table.insert(2, "height", table["height"], allow_duplicates=True)
    write(tmp_path / "data.csv", table)
    assert "2 columns named 'height'" in cavity(*FIT, "--id-column", "name").sentence
    assert cavity(*FIT, "--exclude", "height, town", "--id-column", "name").code == 0
    record = json.loads((tmp_path / "cavity-run" / "run.json").read_text())
    assert record["data"]["columns"] == ["weight"]


def parquet_columns(n):
    rng = np.random.default_rng(0)
    values = rng.standard_normal(n) + 9.0 * (np.arange(n) % 2)
    return {
        "decimal": pa.array([Decimal(f"{v:.3f}") for v in values]),
        "nullable int": pa.array((values * 100).astype(int)),
        "flag": pa.array(values > 4),
        "wide": pa.array([2**64 - 1 - int(abs(v) * 1e17) for v in values], pa.uint64()),
        "texts": pa.array([f"{v:.3f}" for v in values]).dictionary_encode(),
    }


def test_parquet_numbers_of_any_type(cavity, tmp_path):
    pa.parquet.write_table(pa.table(parquet_columns(40)), tmp_path / "data.parquet")
    given = ("--model", "student-t", "--clusters", 2, "--quiet")
    ran = cavity("fit", "data.parquet", *given, *QUICK)
    assert ran.code == 0, ran.err
    record = json.loads((tmp_path / "cavity-run" / "run.json").read_text())
    assert record["data"]["columns"] == list(parquet_columns(2))


@pytest.mark.parametrize(
    ("column", "words"),
    [
        (pa.array([0] * 4, pa.timestamp("us")), "holds dates, not numbers"),
        (pa.array([0] * 4, pa.duration("ns")), "holds durations, not numbers"),
        (pa.array(pd.period_range("2020", periods=4, freq="Y")), "holds periods, not numbers"),
        (pa.array(["x"] * 4).dictionary_encode(), "holds text, not numbers (row 1 is 'x')"),
    ],
)
def test_parquet_columns_that_are_no_numbers(cavity, tmp_path, column, words):
    table = pa.table({"a": [1.0, 2.0, 3.0, 4.0], "b": column})
    pa.parquet.write_table(table, tmp_path / "data.parquet")
    given = ("fit", "data.parquet", "--model", "student-t", "--clusters", 2)
    sentence = cavity(*given, *QUICK).sentence
    assert sentence.startswith(f"Column 'b' of data.parquet {words}")
    assert "leave it out with --exclude b" in sentence


def test_names_cannot_steer_terminals_or_spreadsheets(cavity, tmp_path):
    table = make_table()
    table["name"] = [f"item {i}" for i in range(40)]
    table.loc[0, "name"] = "=HYPERLINK(1)"
    table.loc[1, "name"] = "\x1b[2Jgone"
    table.loc[[2, 3], "name"] = ["-5", "@here"]
    # All four are named in the summary.
    table.loc[[0, 1, 2, 3], "weight"] = [400.0, -900.0, 2500.0, -7000.0]
    write(tmp_path / "data.csv", table.rename(columns={"name": "=id"}))
    ran = cavity("fit", "data.csv", "--id-column", "=id", "--clusters", 2, *QUICK)
    assert ran.code == 0, ran.err
    assert "\x1b" not in ran.out + ran.err
    assert "\\x1b[2Jgone" in ran.out
    made = labels(tmp_path)
    assert made.columns[0] == "'=id"
    assert made["'=id"].tolist()[:4] == ["'=HYPERLINK(1)", "\x1b[2Jgone", "-5", "'@here"]
    write(tmp_path / "data.csv", table.rename(columns={"weight": "\x1b[31mw"}))
    ran = cavity("predict", "cavity-run", "data.csv")
    assert "\x1b" not in ran.err
    assert ran.code == 2


def test_a_nul_in_a_name_is_refused_before_the_fit(cavity, tmp_path):
    table = make_table()
    table.loc[7, "name"] = "a\0b"
    table.to_parquet(tmp_path / "data.parquet", index=False)
    command = ["fit", "data.parquet", "--id-column", "name", "--clusters", 2, *QUICK]
    assert "Row 8, column 'name' of data.parquet holds a NUL" in cavity(*command).sentence
    assert not (tmp_path / "cavity-run").exists()
