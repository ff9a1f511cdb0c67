"""Chains that sit in different places: which sit together, and how much each place weighs.

Two chains are in one mode if their similarity matrices differ hardly more than the halves of one
chain do. Chains that never leave their mode say nothing of how probable it is: as many end there as
started near. What does is the log joint density, since

    log mass of a mode = mean over the mode of the log joint density + entropy within the mode.

With cluster parameters integrated out (`log_marginal`), what is left to have an entropy is the
labels, and that can be estimated: the sum of the rows' own entropies is exact if rows are in doubt
independently of each other, and too large otherwise. A mode whose mass so estimated lies further
below the best than the estimate can err is negligible.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from cavity.posterior.effective import ess
from cavity.posterior.relabel import relabel
from cavity.posterior.similarity import similarity

# Similarity matrices closer than this are the same for all purposes.
DISAGREEMENT_MAX = 0.1
# Nats that a mode may lie below the best before it can be called negligible: odds of 1 in 22,000.
NEGLIGIBLE = 10.0
# Share of the labels' entropy by which its estimate may err between two modes.
ENTROPY_ERROR = 0.25
# Fewer draws per chain do not tell where it sits.
LEAST_DRAWS = 50
_COMPARED_DRAWS = 500
_MATCHED_DRAWS = 200


@dataclass(frozen=True)
class Mode:
    """Chains that sit together.

    Attributes
    ----------
    chains : tuple of int
    log_joint : float
        Mean of their log joint density.
    below : float
        Nats that the mode's estimated mass lies below the best mode's; NaN if it is not known.
    allowance : float
        Nats by which that may err, and ten more; NaN if it is not known.
    """

    chains: tuple[int, ...]
    log_joint: float = math.nan
    below: float = math.nan
    allowance: float = math.nan

    @property
    def negligible(self) -> bool:
        """Whether its mass is next to nothing, whatever the estimate's error."""
        return self.below > self.allowance


def subset_of_observations(n: int, n_rows: int, random_state: int = 0) -> np.ndarray:
    """All observations, or a fixed random subset of `n_rows` of them, in order."""
    if n <= n_rows:
        return np.arange(n)
    return np.sort(np.random.default_rng(random_state).choice(n, n_rows, replace=False))


def similarity_distance(first: np.ndarray, second: np.ndarray) -> float:
    """Summed absolute difference over summed similarity of distinct observations, in [0, 1]."""
    total = first.sum(dtype=float) + second.sum(dtype=float) - 2 * len(first)
    if total <= 1e-9:
        return 0.0
    return float(np.abs(first.astype(float) - second).sum() / total)


def evenly(draws: np.ndarray, most: int) -> np.ndarray:
    """At most so many of the draws, evenly spaced."""
    if len(draws) <= most:
        return draws
    return draws[np.linspace(0, len(draws) - 1, most).round().astype(int)]


def chain_disagreement(
    labels: Sequence[np.ndarray], n_rows: int = 200, random_state: int = 0
) -> tuple[np.ndarray, np.ndarray]:
    """Distances of the chains' similarity matrices, and of each chain's two halves.

    Parameters
    ----------
    labels : sequence of arrays of int, shape (draw, n)
        One per chain.
    n_rows : int
        With more observations a fixed random subset of so many is compared.
    random_state : int
        Of the subset.

    Returns
    -------
    between : array, shape (chain, chain)
    within : array, shape (chain,)
    """
    rows = subset_of_observations(labels[0].shape[1], n_rows, random_state)
    whole, within = [], np.zeros(len(labels))
    for c, draws in enumerate(labels):
        half = len(draws) // 2
        halves = [
            similarity(evenly(part, _COMPARED_DRAWS)[:, rows])
            for part in (draws[:half], draws[half:])
            if len(part)
        ]
        whole.append(np.mean(halves, axis=0))
        if len(halves) == 2:
            within[c] = similarity_distance(*halves)
    between = np.zeros((len(labels), len(labels)))
    for i in range(len(labels)):
        for j in range(i):
            between[i, j] = between[j, i] = similarity_distance(whole[i], whole[j])
    return between, within


