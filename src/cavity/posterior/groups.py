"""Groups: clusters that overlap, merged within each draw.

The overlap of two clusters is read from the rows between their centers. Two clusters join if it
reaches a cut, and so do clusters linked by a chain of such pairs. Groups are thus a function of a
draw, and their posterior is as exact as that of the clusters.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from cavity.posterior.draws import subset_of_observations
from cavity.posterior.record import LEVEL
from cavity.utils.text import count, enumerate_words

if TYPE_CHECKING:
    import pandas as pd

    from cavity.posterior.posterior import Posterior
    from cavity.posterior.view import View

# Names among the summaries of a posterior: overlaps (draw, slot, slot), and the draws, all chains
# one after the other.
OVERLAP, OVERLAP_DRAWS = "overlap", "overlap_draws"
# Overlap from which two clusters are one group.
CUT = 0.5
# Clusters with a smaller affinity share no rows, whatever their rows look like from one direction.
LEAST_AFFINITY = 0.05
# Draws and rows from which overlaps are computed, and the most numbers that are kept.
MAX_DRAWS, MAX_ROWS, MAX_NUMBERS = 300, 2_000, 4_000_000
# Width of a window of rows, as a share of the distance between the centers, and the number of
# rows in which both outcomes are assumed equally likely before any is seen.
WINDOW, PRIOR_ROWS = 1.0 / 3.0, 3.0
# What chains must agree to on groups: less than clusters need, as fewer draws have groups.
PRECISION = "draft"

Positions = Callable[[np.ndarray, np.ndarray], np.ndarray]


def responsibilities(scores: np.ndarray) -> np.ndarray:
    """Return the probability of each cluster for each row, from log weights plus densities."""
    top = scores.max(axis=0)
    out = np.exp(scores - np.where(np.isfinite(top), top, 0.0))
    return out / np.maximum(out.sum(axis=0), 1e-300)


def affinities(share: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """Return the Bhattacharyya coefficient of each two clusters, estimated from the rows.

    Parameters
    ----------
    share : array, shape (cluster, n)
        Probability of each cluster for each row.
    weight : array, shape (n,)

    Examples
    --------
    >>> affinities(np.array([[1.0, 0.5, 0.0], [0.0, 0.5, 1.0]]), np.ones(3)).round(2).tolist()
    [[1.0, 0.33], [0.33, 1.0]]
    """
    root = np.sqrt(share * weight)
    norm = np.sqrt(np.maximum((share * weight).sum(axis=1), 1e-12))
    out: np.ndarray = root @ root.T / norm[:, None] / norm
    return out


def bridge(position: np.ndarray, weight: np.ndarray) -> float:
    """Return the density of rows halfway between two centers, relative to the sparser center.

    Parameters
    ----------
    position : array, shape (n,)
        Place of each row on the line from one center (0) to the other (1).
    weight : array, shape (n,)
        Probability that the row is in one of the two clusters.

    Examples
    --------
    >>> even = np.linspace(-0.5, 1.5, 2001)
    >>> bridge(even, np.ones(even.size)) > 0.99
    True
    >>> bridge(np.repeat([0.0, 1.0], 500), np.ones(1000)) < 0.01
    True
    """
    middle, low, high = (
        float(weight[np.abs(position - center) < 0.5 * WINDOW].sum()) for center in (0.5, 0.0, 1.0)
    )
    return min(1.0, (middle + 0.5 * PRIOR_ROWS) / (min(low, high) + PRIOR_ROWS))


def overlaps(
    scores: np.ndarray, weight: np.ndarray | None = None, positions: Positions | None = None
) -> np.ndarray:
    """Return the overlap of each two clusters of a draw, from 0 to 1.

    Parameters
    ----------
    scores : array, shape (cluster, n)
        Log weight plus log density of each row in each cluster.
    weight : array, shape (n,), optional
        Weights of the rows.
    positions : callable, optional
        ``positions(first, second)``: places of the rows on the line between the centers of pairs
        of clusters, (pair, n). By default the log ratio of the two densities, from the median of
        one cluster's rows to that of the other's: any likelihood has it.

    Returns
    -------
    array, shape (cluster, cluster)
        The density of rows halfway between two centers relative to the density at the sparser
        center, at most 1; each row counts with the probability that it is in one of the two
        clusters. Zero if the clusters share no rows, one with itself.
    """
    n_clusters, n = scores.shape
    weight = np.ones(n) if weight is None else weight
    share = responsibilities(scores)
    near = np.triu(affinities(share, weight) >= LEAST_AFFINITY, 1)
    first, second = np.nonzero(near)
    out = np.eye(n_clusters)
    if positions is not None and first.size:
        place = positions(first, second)
    for pair, (k, j) in enumerate(zip(first.tolist(), second.tolist(), strict=True)):
        both = (share[k] + share[j]) * weight
        own = place[pair] if positions is not None else _log_ratio(scores, share, weight, k, j)
        out[k, j] = out[j, k] = bridge(own, both)
    return out


def _log_ratio(
    scores: np.ndarray, share: np.ndarray, weight: np.ndarray, k: int, j: int
) -> np.ndarray:
    """Return places on the line of log density ratios, from cluster k (0) to cluster j (1)."""
    with np.errstate(invalid="ignore"):
        ratio = np.nan_to_num(scores[j] - scores[k], nan=0.0, posinf=1e150, neginf=-1e150)
    ratio = np.clip(ratio, -1e150, 1e150)
    order = np.argsort(ratio, kind="stable")
    begin, end = (_median(ratio, share[c] * weight, order) for c in (k, j))
    if end <= begin:
        # Both clusters have the same rows: all are halfway.
        return np.full(ratio.size, 0.5)
    return (ratio - begin) / (end - begin)


def _median(values: np.ndarray, weight: np.ndarray, order: np.ndarray) -> float:
    total = np.cumsum(weight[order])
    return float(values[order[np.searchsorted(total, 0.5 * total[-1])]])


def chosen_draws(n_chains: int, n_draws: int, n_slots: int, most: int = MAX_DRAWS) -> np.ndarray:
    """Return the draws that groups are computed for, as many of each chain, evenly spaced."""
    most = min(most, max(MAX_NUMBERS // n_slots**2, n_chains))
    per_chain = np.linspace(0, n_draws - 1, min(n_draws, max(most // n_chains, 1)))
    return np.add.outer(np.arange(n_chains) * n_draws, per_chain.round().astype(int)).ravel()


def rows_to_use(n: int, most: int = MAX_ROWS) -> np.ndarray:
    """Return the rows that overlaps are computed from: all, or a random choice of them."""
    return subset_of_observations(n, most)


def join_levels(overlap: np.ndarray) -> np.ndarray:
    """Return the largest cut at which each two clusters of each draw are in one group.

    Parameters
    ----------
    overlap : array, shape (draw, slot, slot)

    Examples
    --------
    >>> join_levels(np.array([[[1, 0.8, 0], [0.8, 1, 0.6], [0, 0.6, 1]]]))[0, 0].tolist()
    [1.0, 0.8, 0.6]
    """
    out = np.array(overlap)
    for m in range(out.shape[1]):
        np.maximum(out, np.minimum(out[:, :, m, None], out[:, m, None, :]), out=out)
    return out


class Merges:
    """Overlaps of the clusters of some draws, and the cuts at which they join.

    Parameters
    ----------
    posterior : Posterior
        One that has overlaps among its summaries.
    """

    def __init__(self, posterior: Posterior) -> None:
        if OVERLAP not in posterior.summaries:
            raise ValueError(
                "This posterior has no overlaps of clusters, so it has no groups. Mixtures of "
                "rows and tables, and cavity.extend.sample, compute them; labels alone, and "
                "series, have none."
            )
        self.posterior = posterior
        self.draws = posterior.summaries[OVERLAP_DRAWS].astype(np.int64)
        self.levels = join_levels(posterior.summaries[OVERLAP])

    def first(self, cut: float) -> np.ndarray:
        """Return the first slot of the group that each slot of a draw is in, (draw, slot)."""
        out: np.ndarray = (self.levels >= cut).argmax(axis=2)
        return out

    def labels(self, cut: float) -> np.ndarray:
        """Return the group of each observation in each of the draws, (chain, draw, n).

        A group has the label of its first cluster.
        """
        p = self.posterior
        own = p.flat_labels[self.draws].astype(np.int64)
        merged = np.take_along_axis(self.first(cut), own, axis=1)
        return merged.reshape(p.n_chains, -1, p.n_observations)

    def tree(self, partition: Any, cut: float, level: float) -> pd.DataFrame:
        """Return the merges of the clusters of a partition; see `Posterior.group_tree`."""
        import pandas as pd

        view = self.posterior.view(partition)
        names = [k for k in range(view.n_clusters) if k != view.noise]
        slots = view.relabelling.slots[self.draws][:, names]
        at = np.arange(len(slots))[:, None, None]
        levels = self.levels[at, slots[:, :, None], slots[:, None, :]]
        there = slots >= 0
        levels = np.where(there[:, :, None] & there[:, None, :], levels, np.nan)
        tail = 0.5 * (1.0 - level)
        rows: list[tuple[Any, ...]] = []
        parts: list[tuple[int, ...]] = [(j,) for j in range(len(names))]
        while len(parts) > 1:
            best, joined = (-1.0, 0, 1), np.zeros(0)
            for b in range(1, len(parts)):
                for a in range(b):
                    found = _joint_level(levels, parts[a], parts[b])
                    mean = float(found.mean()) if found.size else 0.0
                    if mean > best[0]:
                        best, joined = (mean, a, b), found
            _, a, b = best
            joined = joined if joined.size else np.zeros(1)
            rows.append(
                (
                    tuple(names[j] for j in parts[a]),
                    tuple(names[j] for j in parts[b]),
                    best[0],
                    *np.quantile(joined, [tail, 1.0 - tail]),
                    float((joined >= cut).mean()),
                )
            )
            parts[a] = tuple(sorted(parts[a] + parts[b]))
            del parts[b]
        return pd.DataFrame(
            rows, columns=["left", "right", "overlap", "lower", "upper", "probability"]
        )


def _joint_level(levels: np.ndarray, first: tuple[int, ...], second: tuple[int, ...]) -> np.ndarray:
    """Return the cut at which two sets of clusters join, in the draws that have some of both."""
    between = levels[:, first][:, :, second].reshape(len(levels), -1)
    known = np.isfinite(between).any(axis=1)
    out: np.ndarray = np.nanmax(between[known], axis=1) if known.any() else np.zeros(0)
    return out


def grouped(posterior: Posterior, merges: Merges, cut: float) -> Posterior:
    """Return the posterior over groups; see `Posterior.groups`."""
    from cavity.posterior.posterior import Posterior as Made

    details = {**posterior.record.details, LEVEL: "group"}
    record = replace(posterior.record, max_clusters=None, set_aside=(), details=details)
    return Made(merges.labels(cut), names=posterior.names, record=record)


def has_groups(posterior: Posterior) -> bool:
    """Return whether overlaps of the clusters are known."""
    return OVERLAP in posterior.summaries


def groups_settled(posterior: Posterior) -> bool:
    """Return whether the chains agree on the groups."""
    return bool(posterior.groups().diagnostics(precision=PRECISION).converged)


def group_of_clusters(view: View) -> np.ndarray:
    """Return the group that most rows of each cluster of a partition are in, (cluster,)."""
    found = view.posterior.groups().view()
    table = np.zeros((view.n_clusters, found.n_clusters), np.int64)
    np.add.at(table, (view.labels, found.labels), 1)
    return table.argmax(axis=1)


def differ(view: View) -> bool:
    """Return whether groups say something that clusters do not: some clusters are merged."""
    if not has_groups(view.posterior) or view.n < 2:
        return False
    return view.posterior.groups().view().n_proper < view.n_proper


def group_words(view: View) -> str:
    """Describe the groups and the clusters in them; empty if every cluster is a group.

    Examples
    --------
    >>> from cavity.posterior import Posterior
    >>> near = np.array([[[1.0, 0.9, 0.0], [0.9, 1.0, 0.0], [0.0, 0.0, 1.0]]])
    >>> known = {"overlap": near.repeat(2, axis=0), "overlap_draws": np.arange(2)}
    >>> p = Posterior.from_labels([[0, 0, 1, 1, 2]] * 2, summaries=known)
    >>> group_words(p.view())
    '2 well-separated groups (probability 1.00); group 0 contains 2 overlapping clusters (0, 1).'
    """
    if not differ(view):
        return ""
    groups = view.posterior.groups()
    found = groups.view()
    number = groups.n_clusters_posterior()
    chance = f"probability {number.get(found.n_proper, 0.0):.2f}"
    best = int(number.index.to_numpy()[number.to_numpy().argmax()])
    if best != found.n_proper:
        chance = f"in the point estimate, {chance}; {count(best, 'group')}: {number[best]:.2f}"
    of = group_of_clusters(view)
    several = []
    for g in range(found.n_clusters):
        held = [k for k in np.flatnonzero(of == g).tolist() if k != view.noise]
        if g != found.noise and len(held) > 1:
            several.append(
                f"group {g} contains {len(held)} overlapping clusters ({', '.join(map(str, held))})"
            )
    text = f"{found.n_proper} well-separated groups ({chance})"
    if found.n_proper == 1:
        text = f"1 group, with no gap inside ({chance})"
        several = [f"it contains {count(view.n_proper, 'overlapping cluster')}"]
    return f"{text}; {enumerate_words(several)}." if several else f"{text}."
