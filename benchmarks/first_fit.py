"""How long a first fit takes on a new machine, and how soon a later process sweeps.

    python benchmarks/first_fit.py                       # this checkout
    python benchmarks/first_fit.py --against ../old      # and another, turn about
    python benchmarks/first_fit.py --kinds student-t --repeats 5
    python benchmarks/first_fit.py --kernels             # and as from a release's wheel

Every figure is of a process of its own with an empty cache of kernels (the later process has the
one that the first left): 30 rows in two columns, or 6 series of 10 times, one chain of three
sweeps. "compile" is the first fit less the same fit in a later process; "to first sweep" is from
the start of the later process to the end of its chain's first sweep, imports included. Processor
seconds count the processes that a fit starts. The least of the repetitions is shown, since other
work can only add to it. A release's wheels have kernels in them (``.ci/kernels.py``, which takes
some minutes, once for a state of the sources); such a wheel is a copy of the package with them.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent.parent
KINDS = ("student-t", "student-t ep", "gaussian", "series")
FIT = """
import json, os, sys, time, warnings
began = time.time() - float(sys.argv[2])
warnings.simplefilter("ignore")
import numpy as np
kind = sys.argv[1]
name = {"gaussian": "GaussianMixture", "series": "SeriesMixture"}.get(kind, "StudentTMixture")
import cavity
make = getattr(cavity, name)
imported = time.time() - float(sys.argv[2])
ends = []
from cavity.mcmc.chain import PartitionSampler
plain = PartitionSampler.sweep

def sweep(self, rng):
    plain(self, rng)
    ends.append(time.time() - float(sys.argv[2]))

PartitionSampler.sweep = sweep
X = np.random.default_rng(0).standard_normal((30, 2))
more = {"collapse": "ep"} if kind == "student-t ep" else {}
fit = make(3, n_chains=1, n_warmup=1, n_draws=2, progress=False, random_state=0, **more).fit
fit(X.reshape(6, 10) if kind == "series" else X)
done = time.time() - float(sys.argv[2])
spent = os.times()
# The first sweep is that of the compile step; the chain's own is the one after.
print(json.dumps({"start": began, "imports": imported - began, "fit": done - imported,
    "sweep": ends[1] if len(ends) > 1 else done, "wall": done,
    "cpu": spent.user + spent.system + spent.children_user + spent.children_system}))
"""


def one_process(checkout, kind, cache):
    """Wall and processor seconds of the parts of a fit in a process of its own."""
    run = subprocess.run(
        [sys.executable, "-c", FIT, kind, str(time.time())],
        env={
            **os.environ,
            "PYTHONPATH": str(Path(checkout) / "src"),
            "CAVITY_CACHE_DIR": cache,
        },
        capture_output=True,
        text=True,
        check=True,
    )
    return json.loads(run.stdout.splitlines()[-1])


def first_and_later(checkout, kind):
    """A first fit and the same in a later process."""
    with tempfile.TemporaryDirectory() as cache:
        return one_process(checkout, kind, cache), one_process(checkout, kind, cache)


@contextlib.contextmanager
def with_kernels():
    """A copy of this checkout's package with kernels, as a release's wheel installs it."""
    from cavity._numba.cache import package_stamp
    from cavity._numba.prebuilt import folder_name

    kernels = HERE / "build" / "kernels"
    name = folder_name(package_stamp())
    if not (kernels / name).exists():
        subprocess.run([sys.executable, HERE / ".ci" / "kernels.py", kernels], check=True)
    with tempfile.TemporaryDirectory() as folder:
        package = Path(folder, "src", "cavity")
        shutil.copytree(HERE / "src" / "cavity", package)
        shutil.copytree(kernels / name, package / "kernels" / name)
        yield Path(folder)


def least(runs, which, name):
    """Smallest of a figure over the repetitions."""
    return min(pair[which][name] for pair in runs)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--against", help="folder of another checkout to compare with")
    parser.add_argument("--kernels", action="store_true", help="also with kernels, as in a wheel")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=KINDS)
    options = parser.parse_args()
    checkouts = {"here": HERE}
    if options.against:
        checkouts["there"] = Path(options.against).resolve()
    with with_kernels() if options.kernels else contextlib.nullcontext() as wheel:
        if wheel:
            checkouts["wheel"] = wheel
        compare(checkouts, options)


def compare(checkouts, options):
    """Measure checkouts turn about."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    threads = os.environ.get("NUMBA_NUM_THREADS", "as many as processors")
    print(f"{cores} processors, NUMBA_NUM_THREADS: {threads}; seconds, least of {options.repeats}")
    print(f"{'':22s}{'---------- first fit ----------':>48s}{'------- later process -------':>36s}")
    names = ("imports", "compile", "wall", "processor", "imports", "first sweep", "processor")
    print(f"{'':22s}" + "".join(f"{name:>12s}" for name in names))
    for kind in options.kinds:
        runs = {name: [] for name in checkouts}
        for _ in range(options.repeats):
            for name, checkout in checkouts.items():
                runs[name].append(first_and_later(checkout, kind))
        for name, pairs in runs.items():
            figures = (
                least(pairs, 0, "imports"),
                min(first["fit"] - later["fit"] for first, later in pairs),
                least(pairs, 0, "wall"),
                least(pairs, 0, "cpu"),
                least(pairs, 1, "imports"),
                least(pairs, 1, "sweep"),
                least(pairs, 1, "cpu"),
            )
            print(f"{kind + ', ' + name:22s}" + "".join(f"{x:12.2f}" for x in figures), flush=True)


if __name__ == "__main__":
    main()
