"""All workers of a cluster lost at once: tasks go on with those that come after."""

from __future__ import annotations

import os
import threading
import time

import numpy as np
import pandas as pd
import pytest
from dask_cases import kill, rows, same_draws, write_rows

import distributed
from cavity import SeriesMixture, StudentTMixture
from cavity.datasets import make_series
from cavity.distributed import dask_workers
from cavity.distributed.sources import ShardError


def state_of(key, dask_scheduler=None):
    return dask_scheduler.tasks[key].state if key in dask_scheduler.tasks else "unheard of"


def test_tasks_do_not_wait_for_the_address_of_a_lost_worker():
    """Tasks of others show why: with a Dask that runs them too, ours need no help."""
    options = {"processes": False, "threads_per_worker": 1, "dashboard_address": None}
    with (
        distributed.LocalCluster(n_workers=1, **options) as local,
        distributed.Client(local) as client,
    ):
        dask_workers.expect_losses(client)
        dask_workers.expect_losses(client)  # once for each fit
        (address,) = client.nthreads()
        local.scale(0)
        while client.nthreads():
            time.sleep(0.01)
        there = {"workers": [address], "allow_other_workers": True}
        ours = client.submit(abs, -1, key="cavity-rows-1", **there)
        upon = client.submit(abs, ours, key="pass-1")
        others = client.submit(abs, -2, key="rows-1", **there)
        bound = client.submit(abs, -3, key="cavity-bound", workers=[address])
        while client.run_on_scheduler(state_of, "cavity-bound") != "no-worker":
            time.sleep(0.01)
        local.scale(1)
        assert dask_workers.results_of(client, [ours, upon]) == [1, 1]
        assert client.run_on_scheduler(state_of, "rows-1") == "no-worker"
        assert client.run_on_scheduler(state_of, "cavity-bound") == "no-worker"
        assert client.run_on_scheduler(dask_workers.is_stalled, ["rows-1"])
        assert not client.run_on_scheduler(dask_workers.is_stalled, ["not-yet-heard-of"])
        del others, bound


class Deserted:
    """A cluster as it is at one look after the other: its workers, and whether they do nothing."""

    def __init__(self, *looks):
        self.looks = list(looks)

    def nthreads(self):
        number, self.stalled = self.looks.pop(0)
        return {str(i): 1 for i in range(number)}

    def run_on_scheduler(self, asked, keys):
        return self.stalled


@pytest.mark.parametrize(
    ("last", "words"), [((0, False), "has had no worker"), ((1, True), "nothing to do")]
)
def test_what_never_ends_is_not_waited_for(monkeypatch, last, words):
    def never(futures, timeout, return_when):
        raise TimeoutError

    monkeypatch.setattr(dask_workers, "wait", never)
    monkeypatch.setattr(dask_workers, "PATIENCE", -1.0)
    some = Deserted((2, False), (1, False), last, (5, False))
    with pytest.raises(ShardError, match=rf"{words}.*checkpoint="):
        dask_workers.wait_for(some, [])
    assert some.looks == [(5, False)]


def test_short_troubles_are_waited_through(monkeypatch):
    """Neither is long enough, and nothing in common has lasted."""
    clock = iter(range(0, 1000, 40))
    looks = [(0, False), (1, True), (0, False), (1, False), (1, True)]

    def never(futures, timeout, return_when):
        if not some.looks:
            return
        raise TimeoutError

    monkeypatch.setattr(dask_workers, "wait", never)
    monkeypatch.setattr(dask_workers.time, "monotonic", lambda: next(clock))
    some = Deserted(*looks)
    dask_workers.wait_for(some, [])


# --------------------------------------------------------------------------- every user of tasks


def mixture(**settings):
    return StudentTMixture(3, random_state=0, **settings)


def series():
    return SeriesMixture(
        3, n_chains=1, n_warmup=4, n_draws=60, collapse="parallel", common_factor=False,
        random_state=0,
    )  # fmt: skip


def rows_in(folder):
    return write_rows(folder, rows())


def series_in(folder):
    Y, _ = make_series(1300, 24, n_clusters=3, missing=0.1, random_state=5)
    names = [str(period) for period in pd.period_range("2001-01", periods=24, freq="M")]
    for at, part in enumerate(np.array_split(Y, 3)):
        pd.DataFrame(part, columns=names).to_parquet(folder / f"part-{at}.parquet")
    return folder


ONE = {"n_chains": 1, "n_warmup": 6, "n_draws": 60}
CASES = {
    "exact": (lambda: mixture(**ONE), rows_in),
    "series": (series, series_in),
    "chains": (lambda: mixture(n_chains=2, n_warmup=100, n_draws=400), lambda _: rows(2000)),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_all_workers_lost_at_once(client, tmp_path, name):
    """Thrice under one fit, as soon as workers are there again; draws are those of threads."""
    make, write = CASES[name]
    data = write(tmp_path)
    expected = make().fit(data)
    stop, n_lost = threading.Event(), 0

    def reaper():
        nonlocal n_lost
        while n_lost < 3 and not stop.wait(2.0):
            pids = client.run(os.getpid, on_error="ignore").values()
            if len(pids) == 2:
                n_lost += 1
                for pid in pids:
                    kill(pid)

    client.wait_for_workers(2)
    thread = threading.Thread(target=reaper, daemon=True)
    thread.start()
    try:
        found = make().fit(data, client=client)
    finally:
        stop.set()
        thread.join()
    print(n_lost, "times")
    assert n_lost >= 1
    assert same_draws(found, expected)


def test_a_lost_scheduler_is_a_sentence(monkeypatch):
    from concurrent.futures import CancelledError

    from cavity.distributed import dask_workers

    def lost(*arguments):
        raise CancelledError

    monkeypatch.setattr(dask_workers, "wait_for", lost)
    with pytest.raises(ValueError, match="connection to the Dask scheduler was lost"):
        dask_workers.results_of(None, [])
