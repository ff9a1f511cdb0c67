"""Speed, memory and accuracy of the series model, each beside its yardstick in the same run.

    python benchmarks/series.py                 # the tables of docs/studies.md
    python benchmarks/series.py score sweep     # some of them

Sections: score, sweep, corrected, noise, fits, exact, linear, mixing, accuracy, recovery. One
thread, compilation apart; times are processor seconds, the least of several repetitions unless a
mean is said.
"""

from __future__ import annotations

import functools
import sys
import time
import tracemalloc

import numpy as np
from threadpoolctl import threadpool_limits

from cavity._numba.jit import compiled, jit
from cavity.collapse.ep import full_pass, insert_members
from cavity.collapse.registry import assemble
from cavity.datasets import make_series
from cavity.mcmc.chain import PartitionSampler
from cavity.mcmc.sweep import sweep
from cavity.priors.partition import dirichlet
from cavity.series import cluster_information, kalman
from cavity.series.exact import evidence_workspace, group_evidence, rebuild_clusters
from cavity.series.parameters import EVERYTHING, NOTHING, SeriesPriors
from cavity.series.problem import SeriesProblem
from cavity.series.state_space import factor_series

NONE = np.zeros(0)
POPULATION = (0.9, 100.0, 0.0, 0.1)
PRIORS = SeriesPriors(1.0, 0.01, 1.0, 0.1, NONE, NONE, NONE, NONE)
FIXED, ALL = NOTHING, EVERYTHING


def fastest(work, n=7):
    """Processor seconds of the quickest of `n` repetitions: other work cannot shorten it."""
    best = np.inf
    for _ in range(n):
        start = time.thread_time()
        work()
        best = min(best, time.thread_time() - start)
    return best


def chain(Y, n_clusters=20, collapse="ep", seed=0, labels=None, moving=ALL, **settings):
    rng = np.random.default_rng(seed)
    start = {"a": 0.9, "loading": 1.0, "var_x": 0.05, "var_y": 1.0}
    start |= settings.pop("start", {})
    model = factor_series(Y, **start, population=POPULATION, free_signs=moving.loading)
    if labels is None:
        labels = rng.integers(n_clusters, size=len(Y))
    problem = SeriesProblem(model, PRIORS, np.zeros((2, 0)), moving, settings.pop("draw", "auto"))
    parts = assemble(problem, collapse, n_clusters, settings)
    return PartitionSampler(parts, dirichlet(n_clusters), labels, rng), rng


def scan(sampler, rng):
    state = sampler.collapse.state
    run = compiled(sweep, (state, sampler.prior))
    run(state, sampler.prior, sampler.z, sampler.counts, sampler.order, sampler.weights, 0, rng)


@jit
def _scores(m, mean, variance, out, rounds):
    for _ in range(rounds):
        for i in range(m.cells.y.shape[0]):
            kalman.prepare(m, m.scratch.row, i)
            kalman.score_lanes(m, i, mean, variance, 1.0, out)


