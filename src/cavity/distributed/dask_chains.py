"""Whole chains on the workers of a Dask cluster: the draws are those of threads here."""

from __future__ import annotations

import uuid
from collections import OrderedDict
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import dask
from distributed.comm import CommClosedError
from distributed.scheduler import KilledWorker

from cavity.distributed.dask_workers import expect_losses, results_of, workers_of
from cavity.mcmc.remote import ChunkRequest, ChunkResult, ChunkWorker
from distributed import Client

RETRIES = 3
# Samplers that a worker keeps from one chunk to the next, the latest used.
MOST_KEPT = 16
_kept: OrderedDict[str, ChunkWorker] = OrderedDict()


def go(make_sampler: Callable[..., Any], request: ChunkRequest, name: str) -> ChunkResult:
    """Run a chunk on a worker, with the sampler of the last chunk if it is still here."""
    worker = _kept.pop(name, None)
    if worker is None:
        worker = ChunkWorker(make_sampler, request.chain)
    result = worker.run(request)
    _kept[name] = worker
    while len(_kept) > MOST_KEPT:
        _kept.popitem(last=False)
    return result


def forget(run: str) -> None:
    """Let go of a run's samplers."""
    for name in [name for name in _kept if name.startswith(run)]:
        del _kept[name]


def itself(value: Any) -> Any:
    """A task whose result the workers share."""
    return value


class ChainsAway:
    """Runs chunks of chains on a cluster's workers; a context that clears up after itself.

    Parameters
    ----------
    client : distributed.Client
    make_sampler : callable
        As for `cavity.mcmc.runner.run_chains`.
    """

    def __init__(self, client: Client, make_sampler: Callable[..., Any]) -> None:
        self._client = client
        self._run = uuid.uuid4().hex[:12]
        expect_losses(client)
        self._workers = sorted(workers_of(client))
        # The data go with it, once, and can be sent again to a worker that comes later.
        with dask.config.set({"distributed.admin.large-graph-warning-threshold": "1TB"}):
            self._maker = client.submit(itself, make_sampler, key=f"cavity-maker-{self._run}")

    def __call__(self, request: ChunkRequest) -> ChunkResult:
        """Run a chunk, on the worker that had the chain last if it is still there."""
        place = self._workers[request.chain % len(self._workers)]
        name = f"{self._run}-{request.chain}"
        with dask.config.set({"distributed.admin.large-graph-warning-threshold": "1TB"}):
            future = self._client.submit(
                go, self._maker, request, name, key=f"cavity-chunk-{name}-{request.n_sweeps}",
                workers=[place], allow_other_workers=True, retries=RETRIES,
            )  # fmt: skip
        try:
            result: ChunkResult
            (result,) = results_of(self._client, [future])
        except KilledWorker as error:
            raise MemoryError(
                f"Workers died with chain {request.chain + 1}, most likely for lack of memory; "
                "give them more, or run fewer chains on each."
            ) from error
        return result

    def __enter__(self) -> ChainsAway:
        return self

    def __exit__(self, *error: object) -> None:
        with suppress(CommClosedError, OSError, RuntimeError):  # the scheduler may be gone
            self._client.run(forget, self._run, on_error="ignore")
