"""Whether default fits of ordinary tables converge, how long they take and how right they are.

    python benchmarks/convergence.py                    # seeds that settings may be chosen on
    python benchmarks/convergence.py --fresh            # seeds kept for the figures that are told
    python benchmarks/convergence.py --first 1400       # others again
    python benchmarks/convergence.py --only wine medium --csv fits.csv
    python benchmarks/convergence.py --only medium easy --room 2 --sets 3
    python benchmarks/convergence.py --only wine crabs --noise
    python benchmarks/convergence.py --clusters 10 --sets 0 --bic   # number of clusters not known
    python benchmarks/convergence.py --precision draft --sets 0
    python benchmarks/convergence.py --fresh --told     # no fits: what the groups' names are worth

Real sets: iris, wine, breast cancer, digits (ten principal components), banknote, crabs,
penguins, wine27 and galaxies, each as it is and with 5 and 10 % of outliers; made ones:
make_student_t (K = 20, N = 600, d = 2, df = 5) at three separations, with K given (and, `--room
2`, with twice as many). `StudentTMixture(n_clusters)` and nothing else is set but the seed (and,
with `--noise`, that rows may be outside every cluster). The adjusted Rand index is of the rows with
a known group. The oracle knows the parameters that the made data were drawn with and gives each row
its most probable cluster. Somebody *told* the groups of nine tenths of the rows fits a Student-t to
each (its df known, its matrix drawn towards the true ones' mean) and puts the last tenth to them;
every tenth in turn. Seconds are of fits with compiled kernels, on as many threads as the
machine has: by the clock, and of processor time, which other work on the machine hardly changes.
With `--bic` scikit-learn's GaussianMixture is fitted to the same rows with 1 to 10 components, ten
starts each, and the best by BIC is kept: its processor time and its adjusted Rand index.
"""

from __future__ import annotations

import argparse
import os
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd
from scipy import stats
from sklearn import datasets
from sklearn.decomposition import PCA
from sklearn.metrics import adjusted_rand_score
from sklearn.mixture import GaussianMixture

from cavity import StudentTMixture
from cavity.datasets import add_outliers, fetch_benchmark, make_student_t

SEPARATIONS = ("hard", "medium", "easy")
OUTLIERS = (0.0, 0.05, 0.10)
TUNING, FRESH = 300, 1000
N_MADE = 10
# Galaxies have no known groups; six is what is usually found.
N_GALAXIES = 6


class Case(NamedTuple):
    """A data set, its groups where they are known, and the clusters that a user would ask for."""

    kind: str
    name: str
    X: np.ndarray
    truth: np.ndarray | None
    n_clusters: int
    oracle: float
    seed: int


def _digits() -> tuple[np.ndarray, np.ndarray]:
    X, y = datasets.load_digits(return_X_y=True)
    return PCA(10, random_state=0).fit_transform(X), y


def _of_scikit(load: Callable) -> Callable:
    return lambda: load(return_X_y=True)


def _of_ours(name: str) -> Callable:
    return lambda: fetch_benchmark(name)


REAL: dict[str, Callable] = {
    "iris": _of_scikit(datasets.load_iris),
    "wine": _of_scikit(datasets.load_wine),
    "cancer": _of_scikit(datasets.load_breast_cancer),
    "digits": _digits,
    **{name: _of_ours(name) for name in ("banknote", "crabs", "penguins", "wine27", "galaxies")},
}


def oracle(X: np.ndarray, truth: NamedTuple) -> float:
    """Agreement with the truth of the most probable clusters under the true parameters."""
    scores = [
        stats.multivariate_t(mean, scale, truth.df).logpdf(X)
        for mean, scale in zip(truth.means, truth.scales, strict=True)
    ]
    return adjusted_rand_score(truth.labels, np.argmax(scores, axis=0))


def told_the_groups(X: np.ndarray, truth: NamedTuple, n_folds: int = 10) -> float:
    """Agreement with the truth of rows put to groups that were fitted without them."""
    fold = np.random.default_rng(0).permutation(len(X)) % n_folds
    towards = 3.0 * np.mean(truth.scales, axis=0)
    found = np.empty(len(X), dtype=int)
    for left_out in range(n_folds):
        out = fold == left_out
        scores = []
        for k in range(len(truth.means)):
            mean, scale, n = _fitted_t(X[~out & (truth.labels == k)], truth.df, towards)
            scores.append(stats.multivariate_t(mean, (1 + 1 / n) * scale, truth.df).logpdf(X[out]))
        found[out] = np.argmax(scores, axis=0)
    return adjusted_rand_score(truth.labels, found)


