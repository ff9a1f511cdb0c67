"""The draws of a table's fit as mixtures that rows can be placed by."""

from __future__ import annotations

from typing import Any

import numpy as np

from cavity.estimators.leaving_out import df_of_all_slots
from cavity.estimators.structures import flat, fresh_clusters, matrices, prior_width, structure_of
from cavity.io.columns import CATEGORICAL, CONTINUOUS, COUNT, OVERDISPERSED, Column
from cavity.likelihoods.predictive import CLUSTER_PRIOR, NOISE_WEIGHT, mixture_draws
from cavity.likelihoods.table_predictive import TableDraws, covariances_of
from cavity.posterior.posterior import Posterior


def pack_draws(
    posterior: Posterior,
    matched: Any,
    columns: list[Column],
    chosen: np.ndarray,
    n_clusters: int,
) -> TableDraws:
    """The mixtures of some draws: every occupied cluster, and what stands for the others."""
    weight = flat(posterior, "weight")[chosen]
    targets = matched.targets(weight.shape[1])[chosen]
    # The estimate's clusters beyond these are noise.
    targets = np.where(targets < n_clusters, targets, -1)
    noise = flat(posterior, NOISE_WEIGHT)[chosen] if posterior.record.noise else 0.0
    prior = flat(posterior, CLUSTER_PRIOR)[chosen]
    used = np.isfinite(weight) & (weight > 0.0)
    empty = 1.0 - noise - np.where(used, weight, 0.0).sum(axis=1)
    rng = np.random.default_rng(0)
    d = sum(column.kind == CONTINUOUS for column in columns)
    width = prior_width(structure_of(posterior), d)
    if d:
        packed = mixture_draws(
            weight,
            flat(posterior, "mean")[chosen],
            matrices(posterior, chosen),
            flat(posterior, "df")[chosen] if "df" in posterior.drawn else None,
            targets,
            fresh_clusters(posterior, chosen, d),
            df_of_all_slots(posterior, chosen)[:, -1] if "df" in posterior.drawn else None,
            noise,
        )
        start, log_weight, target = packed.start, packed.log_weight, packed.target
        mean, covariance, alpha = packed.mean, covariances_of(packed), packed.alpha
    else:
        # The clusters of each draw in their order, and one more for what is empty.
        share = np.column_stack([np.where(used, weight, 0.0), np.maximum(empty, 0.0)])
        there = share > 1e-12
        start = np.concatenate([[0], np.cumsum(there.sum(axis=1))])
        log_weight = np.log(share[there])
        target = np.column_stack([targets, np.full(len(targets), -1)])[there]
        n = log_weight.size
        mean, covariance, alpha = np.empty((n, 0)), np.empty((n, 0, 0)), np.full(n, np.inf)
    draw = np.repeat(np.arange(len(chosen)), np.diff(start))
    slot = _slots_of(start, used)
    shares, levels = _shares_of(posterior, chosen, columns, prior, width, draw, slot)
    rate, size = _rates_of(posterior, chosen, columns, prior, draw, slot, rng)
    return TableDraws(
        start, log_weight, target, slot, mean, covariance, alpha, shares, levels, rate, size
    )


def _slots_of(start: np.ndarray, used: np.ndarray) -> np.ndarray:
    """The slot of every entry; -1 for one that stands for empty clusters, which come last."""
    out = np.full(int(start[-1]), -1)
    for s, row in enumerate(used):
        own = np.flatnonzero(row)
        out[start[s] : start[s] + own.size] = own
    return out


def _shares_of(
    posterior: Posterior,
    chosen: np.ndarray,
    columns: list[Column],
    prior: np.ndarray,
    width: int,
    draw: np.ndarray,
    slot: np.ndarray,
) -> tuple[np.ndarray, np.ndarray]:
    """Shares of every entry: as drawn, or expected of a cluster to come."""
    sizes = [len(column.categories) for column in columns if column.kind == CATEGORICAL]
    levels = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    if not sizes:
        return np.empty((draw.size, 0)), levels
    concentration = prior[:, width : width + levels[-1]]
    total = np.add.reduceat(concentration, levels[:-1], axis=1)
    expected = concentration / np.repeat(total, sizes, axis=1)
    drawn = flat(posterior, "share")[chosen]
    out = drawn[draw, np.maximum(slot, 0)]
    out[slot < 0] = expected[draw[slot < 0]]
    return out, levels


def _rates_of(
    posterior: Posterior,
    chosen: np.ndarray,
    columns: list[Column],
    prior: np.ndarray,
    draw: np.ndarray,
    slot: np.ndarray,
    rng: np.random.Generator,
) -> tuple[np.ndarray, np.ndarray]:
    """Mean and dispersion of the counts of every entry.

    A Poisson count with a rate from the prior is negative binomial. The mean of an overdispersed
    one in a cluster to come is drawn from its prior, once for each draw.
    """
    n_plain = sum(column.kind == COUNT for column in columns)
    n_over = sum(column.kind == OVERDISPERSED for column in columns)
    rate = np.empty((draw.size, n_plain + n_over))
    size = np.full(rate.shape, np.inf)
    # The gamma priors of all counts come last among the natural parameters.
    gammas = prior[:, prior.shape[1] - 2 * (n_plain + n_over) :]
    a, b = gammas[:, 0::2], gammas[:, 1::2]
    new = slot < 0
    if n_plain:
        rate[:, :n_plain] = flat(posterior, "rate")[chosen][draw, np.maximum(slot, 0)]
        rate[new, :n_plain] = (a / b)[draw[new], :n_plain]
        size[new, :n_plain] = a[draw[new], :n_plain]
    if n_over:
        rate[:, n_plain:] = flat(posterior, "mean_count")[chosen][draw, np.maximum(slot, 0)]
        drawn = rng.gamma(a[:, n_plain:]) / b[:, n_plain:]
        rate[new, n_plain:] = np.maximum(drawn[draw[new]], 1e-300)
        size[:, n_plain:] = flat(posterior, "dispersion")[chosen][draw]
    return rate, size
