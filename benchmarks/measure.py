"""The measurements of the benchmarks' page: speed, memory, start and accuracy beside peers.

Each section yields rows of (case, method, measure, value, unit), and takes a minute or two.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np

Row = tuple[str, str, str, float, str]
SHAPES = ((600, 20, 2), (10_000, 10, 3), (2_000, 20, 10))
# Seeds of the made data, on which nothing was ever chosen; and how long a fit may go on.
SEEDS = (9_001, 9_002)
MAX_SWEEPS = 6_000


def start() -> Iterator[Row]:
    """First fits on a new machine, and first sweeps of later processes."""
    from benchmarks.first_fit import HERE, first_and_later, one_process, with_kernels

    with with_kernels() as wheel, tempfile.TemporaryDirectory() as empty:
        for kind in ("student-t", "gaussian", "series"):
            one_process(wheel, kind, empty)  # Python compiles the text of the copy
            shipped = one_process(wheel, kind, empty)
            first, later = first_and_later(HERE, kind)
            yield kind, "cavity", "first fit, kernels in the wheel", shipped["wall"], "s"
            yield kind, "cavity", "first fit, from the sources", first["wall"], "s"
            yield kind, "cavity", "later: to the first sweep", later["sweep"], "s"
    yield "imports", "scikit-learn", "alone", _import_seconds("sklearn.base"), "s"


def _import_seconds(module: str) -> float:
    """What a new process takes to import a module, less what it takes to import nothing."""
    took = []
    for code in ("", f"import {module}"):
        began = time.perf_counter()
        subprocess.run([sys.executable, "-c", code], check=True)
        took.append(time.perf_counter() - began)
    return took[1] - took[0]


def speed() -> Iterator[Row]:
    """A whole sweep of the defaults beside one EM iteration, turn about, one thread."""
    from sklearn.mixture import GaussianMixture as EM
    from threadpoolctl import threadpool_limits

    from benchmarks.mixtures import WARM_UP, em_iteration, start_chain, whole_sweep
    from cavity import GaussianMixture, StudentTMixture

    for n, k, d in SHAPES:
        case = f"{n:,} x {d}, K = {k}"
        for kind in (StudentTMixture, GaussianMixture):
            with threadpool_limits(1):
                y, sampler, rng = start_chain(n, k, d, kind)
                peer = EM(k, max_iter=2, random_state=0).fit(y)
                for _ in range(WARM_UP):
                    sampler.sweep(rng)
                repeats = max(3, 3000 // n)
                rounds = []
                for _ in range(9):
                    ours = np.mean([whole_sweep(sampler, rng) for _ in range(repeats)])
                    rounds.append((ours, np.mean([em_iteration(peer, y) for _ in range(repeats)])))
            ours, theirs = np.median(rounds, axis=0)
            ratio = np.median([a / b for a, b in rounds])
            yield case, kind.__name__, "one sweep", ours * 1e3, "ms"
            yield case, kind.__name__, "sweep over EM iteration", ratio, ""
        yield case, "EM, scikit-learn", "one iteration", theirs * 1e3, "ms"


def memory() -> Iterator[Row]:
    """Peak memory of a fit of a million rows in three columns, beyond data and code."""
    from benchmarks.mixtures import bytes_per_row

    yield "1,000,000 x 3", "StudentTMixture", "beyond data and code, per row", bytes_per_row(), "B"


def _sets() -> dict[str, list[tuple[np.ndarray, np.ndarray, int]]]:
    from sklearn.datasets import load_iris, load_wine

    from cavity.datasets import add_outliers, make_student_t

    def spoiled(X: np.ndarray, y: np.ndarray, seed: int) -> tuple[np.ndarray, np.ndarray, int]:
        return add_outliers(X, fraction=0.1, random_state=seed)[0], y, len(set(y))

    iris, wine = load_iris(return_X_y=True), load_wine(return_X_y=True)
    made = []
    for seed in SEEDS:
        X, truth = make_student_t(400, 5, 2, 5.0, "easy", random_state=seed)
        made.append((X, truth.labels))
    return {
        "iris": [(*iris, 3)],
        "iris, 10% outliers": [spoiled(*iris, seed) for seed in SEEDS],
        "wine": [(*wine, 3)],
        "wine, 10% outliers": [spoiled(*wine, seed) for seed in SEEDS],
        "five Student-t groups": [(X, y, 5) for X, y in made],
        "five Student-t groups, 10% outliers": [
            spoiled(X, y, seed) for seed, (X, y) in zip(SEEDS, made, strict=True)
        ],
    }


def _methods() -> dict[str, Any]:
    from sklearn.cluster import HDBSCAN, KMeans
    from sklearn.mixture import GaussianMixture as EM

    from cavity import StudentTMixture

    return {
        "cavity": lambda X, S, k: (
            StudentTMixture(k + 2, random_state=0, max_sweeps=MAX_SWEEPS).fit(X).labels_
        ),
        "EM": lambda X, S, k: EM(k, n_init=10, random_state=0).fit_predict(S),
        "k-means": lambda X, S, k: KMeans(k, n_init=10, random_state=0).fit_predict(S),
        "HDBSCAN": lambda X, S, k: HDBSCAN(min_cluster_size=10, copy=True).fit_predict(S),
    }


def accuracy() -> Iterator[Row]:
    """Adjusted Rand index on the rows with a known group, and seconds of a fit."""
    from sklearn.metrics import adjusted_rand_score
    from sklearn.preprocessing import StandardScaler

    for case, sets in _sets().items():
        for name, label in _methods().items():
            scores, seconds = [], []
            for X, y, k in sets:
                scaled = StandardScaler().fit_transform(X)
                began = time.perf_counter()
                labels = label(X, scaled, k)[: len(y)]
                seconds.append(time.perf_counter() - began)
                scores.append(adjusted_rand_score(y, labels))
            yield case, name, "adjusted Rand index", float(np.mean(scores)), ""
            yield case, name, "one fit", float(np.mean(seconds)), "s"


SECTIONS = {"start": start, "speed": speed, "memory": memory, "accuracy": accuracy}


def measure(section: str) -> Iterator[tuple[str, *Row]]:
    """Rows of a section."""
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for row in SECTIONS[section]():
            yield (section, *row)
