"""Seconds per sweep of the time series samplers against the number of series (Fig. 4, left)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from cavity.datasets import make_series
from reproduction.harness import Experiment, Settings, Tables, Unit, Verdict
from reproduction.metrics import growth_exponent
from reproduction.runs import warm_up
from reproduction.style import SAMPLERS, figure, markdown_table, save

SIZES = (50, 100, 200, 300, 500, 700, 1000)
LARGE = (3000, 10_000, 30_000, 100_000)
LINEAR = (0.8, 1.2)

METHODS = ("naive", "ep", "collapsed")


def units(settings: Settings) -> list[Unit]:
    """One unit per method and size."""
    sizes: dict[str, tuple[int, ...]] = {
        "naive": SIZES + LARGE[:2],
        "ep": SIZES + LARGE,
        "collapsed": SIZES,
    }
    scale = {"n_times": 200, "n_clusters": 20}
    sweeps = 6
    if settings.quick:
        sizes = dict.fromkeys(METHODS, (10, 20, 40))
        scale, sweeps = {"n_times": 15, "n_clusters": 2}, 3
    return [
        {"method": method, "n_series": n, "trial": trial, **scale, "n_sweeps": sweeps}
        for method in METHODS
        for n in sizes[method]
        for trial in range(settings.trials)
        if trial == 0 or n <= max(SIZES)
    ]


def _chain(unit: Unit, Y: np.ndarray, labels: np.ndarray, n_sweeps: int) -> Any:
    from cavity import SeriesMixture

    return SeriesMixture(
        n_clusters=unit["n_clusters"],
        scales="all",  # as the paper has it: one variance of the states' noise
        df=None,  # likewise: Gaussian noise, and no common factor
        common_factor=False,
        collapse=unit["method"],
        n_chains=1,
        n_warmup=0,
        n_draws=n_sweeps,
        init=labels,
        n_jobs=1,
        random_state=unit["trial"],
        progress=False,
    ).fit(Y)


def run(unit: Unit) -> Tables:
    """Time whole sweeps from the true labels, where the cost per sweep has settled."""
    Y, truth = make_series(
        unit["n_series"], unit["n_times"], unit["n_clusters"], random_state=unit["trial"]
    )
    tiny, small = make_series(2 * unit["n_clusters"], 5, unit["n_clusters"], random_state=0)
    warm_up(unit["method"], lambda: _chain(unit, tiny, small.labels, 2))
    posterior = _chain(unit, Y, truth.labels, unit["n_sweeps"]).posterior_
    # The first sweep touches memory for the first time.
    seconds = np.asarray(posterior.sweep_seconds)[0][1:]
    row = {k: unit[k] for k in ("method", "n_series", "trial")}
    return {"timing": pd.DataFrame([{**row, "seconds_per_sweep": float(np.median(seconds))}])}


def judge(tables: Tables, settings: Settings) -> list[Verdict]:
    """Hold the growth of the cost against the paper's statements."""
    verdicts = []
    for name, part in tables["timing"].groupby("method", sort=False):
        method = str(name)
        cost = part.groupby("n_series")["seconds_per_sweep"].median()
        common = cost[cost.index <= max(SIZES)]
        exponent = growth_exponent(common.index.to_numpy(), common.to_numpy())
        numbers = (
            f"cost grows like N^{exponent:.2f} from N = {common.index[0]} to {common.index[-1]} "
            f"({common.iloc[0]:.3g} to {common.iloc[-1]:.3g} s per sweep)"
        )
        if method == "collapsed":
            verdicts.append(
                Verdict(f"{method} grows faster than linearly", numbers, exponent > LINEAR[1])
            )
            continue
        verdicts.append(
            Verdict(f"{method} grows no faster than linearly", numbers, exponent < LINEAR[1])
        )
        # Below some hundred series the factors' own cost, the same for any N, is most of it.
        large = cost[cost.index >= max(SIZES)]
        if len(large) > 1:
            far = growth_exponent(large.index.to_numpy(), large.to_numpy())
            verdicts.append(
                Verdict(
                    f"{method} grows linearly from N = {large.index[0]:,} to {large.index[-1]:,}",
                    f"N^{far:.2f}; {large.iloc[-1]:.3g} s per sweep at the end",
                    bool(LINEAR[0] < far < LINEAR[1]),
                )
            )
    return verdicts


def report(tables: Tables, settings: Settings, out: Path) -> dict[str, str]:
    """Draw seconds per sweep against the number of series."""
    timing = tables["timing"]
    with figure(1, 2) as (fig, axes):
        for method, part in timing.groupby("method", sort=False):
            cost = part.groupby("n_series")["seconds_per_sweep"].median()
            small = cost[cost.index <= max(SIZES)]
            axes[0, 0].plot(small.index, small, label=method, **SAMPLERS[str(method)], markersize=4)
            axes[0, 1].plot(cost.index, cost, label=method, **SAMPLERS[str(method)], markersize=4)
        axes[0, 0].set(xlabel="number of series", ylabel="seconds per sweep")
        axes[0, 1].set(xlabel="number of series", xscale="log", yscale="log")
        axes[0, 0].legend()
        save(fig, out, "series-scaling")
    table = timing.pivot_table(
        index="n_series", columns="method", values="seconds_per_sweep", aggfunc="median", sort=False
    ).sort_index()
    shown = table.map(lambda v: "" if np.isnan(v) else f"{v:.3g}").reset_index()
    return {"Seconds per sweep": markdown_table(shown)}


DISCUSSION = """\
naive and ep cost the same and grow linearly; with few series the twenty factors' own cost, the same
whatever N, is most of a sweep, so the growth from 50 to 1,000 series is slower than linear. The
exact sampler does whichever of two things is cheaper: filter all of a cluster's series together,
as the paper's does, cubic in their number, or let each series add a quadratic form in the cluster's
whole factor. The second bends the curve back towards linear above some 500 series, at fifty and
more times the cost of ep."""


EXPERIMENT = Experiment(
    name="series-scaling",
    title="Time series: cost of a sweep against the number of series",
    paper="Fig. 4 (left)",
    trials=3,
    units=units,
    run=run,
    judge=judge,
    report=report,
    quick_trials=1,
    discussion=DISCUSSION,
)
