"""Kernels that came with the package, compiled before it was installed.

A wheel may hold the code of its commonest kernels, for a *level* of processors rather than for
the one at hand: what every processor with certain vector instructions can run. Such code is as
trusted as the package's text beside it. It is used where it fits exactly: the same sources, the
same Numba, LLVM and Python, a processor of that level, and no wish for another one by
``NUMBA_CPU_NAME``. Everything else is compiled, as it is from a wheel without kernels.

``.ci/kernels.py`` compiles them, ``hatch_build.py`` puts them into a wheel.
"""

from __future__ import annotations

import functools
import platform
import sys
from pathlib import Path
from typing import NamedTuple

import llvmlite.binding
import numba

_HERE = Path(__file__).parent.parent / "kernels"


class Level(NamedTuple):
    """A processor that code is compiled for, by LLVM's name, and what it takes to run the code."""

    name: str
    features: frozenset[str] = frozenset()


_V3 = frozenset(
    {"cx16", "popcnt", "sahf", "sse3", "sse4.1", "sse4.2", "ssse3"}
    | {"avx", "avx2", "bmi", "bmi2", "f16c", "fma", "lzcnt", "movbe", "xsave"}
)
_V4 = _V3 | {"avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"}
_X86 = (Level("x86-64-v4", _V4), Level("x86-64-v3", _V3))


def levels() -> tuple[Level, ...]:
    """What kernels are shipped for on machines of this kind, the most able first.

    Examples
    --------
    >>> from cavity._numba.prebuilt import levels
    >>> all(isinstance(level.name, str) for level in levels())
    True
    """
    machine = platform.machine().lower()
    if machine in ("x86_64", "amd64"):
        return _X86
    if machine in ("arm64", "aarch64"):
        return (Level("apple-m1" if sys.platform == "darwin" else "generic"),)
    return ()


def folder_name(stamp: str) -> str:
    """The folder of kernels of such sources and this Python."""
    return f"{stamp}-{sys.implementation.cache_tag}"


def best_level(among: tuple[Level, ...], folder: Path, features: dict[str, bool]) -> Level | None:
    """The most able level that a processor reaches and a folder has code for, if any."""
    for level in among:
        able = all(features.get(name, False) for name in level.features)
        if able and (folder / level.name).is_dir():
            return level
    return None


class Shipped(NamedTuple):
    """Where this machine's kernels are, and the processor that Numba was told of for them."""

    folder: Path
    processor: str


@functools.cache
def shipped_kernels(stamp: str) -> Shipped | None:
    """The kernels that came with the package and that this machine can run, or None."""
    if numba.config.CPU_NAME is not None or numba.config.CPU_FEATURES is not None:
        return None
    folder = _HERE / folder_name(stamp)
    if not folder.is_dir():
        return None
    level = best_level(levels(), folder, dict(llvmlite.binding.get_host_cpu_features()))
    return None if level is None else Shipped(folder / level.name, level.name)


__all__ = ["Level", "Shipped", "best_level", "folder_name", "levels", "shipped_kernels"]
