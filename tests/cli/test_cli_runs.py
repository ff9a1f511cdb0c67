"""The life of a run: begun, stopped, gone on with, finished, replaced."""

import json
import os
import re
import shutil
import signal
import time
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from cli_runs import QUICK, make_table, start

from cavity.cli import folder as files
from cavity.cli import models, options, runs
from cavity.cli.errors import UserError
from cavity.cli.regress import regress
from cavity.posterior import Posterior
from cavity.report.html import write_report

pytestmark = pytest.mark.usefixtures("without_page")
FIT = ["fit", "data.csv", "--id-column", "name", "--clusters", 3, "--out", "run"]
SERIES = [
    "fit", "series.csv", "--model", "series", "--series", "shop", "--time", "month",
    "--value", "sales", "--clusters", 2, "--out", "run", *QUICK,
]  # fmt: skip


@pytest.fixture
def run(finished, tmp_path):
    """A copy of the finished run, with its data where they were."""
    shutil.copytree(finished[0] / "run", tmp_path / "run")
    make_table().to_csv(tmp_path / "data.csv", index=False)
    return tmp_path / "run"


def test_regress_matches_rows_and_adds_to_the_report(
    run, tmp_path, monkeypatch, capsys, caplog, without_pictures
):
    monkeypatch.setattr("cavity.report.html.write_report", write_report)
    caplog.set_level("INFO", "cavity")
    monkeypatch.chdir(tmp_path)
    table = make_table()
    rng = np.random.default_rng(0)
    covariates = pd.DataFrame(
        {"name": table["name"], "age": rng.normal(40, 9, 40).round(1), "grade": ["a", "b"] * 20}
    )
    covariates["gain"] = np.where(table["height"] > 6, 3.0, 1.0) + rng.normal(0, 0.2, 40).round(2)
    covariates.sample(frac=1.0, random_state=1).iloc[1:].to_csv("c.csv", index=False)
    choice = {"exclude": ("gain",), "id_column": None}
    assert regress(run, Path("c.csv"), choice, None, 0, 0.9) == 0
    printed = capsys.readouterr()
    assert "39 rows (1 left out: a value is missing)" in printed.out
    assert "lacks 1 row of the run" in caplog.text
    terms = pd.read_csv(run / "regression.csv")["term"].tolist()
    assert terms == ["intercept", "age", "grade=b"]
    assert (run / "regression.png").stat().st_size > 1000
    assert regress(run, Path("c.csv"), {}, "gain", 0, 0.9) == 0
    means = pd.read_csv(run / "outcomes.csv", index_col="outcome")["mean"]
    np.testing.assert_allclose(sorted(means.loc["gain"]), [1.0, 3.0], atol=0.2)
    (run / "report.html").unlink()
    assert runs.report(run, None) == 0
    page = (run / "report.html").read_text(encoding="utf-8")
    assert "Outcome: gain</h2>" in page
    assert "39 rows (1 left out: a value is missing)" in page
    # Without the rows the page would lose their pictures.
    (run / "report.html").write_text("page")
    monkeypatch.setattr(runs, "_where", lambda out, run: None)
    assert regress(run, Path("c.csv"), {}, "grade", 0, 0.9) == 0
    assert "the report stays as it is" in caplog.text
    assert (run / "report.html").read_text() == "page"
    outcomes = [found.outcome for found in files.read_regressions(run)]
    assert outcomes == [None, "gain", "grade"]
    (run / "regressions.json").write_text('[{"draws": [1.0]}]')
    with pytest.raises(UserError, match="is damaged"):
        files.read_regressions(run)
    with pytest.raises(UserError, match="has no column 'weight'"):
        regress(run, Path("c.csv"), {}, "weight", 0, 0.9)
    covariates.assign(name="none").to_csv("c.csv", index=False)
    with pytest.raises(UserError, match=r"has 'none' twice"):
        regress(run, Path("c.csv"), {"exclude": ("gain",)}, None, 0, 0.9)


@pytest.fixture
def series_table(tmp_path):
    rng = np.random.default_rng(0)
    months = [f"2020-{m:02d}" for m in range(1, 13)]
    level = {"a": 0.0, "b": 1.0, "c": 40.0, "d": 41.0}
    rows = [(s, m, level[s] + rng.standard_normal()) for s in level for m in months]
    table = pd.DataFrame(rows, columns=["shop", "month", "sales"])
    table.to_csv(tmp_path / "series.csv", index=False)
    return table


