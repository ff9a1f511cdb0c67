"""Speed and memory of the mixture samplers, each beside a yardstick in the same run.

    python benchmarks/mixtures.py               # every section
    python benchmarks/mixtures.py sweep         # one

Sections: sweep, growth, memory, start. One thread, compilation apart; times are processor
seconds, the median of interleaved repetitions.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
import warnings

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np
from sklearn.mixture import GaussianMixture as ScikitGaussianMixture
from threadpoolctl import threadpool_limits

from cavity import GaussianMixture, StudentTMixture
from cavity._numba.jit import compiled
from cavity.datasets import make_student_t
from cavity.estimators.fitting import moves_for
from cavity.mcmc.sweep import sweep

# Sweeps before any is timed: EP finds its pace in them, as in a default fit.
WARM_UP = 200
SAMPLERS = (
    (StudentTMixture, "collapsed"),
    (StudentTMixture, "ep"),
    (StudentTMixture, "blocked"),
    (StudentTMixture, "naive"),
    (GaussianMixture, "collapsed"),
)


def start_chain(n, n_clusters, d, kind=StudentTMixture, collapse="collapsed", seed=0):
    """A chain of the estimator with its default settings, started from the true labels."""
    y, truth = make_student_t(n, n_clusters, d, 5.0, "medium", random_state=seed)
    y = np.ascontiguousarray((y - np.median(y, axis=0)) / y.std(axis=0))
    rng = np.random.default_rng(seed)
    plan = kind(n_clusters, collapse=collapse, noise=False).check(y).plan
    parts = plan.assemble(plan.n_slots)
    parts.collapse.warm_up(WARM_UP)
    moves = moves_for(parts, plan.anchors(), WARM_UP)
    return y, plan.sampler(parts, truth.labels, rng, moves), rng


def whole_sweep(sampler, rng):
    """One sweep with everything that follows it, timed."""
    start = time.thread_time()
    sampler.sweep(rng)
    return time.thread_time() - start


def move_seconds(sampler):
    """Wall seconds of the moves so far."""
    return sampler.events().get("move_seconds", 0.0)


def em_iteration(model, y):
    start = time.thread_time()
    _, log_responsibility = model._e_step(y)
    model._m_step(y, log_responsibility)
    return time.thread_time() - start


def sweeps():
    """Sweeps of every sampler against one EM iteration of scikit-learn's GaussianMixture.

    The first of them is the default. Sweeps have all that a fit does between two draws: the moves
    (where the collapse has any, and whose share of the time is shown), the parameters, the learned
    priors. A sweep's moves vary, so that times are means over a round of sweeps, and the median of
    the rounds' ratios counts.
    """
    print(f"{'':38s}{'sweep, ms':>12s}{'EM, ms':>10s}{'ratio':>8s}{'moves':>8s}")
    for n, n_clusters, d in ((600, 20, 2), (10_000, 10, 3), (2_000, 20, 10)):
        for kind, collapse in SAMPLERS:
            y, sampler, rng = start_chain(n, n_clusters, d, kind, collapse)
            peer = ScikitGaussianMixture(n_clusters, max_iter=2, random_state=0).fit(y)
            for _ in range(WARM_UP):
                sampler.sweep(rng)
            repeats = max(3, 3000 // n)
            rounds = []
            moves, spent = move_seconds(sampler), 0.0
            for _ in range(15):
                started = time.perf_counter()
                ours = np.mean([whole_sweep(sampler, rng) for _ in range(repeats)])
                spent += time.perf_counter() - started
                theirs = np.mean([em_iteration(peer, y) for _ in range(max(2, repeats // 2))])
                rounds.append((ours * 1e3, theirs * 1e3, ours / theirs))
            a, b, ratio = np.median(rounds, axis=0)
            share = (move_seconds(sampler) - moves) / spent
            name = f"{kind.__name__} {collapse} {n:,} x {d}, K={n_clusters}"
            print(f"{name:42s}{a:8.3f}{b:10.3f}{ratio:8.2f}{share:8.0%}", flush=True)


def growth():
    """Cost per observation as N, K and d grow: microseconds per observation and sweep."""
    for title, shapes in (
        ("N, at K = 10, d = 3", [(n, 10, 3) for n in (1_000, 10_000, 100_000, 1_000_000)]),
        ("K, at N = 20,000, d = 3", [(20_000, k, 3) for k in (5, 10, 20, 50, 100)]),
        ("d, at N = 5,000, K = 10", [(5_000, 10, d) for d in (2, 5, 10, 20, 30)]),
    ):
        cells = []
        for n, n_clusters, d in shapes:
            _, sampler, rng = start_chain(n, n_clusters, d)
            state = sampler.collapse.state
            run = compiled(sweep, (state, sampler.prior))
            times = []
            for _ in range(3):
                start = time.thread_time()
                run(state, sampler.prior, sampler.z, sampler.counts, sampler.order,
                    sampler.weights, 0, rng)  # fmt: skip
                times.append(time.thread_time() - start)
            cells.append(f"{n:,}/{n_clusters}/{d}: {min(times) / n * 1e6:.2f} us")
        print(f"{title}: " + ", ".join(cells), flush=True)


MEMORY = """
import numpy as np
from cavity import StudentTMixture

