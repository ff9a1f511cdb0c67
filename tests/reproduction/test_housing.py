"""A quick run of the housing experiment on simulated sales, and its measures."""

import numpy as np
import pandas as pd
import pytest
from picture_files import colours_in, pixels, rgb, shape_of
from reproduction.harness import Settings
from reproduction.housing import (
    BASELINES,
    METRIC_NAMES,
    METRICS,
    judge,
    log_score,
    nmi_traces,
    price_metrics,
    simulate_sales,
    split,
)
from reproduction.housing_figures import COLOURS, draw_map
from reproduction.style import PALETTE, SAMPLERS

from cavity.hedonic import HedonicIndex
from reproduction import reproduce

CLAIMS = [
    *(f"{METRIC_NAMES[name]} of ep within one s.d. of collapsed (test)" for name in METRICS),
    *(
        f"{METRIC_NAMES[name]} of all samplers far below {baseline}"
        for name in METRICS
        for baseline in (
            "global (a tenth; test)",
            "global+regression (a tenth; test)",
            "global+regression+level (a tenth; test; beyond the paper)",
        )
    ),
    "ep faster than collapsed",
]


@pytest.mark.slow
def test_quick_run(tmp_path):
    outcome = reproduce("housing", tmp_path, quick=True, progress=False)
    metrics = outcome.tables["metrics"]
    assert set(metrics["method"]) == {*BASELINES, "collapsed", "ep", "corrected"}
    assert metrics[["rmse", "mean_ape", "log_score"]].notna().all(axis=None)
    test = metrics[metrics["sales"] == "test"].groupby("method")["mean_ape"].mean()
    assert test["ep"] < test["global"]
    nmi, index = tmp_path / "housing-nmi.png", tmp_path / "housing-index.png"
    assert shape_of(nmi) == (480, 1260)
    assert {rgb(SAMPLERS[s]["color"]) for s in ("collapsed", "ep", "corrected")} <= colours_in(nmi)
    assert shape_of(index)[1] == 1500
    assert rgb(PALETTE["green"]) in colours_in(index)
    assert [v.claim for v in outcome.verdicts] == CLAIMS
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
    levels = {"collapsed": (100.0, 3), "ep": (ep_rmse, 3), "corrected": (100.0, 3)}
    levels |= dict.fromkeys(BASELINES, (150.0, 1))
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
    assert far["RMSE of all samplers far below global (a tenth; test)"]
    near = {v.claim: v.holds for v in judge(made_up(ep_rmse=148.0), Settings(3))}
    assert not near["RMSE of all samplers far below global (a tenth; test)"]


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
    beside = [[x + 1, y] for x, y in ring]
    tracts = {
        "features": [
            {"properties": {"region": "1"}, "geometry": {"type": "Polygon", "coordinates": [ring]}},
            {
                "properties": {"region": "2"},
                "geometry": {"type": "MultiPolygon", "coordinates": [[beside]]},
            },
        ]
    }
    clusters = pd.DataFrame({"region": [1, 2], "cluster": [0, 1], "certainty": [0.5, 1.0]})
    draw_map(tracts, clusters, tmp_path)
    # Two squares, the larger cluster's colour first, each a good part of the picture; the doubtful
    # one is hatched in black. Both are drawn at an opacity of 0.8 on white.
    assert shape_of(tmp_path / "housing-map.png") == (1140, 960)
    picture = pixels(tmp_path / "housing-map.png").astype(int)
    for colour in COLOURS[:2]:
        shown = 255 + 0.8 * (np.array(rgb(colour)) - 255)
        assert (np.abs(picture - shown).max(axis=2) <= 1).mean() > 0.01, colour
