"""The report as a file: complete, self-contained, well formed, escaped, written all or nothing."""

from __future__ import annotations

import base64
import hashlib
import re
import warnings
from copy import copy

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
from page_parts import Page
from report_cases import blobs, posterior

from cavity.plotting import style
from cavity.posterior import Posterior
from cavity.posterior.record import RunRecord
from cavity.report import tables
from cavity.report.html import write_report

DOUBTFUL = (3, 4, 10)
NASTY = '<script>alert("1")</script> & $x$'


@pytest.fixture(scope="module")
def full():
    X, truth = blobs(60, 3, 2)
    names = [f"bottle {i}" for i in range(60)]
    p = posterior(truth, doubtful=DOUBTFUL, names=names, n_features=2)
    return pd.DataFrame(X, columns=["ash", "flavour"]), p


@pytest.fixture(scope="module")
def text(full, tmp_path_factory):
    X, p = full
    path = tmp_path_factory.mktemp("report") / "report.html"
    assert write_report(path, p, X, title="Wines", settings={"note": "by hand"}) == path
    return path.read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def page(text):
    return Page(text)


def test_page_is_sound_and_needs_nothing_else(page):
    assert page.problems == []
    for heading in ("Summary", "Plots", "Clusters", "Doubtful rows", "Diagnostics"):
        assert heading in page.text
    assert len(page.all("img")) == 6
    assert len(page.all("title")) == len(page.all("h1")) == len(page.all("main")) == 1


@pytest.mark.parametrize(
    ("break_it", "problem"),
    [
        (lambda t: t.replace("</main>", ""), "closes nothing"),
        (lambda t: t.replace('src="data:', 'src="https://x.org/', 1), "loads from elsewhere"),
        (lambda t: re.sub(r'alt="[^"]*"', 'alt=""', t, count=1), "without a text"),
        (lambda t: t.replace(' scope="col"', "", 1), "without scope"),
        (lambda t: t.replace('href="#run"', 'href="#walk"'), "leads nowhere"),
    ],
)
def test_a_broken_page_would_be_noticed(text, break_it, problem):
    try:
        problems = Page(break_it(text)).problems
    except ValueError as error:  # a picture whose code is damaged
        problems = [str(error)]
    assert any(problem in text for text in problems)


def test_words_say_what_the_posterior_says(page):
    assert "has 60 rows in 3 clusters of 20, 20 and 20" in page.text
    assert "Every draw has 3 clusters." in page.text
    assert "3 rows (5%) are in doubt (probability of the cluster below 0.8): bottle" in page.text
    assert re.search(r"bottle \d+ \(cluster \d, or \d\)", page.text)


def test_tables_hold_the_numbers(page, full):
    X, p = full
    head, *rows = page.tables["clusters"]
    assert head[:3] == ["cluster", "size", "share"]
    assert [row[:3] for row in rows] == [[str(k), "20", "33.3%"] for k in range(3)]
    head, *rows = page.tables["doubtful"]
    frame = p.doubtful()
    assert [row[0] for row in rows] == list(frame.index)
    assert [row[2] for row in rows] == [f"{v:.2f}" for v in frame["probability"]]
    for row, (_, expected) in zip(rows, frame.iterrows(), strict=True):
        share = expected["alternative_probability"]
        assert row[4] == f"{int(expected['alternative'])} ({share:.2f})"
    head, *rows = page.tables["typical"]
    assert head == ["cluster", "ash", "flavour"]
    medians = X.groupby(p.partition().labels).median().to_numpy()
    shown = np.array([[float(v.replace("−", "-")) for v in row[1:]] for row in rows])
    np.testing.assert_allclose(shown, medians, rtol=6e-3)


def test_parameters_have_means_and_intervals(page, full):
    _, p = full
    captions = page.text
    assert "Parameter “mean”" in captions
    assert "covariance, its diagonal" in captions
    summary = p.parameter_summary("weight")
    head, *rows = page.tables["parameters"]
    assert head == ["cluster", "weight"]
    assert rows[0][1].startswith(f"{summary['mean'][0]:.3g} (")
    assert page.tables["parameter-0"][0] == ["cluster", "ash", "flavour"]


