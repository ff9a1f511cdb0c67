"""The point estimate: the partition that minimises posterior expected loss."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from cavity.posterior import _search
from cavity.posterior._draws import Draws, distinct
from cavity.posterior.losses import Loss, loss_table, losses_to_draws

if TYPE_CHECKING:
    from cavity.posterior.credible_ball import CredibleBall

_SEARCH_CELLS = 100_000_000
_COUNT_BYTES = 800_000_000
_TREE_MAX = 4_000
_PAIR_COST = 30_000_000_000
_RESTART_COST = 3_000_000_000
_MERGE_MAX = 400


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
            metric = "binder" if self.loss == "binder" else "vi"
        if self._draws is None:
            raise ValueError("this partition was made without draws, so it has no credible ball")
        return credible_ball(self.labels, self._draws, level, metric=metric)


class _Problem:
    """The draws and the loss, and the search state sized for them."""

    def __init__(self, draws: Draws, loss: Loss, max_clusters: int | None) -> None:
        self.draws, self.loss = draws, loss
        self.n = draws.labels.shape[1]
        self.kind = _search.OMARI if loss.name == "omari" else _search.TABLE
        self.value = loss_table(loss.name, self.n + 1)
        most = int(draws.n_clusters.max())
        self.cap = min(self.n, max_clusters or most + most // 4 + 8)
        self.rows = int(draws.n_clusters.sum())
        self.cost = self.n * len(draws.labels) * float(draws.n_clusters.mean())
        self.scale = {"vi": self.n, "binder": float(self.n) ** 2, "omari": 1.0}[loss.name]
        self._state: _search.SearchState | None = None

    @property
    def state(self) -> _search.SearchState:
        if self._state is None:
            self._state = self._allocate()
        return self._state

    def _allocate(self) -> _search.SearchState:
        draws = self.draws
        n_draws = len(draws.labels)
        return _search.SearchState(
            by_item=np.ascontiguousarray(draws.labels.T),
            weights=draws.weights,
            row_start=np.concatenate([[0], np.cumsum(draws.n_clusters)]),
            value=self.value,
            gain=np.diff(self.value),
            labels=np.empty(self.n, np.int64),
            sizes=np.zeros(self.cap, np.int64),
            counts=np.zeros((self.rows, self.cap), np.int32),
            row_size=np.zeros(self.rows, np.int32),
            together=np.zeros(n_draws),
            pairs_z=np.zeros(n_draws),
            totals=np.zeros(2),
            order=np.empty(self.n, np.int64),
            members=np.empty(self.n, np.int64),
            old=np.empty(self.n, np.int64),
            out=np.empty(self.cap),
            place=np.empty(self.cap, np.int64),
            cost=np.empty((min(self.cap, _MERGE_MAX),) * 2),
            pair=np.empty((min(self.cap, _MERGE_MAX),) * 2),
            kind=self.kind,
            b=2.0 - self.loss.a,
        )

    def expected(self, labels: np.ndarray) -> float:
        """Expected loss over the distinct draws."""
        return float(losses_to_draws(labels, self.draws.labels, self.loss) @ self.draws.weights)

    def improve(self, start: np.ndarray | None, rng: np.random.Generator) -> np.ndarray:
        """Search from a partition, or by random-order sequential allocation."""
        s = self.state
        if start is None:
            _search.start_from(s, np.full(self.n, -1))
            _search.allocate(s, rng.permutation(self.n))
        else:
            _search.start_from(s, start.astype(np.int64))
        _search.improve(s, rng, 20, 20, 10)
        return s.labels.copy()

    def best_cuts(self) -> list[np.ndarray]:
        """For average and complete linkage of one minus similarity, the best of all cuts."""
        from scipy.cluster.hierarchy import cut_tree, linkage
        from scipy.spatial.distance import squareform

        from cavity.posterior.similarity import similarity_of_distinct

        distance = 1.0 - similarity_of_distinct(self.draws).astype(float)
        np.fill_diagonal(distance, 0.0)
        condensed = squareform(distance, checks=False)
        found = []
        for method in ("average", "complete"):
            tree = linkage(condensed, method=method)
            losses = _search.cut_losses(
                tree,
                self.draws.labels,
                self.draws.n_clusters,
                self.draws.weights,
                self.value,
                self.kind,
                self.loss.a,
            )
            n_clusters = self.n - int(losses.argmin())
            found.append(cut_tree(tree, n_clusters=n_clusters).reshape(-1))
        return found

    def best_draw(self, bound: float) -> np.ndarray | None:
        """The best of all draws if it beats `bound`."""
        everyone = np.arange(len(self.draws.labels))
        candidates = everyone
        if len(everyone) ** 2 * self.n > _PAIR_COST:
            candidates = self._screen(everyone)
        best, _ = self._best_of(candidates, everyone, bound * self.scale)
        return None if best < 0 else self.draws.labels[best]

    def _screen(self, everyone: np.ndarray) -> np.ndarray:
        """The most promising draws, judged against an even subset of the draws."""
        few = max(10, int(_PAIR_COST / 2 / len(everyone) / self.n))
        versus = np.unique(np.linspace(0, len(everyone) - 1, few).astype(int))
        values = np.array([self._best_of(everyone[c : c + 1], versus, np.inf)[1] for c in everyone])
        return np.argsort(values, kind="stable")[: max(5, few // 4)]

    def _best_of(
        self, candidates: np.ndarray, versus: np.ndarray, bound: float
    ) -> tuple[int, float]:
        weights = self.draws.weights[versus]
        return _search.best_draw(
            self.draws.labels,
            self.draws.n_clusters,
            self.draws.weights,
            self.value,
            self.kind,
            self.loss.a,
            candidates,
            versus,
            weights / weights.sum(),
            bound,
        )


def _starts(
    problem: _Problem, cuts: list[np.ndarray], n_restarts: int | None, rng: np.random.Generator
) -> list[np.ndarray | None]:
    """Where to search from: None is sequential allocation in random order."""
    draws = problem.draws.labels
    restarts = n_restarts
    if restarts is None:
        # About seven passes over all (observation, draw, cluster) triples per restart.
        affordable = int(_RESTART_COST / (7 * problem.cost))
        restarts = int(np.clip(affordable, 2, 64 if problem.n <= 64 else 16))
    starts: list[np.ndarray | None] = [cut for cut in cuts if cut.max() < problem.cap]
    if len(draws) * 7 * problem.cost <= _RESTART_COST / 10:
        starts += list(draws)
    else:
        starts += [draws[d] for d in rng.choice(len(draws), min(len(draws), restarts // 2 + 1))]
    fits = [start for start in starts if start is None or start.max() < problem.cap]
    return [*fits, *([None] * restarts)]


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
        Random-order restarts. By default as many as about 3e9 (observation, draw, cluster) steps
        allow: 2 to 16, and 64 for up to 64 observations.
    max_clusters : int, optional
        Most clusters considered by the moves; a quarter more than any draw has, plus 8, by default.

    Returns
    -------
    Partition
        Never worse than the best draw, nor (to 4,000 observations) than any cut of the trees.

    Notes
    -----
    Large problems are handled leaner. Above 4,000 observations no tree is built. Where comparing
    every draw with every other costs more than 3e10 steps, draws are screened against an even subset
    first. With more than 1e8 labels in all, the search uses an even subset of the draws; the expected
    loss returned is over all of them. Where the counts would take more than 0.8 GB (thousands of
    clusters in thousands of draws) an equivalent search over members of clusters is used.
    """
    rng = np.random.default_rng(random_state)
    if max_clusters is not None and max_clusters < 1:
        raise ValueError(f"max_clusters must be at least 1; got {max_clusters}")
    if n_restarts is not None and n_restarts < 0:
        raise ValueError(f"n_restarts must not be negative; got {n_restarts}")
    draws = distinct(flat, _SEARCH_CELLS)
    if len(draws.labels) == 1:
        labels = largest_first(draws.labels[0])
    else:
        labels = largest_first(_search_all(_Problem(draws, loss, max_clusters), n_restarts, rng))
    value = float(losses_to_draws(labels, flat, loss).mean())
    return Partition(labels, value, loss.name, loss.a, flat)


def _search_all(problem: _Problem, n_restarts: int | None, rng: np.random.Generator) -> np.ndarray:
    cuts = problem.best_cuts() if problem.n <= _TREE_MAX else []
    best, best_value = problem.draws.labels[0].astype(np.int64), np.inf

    def _consider(labels: np.ndarray) -> None:
        nonlocal best, best_value
        value = problem.expected(labels)
        if value < best_value - 1e-13 * (1.0 + best_value):
            best, best_value = labels, value

    for cut in cuts:
        _consider(cut)
    for start in _starts(problem, cuts, n_restarts, rng):
        _consider(problem.improve(start, rng))
    draw = problem.best_draw(best_value)
    if draw is not None:
        _consider(draw.astype(np.int64))
        _consider(problem.improve(draw, rng))
    return best
