"""The same draws on a cluster, whatever its workers, and whatever becomes of them."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from dask_cases import (
    fit,
    kill,
    killed_later,
    rows,
    rows_and_truth,
    same_draws,
    true_densities,
    write_rows,
)
from scipy.special import logsumexp

import distributed
from cavity import load
from cavity.distributed.sources import ShardError

pytestmark = pytest.mark.first(11)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return write_rows(tmp_path_factory.mktemp("rows"), rows())


@pytest.fixture(scope="module")
def alone(folder):
    """The same fit by threads of this process."""
    return fit(folder, n_jobs=2)


def test_a_cluster_draws_what_threads_draw(folder, alone, client, tmp_path):
    found = fit(folder, client)
    assert same_draws(found, alone)
    # A file is written in memory first: no place that a cluster knows.
    found.save(tmp_path / "fit.nc")
    assert same_draws(load(tmp_path / "fit.nc"), alone)
    assert same_draws(fit(str(folder / "*.parquet"), n_jobs=1), alone)
    assert not same_draws(fit(folder, n_jobs=1, random_state=1), alone)


@pytest.mark.slow
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
    from cavity.distributed.dask_executor import DaskExecutor
    from cavity.distributed.sources import parquet_source

    executor = DaskExecutor(parquet_source(lost), client, n_shards=3)
    (lost / "part-1.parquet").unlink()
    with pytest.raises(ShardError, match=r"part-1\.parquet cannot be read"):
        executor.sample(np.arange(5))


@pytest.mark.slow
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
    written = alone.predict_to_parquet(frame, tmp_path / "placed", client=client)
    here = alone.predict_to_parquet(folder, tmp_path / "here")
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
def test_a_table_on_a_cluster(client, tmp_path):
    """Categories and counts: the draws of threads, a worker killed on the way."""
    from cavity import TableMixture

    X = rows()
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(X, columns=["a", "b"])
    frame["kind"] = np.where(rng.random(len(X)) < 0.2 + 0.6 * (X[:, 1] > 3.0), "x", "y")
    frame["n"] = rng.poisson(np.exp(0.2 * X[:, 1].clip(-5.0, 10.0)))
    for at in range(3):
        frame.iloc[10_000 * at :][:10_000].to_parquet(tmp_path / f"part-{at}.parquet")
    settings = {"n_chains": 1, "n_warmup": 6, "n_draws": 40, "random_state": 0}
    made = [TableMixture(3, feature_types={"n": "count"}, **settings) for _ in range(2)]
    timer = killed_later(next(iter(client.run(os.getpid).values())), 2.0)
    away = made[0].fit(tmp_path, client=client)
    timer.cancel()
    assert same_draws(away, made[1].fit(tmp_path))


@pytest.mark.slow
def test_a_worker_that_cannot_hold_a_file_is_told_of_it(folder, client, monkeypatch):
    from cavity.distributed import dask_executor, dask_workers
    from cavity.distributed.sources import ParquetSource, parquet_source

    source = parquet_source(folder)
    executor = dask_executor.DaskExecutor(source, client, n_shards=3)
    client.run_on_scheduler(allow_failures, 1)
    right = ParquetSource.reader
    monkeypatch.setattr(
        ParquetSource,
        "reader",
        lambda self, layout: Deadly() if layout.pieces[0].part == 1 else right(self, layout),
    )
    with pytest.raises(MemoryError, match=r"died reading .*part-1\.parquet.*lack of memory"):
        executor.sample(np.arange(5))
    client.run_on_scheduler(allow_failures, dask_workers.ALLOWED_FAILURES)


@pytest.mark.slow
def test_a_start_in_too_few_clusters_is_left(folder):
    """Splits under the default prior: two clusters are .019 nats a row below three."""
    X, truth = rows_and_truth()
    right = logsumexp(true_densities(X[::50], truth), axis=1).mean()
    for seed in range(3):
        m = fit(folder, n_jobs=2, n_warmup=60, n_draws=20, random_state=seed)
        assert m.score(pd.DataFrame(X[::50], columns=m.feature_names_in_)) > right - 0.01


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
    """A worker at a random moment, twenty times, while fits run; both are down again and again.

    Of those that were there at the look before: one that is killed while it starts is not started
    again, by Dask's own rule.
    """
    rng = np.random.default_rng(0)
    stop, kills = threading.Event(), []

    def reaper():
        seen = set()
        while not stop.wait(rng.uniform(0.5, 3.0)) and len(kills) < 20:
            now = list(client.run(os.getpid, on_error="ignore").values())
            pids = [pid for pid in now if pid in seen]
            seen = set(now)
            if pids:
                kills.append(pids[int(rng.integers(len(pids)))])
                kill(kills[-1])

    expected = fit(folder, n_jobs=2, n_draws=60)
    thread = threading.Thread(target=reaper, daemon=True)
    thread.start()
    try:
        while len(kills) < 20:
            found = fit(folder, client, n_draws=60)
            print(f"{len(kills)} kills, {found.posterior_.events['workers_lost'][0]:.0f} noticed")
            assert same_draws(found, expected)
    finally:
        stop.set()
        thread.join()
