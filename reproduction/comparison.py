"""Verdicts and tables that compare samplers, shared by the experiments.

A difference counts when its mean over trials exceeds two standard errors (trials are paired: same
data, same start). "Alike" is a matter of size, not of significance: within `ALIKE`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from reproduction.harness import Verdict
from reproduction.metrics import paired
from reproduction.runs import log_time_average
from reproduction.style import by_sweep, markdown_table

ALIKE = 0.05
SETTLED = 10
CLEAR = 2.0
NAMES = {"nmi": "NMI", "ari": "adjusted Rand", "log_likelihood": "log likelihood"}


def final_values(trace: pd.DataFrame, value: str) -> pd.DataFrame:
    """Return the mean of the last quarter of the recorded sweeps: trials by samplers."""
    last = trace["sweep"] > 0.75 * trace.groupby(["sampler", "trial"])["sweep"].transform("max")
    return trace[last].groupby(["trial", "sampler"])[value].mean().unstack("sampler")


def judge_alike_per_sweep(
    trace: pd.DataFrame, samplers: Sequence[str], where: str = "", value: str = "nmi"
) -> Verdict:
    """Judge whether the mean traces of the samplers stay within `ALIKE` of each other.

    The first `SETTLED` sweeps are left out: there, one sweep more or less makes the difference.
    """
    means = {}
    for sampler in samplers:
        sweeps, values = by_sweep(trace[trace["sampler"] == sampler], value)
        means[sampler] = pd.Series(np.nanmean(values, axis=0), index=sweeps)
    table = pd.DataFrame(means).dropna()
    late = table[table.index >= min(SETTLED, table.index.max())]
    gap = (late.max(axis=1) - late.min(axis=1)).max()
    finals = ", ".join(f"{s} {table[s].iloc[-1]:.3f}" for s in samplers)
    return Verdict(
        f"{' and '.join(samplers)}: {NAMES[value]} per sweep alike{where}",
        f"largest gap between mean traces from sweep {late.index[0]} on: {gap:.3f}; at the last "
        f"sweep {finals}",
        bool(gap < ALIKE),
    )


def judge_above_per_sweep(
    trace: pd.DataFrame, better: str, worse: str, where: str = "", value: str = "nmi"
) -> Verdict:
    """Judge whether one sampler ends above another, in the last quarter of the sweeps both have."""
    common = trace.groupby("sampler")["sweep"].max()[[better, worse]].min()
    finals = final_values(trace[trace["sweep"] <= common], value)
    difference = paired(finals[better], finals[worse])
    return Verdict(
        f"{better} above {worse} per sweep in {NAMES[value]}, in the last quarter{where}",
        f"{finals[better].mean():.3f} against {finals[worse].mean():.3f}; difference "
        f"{difference.mean:+.3f} (s.e. {difference.error:.3f}, {difference.n} trials)",
        bool(difference.mean > 0 and difference.score > CLEAR),
    )


def judge_rises_sooner(trace: pd.DataFrame, better: str, worse: str, value: str = "nmi") -> Verdict:
    """Judge whether one sampler's trace lies above another's on the way, over log sweeps."""
    averages = {}
    for sampler in (better, worse):
        trials = trace[trace["sampler"] == sampler].groupby("trial")
        averages[sampler] = [
            log_time_average(one.assign(seconds=one["sweep"]), value, 1, one["sweep"].max())
            for _, one in trials
        ]
    difference = paired(averages[better], averages[worse])
    return Verdict(
        f"{better} rises above {worse} sooner per sweep in {NAMES[value]}",
        f"averaged over log sweeps {np.nanmean(averages[better]):.3f} against "
        f"{np.nanmean(averages[worse]):.3f}; difference {difference.mean:+.3f} (s.e. "
        f"{difference.error:.3f}, {difference.n} trials)",
        bool(difference.mean > 0 and difference.score > CLEAR),
    )


def judge_order_per_second(
    trace: pd.DataFrame, faster: str, slower: str, where: str = "", value: str = "nmi"
) -> Verdict:
    """Judge whether one sampler is above another when both are followed by the clock.

    Both traces are averaged over the logarithm of time, from the end of the slower one's first
    sweep to the time at which the first of the two stops.
    """
    averages: dict[str, list[float]] = {faster: [], slower: []}
    pair = trace[trace["sampler"].isin([faster, slower])]
    for _, trial in pair.groupby("trial"):
        clocks = trial.groupby("sampler")["seconds"]
        low, high = clocks.min().max(), clocks.max().min()
        for sampler, values in averages.items():
            part = trial[trial["sampler"] == sampler]
            averages[sampler] = [*values, log_time_average(part, value, low, high)]
    difference = paired(averages[faster], averages[slower])
    ends = pair[pair["sweep"] == pair.groupby("sampler")["sweep"].transform("max")]
    per_sweep = (ends["seconds"] / ends["sweep"]).groupby(ends["sampler"]).mean()
    return Verdict(
        f"{faster} above {slower} per second in {NAMES[value]}{where}",
        f"averaged over log time {np.nanmean(averages[faster]):.3f} against "
        f"{np.nanmean(averages[slower]):.3f}; difference {difference.mean:+.3f} (s.e. "
        f"{difference.error:.3f}, {difference.n} trials); seconds per sweep "
        f"{per_sweep[faster]:.2g} against {per_sweep[slower]:.2g}",
        bool(difference.mean > 0 and difference.score > CLEAR),
    )


def judge_peers(peers: pd.DataFrame, ours: str, by: str) -> list[Verdict]:
    """Judge whether our mean adjusted Rand is above each peer's, by share of outliers."""
    verdicts = []
    key: Any
    for key, part in peers.groupby([by, "outliers"], sort=False):
        setting, outliers = key[0], 100 * float(key[1])
        wide = part.pivot(index="trial", columns="method", values="ari")
        others = [m for m in wide.columns if m != ours]
        best = wide[others].mean().idxmax()
        difference = paired(wide[ours], wide[best])
        numbers = ", ".join(f"{m} {wide[m].mean():.3f}" for m in [ours, *others])
        verdicts.append(
            Verdict(
                f"adjusted Rand above every peer ({setting}, {outliers:.0f} % outliers)",
                f"{numbers}; difference to the best peer {difference.mean:+.3f} (s.e. "
                f"{difference.error:.3f}, {difference.n} trials)",
                bool(difference.mean > 0 and difference.score > CLEAR),
            )
        )
    return verdicts