def test_diagnostics_and_run_are_told(page, full):
    _, p = full
    diagnostics = p.diagnostics()
    for sentence in diagnostics.sentences:
        assert sentence in page.text
    assert [r[0] for r in page.tables["diagnostics-table"][1:]] == list(diagnostics.table.index)
    assert page.tables["events"][1:] == [
        ["updates", "100,000", "100,000"],
        ["invalid cavities", "0", "1"],
    ]
    chains = p.n_chains
    assert page.tables["moves"][1:] == [
        ["exchange", f"{400 * chains:,}", f"{5 * chains}", "1.2%", "–"],
    ]
    for fact in ("StudentTMixture", "median time of a sweep", "collapse", "by hand", "Versions"):
        assert fact in page.text


@pytest.mark.usefixtures("without_pictures")
def test_what_the_estimator_knows_is_told(full, tmp_path):
    X, p = full
    tail = np.full(60, 0.5)
    tail[[7, 31]] = [1e-3, 1e-9]
    tail[5] = np.nan
    features = ["ash +3.0", f"{NASTY} −1", "near the median in all columns"]
    path = write_report(tmp_path / "r.html", p, X, features=features, tail=tail)
    page = Page(path.read_text(encoding="utf-8"))
    assert page.problems == []
    assert page.tables["clusters"][0][-1] == "distinguishing features"
    assert [row[-1] for row in page.tables["clusters"][1:]] == features
    assert "Unusual rows" in page.text
    assert "2 rows are far from the rest of their cluster" in page.text
    assert "Unknown for 1 row." in page.text
    head, *rows = page.tables["unusual"]
    assert head[:3] == ["row", "cluster", "tail probability"]
    assert [row[0] for row in rows] == ["bottle 31", "bottle 7"]
    labels = p.partition().labels
    assert [row[1] for row in rows] == [str(labels[31]), str(labels[7])]
    assert rows[0][2] == "1e-09"
    calm = Page(write_report(tmp_path / "r.html", p, X, tail=np.full(60, 0.5)).read_text())
    assert "No row is unusually far from its cluster." in calm.text
    assert "unusual" not in calm.tables
    bare = Page(write_report(tmp_path / "r.html", p, X).read_text())
    assert "Unusual" not in bare.text
    with pytest.raises(ValueError, match="features has 1 texts for 3 clusters"):
        write_report(tmp_path / "r.html", p, X, features=["one"])
    with pytest.raises(ValueError, match=r"tail has shape \(3,\) for 60 rows"):
        write_report(tmp_path / "r.html", p, X, tail=[0.1, 0.2, 0.3])


@pytest.mark.usefixtures("without_pictures")
def test_series_are_called_series(tmp_path):
    p = posterior(np.arange(30) % 3, doubtful=DOUBTFUL, names=[f"shop {i}" for i in range(30)])
    p.record = RunRecord("SeriesMixture", noun="series")
    page = Page(
        write_report(tmp_path / "r.html", p, title="Shops", tail=np.full(30, 0.5)).read_text()
    )
    assert "30 series" in page.text
    assert "Doubtful series" in page.text
    assert page.tables["doubtful"][0][0] == "series"
    words = {word.strip(".,;:()").lower() for word in page.text.split()}
    assert not words & {"row", "rows", "observation", "observations"}


@pytest.mark.usefixtures("without_pictures")
def test_rows_without_names_are_counted_as_asked(tmp_path):
    p = posterior(np.arange(30) % 3, doubtful=DOUBTFUL)
    for first in (0, 1):
        path = write_report(tmp_path / "r.html", p, count_from=first, tail=np.arange(30) / 60)
        page = Page(path.read_text())
        shown = [int(row[0]) for row in page.tables["doubtful"][1:]]
        assert sorted(shown) == [i + first for i in DOUBTFUL]
        assert page.tables["unusual"][1][0] == str(first)


