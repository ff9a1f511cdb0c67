"""Synthetic Student-t clusters: the paper's samplers and ours from the same starts (Fig. 2), peers.

Beyond the paper: the sampler whose scales are drawn with the labels, without and with moves of
whole clusters; effective draws per second, adjusted Rand and held-out log score beside NMI; and a
comparison with other mixtures on the same data with and without added outliers.
"""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from cavity.datasets import SEPARATIONS, add_outliers, make_student_t
from reproduction.comparison import (
    efficiency_section,
    judge_above_per_sweep,
    judge_alike_per_sweep,
    judge_order_per_second,
    judge_peers,
    speed_section,
)
from reproduction.harness import Experiment, Settings, Tables, Unit, Verdict
from reproduction.peers import PEERS, fit_peer
from reproduction.runs import efficiency, paper_prior, random_labels, trace_agreement, warm_up
from reproduction.style import by_sweep, draw_band, figure, markdown_table, on_time_grid, save

PAPER = ("naive", "blocked", "ep")
# Names of ours, and the settings that make them: exact, scales drawn with the labels.
OURS = {
    "sampled": {"collapse": "collapsed", "options": {"moves": False}},
    "sampled+moves": {"collapse": "collapsed", "options": {"moves": True}},
}
SAMPLERS = (*PAPER, *OURS)
OUTLIERS = (0.0, 0.05, 0.1)
N_TEST = 300
PEER_TRIALS = 10


def units(settings: Settings) -> list[Unit]:
    """One unit per chain, and one per peer and data set."""
    size: Unit = {"n": 600, "n_clusters": 20, "dim": 2, "df": 5.0, "n_sweeps": 500}
    separations = list(SEPARATIONS)
    fractions: tuple[float, ...] = OUTLIERS
    if settings.quick:
        size = {**size, "n": 120, "n_clusters": 4, "n_sweeps": 20}
        separations, fractions = ["easy"], (0.0, 0.1)
    chains = [
        {"kind": "chain", "separation": s, "sampler": c, "trial": t, **size}
        for s in separations
        for t in range(settings.trials)
        for c in SAMPLERS
    ]
    installed = [p for p, module in PEERS.items() if importlib.util.find_spec(module)]
    peers = [
        {"kind": "peer", "separation": s, "method": m, "outliers": f, "trial": t, **size}
        for s in separations
        for t in range(min(settings.trials, PEER_TRIALS))
        for f in fractions
        for m in installed
    ]
    return chains + peers


def make_data(unit: Unit) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return training data, their labels, and test data of the same clusters."""
    n = unit["n"]
    X, truth = make_student_t(
        n + N_TEST, unit["n_clusters"], unit["dim"], unit["df"], unit["separation"], unit["trial"]
    )
    return X[:n], truth.labels[:n], X[n:]


def sampler_settings(name: str) -> dict[str, Any]:
    """Settings of `StudentTMixture` that make a sampler; the paper's have no moves."""
    return OURS.get(name, {"collapse": name, "options": {"moves": False}})


def _chain(unit: Unit, X: np.ndarray, n_sweeps: int) -> Any:
    """One chain under a prior that is fixed, as the paper's is."""
    from cavity import StudentTMixture

    return StudentTMixture(
        n_clusters=unit["n_clusters"],
        df=unit["df"],
        **sampler_settings(unit["sampler"]),
        **paper_prior(unit["n_clusters"], X.shape[1]),
        n_chains=1,
        n_warmup=0,
        n_draws=n_sweeps,
        init=random_labels(len(X), unit["n_clusters"], [1, unit["trial"]]),
        n_jobs=1,
        random_state=unit["trial"],
        progress=False,
    ).fit(X)


def run(unit: Unit) -> Tables:
    """Run one chain, or fit one peer."""
    X, truth, X_test = make_data(unit)
    key = {k: unit[k] for k in ("separation", "trial")}
    if unit["kind"] == "peer":
        noisy, is_outlier = add_outliers(X, unit["outliers"], [2, unit["trial"]])
        found = fit_peer(
            unit["method"], noisy, unit["n_clusters"], unit["trial"], X_test, truth, ~is_outlier
        )
        row = {**key, "outliers": unit["outliers"], "method": unit["method"], **found}
        return {"peers": pd.DataFrame([row])}
    key = {**key, "sampler": unit["sampler"]}
    warm_up(unit["sampler"], lambda: _chain(unit, X[: 2 * unit["n_clusters"]], 3))
    model = _chain(unit, X, unit["n_sweeps"])
    posterior = model.posterior_
    summary = {
        **key,
        "seconds_per_sweep": float(np.median(np.asarray(posterior.sweep_seconds)[0])),
        "test_score": float(np.mean(model.score_samples(X_test))),
        **efficiency(posterior),
    }
    trace = trace_agreement(posterior, truth)
    return {"trace": trace.assign(**key), "summary": pd.DataFrame([summary])}


