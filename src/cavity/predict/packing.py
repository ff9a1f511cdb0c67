"""Draws of a fit as mixtures for predictions."""

from __future__ import annotations

from typing import Any

import numpy as np

from cavity.io.columns import CATEGORICAL, COUNT, OVERDISPERSED, Column
from cavity.posterior.posterior import Posterior
from cavity.posterior.record import CLUSTER_PRIOR, NOISE_WEIGHT, STEPS
from cavity.predict.covariances import (
    df_of_all_slots,
    flat,
    fresh_clusters,
    matrices,
    prior_width,
    shared_columns,
    structure_of,
)
from cavity.predict.draws import MixtureDraws, continuous_entries
from cavity.updates import CATEGORIES, COUNTS


def pack_draws(
    posterior: Posterior,
    matched: Any,
    columns: list[Column],
    chosen: np.ndarray,
    n_clusters: int,
) -> MixtureDraws:
    """Return the mixtures of some draws: every occupied cluster, and entries for empty ones.

    A row has its values as recorded, which the chains take as lying anywhere within a step. So
    each covariance has the variance of a uniform distribution over the step added to it
    (Sheppard's correction), nearly the integral of the density over the step.

    Parameters
    ----------
    posterior : Posterior
    matched : Relabelled
        The draws matched to the point estimate.
    columns : list of Column
    chosen : array of int
        Draws, all chains one after the other.
    n_clusters : int
        Clusters of the estimate, without noise.
    """
    weight = flat(posterior, "weight")[chosen]
    targets = matched.targets(weight.shape[1])[chosen]
    # The estimate's clusters beyond these are noise.
    targets = np.where(targets < n_clusters, targets, -1)
    d = sum(column.measured for column in columns)
    heavy = "df" in posterior.drawn
    rounding = np.diag(posterior.summaries.get(STEPS, np.zeros(d)) ** 2 / 12.0)
    packed = continuous_entries(
        weight,
        flat(posterior, "mean")[chosen] if d else np.empty((*weight.shape, 0)),
        matrices(posterior, chosen) + rounding if d else np.empty((*weight.shape, 0, 0)),
        flat(posterior, "df")[chosen] if heavy else None,
        targets,
        fresh_clusters(posterior, chosen, d),
        df_of_all_slots(posterior, chosen)[:, -1] if heavy else None,
        flat(posterior, NOISE_WEIGHT)[chosen] if posterior.record.noise else 0.0,
    )
    if all(column.measured for column in columns):
        return packed
    prior = flat(posterior, CLUSTER_PRIOR)[chosen]
    width = prior_width(structure_of(posterior), d)
    draw, slot = packed.draw, packed.slot
    share, levels = _shares_of(posterior, chosen, columns, prior, width, draw, slot)
    rng = np.random.default_rng(0)
    rate, size = _rates_of(posterior, chosen, columns, prior, draw, slot, rng)
    return packed._replace(share=share, levels=levels, rate=rate, size=size)


def first_slots(drawn: np.ndarray) -> np.ndarray:
    """Return the first slot that is no empty cluster's in each draw, (draw, slot, ...)."""
    return np.argmax(np.isfinite(drawn[:, :, 0]), axis=1)


def _shares_of(
    posterior: Posterior,
    chosen: np.ndarray,
    columns: list[Column],
    prior: np.ndarray,
    width: int,
    draw: np.ndarray,
    slot: np.ndarray,
) -> tuple[np.ndarray, np.ndarray]:
    """Return the category probabilities of every entry: as drawn, or expected in a new one."""
    sizes = [len(column.categories) for column in columns if column.kind == CATEGORICAL]
    levels = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    if not sizes:
        return np.empty((draw.size, 0)), levels
    concentration = prior[:, width : width + levels[-1]]
    total = np.add.reduceat(concentration, levels[:-1], axis=1)
    expected = concentration / np.repeat(total, sizes, axis=1)
    drawn = flat(posterior, "share")[chosen]
    out = drawn[draw, np.maximum(slot, 0)]
    shared = shared_columns(posterior, CATEGORIES)
    if shared is not None:
        first = drawn[np.arange(len(drawn)), first_slots(drawn)]
        expected = np.where(np.repeat(shared[chosen], sizes, axis=1), first, expected)
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
    """Return the mean and dispersion of the counts of every entry.

    A Poisson count with a rate from the prior is negative binomial. The mean of an overdispersed
    count in a new cluster is drawn from its prior, once for each draw.
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
        drawn = flat(posterior, "rate")[chosen]
        rate[:, :n_plain] = drawn[draw, np.maximum(slot, 0)]
        expected, spread = (a / b)[:, :n_plain], a[:, :n_plain]
        shared = shared_columns(posterior, COUNTS)
        if shared is not None:
            first = drawn[np.arange(len(drawn)), first_slots(drawn)]
            expected = np.where(shared[chosen], first, expected)
            spread = np.where(shared[chosen], np.inf, spread)
        rate[new, :n_plain] = expected[draw[new]]
        size[new, :n_plain] = spread[draw[new]]
    if n_over:
        rate[:, n_plain:] = flat(posterior, "mean_count")[chosen][draw, np.maximum(slot, 0)]
        fresh = rng.gamma(a[:, n_plain:]) / b[:, n_plain:]
        rate[new, n_plain:] = np.maximum(fresh[draw[new]], 1e-300)
        size[:, n_plain:] = flat(posterior, "dispersion")[chosen][draw]
    return rate, size
