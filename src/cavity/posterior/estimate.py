"""The point estimate: the partition that minimizes posterior expected loss."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from cavity.posterior.draws import as_labels, distinct, evenly, iter_canonical
from cavity.posterior.losses import Loss, as_loss, losses_to_draws, losses_to_rows
from cavity.posterior.relabel import relabel
from cavity.posterior.search import Problem
from cavity.utils.text import count, enumerate_words, plural

if TYPE_CHECKING:
    from cavity.posterior.view import View

# Labels of the draws that the search looks at, and how many draws these are.
_SEARCH_CELLS = 90_000
_SEARCH_DRAWS = (200, 500)
# (observation, draw, cluster) steps of a scan when the best partitions are improved once more.
_POLISH_WORK = 8e6
_POLISHED = 3
_TREE_MAX = 4_000
_RESTARTS = 16
_START_CELLS = 200_000
_START_WORK = 2e7
_TOTAL_WORK = 4e7


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
    *zealous* updates dissolve a cluster and allocate its members again; and the pair of clusters
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
        By default 16, fewer where they would take more than 4e7 (observation, draw, cluster)
        steps, a tenth of a second.
    max_clusters : int, optional
        Most clusters that the estimate may have; by default a quarter more than any draw or cut
        it starts from has, plus 8.

    Returns
    -------
    Partition
        Never worse over the draws searched than the best of them, nor (to 4,000 observations) than
        any cut of the trees; with `max_clusters`, before the last step.

    Notes
    -----
    With `max_clusters`, the last step moves every observation whose probability in its cluster, by
    matched draws, is less than half of that in another one. The expected loss may rise by it.

    The search uses 200 to 500 draws, evenly spaced. The best partitions are then compared, and the
    best of them searched from once more, over as many draws as a scan of 8e6 steps can have. The
    expected loss returned is over all draws. Above 4,000 observations no tree is built. Where
    comparing every draw with every other costs more than 2e7 steps, draws are screened against an
    even subset first. Where the counts would take more than 0.8 GB
    (thousands of clusters in each of many draws) the best draw or tree cut is returned as it is.
    """
    rng = np.random.default_rng(random_state)
    if max_clusters is not None and max_clusters < 1:
        raise ValueError(f"max_clusters must be at least 1; got {max_clusters}")
    if n_restarts is not None and n_restarts < 0:
        raise ValueError(f"n_restarts must not be negative; got {n_restarts}")
    n = flat.shape[1]
    draws = distinct(evenly(flat, int(np.clip(_SEARCH_CELLS // n, *_SEARCH_DRAWS))))
    if len(draws.labels) == 1 and (max_clusters or n) >= int(draws.n_clusters[0]):
        labels = draws.labels[0]
    else:
        found = _search_all(Problem(draws, loss, max_clusters), n_restarts, rng)
        labels = found[0]
        steps = n * (int(labels.max()) + 2)
        more = evenly(flat, max(len(draws.which), int(_POLISH_WORK / steps)))
        if len(more) > len(draws.which):
            labels = _polished(Problem(distinct(more), loss, max_clusters), found, rng)
    labels = largest_first(labels)
    if max_clusters is not None:
        labels = largest_first(with_probable_places(labels, flat))
    value = float(losses_to_draws(labels, flat, loss).mean())
    return Partition(labels, value, loss, flat)


def with_probable_places(labels: np.ndarray, flat: np.ndarray) -> np.ndarray:
    """Move rows whose cluster has less than half the probability of another one to that one.

    A loss of pairs prefers a row alone if it is with less than half of every cluster. Where a limit
    forbids that, the smallest cluster costs least, whichever rows it has. Each move raises the
    number of rows that the draws, matched to the estimate, have in their own cluster, and another
    matching never lowers it. So this ends.

    Parameters
    ----------
    labels : array of int, shape (n,), labels 0..K-1
    flat : array of int, shape (draw, n)

    Examples
    --------
    >>> draws = np.array([[0, 0, 0, 0, 1, 1, 1, 2], [0, 0, 0, 1, 1, 1, 1, 2]])
    >>> with_probable_places(np.array([0, 0, 0, 2, 1, 1, 1, 2]), draws)
    array([0, 0, 0, 0, 1, 1, 1, 2])
    """
    every = np.arange(labels.size)
    while True:
        probability = relabel(flat, labels).probabilities
        own = probability[every, labels]
        unlikely = np.flatnonzero(probability.max(axis=1) > 2.0 * own)
        if not unlikely.size:
            return labels
        labels = labels.copy()
        labels[unlikely] = probability[unlikely].argmax(axis=1)
        labels = np.unique(labels, return_inverse=True)[1].reshape(-1)


def _polished(
    problem: Problem, candidates: list[np.ndarray], rng: np.random.Generator
) -> np.ndarray:
    """Return the best candidate over more draws, or what a search from it finds."""
    values = [problem.expected(labels) for labels in candidates]
    best = candidates[int(np.argmin(values))]
    if problem.prepare([best]):
        moved = problem.improve(best, rng)
        if problem.expected(moved) < min(values):
            return moved
    return best


def _search_all(
    problem: Problem, n_restarts: int | None, rng: np.random.Generator
) -> list[np.ndarray]:
    """Return the best partition, and the best of other numbers of clusters."""
    draws = problem.draws.labels
    restarts = _RESTARTS if n_restarts is None else n_restarts
    most = problem.max_clusters or problem.n
    # One cluster is a partition that every limit allows.
    best = np.zeros(problem.n, np.int64)
    best_value = problem.expected(best)
    # Over more draws a partition with another number of clusters may turn out to be better.
    found = {1: (best_value, best)}

    def _consider(labels: np.ndarray) -> None:
        nonlocal best, best_value
        number = len(np.unique(labels))
        if number > most:
            return
        value = problem.expected(labels)
        if number not in found or value < found[number][0]:
            found[number] = value, labels.astype(np.int64)
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
                _consider(problem.before_merging)
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
    others = sorted(found.values(), key=lambda pair: pair[0])[:_POLISHED]
    return [best, *(labels for _, labels in others if labels is not best)]


@dataclass(frozen=True)
class CredibleBall:
    """A credible ball and its bounds.

    Attributes
    ----------
    level : float
        Probability asked for.
    coverage : float
        Share of draws in the ball, at least `level`.
    radius : float
        Distance from the estimate to the edge.
    metric : str
        ``"vi"`` (nats) or ``"binder"``.
    horizontal, upper_vertical, lower_vertical : arrays of int, shape (m, n)
        The distinct partitions that attain each bound, mostly one.
    """

    level: float
    coverage: float
    radius: float
    metric: str
    horizontal: np.ndarray
    upper_vertical: np.ndarray
    lower_vertical: np.ndarray

    def __repr__(self) -> str:
        def _clusters(rows: np.ndarray) -> str:
            counts = sorted({int(row.max()) + 1 for row in rows})
            return " or ".join(map(str, counts))

        return (
            f"<CredibleBall: {self.level:.0%} within {self.radius:.4g} ({self.metric}); clusters: "
            f"horizontal {_clusters(self.horizontal)}, "
            f"upper {_clusters(self.upper_vertical)}, lower {_clusters(self.lower_vertical)}>"
        )


def credible_ball(
    labels: Any, draws: Any, level: float = 0.95, *, metric: str = "vi"
) -> CredibleBall:
    """Credible ball around a partition.

    Parameters
    ----------
    labels : array of int, shape (n,)
        Centre.
    draws : array of int, shape (draw, n)
    level : float
    metric : {"vi", "binder"}

    Examples
    --------
    >>> ball = credible_ball([0, 0, 1], [[0, 0, 1], [0, 0, 1], [0, 1, 2]], 0.6)
    >>> ball.radius, ball.coverage == 2 / 3
    (0.0, True)
    """
    if not 0 < level <= 1:
        raise ValueError(f"level must lie in (0, 1]; got {level}")
    if metric not in ("vi", "binder"):
        raise ValueError(f"metric must be 'vi' or 'binder'; got {metric!r}")
    loss = as_loss(metric)
    flat = as_labels(draws, ndim=(2,), what="draws")
    centre = as_labels(labels, ndim=(1,)).astype(np.int64)
    centre = np.unique(centre, return_inverse=True)[1].reshape(-1)
    distance = np.empty(len(flat))
    n_clusters = np.empty(len(flat), np.int64)
    for start, rows, n_rows in iter_canonical(flat):
        distance[start : start + len(rows)] = losses_to_rows(centre, rows, n_rows, loss)
        n_clusters[start : start + len(rows)] = n_rows
    # Equal distances reached through different sums may differ in the last digits.
    distance = np.round(distance, 12)
    order = np.sort(distance)
    radius = float(order[int(np.ceil(level * len(order) - 1e-9)) - 1])
    inside = distance <= radius

    def _furthest(chosen: np.ndarray) -> np.ndarray:
        at = np.flatnonzero(chosen)
        at = at[distance[at] == distance[at].max()]
        return distinct(flat[at]).labels.astype(np.int64)

    return CredibleBall(
        level=float(level),
        coverage=float(inside.mean()),
        radius=radius,
        metric=metric,
        horizontal=_furthest(inside),
        upper_vertical=_furthest(inside & (n_clusters == n_clusters[inside].min())),
        lower_vertical=_furthest(inside & (n_clusters == n_clusters[inside].max())),
    )


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
        number = count(self.n_clusters, "cluster")
        return f"With {number} ({self.probability:.0%}): {self.difference}."


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
        names = _names_words(view, ours)
        if len(ours) == len(theirs) == 1:
            continue
        if not len(theirs):
            parts.append(f"the {plural(noun)} of {names} move to other clusters")
        elif not len(ours):
            size = int(sizes[0])
            form = "forms" if size == 1 else "form"
            parts.append(f"{count(size, noun)} of several clusters {form} a new one")
        elif len(theirs) == 1:
            parts.append(f"{names} merge")
        else:
            become = "splits" if len(ours) == 1 else "are redivided"
            parts.append(f"{names} {become} into {_sizes_words(sizes, noun)}")
    if not parts:
        more = number - view.n_proper
        if more > 0:
            return (
                f"the clusters are the same, and {count(more, 'small one')} more "
                f"{'differs' if more == 1 else 'differ'} from draw to draw"
            )
        parts.append("the clusters are the same")
    if n_moved:
        parts.append(f"{count(n_moved, noun)} {'moves' if n_moved == 1 else 'move'} elsewhere")
    return "; ".join(parts)


def _names_words(view: View, clusters: np.ndarray) -> str:
    """Return the names of clusters in words, noise last."""
    proper = [str(k) for k in clusters if k != view.noise]
    words = [f"{plural('cluster', len(proper))} {enumerate_words(proper)}"] if proper else []
    return enumerate_words([*words, "noise"] if len(proper) < len(clusters) else words)


def _sizes_words(sizes: np.ndarray, noun: str) -> str:
    if len(sizes) > _SIZES_LISTED:
        return f"{len(sizes)} parts of {sizes.min():,} to {count(int(sizes.max()), noun)}"
    ordered = sorted(sizes.tolist(), reverse=True)
    return f"{enumerate_words([f'{s:,}' for s in ordered])} {plural(noun)}"


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