def judge(tables: Tables, settings: Settings) -> list[Verdict]:
    """Hold the paper's statements, and ours, against the runs."""
    verdicts = []
    for name, trace in tables["trace"].groupby("separation", sort=False):
        for alike in (PAPER, ("blocked", "ep")):
            verdicts.append(judge_alike_per_sweep(trace, alike, f" ({name})"))
        orders = [("ep", "blocked"), ("blocked", "naive"), ("ep", "naive")]
        for faster, slower in [*orders, *(("sampled", other) for other in PAPER)]:
            verdicts.append(judge_order_per_second(trace, faster, slower, f" ({name})"))
        verdicts.append(judge_above_per_sweep(trace, "sampled+moves", "sampled", f" ({name})"))
    return verdicts + judge_peers(tables["peers"], "cavity", "separation")


def report(tables: Tables, settings: Settings, out: Path) -> dict[str, str]:
    """Draw NMI against sweep and seconds; tabulate speed, efficiency, scores and peers."""
    trace = tables["trace"]
    names = list(trace["separation"].unique())
    for value, label in (("nmi", "NMI"), ("ari", "adjusted Rand")):
        with figure(2, len(names), sharey="col") as (fig, axes):
            for j, name in enumerate(names):
                part = trace[trace["separation"] == name]
                draw_traces(axes[:, j], part, value, label, SAMPLERS)
                axes[0, j].set_title(f"{name} separation")
            axes[0, 0].legend()
            save(fig, out, f"student-t-{value}")
    peers = tables["peers"]
    table = peers.pivot_table(
        index=["separation", "outliers"], columns="method", values="ari", sort=False
    )
    scores = peers.pivot_table(
        index=["separation", "outliers"], columns="method", values="test_score", sort=False
    )
    return {
        "Seconds per sweep": speed_section(tables["summary"], ["separation"]),
        "Effective draws per second, and held-out log score": efficiency_section(
            tables["summary"], ["separation"]
        ),
        "Adjusted Rand on the original points, by share of added outliers": markdown_table(
            table.map("{:.3f}".format).reset_index()
        ),
        "Held-out log score of clean test points": markdown_table(
            scores.map("{:.3f}".format).reset_index()
        ),
    }


def draw_traces(
    axes: Any, trace: pd.DataFrame, value: str, label: str, samplers: tuple[str, ...]
) -> None:
    """Draw a trace against the sweep (upper axes) and the clock (lower axes)."""
    grid = np.geomspace(trace["seconds"].min(), trace["seconds"].max(), 200)
    for sampler in samplers:
        one = trace[trace["sampler"] == sampler]
        draw_band(axes[0], *by_sweep(one, value), sampler)
        values = on_time_grid(one, value, grid)
        # Trials end at different times; a mean over the few that go on would jump.
        shown = (~np.isnan(values)).mean(axis=0) > 0.5
        draw_band(axes[1], grid[shown], values[:, shown], sampler)
    for ax, unit in zip(axes, ("sweep", "seconds"), strict=True):
        ax.set(xscale="log", xlabel=unit, ylabel=label)
        # Labels between the powers of ten run into each other on a short axis.
        ax.xaxis.set_minor_formatter("")


DISCUSSION = """\
*sampled* is our exact sampler (`collapse="collapsed"`: each row's own scale is integrated out of
its label and then drawn), *sampled+moves* the same with moves of whole clusters. All chains have
the priors of the paper, known and held.

Per sweep ep and blocked rise first and all end at the same level. naive needs more sweeps on the
way, so "alike" does not hold by our measure (mean traces within 0.05 of each other from the tenth
sweep on); between ep and blocked it does. With moves the last quarter is higher where clusters can
be told apart (medium, easy): some chains leave what they had settled in.

Per second the paper's order is ep, blocked, naive. In our hands naive comes first: its score is a
density in closed form, and its sweep costs a quarter of the others'. So it has the most effective
draws per second too, as long as number and priors of the clusters are known and chains start and
stay in the right mode. What it lacks shows where they are not: `benchmarks/effective.py` compares
the defaults, which learn all of it. ep is no longer dearer than blocked where clusters are apart.

Beyond the paper, `StudentTMixture` with its defaults (which learn the scale of the covariances and
the degrees of freedom; the chains above have both fixed) against EM and variational mixtures: it is
above every peer in every setting, by more than four standard errors, and 5 % or 10 % of uniform
outliers cost it next to nothing."""


EXPERIMENT = Experiment(
    name="student-t",
    title="Student-t clusters: naive, blocked and EP samplers from the same starts",
    paper="Fig. 2",
    trials=25,
    units=units,
    run=run,
    judge=judge,
    report=report,
    quick_trials=2,
    discussion=DISCUSSION,
)
