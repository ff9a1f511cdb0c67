"""Whether all draws of a run will fit in memory, found out before the first sweep."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from cavity.mcmc.draws import smallest_integer_type
from cavity.utils.text import readable_bytes

if TYPE_CHECKING:
    from cavity.mcmc.runner import Sampler

_MEMINFO = Path("/proc/meminfo")
_GROUP = Path("/sys/fs/cgroup")


def available_bytes() -> int | None:
    """Memory that this process could still take; None where the system does not tell.

    Examples
    --------
    >>> from cavity.mcmc.memory import available_bytes
    >>> free = available_bytes()
    >>> free is None or free > 0
    True
    """
    rooms = [room for room in (_system_room(), _group_room()) if room is not None]
    return min(rooms, default=None)


def _system_room() -> int | None:
    try:
        for line in _MEMINFO.read_text().splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
    except (OSError, ValueError, IndexError):
        pass
    # Elsewhere: the free pages, or all there are where the free ones are not told.
    for name in ("SC_AVPHYS_PAGES", "SC_PHYS_PAGES"):
        try:
            pages, size = os.sysconf(name), os.sysconf("SC_PAGE_SIZE")
        except (AttributeError, ValueError, OSError):
            continue
        if pages > 0 and size > 0:
            return pages * size
    return None


def _group_room() -> int | None:
    """What the container or job that the process is in may still take."""
    try:
        most = int((_GROUP / "memory.max").read_text())
        used = int((_GROUP / "memory.current").read_text())
        stat = dict(line.split() for line in (_GROUP / "memory.stat").read_text().splitlines())
        return max(0, most - used + int(stat.get("inactive_file", 0)))
    except (OSError, ValueError):
        return None  # no such group, or one without a limit


def bytes_of_draws(
    labels: np.ndarray, record: Mapping[str, Any], n_chains: int, kept: StoredDraws
) -> dict[str, int]:
    """Bytes that all kept draws take, by name, if every draw is like the one given.

    Parameters
    ----------
    labels : array, shape (n,)
        Labels of one draw.
    record : mapping of arrays
        Other quantities of one draw.
    n_chains : int
        Number of chains.
    kept : StoredDraws
        What one chain keeps.
    """
    top = int(labels.max()) if labels.size else 0
    label_bytes = smallest_integer_type(0, top).itemsize
    sizes = {"labels": n_chains * (kept.draws + kept.warmup) * labels.size * label_bytes}
    for name, value in record.items():
        sizes[name] = n_chains * kept.draws * np.asarray(value).nbytes
    # A log joint density and the number of its sweep with each draw.
    sizes["times of sweeps"] = n_chains * 8 * (kept.sweeps + 2 * kept.draws)
    return sizes


class StoredDraws(NamedTuple):
    """What one chain keeps at the least: draws, labels of warm-up sweeps, times of sweeps."""

    draws: int
    warmup: int
    sweeps: int
    automatic: bool = False  # whether the number of draws is the run's own choice


class MemoryCheck:
    """Refuses, once in a run, draws for which there is no room.

    Parameters
    ----------
    n_chains : int
        Number of chains.
    kept : StoredDraws
        What one chain keeps.
    room : callable
        Gives the bytes that are free, or None.
    """

    def __init__(
        self,
        n_chains: int,
        kept: StoredDraws,
        room: Callable[[], int | None] = available_bytes,
    ) -> None:
        self._n_chains = n_chains
        self._kept = kept
        self._room = room
        self._lock = threading.Lock()
        self._passed = False

    def __call__(self, sampler: Sampler) -> None:
        """Estimate from a started sampler; later chains, in less free memory, count with it."""
        with self._lock:
            if not self._passed:
                self._refuse_too_many(sampler)
                self._passed = True

    def _refuse_too_many(self, sampler: Sampler) -> None:
        room = self._room()
        sizes = bytes_of_draws(sampler.labels(), sampler.record(), self._n_chains, self._kept)
        needed = sum(sizes.values())
        if room is None or needed <= room:
            return
        largest = max(sizes, key=sizes.__getitem__)
        n_draws = self._kept.draws
        fitting = int(n_draws * room / needed)
        what = f"n_draws={n_draws} draws"
        ask = f"Ask for at most {max(1, fitting)} draws (with a larger thin they tell as much)"
        if self._kept.automatic:
            what = f"the {n_draws} draws that n_draws='auto' takes at the least"
            ask = f"Ask for n_draws={max(1, fitting)}"
        raise MemoryError(
            f"Keeping {what} in each of {self._n_chains} chains takes at least "
            f"{readable_bytes(needed)} of memory ({largest}: {readable_bytes(sizes[largest])}) and "
            f"{readable_bytes(room)} are free. {ask}, for "
            "fewer chains, or give fewer rows or columns."
        )
