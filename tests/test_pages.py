"""Run every Python example on every page from top to bottom, and check the output shown."""

from __future__ import annotations

import contextlib
import io
import os
import re
import sys
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest

import cavity
from cavity.datasets import make_series

ROOT = Path(__file__).parent.parent
# House prices have a separate test of the page.
PAGES = {
    "README.md": 1,
    "docs/index.md": 1,
    "docs/guide.md": 1,
    "docs/number-of-clusters.md": 1,
    "docs/groups.md": 1,
    "docs/outliers.md": 1,
    "docs/missing-values.md": 1,
    "docs/measurement-errors.md": 1,
    "docs/tables.md": 1,
    "docs/ordinal.md": 1,
    "docs/columns.md": 1,
    "docs/rows-to-check.md": 1,
    "docs/convergence.md": 1,
    "docs/long-runs.md": 2,
    "docs/series.md": 5,
    "docs/series-model.md": 1,
    "docs/scaling.md": 1,
    "docs/covariates.md": 1,
    "docs/reporting.md": 2,
    "docs/maths.md": 1,
    "docs/extending.md": 2,
}
BLOCK = re.compile(
    r"(?:Save this as `(\w+\.py)`:\n\n)?```python\n(.*?)```"
    r"(?:\n\n<!-- example: output -->\n```text\n(.*?)```)?",
    re.DOTALL,
)


def sales_of_shops():
    Y, _ = make_series(12, 36, n_clusters=2, missing=0.2, random_state=0)
    months = pd.period_range("2020-01", periods=36, freq="M").astype(str)
    row, column = np.nonzero(np.isfinite(Y))
    return pd.DataFrame(
        {"shop": [f"shop {i}" for i in row], "month": months[column], "turnover": Y[row, column]}
    )


def sales_of_houses():
    table = sales_of_shops()
    rng = np.random.default_rng(0)
    size = rng.normal(7.4, 0.3, len(table))
    month = pd.PeriodIndex(table["month"], freq="M").month
    return pd.DataFrame(
        {
            "tract": table["shop"].str[5:].str.zfill(3),
            "month": table["month"],
            "log_price": 12 + table["turnover"] + 0.7 * size + 0.01 * month,
            "log_sqft": size,
            "g": 0.01 * month,
        }
    )


NEEDS = {"docs/series.md": lambda: sales_of_houses().to_csv("sales.csv", index=False)}


def forms(printed):
    """Kinds of lines, whatever their numbers: fits are short here, and processors differ."""
    lines = [re.sub(r"-?\d[\d.]*(e[-+]?\d+)?", "#", line) for line in printed.splitlines()]
    return {" ".join(line.split()) for line in lines if "onverged" not in line and line.strip()}


def run_page(page, text):
    """Run the blocks in one namespace; a block that is to be saved becomes a module."""
    names = {}
    for file, code, written in BLOCK.findall(text):
        if file:
            Path(file).write_text(code, encoding="utf-8")
            continue
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile(code, page, "exec"), names)
        if written:
            assert forms(printed.getvalue()) == forms(written)
    plt.close("all")
    return names


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    # Convergence, which takes minutes for series, is not tested here.
    limit = property(lambda self: min(self.max_sweeps, 300))
    monkeypatch.setattr("cavity.mcmc.schedule.AutomaticSchedule.limit", limit)
    # The page's own module, not that of the tests of extensions.
    monkeypatch.delitem(sys.modules, "poisson_counts", raising=False)
    yield tmp_path
    sys.modules.pop("poisson_counts", None)


QUICK = ("docs/number-of-clusters.md", "docs/maths.md")


@pytest.mark.parametrize(
    "page", [pytest.param(p, marks=() if p in QUICK else pytest.mark.slow) for p in PAGES]
)
def test_the_examples_run(page, folder):
    text = (ROOT / page).read_text(encoding="utf-8")
    assert len(BLOCK.findall(text)) == text.count("```python") == PAGES[page]
    NEEDS.get(page, lambda: None)()
    names = run_page(page, text)
    if page == "docs/guide.md":
        # So do the calls in its tables, in their order.
        calls = re.findall(r"`((?:m|p|cavity)\.[a-z_.]+\([^`]*\))`", text)
        assert len(calls) >= 25
        for call in calls:
            eval(compile(call, page, "eval"), {**names, "cavity": cavity})
            plt.close("all")
        for attribute in set(re.findall(r"`m\.([a-z_]+_)`", text)):
            assert hasattr(names["m"], attribute)
    if page == "docs/tables.md":
        assert names["right"] > 0.8
    if page == "docs/extending.md":
        labels = names["posterior"].partition().labels
        assert len(set(labels)) == 3
    assert not [name for name in os.listdir(ROOT) if name in ("page.html", "run.nc")]


def test_output_that_is_out_of_date_is_noticed():
    """Negative control: a line that is not printed any more, in spite of free numbers."""
    assert forms("size 0.31\nConverged.") == forms("size  2.5e-3\nNot converged.")
    assert forms("size 0.31") != forms("share 0.31")


def test_a_page_that_is_out_of_date_is_noticed(folder):
    """Negative control: a name that the package does not have."""
    with pytest.raises(ImportError, match="Mixtures"):
        run_page("a page", "```python\nfrom cavity import Mixtures\n```")


def test_every_page_with_examples_is_on_the_list():
    pages = [ROOT / "README.md", *ROOT.glob("docs/*.md"), ROOT / "CONTRIBUTING.md"]
    found = {
        p.relative_to(ROOT).as_posix()
        for p in pages
        if "```python" in p.read_text(encoding="utf-8")
    }
    assert found == {*PAGES, "docs/house-prices.md"}
