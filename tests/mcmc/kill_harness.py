"""Kills a run with SIGKILL at random moments until it ends, and compares it with a whole one.

The run is a function ``f(checkpoint) -> dict of arrays`` in a file of its own; it must use the
checkpoint that it is given, and a fixed seed. For a test elsewhere::

    from kill_harness import resumes_bit_for_bit

    def test_survives(tmp_path):
        resumes_bit_for_bit("path/to/file.py:function", tmp_path, seed=1)

The file is loaded in a fresh process each time, with its folder on the path.
"""

from __future__ import annotations

import importlib.util
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np

READY = "sampling"


def resumes_bit_for_bit(
    target: str,
    folder: Path,
    *,
    seed: int,
    n_kills: int = 4,
    longest: float = 1.0,
    checkpoint_every: float = 0.0,
    timeout: float = 300.0,
) -> int:
    """Assert that `target` killed `n_kills` times gives the arrays of a run left alone.

    Parameters
    ----------
    target : str
        ``file.py:function``.
    folder : path
        Where checkpoints and results go.
    seed : int
        Of the moments at which the process is killed.
    n_kills : int
        How often at most.
    longest : float
        Seconds within which each kill falls, counted from the start of the function.
    checkpoint_every : float
        Seconds between checkpoints; 0 is as often as can be.
    timeout : float
        Seconds for any one process.

    Returns
    -------
    n_killed : int
        Processes that were alive when the signal came.
    """
    whole, killed = folder / "whole.npz", folder / "killed.npz"
    _finish(_start(target, folder / "whole.checkpoint", whole, checkpoint_every), timeout)
    n_killed, rng = 0, np.random.default_rng(seed)
    for delay in rng.uniform(0.0, longest, size=n_kills):
        process = _start(target, folder / "killed.checkpoint", killed, checkpoint_every)
        assert process.stdout is not None
        assert process.stdout.readline().strip() == READY, "the run did not start"
        time.sleep(delay)
        n_killed += kill(process)
    _finish(_start(target, folder / "killed.checkpoint", killed, checkpoint_every), timeout)
    with np.load(whole) as expected, np.load(killed) as got:
        assert sorted(expected) == sorted(got)
        for name in expected:
            assert expected[name].dtype == got[name].dtype, name
            np.testing.assert_array_equal(got[name], expected[name], err_msg=name)
    leftovers = [p.name for p in folder.iterdir() if p.suffix == ".part"]
    assert not leftovers, f"left behind: {leftovers}"
    return n_killed


def kill(process: subprocess.Popen) -> bool:
    """Send SIGKILL; return whether it ended the process."""
    process.send_signal(signal.SIGKILL)
    process.communicate()
    return process.returncode == -signal.SIGKILL


def _start(target: str, checkpoint: Path, result: Path, every: float) -> subprocess.Popen:
    return subprocess.Popen(
        [sys.executable, __file__, target, str(checkpoint), str(result)],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "CAVITY_CHECKPOINT_EVERY": str(every)},
    )


def _finish(process: subprocess.Popen, timeout: float) -> None:
    process.communicate(timeout=timeout)
    assert process.returncode == 0, f"the run ended with code {process.returncode}"


def _main(target: str, checkpoint: str, result: str) -> None:
    file, _, function = target.rpartition(":")
    sys.path.insert(0, str(Path(file).resolve().parent))
    spec = importlib.util.spec_from_file_location("kill_target", file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["kill_target"] = module
    spec.loader.exec_module(module)
    print(READY, flush=True)
    arrays = getattr(module, function)(Path(checkpoint))
    np.savez(result, **arrays)


if __name__ == "__main__":
    _main(*sys.argv[1:])
