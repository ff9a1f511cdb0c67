"""Which workers a cluster has."""

from __future__ import annotations

from typing import Any

from distributed import Client

from cavity.scale.sources import ShardError

# Seconds to wait for a first worker: those of a cluster that has just begun, or lost its last.
PATIENCE = 60.0


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
