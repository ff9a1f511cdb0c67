"""A folder of Parquet files from the command line."""

from __future__ import annotations

import sys

import numpy as np
import pandas as pd
import pytest
from cli_runs import QUICK, make_table


@pytest.fixture
def rows(tmp_path):
    folder = tmp_path / "rows"
    folder.mkdir()
    table = make_table()
    for i in range(2):
        table.iloc[20 * i : 20 * i + 20].to_parquet(folder / f"part-{i}.parquet")
    return folder


def test_a_folder_is_fitted_reported_and_placed(cavity, rows, tmp_path):
    fit = ("fit", rows, "--clusters", 2, "--exclude", "name", "--out", "run")
    ran = cavity(*fit, "--quiet", *QUICK)
    assert ran.code == 0, ran.err
    placed = [pd.read_parquet(tmp_path / "run" / "rows" / f"part-{i}.parquet") for i in range(2)]
    assert [len(part) for part in placed] == [20, 20]
    assert placed[0]["cluster"].nunique() == placed[1]["cluster"].nunique() == 1
    assert placed[0]["cluster"][0] != placed[1]["cluster"][0]
    labels = pd.read_csv(tmp_path / "run" / "labels.csv")
    assert labels["row"].tolist() == list(range(40))
    assert cavity("report", "run").code == 0
    again = cavity(*fit, *QUICK)
    assert "already holds a finished run" in again.sentence
    new = cavity("predict", "run", rows, "--out", "placed")
    assert "Wrote the clusters of 2 files" in new.out
    assert (tmp_path / "placed" / "part-1.parquet").exists()
    assert "give --out, a folder" in cavity("predict", "run", rows).sentence


def test_what_is_refused(cavity, rows, monkeypatch):
    fit = ("fit", rows, "--clusters", 3, *QUICK)
    assert "Column 'name'" in cavity(*fit, "--model", "student-t").sentence
    fit = (*fit, "--exclude", "name")
    assert "does not go with Parquet files in shards" in cavity(*fit, "--decimal", ",").sentence
    assert "not supported for sharded data" in cavity(*fit, "--collapse", "naive").sentence
    assert "has no column 'size'" in cavity(*fit, "--columns", "size").sentence
    assert "give one" in cavity(*fit, "--workers", 2, "--scheduler", "tcp://a:1").sentence
    gone = cavity(*fit, "--scheduler", "nonsense://nowhere")
    assert "No Dask scheduler answers at nonsense://nowhere" in gone.sentence
    series = ("--model", "series", "--series", "name", "--time", "b", "--value", "c")
    said = "--time does not go with Parquet files in shards"
    assert said in cavity("fit", rows, *series, *QUICK).sentence
    monkeypatch.setitem(sys.modules, "distributed", None)
    assert "needs Dask: pip install 'cavity[dask]'" in cavity(*fit, "--workers", 2).sentence


@pytest.mark.slow
def test_a_folder_with_text(cavity, tmp_path):
    """Categories and counts in files, some of them missing."""
    folder = tmp_path / "rows"
    folder.mkdir()
    for i in range(2):
        table = make_table().iloc[20 * i : 20 * i + 20].drop(columns="name")
        table["colour"] = ["red", None] * 10 if i else ["green", "blue"] * 10
        table["visits"] = [3.0 * i] * 19 + [None]
        table.to_parquet(folder / f"part-{i}.parquet")
    fit = ("fit", folder, "--clusters", 2, "--types", "visits=count", "--out", "run", *QUICK)
    ran = cavity(*fit)
    assert ran.code == 0, ran.err
    assert "categorical: colour; count: visits" in " ".join(ran.out.split())
    placed = [pd.read_parquet(tmp_path / "run" / "rows" / f"part-{i}.parquet") for i in range(2)]
    assert placed[0]["cluster"].nunique() == placed[1]["cluster"].nunique() == 1
    assert placed[0]["cluster"][0] != placed[1]["cluster"][0]
    assert cavity("report", "run").code == 0
    assert "Wrote the clusters of 2 files" in cavity("predict", "run", folder, "--out", "to").out


@pytest.mark.slow
def test_series_in_shards(cavity, tmp_path):
    """A row per series: fitted, reported, every series placed by its name."""
    from cavity.datasets import make_series

    Y, truth = make_series(60, 20, n_clusters=2, var_y=0.2, missing=0.1, random_state=0)
    folder = tmp_path / "series"
    folder.mkdir()
    for i in range(2):
        part = pd.DataFrame(Y[30 * i : 30 * i + 30], columns=[str(2000 + t) for t in range(20)])
        part.insert(0, "shop", [f"s{30 * i + j}" for j in range(30)])
        part.to_parquet(folder / f"part-{i}.parquet")
    fit = ("fit", folder, "--model", "series", "--series", "shop", "--clusters", 2, "--out", "run")
    ran = cavity(*fit, *QUICK)
    assert ran.code == 0, ran.err
    assert "60 series of 20 times in 2 files" in " ".join(ran.err.split() + ran.out.split())
    paths = [tmp_path / "run" / "rows" / f"part-{i}.parquet" for i in range(2)]
    placed = pd.concat([pd.read_parquet(path) for path in paths])
    assert list(placed["shop"]) == [f"s{i}" for i in range(60)]
    same = placed["cluster"].to_numpy() == truth.labels
    assert max(same.mean(), 1.0 - same.mean()) > 0.9
    assert list(pd.read_csv(tmp_path / "run" / "trends.csv").columns[:2]) == ["shop", "time"]
    assert cavity("report", "run").code == 0
    again = cavity("predict", "run", folder, "--out", "to")
    assert "Wrote the clusters of 2 files of series" in again.out


@pytest.mark.slow
def test_a_csv_in_blocks_shows_the_rows_that_are_followed(cavity, tmp_path):
    rng = np.random.default_rng(0)
    z = np.repeat([0, 1], 2520)
    table = pd.DataFrame(rng.standard_normal((z.size, 2)) + 8.0 * z[:, None], columns=["a", "b"])
    table.to_csv(tmp_path / "rows.csv", index=False)
    fit = ("fit", "rows.csv", "--clusters", 3, "--collapse", "parallel", "--out", "run")
    ran = cavity(*fit, "--quiet", *QUICK)
    assert ran.code == 0, ran.err
    labels = pd.read_csv(tmp_path / "run" / "labels.csv")
    assert (len(table), len(labels)) == (5040, 5000)
    assert labels["cluster"].nunique() == 2
    assert cavity("report", "run").code == 0


@pytest.mark.slow
def test_whole_chains_on_workers(cavity, tmp_path):
    """A file that is no Parquet has its chains on the workers, and the same labels as without."""
    make_table().to_csv(tmp_path / "rows.csv", index=False)
    fit = ("fit", "rows.csv", "--clusters", 2, "--exclude", "name", *QUICK)
    assert cavity(*fit, "--out", "here").code == 0
    assert cavity(*fit, "--out", "away", "--workers", 2).code == 0
    here, away = (pd.read_csv(tmp_path / name / "labels.csv") for name in ("here", "away"))
    pd.testing.assert_frame_equal(here, away)
