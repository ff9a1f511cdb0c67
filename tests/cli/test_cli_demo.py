"""The demonstrations: offline, repeatable, and judged against the truth that they keep aside."""

import json
import shutil

import pandas as pd
import pytest
from picture_files import shape_of, share_of_hue

from cavity.cli import runs
from cavity.cli.folder import save_picture
from cavity.plotting.style import cluster_colour


@pytest.fixture
def quick(monkeypatch):
    """The demonstrations with few sweeps."""
    plain = runs.fit

    def shorter(data, out, model, choice, settings, **options):
        few = {**settings, "n_chains": 2, "n_warmup": 5, "n_draws": 8}
        if model != "series":
            few["noise"] = False  # which has kernels of its own for rounded values
        return plain(data, out, model, choice, few, **options)

    monkeypatch.setattr(runs, "fit", shorter)


def test_wine(cavity, quick, tmp_path):
    ran = cavity("demo", "--out", "demo")
    assert ran.code == 0, ran.err
    assert "178 wines of three cultivars" in ran.out
    assert "Was it right?" in ran.out
    assert "allow more" not in ran.out + ran.err
    assert "Of the 12 rows with errors" in " ".join(ran.out.split())
    labels = pd.read_csv(tmp_path / "demo" / "labels.csv")
    assert labels["sample"].iloc[0] == "wine 1"
    assert json.loads((tmp_path / "demo" / "run.json").read_text())["demo"]
    # A second time in the same folder replaces the first.
    assert cavity("demo", "--out", "demo").code == 0
    # The folder moves with its data.
    (tmp_path / "demo").rename(tmp_path / "moved")
    ran = cavity("report", "moved")
    assert ran.code == 0
    assert ran.err == ""


@pytest.mark.slow
def test_series(cavity, quick, tmp_path, monkeypatch):
    monkeypatch.setattr("cavity.cli.folder.save_picture", save_picture)
    ran = cavity("demo", "series", "--out", "demo")
    assert ran.code == 0, ran.err
    assert "60 simulated series over 72 months" in ran.out
    assert "Adjusted Rand index with the truth" in ran.out
    folder = tmp_path / "demo"
    trends = pd.read_csv(folder / "trends.csv")
    assert trends.columns.tolist() == ["shop", "month", "mean", "lower", "upper"]
    assert len(trends) == 60 * 72
    assert len(pd.read_csv(folder / "forecast.csv")) == 60 * 12
    assert (trends["lower"] <= trends["upper"]).all()
    # A panel for each cluster, its series in the cluster's colour: wider than high, not blank.
    height, width = shape_of(folder / "clusters.png")
    assert 300 < height < width
    n_clusters = pd.read_csv(folder / "labels.csv")["cluster"].nunique()
    assert n_clusters > 1
    for k in range(n_clusters):
        assert share_of_hue(folder / "clusters.png", cluster_colour(k)) > 1e-3, k
    ran = cavity("report", "demo")
    assert ran.code == 0, ran.err
    assert "cluster by cluster" in (folder / "report.html").read_text()
    ran = cavity("predict", "demo", "demo/series.csv")
    assert ran.code == 0, ran.err
    assert ran.out.startswith("shop,month,cluster,mean,lower,upper,sd,sales,tail_probability\n")


def test_times_that_are_no_times(cavity, tmp_path):
    table = pd.DataFrame({"s": ["a", "b"], "t": ["2020-01", "some day"], "v": [1.0, 2.0]})
    table.to_csv(tmp_path / "bad.csv", index=False)
    command = ["fit", "bad.csv", "--model", "series", "--series", "s", "--value", "v"]
    assert "--time is missing" in cavity(*command).sentence
    assert cavity(*command, "--time", "t").sentence == (
        "Column 't' of bad.csv is 'some day' in row 2: text that is not a date. Write dates as "
        "2024-01-31 or 2024-01, or say how they are written with --date-format %d/%m/%Y."
    )
    assert "must name different columns" in cavity(*command, "--time", "s").sentence
    table.assign(t=[1, 2]).to_csv(tmp_path / "bad.csv", index=False)
    sentence = cavity(*command, "--time", "t", "--clusters", 5).sentence
    assert sentence.startswith("There are 2 series, fewer than --clusters 5")


def test_a_demo_leaves_runs_of_others_alone(cavity, finished, tmp_path):
    shutil.copytree(finished[0] / "run", tmp_path / "mine")
    before = sorted((p.name, p.read_bytes()) for p in (tmp_path / "mine").iterdir())
    assert "holds a run of your own" in cavity("demo", "--out", "mine").sentence
    assert sorted((p.name, p.read_bytes()) for p in (tmp_path / "mine").iterdir()) == before


@pytest.mark.slow
def test_table(cavity, quick, tmp_path):
    ran = cavity("demo", "table", "--out", "demo")
    assert ran.code == 0, ran.err
    text = " ".join(ran.out.split())
    assert "150 iris flowers, four measurements and the species of each." in text
    assert "categorical: species" in text
    assert "Of 75 removed species names" in text
    assert (tmp_path / "demo" / "imputed.csv").exists()
