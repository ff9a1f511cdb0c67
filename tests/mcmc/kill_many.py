"""Kills and interrupts fits of every model at random moments, and compares what they end with.

    python tests/mcmc/kill_many.py 100 100

The cases are forked from one process that has fitted every model once, so a case costs no import.
"""

from __future__ import annotations

import os
import signal
import sys
import tempfile
import time
import traceback
import warnings
from collections import Counter
from pathlib import Path

import numpy as np
import pandas as pd
from kill_runs import COMMON, FITS, fit

from cavity import GaussianMixture, SeriesMixture, StudentTMixture, TableMixture

SHORT = {**COMMON, "n_warmup": 20, "n_draws": 100}
HANGS_AFTER = 120.0


def _series():
    rng = np.random.default_rng(0)
    return np.cumsum(rng.standard_normal((12, 20)), axis=1)


def _table():
    rng = np.random.default_rng(0)
    town = rng.choice(["a", "b", "c"], 60)
    return pd.DataFrame({"town": town, "x": rng.standard_normal(60), "n": rng.poisson(3, 60)})


def _rows():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((80, 2)).round(0)
    X[:4] = rng.uniform(-40, 40, (4, 2))
    return X


MORE = {
    "noise-rounded": (StudentTMixture, {"noise": True}, _rows),
    "diag": (GaussianMixture, {"covariance_type": "diag"}, _rows),
    "table": (TableMixture, {"feature_types": {"n": "count"}}, _table),
    **{
        f"series-{collapse}": (SeriesMixture, {"collapse": collapse}, _series)
        for collapse in ("ep", "corrected", "collapsed", "naive")
    },
}
MODELS = (*FITS, *MORE)


def arrays_of(name: str, checkpoint: Path) -> dict[str, np.ndarray]:
    """Draws of one model."""
    if name in FITS:
        return fit(name, checkpoint)
    estimator, options, data = MORE[name]
    settings = {"n_clusters": 3, **SHORT, **options, "checkpoint": checkpoint}
    posterior = estimator(**settings).fit(data()).posterior_
    arrays = {"labels": posterior.labels, "log_joint": posterior.log_joint}
    return arrays | {f"parameter {key}": value for key, value in posterior.parameters.items()}


def _forked(name: str, checkpoint: Path, result: Path) -> int:
    """Fork a fit; its exit code is 0 at the end, 3 after an interrupt, 1 after any other error."""
    child = os.fork()
    if child:
        return child
    code = 1
    try:
        os.environ["CAVITY_CHECKPOINT_EVERY"] = "0"
        signal.signal(signal.SIGINT, signal.default_int_handler)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            arrays = arrays_of(name, checkpoint)
        np.savez(result, **arrays)
        code = 0
    except KeyboardInterrupt:
        code = 3
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(code)


def _ended(child: int) -> int:
    """Exit code of a child, negative for a signal; -1000 where it had to be ended."""
    deadline = time.monotonic() + HANGS_AFTER
    while time.monotonic() < deadline:
        pid, status = os.waitpid(child, os.WNOHANG)
        if pid:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.005)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return -1000


def run_many(n_kills: int, n_interrupts: int, folder: Path, models=MODELS, seed=0) -> Counter:
    """Send so many signals in all, model after model; AssertionError where a fit is not whole."""
    rng = np.random.default_rng(seed)
    found: Counter = Counter()
    whole, seconds = {}, {}
    for name in models:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            arrays_of(name, folder / f"{name}.warm")  # compiles
            began = time.monotonic()
            whole[name] = arrays_of(name, folder / f"{name}.whole")
            seconds[name] = time.monotonic() - began
    left = {signal.SIGKILL: n_kills, signal.SIGINT: n_interrupts}
    case = 0
    while any(left.values()):
        name = models[case % len(models)]
        case += 1
        checkpoint, result = folder / f"{case}.checkpoint", folder / f"{case}.npz"
        for _ in range(6):
            number = [how for how, n in left.items() if n > 0]
            if not number:
                break
            how = number[int(rng.integers(len(number)))]
            child = _forked(name, checkpoint, result)
            time.sleep(rng.uniform(0.0, 1.2 * seconds[name]))
            pid, status = os.waitpid(child, os.WNOHANG)
            if pid:
                code = os.waitstatus_to_exitcode(status)
                assert code == 0, (name, case, code)
                found["ended before"] += 1
                break
            os.kill(child, how)
            code = _ended(child)
            # An interrupted fit that has draws returns them.
            assert code in ((-signal.SIGKILL, 0) if how == signal.SIGKILL else (0, 3)), (
                name,
                case,
                how,
                code,
            )
            left[how] -= 1
            found[f"{how.name} {code}"] += 1
        result.unlink(missing_ok=True)
        code = _ended(_forked(name, checkpoint, result))
        assert code == 0, (name, case, code)
        with np.load(result) as got:
            assert sorted(got) == sorted(whole[name]), name
            for key in got:
                np.testing.assert_array_equal(got[key], whole[name][key], err_msg=f"{name} {key}")
        assert not list(folder.glob("*.part"))
        found["compared"] += 1
    return found


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as place:
        print(dict(run_many(int(sys.argv[1]), int(sys.argv[2]), Path(place))))
