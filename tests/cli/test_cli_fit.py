"""`cavity fit`, `report` and `predict` on tables, and what they leave in the folder."""

import json
import shutil

import numpy as np
import pandas as pd
import pytest
from cli_runs import QUICK, make_table

from cavity.posterior import Posterior
from cavity.report.html import write_report

pytestmark = [pytest.mark.first(13), pytest.mark.usefixtures("without_page")]


@pytest.fixture
def run(finished, tmp_path):
    """A copy of the finished run."""
    shutil.copytree(finished[0] / "run", tmp_path / "run")
    return tmp_path / "run"


def test_a_run_leaves_its_files(finished):
    folder = finished[0] / "run"
    names = {path.name for path in folder.iterdir()}
    assert names == {"labels.csv", "posterior.nc", "clusters.png", "report.html", "run.json"}
    assert (folder / "clusters.png").read_bytes().startswith(b"\x89PNG")
    page = (folder / "report.html").read_text()
    assert page.lstrip().lower().startswith("<!doctype html>")
    assert "Clusters of data.csv" in page


def test_labels_are_those_of_the_posterior(finished):
    folder = finished[0] / "run"
    labels = pd.read_csv(folder / "labels.csv")
    posterior = Posterior.load(folder / "posterior.nc")
    assert labels["name"].tolist() == [f"item {i}" for i in range(40)]
    np.testing.assert_array_equal(labels["cluster"], posterior.partition().labels)
    assert labels["cluster"].nunique() == 2
    shares = labels[["p_0", "p_1"]]
    np.testing.assert_allclose(shares, posterior.allocation_probabilities(), atol=1e-5)
    own = shares.to_numpy()[np.arange(40), labels["cluster"]]
    np.testing.assert_allclose(own, labels["probability"], atol=1e-5)
    assert labels["certainty"].between(0, 1).all()
    assert labels["tail_probability"].between(0, 1).all()


def test_the_record_says_how_it_was_run(finished):
    record = json.loads((finished[0] / "run" / "run.json").read_text())
    assert record["format"] == "cavity run"
    assert record["model"] == "student-t"
    assert record["data"]["columns"] == ["height", "weight"]
    assert record["data"]["id_column"] == "name"
    assert record["data"]["digest"].startswith("sha256:")
    assert record["settings"]["n_clusters"] == 3
    assert record["settings"]["random_state"] == 0


def test_the_summary_tells_what_a_person_asks(finished):
    out = finished[1]
    assert "2 clusters (probability of " in out or "2 clusters (every draw has " in out
    assert "distinguishing features" in out
    assert "height" in out
    assert "The chains have not converged" in " ".join(out.split())  # sixty sweeps
    assert "\nConvergence\n" in out
    assert "open it in a browser" in out


def test_progress_is_plain_lines_away_from_a_terminal(finished):
    err = finished[2]
    assert "30 of 30 sweeps per chain (100%)" in err
    assert "\x1b" not in err
    assert "\r" not in err


def test_the_same_seed_gives_the_same_labels(cavity, table, finished, tmp_path):
    ran = cavity("fit", "data.csv", "--id-column", "name", "--clusters", 3, "--jobs", 1, *QUICK)
    assert ran.code == 0
    again = Posterior.load(tmp_path / "cavity-run" / "posterior.nc")
    first = Posterior.load(finished[0] / "run" / "posterior.nc")
    np.testing.assert_array_equal(again.labels, first.labels)


def test_gaussian_from_parquet_with_an_open_prior(cavity, tmp_path):
    make_table().set_index("name").to_parquet(tmp_path / "data.parquet")
    ran = cavity(
        "fit", "data.parquet", "--model", "gaussian", "--id-column", "name", "--prior", "dp",
        "--concentration", "learn", "--clusters", 2, "--out", "g", *QUICK,
    )  # fmt: skip
    assert ran.code == 0, ran.err
    labels = pd.read_csv(tmp_path / "g" / "labels.csv")
    assert labels["name"].iloc[3] == "item 3"
    assert Posterior.load(tmp_path / "g" / "posterior.nc").record.model == "GaussianMixture"


def test_df_is_passed_on(cavity, table, tmp_path):
    ran = cavity(
        "fit", "data.csv", "--columns", "height,weight", "--df", "learn", "--clusters", 2, *QUICK
    )
    assert ran.code == 0, ran.err
    record = json.loads((tmp_path / "cavity-run" / "run.json").read_text())
    assert record["settings"]["df"] == "learn"
    assert pd.read_csv(tmp_path / "cavity-run" / "labels.csv").columns[0] == "row"


