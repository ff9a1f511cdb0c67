"""Which loss behind ``labels_`` recovers known groups best, from the same draws.

    python benchmarks/losses.py                            # the tuning seeds
    python benchmarks/losses.py --seeds 400 401 --draws /tmp/fresh   # others; keeps the draws

Sets: make_student_t (K = 20, N = 600, d = 2, df = 5, three separations), and iris, wine, breast
cancer, banknote, crabs, penguins and wine27 as they are and with 5 and 10 % of outliers. The number
of clusters given is the true one (`--room 2`: twice as many, and so on). Classics without outliers
do not depend on the seed and are fitted once. Prints the mean adjusted Rand index on the rows with
a known group, and the number of clusters over the true one; with the draws kept, other losses cost
seconds.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
from sklearn import datasets
from sklearn.metrics import adjusted_rand_score

from cavity import Posterior, StudentTMixture
from cavity.datasets import add_outliers, fetch_benchmark, make_student_t
from cavity.posterior import Loss

SEPARATIONS = ("hard", "medium", "easy")
OUTLIERS = (0.0, 0.05, 0.10)
LOSSES = (
    *(Loss("vi", a) for a in (0.6, 0.8, 1.0, 1.2)),
    *(Loss("binder", a) for a in (0.8, 1.0, 1.2)),
    Loss("omari"),
)
SETTINGS = {"collapse": "collapsed", "concentration": "learn"}


class Case(NamedTuple):
    """A data set whose groups are known, of its first rows at least."""

    group: str
    name: str
    X: np.ndarray
    truth: np.ndarray
    seed: int


def _classics() -> dict[str, Callable[[], tuple]]:
    def of_scikit(load):
        return lambda: load(return_X_y=True)

    def of_ours(name):
        return lambda: fetch_benchmark(name)

    return {
        "iris": of_scikit(datasets.load_iris),
        "wine": of_scikit(datasets.load_wine),
        "cancer": of_scikit(datasets.load_breast_cancer),
        **{name: of_ours(name) for name in ("banknote", "crabs", "penguins", "wine27")},
    }


def cases(seeds: list[int], only: list[str]) -> Iterator[Case]:
    """Every data set asked for."""
    for separation in SEPARATIONS:
        for seed in seeds:
            X, truth = make_student_t(600, 20, 2, 5.0, separation, random_state=seed)
            if not only or separation in only:
                yield Case(separation, f"{separation}-{seed}", X, truth.labels, seed)
    for name, load in _classics().items():
        if only and name not in only:
            continue
        X, labels = load()
        X, truth = np.asarray(X, float), np.unique(labels, return_inverse=True)[1]
        for fraction in OUTLIERS:
            for seed in seeds[:4] if fraction else seeds[:1]:
                spoiled = add_outliers(X, fraction, random_state=seed)[0]
                yield Case(
                    f"{name} {fraction:.0%}", f"{name}-{fraction:g}-{seed}", spoiled, truth, seed
                )


def drawn(case: Case, settings: dict, folder: Path | None) -> Posterior:
    """Draws of a fit, from the folder where they are there already."""
    key = json.dumps({**settings, "seed": case.seed}, sort_keys=True)
    digest = hashlib.sha256(key.encode() + case.X.tobytes()).hexdigest()[:12]
    path = None if folder is None else folder / f"{case.name}-{digest}.nc"
    if path is not None and path.exists():
        return Posterior.load(path)
    model = StudentTMixture(**settings, random_state=case.seed, progress=False).fit(case.X)
    if path is not None:
        model.save(path)
    return model.posterior_


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, nargs="*", default=list(range(300, 306)))
    parser.add_argument("--only", nargs="*", default=[], help="separations or classics")
    parser.add_argument("--room", type=float, default=1.0, help="clusters given over the true ones")
    parser.add_argument("--draws", type=Path, help="folder to keep draws in")
    options = parser.parse_args()
    if options.draws is not None:
        options.draws.mkdir(parents=True, exist_ok=True)
    warnings.simplefilter("ignore")
    head = [f"{loss.name} {loss.a:g}" for loss in LOSSES]
    print(f"{'':16s}" + "".join(f"{name:>13s}" for name in head) + f"{'draws':>8s}", flush=True)
    found: dict[str, list[list[tuple[float, float]]]] = {}
    mean_draw: dict[str, list[float]] = {}
    for case in cases(options.seeds, options.only):
        n_true = len(np.unique(case.truth))
        settings = {**SETTINGS, "n_clusters": round(options.room * n_true)}
        p = drawn(case, settings, options.draws)
        known = len(case.truth)
        row = []
        for loss in LOSSES:
            labels = p.partition(loss).labels[:known]
            n_found = len(np.unique(labels))
            row.append((adjusted_rand_score(case.truth, labels), n_found / n_true))
        few = p.flat_labels[:: max(1, len(p.flat_labels) // 100), :known]
        mean_draw.setdefault(case.group, []).append(
            float(np.mean([adjusted_rand_score(case.truth, z) for z in few]))
        )
        found.setdefault(case.group, []).append(row)
        if len(found[case.group]) == _expected(case, options.seeds):
            _show(case.group, np.array(found[case.group]), np.mean(mean_draw[case.group]))
    tables = {group: np.array(rows).mean(axis=0) for group, rows in found.items()}
    for words, chosen in (
        ("synthetic", [g for g in tables if g in SEPARATIONS]),
        ("real", [g for g in tables if g not in SEPARATIONS]),
        ("all", list(tables)),
    ):
        if chosen:
            draws = np.mean([np.mean(mean_draw[g]) for g in chosen])
            _show(words, np.array([tables[g] for g in chosen]), draws)


def _expected(case: Case, seeds: list[int]) -> int:
    if case.group in SEPARATIONS:
        return len(seeds)
    return 1 if case.group.endswith(" 0%") else len(seeds[:4])


def _show(words: str, rows: np.ndarray, draws: float) -> None:
    """Mean index, and in brackets the number of clusters over the true one."""
    mean = rows.mean(axis=0)
    cells = "".join(f"{f'{ari:.3f} ({k:.2f})':>13s}" for ari, k in mean)
    print(f"{words:16s}{cells}{draws:8.3f}", flush=True)


if __name__ == "__main__":
    main()