def groups(between: np.ndarray, within: np.ndarray) -> list[tuple[int, ...]]:
    """Chains that sit together, directly or by way of others, the largest group first.

    A chain whose halves differ as much as it differs from another has been, or may yet come, where
    that one is: the two are not told apart.

    Examples
    --------
    >>> groups(np.array([[0, 0.02, 0.6], [0.02, 0, 0.6], [0.6, 0.6, 0]]), np.full(3, 0.05))
    [(0, 1), (2,)]
    """
    own = np.maximum.outer(within, within)
    linked = between <= np.maximum(DISAGREEMENT_MAX, 1.5 * own)
    left, found = set(range(len(between))), []
    while left:
        group, reached = set(), {min(left)}
        while reached:
            group |= reached
            reached = {int(j) for i in reached for j in np.flatnonzero(linked[i])} - group
        left -= group
        found.append(tuple(sorted(group)))
    return sorted(found, key=lambda chains: (-len(chains), chains))


def label_entropy(draws: np.ndarray, reference: np.ndarray) -> float:
    """Entropy of the labels, rows taken as independent (nats), of draws matched to a reference.

    Examples
    --------
    >>> round(label_entropy(np.array([[0, 0, 1], [1, 1, 1]]), np.array([0, 0, 1])), 3)
    0.693
    """
    matched = relabel(evenly(draws, _MATCHED_DRAWS), np.unique(reference, return_inverse=True)[1])
    share = matched.probabilities
    share = np.column_stack([share, 1.0 - share.sum(axis=1)])
    return float(-np.sum(share * np.log(np.maximum(share, 1e-300))))


def log_mass(
    draws: np.ndarray, mode: np.ndarray, log_marginal: np.ndarray, max_clusters: int | None
) -> tuple[float, float]:
    """Estimated log mass of the place that draws are from, and the labels' entropy in it.

    Parameters
    ----------
    draws : array of int, shape (draw, n)
    mode : array of int, shape (n,)
        The labels among them of highest density.
    log_marginal : array
        Log joint densities there, with cluster parameters integrated out.
    max_clusters : int or None
        Names that clusters may have, where the prior is over labels.
    """
    entropy = label_entropy(draws, mode)
    mass = float(log_marginal.mean()) + entropy
    if max_clusters is not None:
        number = np.array([len(np.unique(row)) for row in evenly(draws, _MATCHED_DRAWS)])
        mass += float(np.mean([_log_names(max_clusters, int(k)) for k in number]))
    return mass, entropy


def find_modes(
    labels: Sequence[np.ndarray],
    between: np.ndarray,
    within: np.ndarray,
    log_joint: np.ndarray | None,
    log_marginal: np.ndarray | None,
    max_clusters: int | None,
) -> tuple[Mode, ...]:
    """Modes that the chains sit in, the most probable first where that is known.

    Parameters
    ----------
    labels : sequence of arrays of int, shape (draw, n)
        One per chain.
    between, within : arrays
        Of `chain_disagreement`.
    log_joint : array, shape (chain, draw), or None
    log_marginal : array, shape (chain, draw), or None
        Log joint density with cluster parameters integrated out.
    max_clusters : int or None
        Names that clusters may have, where the prior is over labels: a partition is there once for
        every way of naming its clusters.
    """
    found = groups(between, within)
    means = np.full(len(labels), np.nan) if log_joint is None else log_joint.mean(axis=1)
    known = log_marginal is not None and np.isfinite(log_marginal).all()
    if len(found) == 1 or not known or len(labels[0]) < LEAST_DRAWS:
        return tuple(Mode(chains, float(means[list(chains)].mean())) for chains in found)
    assert log_marginal is not None
    weight, error, entropy = (np.empty(len(found)) for _ in range(3))
    for m, chains in enumerate(found):
        values = log_marginal[list(chains)]
        draws = np.concatenate([evenly(labels[c], _MATCHED_DRAWS) for c in chains])
        best = max(chains, key=lambda c: float(log_marginal[c].max()))
        mode = labels[best][int(log_marginal[best].argmax())]
        weight[m], entropy[m] = log_mass(draws, mode, values, max_clusters)
        error[m] = values.std() / math.sqrt(max(float(ess(values, "mean")), 1.0))
    top = int(weight.argmax())
    modes = []
    for m, chains in enumerate(found):
        doubt = ENTROPY_ERROR * max(entropy[m], entropy[top])
        allowance = NEGLIGIBLE + doubt + 3.0 * math.hypot(error[m], error[top])
        below = float(weight[top] - weight[m])
        modes.append(Mode(chains, float(means[list(chains)].mean()), below, float(allowance)))
    return tuple(sorted(modes, key=lambda mode: mode.below))


def _log_names(n_names: int, n_clusters: int) -> float:
    """Logarithm of the ways to give so many clusters different names."""
    n_clusters = min(n_clusters, n_names)
    return math.lgamma(n_names + 1.0) - math.lgamma(n_names - n_clusters + 1.0)
