"""Chains over a few rows in blocks and shards, as the exact tests want them."""

from __future__ import annotations

import numpy as np

from cavity.distributed.clusters import ComponentPriors
from cavity.distributed.df_grid import DFSettings
from cavity.distributed.executor import ThreadExecutor
from cavity.distributed.passes import make_shard
from cavity.distributed.pilot import PilotSample
from cavity.distributed.sampler import ShardedMixture, ShardedSampler
from cavity.distributed.sources import ArraySource
from cavity.priors.partition import dirichlet, dirichlet_process, finite, fixed_weights


def few_rows(y, n_shards=1, block=2):
    """An executor over rows in the model's units, all of them followed."""
    columns = tuple(f"x{j}" for j in range(y.shape[1]))
    executor = ThreadExecutor(ArraySource(y, columns), n_shards=n_shards, block=block)
    d = y.shape[1]
    executor.load(make_shard, np.zeros(d), np.ones(d), np.zeros(d), np.arange(len(y)))
    return executor


def statistics(y, z, n_slots):
    """Sums over the rows of each slot, every scale one."""
    rows, columns = np.tril_indices(y.shape[1])
    features = np.column_stack([np.ones((len(y), 2)), y, y[:, rows] * y[:, columns]])
    out = np.zeros((n_slots, features.shape[1]))
    np.add.at(out, z, features)
    return out


def partition_prior(name):
    return {
        "fixed": lambda: fixed_weights(np.array([0.5, 0.3, 0.2])),
        "dirichlet": lambda: dirichlet(3, 0.7),
        "shaped": lambda: dirichlet(3, 0.8, np.array([2.0, 1.0, 0.5])),
        "dp": lambda: dirichlet_process(5, 1.0),
        "finite": lambda: finite(3, 6, 0.8, 0.6),
    }[name]()


def chain(y, niw, prior, rng, *, df=np.inf, learn=None, df_prior=(2.0, 0.1), n_shards=1,
          pilot=None, moves=True, updates=(), start=None):  # fmt: skip
    """A chain that begins with everything in one cluster."""
    if isinstance(prior, str):
        prior = partition_prior(prior)
    n_slots = prior.free.size if prior.is_open else prior.weights.size
    z = np.zeros(len(y), dtype=int) if start is None else start
    seen = np.arange(len(y)) if pilot is None else pilot
    mixture = ShardedMixture(ComponentPriors(niw), prior, DFSettings(df, learn, *df_prior), updates)
    return ShardedSampler(
        few_rows(y, n_shards),
        PilotSample(y[seen], len(y)),
        statistics(y, z, n_slots),
        mixture,
        rng,
        moves=moves,
    )
