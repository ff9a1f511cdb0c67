"""Effective draws per second of the default sampler, beside the paper's three.

    python benchmarks/effective.py                    # both sizes, data of seed 0 (for choosing)
    python benchmarks/effective.py --seeds 901 902    # fresh data, for a report
    python benchmarks/effective.py --sizes 600        # one size

Four chains of each sampler at the defaults of the estimator, from its own dispersed starts. Seconds
are processor time of whole sweeps, moves and learned priors included, after a warm-up that is not
counted; a draw is kept of every sweep. Effective draws are rank-normalised, over all chains, so
that chains which do not meet count for little. Pairs are those of rows and neighbours whose chance
to share a cluster is between .05 and .95 by the draws of all samplers, at most a hundred, and the
median of them counts.
"""

from __future__ import annotations

import argparse
import os
import time
import warnings

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np
from threadpoolctl import threadpool_limits

from cavity import StudentTMixture
from cavity.datasets import make_student_t
from cavity.estimators.fitting import moves_for
from cavity.posterior.effective import ess

SAMPLERS = ("collapsed", "ep", "blocked", "naive")
QUANTITIES = ("log joint", "entropy", "pairs")
# Rows: clusters, columns, sweeps of warm-up and sweeps kept.
SHAPES = {600: (20, 2, 400, 1500), 10_000: (10, 3, 200, 300)}
N_CHAINS = 4
MOST_PAIRS = 100


def chains(y, n_clusters, collapse, n_warmup, n_kept, seed):
    """Labels and log joint densities of all chains, and the seconds of the kept sweeps."""
    plan = StudentTMixture(n_clusters, collapse=collapse).check(y).plan
    anchors = plan.anchors()
    labels = np.empty((N_CHAINS, n_kept, len(y)), dtype=np.int16)
    log_joint = np.empty((N_CHAINS, n_kept))
    seconds = 0.0
    for chain in range(N_CHAINS):
        rng = np.random.default_rng([seed, chain])
        parts = plan.assemble(plan.n_slots)
        parts.collapse.warm_up(n_warmup)
        moves = moves_for(parts, anchors, n_warmup)
        sampler = plan.sampler(parts, plan.start(chain, rng), rng, moves)
        for _ in range(n_warmup):
            sampler.sweep(rng)
        for draw in range(n_kept):
            start = time.thread_time()
            sampler.sweep(rng)
            seconds += time.thread_time() - start
            labels[chain, draw] = sampler.labels()
            log_joint[chain, draw] = sampler.log_joint()
    return labels, log_joint, seconds


def entropies(labels):
    """Entropy of the clusters' shares in every draw."""
    n = labels.shape[2]
    out = np.empty(labels.shape[:2])
    for place in np.ndindex(out.shape):
        shares = np.bincount(labels[place]) / n
        shares = shares[shares > 0]
        out[place] = -(shares * np.log(shares)).sum()
    return out


def doubtful_pairs(y, drawn, rng):
    """Rows with a neighbour each, of which it is in doubt whether they share a cluster."""
    from sklearn.neighbors import NearestNeighbors

    near = NearestNeighbors(n_neighbors=10).fit(y).kneighbors(return_distance=False)
    first = rng.permutation(len(y))
    second = near[first, rng.integers(0, near.shape[1], len(y))]
    share = np.mean([(z[..., first] == z[..., second]).mean(axis=(0, 1)) for z in drawn], axis=0)
    chosen = np.flatnonzero((share > 0.05) & (share < 0.95))[:MOST_PAIRS]
    return first[chosen], second[chosen]


def compare(n, seed):
    """A table of effective draws per second: a row for each sampler."""
    n_clusters, d, n_warmup, n_kept = SHAPES[n]
    X, _ = make_student_t(n, n_clusters, d, 5.0, "medium", random_state=seed)
    y = np.ascontiguousarray((X - np.median(X, axis=0)) / X.std(axis=0))
    runs = [chains(y, n_clusters, c, n_warmup, n_kept, seed) for c in SAMPLERS]
    first, second = doubtful_pairs(y, [run[0] for run in runs], np.random.default_rng(seed))
    rates = []
    for labels, log_joint, seconds in runs:
        together = (labels[..., first] == labels[..., second]).astype(float)
        found = ess(log_joint), ess(entropies(labels)), np.median(ess(together))
        rates.append([float(value) / seconds for value in found])
    print(f"\n{n:,} rows, {n_clusters} clusters, {d} columns, data {seed}, {first.size} pairs")
    print(f"{'':12s}" + "".join(f"{name:>12s}" for name in QUANTITIES) + f"{'ms a sweep':>12s}")
    for name, rate, run in zip(SAMPLERS, rates, runs, strict=True):
        per_sweep = run[2] / (N_CHAINS * n_kept) * 1e3
        print(f"{name:12s}" + "".join(f"{v:12.2f}" for v in rate) + f"{per_sweep:12.3f}")
    table = np.array(rates)
    print(f"{'gain':12s}" + "".join(f"{v:12.2f}" for v in table[0] / table[1:].max(axis=0)))
    slowest = table.min(axis=1)
    gain = slowest[0] / slowest[1:].max()
    print(f"of each sampler's slowest quantity: {gain:.2f} times the best of the three", flush=True)
    return table


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, nargs="+", default=[0])
    parser.add_argument("--sizes", type=int, nargs="+", default=list(SHAPES), choices=SHAPES)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    with threadpool_limits(1):
        for n in options.sizes:
            tables = np.array([compare(n, seed) for seed in options.seeds])
            if len(tables) > 1:
                gains = tables[:, 0] / tables[:, 1:].max(axis=1)
                words = (
                    f"{q} {g:.2f}" for q, g in zip(QUANTITIES, np.median(gains, 0), strict=True)
                )
                print(f"median gain over {len(tables)} data sets: {', '.join(words)}", flush=True)


if __name__ == "__main__":
    main()
