"""What the answer would be with another number of clusters: the runners-up, in words."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from cavity.posterior.modes import evenly
from cavity.posterior.partition import Partition, find_partition
from cavity.utils.text import count, enumerate_words, plural

if TYPE_CHECKING:
    from cavity.posterior.view import View

# Draws of one number are alike, so that some of them tell as much as all.
_DRAWS = 400
_SIZES_LISTED = 4


@dataclass(frozen=True)
class Alternative:
    """The estimate among the draws of one other number of clusters.

    Attributes
    ----------
    n_clusters : int
        The number that these draws have, noise not counted.
    probability : float
        Share of the draws that have it.
    partition : Partition
        The partition with the least expected loss over these draws.
    difference : str
        How it differs from the partition looked at, in words.
    """

    n_clusters: int
    probability: float
    partition: Partition
    difference: str

    def __str__(self) -> str:
        return f"If there are {self.n_clusters} ({self.probability:.0%}): {self.difference}."


def find_alternatives(view: View, least: float = 0.1, most: int = 2) -> list[Alternative]:
    """The other numbers of clusters that the draws have, and the estimate given each of them.

    Parameters
    ----------
    view : View
    least : float
        Numbers less probable than this are left out.
    most : int
        So many at most, the most probable first.
    """
    posterior = view.posterior
    numbers = posterior.n_proper.reshape(-1)
    others = view.number.drop(view.n_proper, errors="ignore")
    others = others[others >= least].sort_values(ascending=False, kind="stable").head(most)
    found = []
    for number, share in zip(others.index.tolist(), others.tolist(), strict=True):
        chosen = evenly(np.flatnonzero(numbers == number), _DRAWS)
        partition = find_partition(
            posterior.flat_labels[chosen],
            posterior.loss,
            n_restarts=0,
            max_clusters=number + bool(posterior.record.noise),
        )
        words = _difference(view, partition.labels, number)
        found.append(Alternative(number, share, partition, words))
    return found


def _difference(view: View, labels: np.ndarray, number: int) -> str:
    """How another partition differs from that of a view, in words."""
    noun = view.noun
    related, n_moved = _related(view.labels, labels)
    parts = []
    for ours, theirs in related:
        sizes = np.bincount(labels)[theirs]
        names = enumerate_words([view.cluster_name(k) for k in ours])
        if len(ours) == len(theirs) == 1:
            continue
        if not len(theirs):
            parts.append(f"the {plural(noun)} of {names} are spread over others")
        elif not len(ours):
            parts.append(f"{count(int(sizes[0]), noun)} of several are a cluster of their own")
        elif len(theirs) == 1:
            parts.append(f"{names} are one")
        else:
            become = "falls" if len(ours) == 1 else "fall"
            anew = "" if len(ours) == 1 else " anew"
            parts.append(f"{names} {become}{anew} into {_sizes_words(sizes)}")
    if not parts:
        more = number - view.n_proper
        if more > 0:
            return (
                f"the clusters are these, and {count(more, 'small one')} more that "
                f"{'is' if more == 1 else 'are'} not the same from draw to draw"
            )
        parts.append("the clusters are these")
    if n_moved:
        parts.append(f"{count(n_moved, noun)} {'is' if n_moved == 1 else 'are'} elsewhere")
    return "; ".join(parts)


def _sizes_words(sizes: np.ndarray) -> str:
    if len(sizes) > _SIZES_LISTED:
        return f"{len(sizes)}, of {sizes.min():,} to {sizes.max():,}"
    return enumerate_words([f"{s:,}" for s in sorted(sizes.tolist(), reverse=True)])


def _related(
    ours: np.ndarray, theirs: np.ndarray
) -> tuple[list[tuple[np.ndarray, np.ndarray]], int]:
    """Clusters of two partitions that are about the same observations, group by group.

    A cluster belongs with the one of the other partition that holds most of it, if that is more
    than half. Also the number of observations that go from one group to another, where neither
    of their clusters stands alone.
    """
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    shared = np.zeros((ours.max() + 1, theirs.max() + 1), np.int64)
    np.add.at(shared, (ours, theirs), 1)
    mostly = (2 * shared > shared.sum(axis=1, keepdims=True)) | (2 * shared > shared.sum(axis=0))
    # Of 32 bits, as SciPy's search wants them: before 1.12 it does nothing with others.
    rows, columns = (at.astype(np.int32) for at in np.nonzero(mostly))
    n, m = shared.shape
    graph = coo_array((np.ones(len(rows)), (rows, n + columns)), shape=(n + m, n + m))
    n_groups, group = connected_components(graph, directed=False)
    first, second = group[:n], group[n:]
    groups = [(np.flatnonzero(first == g), np.flatnonzero(second == g)) for g in range(n_groups)]
    met = np.isin(first, second)[ours] & np.isin(second, first)[theirs]
    return groups, int((met & (first[ours] != second[theirs])).sum())
