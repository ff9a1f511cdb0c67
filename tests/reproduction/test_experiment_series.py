"""Quick runs of the time series experiments, and their verdicts on made-up results."""

import numpy as np
import pandas as pd
import pytest
from picture_files import colours_in, rgb, shape_of
from reproduction.harness import Settings
from reproduction.style import SAMPLERS
from scipy import stats

from reproduction import reproduce, series_scaling
from reproduction import series as series_module

CLAIMS = [
    "collapsed and ep: NMI per sweep alike",
    "collapsed and corrected: NMI per sweep alike",
    "collapsed above naive per sweep in NMI, in the last quarter",
    "ep above naive per sweep in NMI, in the last quarter",
    "collapsed above naive per sweep in log likelihood, in the last quarter",
    "ep above naive per sweep in log likelihood, in the last quarter",
    "ep above collapsed per second in NMI",
    "ep above naive per second in NMI",
    "corrected above collapsed per second in NMI",
    "ep above collapsed per second in log likelihood",
    "ep above naive per second in log likelihood",
    "corrected above collapsed per second in log likelihood",
    "posterior of the mean a alike for ep and collapsed",
    "posterior of the mean |λ| alike for ep and collapsed",
    "posterior of the mean σ²y alike for ep and collapsed",
    "posterior of the mean σ²x alike for ep and collapsed",
]


@pytest.mark.slow
def test_quick_series(tmp_path):
    outcome = reproduce("series", tmp_path, quick=True, progress=False)
    trace = outcome.tables["trace"]
    assert set(trace["sampler"]) == {"naive", "collapsed", "ep", "corrected"}
    columns = ["nmi", "log_likelihood", "mse_a", "mse_x", "mse_loading", "mse_var_y"]
    assert np.isfinite(trace[columns]).all(axis=None)
    # The states are followed far better than their own variance after a few sweeps.
    late = trace[trace["sweep"] == trace["sweep"].max()]
    assert late["mse_x"].median() < 0.8
    assert outcome.tables["summary"]["test_score"].between(-4, 0).all()
    lines = {rgb(SAMPLERS[s]["color"]) for s in series_module.SAMPLERS}
    for name, (rows, columns, width) in {
        "series-traces": (2, 3, 4.2),
        "series-errors": (1, 4, 3.2),
    }.items():
        assert shape_of(tmp_path / f"{name}.png") == (480 * rows, round(150 * width) * columns)
        assert lines <= colours_in(tmp_path / f"{name}.png")
    # Boxes are half transparent, on white.
    boxes = {tuple((v + 255) // 2 for v in rgb(SAMPLERS[s]["color"])) for s in ("collapsed", "ep")}
    found = colours_in(tmp_path / "series-boxes.png")
    assert all(any(np.abs(np.subtract(b, f)).max() <= 1 for f in found) for b in boxes)
    assert [v.claim for v in outcome.verdicts] == CLAIMS


def test_held_out_score_is_a_mixture_over_draws():
    Y, held_out = np.array([[1.0, 5.0]]), np.array([[True, False]])
    trend = np.array([[[0.0, 9.0]], [[1.0, 9.0]]])
    got = series_module.held_out_score(Y, held_out, trend, np.array([[1.0], [4.0]]))
    density = 0.5 * (stats.norm.pdf(1.0) + stats.norm.pdf(0.0, scale=2.0))
    assert got == pytest.approx(np.log(density))


@pytest.mark.slow
def test_quick_scaling(tmp_path):
    outcome = reproduce("series-scaling", tmp_path, quick=True, progress=False)
    timing = outcome.tables["timing"]
    assert set(timing["method"]) == set(series_scaling.METHODS)
    assert (timing["seconds_per_sweep"] > 0).all()
    lines = {rgb(SAMPLERS[m]["color"]) for m in series_scaling.METHODS}
    assert lines <= colours_in(tmp_path / "series-scaling.png")
    assert shape_of(tmp_path / "series-scaling.png") == (480, 1260)


def test_scaling_verdicts_follow_the_growth():
    rows = [
        {"method": method, "n_series": n, "trial": 0, "seconds_per_sweep": n**power}
        for method, power in {"naive": 1.0, "ep": 0.5, "collapsed": 2.5}.items()
        for n in (50, 100, 1000, 10_000)
    ]
    verdicts = {
        v.claim: v.holds for v in series_scaling.judge({"timing": pd.DataFrame(rows)}, Settings(1))
    }
    assert verdicts == {
        "naive grows no faster than linearly": True,
        "naive grows linearly from N = 1,000 to 10,000": True,
        "ep grows no faster than linearly": True,
        "ep grows linearly from N = 1,000 to 10,000": False,
        "collapsed grows faster than linearly": True,
    }


@pytest.mark.parametrize(
    ("shift", "scale", "holds"), [(0.2, 1.0, True), (3.0, 1.0, False), (0.2, 4.0, False)]
)
def test_posteriors_are_compared_in_their_own_spread(shift, scale, holds):
    rng = np.random.default_rng(0)
    rows = [
        {"trial": t, "sampler": s, "a": shift * (s == "ep") + (scale if s == "ep" else 1) * v}
        for t in range(4)
        for s in ("ep", series_module.SETTLED)
        for v in rng.standard_normal(400)
    ]
    assert series_module.judge_posteriors(pd.DataFrame(rows), "a").holds is holds
