"""Handwritten digits in three dimensions: Student-t samplers and a Gaussian one (Fig. 3).

A quick run takes scikit-learn's own small digits by principal components instead: it needs
neither the download nor PyTorch, and says nothing about MNIST.
"""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from reproduction.comparison import (
    efficiency_section,
    judge_above_per_sweep,
    judge_order_per_second,
    judge_rises_sooner,
    speed_section,
)
from reproduction.harness import Experiment, Settings, Tables, Unit, Verdict
from reproduction.runs import efficiency, paper_prior, random_labels, trace_agreement, warm_up
from reproduction.student_t import draw_traces, sampler_settings
from reproduction.style import PALETTE, figure, save

SAMPLERS = ("naive", "blocked", "ep", "gaussian", "sampled")
N_CLUSTERS = 10
DF = 5.0
N_TEST = 2000


def units(settings: Settings) -> list[Unit]:
    """One unit per chain."""
    size: Unit = {"n": 10_000, "n_sweeps": 300, "data": "mnist"}
    if settings.quick:
        size = {"n": 300, "n_sweeps": 15, "data": "small digits"}
    return [
        {"sampler": sampler, "trial": trial, **size}
        for trial in range(settings.trials)
        for sampler in SAMPLERS
    ]


def prepare(settings: Settings) -> None:
    """Fetch and embed the digits once, before processes need them."""
    if not settings.quick:
        load_embedding("mnist", progress=settings.progress)


@functools.cache
def load_embedding(data: str, *, progress: bool | None = False) -> tuple[np.ndarray, np.ndarray]:
    """Return the three-dimensional points and their digits."""
    if data == "small digits":
        from sklearn.datasets import load_digits
        from sklearn.decomposition import PCA

        images, digits = load_digits(return_X_y=True)
        return PCA(3, random_state=0).fit_transform(images), digits
    from cavity.datasets import fetch_mnist
    from reproduction.vae import embed

    mnist = fetch_mnist()
    embedding = embed(mnist.images, mnist.is_test, progress=progress)
    return embedding.points.astype(float), mnist.labels.astype(int)


def stratified(digits: np.ndarray, n: int, rng: np.random.Generator) -> np.ndarray:
    """Return n positions with each digit's share kept, in random order.

    Examples
    --------
    >>> chosen = stratified(np.repeat([0, 1], [30, 10]), 8, np.random.default_rng(0))
    >>> np.bincount(np.repeat([0, 1], [30, 10])[chosen]).tolist()
    [6, 2]
    """
    shuffled = rng.permutation(len(digits))
    ordered = shuffled[np.argsort(digits[shuffled], kind="stable")]
    # Every (len/n)-th of the sorted digits: each digit gets its share to within one.
    return rng.permutation(ordered[((np.arange(n) + 0.5) * len(digits) / n).astype(int)])


def _chain(unit: Unit, X: np.ndarray, n_sweeps: int) -> Any:
    from cavity import GaussianMixture, StudentTMixture

    common: dict[str, Any] = {
        "n_clusters": N_CLUSTERS,
        **paper_prior(N_CLUSTERS, X.shape[1]),
        "n_chains": 1,
        "n_warmup": 0,
        "n_draws": n_sweeps,
        "init": random_labels(len(X), N_CLUSTERS, [1, unit["trial"]]),
        "n_jobs": 1,
        "random_state": unit["trial"],
        "progress": False,
    }
    if unit["sampler"] == "gaussian":
        return GaussianMixture(collapse="collapsed", options={"moves": False}, **common).fit(X)
    return StudentTMixture(df=DF, **sampler_settings(unit["sampler"]), **common).fit(X)


def run(unit: Unit) -> Tables:
    """Run one chain on a stratified subset."""
    points, digits = load_embedding(unit["data"])
    n_test = min(N_TEST, len(points) - unit["n"])
    chosen = stratified(digits, unit["n"] + n_test, np.random.default_rng([0, unit["trial"]]))
    train, test = chosen[: unit["n"]], chosen[unit["n"] :]
    key = {"sampler": unit["sampler"], "trial": unit["trial"]}
    warm_up(unit["sampler"], lambda: _chain(unit, points[train[:40]], 3))
    model = _chain(unit, points[train], unit["n_sweeps"])
    posterior = model.posterior_
    summary = {
        **key,
        "seconds_per_sweep": float(np.median(np.asarray(posterior.sweep_seconds)[0])),
        "test_score": float(np.mean(model.score_samples(points[test]))),
        **efficiency(posterior),
    }
    trace = trace_agreement(posterior, digits[train], points=40).assign(**key)
    tables = {"trace": trace, "summary": pd.DataFrame([summary])}
    if unit["sampler"] == "ep" and unit["trial"] == 0:
        shown = train[:3000]
        cloud = pd.DataFrame(points[shown], columns=["x", "y", "z"]).round(4)
        tables["embedding"] = cloud.assign(digit=digits[shown])
    return tables