def _fitted_t(rows: np.ndarray, df: float, towards: np.ndarray) -> tuple:
    """Mean and matrix of a Student-t by EM, the matrix as if three rows more had been seen."""
    (n, d), mean, scale = rows.shape, rows.mean(axis=0), np.cov(rows.T)
    for _ in range(60):
        apart = rows - mean
        far = np.einsum("ij,jk,ik->i", apart, np.linalg.inv(scale), apart)
        weight = (df + d) / (df + far)
        mean = weight @ rows / weight.sum()
        apart = rows - mean
        scale = (towards + (weight[:, None] * apart).T @ apart) / (n + 3)
    return mean, scale, n


def tell(first: int, n_made: int) -> None:
    """Print how far below the oracle somebody is who is told the groups."""
    for separation in SEPARATIONS:
        below = []
        for seed in range(first, first + n_made):
            X, truth = make_student_t(600, 20, 2, 5.0, separation, random_state=seed)
            below.append(oracle(X, truth) - told_the_groups(X, truth))
        error = np.std(below, ddof=1) / np.sqrt(n_made)
        print(f"{separation:8s} below the oracle {np.mean(below):.4f} (s.e. {error:.4f})")


def cases(
    first: int,
    only: list[str],
    room: float,
    n_made: int,
    outliers: list[float],
    clusters: int | None = None,
) -> Iterator[Case]:
    """Every data set asked for."""
    for name, load in REAL.items():
        if only and name not in only:
            continue
        X, labels = load()
        X = np.asarray(X, float)
        known = None if labels is None else np.unique(labels, return_inverse=True)[1]
        n_clusters = N_GALAXIES if known is None else int(known.max()) + 1
        for fraction in outliers:
            spoiled = add_outliers(X, fraction, random_state=first)[0] if fraction else X
            kind = f"outliers {fraction:.0%}" if fraction else "real"
            given = clusters or round(room * n_clusters)
            yield Case(kind, f"{name} {fraction:.0%}", spoiled, known, given, np.nan, first)
    for separation in SEPARATIONS:
        if only and separation not in only:
            continue
        for seed in range(first, first + n_made):
            X, truth = make_student_t(600, 20, 2, 5.0, separation, random_state=seed)
            given = clusters or round(room * 20)
            name = f"{separation} {seed}"
            yield Case(separation, name, X, truth.labels, given, oracle(X, truth), seed)


def _processor() -> float:
    now = os.times()
    return now.user + now.system


def fit(case: Case, bic: bool = False, **settings: bool | str) -> dict:
    """One row of the table."""
    start, cpu = time.perf_counter(), _processor()
    model = StudentTMixture(case.n_clusters, random_state=case.seed, progress=False, **settings)
    model.fit(case.X)
    seconds, spent = time.perf_counter() - start, _processor() - cpu

    def ari(labels: np.ndarray) -> float:
        if case.truth is None:
            return np.nan
        return adjusted_rand_score(case.truth, labels[: len(case.truth)])

    peer = best_by_bic(case.X, case.seed) if bic else None
    return {
        "kind": case.kind,
        "name": case.name,
        "n": len(case.X),
        "d": case.X.shape[1],
        "given": case.n_clusters,
        "found": model.n_clusters_,
        "groups": model.n_groups_,
        "ari": ari(model.labels_),
        "ari of groups": ari(model.group_labels_),
        "oracle": case.oracle,
        "converged": model.converged_,
        "sweeps": model.posterior_.record.n_sweeps,
        "aside": len(model.posterior_.record.set_aside),
        "seconds": seconds,
        "processor": spent,
        "bic processor": np.nan if peer is None else peer[1],
        "bic ari": np.nan if peer is None else ari(peer[0]),
        "why": "" if model.converged_ else model.posterior_.diagnostics().sentences[0],
    }


def best_by_bic(X: np.ndarray, seed: int) -> tuple[np.ndarray, float]:
    """Labels of the GaussianMixture with the best BIC, and processor seconds."""
    cpu = _processor()
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    fits = [GaussianMixture(k, n_init=10, random_state=seed).fit(X) for k in range(1, 11)]
    best = min(fits, key=lambda fitted: fitted.bic(X))
    return best.predict(X), _processor() - cpu


