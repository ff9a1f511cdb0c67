"""The point estimate: the partition that minimises posterior expected loss."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from cavity.posterior._draws import distinct
from cavity.posterior.losses import Loss, losses_to_draws
from cavity.posterior.search import Problem

if TYPE_CHECKING:
    from cavity.posterior.credible_ball import CredibleBall

_SEARCH_CELLS = 100_000_000
_TREE_MAX = 4_000
_RESTARTS = 16
_START_CELLS = 200_000
_START_WORK = 3e8
_TOTAL_WORK = 5e8


def largest_first(labels: np.ndarray) -> np.ndarray:
    """Rename clusters 0, 1, ... from the largest to the smallest (ties by first appearance).

    Examples
    --------
    >>> largest_first(np.array([5, 3, 3, 5, 3]))
    array([1, 0, 0, 1, 0])
    """
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
    sizes : array of int, shape (n_clusters,)
    loss : Loss
    """

    labels: np.ndarray
    expected_loss: float
    loss: Loss
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

    def credible_ball(self, level: float = 0.95, *, metric: str | None = None) -> CredibleBall:
        """The smallest ball of partitions around the estimate with probability `level`.

        Parameters
        ----------
        level : float
        metric : {"vi", "binder"}, optional
            Distance between partitions; Binder's for a Binder estimate, else VI.

        Returns
        -------
        CredibleBall
            ``radius`` and the bounds ``horizontal``, ``upper_vertical``, ``lower_vertical``.
        """
        from cavity.posterior.credible_ball import credible_ball

        if metric is None:
            metric = "binder" if self.loss.name == "binder" else "vi"
        if self._draws is None:
            raise ValueError("this partition was made without draws, so it has no credible ball")
        return credible_ball(self.labels, self._draws, level, metric=metric)


def usual_clusters(numbers: np.ndarray) -> int:
    """The number of clusters that at least half of the draws have no more of."""
    return int(np.quantile(numbers, 0.5, method="higher"))


def find_partition(
    flat: np.ndarray,
    loss: Loss,
    *,
    random_state: int | np.random.Generator | None = 0,
    n_restarts: int | None = None,
    max_clusters: int | None = None,
) -> Partition:
    """Search all partitions for the least posterior expected loss.

    In the manner of SALSO (Dahl, Johnson & Müller 2022): observations are allocated one by one in
    random order where they cost least; *sweetening* scans then move each one to its best place;
    *zealous* updates dissolve a cluster and allocate its members anew; and the pair of clusters
    whose union helps most is merged, until nothing helps. That is repeated from random orders,
    from draws, and from the best cuts of average and complete linkage. Every loss is computed from
    the draws themselves: the counts that the candidate shares with each draw are kept up to date.

    Parameters
    ----------
    flat : array of int, shape (draw, n)
    loss : Loss
    random_state : int or numpy Generator
        Fixed by default: the same draws give the same answer.
    n_restarts : int, optional
        Random-order restarts, and kicks (two clusters dissolved together) from the best found.
        By default 16, fewer where they would take more than 5e8 (observation, draw, cluster)
        steps, a second or two.
    max_clusters : int, optional
        Most clusters that the estimate may have; by default a quarter more than any draw or cut
        it starts from has, plus 8.

    Returns
    -------
    Partition
        Never worse than the best draw, nor (to 4,000 observations) than any cut of the trees.

    Notes
    -----
    Large problems are handled leaner. Above 4,000 observations no tree is built. Where comparing
    every draw with every other costs more than 3e8 steps, draws are screened against an even
    subset first. With more than 1e8 labels in all, the search uses an even subset of the draws;
    the expected loss returned is over all of them. Where the counts would take more than 0.8 GB
    (thousands of clusters in each of many draws) the best draw or tree cut is returned as it is.
    """
    rng = np.random.default_rng(random_state)
    if max_clusters is not None and max_clusters < 1:
        raise ValueError(f"max_clusters must be at least 1; got {max_clusters}")
    if n_restarts is not None and n_restarts < 0:
        raise ValueError(f"n_restarts must not be negative; got {n_restarts}")
    draws = distinct(flat, _SEARCH_CELLS)
    if len(draws.labels) == 1 and (max_clusters or len(flat[0])) >= int(draws.n_clusters[0]):
        labels = largest_first(draws.labels[0])
    else:
        labels = largest_first(_search_all(Problem(draws, loss, max_clusters), n_restarts, rng))
    value = float(losses_to_draws(labels, flat, loss).mean())
    return Partition(labels, value, loss, flat)


def _search_all(problem: Problem, n_restarts: int | None, rng: np.random.Generator) -> np.ndarray:
    draws = problem.draws.labels
    restarts = _RESTARTS if n_restarts is None else n_restarts
    most = problem.max_clusters or problem.n
    # One cluster is a partition that every limit allows.
    best = np.zeros(problem.n, np.int64)
    best_value = problem.expected(best)

    def _consider(labels: np.ndarray) -> None:
        nonlocal best, best_value
        if labels.max() >= most and len(np.unique(labels)) > most:
            return
        value = problem.expected(labels)
        if value < best_value - 1e-13 * (1.0 + best_value):
            best, best_value = labels.astype(np.int64), value

    _consider(draws[0])
    cuts = problem.best_cuts() if problem.n <= _TREE_MAX else []
    for cut in cuts:
        _consider(cut)
    searching = problem.prepare(cuts)
    if searching:
        few = problem.n * problem.n_draws * problem.n_draws <= _START_CELLS
        chosen = draws if few else draws[rng.choice(len(draws), restarts // 4 + 1)]
        starts: list[np.ndarray | None] = [None] * restarts
        # Trees and random orders first: the budget may not reach the rest.
        for start in (*cuts, *starts[:2], *chosen, *starts[2:]):
            if n_restarts is None and problem.work > _START_WORK:
                break
            if start is None or problem.fits(start):
                _consider(problem.improve(start, rng))
    draw = problem.best_draw(best_value)
    if draw is not None:
        _consider(draw)
        if searching and problem.fits(draw):
            _consider(problem.improve(draw, rng))
    if searching and problem.fits(best):
        for kick in range(restarts):
            if n_restarts is None and kick and problem.work > _TOTAL_WORK:
                break
            _consider(problem.kick(best, rng))
    return best
