"""Whole chains on the workers of a cluster: the draws of threads here, whatever befalls workers."""

from __future__ import annotations

import os

import numpy as np
import pandas as pd
import pytest
from dask_cases import killed_later, rows, same_draws

import distributed
from cavity import SeriesMixture, StudentTMixture, TableMixture

RUN = {"n_chains": 3, "n_warmup": 10, "n_draws": 30, "random_state": 0}


@pytest.fixture(scope="module")
def client():
    options = {"threads_per_worker": 1, "processes": True, "dashboard_address": None}
    with (
        distributed.LocalCluster(n_workers=2, **options) as local,
        distributed.Client(local) as client,
    ):
        yield client


@pytest.mark.slow
def test_a_mixture(client):
    X = rows(300)
    here = StudentTMixture(3, **RUN, options={"keep_warmup": True}).fit(X)
    away = StudentTMixture(3, **RUN, options={"keep_warmup": True}).fit(X, client=client)
    assert same_draws(here, away)
    assert np.array_equal(here.posterior_.labels_warmup, away.posterior_.labels_warmup)
    for name in ("mean", "df"):
        one, two = (m.posterior_.drawn[name] for m in (here, away))
        assert np.array_equal(one, two, equal_nan=True)
    assert here.posterior_.events["split_merge_tries"].tolist() == (
        away.posterior_.events["split_merge_tries"].tolist()
    )


@pytest.mark.slow
def test_trips_do_not_show(client):
    """Many trips, a run that ends when it has converged, and a worker that dies."""
    X = rows(200)
    settings = {"n_chains": 2, "n_warmup": 20, "max_sweeps": 300, "random_state": 1}
    here = StudentTMixture(3, **settings).fit(X)

    def short(dask_worker=None):
        import cavity.mcmc.remote as away

        away.ChunkWorker.run.__defaults__ = (0.05,)

    client.run(short)
    timer = killed_later(next(iter(client.run(os.getpid).values())), 0.5)
    away = StudentTMixture(3, **settings).fit(X, client=client)
    timer.cancel()
    assert here.posterior_.record.n_sweeps == away.posterior_.record.n_sweeps
    assert same_draws(here, away)


@pytest.mark.slow
def test_series_and_tables(client):
    rng = np.random.default_rng(0)
    Y = rng.standard_normal((12, 20)).cumsum(axis=1)
    one, two = (SeriesMixture(2, **RUN).fit(Y, client=c) for c in (None, client))
    assert same_draws(one, two)
    assert np.array_equal(one.trends_.mean, two.trends_.mean)
    table = pd.DataFrame({"a": rng.normal(size=60), "b": rng.choice(["x", "y"], 60)})
    one, two = (TableMixture(2, **RUN).fit(table, client=c) for c in (None, client))
    assert same_draws(one, two)


def test_what_is_no_client_is_refused():
    with pytest.raises(ValueError, match=r"must be a distributed\.Client"):
        TableMixture(2).fit(pd.DataFrame({"a": [1.0, 2.0]}), client=3)
    with pytest.raises(ValueError, match=r"must be a distributed\.Client"):
        SeriesMixture(2).fit(np.zeros((3, 4)), client=3)