def test_quiet_prints_nothing(cavity, table):
    ran = cavity("fit", "data.csv", "--id-column", "name", "--clusters", 2, "--quiet", *QUICK)
    assert (ran.code, ran.out, ran.err) == (0, "", "")


def test_rows_with_gaps_are_left_out_when_asked(cavity, table, tmp_path):
    table.loc[4, "weight"] = np.nan
    table.to_csv(tmp_path / "gaps.csv", index=False)
    ran = cavity(
        "fit", "gaps.csv", "--id-column", "name", "--drop-missing", "--clusters", 2, *QUICK
    )
    assert ran.code == 0, ran.err
    assert "Note: 1 of 40 rows have missing values and are left out." in ran.err
    labels = pd.read_csv(tmp_path / "cavity-run" / "labels.csv")
    assert len(labels) == 39
    assert "item 4" not in set(labels["name"])


def test_rows_with_gaps_are_clustered_by_what_is_there(cavity, table, tmp_path):
    table.loc[[4, 5], "weight"] = np.nan
    table.to_csv(tmp_path / "gaps.csv", index=False)
    ran = cavity("fit", "gaps.csv", "--id-column", "name", "--clusters", 2, *QUICK)
    assert ran.code == 0, ran.err
    assert (
        "Note: 2 values in 2 of 40 rows are missing; rows are clustered by the others. "
        "--drop-missing leaves such rows out." in ran.err
    )
    labels = pd.read_csv(tmp_path / "cavity-run" / "labels.csv")
    assert len(labels) == 40
    assert np.isfinite(labels["tail_probability"]).all()
    ran = cavity("predict", "cavity-run", "gaps.csv", "--out", "placed.csv")
    assert ran.code == 0, ran.err
    assert np.isfinite(pd.read_csv(tmp_path / "placed.csv")["log_density"]).all()


def test_a_first_column_without_name_names_the_rows(cavity, table, tmp_path):
    table.set_index("name").rename_axis(None).to_csv(tmp_path / "indexed.csv")
    ran = cavity("fit", "indexed.csv", "--clusters", 2, *QUICK)
    assert ran.code == 0, ran.err
    assert "it is taken as the names of the rows" in ran.err
    assert pd.read_csv(tmp_path / "cavity-run" / "labels.csv")["row"].iloc[0] == "item 0"
    ran = cavity("predict", "cavity-run", "indexed.csv")
    assert ran.out.splitlines()[1].startswith("item 0,")
    assert ran.out.startswith("row,cluster,")


def test_columns_of_row_numbers_are_pointed_out(cavity, table, tmp_path):
    table = table.drop(columns="name")
    table.insert(0, "id", range(40))
    table.to_csv(tmp_path / "numbered.csv", index=False)
    ran = cavity("fit", "numbered.csv", "--clusters", 2, *QUICK)
    assert ran.code == 0
    assert "Column 'id' looks like row numbers" in ran.err


# ------------------------------------------------------------------ report


def test_report_is_written_again(cavity, finished, run):
    (run / "report.html").unlink()
    (run / "clusters.png").unlink()
    ran = cavity("report", run)
    assert ran.code == 0, ran.err
    assert (run / "report.html").exists()
    assert (run / "clusters.png").exists()
    assert "2 clusters" in ran.out


def test_report_without_its_data_says_so(cavity, run):
    record = json.loads((run / "run.json").read_text())
    record["data"]["path"] = "/nowhere/data.csv"
    (run / "run.json").write_text(json.dumps(record))
    ran = cavity("report", run)
    assert ran.code == 0
    assert "is gone, so the report does not draw the rows; give --data" in ran.err
    make_table().to_csv(run.parent / "moved.csv", index=False)
    assert "does not draw" not in cavity("report", run, "--data", run.parent / "moved.csv").err
    make_table().iloc[1:].to_csv(run.parent / "other.csv", index=False)
    sentence = cavity("report", run, "--data", run.parent / "other.csv").sentence
    assert sentence.endswith("is not the file that this run was fitted to.")


