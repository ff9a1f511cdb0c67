"""Covariances and cluster priors of kept draws, whatever the covariance type.

Draws of a full covariance are kept as matrices, those of the other types as they were drawn:
``variance``, ``shared_covariance``, or ``loading`` and ``uniqueness``.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from cavity._numba.arrays import copied
from cavity.collapse.problems import DIAGONAL, FACTOR, FULL, TIED
from cavity.conjugate.nig import unpack_diagonal
from cavity.conjugate.normal import factors, set_factors, set_tied
from cavity.likelihoods.degrees_of_freedom import draw_df
from cavity.posterior.posterior import Posterior
from cavity.posterior.record import CLUSTER_PRIOR
from cavity.predict.draws import FreshClusters, cholesky, fresh_niw
from cavity.priors.cluster import DF_PRIOR
from cavity.updates import MEASUREMENTS, indicators_of

# Covariance matrices in memory at a time hold at most this many numbers.
MOST_NUMBERS = 20_000_000


def structure_of(posterior: Posterior) -> str:
    """Return the covariance type of the draws."""
    names = {"variance": DIAGONAL, "shared_covariance": TIED, "loading": FACTOR}
    return next((form for name, form in names.items() if name in posterior.drawn), FULL)


def factors_of(posterior: Posterior) -> int | None:
    """Return the number of factors of each cluster; None without factors."""
    return int(posterior.drawn["loading"].shape[4]) if "loading" in posterior.drawn else None


def prior_width(structure: str, d: int) -> int:
    """Return how many numbers of a draw describe the prior of the continuous columns."""
    if d == 0:
        return 0
    return {DIAGONAL: 2 + 2 * d, TIED: 1 + d, FACTOR: 3 + 2 * d}.get(
        structure, 2 + d + d * (d + 1) // 2
    )


def flat(posterior: Posterior, name: str) -> np.ndarray:
    """Return the draws of a parameter in the model's units, chains one after the other."""
    values = posterior.drawn[name]
    return values.reshape(-1, *values.shape[2:])


def matrices(posterior: Posterior, chosen: np.ndarray) -> np.ndarray:
    """Return the covariances of every slot in some draws, (draw, slot, d, d); NaN if empty."""
    structure = structure_of(posterior)
    if structure == FULL:
        return flat(posterior, "covariance")[chosen]
    mean = flat(posterior, "mean")[chosen]
    d = mean.shape[2]
    if structure == DIAGONAL:
        return flat(posterior, "variance")[chosen][..., None] * np.eye(d)
    if structure == TIED:
        shared = flat(posterior, "shared_covariance")[chosen]
        return np.where(np.isnan(mean)[..., None], np.nan, shared[:, None])
    loading, own = flat(posterior, "loading")[chosen], flat(posterior, "uniqueness")[chosen]
    return loading @ np.swapaxes(loading, 2, 3) + own[..., None] * np.eye(d)


