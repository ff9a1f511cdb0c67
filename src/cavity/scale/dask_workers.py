"""Which workers a cluster has."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

from distributed import Client, wait

from cavity.scale.sources import ShardError

# Seconds to wait for a first worker: those of a cluster that has just begun, or lost its last.
PATIENCE = 60.0


# Seconds between two looks at whether there are workers at all.
LOOK = 5.0


def wait_for(client: Client, futures: Sequence[Any], until: str = "ALL_COMPLETED") -> None:
    """Wait for tasks to be done, or for the last worker to have been gone for too long.

    Dask starts a worker again that dies, but not one that dies while it starts; without any, tasks
    would wait for good.
    """
    deserted = None
    while True:
        try:
            wait(futures, timeout=LOOK, return_when=until)
            return
        except TimeoutError:
            if client.nthreads():
                deserted = None
                continue
        now = time.monotonic()
        deserted = now if deserted is None else deserted
        if now - deserted > PATIENCE:
            raise ShardError(
                f"The Dask cluster has had no worker for {PATIENCE:.0f} s: all were lost, and none "
                "was started again. Start some and repeat the fit; with checkpoint= it goes on "
                "where it was."
            )


def workers_of(client: Client) -> dict[str, int]:
    """Threads of every worker, by its address; waits for one if there is none."""
    found: dict[str, Any] = dict(client.nthreads())
    if not found:
        try:
            client.wait_for_workers(1, timeout=PATIENCE)
        except TimeoutError:
            raise ShardError("The Dask cluster has no workers; start some first.") from None
        found = dict(client.nthreads())
    return found
