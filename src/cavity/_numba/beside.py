"""A second process that compiles kernels while this one compiles others.

Numba holds a lock while it compiles, so threads cannot share the work; processes can, through the
cache and claims on kernels (`cavity._numba.claims`). Nothing depends on the second one: a kernel
that it has not left there is compiled here.
"""

from __future__ import annotations

import contextlib
import multiprocessing.spawn
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import numba

from cavity._numba.cache import cache_directory, kernels_are_kept
from cavity._numba.claims import FOLDER, sharing

_QUOTA = Path("/sys/fs/cgroup/cpu.max")
_PATIENCE = 120  # seconds to wait for the second process once this one is done


def processors() -> int:
    """Processors that compiling may use: as many as Numba, no more than the container may.

    Examples
    --------
    >>> from cavity._numba.beside import processors
    >>> processors() >= 1
    True
    """
    available = int(numba.config.NUMBA_NUM_THREADS)
    # Where there is no such group, or one without a limit, Numba's number stands.
    with contextlib.suppress(OSError, ValueError):
        quota, period = _QUOTA.read_text().split()
        available = min(available, max(1, int(quota) // int(period)))
    return available


@contextlib.contextmanager
def compiled_beside(module: str, *arguments: str) -> Iterator[bool]:
    """Run ``python -m module`` meanwhile, where no kernels are kept yet, and wait for its end.

    It needs a folder for the cache, a second processor and a Python to start; without one of
    them, or where anything goes wrong, nothing is done. Gives whether it was started.

    Parameters
    ----------
    module : str
        Which compiles kernels when it is run.
    *arguments : str
        That it is given.
    """
    with contextlib.ExitStack() as stack:
        process = None
        # Where no folder can be made for claims, there is no second process.
        with contextlib.suppress(OSError):
            claims = stack.enter_context(tempfile.TemporaryDirectory(prefix="cavity-"))
            process = _started(module, *arguments, claims=claims)
        if process is None:
            yield False
            return
        stack.callback(_end, process)
        with sharing(Path(claims), lambda: process.poll() is None):
            yield True
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(_PATIENCE)


def _end(process: subprocess.Popen[bytes]) -> None:
    if process.poll() is None:
        process.kill()
        process.wait()


def _started(module: str, *arguments: str, claims: str) -> subprocess.Popen[bytes] | None:
    folder = cache_directory()
    python = os.fsdecode(multiprocessing.spawn.get_executable() or "")
    # Where Python is part of another program, the executable is that program.
    is_python = re.fullmatch(r"python[\d.]*t?(\.exe)?", Path(python).name.lower())
    if folder is None or kernels_are_kept() or not is_python or processors() < 2:
        return None
    environment = {
        **os.environ,
        "CAVITY_CACHE_DIR": str(folder.parent.parent),
        FOLDER: claims,
        "PYTHONPATH": os.pathsep.join(path or os.curdir for path in sys.path),
    }
    try:
        return subprocess.Popen(
            [python, "-P", "-m", module, *arguments],  # -P: the path above is all, as it is here
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            creationflags=getattr(subprocess, "CREATE_NO_WINDOW", 0),
        )
    except OSError:
        return None