def score():
    """One likelihood, per (series, time, cluster), and against statsmodels' filter."""
    from statsmodels.tsa.statespace.mlemodel import MLEModel

    n, n_times = 50, 200
    Y, _ = make_series(n, n_times, 5, random_state=0)
    rng = np.random.default_rng(0)
    print("lanes  ns per (series, time, cluster)")
    for lanes in (8, 16, 20, 24, 32, 64):
        padded = -(-lanes // 8) * 8
        m = factor_series(Y, a=0.95, loading=1.0, var_x=0.01, var_y=1.0, n_slots=lanes)
        mean = rng.standard_normal((n_times, padded))
        variance = rng.uniform(0, 1, (n_times, padded))
        out = np.empty((2, lanes))
        _scores(m, mean, variance, out, 1)
        seconds = fastest(lambda: _scores(m, mean, variance, out, 4), 30)  # noqa: B023
        ours = seconds / 4 / (n * n_times * lanes)
        print(f"{lanes:5d}  {ours * 1e9:.2f}")
        if lanes == 20:
            ours_20 = ours

    class Model(MLEModel):
        """The same filter: drift and process variance change with time."""

        def __init__(self, y):
            super().__init__(y, k_states=1, k_posdef=1)
            self["design", 0, 0] = 1.0
            self["transition", 0, 0] = 0.95
            self["selection", 0, 0] = 1.0
            self["obs_cov", 0, 0] = 1.0
            self["state_intercept"] = mean[:, :1].T.copy()
            self["state_cov"] = (0.01 + variance[:, 0]).reshape(1, 1, n_times)
            first = np.array([mean[0, 0]])
            self.ssm.initialize_known(first, np.array([[0.95**2 + 0.01 + variance[0, 0]]]))

    peer = Model(Y[0])
    # statsmodels starts at the first prediction, so its drift is that of the step after.
    peer["state_intercept"] = np.roll(mean[:, :1].T, -1, axis=1).copy()
    peer["state_cov"] = np.roll((0.01 + variance[:, 0]).reshape(1, 1, n_times), -1, axis=2).copy()
    theirs = peer.ssm.loglike()
    m = factor_series(Y[:1], a=0.95, loading=1.0, var_x=0.01, var_y=1.0)
    mine = kalman.log_likelihood(m, 0, mean, variance, 0)
    seconds = fastest(lambda: [peer.ssm.loglike() for _ in range(20)], 10) / 20 / n_times
    print(f"statsmodels: {seconds * 1e9:.0f} ns per (series, time); ", end="")
    print(f"ratio at 20 clusters {seconds / ours_20:.0f}; ", end="")
    print(f"log likelihoods differ by {abs(theirs - mine):.1e}")


def sweep_times():
    """Assignment scans and whole sweeps at the paper's size."""
    Y, truth = make_series(300, 200, 20, random_state=0)
    print("collapse   scan ms   whole sweep ms (every parameter drawn)")
    for collapse in ("ep", "naive"):
        s, rng = chain(Y, collapse=collapse, labels=truth.labels)
        for _ in range(5):
            s.sweep(rng)
        scans = fastest(lambda: scan(s, rng), 40) * 1e3  # noqa: B023
        whole = fastest(lambda: s.sweep(rng), 40) * 1e3  # noqa: B023
        print(f"{collapse:9s}  {scans:7.2f}   {whole:7.2f}")
    s, rng = chain(Y)
    print(f"ep, first scan from random labels: {fastest(lambda: scan(s, rng), 1) * 1e3:.2f} ms")


def corrected_times():
    """Corrected sweeps beside EP's and exact ones, settled: means, taken by turns."""
    Y, truth = make_series(300, 200, 20, random_state=0)
    chains = {c: chain(Y, collapse=c, labels=truth.labels) for c in ("ep", "corrected")}
    times = {name: [] for name in chains}
    for s, rng in chains.values():
        for _ in range(160):  # step sizes have settled
            s.sweep(rng)
    for _ in range(30):
        for name, (s, rng) in chains.items():
            start = time.thread_time()
            scan(s, rng)
            middle = time.thread_time()
            s.follow_up(rng)
            times[name].append((middle - start, time.thread_time() - start))
    s, rng = chain(Y, collapse="collapsed", labels=truth.labels)
    s.sweep(rng)
    start = time.thread_time()
    scan(s, rng)
    middle = time.thread_time()
    s.follow_up(rng)
    times["collapsed"] = [(middle - start, time.thread_time() - start)]
    print("collapse    labels ms   whole sweep ms   (means of 30; collapsed: one)")
    for name, rows in times.items():
        labels, whole = np.mean(rows, axis=0) * 1e3
        print(f"{name:10s} {labels:9.2f}  {whole:9.2f}")
    print(chains["corrected"][0].events())


def noise():
    """30 times the noise: co-clustering after equal processor time, against long exact chains."""
    for n_times, n, k in ((50, 60, 4), (50, 120, 12), (200, 60, 4)):
        Y, truth = make_series(n, n_times, k, var_y=30.0, random_state=11)
        start = {"a": 0.95, "loading": 1.0, "var_x": 0.01, "var_y": 30.0}
        settings = {"moving": FIXED, "start": start, "labels": truth.labels, "n_clusters": k}

        def together(collapse, seconds, seed):
            s, rng = chain(Y, collapse=collapse, seed=seed, **settings)  # noqa: B023
            s.updates = ()  # labels alone
            s.sweep(rng)
            total, n_draws = np.zeros((len(Y), len(Y))), 0  # noqa: B023
            begun = time.thread_time()
            while time.thread_time() - begun < seconds:
                s.sweep(rng)
                total += s.z[:, None] == s.z[None]
                n_draws += 1
            return total / n_draws, n_draws

        upper = np.triu_indices(n, 1)
        reach = 12.0
        references = [together("collapsed", reach, seed)[0] for seed in (100, 101)]
        between = np.abs(references[0] - references[1])[upper].mean()
        reference = 0.5 * (references[0] + references[1])
        print(f"T = {n_times}, {n} series, {k} clusters; ", end="")
        print(f"two exact chains of {reach:.0f} s differ by {between:.4f}")
        print("collapse    seconds  sweeps   mean distance of co-clustering (3 seeds)")
        for seconds in (0.2, 1.0):
            for collapse in ("ep", "corrected", "collapsed"):
                runs = [together(collapse, seconds, seed) for seed in range(3)]
                distance = np.mean([np.abs(p - reference)[upper].mean() for p, _ in runs])
                sweeps = np.mean([n for _, n in runs])
                print(f"{collapse:10s} {seconds:7.1f} {sweeps:8.0f}   {distance:.4f}", flush=True)


def fits():
    """Default fits: converged or not, processor time of all chains, and the slowest parameter.

    The demo's series, series of which half is missing, and sales by tract and month (CAVITY_DATA
    names the folder of the last; without it they are fetched).
    """
    import warnings

    from series_model import NAMES, sales_of_seattle
    from sklearn.metrics import adjusted_rand_score

    from cavity import SeriesMixture
    from cavity.posterior.effective import ess

    warnings.simplefilter("ignore")
    covariates = {"covariates": ["log_sqft", "bathrooms"]}
    cases = {
        "demo": (6, *make_series(60, 72, 4, var_y=0.5, missing=0.3, random_state=0), {}),
        "half missing": (4, *make_series(60, 72, 4, missing=0.5, random_state=21), {}),
        "Seattle": (10, sales_of_seattle(), None, NAMES | covariates),
    }
    for name, (n_clusters, Y, truth, names) in cases.items():
        SeriesMixture(n_clusters, n_chains=1, n_warmup=2, n_draws=4).fit(Y, **names)
        begun = time.process_time()
        s = SeriesMixture(n_clusters, random_state=0).fit(Y, **names)
        seconds = time.process_time() - begun
        drawn = s.posterior_.drawn
        shared = ("var_x", "var_x0", "a_mean", "a_sd", "loading_sd", "intercept_mean", "df")
        effective = {key: float(ess(np.asarray(drawn[key], float))) for key in shared}
        slowest = min(effective, key=effective.__getitem__)
        found = f"{name}: converged {s.converged_}, {s.posterior_.record.n_sweeps} sweeps"
        found += f" a chain, {seconds:.1f} s of all chains, {s.n_clusters_} clusters"
        if truth is not None:
            found += f", ARI {adjusted_rand_score(truth.labels, s.labels_):.2f}"
        print(f"{found}; slowest: {slowest}, {effective[slowest]:.0f} effective draws", flush=True)


def exact_times():
    """The exact sweep, and evidences of groups of series."""
    Y, truth = make_series(300, 200, 20, random_state=0)
    s, rng = chain(Y, collapse="collapsed", labels=truth.labels)
    s.sweep(rng)
    print(f"exact sweep, N = 300, T = 200, K = 20: {fastest(lambda: s.sweep(rng), 3):.2f} s")
    m = factor_series(Y, a=0.95, loading=1.0, var_x=0.01, var_y=1.0)
    matrix, work = (
        cluster_information.information_matrix(200),
        cluster_information.information_matrix(200),
    )
    products = np.empty(matrix.shape[1])
    cluster_information.start_information(matrix)
    cluster_information.describe(m, m.scratch.row, 0)

    def by_information():
        cluster_information.add_information(m.scratch.row, work, matrix, 1.0, products)
        cluster_information.factorize(work)

    print(f"information form: {fastest(by_information, 50) * 1e6:.0f} us")
    print("evidence of n series:")
    room = evidence_workspace(m)
    for n in (1, 2, 4, 8, 12, 16, 20, 30, 50, 80):
        room.members[:n] = np.arange(n)
        seconds = fastest(functools.partial(group_evidence, m, room, n), 10)
        print(f"  {n:3d} {seconds * 1e6:7.0f} us")


def linear():
    """Seconds and memory of an EP sweep against the number of series."""
    print("series    scan s   whole sweep s   peak bytes per series beyond the data")
    for n in (1000, 10_000, 100_000):
        Y, truth = make_series(n, 200, 20, random_state=0)
        tracemalloc.start()
        s, rng = chain(Y, labels=truth.labels)
        s.sweep(rng)
        s.keep()
        memory = tracemalloc.get_traced_memory()[1] / n
        tracemalloc.stop()
        scans = fastest(lambda: scan(s, rng), 2)  # noqa: B023
        whole = fastest(lambda: s.sweep(rng), 2)  # noqa: B023
        print(f"{n:7d}  {scans:7.3f}  {whole:7.3f}   {memory:8.0f}")


def mixing():
    """Effective draws per second of the joint and the alternating draw of factors and states."""
    import arviz as az

    def ess(values):
        return float(az.ess(np.asarray(values)[None]))

    print(
        "N     T     draw        ms/sweep   effective draws per second: factor  loading  a  var_x"
    )
    for n, n_times, n_sweeps in ((60, 50, 600), (300, 200, 300), (1000, 200, 150), (60, 1000, 100),
                                 (40, 2000, 40)):  # fmt: skip
        k = 20 if n >= 300 else 4
        Y, truth = make_series(n, n_times, k, random_state=0)
        for draw in ("joint", "alternate"):
            s, rng = chain(Y, k, collapse="naive", draw=draw, labels=truth.labels)
            for _ in range(n_sweeps // 3):
                s.sweep(rng)
            trace = []
            start = time.thread_time()
            for _ in range(n_sweeps):
                s.sweep(rng)
                own = s.parameters.value[:, s.z[0]] * np.sign(s.model.own.loading[0])
                m = s.model
                trace.append([own[n_times // 2], abs(m.own.loading[0]), m.own.a[0], m.own.var_x[0]])
            seconds = time.thread_time() - start
            per_second = [ess(column) / seconds for column in np.array(trace).T]
            text = "  ".join(f"{v:8.1f}" for v in per_second)
            print(f"{n:4d} {n_times:5d}  {draw:9s} {seconds / n_sweeps * 1e3:9.1f}   {text}")


def accuracy():
    """EP's conditional probabilities against the exact ones, for 100 series."""
    print("setting                         state            mean total variation   largest")
    for title, var_y, n_times in (("the paper's", 1.0, 200), ("30 times the noise", 30.0, 200),
                                  ("30 times the noise, short", 30.0, 50)):  # fmt: skip
        Y, truth = make_series(300, n_times, 20, var_y=var_y, random_state=0)
        start = {"a": 0.95, "loading": 1.0, "var_x": 0.01, "var_y": var_y}
        walk, rng = chain(Y, moving=FIXED, start=start)
        for state, sweeps in (("random", 0), ("after 1 sweep", 1), ("after 2", 1), ("after 10", 8)):
            for _ in range(sweeps):
                walk.sweep(rng)
            distance = distances(Y, walk.labels().copy(), start)
            print(f"{title:30s}  {state:14s}  {np.mean(distance):.4f}   {max(distance):.4f}")
        distance = distances(Y, truth.labels, start)
        print(f"{title:30s}  {'truth':14s}  {np.mean(distance):.4f}   {max(distance):.4f}")


def distances(Y, labels, start, n=100):
    """Total variation between EP's and the exact conditional of each of `n` series."""
    pair = [chain(Y, collapse=c, labels=labels, moving=FIXED, start=start)
            for c in ("ep", "collapsed")]  # fmt: skip
    state = pair[0][0].collapse.state
    for _ in range(3):
        compiled(full_pass, state)(state, pair[0][0].z, pair[0][0].counts, np.arange(len(Y)))
    out = []
    for i in np.random.default_rng(0).permutation(len(Y))[:n]:
        p, q = (conditional(s, i, rng) for s, rng in pair)
        out.append(0.5 * np.abs(p - q).sum())
    return out


def conditional(s, i, rng):
    """Probabilities of every cluster for series i given the others, as the sampler has them."""
    state, k = s.collapse.state, s.z[i]
    one = np.array([i], dtype=s.order.dtype)
    compiled(sweep, (state, s.prior))(state, s.prior, s.z, s.counts, one, s.weights, 0, rng)
    weight = s.counts[:20].astype(float)
    weight[s.z[i]] -= 1
    score = state.scores[:20] + np.log(weight + 1.0)
    p = np.exp(score - score.max())
    # Put it back where it was, so that every series is scored against the same partition.
    s.counts[s.z[i]] -= 1
    s.counts[k] += 1
    if s.z[i] != k:
        s.z[i] = k
        if hasattr(state, "information"):
            rebuild_clusters(state, s.z)
        else:
            every = np.ones(s.counts.size, dtype=bool)
            compiled(insert_members, state)(state, s.z, np.arange(len(s.z)), every)
            for _ in range(3):
                compiled(full_pass, state)(state, s.z, s.counts, np.arange(len(s.z)))
    return p / p.sum()


def recovery():
    """Agreement with the truth per sweep, from the same random starts."""
    from sklearn.metrics import normalized_mutual_info_score as nmi

    marks = (1, 2, 5, 10, 20, 40)
    print("collapse   NMI after", "  ".join(f"{m:5d}" for m in marks), "sweeps (mean of 4 trials)")
    for collapse in ("ep", "collapsed", "naive"):
        rows = []
        for trial in range(4):
            Y, truth = make_series(300, 200, 20, random_state=trial)
            s, rng = chain(Y, collapse=collapse, seed=trial,
                           draw="alternate" if collapse == "naive" else "auto")  # fmt: skip
            row = []
            for number in range(1, marks[-1] + 1):
                s.sweep(rng)
                if number in marks:
                    row.append(nmi(truth.labels, s.labels()))
            rows.append(row)
        print(f"{collapse:9s}           ", "  ".join(f"{v:.3f}" for v in np.mean(rows, 0)))


SECTIONS = {
    "score": score,
    "sweep": sweep_times,
    "corrected": corrected_times,
    "noise": noise,
    "fits": fits,
    "exact": exact_times,
    "linear": linear,
    "mixing": mixing,
    "accuracy": accuracy,
    "recovery": recovery,
}

if __name__ == "__main__":
    with threadpool_limits(1):
        for name in sys.argv[1:] or SECTIONS:
            print(f"\n== {name}: {SECTIONS[name].__doc__.splitlines()[0]}", flush=True)
            SECTIONS[name]()
