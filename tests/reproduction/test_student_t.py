"""A quick run of the Student-t experiment, and the comparisons it is judged by."""

import numpy as np
import pandas as pd
import pytest
from picture_files import colours_in, rgb, shape_of
from reproduction.comparison import (
    judge_above_per_sweep,
    judge_alike_per_sweep,
    judge_order_per_second,
    judge_peers,
    judge_rises_sooner,
)
from reproduction.runs import log_time_average
from reproduction.student_t import SAMPLERS as COMPARED
from reproduction.student_t import make_data, units
from reproduction.style import SAMPLERS

from reproduction import reproduce


@pytest.mark.slow
def test_quick_run(tmp_path):
    outcome = reproduce("student-t", tmp_path, quick=True, progress=False)
    trace, summary = outcome.tables["trace"], outcome.tables["summary"]
    assert set(trace["sampler"]) == {"naive", "blocked", "ep", "sampled", "sampled+moves"}
    assert trace["nmi"].between(0, 1 + 1e-9).all()
    assert (trace.groupby(["sampler", "trial"])["seconds"].diff().dropna() > 0).all()
    assert summary[["seconds_per_sweep", "test_score", "half_seconds"]].notna().all(axis=None)
    methods = set(outcome.tables["peers"]["method"])
    assert {"cavity", "GaussianMixture", "BayesianGaussianMixture"} <= methods
    lines = {rgb(SAMPLERS[s]["color"]) for s in COMPARED}
    for name in ("student-t-nmi.png", "student-t-ari.png"):
        assert shape_of(tmp_path / name) == (960, 630)
        assert lines <= colours_in(tmp_path / name)
    assert [v.claim for v in outcome.verdicts] == [
        "naive and blocked and ep: NMI per sweep alike (easy)",
        "blocked and ep: NMI per sweep alike (easy)",
        "ep above blocked per second in NMI (easy)",
        "blocked above naive per second in NMI (easy)",
        "ep above naive per second in NMI (easy)",
        "sampled above naive per second in NMI (easy)",
        "sampled above blocked per second in NMI (easy)",
        "sampled above ep per second in NMI (easy)",
        "sampled+moves above sampled per sweep in NMI, in the last quarter (easy)",
        "adjusted Rand above every peer (easy, 0 % outliers)",
        "adjusted Rand above every peer (easy, 10 % outliers)",
    ]


def test_samplers_share_data_and_starts():
    from reproduction.harness import Settings

    chains = [u for u in units(Settings(2, quick=True)) if u["kind"] == "chain" and u["trial"] == 1]
    data = [make_data(u) for u in chains]
    assert len({u["sampler"] for u in chains}) == len(COMPARED)
    assert all(np.array_equal(data[0][0], other[0]) for other in data)
    # Test data are of the same clusters but are other points.
    assert not np.isin(data[0][2], data[0][0]).any()


def traces(values, speed, n_trials=6, noise=0.01):
    """Traces of `values[sampler](sweep)` with noise, at so many seconds per sweep."""
    rng = np.random.default_rng(0)
    rows = [
        {
            "sampler": sampler,
            "trial": trial,
            "sweep": sweep,
            "seconds": sweep * speed[sampler],
            "nmi": curve(sweep) + noise * rng.standard_normal(),
        }
        for sampler, curve in values.items()
        for trial in range(n_trials)
        for sweep in range(1, 101)
    ]
    return pd.DataFrame(rows)


def rise(sweep):
    return 1 - np.exp(-sweep / 20)


def test_verdicts_follow_the_traces():
    same = traces({"ep": rise, "naive": rise}, {"ep": 0.1, "naive": 1.0})
    assert judge_alike_per_sweep(same, ("ep", "naive")).holds
    assert judge_order_per_second(same, "ep", "naive").holds
    assert not judge_order_per_second(same, "naive", "ep").holds
    equal = traces({"ep": rise, "naive": rise}, {"ep": 0.1, "naive": 1.0}, noise=0)
    assert not judge_above_per_sweep(equal, "naive", "ep").holds
    # One that stops lower is not alike, and is below, however fast it is.
    low = traces({"ep": rise, "naive": lambda s: 0.8 * rise(s)}, {"ep": 1.0, "naive": 1.0})
    assert not judge_alike_per_sweep(low, ("ep", "naive")).holds
    assert judge_above_per_sweep(low, "ep", "naive").holds
    assert judge_order_per_second(low, "ep", "naive").holds


def test_log_time_average_of_a_step():
    trace = pd.DataFrame({"sweep": [1, 2], "seconds": [1.0, 4.0], "nmi": [0.2, 0.8]})
    assert log_time_average(trace, "nmi", 1.0, 16.0) == pytest.approx(0.5)
    assert log_time_average(trace, "nmi", 4.0, 16.0) == pytest.approx(0.8)
    assert np.isnan(log_time_average(trace, "nmi", 2.0, 2.0))


def test_peers_are_judged_against_the_best():
    rows = [
        {"separation": "easy", "outliers": 0.0, "trial": t, "method": m, "ari": a}
        for t in range(3)
        for m, a in {"cavity": 0.8, "one": 0.7, "two": 0.75}.items()
    ]
    verdict = judge_peers(pd.DataFrame(rows), "cavity", "separation")[0]
    assert verdict.holds
    assert "+0.050" in verdict.measured
    # A difference within two standard errors is none.
    rows[2]["ari"] = 0.85
    assert not judge_peers(pd.DataFrame(rows), "cavity", "separation")[0].holds
    rows[2]["ari"] = rows[5]["ari"] = rows[8]["ari"] = 0.9
    assert not judge_peers(pd.DataFrame(rows), "cavity", "separation")[0].holds


@pytest.mark.parametrize(("delay", "holds"), [(3, True), (0, False)])
def test_rising_sooner_is_told_from_ending_higher(delay, holds):
    """Two curves to the same level; one is some sweeps later, or is not."""
    rng = np.random.default_rng(0)
    sweeps = np.array([1, 2, 3, 5, 8, 13, 20, 50, 100])
    rows = [
        {"trial": t, "sampler": s, "sweep": n, "seconds": float(n), "nmi": level}
        for t in range(10)
        for s, lag in (("ep", 0), ("naive", delay))
        for n in sweeps
        for level in [n / (n + 4 + 3 * lag) + rng.normal(0, 0.01)]
    ]
    trace = pd.DataFrame(rows)
    assert judge_rises_sooner(trace, "ep", "naive").holds is holds
    assert not judge_rises_sooner(trace, "naive", "ep").holds
