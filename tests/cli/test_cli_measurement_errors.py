"""Measurement errors on the command line: a file of its own, or columns named in a pattern."""

import numpy as np
import pandas as pd
import pytest
from cli_runs import QUICK

FIT = ["--clusters", "2", *QUICK]


@pytest.fixture
def stars(cavity):
    rng = np.random.default_rng(3)
    true = np.vstack([rng.standard_normal((20, 2)), rng.standard_normal((20, 2)) + 12.0])
    errors = rng.uniform(0.5, 2.0, true.shape)
    table = pd.DataFrame((true + errors * rng.standard_normal(true.shape)).round(4))
    table.columns = ["color", "motion"]
    table.insert(0, "name", [f"star {i}" for i in range(40)])
    errors = pd.DataFrame(errors.round(4), columns=["color", "motion"])
    table.to_csv("stars.csv", index=False)
    errors.to_csv("errors.csv", index=False)
    both = table.assign(color_err=errors["color"], motion_err=errors["motion"])
    both.to_csv("both.csv", index=False)
    return table, errors


def test_errors_in_a_file_or_by_a_pattern(cavity, stars):
    one = cavity("fit", "stars.csv", "--id-column", "name", "--errors", "errors.csv",
                 "--out", "one", *FIT)  # fmt: skip
    assert one.code == 0, one.err
    two = cavity("fit", "both.csv", "--id-column", "name", "--errors-pattern", "{}_err",
                 "--out", "two", *FIT)  # fmt: skip
    assert two.code == 0, two.err
    assert "40 rows and 2 columns" in two.out
    imputed = pd.read_csv("one/imputed.csv")
    assert len(imputed) == 80
    assert imputed.equals(pd.read_csv("two/imputed.csv"))
    exact = cavity("predict", "one", "stars.csv")
    assert "new rows are taken as exact without --errors" in exact.err
    first = cavity("predict", "one", "stars.csv", "--errors", "errors.csv")
    second = cavity("predict", "two", "both.csv")
    assert first.code == second.code == 0, first.err + second.err
    assert first.out == second.out != exact.out
    assert cavity("report", "one").code == 0


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (["--errors", "short.csv"], "short.csv has 2 rows, and stars.csv has 40"),
        (["--errors", "other.csv"], "other.csv has 'size', but the columns to cluster by are"),
        (["--errors-pattern", "err"], "--errors-pattern must have {} in place of a column's name"),
        (["--errors-pattern", "{}_sd"], "--errors-pattern {}_sd matches no column of stars.csv"),
        (["--errors", "a", "--errors-pattern", "{}_e"], "both name measurement errors; give one"),
        (["--errors", "negative.csv"], "errors is below zero in row 0, column 'color'"),
    ],
)
def test_refusals(cavity, stars, options, sentence):
    stars[1][:2].to_csv("short.csv", index=False)
    stars[1].rename(columns={"color": "size"}).to_csv("other.csv", index=False)
    (-stars[1]).to_csv("negative.csv", index=False)
    ran = cavity("fit", "stars.csv", "--id-column", "name", *options, *FIT)
    assert sentence in ran.sentence