def speed_section(summary: pd.DataFrame, by: list[str]) -> str:
    """Return a table of milliseconds per sweep by sampler."""
    table = summary.pivot_table(
        index=by or None,
        columns="sampler",
        values="seconds_per_sweep",
        aggfunc="median",
        sort=False,
    )
    table = (1000 * table).map(lambda v: f"{_rounded(v)} ms")
    return markdown_table(table.reset_index() if by else table)


def _rounded(value: float) -> str:
    """Three digits; a dash for what is not defined."""
    if np.isnan(value):
        return "–"
    return f"{value:.3g}" if value < 999.5 else f"{value:.0f}"


def efficiency_section(summary: pd.DataFrame, by: list[str]) -> str:
    """Return a table of effective draws per second (medians over trials) and mean scores."""
    rates = summary.copy()
    names = {
        "ess_log_joint": "log joint, 1/s",
        "ess_entropy": "entropy of sizes, 1/s",
        "ess_pairs": "pairs together, 1/s",
    }
    for column, label in names.items():
        rates[label] = rates[column] / rates["half_seconds"]
    groups = rates.groupby([*by, "sampler"], sort=False)
    table = groups[list(names.values())].median().map(_rounded)
    if "test_score" in rates:
        table["held-out log score"] = groups["test_score"].mean().map(lambda v: f"{v:.3f}")
    return markdown_table(table.reset_index())
