"""Rows in blocks: what a sweep costs, on threads and on workers of a Dask cluster.

    python benchmarks/scale.py sweep      # 10^6 x 3, K = 10: per row against EM; two workers
    python benchmarks/scale.py overhead   # what Dask adds to a sweep over 10^5 rows
    python benchmarks/scale.py unknown    # Dirichlet process, 10^6 x 2, 20 clusters, from one
    python benchmarks/scale.py large      # 10^7 x 3 from Parquet, 100 sweeps and results written
    python benchmarks/scale.py series     # series from Parquet, 10^5 x 200, K = 20: a sweep
    python benchmarks/scale.py tasks      # what a task costs the scheduler and the client
    python benchmarks/scale.py predict measured.json   # the curve to 1,000 workers, from the above

Each prints one JSON line. Kernels are compiled before any clock is read; what is compared is
measured in turns, and the best of the turns is taken. Processor seconds are told beside wall time,
since only they mean something on a machine that does other work.
"""

from __future__ import annotations

import json
import os
import resource
import sys
import tempfile
import time
import warnings
from pathlib import Path

import numpy as np

from cavity.distributed.blocks import SWEEP
from cavity.distributed.executor import ThreadExecutor
from cavity.distributed.kernel import GRID_SIZE, components_of
from cavity.distributed.passes import ShardRequest, make_shard, run_all
from cavity.distributed.sources import ArraySource

TURNS = 5
OPTIONS = {"threads_per_worker": 1, "processes": True, "dashboard_address": None}


def clusters(n, d, k, seed, spread=5.0):
    rng = np.random.default_rng(seed)
    centres = spread * rng.standard_normal((k, d))
    z = rng.integers(k, size=n)
    return centres[z] + rng.standard_normal((n, d)), z, centres