def status(folder):
    return json.loads((folder / "run.json").read_text())["status"]


def edit(folder, **changes):
    record = json.loads((folder / "run.json").read_text())
    (folder / "run.json").write_text(json.dumps({**record, **changes}))


def names(folder):
    return {path.name for path in folder.iterdir()}


def same_draws(one, other):
    one, other = (Posterior.load(folder / "posterior.nc") for folder in (one, other))
    np.testing.assert_array_equal(one.labels, other.labels)
    np.testing.assert_array_equal(one.log_joint, other.log_joint)


WHOLE = {"labels.csv", "posterior.nc", "clusters.png", "report.html", "run.json"}


# ------------------------------------------------------------------ going on


def sweeps_were_saved(folder):
    """Whether the checkpoint is past its first, empty, writing."""
    path = folder / "checkpoint.cavity"
    return path.exists() and path.stat().st_size > 5000


@pytest.mark.parametrize(
    "length",
    [
        pytest.param("--warmup 10 --draws 50 --thin 150", marks=pytest.mark.slow),
        "--warmup 20 --thin 25",
    ],
)
@pytest.mark.parametrize(
    "again", [pytest.param("the same command", marks=pytest.mark.slow), "--resume alone"]
)
@pytest.mark.slow
def test_a_killed_run_goes_on(cavity, table, tmp_path, again, length):
    options = ["--chains", 2, *length.split(), "--seed", 4]
    environment = {**os.environ, "CAVITY_CHECKPOINT_EVERY": "0.2"}
    process = start(*FIT, *options, cwd=tmp_path, env=environment)
    folder = tmp_path / "run"
    for _ in range(2000):
        if sweeps_were_saved(folder):
            break
        assert process.poll() is None, process.communicate()
        time.sleep(0.05)
    process.kill()
    process.communicate()
    assert status(folder) == "running"
    assert "cavity fit --out run --resume" in cavity("report", "run").sentence
    (folder / ".labels.csv.999999999-0.part").write_text("of a killed process")
    command = (
        [*FIT, *options] if again == "the same command" else ["fit", "--out", "run", "--resume"]
    )
    ran = cavity(*command)
    assert ran.code == 0, ran.err
    assert "Going on with the run in run, which was not finished." in ran.out
    assert names(folder) == WHOLE
    assert status(folder) == "finished"
    straight = cavity("fit", *FIT[1:-1], "straight", *options, "--quiet")
    assert straight.code == 0, straight.err
    same_draws(folder, tmp_path / "straight")


@pytest.mark.slow
def test_a_draft_goes_on_to_a_report(cavity, table, tmp_path):
    options = ["--model", "gaussian", "--chains", 2, "--warmup", 40, "--seed", 0]
    ran = cavity(*FIT, *options, "--precision", "draft")
    assert ran.code == 0, ran.err
    assert "Draft: the chains agree roughly" in ran.out
    assert "'cavity fit --out run --resume --precision report' continues" in ran.out
    folder = tmp_path / "run"
    assert status(folder) == "limited"
    (folder / "regressions.json").write_text("of other draws")
    ran = cavity("fit", "--out", "run", "--resume", "--precision", "report")
    assert ran.code == 0, ran.err
    assert "Converged: the chains agree" in ran.out
    assert status(folder) == "finished"
    assert names(folder) == WHOLE


@pytest.mark.slow
def test_a_run_that_came_to_its_limit_can_go_on(cavity, table, tmp_path):
    options = ["--chains", 2, "--warmup", 20, "--seed", 4]
    ran = cavity(*FIT, *options, "--max-sweeps", 40)
    assert ran.code == 0, ran.err
    told = " ".join(ran.out.split())
    assert "Continue the run: --max-sweeps 400 may be enough." in told
    assert "'cavity fit --out run --resume' with a larger --max-sweeps" in ran.out
    folder = tmp_path / "run"
    assert status(folder) == "limited"
    assert names(folder) == WHOLE | {"checkpoint.cavity"}
    sentence = cavity(*FIT, *options, "--max-sweeps", 40).sentence
    assert "already holds a finished run; give another --out, add --resume to go on" in sentence
    assert cavity("predict", "run", "data.csv").code == 0
    ran = cavity("fit", "--out", "run", "--resume", "--max-sweeps", 9000)
    assert ran.code == 0, ran.err
    assert "Converged" in ran.out
    assert status(folder) == "finished"
    assert names(folder) == WHOLE
    assert cavity("fit", *FIT[1:-1], "straight", *options, "--quiet").code == 0
    same_draws(folder, tmp_path / "straight")