def judge(tables: Tables, settings: Settings) -> list[Verdict]:
    """Hold the paper's statements against the runs."""
    trace = tables["trace"]
    verdicts = []
    for value in ("nmi", "ari"):
        for sampler in ("ep", "blocked"):
            verdicts.append(judge_rises_sooner(trace, sampler, "gaussian", value))
            verdicts.append(judge_above_per_sweep(trace, sampler, "gaussian", value=value))
    speed = tables["summary"].groupby("sampler")["seconds_per_sweep"].median()
    for slower in ("blocked", "naive"):
        ratio = speed[slower] / speed["ep"]
        verdicts.append(
            Verdict(
                f"ep much faster than {slower} per sweep (at least twice)",
                f"{1000 * speed['ep']:.1f} ms against {1000 * speed[slower]:.1f} ms: "
                f"{ratio:.2f} times",
                bool(ratio >= 2),
            )
        )
        verdicts.append(judge_order_per_second(trace, "ep", slower))
    for slower in ("ep", "blocked", "naive"):
        verdicts.append(judge_order_per_second(trace, "sampled", slower))
    return verdicts


def report(tables: Tables, settings: Settings, out: Path) -> dict[str, str]:
    """Draw the embedding and the traces; tabulate speed and efficiency."""
    draw_embedding(tables["embedding"], out)
    for value, label in (("nmi", "NMI"), ("ari", "adjusted Rand")):
        with figure(1, 2, sharey=True) as (fig, axes):
            draw_traces(axes[0], tables["trace"], value, label, SAMPLERS)
            axes[0, 0].legend()
            save(fig, out, f"mnist-{value}")
    return {
        "Seconds per sweep": speed_section(tables["summary"], []),
        "Effective draws per second, and held-out log score": efficiency_section(
            tables["summary"], []
        ),
    }


def draw_embedding(cloud: pd.DataFrame, out: Path) -> None:
    """Draw the points in three dimensions from two sides, in colours and numerals."""
    colours = [*PALETTE.values(), "#8c6d31", "#999999"]
    axis_names = ["x", "y", "z"]
    low, high = cloud[axis_names].quantile(0.005), cloud[axis_names].quantile(0.995)
    with figure(1, 2, width=5.6, height=5.0, subplot_kw={"projection": "3d"}) as (fig, axes):
        for ax, angle in zip(axes[0], (-60, 30), strict=True):
            for digit, part in cloud.groupby("digit"):
                colour = colours[int(str(digit))]
                ax.scatter(
                    part["x"], part["y"], part["z"], s=7, color=colour, alpha=0.6, linewidths=0,
                    depthshade=False,
                )  # fmt: skip
            # After all points: what is drawn later lies on top.
            for name, centre in cloud.groupby("digit")[axis_names].median().iterrows():
                colour = colours[int(str(name))]
                ax.text(
                    *centre,
                    str(name),
                    fontsize=11,
                    fontweight="bold",
                    ha="center",
                    va="center",
                    zorder=1000,
                    bbox={"boxstyle": "circle,pad=0.1", "fc": "white", "ec": colour, "lw": 2},
                )
            for axis, name in zip(axis_names, ("latent 1", "latent 2", "latent 3"), strict=True):
                ax.set(**{f"{axis}label": name, f"{axis}lim": (low[axis], high[axis])})
            ax.view_init(elev=20, azim=angle)
        fig.suptitle("Latent means of digits, from two sides")
        save(fig, out, "mnist-embedding")


DISCUSSION = """\
*sampled* is our exact sampler (`collapse="collapsed"`) with the paper's priors, held. Per sweep ep
rises above the Gaussian mixture sooner, as in the paper; blocked does so by less than two standard
errors. At the end they meet: three latent dimensions with Gaussian noise leave few outliers for
heavy tails to help with, and the difference that the paper shows there is within two standard
errors here. The held-out log score even prefers the Gaussian mixture.

Per second naive is first on the way up: its score is a density in closed form, and its sweep costs
a third of ep's. ep's sweep is now cheaper than blocked's, by half again and not by twice as the
paper has it, and once the chains have settled it has the most effective draws per second of the
log joint density and of the sizes' entropy. sampled costs what ep does and is exact; it is no
faster here."""


EXPERIMENT = Experiment(
    name="mnist",
    title="Handwritten digits: Student-t samplers against a Gaussian mixture",
    paper="Fig. 3",
    trials=10,
    units=units,
    run=run,
    judge=judge,
    report=report,
    prepare=prepare,
    quick_trials=2,
    discussion=DISCUSSION,
)
