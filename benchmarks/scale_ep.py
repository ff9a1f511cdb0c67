"""Expectation propagation over shards: how far from one shard's, and from exact, it clusters.

    python benchmarks/scale_ep.py run OUT.json      # every case, a minute or two
    python benchmarks/scale_ep.py draw OUT.json docs/figures/ep-shards.png

Rows of overlapping Student-t clusters, their parameters' prior held, so that all samplers have the
same posterior; all start where the rows came from. The distance is the mean over pairs of rows of
the difference between two probabilities to be together. Shards as they come (nobody more than two
sweeps ahead), by their
number; then four shards whose sums are held back, by the sweeps that they are. Exact is
`collapse="collapsed"`; two of its runs with other seeds tell what chance alone does.
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
    "eight columns": Case(600, 5, 8, 5.0, "random", 1200),
    "small clusters": Case(240, 8, 2, 6.0, "random", 3000),
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
    from cavity.moves.anchors import nearest_anchors
    from cavity.moves.standard import StandardMoves
    from cavity.priors.partition import finite
    from cavity.sampling.sampler import PartitionSampler

    rng = np.random.default_rng(seed)
    parts = assemble(StudentTProblem(y, prior(case.d), df=DF), "collapsed", case.k, {})
    moves = (StandardMoves(nearest_anchors(y), WARMUP),)
    chain = PartitionSampler(parts, finite(case.k, case.n), z, rng, moves=moves)
    return together(chain, rng, case)


def over_shards(y, z, case, seed, n_shards, **pace):
    from cavity.core.lanes import whole_vectors
    from cavity.priors.partition import finite
    from cavity.scale.engines import ThreadEngine
    from cavity.scale.ep_sampler import Pace, StaleEPSampler
    from cavity.scale.scouts import Scouts
    from cavity.scale.sources import ArraySource
    from cavity.scale.tails import Tails

    rng = np.random.default_rng(seed)
    d = case.d
    names = tuple(f"x{j}" for j in range(d))
    engine = ThreadEngine(ArraySource(y, names), n_shards=n_shards, block=8)
    engine.load(np.zeros(d), np.ones(d), np.zeros(d), np.arange(case.n))
    start = np.zeros((whole_vectors(case.k), 2 + d + d * (d + 1) // 2))
    rows, columns = np.tril_indices(d)
    np.add.at(start, z, np.column_stack([np.ones((case.n, 2)), y, y[:, rows] * y[:, columns]]))
    chain = StaleEPSampler(
        engine, engine.crowd(0), Scouts(y, case.n), start, prior(d), finite(case.k, case.n),
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
        for bounded in (False, True):
            most = {} if bounded else {"most_stale": np.inf}
            for what, values in (("shards", SHARDS), ("delay", DELAYS)):
                for value in values:
                    n_shards, delay = (value, 0) if what == "shards" else (4, value)
                    found, events = over_shards(
                        y, z, case, 300, n_shards, delay=delay, **most
                    )
                    note(data=name, what=what, value=value, bounded=bounded,
                         stale=events.get("staleness_kl", 0.0), waits=events.get("waits", 0.0),
                         one=apart(found, one), exact=apart(found, right))  # fmt: skip


def draw(source, out):
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    results = json.loads(Path(source).read_text())
    figure, axes = plt.subplots(1, 2, figsize=(8, 3.2), sharey=True, layout="constrained")
    chance = np.mean([r["one"] for r in results if r["what"] == "one, another seed"])
    for axis, what, by, label in (
        (axes[0], "shards", "shards", "shards, as they come"),
        (axes[1], "delay", "delay", "sweeps that sums are held back, 4 shards"),
    ):
        cases = sorted({r[by] for r in results if r["what"] == what})
        for to, words, colour in (("one", "from one shard", "C0"), ("exact", "from exact", "C3")):
            values = [[r[to] for r in results if r["what"] == what and r[by] == c] for c in cases]
            axis.plot(range(len(cases)), np.mean(values, axis=1), "o-", color=colour, label=words)
        axis.axhline(0.02, color="0.4", linestyle="--", linewidth=1, label="0.02")
        axis.axhline(chance, color="0.7", linestyle=":", linewidth=1, label="chance alone")
        axis.set_xticks(range(len(cases)), [str(c) for c in cases])
        axis.set_xlabel(label)
        axis.spines[["top", "right"]].set_visible(False)
    axes[0].set_ylabel("mean distance of co-clustering")
    axes[0].set_ylim(bottom=0.0)
    axes[1].legend(frameon=False, fontsize=8)
    Path(out).parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(out, dpi=120)


if __name__ == "__main__":
    globals()[sys.argv[1]](*sys.argv[2:])