@pytest.mark.usefixtures("without_pictures")
def test_sizes_outside_their_interval_are_marked(tmp_path):
    apart = np.append(np.zeros(30, int), np.ones(10, int))
    p = Posterior.from_labels(np.tile(apart, (2, 10, 1)))
    odd = np.append(np.zeros(22, int), np.ones(18, int))
    page = Page(write_report(tmp_path / "r.html", p, partition=odd).read_text())
    assert [row[3] for row in page.tables["clusters"][1:]] == ["30 to 30 *", "10 to 10 *"]
    assert "The size of the estimate is outside the interval" in page.text
    page = Page(write_report(tmp_path / "r.html", p).read_text())
    assert [row[3] for row in page.tables["clusters"][1:]] == ["30 to 30", "10 to 10"]
    assert "does not hold" not in page.text


def test_run_facts_are_written_for_reading():
    view = Posterior.from_labels(
        [[0, 0, 1]], record=RunRecord("", details={"a_b": {"scale": [0.123456, 2.0]}})
    ).view()
    facts = tables.run_facts(view)
    assert facts["a b: scale"] == "0.123, 2"
    assert facts["chains"] == "1"
    long = Posterior.from_labels(
        [[0, 1]], record=RunRecord("", columns=tuple("abcdefghijklmn"))
    ).view()
    assert tables.run_facts(long)["columns"].endswith("k, l, … (14 in all)")


def test_every_sort_button_says_its_state(page):
    heads = [a for a in page.all("th") if a.get("scope") == "col"]
    assert heads
    assert all(a.get("aria-sort") == "none" for a in heads)
    buttons = [a for a in page.all("button") if a.get("class") != "save"]
    assert len(buttons) == len(heads)


def test_user_text_is_escaped(tmp_path):
    X, truth = blobs(30, 3, 2)
    names = [f"{NASTY} {i}" for i in range(30)]
    p = posterior(truth, doubtful=DOUBTFUL, names=names)
    p.record = RunRecord(NASTY)
    path = write_report(
        tmp_path / "r.html",
        p,
        X,
        feature_names=[NASTY, 'b"<'],
        title=NASTY,
        settings={NASTY: NASTY},
        extra_sections=[(NASTY, "<p>own markup</p>", NASTY)],
    )
    text = path.read_text(encoding="utf-8")
    page = Page(text)
    assert page.problems == []
    assert len(page.all("script")) == 1
    assert page.text.count(NASTY) >= 8
    assert "<script>alert" not in text
    assert "own markup" in page.text


def test_policy_allows_the_own_script_and_nothing_else(text):
    script = re.search(r"<script>(.*?)</script>", text, re.DOTALL).group(1)
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', text).group(1)
    assert "default-src 'none'" in policy
    assert f"script-src 'sha256-{digest}'" in policy


@pytest.mark.usefixtures("without_pictures")
def test_extra_sections_take_figures_axes_and_markup(full, tmp_path):
    figure = style.page_figure(3, 2)
    ax = figure.subplots()
    ax.plot([1, 2])
    sections = [
        ("Trends", figure, "the first"),
        ("Trends", ax, "the second"),
        ("Factors", "<table><tr><th scope='col'>a</th></tr></table>", ""),
    ]
    page = Page(write_report(tmp_path / "r.html", full[1], extra_sections=sections).read_text())
    assert page.problems == []
    assert len(page.all("img")) == 5 + 2
    assert page.text.count("Trends") == 2  # link and heading
    assert "the second" in page.text
    with pytest.raises(TypeError, match="ax must be matplotlib axes; got int"):
        write_report(tmp_path / "s.html", full[1], extra_sections=[("Bad", 3, "")])


@pytest.mark.usefixtures("without_pictures")
def test_covariates_and_outcomes_have_sections(full, tmp_path):
    p = full[1]
    rng = np.random.default_rng(0)
    covariates = pd.DataFrame({NASTY: rng.standard_normal(60), "town": ["a", "b"] * 30})
    found = [
        p.regress(covariates, n_draws=20),
        p.outcome(pd.Series(100.0 + rng.standard_normal(60), name=NASTY), n_draws=20),
        p.outcome(covariates["town"], n_draws=20),
    ]
    page = Page(write_report(tmp_path / "r.html", p, extra_sections=found).read_text())
    assert page.problems == []
    assert [row[:2] for row in page.tables["regression-0"]] == [
        ["covariate", "cluster"], *([term, k] for term in (NASTY, "town=b", "intercept")
        for k in ("1", "2")),
    ]  # fmt: skip
    head, *means = page.tables["regression-1"]
    assert head == ["cluster", "mean", "lower", "upper"]
    mean = found[1].table["mean"]
    np.testing.assert_allclose([float(row[1]) for row in means], mean, atol=0.01)
    assert [len(row[2].partition(".")[2]) for row in means] == [2, 2, 2]
    assert len(page.tables["regression-1-differences"]) == 1 + 3
    assert page.tables["regression-2"][1][:2] == ["town=a", "0"]


