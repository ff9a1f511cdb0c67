"""Which workers a cluster has, and waiting for tasks while they come and go."""

from __future__ import annotations

import time
from collections.abc import Sequence
from concurrent.futures import CancelledError
from typing import Any

from distributed.comm import CommClosedError
from distributed.diagnostics.plugin import SchedulerPlugin

from cavity.distributed.sources import ShardError
from distributed import Client, wait

# Seconds to wait for a first worker: those of a cluster that has just begun, or lost its last.
PATIENCE = 60.0
# Seconds between two looks at whether there are workers at all.
LOOK = 5.0
# Workers that may die under one task before it is blamed.
ALLOWED_FAILURES = 10
# What the names of all tasks that would rather be somewhere begin with.
OURS = "cavity-"


class DropWorkerRestrictions(SchedulerPlugin):
    """Lets tasks that would rather have run on a worker that is gone run on any.

    A task with ``allow_other_workers`` that becomes ready while there is no worker at all is
    parked by Dask's scheduler until one comes with an address that the task has named, others
    allowed or not. A worker that is started again has another address, so that the task, and
    whatever waits for it, would not run any more.
    """

    name = "cavity-drop-worker-restrictions"
    idempotent = True

    async def start(self, scheduler: Any) -> None:
        """Learn whose tasks these are."""
        self._scheduler = scheduler

    def transition(self, key: Any, start: str, finish: str, *args: Any, **kwargs: Any) -> None:
        """Take the names of workers off a task that is being parked."""
        if finish == "no-worker" and str(key).startswith(OURS):
            task = self._scheduler.tasks[key]
            if task.loose_restrictions:
                self._scheduler.set_restrictions({key: ()})


def _set_allowed_failures(number: int, dask_scheduler: Any = None) -> None:
    dask_scheduler.allowed_failures = max(number, dask_scheduler.allowed_failures)


def expect_losses(client: Client) -> None:
    """Let a cluster's scheduler go on with our tasks whatever becomes of its workers."""
    client.register_plugin(DropWorkerRestrictions())
    client.run_on_scheduler(_set_allowed_failures, ALLOWED_FAILURES)


def is_stalled(keys: list[Any], dask_scheduler: Any = None) -> bool:
    """Whether workers have nothing to do though the scheduler knows of all these tasks."""
    known = dask_scheduler.tasks
    at_work = any(worker.processing for worker in dask_scheduler.workers.values())
    return bool(dask_scheduler.running) and not at_work and all(key in known for key in keys)


def wait_for(client: Client, futures: Sequence[Any], until: str = "ALL_COMPLETED") -> None:
    """Wait for tasks to be done, or for it to be plain that they never will.

    That is where the last worker has been gone for too long (Dask starts a worker again that dies,
    but not one that dies while it starts), or where workers do nothing though tasks are left.
    """
    hopeless: dict[str, float] = {}
    while True:
        try:
            wait(futures, timeout=LOOK, return_when=until)
            return
        except TimeoutError:
            reason = _no_progress(client, [future.key for future in futures])
        now = time.monotonic()
        hopeless = {reason: hopeless.get(reason, now)} if reason else {}
        if reason and now - hopeless[reason] > PATIENCE:
            raise ShardError(
                f"For {PATIENCE:.0f} s {reason}. Start workers, and repeat the fit; with "
                "checkpoint= it goes on where it was."
            )


def _no_progress(client: Client, keys: list[Any]) -> str:
    """Why tasks cannot come to an end as things are; empty if they can."""
    if not client.nthreads():
        return "the Dask cluster has had no worker: all were lost, and none was started again"
    if client.run_on_scheduler(is_stalled, keys):
        return "Dask's workers have had nothing to do, though tasks are left"
    return ""


def results_of(client: Client, futures: Sequence[Any]) -> list[Any]:
    """Results of tasks that nobody needs again, in order."""
    try:
        wait_for(client, futures)
        found: list[Any] = client.gather(list(futures))
    except (CancelledError, CommClosedError) as error:
        raise ShardError(
            "The connection to the Dask scheduler was lost. Start the cluster and repeat the fit; "
            "with checkpoint= it goes on where it was."
        ) from error
    for future in futures:
        # Not left to the collection of garbage: where a worker was lost, Dask's client has cycles
        # of references, and results that are kept are computed again at every loss.
        future.release()
    return found


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
