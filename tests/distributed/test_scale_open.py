"""An open number of clusters over many rows: what a short run over the followed ones begins."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from dask_cases import same_draws

from cavity import GaussianMixture, TableMixture
from cavity.estimators import sharded

OPEN = {"prior": "dp", "collapse": "parallel", "n_chains": 1, "random_state": 0}


def groups(n, k=8, seed=0):
    rng = np.random.default_rng(seed)
    z = rng.integers(k, size=n)
    angle = 2.0 * np.pi * np.arange(k) / k
    return 6.0 * np.column_stack([np.cos(angle), np.sin(angle)])[z] + rng.standard_normal((n, 2))


@pytest.mark.slow
def test_tables_and_threads(monkeypatch):
    """Categories, counts and their gaps are handed to the short run as they are to the whole."""
    monkeypatch.setattr(sharded, "PILOT_SWEEPS", 3)
    X = groups(5300)
    rng = np.random.default_rng(1)
    frame = pd.DataFrame(X, columns=["a", "b"])
    frame["kind"] = np.where(rng.random(len(X)) < 0.2 + 0.6 * (X[:, 1] > 0.0), "x", "y")
    frame.loc[::7, "kind"] = None
    frame["n"] = rng.poisson(np.exp(0.2 * X[:, 1]))
    run = {**OPEN, "n_warmup": 2, "n_draws": 2}
    made = [
        TableMixture(2, feature_types={"n": "count"}, n_jobs=n, **run).fit(frame) for n in (1, 2)
    ]
    assert same_draws(*made)
    assert made[0].posterior_.labels.shape == (1, 2, 5000)


def test_labels_that_are_given_are_begun_with(monkeypatch):
    """Nothing is put in their place."""
    monkeypatch.setattr(sharded._Chains, "_pilot_labels", lambda *given: pytest.fail("was asked"))
    X = groups(5300)
    run = {**OPEN, "n_warmup": 1, "n_draws": 1}
    GaussianMixture(2, init=(X[:, 0] > 0.0).astype(int), **run).fit(X)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2))
def test_eight_clusters_are_found_from_one(seed):
    X = groups(200_000, seed=seed)
    m = GaussianMixture(1, **{**OPEN, "random_state": seed}, n_warmup=20, n_draws=10).fit(X)
    assert m.n_clusters_ == 8
    shares = m.posterior_.drawn["weight"][0]
    assert (np.sum(shares > 1e-3, axis=1) == 8).all()