def peak_memory():
    # The kernel's own mark: that of getrusage is inherited from the process that started this.
    line = next(x for x in open("/proc/self/status") if x.startswith("VmHWM"))
    return int(line.split()[1]) * 1024

n = {n}
X = np.random.default_rng(0).standard_normal((n, 3)) * 3
X[: n // 2] += 10
before = peak_memory()
model = StudentTMixture(10, n_chains=1, n_warmup=1, n_draws=2, random_state=0, progress=False)
import cavity.posterior.posterior as home
home.Posterior.partition = lambda self, *a, **k: (_ for _ in ()).throw(SystemExit)
try:
    model.fit(X)
except SystemExit:
    pass
print(peak_memory() - before)
"""


def bytes_per_row():
    """Peak memory of sampling a million rows beyond the data and the kept draws, per row."""
    sizes = {}
    for n in (1_000, 1_000_000):
        run = subprocess.run(
            [sys.executable, "-c", MEMORY.format(n=n)], capture_output=True, text=True, check=True
        )
        sizes[n] = int(run.stdout)
    return (sizes[1_000_000] - sizes[1_000]) / 999_000


def memory():
    """Peak memory, as above."""
    print(f"bytes per observation beyond the data and code, N = 1,000,000: {bytes_per_row():.0f}")


START = "import time; t=time.perf_counter(); {code}; print(time.perf_counter()-t)"
FIT = (
    "import numpy as np; from cavity import StudentTMixture; "
    "StudentTMixture(3, n_chains=1, n_warmup=1, n_draws=2, progress=False, random_state=0)"
    ".fit(np.random.default_rng(0).standard_normal((60, 2)))"
)


def start():
    """Seconds to import, to compile on a new machine, and to begin in a later process."""

    def seconds(code, folder):
        run = subprocess.run(
            [sys.executable, "-c", START.format(code=code)],
            env={**os.environ, "CAVITY_CACHE_DIR": folder},
            capture_output=True,
            text=True,
            check=True,
        )
        return float(run.stdout)

    with tempfile.TemporaryDirectory() as folder:
        print(f"import cavity: {seconds('import cavity', folder):.3f} s")
        imports = seconds("from cavity import StudentTMixture", folder)
        print(f"import of the estimators: {imports:.2f} s")
        first = seconds(FIT, folder)
        later = seconds(FIT, folder)
        print(f"first fit, kernels compiled: {first:.1f} s; in a later process: {later:.1f} s")


SECTIONS = {"sweep": sweeps, "growth": growth, "memory": memory, "start": start}

if __name__ == "__main__":
    warnings.simplefilter("ignore")
    with threadpool_limits(1):
        for name in sys.argv[1:] or SECTIONS:
            print(f"\n## {name}")
            SECTIONS[name]()
