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
from cavity.core.compile import compiled
from cavity.datasets import make_student_t
from cavity.sampling.sweep import sweep

# Sweeps before any is timed: EP finds its pace in them, as in a default fit.
WARM_UP = 200


def start_chain(n, n_clusters, d, collapse="ep", seed=0):
    """A chain of the estimator with its default settings, started from the true labels."""
    y, truth = make_student_t(n, n_clusters, d, 5.0, "medium", random_state=seed)
    y = np.ascontiguousarray((y - np.median(y, axis=0)) / y.std(axis=0))
    kind = GaussianMixture if collapse == "collapsed" else StudentTMixture
    mixture = kind(n_clusters, collapse=collapse)
    rng = np.random.default_rng(seed)
    plan, _ = mixture._plan(y)
    return y, plan.sampler(plan.assemble(plan.n_slots), truth.labels, rng), rng


def whole_sweep(sampler, rng):
    """One sweep with everything that follows it, timed."""
    start = time.thread_time()
    sampler.sweep(rng)
    return time.thread_time() - start


def em_iteration(model, y):
    start = time.thread_time()
    _, log_responsibility = model._e_step(y)
    model._m_step(y, log_responsibility)
    return time.thread_time() - start


def sweeps():
    """Sweeps of every collapse against one EM iteration of scikit-learn's GaussianMixture."""
    print(f"{'':22s}{'sweep, ms':>12s}{'EM, ms':>10s}{'ratio':>8s}")
    for n, n_clusters, d in ((600, 20, 2), (10_000, 10, 3), (2_000, 20, 10)):
        for collapse in ("ep", "blocked", "naive", "collapsed"):
            y, sampler, rng = start_chain(n, n_clusters, d, collapse)
            peer = ScikitGaussianMixture(n_clusters, max_iter=2, random_state=0).fit(y)
            sampler.collapse.warm_up(WARM_UP)
            for _ in range(WARM_UP):
                sampler.sweep(rng)
            repeats = max(3, 3000 // n)
            ours, theirs = [], []
            for _ in range(15):
                ours += [whole_sweep(sampler, rng) for _ in range(repeats)]
                theirs += [em_iteration(peer, y) for _ in range(max(2, repeats // 2))]
            a, b = np.median(ours) * 1e3, np.median(theirs) * 1e3
            name = f"{collapse} {n:,} x {d}, K={n_clusters}"
            print(f"{name:32s}{a:8.3f}{b:10.3f}{a / b:8.2f}", flush=True)


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


def memory():
    """Peak memory of sampling a million rows beyond the data and the kept draws."""
    sizes = {}
    for n in (1_000, 1_000_000):
        run = subprocess.run(
            [sys.executable, "-c", MEMORY.format(n=n)], capture_output=True, text=True, check=True
        )
        sizes[n] = int(run.stdout)
    extra = (sizes[1_000_000] - sizes[1_000]) / 999_000
    print(f"bytes per observation beyond the data and code, N = 1,000,000: {extra:.0f}")


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