def most_draws(posterior: Posterior, usual: int) -> int:
    """Return how many draws predictions average over: fewer where matrices are large."""
    if "mean" not in posterior.drawn:
        return usual
    n_slots, d = posterior.drawn["mean"].shape[2:]
    return int(np.clip(MOST_NUMBERS // max(n_slots * d * d, 1), 20, usual))


def mean_matrices(posterior: Posterior, matched: Any, k: int) -> np.ndarray:
    """Posterior means of the covariances of the estimate's first k clusters, (k, d, d).

    A cluster that no draw matches takes the mean of all.
    """
    d = posterior.drawn["mean"].shape[3]
    total, count = np.zeros((k, d, d)), np.zeros(k)
    step = max(1, MOST_NUMBERS // max(posterior.drawn["mean"].shape[2] * d * d, 1))
    for first in range(0, len(matched.slots), step):
        slots = matched.slots[first : first + step, :k]
        chosen = np.arange(first, first + len(slots))
        values = matrices(posterior, chosen)[np.arange(len(slots))[:, None], np.maximum(slots, 0)]
        there = (slots >= 0) & np.isfinite(values).all(axis=(2, 3))
        total += np.where(there[..., None, None], values, 0.0).sum(axis=0)
        count += there.sum(axis=0)
    out = total / np.maximum(count, 1.0)[:, None, None]
    out[count == 0] = total.sum(axis=0) / max(count.sum(), 1.0)
    return out


def shared_columns(posterior: Posterior, kind: str) -> np.ndarray | None:
    """Return which columns of a kind clusters share in each draw; None without indicators."""
    name = indicators_of(kind)
    return flat(posterior, name) == 0.0 if name in posterior.drawn else None


def fresh_clusters(posterior: Posterior, chosen: np.ndarray, d: int) -> FreshClusters:
    """Return the distribution of a new cluster in some draws.

    The covariance of one with a structure is drawn from its prior, once for each draw. Columns that
    all clusters share have the same distribution in a new one, up to the tails of Student-t rows.
    """
    if d == 0:
        n = len(chosen)
        return FreshClusters(np.empty((n, 0)), np.ones(n), np.empty((n, 0, 0)), np.full(n, np.inf))
    structure = structure_of(posterior)
    prior = flat(posterior, CLUSTER_PRIOR)[chosen][:, : prior_width(structure, d)]
    if structure == FULL:
        return fresh_niw(prior, d)
    rng = np.random.default_rng(0)
    shared = shared_columns(posterior, MEASUREMENTS)
    centre, kappa, sigma = [], [], []
    for place, row in zip(chosen, prior, strict=True):
        if structure == DIAGONAL:
            mean, strength, nu, psi = unpack_diagonal(row)
            variance = 0.5 * psi / rng.standard_gamma(0.5 * nu, d)
            if shared is not None:
                # The spread of a new cluster's mean will be added to the variance.
                own = shared[place]
                slot = int(np.argmax(np.isfinite(flat(posterior, "mean")[place][:, 0])))
                mean = np.where(own, flat(posterior, "mean")[place][slot], mean)
                known = flat(posterior, "variance")[place][slot] * strength / (1.0 + strength)
                variance = np.where(own, known, variance)
            made = np.diag(variance)
        else:
            mean, strength = row[1 : 1 + d] / row[0], float(row[0])
            if structure == TIED:
                made = flat(posterior, "shared_covariance")[place]
            else:
                from cavity.likelihoods.factor_loadings import draw_from_prior

                n_factors = posterior.drawn["loading"].shape[4]
                own = factors(np.ones(d), n_factors, 1, row[1 + d :])
                draw_from_prior(own, 0, rng)
                loading = (own.scaled[:, :, 0] / own.root[:, 0]).T
                made = np.diag(own.variance[:, 0]) + loading @ loading.T
        centre.append(mean)
        kappa.append(strength)
        sigma.append(made)
    return FreshClusters(
        np.array(centre), np.array(kappa), np.array(sigma), np.full(len(prior), np.inf)
    )


def set_block(
    family: Any, parameters: Any, posterior: Posterior, draw: int, rng: np.random.Generator
) -> None:
    """Give a continuous block the cluster parameters and prior of a draw.

    Where covariances of empty slots are needed, they are drawn from their prior.
    """
    structure = structure_of(posterior)
    mean = flat(posterior, "mean")[draw]
    used = np.flatnonzero(np.isfinite(mean[:, 0]))
    parameters.mean[:, used] = mean[used].T
    prior = flat(posterior, CLUSTER_PRIOR)[draw]
    family.prior[:] = prior[: family.prior.size]
    if structure == FULL:
        root = cholesky(flat(posterior, "covariance")[draw][used])
        eye = np.broadcast_to(np.eye(mean.shape[1]), root.shape)
        parameters.whiten[:, :, used] = np.moveaxis(np.tril(np.linalg.solve(root, eye)), 0, 2)
        diagonal = np.diagonal(root, axis1=1, axis2=2)
        parameters.half_log_det[used] = np.log(diagonal).sum(axis=1)
    elif structure == DIAGONAL:
        parameters.variance[:, used] = flat(posterior, "variance")[draw][used].T
    elif structure == TIED:
        for covariance in (family.covariance, parameters.covariance):
            set_tied(covariance, flat(posterior, "shared_covariance")[draw].copy())
    else:
        from cavity.likelihoods.factor_loadings import draw_from_prior

        own = family.covariance
        own.prior[:] = prior[family.prior.size : family.prior.size + own.prior.size]
        loading, variance = (flat(posterior, name)[draw] for name in ("loading", "uniqueness"))
        for k in range(parameters.mean.shape[1]):
            if k in used:
                set_factors(own, k, variance[k], loading[k])
            else:
                draw_from_prior(own, k, rng)
        for there, here in zip(copied(own), parameters.covariance, strict=True):
            here[...] = there


def df_of_all_slots(posterior: Posterior, chosen: np.ndarray, extra: int = 1) -> np.ndarray:
    """Return the degrees of freedom of every slot and of `extra` more.

    Those of empty slots are drawn from their prior, or are the others' where all share theirs. A
    draw with every row in the noise has none: its shared value is drawn from the prior.
    """
    kept = flat(posterior, "df")[chosen]
    df = np.pad(kept, ((0, 0), (0, extra)), "constant", constant_values=np.nan)
    given = posterior.record.settings.get("df")
    rng = np.random.default_rng(0)
    empty = ~np.isfinite(df)
    if given != "learn-each":
        none = empty.all(axis=1)
        df[none, 0] = draw_df(*DF_PRIOR, int(none.sum()), rng) if given == "learn" else given
        df = np.where(empty, np.nanmax(df, axis=1, keepdims=True), df)
    else:
        df[empty] = draw_df(*DF_PRIOR, int(empty.sum()), rng)
    return df
