"""Tables with text and gaps on the command line: fitted, predicted, reported, refused."""

import json

import numpy as np
import pandas as pd
import pytest
from cli_runs import QUICK

from cavity.datasets import make_table


@pytest.fixture(scope="module")
def customers():
    table, _ = make_table(60, 2, n_continuous=2, n_categorical=1, missing=0.1, random_state=1)
    table = table.rename(columns={"size_0": "age", "kind_0": "town", "count_0": "visits"})
    table.insert(0, "name", [f"c {i}" for i in range(60)])
    return table


def test_a_table_goes_through_all_commands(cavity, customers, tmp_path):
    customers = customers.copy()
    customers.loc[7, ["age", "size_1", "town", "visits"]] = None  # nothing is known of it
    customers.to_csv("customers.csv", index=False)
    ran = cavity("fit", "customers.csv", "--id-column", "name", "--types", "visits=count",
                 "--clusters", "2", "--out", "run", *QUICK)  # fmt: skip
    assert ran.code == 0, ran.err
    assert "Fitting TableMixture to 60 rows and 4 columns" in ran.out
    text = " ".join(ran.out.split())
    taken = "Columns were taken as continuous: age, size_1; categorical: town; count: visits."
    assert taken in text
    assert "distinguishing features: shares of categories compared with those of all rows" in text
    record = json.loads((tmp_path / "run" / "run.json").read_text())
    assert record["model"] == "table"
    assert record["data"]["types"] == ["visits=count"]
    clusters = pd.read_csv("run/clusters.csv")
    shares = clusters[clusters["column"] == "town"].groupby("cluster")["estimate"].sum()
    np.testing.assert_allclose(shares, 1.0, atol=1e-4)
    gaps = customers.drop(columns="name").isna().to_numpy().sum()
    assert len(pd.read_csv("run/imputed.csv")) == gaps
    columns = pd.read_csv("run/columns.csv")
    assert columns["kind"].tolist() == [
        "continuous", "continuous", "categorical", "count",
    ]  # fmt: skip
    assert columns["p_matters"].between(0.0, 1.0).all()
    assert columns["basis"].eq("marginal").all()
    customers.head(5).assign(town=["elsewhere", *customers["town"][1:5]]).to_csv(
        "new.csv", index=False
    )
    ran = cavity("predict", "run", "new.csv", "--out", "placed.csv")
    assert ran.code == 0, ran.err
    assert "Categories that are not in the fit are treated as missing: 1 in column 'town'" in (
        " ".join((ran.out + ran.err).split())
    )
    placed = pd.read_csv("placed.csv")
    assert placed["name"].tolist() == [f"c {i}" for i in range(5)]
    assert placed["probability"].between(0, 1).all()
    assert cavity("report", "run").code == 0
    page = (tmp_path / "run" / "report.html").read_text()
    assert "What sets clusters apart" in page
    assert "Which columns matter" in page


@pytest.mark.slow
def test_columns_that_matter_are_named(cavity):
    rng = np.random.default_rng(0)
    table = pd.DataFrame(rng.standard_normal((60, 3)).round(4), columns=["a", "b", "c"])
    table.loc[:29, "b"] += 8.0
    table.to_csv("rows.csv", index=False)
    ran = cavity("fit", "rows.csv", "--model", "gaussian", "--covariance", "diag", "--clusters",
                 "2", "--select-columns", "--out", "run", *QUICK)  # fmt: skip
    assert ran.code == 0, ran.err
    assert "of 3 columns matter" in ran.out
    assert "for the clusters: b (" in ran.out
    columns = pd.read_csv("run/columns.csv")
    assert columns["column"][0] == "b"
    assert columns["basis"].eq("indicator").all()


@pytest.mark.parametrize(
    ("rows", "options", "words"),
    [
        ("a,d\n1,2020-01-31\n2,2020-02-28\n3,NA\n", [], "'d' of t.csv holds dates.*--exclude d"),
        ("a,d e\n1,31/01/2020\n2,28/02/2020\n", [], "'d e' of t.csv holds dates.*--exclude 'd e'"),
        ("a,b\n1,x\n2,y\n", ["--types", "a=colour"], "--types must be written as"),
        ("a,b\n1,x\n2,y\n", ["--types", "c=count"], "has no column 'c'"),
        ("a,b\n1,2\n2,5\n3,oops\n4,7\n", ["--model", "table"], "'oops'.*--types b=categorical"),
        ("a,b\n-1,x\n2,y\n", ["--types", "a=count"], "column 'a' is -1, below zero"),
        ("a,b\n0.5,x\n2,y\n", ["--types", "a=count"], "no whole number"),
        ("a,b\ninf,x\n2,y\n", [], "column 'a' of t.csv is infinite"),
        ("a,b\n1,\"3,5\"\n2,\"4,5\"\n", [], "add --decimal ','"),
    ],
)  # fmt: skip
def test_refusals(cavity, tmp_path, rows, options, words):
    import re

    (tmp_path / "t.csv").write_text(rows)
    ran = cavity("fit", "t.csv", "--clusters", "1", *options)
    assert re.search(words, ran.sentence), ran.sentence
    assert not (tmp_path / "cavity-run").exists()


def test_many_names_are_taken_for_the_rows_own(cavity, tmp_path):
    many = pd.DataFrame({"zip": [f"z{i % 10_000}" for i in range(20_000)], "x": np.arange(2e4)})
    many.to_csv("many.csv", index=False)
    sentence = cavity("fit", "many.csv", "--clusters", "2").sentence
    assert "'zip' has 10,000 categories in 20,000 rows" in sentence
    table = pd.DataFrame({"who": [f"w {i}" for i in range(80)], "x": np.arange(80.0)})
    table.to_csv("t.csv", index=False)
    assert "--id-column" in cavity("fit", "t.csv", "--clusters", "2").sentence


def test_types_go_with_tables_only(cavity, tmp_path):
    (tmp_path / "t.csv").write_text("a\n1\n2\n")
    ran = cavity("fit", "t.csv", "--model", "gaussian", "--types", "a=count")
    assert "--types goes with --model table only" in ran.sentence


@pytest.mark.slow
def test_rows_outside_every_cluster(cavity, customers):
    table = pd.concat([customers, customers.head(2)], ignore_index=True)
    table.loc[60:, ["name", "age", "size_1", "visits"]] = [["far 1", 60.0, -70.0, 90],
                                                           ["far 2", -80.0, 75.0, 80]]  # fmt: skip
    table.to_csv("far.csv", index=False)
    ran = cavity("fit", "far.csv", "--id-column", "name", "--types", "visits=count", "--noise",
                 "--clusters", "2", "--df", "30", "--out", "run", *QUICK)  # fmt: skip
    assert ran.code == 0, ran.err
    assert "noise: outside every cluster (label -1)" in " ".join(ran.out.split())
    labels = pd.read_csv("run/labels.csv")
    assert labels["cluster"].tolist()[60:] == [-1, -1]
    assert (labels["cluster"][:60] >= 0).all()
    assert (labels["noise_probability"][60:] > 0.5).all()
    ran = cavity("predict", "run", "far.csv", "--out", "placed.csv")
    assert ran.code == 0, ran.err
    assert pd.read_csv("placed.csv")["cluster"].tolist()[60:] == [-1, -1]