@pytest.mark.slow
def test_an_interrupt_leaves_a_whole_run(cavity, table, tmp_path):
    options = ["--chains", 2, "--warmup", 10, "--draws", 1000, "--thin", 400, "--seed", 0]
    process = start(*FIT, *options, cwd=tmp_path)
    for line in process.stderr:
        if "of 400,010 sweeps" in line:
            break
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=300)
    assert process.returncode == 130, err
    assert "Note: Stopped early" in err
    assert "Traceback" not in err
    assert "The run was stopped early. Repeat the command, or say" in out
    folder = tmp_path / "run"
    assert status(folder) == "interrupted"
    assert names(folder) == WHOLE | {"checkpoint.cavity"}
    posterior = Posterior.load(folder / "posterior.nc")
    assert 0 < posterior.n_draws < 1000
    assert posterior.record.interrupted
    # What there is can be read and used.
    assert cavity("predict", "run", "data.csv").code == 0
    assert status(folder) == "interrupted"


def test_an_interrupt_before_the_first_draw_says_how_to_go_on(cavity, table, tmp_path, monkeypatch):
    def stopped(*arguments, **options):
        raise KeyboardInterrupt("stopped after 3 sweeps, before any chain had a draw to give.")

    with monkeypatch.context() as patch:
        patch.setattr("cavity.estimators.fitting.run_chains", stopped)
        ran = cavity(*FIT, *QUICK)
    assert ran.code == 130
    assert ran.err == (
        "cavity: stopped after 3 sweeps, before any chain had a draw to give. Repeat the command, "
        "or say 'cavity fit --out run --resume', to go on.\n"
    )
    assert status(tmp_path / "run") == "interrupted"
    assert "is not finished. Repeat the command" in cavity("predict", "run", "data.csv").sentence
    assert cavity("fit", "--out", tmp_path / "run", "--resume").code == 0


def test_other_requests_do_not_go_on(cavity, table, tmp_path, monkeypatch):
    def stopped(*arguments, **options):
        raise KeyboardInterrupt

    monkeypatch.setattr("cavity.estimators.fitting.run_chains", stopped)
    assert cavity(*FIT, *QUICK).code == 130
    before = (tmp_path / "run" / "run.json").read_bytes()

    def refused(*extra):
        return cavity(*FIT, *QUICK, *extra).sentence

    assert "differs from this one in --clusters;" in refused("--clusters", 4)
    assert "differs from this one in --seed;" in refused("--seed", 1)
    assert "differs from this one in the columns" in refused("--columns", "height")
    assert "differs from this one in --model" in refused("--model", "gaussian")
    make_table().iloc[1:].to_csv(tmp_path / "data.csv", index=False)
    assert "differs from this one in the data;" in refused()
    assert (
        "has changed since the run in run began"
        in cavity("fit", "--out", "run", "--resume").sentence
    )
    (tmp_path / "data.csv").unlink()
    assert (
        "is gone; repeat the 'cavity fit' command"
        in cavity("fit", "--out", "run", "--resume").sentence
    )
    assert (tmp_path / "run" / "run.json").read_bytes() == before


def test_resume_needs_something_to_resume(cavity, run):
    assert (
        "is finished; there is nothing to resume"
        in cavity("fit", "--out", "run", "--resume").sentence
    )
    assert "There is no folder none" in cavity("fit", "--out", "none", "--resume").sentence
    assert cavity("fit", "--out", "run", "--resume", "--draws", 9).sentence == (
        "--resume takes all settings from the run in run; leave out --draws."
    )


def test_one_folder_has_one_writer(cavity, table, tmp_path):
    from cavity.cli import folder

    (tmp_path / "run").mkdir()
    with folder.locked(tmp_path / "run"):
        assert "Another 'cavity fit' is writing to run" in cavity(*FIT, *QUICK).sentence
    assert cavity(*FIT, *QUICK, "--quiet").code == 0


# ------------------------------------------------------------------ seeds