def loaded(executor, n, d):
    executor.load(
        make_shard, np.zeros(d), np.ones(d), np.zeros(d), np.arange(0, n, max(n // 5000, 1))
    )
    return executor


def order_of(centres, alpha=2.0):
    k, d = centres.shape
    components = components_of(
        np.full(k, 1.0 / k), centres, np.tile(np.eye(d), (k, 1, 1)), np.zeros(k), np.full(k, alpha)
    )
    return ShardRequest(components, np.zeros((0, GRID_SIZE)), (1, 2), 0, SWEEP)


def best(functions, turns=TURNS, clock=time.perf_counter):
    """Least seconds of each of several things, done in turns."""
    for function in functions.values():
        function()
    seconds = {name: [] for name in functions}
    for _ in range(turns):
        for name, function in functions.items():
            start = clock()
            function()
            seconds[name].append(clock() - start)
    return {name: min(values) for name, values in seconds.items()}


def on_the_way(executor, client, order, n_passes=20):
    """Processor seconds of a pass: of client and scheduler, and of each worker.

    What wall time there would be on processors that nothing else uses, but for latencies.
    """
    run_all(executor, order)
    workers = client.run(time.process_time)
    start = time.process_time()
    for _ in range(n_passes):
        run_all(executor, order)
    own = time.process_time() - start
    after = client.run(time.process_time)
    return own / n_passes, [(after[w] - workers[w]) / n_passes for w in workers]


def em_seconds(X, k, centres, n_iterations=4):
    """Seconds of one EM iteration of scikit-learn, initialisation taken off."""
    from sklearn.mixture import GaussianMixture

    def run(n):
        model = GaussianMixture(
            k, max_iter=n, tol=0.0, means_init=centres, init_params="random", random_state=0
        )
        start = time.thread_time()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model.fit(X)
        return time.thread_time() - start

    return (run(1 + n_iterations) - run(1)) / n_iterations


def sweep(n=10**6, d=3, k=10):
    from threadpoolctl import threadpool_limits

    from cavity.distributed.dask_executor import DaskExecutor
    from distributed import Client, LocalCluster

    X, _, centres = clusters(n, d, k, 1)
    source = ArraySource(X, tuple("abc"[:d]))
    order = order_of(centres)
    one = loaded(ThreadExecutor(source, 1), n, d)
    with threadpool_limits(1):
        em = min(em_seconds(X, k, centres) for _ in range(2))
        own = best({"t": lambda: run_all(one, order)}, clock=time.thread_time)["t"]
        gauss = order_of(centres, np.inf)
        gaussian = best({"g": lambda: run_all(one, gauss)}, clock=time.thread_time)["g"]
    two = loaded(ThreadExecutor(source, 2), n, d)
    out = {"sweep ns/row": own / n * 1e9, "gaussian ns/row": gaussian / n * 1e9}
    out |= {"EM ns/row": em / n * 1e9, "against EM": own / em, "gaussian against EM": gaussian / em}
    wall = best({"1": lambda: run_all(one, order), "2": lambda: run_all(two, order)})
    out |= {f"seconds, {name} threads": seconds for name, seconds in wall.items()}
    out["2 threads against 1"] = wall["1"] / wall["2"]
    for n_workers in (1, 2):
        with (
            LocalCluster(n_workers=n_workers, **OPTIONS) as local,
            Client(local) as client,
        ):
            executor = loaded(DaskExecutor(source, client), n, d)
            wall = best({"w": lambda e=executor: run_all(e, order)})
            own, each = on_the_way(executor, client, order)
        out[f"seconds, {n_workers} workers"] = wall["w"]
        out[f"processor seconds, {n_workers} workers"] = own + max(each)
    for what in ("seconds", "processor seconds"):
        out[f"2 workers against 1, {what}"] = out[f"{what}, 1 workers"] / out[f"{what}, 2 workers"]
    return out


def overhead(n=10**5, d=3, k=10):
    from cavity.distributed.dask_executor import DaskExecutor
    from distributed import Client, LocalCluster

    X, _, centres = clusters(n, d, k, 1)
    source, order = ArraySource(X, tuple("abc"[:d])), order_of(centres)
    with LocalCluster(n_workers=1, **OPTIONS) as local, Client(local) as client:
        threads = loaded(ThreadExecutor(source, 1), n, d)
        executor = loaded(DaskExecutor(source, client), n, d)
        wall = best(
            {"threads": lambda: run_all(threads, order), "dask": lambda: run_all(executor, order)},
            30,
        )
        alone = best({"": lambda: run_all(threads, order)}, 10, time.thread_time)[""]
        own, each = on_the_way(executor, client, order)
    return {
        "ms, 1 thread": 1e3 * wall["threads"],
        "ms, 1 worker": 1e3 * wall["dask"],
        "ms of overhead": 1e3 * (wall["dask"] - wall["threads"]),
        "processor ms of overhead": 1e3 * (own + each[0] - alone),
    }


def unknown(seed=11, n_warmup=200, n_iterations=20, n=10**6, d=2, k=20):
    """Clusters found from one at the start; and a peer that may have 40, for some iterations."""
    seed, n_warmup, n_iterations, n = map(int, (seed, n_warmup, n_iterations, n))
    from sklearn.metrics import adjusted_rand_score
    from sklearn.mixture import BayesianGaussianMixture

    from cavity import GaussianMixture

    X, truth, centres = clusters(n, d, k, seed, spread=10.0)
    apart = np.linalg.norm(centres[:, None] - centres, axis=2)[np.triu_indices(k, 1)]
    some = slice(0, 50_000)
    out = {"seed": seed, "least deviations apart": np.sort(apart)[:3].tolist()}
    out["load"] = os.getloadavg()[0]
    m = GaussianMixture(
        1, prior="dp", collapse="parallel", n_chains=1, n_warmup=n_warmup, n_draws=20,
        random_state=0,
    )  # fmt: skip
    peer = BayesianGaussianMixture(
        n_components=2 * k,
        weight_concentration_prior_type="dirichlet_process",
        max_iter=n_iterations,
        random_state=0,
    )
    # Kernels are compiled on a few rows before any clock is read.
    runs = [("ours", m, X[:20_000]), ("peer", peer, None)]
    for name, model, before in runs if n_iterations else runs[:1]:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            if before is not None:
                model.fit(before)
            start, own = time.perf_counter(), time.process_time()
            model.fit(X)
        out[f"{name}: seconds"] = time.perf_counter() - start
        out[f"{name}: processor seconds"] = time.process_time() - own
        labels = model.predict(X[some])
        out[f"{name}: ARI"] = adjusted_rand_score(truth[some], labels)
    out["ARI, told the clusters"] = adjusted_rand_score(truth[some], nearest(X[some], centres))
    share = m.posterior_.drawn["weight"][0]
    out["clusters of the estimate"] = m.n_clusters_
    out["clusters of a draw with a thousandth of the rows, least and most"] = [
        int(f((share > 1e-3).sum(axis=1))) for f in (np.min, np.max)
    ]
    out["events"] = {name: float(v[0]) for name, v in m.posterior_.events.items()}
    if n_iterations:
        out["peer: iterations, converged"] = [peer.n_iter_, bool(peer.converged_)]
        used = np.bincount(peer.predict(X), minlength=2 * k) / n
        out["peer: clusters with a thousandth of the rows"] = int((used > 1e-3).sum())
    return out


def nearest(X, centres):
    return ((X[:, None] - centres) ** 2).sum(axis=2).argmin(axis=1)


def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def large(n=10**7, d=3, k=10, n_files=10):
    n = int(n)
    import pyarrow as pa
    import pyarrow.parquet as pq
    from sklearn.metrics import adjusted_rand_score

    from cavity import StudentTMixture
    from distributed import Client, LocalCluster

    with tempfile.TemporaryDirectory(dir=os.environ.get("CAVITY_BENCH_DIR")) as name:
        folder = Path(name) / "rows"
        folder.mkdir()
        truth = None
        for at in range(n_files):
            rng = np.random.default_rng(100 + at)
            centres = 5.0 * np.random.default_rng(7).standard_normal((k, d))
            z = rng.integers(k, size=n // n_files)
            u = rng.gamma(2.0, 0.5, z.size)[:, None]
            part = centres[z] + rng.standard_normal((z.size, d)) / np.sqrt(u)
            truth = z if truth is None else truth
            table = {c: part[:, j] for j, c in enumerate("abcdefgh"[:d])}
            pq.write_table(pa.table(table), folder / f"part-{at}.parquet")
        with LocalCluster(n_workers=2, **OPTIONS) as local, Client(local) as client:
            start = time.perf_counter()
            m = StudentTMixture(k, n_chains=1, n_warmup=50, n_draws=50, random_state=0)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                m.fit(folder, client=client)
            fitted = time.perf_counter()
            files = m.predict_to_parquet(folder, Path(name) / "placed", client=client)
            placed = time.perf_counter()
            peaks = client.run(peak)
        labels = pq.read_table(files[0]).column("cluster").to_numpy()
        return {
            "rows": n,
            "sweeps": int(m.posterior_.record.n_sweeps),
            "seconds of the fit": fitted - start,
            "seconds a sweep": float(np.median(m.posterior_.sweep_seconds)),
            "seconds to write results": placed - fitted,
            "peak GB of a worker": max(peaks.values()) / 1e9,
            "peak GB of the client": peak() / 1e9,
            "clusters": m.n_clusters_,
            "ARI": adjusted_rand_score(truth[:100_000], labels[:100_000]),
            "events": {name: float(v[0]) for name, v in m.posterior_.events.items()},
        }


def series(n=10**5, n_times=200, k=20, n_files=8, n_sweeps=6):
    """Series from Parquet files with Student-t noise to be learned, on one worker and on two."""
    n, n_times, k, n_files, n_sweeps = map(int, (n, n_times, k, n_files, n_sweeps))
    import pandas as pd
    from sklearn.metrics import adjusted_rand_score

    from cavity.datasets import make_series
    from cavity.priors.series import SeriesPrior
    from cavity.priors.specifications import specification
    from cavity.series import shards as series_shards
    from cavity.series.shards import series_source
    from distributed import Client, LocalCluster

    Y, truth = make_series(n, n_times, n_clusters=k, missing=0.1, random_state=3)
    out = {"series": n, "times": n_times, "clusters": k, "load": os.getloadavg()[0]}
    prior = specification("finite", None)
    with tempfile.TemporaryDirectory(dir=os.environ.get("CAVITY_BENCH_DIR")) as folder:
        for at, part in enumerate(np.array_split(np.arange(n), n_files)):
            frame = pd.DataFrame(Y[part], columns=[str(t) for t in range(n_times)])
            frame.to_parquet(Path(folder) / f"part-{at}.parquet")
        del Y
        for n_workers in (1, 2):
            with LocalCluster(n_workers=n_workers, **OPTIONS) as local, Client(local) as client:
                fit, _, _ = series_shards.spread(
                    series_source(folder, None), client, None, axis_of=None, names=None,
                    prior=prior, n_clusters=k, series_prior=SeriesPrior(), intercept=True,
                    each=True, df="learn", moves=True,
                )  # fmt: skip
                rng = np.random.default_rng(0)
                begun = time.perf_counter()
                sampler = fit.sampler(0, rng)
                started = time.perf_counter() - begun
                sampler.sweep(rng)
                before, own = client.run(time.process_time), time.process_time()
                walls = []
                for _ in range(n_sweeps):
                    begun = time.perf_counter()
                    sampler.sweep(rng)
                    walls.append(time.perf_counter() - begun)
                own = time.process_time() - own
                after = client.run(time.process_time)
                peaks = client.run(peak)
            each = max(after[w] - before[w] for w in before) / n_sweeps
            name = f"{n_workers} workers"
            out[name] = {
                "seconds a sweep, least and median": [min(walls), float(np.median(walls))],
                "processor seconds of a worker, most": each,
                "processor seconds of the client": own / n_sweeps,
                "seconds to start": started,
                "peak GB of a worker": max(peaks.values()) / 1e9,
            }
            series_shards.PILOT_SWEEPS = 5  # a rate is all that is asked of the other
            if n_workers == 1:
                followed = np.asarray(fit.data.series).astype(int)
                found = adjusted_rand_score(truth.labels[followed], sampler.z)
                out["ARI of a draw, followed series"] = found
    which = "processor seconds of a worker, most"
    out["2 workers against 1, processor seconds"] = (
        out["1 workers"][which] / out["2 workers"][which]
    )
    return out


def tasks(d=3, k=10, counts=(1, 8, 32, 96)):
    """Processor ms of a pass over shards of 64 rows, by their number; bytes that it moves."""
    import pickle

    from cavity.distributed.dask_executor import DaskExecutor
    from cavity.distributed.passes import run_pass
    from distributed import Client, LocalCluster

    block = 64
    X, _, centres = clusters(block * max(counts), d, k, 1)
    order = order_of(centres)
    spent = {}
    with LocalCluster(n_workers=1, **OPTIONS) as local, Client(local) as client:
        for n in counts:
            source = ArraySource(X[: block * n], tuple("abc"[:d]))
            executor = loaded(DaskExecutor(source, client, n, block), 1, d)
            own, each = on_the_way(executor, client, order, 10)
            spent[n] = own, each[0]
    numbers = list(spent)
    slope, fixed = np.polyfit(numbers, [1e3 * own for own, _ in spent.values()], 1)
    working = np.polyfit(numbers, [1e3 * each for _, each in spent.values()], 1)[0]
    # A shard of 10^6 rows, as it would be: its answer is a few nodes of the tree.
    n = 10**6
    from cavity.distributed.blocks import layouts

    (layout,) = layouts([n], 1)
    still = np.zeros(d)
    shard = make_shard(layout, np.zeros((n, d)), still, still + 1.0, still, np.arange(0))
    answer = len(pickle.dumps(run_pass(shard, order)))
    return {
        "client and worker, ms, by tasks": {
            n: [1e3 * v for v in both] for n, both in spent.items()
        },
        "ms per task": float(slope),
        "ms per task, worker": float(working),
        "ms of a pass": float(max(fixed, 0.0)),
        "bytes to a task": len(pickle.dumps(order)),
        "bytes from a task": answer,
    }


def predicted(measured, n_rows, n_workers, rng, per_worker=1, jitter=0.1, n_sweeps=20):
    """Seconds of a sweep: tasks handed out one after another, rows swept, answers taken in.

    A simulation of the queue: the client and the scheduler deal with one task at a time, workers
    with theirs side by side, at speeds that differ by `jitter`.
    """
    cost = 1e-3 * measured["tasks"]["ms per task"]
    fixed = 1e-3 * measured["tasks"]["ms of a pass"]
    per_row = 1e-9 * measured["sweep"]["sweep ns/row"]
    total = 0.0
    for _ in range(n_sweeps):
        n_tasks = n_workers * per_worker
        handed = fixed + 0.5 * cost * np.arange(1, n_tasks + 1)
        work = n_rows / n_tasks * per_row * np.exp(jitter * rng.standard_normal(n_tasks))
        free = np.zeros(n_workers)
        done = np.empty(n_tasks)
        for task in range(n_tasks):
            worker = task % n_workers
            done[task] = free[worker] = max(free[worker], handed[task]) + work[task]
        clock = handed[-1]
        for moment in np.sort(done):
            clock = max(clock, moment) + 0.5 * cost
        total += clock
    return total / n_sweeps


def predict(path):
    """Seconds of a sweep by rows and workers, from measured costs."""
    measured = {}
    for line in Path(path).read_text().splitlines():
        measured |= json.loads(line)
    rng = np.random.default_rng(0)
    return {
        f"{n_rows:.0e} rows": {
            n: round(predicted(measured, n_rows, n, rng), 4) for n in (1, 2, 10, 100, 1000)
        }
        for n_rows in (10**6, 10**8, 10**10)
    }


if __name__ == "__main__":
    print(json.dumps({sys.argv[1]: globals()[sys.argv[1]](*sys.argv[2:])}))
