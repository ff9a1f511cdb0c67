"""Expectation propagation over shards: how far from one shard's, and from exact, it clusters.

    python benchmarks/scale_ep.py run OUT.json      # every case, a minute or two
    python benchmarks/scale_ep.py draw OUT.json docs/images/ep-shards.png

Rows of overlapping Student-t clusters, their parameters' prior held, so that all samplers have the
same posterior: in four clusters, from where the rows came from; in eight columns and in small
clusters, from labels at random, so that the clusters are on their way at first. The distance is the
mean over pairs of rows of the difference between two probabilities to be together. Shards as they
come (nobody more than two sweeps ahead, and taking turns while sums are too stale), by their
number; then four shards whose sums are held back, by the sweeps that they are, with and without
that bound. Exact is `collapse="collapsed"`; two runs with other seeds tell what chance alone does.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import NamedTuple

import numpy as np

DF = 5.0


class Case(NamedTuple):
    """Rows to cluster: how many, in how many clusters and columns, how far apart; the start."""

    n: int
    k: int
    d: int
    separation: float
    start: str  # "truth", or "random": clusters have to be found
    sweeps: int


CASES = {
    "four clusters": Case(1000, 4, 2, 4.0, "truth", 800),
    "eight columns": Case(400, 3, 8, 3.0, "random", 600),
    "small clusters": Case(120, 4, 2, 6.0, "random", 1200),
}
SHARDS = (1, 2, 4, 8)
DELAYS = (1, 3, 10, 30)
WARMUP = 200
THINNED = 2


def data(case):
    from cavity.datasets import make_student_t

    X, truth = make_student_t(
        case.n, case.k, case.d, df=DF, separation=case.separation, random_state=0
    )
    z = np.asarray(truth.labels, dtype=int)
    if case.start == "random":
        z = np.random.default_rng(1).integers(case.k, size=case.n)
    return (X - X.mean(axis=0)) / X.std(axis=0), z


def prior(d):
    from cavity.priors.cluster import NIWPrior

    return NIWPrior(np.zeros(d), 0.1, d + 3.0, 2.0 * np.eye(d))


def together(chain, rng, case):
    """Probabilities of all pairs to be together."""
    total = np.zeros((case.n, case.n), dtype=np.int32)
    for at in range(WARMUP + case.sweeps):
        chain.sweep(rng)
        if at >= WARMUP and at % THINNED:
            z = chain.labels()
            total += z[:, None] == z
    return total / (case.sweeps // THINNED)


def exact(y, z, case, seed):
    from cavity.collapse.mixtures import StudentTProblem
    from cavity.collapse.registry import assemble
    from cavity.mcmc.chain import PartitionSampler
    from cavity.moves.anchors import nearest_anchors
    from cavity.moves.standard import StandardMoves
    from cavity.priors.partition import finite

    rng = np.random.default_rng(seed)
    parts = assemble(StudentTProblem(y, prior(case.d), df=DF), "collapsed", case.k, {})
    moves = (StandardMoves(nearest_anchors(y), WARMUP),)
    chain = PartitionSampler(parts, finite(case.k, case.n), z, rng, moves=moves)
    return together(chain, rng, case)


def over_shards(y, z, case, seed, n_shards, **pace):
    from cavity._numba.simd import whole_vectors
    from cavity.distributed.clusters import Makeup
    from cavity.distributed.df_grid import Tails
    from cavity.distributed.engines import ThreadEngine
    from cavity.distributed.ep_sampler import Pace, StaleEPSampler
    from cavity.distributed.pilot import Scouts
    from cavity.distributed.sources import ArraySource
    from cavity.priors.partition import finite

    rng = np.random.default_rng(seed)
    d = case.d
    names = tuple(f"x{j}" for j in range(d))
    engine = ThreadEngine(ArraySource(y, names), n_shards=n_shards, block=8)
    engine.load(np.zeros(d), np.ones(d), np.zeros(d), np.arange(case.n))
    start = np.zeros((whole_vectors(case.k), 2 + d + d * (d + 1) // 2))
    rows, columns = np.tril_indices(d)
    np.add.at(start, z, np.column_stack([np.ones((case.n, 2)), y, y[:, rows] * y[:, columns]]))
    chain = StaleEPSampler(
        engine, engine.crowd(0), Scouts(y, case.n), start, Makeup(prior(d)), finite(case.k, case.n),
        Tails(DF), (), rng, n_clusters=case.k, pace=Pace(**pace), n_adapted=WARMUP,
    )  # fmt: skip
    found = together(chain, rng, case)
    return found, chain.events()


def run(out, *names):
    results = []

    def note(**facts):
        results.append(facts)
        print(json.dumps(facts), flush=True)
        Path(out).write_text(json.dumps(results))

    def apart(a, b):
        return float(np.abs(a - b).mean())

    for name in names or CASES:
        case = CASES[name]
        y, z = data(case)
        right = exact(y, z, case, 100)
        again = exact(y, z, case, 101)
        one, _ = over_shards(y, z, case, 200, 1)
        other, _ = over_shards(y, z, case, 202, 1)
        note(data=name, what="chance", exact=apart(again, right), one=apart(other, one),
             both=apart(0.5 * (one + other), 0.5 * (right + again)))  # fmt: skip
        one, right = 0.5 * (one + other), 0.5 * (right + again)
        runs = [("shards", value, True) for value in SHARDS]
        runs += [("delay", value, bounded) for value in DELAYS for bounded in (False, True)]
        for what, value, bounded in runs:
            n_shards, delay = (value, 0) if what == "shards" else (4, value)
            most = {} if bounded else {"most_stale": np.inf}
            found, events = over_shards(y, z, case, 300, n_shards, delay=delay, **most)
            note(
                data=name, what=what, value=value, bounded=bounded,
                stale=events.get("staleness_kl", 0.0), turns=events.get("sweeps_in_turns", 0.0),
                one=apart(found, one), exact=apart(found, right),
            )  # fmt: skip


def draw(source, out):
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    results = json.loads(Path(source).read_text())
    names = list(dict.fromkeys(r["data"] for r in results))
    figure, axes = plt.subplots(
        len(names), 2, figsize=(8, 2.6 * len(names)), sharey="row", layout="constrained",
        squeeze=False,
    )  # fmt: skip
    for row, name in zip(axes, names, strict=True):
        own = [r for r in results if r["data"] == name]
        chance = next(r["one"] for r in own if r["what"] == "chance")
        for axis, what in zip(row, ("shards", "delay"), strict=True):
            for bounded in (True, False):
                some = [r for r in own if r["what"] == what and r["bounded"] == bounded]
                if not some:
                    continue
                for to, words, colour in (("one", "one shard", "C0"), ("exact", "exact", "C3")):
                    axis.plot(
                        range(len(some)), [r[to] for r in some], "o-" if bounded else "x:",
                        color=colour, label=f"from {words}" + ("" if bounded else ", no bound"),
                    )  # fmt: skip
                axis.set_xticks(range(len(some)), [str(r["value"]) for r in some])
            axis.axhline(0.02, color="0.4", linestyle="--", linewidth=1, label="0.02")
            axis.axhline(chance, color="0.7", linestyle=":", linewidth=1, label="chance alone")
            axis.spines[["top", "right"]].set_visible(False)
            axis.set_ylim(bottom=0.0)
        row[0].set_ylabel(f"{name}\ndistance of co-clustering")
    axes[-1][0].set_xlabel("shards, as they come")
    axes[-1][1].set_xlabel("sweeps that sums are held back, 4 shards")
    axes[0][1].legend(frameon=False, fontsize=8)
    Path(out).parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(out, dpi=120)


if __name__ == "__main__":
    globals()[sys.argv[1]](*sys.argv[2:])
