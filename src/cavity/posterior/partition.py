"""The point estimate: the partition that minimises posterior expected loss."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from cavity.posterior._draws import distinct
from cavity.posterior.losses import Loss, as_loss, losses_to_draws, losses_to_rows


def largest_first(labels: np.ndarray) -> np.ndarray:
    """Rename clusters 0, 1, ... from the largest to the smallest (ties by first appearance)."""
    _, first, inverse, counts = np.unique(
        labels, return_index=True, return_inverse=True, return_counts=True
    )
    order = np.lexsort((first, -counts))
    rank = np.empty(len(order), np.int64)
    rank[order] = np.arange(len(order))
    return rank[inverse.reshape(-1)]


@dataclass(frozen=True)
class Partition:
    """A point estimate of the clustering.

    Attributes
    ----------
    labels : array of int, shape (n,)
        Cluster of each observation; 0 is the largest cluster.
    expected_loss : float
        Posterior expected loss, over all draws.
    n_clusters : int
    loss : str
    a : float
        Cost of separating observations that belong together.
    """

    labels: np.ndarray
    expected_loss: float
    loss: str = "vi"
    a: float = 1.0
    _draws: np.ndarray | None = field(default=None, repr=False, compare=False)

    @property
    def n_clusters(self) -> int:
        """Number of clusters."""
        return int(self.labels.max()) + 1

    @property
    def sizes(self) -> np.ndarray:
        """Number of observations in each cluster."""
        return np.bincount(self.labels)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return np.array(self.labels, dtype=dtype)

    def __len__(self) -> int:
        return len(self.labels)


def find_partition(flat: np.ndarray, loss: Loss, **options: Any) -> Partition:
    """The draw with the least expected loss."""
    draws = distinct(flat, 100_000_000)
    best, best_value = 0, np.inf
    for d in range(len(draws.labels)):
        values = losses_to_rows(draws.labels[d], draws.labels, draws.n_clusters, loss)
        value = float(values @ draws.weights)
        if value < best_value:
            best, best_value = d, value
    labels = largest_first(draws.labels[best])
    value = float(losses_to_draws(labels, flat, loss).mean())
    return Partition(labels, value, loss.name, loss.a, flat)


__all__ = ["Partition", "as_loss", "find_partition", "largest_first"]
