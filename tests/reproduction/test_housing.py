"""A quick run of the housing experiment on simulated sales, and its measures."""

import numpy as np
import pandas as pd
import pytest
from reproduction.harness import Settings
from reproduction.housing import (
    BASELINES,
    METRICS,
    judge,
    log_score,
    nmi_traces,
    price_metrics,
    simulate_sales,
    split,
)
from reproduction.housing_figures import draw_map

from cavity.hedonic import HedonicIndex
from reproduction import reproduce


def test_quick_run(tmp_path):
    outcome = reproduce("housing", tmp_path, quick=True, progress=False)
    metrics = outcome.tables["metrics"]
    assert set(metrics["method"]) == {*BASELINES, "collapsed", "ep"}
    assert metrics[["rmse", "mean_ape", "log_score"]].notna().all(axis=None)
    test = metrics[metrics["sales"] == "test"].groupby("method")["mean_ape"].mean()
    assert test["ep"] < test["global"]
    for name in ("housing-index", "housing-nmi"):
        assert (tmp_path / f"{name}.png").stat().st_size > 10_000
    assert set(outcome.sections) == {"Metrics on the test sales", "Metrics on the train sales"}


def test_split_is_stratified_and_always_the_same():
    sales = simulate_sales()
    train, test = split(sales)
    assert split(sales)[1].index.equals(test.index)
    assert not train.index.isin(test.index).any()
    share = test["region"].value_counts() / sales["region"].value_counts()
    assert share.between(0.22, 0.28).all()


def test_measures():
    found = price_metrics(np.array([90.0, 130.0, 100.0]), np.array([100.0, 100.0, 100.0]))
    assert found["rmse"] == pytest.approx(np.sqrt(1000 / 3))
    assert found["mean_ape"] == pytest.approx(40 / 3)
    assert found["median_ape"] == pytest.approx(10)
    assert found["p90_ape"] == pytest.approx(26)


def test_log_score_is_that_of_the_normal():
    sales = simulate_sales(400)
    model = HedonicIndex("none", progress=False).fit(sales, sales["price"])
    error = np.log(sales["price"]) - np.log(model.predict(sales))
    sd = model.global_sd_
    expected = np.mean(-0.5 * (error / sd) ** 2 - np.log(sd) - 0.5 * np.log(2 * np.pi))
    assert log_score(model, sales) == pytest.approx(expected)


def made_up(ep_rmse=100.0):
    levels = {"collapsed": (100.0, 3), "ep": (ep_rmse, 3), **dict.fromkeys(BASELINES, (150.0, 1))}
    rows = [
        {
            "method": method,
            "trial": trial,
            "sales": "test",
            **dict.fromkeys(METRICS, level + trial),
            "seconds": 2.0 if method == "collapsed" else 1.0,
        }
        for method, (level, n_trials) in levels.items()
        for trial in range(n_trials)
    ]
    return {"metrics": pd.DataFrame(rows)}


def test_verdicts_follow_the_metrics():
    assert all(v.holds for v in judge(made_up(), Settings(3)))
    far = {v.claim: v.holds for v in judge(made_up(ep_rmse=120.0), Settings(3))}
    assert not far["RMSE of ep within one s.d. of collapsed (test)"]
    assert far["RMSE of both samplers far below global (a tenth; test)"]
    near = {v.claim: v.holds for v in judge(made_up(ep_rmse=148.0), Settings(3))}
    assert not near["RMSE of both samplers far below global (a tenth; test)"]


def test_nmi_to_the_reference():
    tables = {
        "reference": pd.DataFrame({"region": list("abcd"), "label": [0, 0, 1, 1]}),
        "chains": pd.DataFrame(
            {"sweep": [1, 2], "seconds": [0.1, 0.2], "labels": ["0 1 0 1", "1 1 0 0"],
             "sampler": "ep", "trial": 0}
        ),
    }  # fmt: skip
    assert nmi_traces(tables)["nmi"].tolist() == pytest.approx([0.0, 1.0])


def test_map(tmp_path):
    ring = [[0, 0], [1, 0], [1, 1], [0, 1], [0, 0]]
    tracts = {
        "features": [
            {"properties": {"region": "1"}, "geometry": {"type": "Polygon", "coordinates": [ring]}},
            {
                "properties": {"region": "2"},
                "geometry": {"type": "MultiPolygon", "coordinates": [[ring]]},
            },
        ]
    }
    clusters = pd.DataFrame({"region": [1, 2], "cluster": [0, 1], "certainty": [0.5, 1.0]})
    draw_map(tracts, clusters, tmp_path)
    assert (tmp_path / "housing-map.png").stat().st_size > 5_000