def test_logarithms_are_taken_of_the_columns_named(cavity, table, tmp_path, monkeypatch):
    """In fit and predict alike; they are called what they are."""
    monkeypatch.setattr("cavity.report.html.write_report", write_report)
    table = table.assign(weight=np.exp(table["weight"] / 10))
    table.to_csv(tmp_path / "raw.csv", index=False)
    logs = table.assign(weight=np.log(table["weight"])).rename(columns={"weight": "log weight"})
    logs.to_csv(tmp_path / "logs.csv", index=False)
    given = ("--id-column", "name", "--clusters", 2, "--seed", 3, *QUICK)
    for name, more in (("raw", ("--log", "weight,weight")), ("logs", ())):
        ran = cavity("fit", f"{name}.csv", *given, *more, "--out", name)
        assert ran.code == 0, ran.err
        ran = cavity("predict", name, f"{name}.csv", "--out", f"{name}-placed.csv")
        assert ran.code == 0, ran.err
    placed = [pd.read_csv(tmp_path / f"{name}-placed.csv") for name in ("raw", "logs")]
    pd.testing.assert_frame_equal(*placed, rtol=1e-6)
    assert "log weight" in (tmp_path / "raw" / "report.html").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (("--log", "wight"), "--log names 'wight', which is not among the columns to cluster by"),
        (("--log", "height"), "Row item 3, column 'height' of data.csv is 0, which has no log"),
        (("--log", "kind"), "--log is for measurements, and 'kind' is text"),
        (("--log", "height", "--types", "height=count"), "'height' is text or of a kind that"),
    ],
)
def test_columns_without_a_logarithm_are_refused(cavity, table, tmp_path, given, words):
    table = table.assign(kind=np.where(table.index % 2, "a", "b"), height=table["height"].abs())
    table.loc[3, "height"] = 0.0
    table.to_csv(tmp_path / "data.csv", index=False)
    ran = cavity("fit", "data.csv", "--id-column", "name", "--clusters", 2, *given)
    assert words in ran.sentence


# ------------------------------------------------------------------ predict


def test_predict_from_the_folder_alone(cavity, finished, run, tmp_path):
    new = make_table().drop(columns="name").iloc[[0, 39], ::-1]
    new.to_csv(tmp_path / "new.csv", index=False)
    ran = cavity("predict", run, "new.csv", "--out", "predictions.csv")
    assert ran.code == 0, ran.err
    assert ran.out == "Wrote the clusters of 2 rows to predictions.csv.\n"
    made = pd.read_csv(tmp_path / "predictions.csv")
    labels = pd.read_csv(run / "labels.csv")["cluster"]
    assert made["row"].tolist() == [1, 2]
    assert made["cluster"].tolist() == labels.iloc[[0, 39]].tolist()
    np.testing.assert_allclose(made[["p_0", "p_1", "p_unmatched"]].sum(axis=1), 1.0, atol=1e-5)
    assert np.isfinite(made["log_density"]).all()


def test_predict_equals_the_fitted_estimator(cavity, finished, run, tmp_path):
    from cavity import StudentTMixture

    table = make_table().set_index("name")
    m = StudentTMixture(3, n_chains=2, n_warmup=10, n_draws=20, random_state=0).fit(table)
    make_table().to_csv(tmp_path / "new.csv", index=False)
    ran = cavity("predict", run, "new.csv")
    assert ran.code == 0
    from io import StringIO

    made = pd.read_csv(StringIO(ran.out))
    assert made["name"].tolist() == table.index.tolist()
    np.testing.assert_array_equal(made["cluster"], m.predict(table))
    np.testing.assert_allclose(made["log_density"], m.score_samples(table), rtol=1e-4)


def test_predict_without_labels_file_searches_again(cavity, run, tmp_path):
    (run / "labels.csv").unlink()
    make_table().to_csv(tmp_path / "new.csv", index=False)
    assert cavity("predict", run, "new.csv").code == 0


@pytest.mark.slow
def test_predict_to_a_reader_that_leaves(run, tmp_path):
    import subprocess
    import sys

    table = pd.concat([make_table()] * 200)
    table["name"] = [f"row {i}" for i in range(len(table))]
    table.to_csv(tmp_path / "new.csv", index=False)
    line = f"{sys.executable} -m cavity predict run new.csv | head -1; exit ${{PIPESTATUS[0]}}"
    ran = subprocess.run(["bash", "-c", line], cwd=tmp_path, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.startswith("name,cluster")
    assert ran.stderr == ""


NAMELESS = ",height,weight\n" + "".join(f"r{i},{i}.5,{i * i}.25\n" for i in range(12))


def test_notes_are_printed_once_and_not_at_all_when_quiet(cavity, tmp_path, capsys):
    from cavity.cli.app import _show_messages
    from cavity.cli.models import open_data
    from cavity.cli.options import Choice

    (tmp_path / "data.csv").write_text(NAMELESS.replace("3.5", ""))
    for quiet in (False, True):
        _show_messages(quiet)
        open_data(tmp_path / "data.csv", "auto", Choice(), False)
        said = capsys.readouterr().err
        assert said.count("The first column has no name") == (not quiet)
        assert said.count("values in") == (not quiet)