def test_no_figure_is_left_open_and_no_setting_changed(full, tmp_path):
    import matplotlib as mpl

    settings, figures = dict(mpl.rcParams), plt.get_fignums()
    write_report(tmp_path / "r.html", full[1], full[0])
    assert plt.get_fignums() == figures
    assert dict(mpl.rcParams) == settings


CASES = {
    "one draw": (np.array([[[0, 0, 0, 1, 1]]]), 2),
    "one cluster": (np.zeros((4, 30, 25), int), 5),
    "all singletons": (np.tile(np.arange(30), (2, 10, 1)), 4),
    "one observation": (np.zeros((1, 1, 1), int), 1),
}


@pytest.mark.variants("slow", "all singletons", "one draw", "one cluster")
@pytest.mark.parametrize("case", CASES)
def test_extreme_posteriors_are_reported(case, tmp_path):
    draws, d = CASES[case]
    X = np.random.default_rng(0).normal(size=(draws.shape[2], d))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        path = write_report(tmp_path / "r.html", Posterior.from_labels(draws), X)
    page = Page(path.read_text(encoding="utf-8"))
    assert page.problems == []
    assert "No observation is in doubt" in page.text
    assert "nan" not in page.text


@pytest.mark.slow
def test_many_observations_and_clusters_are_cut_with_a_word(tmp_path):
    n = 20_000
    truth = np.arange(n) % 400
    p = posterior(truth, n_chains=2, n_draws=4, doubtful=np.arange(0, n, 20))
    path = write_report(tmp_path / "r.html", p, partition=truth)
    page = Page(path.read_text(encoding="utf-8"))
    assert page.problems == []
    assert len(page.tables["clusters"]) == tables.ROWS_MAX + 1
    assert "The first 300 of 400 clusters are shown." in page.text
    assert len(page.tables["doubtful"]) == tables.ROWS_MAX + 1
    assert path.stat().st_size < 5e6


@pytest.mark.usefixtures("without_pictures")
def test_kept_column_names_serve_an_array(full, tmp_path):
    X, shared = full
    p = copy(shared)
    p.record = RunRecord("", columns=("ash", "flavour"))
    page = Page(write_report(tmp_path / "r.html", p, X.to_numpy()).read_text())
    assert page.tables["typical"][0] == ["cluster", "ash", "flavour"]
    p.record = RunRecord("", columns=("only one",))
    page = Page(write_report(tmp_path / "r.html", p, X.to_numpy()).read_text())
    assert page.tables["typical"][0] == ["cluster", "column 0", "column 1"]


def test_file_is_written_all_or_nothing(full, tmp_path):
    X, p = full
    path = tmp_path / "r.html"
    path.write_text("before")
    with pytest.raises(ValueError, match="X has 59 rows"):
        write_report(path, p, X.iloc[1:])
    assert path.read_text() == "before"
    assert [f.name for f in tmp_path.iterdir()] == ["r.html"]
    with pytest.raises(FileNotFoundError, match="does not exist; make it first"):
        write_report(tmp_path / "no" / "r.html", p)
    with pytest.raises(IsADirectoryError, match="is a folder; name a file"):
        write_report(tmp_path, p)


def test_unwritable_place_is_found_before_the_work(full, monkeypatch, tmp_path):
    from pathlib import Path

    def refuse(*_args, **_options):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "open", refuse)
    monkeypatch.setattr(Posterior, "view", lambda *_: pytest.fail("work was begun"))
    with pytest.raises(PermissionError, match=r"cannot write a report to .*Permission denied"):
        write_report(tmp_path / "r.html", full[1])
