"""Posteriors for tests of pictures and reports: noisy copies of a known partition."""

from __future__ import annotations

import numpy as np

from cavity.posterior import Posterior
from cavity.posterior.record import RunRecord


def blobs(n, k, d, seed=0):
    rng = np.random.default_rng(seed)
    truth = np.arange(n) % k
    centres = 8 * rng.normal(size=(k, d))
    return centres[truth] + rng.normal(size=(n, d)), truth


def noisy_draws(truth, n_chains=2, n_draws=30, doubtful=(), seed=0):
    """Draws that keep the truth, but put the doubtful in the next cluster half of the time."""
    rng = np.random.default_rng(seed)
    k = int(truth.max()) + 1
    doubtful = np.asarray(doubtful, int)
    draws = np.empty((n_chains, n_draws, len(truth)), np.int64)
    for c in range(n_chains):
        for t in range(n_draws):
            z = truth.copy()
            moved = doubtful[rng.random(len(doubtful)) < 0.45]
            z[moved] = (z[moved] + 1) % k
            draws[c, t] = rng.permutation(k)[z]
    return draws


def posterior(truth, *, doubtful=(), names=None, n_features=None, **draws):
    labels = noisy_draws(truth, doubtful=doubtful, **draws)
    chains, n_draws, _ = labels.shape
    rng = np.random.default_rng(1)
    k = int(labels.max()) + 1
    parameters = {"df": rng.gamma(5.0, size=(chains, n_draws))}
    clusters: tuple[str, ...] = ()
    if n_features is not None:
        parameters["weight"] = rng.dirichlet(np.ones(k), size=(chains, n_draws))
        parameters["mean"] = rng.normal(size=(chains, n_draws, k, n_features))
        parameters["covariance"] = np.exp(
            rng.normal(size=(chains, n_draws, k, n_features, n_features))
        )
        clusters = ("weight", "mean", "covariance")
    return Posterior(
        labels,
        log_joint=rng.normal(-100, 3, (chains, n_draws)),
        sweep_seconds=rng.gamma(2.0, 1e-3, (chains, n_draws + 10)),
        parameters=parameters,
        cluster_parameters=clusters,
        events={
            "updates": np.full(chains, 1e5),
            "invalid_cavities": np.arange(chains),
            "exchange_tries": np.full(chains, 400),
            "exchange_accepted": np.full(chains, 5),
            "exchange_evidences": np.full(chains, 9000),
        },
        names=names,
        record=RunRecord(
            "StudentTMixture",
            {"collapse": "ep", "n_clusters": k},
            versions={"cavity": "0.0"},
        ),
    )
