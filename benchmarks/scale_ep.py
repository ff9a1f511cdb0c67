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

import numpy as np

N, K, D, DF = 1000, 4, 2, 5.0
SHARDS = (1, 2, 4, 8)
DELAYS = (1, 3, 10, 30)
SWEEPS, WARMUP = 800, 100
SEEDS = (0,)  # of the data


def data(seed):
    from cavity.datasets import make_student_t

    X, truth = make_student_t(N, K, D, df=DF, separation=4.0, random_state=seed)
    return (X - X.mean(axis=0)) / X.std(axis=0), np.asarray(truth.labels, dtype=int)


def prior():
    from cavity.priors.cluster import NIWPrior

    return NIWPrior(np.zeros(D), 0.1, D + 3.0, 2.0 * np.eye(D))


def together(chain, rng):
    """Probabilities of all pairs to be together."""
    total = np.zeros((N, N), dtype=np.int32)
    for at in range(WARMUP + SWEEPS):
        chain.sweep(rng)
        if at >= WARMUP and at % 2:
            z = chain.labels()
            total += z[:, None] == z
    return total / (SWEEPS // 2)


def exact(y, z, seed):
    from cavity.collapse.mixtures import StudentTProblem
    from cavity.collapse.registry import assemble
    from cavity.models.degrees_of_freedom import TailUpdate
    from cavity.moves.anchors import nearest_anchors
    from cavity.moves.standard import StandardMoves
    from cavity.priors.partition import finite
    from cavity.sampling.sampler import PartitionSampler

    rng = np.random.default_rng(seed)
    parts = assemble(StudentTProblem(y, prior(), df=DF), "collapsed", K, {})
    assert any(isinstance(update, TailUpdate) for update in parts.updates)
    moves = (StandardMoves(nearest_anchors(y), WARMUP),)
    return together(PartitionSampler(parts, finite(K, N), z, rng, moves=moves), rng)


def over_shards(y, z, seed, n_shards, delay):
    from cavity.core.lanes import whole_vectors
    from cavity.priors.partition import finite
    from cavity.scale.engines import ThreadEngine
    from cavity.scale.ep_sampler import Pace, StaleEPSampler
    from cavity.scale.scouts import Scouts
    from cavity.scale.sources import ArraySource
    from cavity.scale.tails import Tails

    rng = np.random.default_rng(seed)
    engine = ThreadEngine(ArraySource(y, ("a", "b")), n_shards=n_shards, block=8)
    engine.load(np.zeros(D), np.ones(D), np.zeros(D), np.arange(N))
    start = np.zeros((whole_vectors(K), 2 + D + D * (D + 1) // 2))
    rows, columns = np.tril_indices(D)
    np.add.at(start, z, np.column_stack([np.ones((N, 2)), y, y[:, rows] * y[:, columns]]))
    chain = StaleEPSampler(
        engine.crowd(0), Scouts(y, N), start, prior(), finite(K, N), Tails(DF), (), rng,
        n_clusters=K, pace=Pace(delay=delay), n_adapted=WARMUP,
    )  # fmt: skip
    found = together(chain, rng)
    return found, chain.events().get("staleness_kl", 0.0)


def run(out):
    results = []

    def note(**facts):
        results.append(facts)
        print(json.dumps(facts), flush=True)
        Path(out).write_text(json.dumps(results))

    for seed in SEEDS:
        y, z = data(seed)
        right = exact(y, z, 100)

        def apart(a, b):
            return float(np.abs(a - b).mean())

        note(data=seed, what="exact, another seed", distance=apart(exact(y, z, 101), right))
        one, _ = over_shards(y, z, 200, 1, 0)
        again, _ = over_shards(y, z, 202, 1, 0)
        note(data=seed, what="one, another seed", one=apart(again, one), exact=apart(again, right))
        for n_shards in SHARDS:
            found, stale = over_shards(y, z, 300, n_shards, 0)
            note(data=seed, what="shards", shards=n_shards, stale=stale,
                 one=apart(found, one), exact=apart(found, right))  # fmt: skip
        for delay in DELAYS:
            found, stale = over_shards(y, z, 400, 4, delay)
            note(data=seed, what="delay", delay=delay, stale=stale,
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
