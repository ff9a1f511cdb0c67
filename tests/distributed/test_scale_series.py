"""Fits of series in shards: the same draws whatever does the work, what is refused, results."""

from __future__ import annotations

import os

import numpy as np
import pandas as pd
import pytest
from dask_cases import killed_later, same_draws
from sklearn.metrics import adjusted_rand_score

import distributed
from cavity import SeriesMixture, load
from cavity.datasets import make_series
from cavity.distributed.sources import ShardError

SETTINGS = {
    "n_clusters": 4, "n_chains": 1, "n_warmup": 4, "n_draws": 6, "random_state": 0,
    "collapse": "parallel", "common_factor": False,
}  # fmt: skip
TIMES = [str(period) for period in pd.period_range("2001-01", periods=24, freq="M")]


def some_series(n=1300):
    return make_series(n, 24, n_clusters=3, missing=0.15, negative=0.3, var_y=0.3, random_state=5)


def write(folder, Y, n_files=3):
    for at, part in enumerate(np.array_split(np.arange(len(Y)), n_files)):
        frame = pd.DataFrame(Y[part], columns=TIMES)
        frame.insert(0, "shop", [f"s{i}" for i in part])
        frame.to_parquet(folder / f"part-{at}.parquet", row_group_size=200)
    return folder


def fit(where, client=None, series="shop", **settings):
    return SeriesMixture(**{**SETTINGS, **settings}).fit(where, series=series, client=client)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return write(tmp_path_factory.mktemp("series"), some_series()[0])


@pytest.fixture(scope="module")
def alone(folder):
    return fit(folder, n_jobs=2, collapse="auto")


def test_threads_leave_no_trace(folder, alone):
    assert same_draws(fit(str(folder / "*.parquet"), n_jobs=1), alone)
    assert not same_draws(fit(folder, n_jobs=1, random_state=1), alone)


def test_what_comes_out(folder, alone, tmp_path):
    m = alone
    truth = some_series()[1].labels
    rows = np.array([int(name[1:]) for name in m.posterior_.names])
    assert len(rows) == 1000
    assert adjusted_rand_score(truth[rows], m.labels_) > 0.95
    assert np.nansum(m.posterior_.drawn["size"][0, -1]) == 1300
    assert list(m.trends_.mean.columns.astype(str)) == TIMES
    assert m.forecast(3).mean.shape == (1000, 3)
    again = load(m.save(tmp_path / "run.nc"))
    files = again.predict_to_parquet(folder, tmp_path / "placed", series="shop", n_draws=6)
    found = pd.concat([pd.read_parquet(path) for path in files], ignore_index=True)
    assert list(found["shop"]) == [f"s{i}" for i in range(1300)]
    assert adjusted_rand_score(truth, found["cluster"]) > 0.95
    chances = found.filter(regex="p_").sum(axis=1)
    np.testing.assert_allclose(chances, 1.0)


@pytest.mark.slow
def test_a_checkpoint_goes_on_with_the_same_draws(folder, alone, tmp_path):
    path = tmp_path / "run.chk"
    short = fit(folder, n_jobs=1, collapse="auto", checkpoint=path, max_seconds=1e-9)
    assert short.posterior_.n_draws < alone.posterior_.n_draws
    m = fit(folder, n_jobs=1, collapse="auto", checkpoint=path)
    assert same_draws(m, alone)
    longer = fit(folder, n_jobs=1, collapse="auto", n_draws=8)
    assert np.array_equal(longer.posterior_.labels[:, :6], alone.posterior_.labels)


@pytest.mark.slow
def test_series_in_memory(alone):
    Y = some_series()[0]
    m = fit(pd.DataFrame(Y, columns=TIMES), series=None, n_jobs=1)
    assert m.posterior_.labels.shape == alone.posterior_.labels.shape
    long = pd.DataFrame(Y, columns=TIMES).stack().rename("y").reset_index()
    long.columns = ["who", "when", "y"]
    same = SeriesMixture(**SETTINGS, n_jobs=1).fit(long, series="who", time="when", value="y")
    assert np.array_equal(same.posterior_.labels, m.posterior_.labels)
    assert np.allclose(same.posterior_.log_joint, m.posterior_.log_joint)


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"season": 12}, "season= is not supported"),
        ({"common_factor": True}, "common_factor=True is not supported"),
        ({"hold": {"a": 0.5}}, "hold is not supported"),
        ({"options": {"keep_trends": True}}, "keep_trends.* is not supported"),
        ({"init": np.zeros(1300, dtype=int)}, "init with labels is not supported"),
        ({"prior": "dp"}, "prior must be 'finite', 'dirichlet' or 'fixed'"),
        ({"collapse": "ep"}, "collapse='ep' is not supported for sharded data"),
        ({"n_clusters": 2000}, "There are 1300 series"),
    ],
    ids=lambda value: "" if isinstance(value, str) else next(iter(value)),
)
def test_what_is_refused(folder, settings, said):
    with pytest.raises(ValueError, match=said):
        fit(folder, **settings)


def test_files_that_do_not_fit_are_named(folder, tmp_path):
    with pytest.raises(ShardError, match=r"Column 'shop' of .*part-0.parquet holds"):
        fit(folder, series=None)
    Y = some_series()[0]
    Y[1200, 3] = np.inf
    with pytest.raises(ShardError, match=r"column '2001-04' of .*part-2.parquet is infinite"):
        fit(write(tmp_path, Y), n_jobs=1)
    with pytest.raises(ValueError, match="covariates= is not supported"):
        SeriesMixture(**SETTINGS).fit(folder, series="shop", covariates=["x"])


def test_a_common_movement_is_refused_by_name(tmp_path):
    Y, _ = make_series(300, 60, n_clusters=3, common=1.5, random_state=1)
    with pytest.raises(ValueError, match="All series move together"):
        fit(Y, series=None, common_factor="auto", n_jobs=1)


# --------------------------------------------------------------------------- a cluster


@pytest.mark.slow
def test_a_cluster_draws_what_threads_draw(folder, alone, client, monkeypatch):
    from cavity.distributed.dask_executor import DaskExecutor

    news, told = DaskExecutor.status, []
    monkeypatch.setattr(
        DaskExecutor, "status", lambda executor: told.append(news(executor)) or told[-1]
    )
    assert same_draws(fit(folder, client, progress=True), alone)
    assert told
    assert all(" series/s" in words for words in told)


@pytest.mark.slow
@pytest.mark.parametrize("n_workers", [1, 4])
def test_any_number_of_workers(folder, alone, n_workers):
    options = {"threads_per_worker": 1, "processes": True, "dashboard_address": None}
    with (
        distributed.LocalCluster(n_workers=n_workers, **options) as local,
        distributed.Client(local) as client,
    ):
        assert same_draws(fit(folder, client), alone)


@pytest.mark.slow
def test_killed_workers_leave_no_trace(folder, client):
    """Killed at random moments, before and after what series have was fetched."""
    expected = fit(folder, n_jobs=2, n_draws=120)
    rng = np.random.default_rng(0)
    lost = 0
    for _ in range(3):
        client.wait_for_workers(2)
        pids = client.run(os.getpid)
        timer = killed_later(next(iter(pids.values())), 1.0 + 2.0 * rng.random())
        found = fit(folder, client, n_draws=120)
        timer.cancel()
        assert same_draws(found, expected)
        lost += found.posterior_.events["workers_lost"][0]
    assert lost >= 1
