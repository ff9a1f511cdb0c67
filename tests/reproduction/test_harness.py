"""Units are kept, skipped and resumed; figures and tables are made from what is on disk."""

import json
import os
import warnings

import numpy as np
import pandas as pd
import pytest
from reproduction.__main__ import main
from reproduction.harness import Experiment, Settings, Verdict, run_experiment, unit_name
from reproduction.metrics import agreement, growth_exponent, paired, recorded_sweeps
from reproduction.style import by_sweep, draw_band, figure, markdown_table, on_time_grid, save

from reproduction import EXPERIMENTS, get_experiment, reproduce


def toy_units(settings):
    return [{"trial": t, "log": str(os.environ["TOY_LOG"])} for t in range(settings.trials)]


def toy_run(unit):
    with open(unit["log"], "a") as log:
        log.write(f"{unit['trial']}\n")
    if unit["trial"] == 2 and os.environ.get("TOY_FAIL"):
        raise KeyboardInterrupt
    threads = os.environ.get("OMP_NUM_THREADS", "")
    return {
        "raw": pd.DataFrame({"trial": [unit["trial"]], "x": [0.1 * unit["trial"]], "t": threads})
    }


def toy_judge(tables, settings):
    mean = tables["raw"]["x"].mean()
    return [Verdict("the mean is small", f"{mean:.2f}", bool(mean < 1))]


def toy_report(tables, settings, out):
    with figure(1, 1) as (fig, axes):
        axes[0, 0].plot(tables["raw"]["x"])
        save(fig, out, "toy")
    return {"Numbers": markdown_table(tables["raw"][["trial", "x"]])}


TOY = Experiment("toy", "A toy", "Nowhere", 4, toy_units, toy_run, toy_judge, toy_report)


@pytest.fixture
def log(tmp_path, monkeypatch):
    path = tmp_path / "log"
    monkeypatch.setenv("TOY_LOG", str(path))
    monkeypatch.delenv("TOY_FAIL", raising=False)
    return path


def done(log):
    return [int(line) for line in log.read_text().split()]


def test_interrupted_run_goes_on_where_it_was(log, tmp_path, monkeypatch):
    monkeypatch.setenv("TOY_FAIL", "1")
    with pytest.raises(KeyboardInterrupt):
        run_experiment(TOY, Settings(4), tmp_path / "out")
    assert done(log) == [0, 1, 2]
    monkeypatch.delenv("TOY_FAIL")
    outcome = run_experiment(TOY, Settings(4), tmp_path / "out")
    assert done(log) == [0, 1, 2, 2, 3]
    assert outcome.tables["raw"]["trial"].tolist() == [0, 1, 2, 3]
    # Nothing is left to do, and more trials only add.
    run_experiment(TOY, Settings(4), tmp_path / "out")
    run_experiment(TOY, Settings(5), tmp_path / "out")
    assert done(log) == [0, 1, 2, 2, 3, 4]


def test_outputs(log, tmp_path):
    outcome = run_experiment(TOY, Settings(4, quick=True), tmp_path)
    assert pd.read_csv(tmp_path / "raw.csv").shape == (4, 3)
    saved = json.loads((tmp_path / "verdicts.json").read_text())
    assert saved["verdicts"] == [{"claim": "the mean is small", "measured": "0.15", "holds": True}]
    text = (tmp_path / "report.md").read_text()
    assert "| the mean is small | 0.15 | holds |" in text
    assert "quick run" in text
    assert "![toy](toy.png)" in text
    assert {p.name for p in outcome.files} == {"raw.csv", "toy.png", "toy.svg"}


@pytest.mark.slow
def test_processes_have_one_thread_each(log, tmp_path):
    before = os.environ.get("OMP_NUM_THREADS")
    outcome = run_experiment(TOY, Settings(3, jobs=2), tmp_path)
    assert sorted(done(log)) == [0, 1, 2]
    assert outcome.tables["raw"]["t"].astype(str).tolist() == ["1", "1", "1"]
    assert os.environ.get("OMP_NUM_THREADS") == before


@pytest.mark.slow
def test_failure_in_a_process_is_raised(log, tmp_path, monkeypatch):
    broken = Experiment("toy", "A toy", "", 4, toy_units, run_broken, toy_judge, toy_report)
    with pytest.raises(ZeroDivisionError):
        run_experiment(broken, Settings(2, jobs=2), tmp_path)


def run_broken(unit):
    return 1 / 0


def run_that_warns(unit):
    from cavity import NotConvergedWarning

    warnings.warn("one chain", NotConvergedWarning, stacklevel=1)
    warnings.warn("something else", UserWarning, stacklevel=1)
    return toy_run(unit)


def test_single_chains_are_not_called_out_and_other_warnings_are(log, tmp_path):
    noisy = Experiment("toy", "A toy", "", 4, toy_units, run_that_warns, toy_judge, toy_report)
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        run_experiment(noisy, Settings(1), tmp_path)
    assert [str(w.message) for w in heard] == ["something else"]