@pytest.mark.slow
def test_a_drawn_seed_repeats_the_run(cavity, table, tmp_path):
    options = ["--chains", 2, "--warmup", 5, "--draws", 8, "--quiet"]
    assert cavity(*FIT, *options).code == 0
    seed = json.loads((tmp_path / "run" / "run.json").read_text())["settings"]["random_state"]
    assert cavity(*FIT[:-1], "again", *options, "--seed", seed).code == 0
    same_draws(tmp_path / "run", tmp_path / "again")
    assert cavity(*FIT[:-1], "third", *options).code == 0
    third = json.loads((tmp_path / "third" / "run.json").read_text())["settings"]["random_state"]
    assert third != seed  # alike by chance once in 2**32


# ------------------------------------------------------------------ draws first


@pytest.mark.variants("slow", "error1")
@pytest.mark.parametrize("error", [KeyboardInterrupt(), OSError(28, "No space left on device")])
def test_draws_are_safe_before_anything_is_drawn(cavity, table, tmp_path, monkeypatch, error):
    def fails(*arguments, **options):
        raise error

    with monkeypatch.context() as patch:
        patch.setattr("cavity.report.html.write_report", fails)
        ran = cavity(*FIT, *QUICK)
    assert ran.code == (130 if isinstance(error, KeyboardInterrupt) else 2)
    line = ran.err.splitlines()[-1]
    assert "All draws are safe in run/posterior.nc; 'cavity report run' writes the rest." in line
    assert status(tmp_path / "run") == "drawn"
    assert cavity("report", "run").code == 0
    assert names(tmp_path / "run") == WHOLE
    assert status(tmp_path / "run") == "finished"


def test_draws_and_record_alone_are_a_run(cavity, finished, run, monkeypatch):
    for name in names(run) - {"posterior.nc", "run.json"}:
        (run / name).unlink()
    edit(run, status="drawn")
    assert cavity("predict", "run", "data.csv").code == 0
    monkeypatch.setattr("cavity.estimators.fitting.run_chains", None)  # nothing is sampled again
    ran = cavity(*FIT, *QUICK)
    assert ran.code == 0, ran.err
    assert "Writing the tables and the report." in ran.out
    assert names(run) == WHOLE
    assert (run / "labels.csv").read_text() == (finished[0] / "run" / "labels.csv").read_text()


# ------------------------------------------------------------------ overwriting


def test_a_bad_request_overwrites_nothing(cavity, run):
    before = {path.name: path.read_bytes() for path in run.iterdir()}
    table = make_table()
    table.loc[5, "height"] = np.inf
    table.to_csv(run.parent / "gaps.csv", index=False)
    pd.DataFrame({"s": ["a", "b"], "t": [1.0, 2.5], "v": [1.0, 2.0]}).to_csv(
        run.parent / "uneven.csv", index=False
    )
    for command in (
        ["fit", "gaps.csv", "--id-column", "name", "--clusters", 2],
        ["fit", "none.csv"],
        ["fit", "data.csv", "--id-column", "name", "--clusters", 99],
        ["fit", "data.csv", "--id-column", "name", "--df", -1, "--clusters", 2],
        ["fit", "uneven.csv", "--model", "series", "--series", "s", "--time", "t", "--value", "v"],
    ):
        assert cavity(*command, "--out", "run", "--overwrite").sentence
        assert {path.name: path.read_bytes() for path in run.iterdir()} == before


def test_nothing_of_another_run_is_left(cavity, run, series_table):
    assert cavity(*SERIES, "--overwrite").code == 0
    assert names(run) == WHOLE | {"trends.csv", "factors.csv", "forecast.csv", "parameters.csv"}
    assert cavity(*FIT, *QUICK, "--overwrite").code == 0
    assert names(run) == WHOLE


# ------------------------------------------------------------------ series


