"""Chains at the defaults with more clusters than there are: time per sweep, and what it buys.

    python benchmarks/blocks.py                        # this checkout
    python benchmarks/blocks.py --against /some/other  # and another one, turn about
    python benchmarks/blocks.py --tables crabs --data /some/folder --kept 3000  # of a CSV file

Per table: processor milliseconds per sweep with its draw recorded, the share of it that moves take,
effective draws of the number of clusters per hundred sweeps and per processor second, those of the
entropy of the clusters' sizes per processor second, and processor
seconds over wall seconds of four chains on two threads. The last is of use on a quiet machine only.
With another checkout the last lines are ratios, medians over the rounds.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import threading
import time
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np

N_CLUSTERS, N_WARMUP, N_CHAINS = 10, 300, 4
NAMES = ("sweep_ms", "moves", "per_100_sweeps", "per_second", "entropy_per_second", "cpu_over_wall")


def table(name, folder):
    """Rows of a table, by name; some are generated, others are measurements of a CSV file."""
    import pandas as pd
    from sklearn.datasets import load_iris, load_wine

    from cavity.datasets import make_student_t, make_table

    if name == "made":
        return make_student_t(340, 4, 4, 5.0, "medium", random_state=11)[0]
    if name == "mixed":
        return make_table(600, 4, n_continuous=4, missing=0.05, random_state=11)[0]
    if name == "diag":
        return make_student_t(600, 4, 6, 5.0, "medium", random_state=11)[0]
    if name == "gaps":
        X = load_iris().data
        return np.where(np.random.default_rng(11).random(X.shape) < 0.2, np.nan, X)
    if name in ("iris", "wine"):
        return {"iris": load_iris, "wine": load_wine}[name]().data
    frame = pd.read_csv(Path(folder) / f"{name}.csv").select_dtypes("number")
    return frame.drop(columns=["year", "index"], errors="ignore").dropna().to_numpy(dtype=float)


def started(name, X, seed):
    """A chain at the defaults that has warmed up, and its generator."""
    from cavity import StudentTMixture, TableMixture
    from cavity.estimators.fitting import moves_for

    kind = TableMixture if name == "mixed" else StudentTMixture
    form = "diag" if name == "diag" else "full"
    plan = kind(N_CLUSTERS, covariance_type=form).check(X).plan
    rng = np.random.default_rng(seed)
    parts = plan.assemble(plan.n_slots)
    parts.collapse.warm_up(N_WARMUP)
    moves = moves_for(parts, plan.anchors(), N_WARMUP, plan.noisy)
    sampler = plan.sampler(parts, plan.start(seed, rng), rng, moves)
    for _ in range(N_WARMUP):
        sampler.sweep(rng)
    return sampler, rng


def run(sampler, rng, n_sweeps):
    """Sweeps with a draw of each; the sizes of clusters, sorted."""
    found = []
    if hasattr(sampler, "advance"):
        while len(found) < n_sweeps:
            length = min(sampler.block_length, n_sweeps - len(found))
            for drawn in sampler.advance(np.ones(length, dtype=bool), rng):
                found += [sizes(z) for z in drawn.labels]
        return found
    for _ in range(n_sweeps):
        sampler.sweep(rng)
        sampler.log_joint()
        sampler.record()
        found.append(sizes(sampler.labels()))
    return found


def sizes(z):
    """Number of clusters, and entropy of their shares."""
    shares = np.bincount(z) / z.size
    shares = shares[shares > 0]
    return shares.size, -(shares * np.log(shares)).sum()


def measure(name, seed, folder, n_kept):
    """What one checkout does on one table."""
    from cavity.posterior.effective import ess

    X = table(name, folder)
    chains = [started(name, X, c + 10 * seed) for c in range(N_CHAINS)]
    before = sum(s.events().get("move_seconds", 0.0) for s, _ in chains)
    numbers, seconds, wall = [], 0.0, 0.0
    for sampler, rng in chains:
        start, clock = time.thread_time(), time.perf_counter()
        numbers.append(run(sampler, rng, n_kept))
        seconds += time.thread_time() - start
        wall += time.perf_counter() - clock
    moves = sum(s.events().get("move_seconds", 0.0) for s, _ in chains) - before
    effective, of_entropy = (float(ess(v)) for v in np.moveaxis(np.array(numbers), 2, 0))
    cpu, clock = time.process_time(), time.perf_counter()
    threads = [
        threading.Thread(
            target=lambda own: [run(*c, n_kept // 3) for c in own], args=[chains[h::2]]
        )
        for h in range(2)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    busy = (time.process_time() - cpu) / (time.perf_counter() - clock)
    n_sweeps = n_kept * N_CHAINS
    values = (1e3 * seconds / n_sweeps, moves / wall, 100 * effective / n_sweeps,
              effective / seconds, of_entropy / seconds, busy)  # fmt: skip
    return dict(zip(NAMES, values, strict=True))


def of_checkout(root, *arguments):
    """`measure` in a process of its own, with the package of a checkout."""
    environment = {**os.environ, "PYTHONPATH": str(Path(root) / "src")}
    command = [sys.executable, "-W", "ignore", __file__, "--one", *map(str, arguments)]
    out = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    return json.loads(out.stdout.splitlines()[-1])


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--against", help="root of another checkout")
    parser.add_argument("--tables", nargs="+", default=["iris", "wine", "made"])
    parser.add_argument("--data", default=".", help="folder of CSV files for other tables")
    parser.add_argument("--kept", type=int, default=1_500, help="sweeps of each chain")
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--one", nargs=4, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        name, seed, folder, n_kept = options.one
        print(json.dumps(measure(name, int(seed), folder, int(n_kept))))
        return
    here = Path(__file__).resolve().parents[1]
    roots = {"here": here} | ({"other": options.against} if options.against else {})
    print(f"{'':16s}" + "".join(f"{name:>20s}" for name in NAMES))
    for name in options.tables:
        rounds = {root: [] for root in roots}
        for seed in range(options.rounds):
            for root, path in roots.items():
                rounds[root].append(
                    [*of_checkout(path, name, seed, options.data, options.kept).values()]
                )
        for root, found in rounds.items():
            values = np.median(found, axis=0)
            print(f"{name:8s}{root:8s}" + "".join(f"{v:20.3f}" for v in values), flush=True)
        if options.against:
            ratio = np.median(np.array(rounds["here"]) / np.array(rounds["other"]), axis=0)
            print(f"{name:8s}{'ratio':8s}" + "".join(f"{v:20.2f}" for v in ratio), flush=True)


if __name__ == "__main__":
    main()