def test_unit_names_change_with_any_entry():
    names = {
        unit_name({"sampler": s, "trial": t, "n": n})
        for s in ("ep", "naive")
        for t in (0, 1)
        for n in (10, 100)
    }
    assert len(names) == 8
    assert "/" not in unit_name({"path": "a/b"})


def test_unwritable_folder(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(OSError, match="Cannot write to"):
        run_experiment(TOY, Settings(1), tmp_path / "file")


def test_bad_arguments(tmp_path):
    with pytest.raises(ValueError, match="Unknown experiment 'figure-2'; known are"):
        reproduce("figure-2", tmp_path)
    with pytest.raises(ValueError, match="trials must be a positive integer; got 0"):
        reproduce("convergence", tmp_path, trials=0)
    with pytest.raises(ValueError, match="jobs must be"):
        reproduce("convergence", tmp_path, jobs=-1)


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_every_experiment_lists_distinct_units(name):
    experiment = get_experiment(name)
    assert experiment.name == name
    for quick in (True, False):
        units = experiment.units(Settings(2, quick=quick))
        assert len({unit_name(u) for u in units}) == len(units) > 0
        json.dumps(units)


def test_figures_repeat_byte_for_byte(tmp_path):
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
        with figure(1, 2) as (fig, axes):
            draw_band(axes[0, 0], np.arange(3), np.random.default_rng(0).normal(size=(4, 3)), "ep")
            save(fig, tmp_path / folder, "x")
    for suffix in ("png", "svg"):
        assert (tmp_path / "a" / f"x.{suffix}").read_bytes() == (
            tmp_path / "b" / f"x.{suffix}"
        ).read_bytes()


def test_time_grid_takes_the_last_finished_sweep():
    trace = pd.DataFrame(
        {
            "trial": [0, 0, 0, 1, 1],
            "sweep": [1, 2, 3, 1, 2],
            "seconds": [1.0, 2.0, 4.0, 3.0, 6.0],
            "nmi": [0.1, 0.2, 0.3, 0.5, 0.6],
        }
    )
    grid = np.array([0.5, 1.0, 3.5, 4.0, 5.0])
    got = on_time_grid(trace, "nmi", grid)
    expected = [[np.nan, 0.1, 0.2, 0.3, np.nan], [np.nan, np.nan, 0.5, 0.5, 0.5]]
    assert np.array_equal(got, expected, equal_nan=True)
    sweeps, values = by_sweep(trace, "nmi")
    assert sweeps.tolist() == [1, 2, 3]
    assert values[0].tolist() == [0.1, 0.2, 0.3]


def test_metrics():
    assert recorded_sweeps(1).tolist() == [1]
    nmi, ari = agreement(np.array([0, 0, 1, 1]), np.array([[1, 1, 0, 0], [0, 1, 0, 1]]))
    assert nmi[0] == ari[0] == 1
    assert nmi[1] == pytest.approx(0)
    difference = paired([1.0, 2.0, np.nan], [0.0, 0.0, 0.0])
    assert (difference.mean, difference.n) == (1.5, 2)
    assert difference.score == pytest.approx(3.0)
    assert paired([1.0, 1.0], [0.0, 0.0]).score == np.inf
    assert np.isnan(paired([1.0], [0.0]).score)  # one trial shows nothing
    assert paired([1.0], [1.0]).score == 0
    assert paired([], []).n == 0
    assert growth_exponent([1, 2, 4], [1, 4, 16]) == pytest.approx(2)


@pytest.mark.slow
def test_page_of_all_results(tmp_path):
    from reproduction.page import write_page

    results = tmp_path / "results"
    reproduce("convergence", results / "convergence", trials=2, quick=False, progress=False)
    page = write_page(results, tmp_path / "docs")
    text = page.read_text()
    assert "python -m reproduction convergence --jobs 2 --out results/convergence" in text
    assert "| the error is zero at r = 0 |" in text
    assert "(reproduction/convergence-flat.png)" in text
    assert (tmp_path / "docs" / "reproduction" / "convergence-flat.svg").exists()
    # What is not run again stays.
    assert write_page(tmp_path / "nothing", tmp_path / "docs").read_text() == text
    reproduce("convergence", results / "convergence", quick=True, progress=False)
    with pytest.raises(ValueError, match="holds a quick run"):
        write_page(results, tmp_path / "docs")


@pytest.mark.slow
def test_the_command(tmp_path, capsys):
    assert main([]) == 0
    listed = capsys.readouterr().out
    assert all(name in listed for name in EXPERIMENTS)
    folder = str(tmp_path / "c")
    assert main(["convergence", "--quick", "--quiet", "--out", folder]) == 0
    assert capsys.readouterr().out == ""
    assert main(["convergence", "--quick", "--out", folder]) == 0
    out = capsys.readouterr().out
    assert "holds: the error is zero at r = 0" in out
    assert "This was a quick run" in out
    assert (tmp_path / "c" / "report.md").exists()
    with pytest.raises(SystemExit):
        main(["everything"])
    assert "no experiment 'everything'; there are" in capsys.readouterr().err
