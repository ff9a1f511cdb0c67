"""The same draws on a cluster, whatever its workers, and whatever becomes of them."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import distributed
import numpy as np
import pandas as pd
import pytest
from dask_cases import fit, kill, killed_later, rows, same_draws, write_rows
from sklearn.metrics import adjusted_rand_score

from cavity.scale.sources import ShardError


@pytest.fixture(scope="module")
def cluster():
    options = {"threads_per_worker": 1, "processes": True, "dashboard_address": None}
    with distributed.LocalCluster(n_workers=2, **options) as local:
        yield local


@pytest.fixture(scope="module")
def client(cluster):
    with distributed.Client(cluster) as client:
        yield client


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return write_rows(tmp_path_factory.mktemp("rows"), rows())


@pytest.fixture(scope="module")
def alone(folder):
    """The same fit by threads of this process."""
    return fit(folder, n_jobs=2)


def test_a_cluster_draws_what_threads_draw(folder, alone, client):
    assert same_draws(fit(folder, client), alone)
    assert same_draws(fit(str(folder / "*.parquet"), n_jobs=1), alone)
    assert not same_draws(fit(folder, n_jobs=1, random_state=1), alone)


def test_a_killed_worker_leaves_no_trace(folder, alone, client):
    pids = client.run(os.getpid)
    timer = killed_later(next(iter(pids.values())), 0.7)
    found = fit(folder, client, n_draws=60)
    timer.cancel()
    same = fit(folder, n_jobs=2, n_draws=60)
    assert same_draws(found, same)
    assert found.posterior_.events["workers_lost"][0] >= 1


def test_a_file_that_goes_missing_is_named(folder, client, tmp_path):
    lost = write_rows(tmp_path, rows(9000))
    from cavity.scale.dask_engine import DaskEngine
    from cavity.scale.sources import parquet_source

    engine = DaskEngine(parquet_source(lost), client, n_shards=3)
    (lost / "part-1.parquet").unlink()
    with pytest.raises(ShardError, match=r"part-1\.parquet cannot be read"):
        engine.sample(np.arange(5))


def test_a_dask_dataframe_and_an_array(folder, client, alone, tmp_path):
    import dask.dataframe as dd

    frame = dd.read_parquet(folder)
    assert same_draws(fit(frame, client), alone)
    with pytest.raises(ValueError, match="needs the client"):
        fit(frame)
    # An array is one part, so that its blocks are others.
    X = rows()
    exactly = {"collapse": "parallel"}
    assert same_draws(fit(X, client, **exactly), fit(X, **exactly, n_jobs=1))
    written = alone.place(frame, tmp_path / "placed", client=client)
    here = alone.place(folder, tmp_path / "here")
    assert len(written) == len(here) == 3
    for one, other in zip(written, here, strict=True):
        pd.testing.assert_frame_equal(pd.read_parquet(one), pd.read_parquet(other))


def allow_failures(number, dask_scheduler=None):
    dask_scheduler.allowed_failures = number


class Deadly:
    """Reads no rows: its worker dies of it, as it would for lack of memory."""

    def __call__(self):
        os._exit(9)


@pytest.mark.slow
def test_a_worker_that_cannot_hold_a_file_is_told_of_it(folder, client, monkeypatch):
    from cavity.scale import dask_engine
    from cavity.scale.sources import ParquetSource, parquet_source

    source = parquet_source(folder)
    engine = dask_engine.DaskEngine(source, client, n_shards=3)
    client.run_on_scheduler(allow_failures, 1)
    right = ParquetSource.reader
    monkeypatch.setattr(
        ParquetSource,
        "reader",
        lambda self, layout: Deadly() if layout.pieces[0].part == 1 else right(self, layout),
    )
    with pytest.raises(MemoryError, match=r"died reading .*part-1\.parquet.*lack of memory"):
        engine.sample(np.arange(5))
    client.run_on_scheduler(allow_failures, dask_engine.ALLOWED_FAILURES)


@pytest.mark.slow
def test_expectation_propagation_on_a_cluster(folder, client):
    """A worker dies, shards are swept again, and the clusters are those of the exact sampler."""
    timer = killed_later(next(iter(client.run(os.getpid).values())), 1.0)
    found = fit(folder, client, collapse="ep", n_warmup=15, n_draws=15)
    timer.cancel()
    exact = fit(folder, n_jobs=2, n_warmup=15, n_draws=15)
    events = found.posterior_.events
    print(events)
    assert events["shards"][0] == 2
    assert 0.0 < events["staleness_kl"][0] < 5.0
    assert np.isfinite(found.posterior_.log_joint).all()
    assert adjusted_rand_score(found.labels_, exact.labels_) > 0.99


@pytest.mark.slow
def test_a_killed_client_goes_on_from_its_checkpoint(folder, tmp_path):
    checkpoint = tmp_path / "run.cavity"
    script = Path(__file__).parent / "dask_cases.py"
    command = [sys.executable, str(script), str(folder), str(checkpoint), "400"]
    process = subprocess.Popen(command)
    try:
        while not (checkpoint.exists() and checkpoint.stat().st_size > 20_000):
            assert process.poll() is None, "ended before it could be killed"
            time.sleep(0.05)
    finally:
        process.kill()
        process.wait()
    found = fit(folder, checkpoint=checkpoint, n_draws=400, n_jobs=1)
    assert same_draws(found, fit(folder, n_draws=400, n_jobs=2))


@pytest.mark.slow
@pytest.mark.parametrize("n_workers", [1, 2, 4])
def test_equal_draws_for_any_number_of_workers(folder, alone, n_workers):
    options = {"threads_per_worker": 1, "processes": True, "dashboard_address": None}
    with (
        distributed.LocalCluster(n_workers=n_workers, **options) as local,
        distributed.Client(local) as client,
    ):
        assert same_draws(fit(folder, client), alone)


@pytest.mark.slow
def test_twenty_kills(folder, client):
    """A worker at a random moment, twenty times, while one fit runs."""
    import threading

    rng = np.random.default_rng(0)
    stop, kills = threading.Event(), []

    def reaper():
        while not stop.wait(rng.uniform(0.5, 3.0)) and len(kills) < 20:
            pids = list(client.run(os.getpid, on_error="ignore").values())
            if pids:
                kills.append(pids[int(rng.integers(len(pids)))])
                kill(kills[-1])

    thread = threading.Thread(target=reaper, daemon=True)
    thread.start()
    found = None
    n_draws = 200
    while len(kills) < 20:
        found = fit(folder, client, n_draws=n_draws)
        print(f"{len(kills)} kills")
    stop.set()
    thread.join()
    assert same_draws(found, fit(folder, n_jobs=2, n_draws=n_draws))
