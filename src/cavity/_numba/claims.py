"""Who compiles which kernel, where two processes fill one cache: the first to claim it.

A claim is an empty file in a folder that both know; another says that the kernel is in the
cache. Whoever needs a kernel that the other has claimed waits for it. A claim of a process that
has ended holds nobody up.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

FOLDER = "CAVITY_CLAIMS"  # the variable that tells a second process of the folder
_PAUSE = 0.01  # seconds between two looks at what the other has done


class _Shared(NamedTuple):
    folder: Path
    other_runs: Callable[[], bool]


_shared: list[_Shared] = []


@contextlib.contextmanager
def sharing(folder: Path, other_runs: Callable[[], bool]) -> Iterator[None]:
    """Meanwhile kernels are shared with another process, while that runs."""
    _shared.append(_Shared(folder, other_runs))
    try:
        yield
    finally:
        _shared.pop()


@contextlib.contextmanager
def sharing_with_parent() -> Iterator[None]:
    """The same in a second process, if it was told of a folder by the one that started it."""
    parent = os.getppid()
    if FOLDER in os.environ:
        with sharing(Path(os.environ[FOLDER]), lambda: os.getppid() == parent):
            yield
    else:
        yield


@contextlib.contextmanager
def turn(kernel: str) -> Iterator[None]:
    """Compile a kernel, or take it from the cache once the other process has.

    Parameters
    ----------
    kernel : str
        The function and the types of its arguments, in the same words in both processes.

    Examples
    --------
    >>> from cavity._numba.claims import turn
    >>> with turn("cavity.toys.sweep(float64)"):
    ...     pass
    """
    if not _shared:
        yield
        return
    folder, other_runs = _shared[-1]
    claim = folder / hashlib.sha256(kernel.encode()).hexdigest()[:24]
    done = claim.with_suffix(".done")
    try:
        claim.touch(exist_ok=False)
    except FileExistsError:
        while not done.exists() and other_runs():
            time.sleep(_PAUSE)
        yield
        return
    except OSError:  # the folder is gone, and whoever made it
        yield
        return
    yield
    with contextlib.suppress(OSError):
        done.touch()


__all__ = ["FOLDER", "sharing", "sharing_with_parent", "turn"]