def test_series_from_the_folder_alone(cavity, series_table, tmp_path, monkeypatch):
    monkeypatch.setattr("cavity.report.html.write_report", write_report)
    ran = cavity(*SERIES)
    assert ran.code == 0, ran.err
    assert "Fitting SeriesMixture to 4 series, 48 observations, of series.csv." in ran.out
    assert re.search(r"series (is|are) in doubt|not\s+converged", ran.out)
    folder = tmp_path / "run"
    kept = {name: (folder / name).read_text() for name in ("trends.csv", "forecast.csv")}
    (tmp_path / "series.csv").unlink()
    for name in names(folder) - {"posterior.nc", "run.json"}:
        (folder / name).unlink()
    ran = cavity("report", "run")
    assert ran.code == 0, ran.err
    assert ran.err == ""
    assert "Series by cluster" in (folder / "report.html").read_text()
    for name, text in kept.items():
        assert (folder / name).read_text() == text
    new = series_table.iloc[[0, 1, 30]].copy()
    new.loc[1, "sales"] = 99999.0
    new.loc[30, "month"] = "2021-02"
    new.to_csv(tmp_path / "new.csv", index=False)
    ran = cavity("predict", "run", "new.csv")
    assert ran.code == 0
    assert "1 of 3 rows lies far from anything the run has seen" in ran.err
    (tmp_path / "made.csv").write_text(ran.out)
    made = pd.read_csv(tmp_path / "made.csv")
    assert made["tail_probability"].argmin() == 1
    assert made["month"].tolist() == ["2020-01", "2020-02", "2021-02"]
    assert made["mean"].iloc[0] == pytest.approx(0.0, abs=5.0)
    assert made["mean"].iloc[2] == pytest.approx(40.0, abs=10.0)
    labels = pd.read_csv(folder / "labels.csv").set_index("shop")["cluster"]
    assert made["cluster"].tolist() == labels.loc[made["shop"]].tolist()


# ------------------------------------------------------------------ predicting


def test_a_row_far_out_stands_out(cavity, run, tmp_path):
    new = make_table().iloc[[0, 39, 5]].copy()
    new.iloc[1, 1] = 99999.0
    new.to_csv(tmp_path / "new.csv", index=False)
    ran = cavity("predict", "run", "new.csv", "--out", "placed.csv")
    assert ran.code == 0
    assert "Note: 1 of 3 rows lies far from anything the run has seen" in ran.err
    made = pd.read_csv(tmp_path / "placed.csv")
    assert made.columns[-1] == "p_unmatched"
    assert made["tail_probability"].iloc[1] < 1e-6
    assert (made["tail_probability"].iloc[[0, 2]] > 1e-3).all()
    fitted = pd.read_csv(run / "labels.csv")["tail_probability"]
    np.testing.assert_allclose(
        made["tail_probability"].iloc[[0, 2]], fitted.iloc[[0, 5]], rtol=1e-4
    )


def test_options_speak_of_options():
    estimator = models.MODELS["student-t"].make({"n_clusters": 0}, options.Choice())
    with pytest.raises(runs.UserError, match=r"^--clusters must be"), options.speaking_of_options():
        estimator.check(np.zeros((3, 1)))
    assert options.in_options("about n_draws=3600 per chain") == "about --draws 3600 per chain"


def test_two_runs_are_compared(run, tmp_path, cavity):
    """The same rows under another seed and model; a run with itself or other rows is refused."""
    other = [*FIT[:-1], "other", "--model", "gaussian", "--seed", 5, *QUICK]
    assert cavity(*other).code == 0
    ran = cavity("compare", "run", "other", "--out", "page.html")
    assert ran.code == 0
    assert "Leave-one-out log density minus" in (tmp_path / "page.html").read_text()
    assert "two clusterings is 1.00" in " ".join(ran.out.split())
    assert "Rows in each cluster of the first run (down)" in ran.out
    assert "run  " in ran.out.split("elpd", 1)[1]
    assert "run is given twice" in cavity("compare", "run", "run").sentence
    make_table().iloc[3:].to_csv(tmp_path / "data.csv", index=False)
    assert cavity(*[*FIT[:-1], "fewer", *QUICK]).code == 0
    assert "only fits of the same observations" in cavity("compare", "run", "fewer").sentence


def test_an_interrupt_of_the_search_leaves_it_to_be_done(cavity, table, tmp_path, monkeypatch):
    def stopped(*arguments, **options):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Posterior, "partition", stopped)
        ran = cavity(*FIT, *QUICK)
    assert ran.code == 130
    assert "stopped in the search for the point estimate. All draws are safe" in ran.err
    assert status(tmp_path / "run") == "drawn"
    assert cavity("fit", "--out", tmp_path / "run", "--resume").code == 0
    assert status(tmp_path / "run") == "finished"
    assert len(pd.read_csv(tmp_path / "run" / "labels.csv")) == 40
