"""A posterior seen from one partition: what every table, picture and page reads from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from cavity._numba.jit import jit
from cavity.posterior.draws import iter_canonical
from cavity.posterior.relabel import Relabelling, relabel

if TYPE_CHECKING:
    import pandas as pd

    from cavity.posterior.estimate import Alternative
    from cavity.posterior.posterior import Posterior

THRESHOLD = 0.8
NOISE_WORDS = "noise: outside every cluster (label -1)"
EXACT_MAX = 1_000
CELLS = 800


def outside_probability(posterior: Posterior) -> np.ndarray:
    """Probability of each observation that it is noise, whose slot is the first."""
    return (posterior.flat_labels == 0).mean(axis=0)


def noise_of(posterior: Posterior, labels: np.ndarray) -> int | None:
    """The cluster of a partition that is noise; None if none is."""
    outside = outside_probability(posterior) > 0.5
    held = np.unique(labels[outside])
    apart = held.size == 1 and not np.any(labels[~outside] == held[0])
    return int(held[0]) if apart else None


@dataclass(frozen=True, eq=False)
class View:
    """What the draws say of a partition, computed once; `Posterior.view` makes and keeps it.

    Attributes
    ----------
    posterior : Posterior
    labels : array of int, shape (n,)
        Clusters of the partition looked at, 0, 1, ...
    relabelling : Relabelling
        The draws' clusters matched to the partition's.
    certainty : array, shape (n,)
        Probability of sharing a cluster with another member of the own cluster, chosen at random
        (of being alone, for a cluster of one).
    probability : array, shape (n,)
        Probability of the own cluster: the share of draws that put the observation in the cluster
        matched to it.
    alternative : array of int, shape (n,)
        The other cluster that most draws put the observation in; -1 where none ever does.
    alternative_probability : array, shape (n,)
        Its share of the draws.
    unmatched : array, shape (n,)
        Share of draws that put the observation in a cluster that matches none.
    threshold : float
        An observation is in doubt if the probability of its own cluster is below it.
    count_from : int
        Number of the first observation, where observations have no names.

    Examples
    --------
    >>> from cavity.posterior import Posterior
    >>> p = Posterior.from_labels([[0, 0, 0, 1, 1], [0, 0, 1, 1, 1], [0, 0, 0, 1, 1]])
    >>> view = p.view()
    >>> view.probability.round(2).tolist(), view.in_doubt.tolist()
    ([1.0, 1.0, 0.67, 1.0, 1.0], [2])
    """

    posterior: Posterior
    labels: np.ndarray
    relabelling: Relabelling
    certainty: np.ndarray
    probability: np.ndarray
    alternative: np.ndarray
    alternative_probability: np.ndarray
    unmatched: np.ndarray
    threshold: float = THRESHOLD
    count_from: int = 0

    def __post_init__(self) -> None:
        if not 0 <= self.threshold <= 1:
            raise ValueError(f"threshold must lie in [0, 1]; got {self.threshold}")

    @classmethod
    def of(cls, posterior: Posterior, labels: np.ndarray) -> View:
        """Look at `posterior` from labels 0..K-1."""
        noise = None
        if posterior.record.noise:
            noise = -1 if (own := noise_of(posterior, labels)) is None else own
        matched = relabel(posterior.flat_labels, labels, noise)
        certainty = own_certainty(posterior.flat_labels, labels)
        return cls(posterior, labels, matched, certainty, *places(matched))

    @property
    def n(self) -> int:
        """Number of observations."""
        return len(self.labels)

    @cached_property
    def sizes(self) -> np.ndarray:
        """Number of observations in each cluster."""
        return np.bincount(self.labels)

    @property
    def proper_sizes(self) -> np.ndarray:
        """Number of observations in each cluster, noise not counted."""
        return self.sizes if self.noise is None else np.delete(self.sizes, self.noise)

    @property
    def n_clusters(self) -> int:
        """Number of clusters of the partition."""
        return len(self.sizes)

    @cached_property
    def noise(self) -> int | None:
        """The cluster that is noise, the observations outside every cluster; None without."""
        return noise_of(self.posterior, self.labels) if self.posterior.record.noise else None

    @property
    def n_proper(self) -> int:
        """Number of clusters, noise not counted."""
        return self.n_clusters - (self.noise is not None)

    def cluster_name(self, k: int) -> str:
        """What a cluster is called: its number, or noise."""
        return "noise" if k == self.noise else str(k)

    def could_be(self, i: int) -> tuple[str, float]:
        """Where else observation i most probably is, and how probably; empty if nowhere.

        It may be in a cluster that matches none of these: together with a few in some draws, say.
        """
        other, unmatched = int(self.alternative[i]), float(self.unmatched[i])
        chance = float(self.alternative_probability[i]) if other >= 0 else 0.0
        if unmatched > chance:
            return "unmatched", unmatched
        return (self.cluster_name(other), chance) if other >= 0 else ("", 0.0)

    def with_noise(self, texts: Sequence[str]) -> list[str]:
        """Texts about the clusters, and where there is noise, what it is."""
        return list(texts) if self.noise is None else [*texts, NOISE_WORDS]

    def look(self, k: int) -> int:
        """What a cluster looks like in pictures: its number, -1 for noise."""
        return -1 if k == self.noise else k

    @cached_property
    def looks(self) -> np.ndarray:
        """What each observation looks like in pictures: its cluster, -1 for noise."""
        return (
            self.labels
            if self.noise is None
            else np.where(self.labels == self.noise, -1, self.labels)
        )

    @cached_property
    def number(self) -> pd.Series:
        """Posterior probability of each number of occupied clusters."""
        return self.posterior.n_clusters_posterior()

    @property
    def number_interval(self) -> tuple[int, int]:
        """The number of clusters, noise not counted, is between these with probability 95%."""
        low, high = np.quantile(self.posterior.n_proper, [0.025, 0.975], method="nearest")
        return int(low), int(high)

    @property
    def alternatives(self) -> list[Alternative]:
        """The partition given other numbers of clusters; see `Posterior.alternatives`."""
        return self.posterior.alternatives(self.labels)

    @cached_property
    def order(self) -> np.ndarray:
        """Observations by cluster, the most certain of each first."""
        return np.lexsort((-self.certainty, self.labels))

    @cached_property
    def cluster_certainty(self) -> np.ndarray:
        """Mean certainty of the members of each cluster."""
        return np.bincount(self.labels, weights=self.certainty) / self.sizes

    @cached_property
    def in_doubt(self) -> np.ndarray:
        """Positions of the observations in doubt, the least probable first."""
        doubt = np.flatnonzero(self.probability < self.threshold)
        return doubt[np.lexsort((self.certainty[doubt], self.probability[doubt]))]

    @property
    def noun(self) -> str:
        """What one observation is called; see `Posterior.noun`."""
        return self.posterior.noun

    def name(self, position: int) -> str:
        """Name of an observation; its number where there are no names."""
        names = self.posterior.names
        return str(self.count_from + position if names is None else names[position])

    def similarity_picture(self) -> np.ndarray:
        """Similarity in `order`, averaged over squares where there are more than 1,000."""
        from cavity.posterior.similarity import cell_similarity

        if self.n <= EXACT_MAX:
            return self.posterior.similarity()[np.ix_(self.order, self.order)]
        return cell_similarity(self.posterior.flat_labels, self.order, CELLS)


@jit
def _add_mates(order, starts, rows, n_rows, count, size, mates, alone):
    """mates[i] += fellow members of i's cluster that are with it in each draw.

    ``count`` and ``size`` are rooms for the clusters of a draw, at zero.
    """
    for d in range(rows.shape[0]):
        row = rows[d]
        for i in range(row.shape[0]):
            size[row[i]] += 1
        for k in range(starts.shape[0] - 1):
            for at in range(starts[k], starts[k + 1]):
                count[row[order[at]]] += 1
            for at in range(starts[k], starts[k + 1]):
                i = order[at]
                mates[i] += count[row[i]] - 1
                if size[row[i]] == 1:
                    alone[i] += 1
            for at in range(starts[k], starts[k + 1]):
                count[row[order[at]]] = 0
        for j in range(n_rows[d]):
            size[j] = 0


def own_certainty(flat: np.ndarray, c: np.ndarray) -> np.ndarray:
    """Certainty of each observation, from draws (draw, n) and a partition 0..K-1.

    Examples
    --------
    >>> own_certainty(np.array([[0, 0, 1], [0, 1, 2]]), np.array([0, 0, 1])).tolist()
    [0.5, 0.5, 1.0]
    """
    sizes = np.bincount(c)
    order = np.argsort(c, kind="stable")
    starts = np.concatenate([[0], np.cumsum(sizes)])
    mates, alone = np.zeros(len(c), np.int64), np.zeros(len(c), np.int64)
    for _, rows, n_rows in iter_canonical(flat):
        count, size = np.zeros((2, n_rows.max()), np.int64)
        _add_mates(order, starts, rows, n_rows, count, size, mates, alone)
    others = sizes[c] - 1
    return np.where(others > 0, mates / np.maximum(others, 1), alone) / len(flat)


class Places(NamedTuple):
    """Where matched draws put each observation: shares of draws, and the best other cluster."""

    probability: np.ndarray  # of its own cluster
    alternative: np.ndarray  # the other cluster that most draws put it in; -1: none
    alternative_probability: np.ndarray
    unmatched: np.ndarray  # in a cluster of the draw that matches none


def places(matched: Relabelling) -> Places:
    """Summarize where the draws of a relabelling put each observation.

    Examples
    --------
    >>> draws = np.array([[0, 0, 1], [0, 1, 1], [1, 1, 1]])
    >>> places(relabel(draws, np.array([0, 1, 1]))).alternative.tolist()
    [1, 0, -1]
    """
    n_draws, every = len(matched.labels), np.arange(matched.labels.shape[1])
    counts = matched.counts[:, 1:]
    own = counts[every, matched.reference]
    others = counts.copy()
    others[every, matched.reference] = 0
    most = others.max(axis=1)
    alternative = np.where(most > 0, others.argmax(axis=1), -1)
    return Places(own / n_draws, alternative, most / n_draws, matched.counts[:, 0] / n_draws)