def told(rows: pd.DataFrame) -> str:
    """Shares, times and agreement, kind by kind."""
    heads = ("fits", "converged", "median s", "longest s", "processor", "longest", "ARI", "s.e.")
    heads += ("below oracle", "s.e.")
    widths = (6, 11, 10, 11, 11, 9, 8, 7, 14, 7)
    cells = (f"{head:>{width}s}" for head, width in zip(heads, widths, strict=True))
    lines = [" " * 14 + "".join(cells)]
    parts = [*rows.groupby("kind", sort=False), ("all", rows)]
    for kind, part in parts:
        error = part["ari"].std() / np.sqrt(max(part["ari"].count(), 1))
        below = part["oracle"] - part["ari"]
        error_below = below.std() / np.sqrt(max(below.count(), 1))
        lines.append(
            f"{kind:14s}{len(part):6d}{part['converged'].mean():11.2f}"
            f"{part['seconds'].median():10.1f}{part['seconds'].max():11.1f}"
            f"{part['processor'].median():11.1f}{part['processor'].max():9.1f}"
            f"{part['ari'].mean():8.3f}{error:7.3f}{below.mean():14.3f}{error_below:7.3f}"
        )
    return "\n".join(lines)


def main() -> None:
    """Run what is asked for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--fresh", action="store_true", help="seeds on which nothing was chosen")
    parser.add_argument("--first", type=int, help="the first seed, in place of either")
    parser.add_argument("--only", nargs="*", default=[], help="real sets or separations")
    parser.add_argument("--room", type=float, default=1.0, help="clusters given over the true ones")
    parser.add_argument("--clusters", type=int, help="clusters given, whatever the true number")
    parser.add_argument("--precision", choices=("draft", "report"), default="report")
    parser.add_argument("--bic", action="store_true", help="fit GaussianMixture by BIC as well")
    parser.add_argument("--sets", type=int, default=N_MADE, help="made sets of each separation")
    parser.add_argument(
        "--outliers", type=float, nargs="*", default=OUTLIERS, help="shares of them, of real sets"
    )
    parser.add_argument("--noise", action="store_true", help="rows may be outside every cluster")
    parser.add_argument("--told", action="store_true", help="no fits: somebody told the groups")
    parser.add_argument("--csv", type=Path, help="every fit, for a closer look")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    first = FRESH if options.fresh else TUNING
    if options.first is not None:
        first = options.first
    if options.told:
        tell(first, options.sets)
        return
    warm = make_student_t(60, 3, 2, 5.0, "easy", random_state=0)[0]
    settings = {"precision": options.precision} | ({"noise": True} if options.noise else {})
    StudentTMixture(3, random_state=0, progress=False, **settings).fit(warm)  # compiles
    rows = []
    heads = ("n", "d", "K", "found", "groups", "ARI", "groups", "oracle", "sweeps", "aside", "s")
    heads += ("cpu s", "BIC s", "BIC ARI")
    widths = (6, 4, 4, 6, 7, 7, 7, 8, 8, 6, 7, 7, 7, 8)
    pairs = zip(heads, widths, strict=True)
    print(" " * 16 + "".join(f"{head:>{width}s}" for head, width in pairs))
    asked = options.only, options.room, options.sets, options.outliers, options.clusters
    for case in cases(first, *asked):
        row = fit(case, options.bic, **settings)
        rows.append(row)
        print(
            f"{row['name']:16s}{row['n']:6d}{row['d']:4d}{row['given']:4d}{row['found']:6d}"
            f"{row['groups']:7d}{row['ari']:7.3f}{row['ari of groups']:7.3f}{row['oracle']:8.3f}"
            f"{row['sweeps']:8d}{row['aside']:6d}{row['seconds']:7.1f}{row['processor']:7.1f}"
            f"{row['bic processor']:7.1f}{row['bic ari']:8.3f}  {row['why'] or 'converged'}",
            flush=True,
        )
        if options.csv:
            pd.DataFrame(rows).to_csv(options.csv, index=False)
    print("\n" + told(pd.DataFrame(rows)))


if __name__ == "__main__":
    main()
