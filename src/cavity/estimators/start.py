"""Starting labels of chains: from k-means, at random, or as given.

By default every second start is at random. Chains that all start from k-means may all stay in the
mode that k-means prefers, and their agreement is no evidence about other modes.

A chain that starts at random may take thousands of sweeps to leave a mode of negligible mass. With
few rows, all chains of a fit therefore share short runs from both kinds of starts. Runs that have
settled show modes. A chain continues from each mode whose mass may be comparable to that of the
best, by its bounds (`cavity.posterior.convergence`). Further chains continue from the best of the
other runs. Chains that agree have then met from all modes found. A mode without a chain is
reported, unless a chain visits it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from cavity.posterior.convergence import (
    DISAGREEMENT_MAX,
    NEGLIGIBLE,
    MassBounds,
    chain_disagreement,
    mass_bounds,
)
from cavity.posterior.draws import evenly
from cavity.utils.threads import without_openmp

if TYPE_CHECKING:
    from cavity.mcmc.chain import PartitionSampler

# k-means is fitted to at most this many rows, without the most isolated tenth; the others go to
# their nearest center. Outliers would each draw a center to themselves, and a chain that starts
# with a cluster of outliers is slow to give it up.
FITTED_ROWS = 5_000
LONELY = 0.1
NEIGHBOUR = 5
STARTS = ("dispersed", "k-means++", "random")
# Short runs per round, rounds without news after which they end, their largest number, and rows
# beyond which there are none; their approximate total cost, in numbers read per sweep.
ROUND, QUIET_ROUNDS, MOST_RUNS, MOST_ROWS = 4, 2, 16, 2_000
RUNS_WORK = 600_000
# Sweeps of a run, and how many of these, at the end, are looked at. Nothing is learned of the
# clusters' prior in the first fifty.
RUN_SWEEPS, LOOKED_AT = 120, 40
# Draws of a chain that are compared with a mode.
COMPARED = 500
# Spawn key of the generators of short runs; those of chains have the first numbers.
RUN_KEY = 2**32 - 1


def runs_of(init: Any, shape: tuple[int, ...], n_clusters: int, n_warmup: int) -> int:
    """Return the most short runs that chains start from, more where they are cheap.

    None for many rows, a given start, or a warm-up shorter than a run.

    Examples
    --------
    >>> runs_of("dispersed", (150, 4), 3, 200), runs_of("dispersed", (600, 10), 20, 200)
    (16, 8)
    >>> runs_of("random", (150, 4), 3, 200), runs_of("dispersed", (150, 4), 3, 50)
    (0, 0)
    """
    dispersed = isinstance(init, str) and init == STARTS[0]
    n, d = shape
    if not dispersed or n > MOST_ROWS or n_warmup < RUN_SWEEPS:
        return 0
    return min(max(RUNS_WORK // (n * d * (d + n_clusters)), 2 * ROUND), MOST_RUNS)


@dataclass(frozen=True)
class ShortRun:
    """A short run: its start, its last draws and its final state."""

    start: np.ndarray
    labels: np.ndarray
    log_marginal: np.ndarray
    state: Mapping[str, np.ndarray]


@dataclass(frozen=True)
class StartingMode:
    """A mode found by short runs.

    Attributes
    ----------
    runs : tuple of int
        The best first.
    bounds : MassBounds
    labels : array of int, shape (n,)
        The most probable draw of the best run.
    radius : float
        Largest distance of a draw that belongs to the mode.
    """

    runs: tuple[int, ...]
    bounds: MassBounds
    labels: np.ndarray
    radius: float


class StartingRuns:
    """Short runs that the chains of a fit share, made when the first chain starts.

    They depend on the seed alone, not on the number of chains or of threads.

    Parameters
    ----------
    first : callable
        ``first(run, rng)``: the labels that a run begins with.
    begun : callable
        ``begun(labels, rng)``: a chain at its start.
    most : int
        Largest number of short runs.
    n_chains, n_threads : int
    max_clusters : int or None
        Names that clusters may have, where the prior is over labels.
    """

    def __init__(
        self,
        first: Callable[[int, np.random.Generator], np.ndarray],
        begun: Callable[[np.ndarray, np.random.Generator], PartitionSampler],
        most: int,
        n_chains: int,
        n_threads: int,
        max_clusters: int | None,
    ) -> None:
        self._first, self._begun = first, begun
        self._most, self._n_chains, self._n_threads = most, n_chains, n_threads
        self._max_clusters = max_clusters
        self._lock = threading.Lock()
        self.runs: list[ShortRun] = []
        self.modes: list[StartingMode] = []
        self._order: list[int] = []
        self._entropy: Any = None
        self._made = False

    def sampler(self, chain: int, rng: np.random.Generator) -> PartitionSampler:
        """Return a chain that continues one of the runs, if there are any."""
        self._know(rng)
        self._make()
        if not self._order:
            return self._begun(self._first(chain, rng), rng)
        run = self.runs[self._order[chain % len(self._order)]]
        sampler = self._begun(run.start, rng)
        sampler.restore(run.state)
        return sampler

    def restored(self, chain: int, rng: np.random.Generator) -> PartitionSampler:
        """Return a chain with a known state, which needs no short run."""
        self._know(rng)
        return self._begun(self._first(chain, rng), rng)

    def _know(self, rng: np.random.Generator) -> None:
        """Note the seed that the generators of all chains were spawned from."""
        seeds: Any = rng.bit_generator.seed_seq
        self._entropy = seeds.entropy

    def unvisited(self, chains: Sequence[np.ndarray]) -> tuple[dict[str, Any], ...]:
        """Return the modes that no chain started in or visited.

        Parameters
        ----------
        chains : sequence of arrays of int, shape (draw, n)
            The draws of each chain.
        """
        self._make()
        best = max((mode.bounds for mode in self.modes), key=lambda one: one.low, default=None)
        found = []
        for mode in self.modes[self._n_chains :]:
            if any(_visits(draws, mode) for draws in chains):
                continue
            assert best is not None
            number = len(np.unique(mode.labels))
            below = mode.bounds.below(best)
            found.append({"n_clusters": number, "runs": len(mode.runs), "below": list(below)})
        return tuple(found)

    def _make(self) -> None:
        """Make runs in rounds until they find nothing new."""
        with self._lock, ThreadPoolExecutor(self._n_threads) as threads:
            best, quiet = -np.inf, 0
            while not self._made and quiet < QUIET_ROUNDS and len(self.runs) + ROUND <= self._most:
                numbers = range(len(self.runs), len(self.runs) + ROUND)
                self.runs += threads.map(self._run, numbers)
                n_modes, before = len(self.modes), best
                self.modes, self._order, best = survey(self.runs, self._max_clusters)
                news = len(self.modes) > n_modes or best > before + NEGLIGIBLE
                quiet = 0 if news else quiet + 1
            self._made = True

    def _run(self, run: int) -> ShortRun:
        seed = np.random.SeedSequence(self._entropy, spawn_key=(RUN_KEY, run))
        rng = np.random.Generator(np.random.PCG64(seed))
        start = self._first(run, rng)
        sampler = self._begun(start, rng)
        for _ in range(RUN_SWEEPS - LOOKED_AT):
            sampler.sweep(rng)
        labels, log_marginal = [], []
        for _ in range(LOOKED_AT):
            sampler.sweep(rng)
            log_marginal.append(sampler.log_marginal())
            labels.append(sampler.labels().copy())
        return ShortRun(start, np.stack(labels), np.array(log_marginal), sampler.state())


def survey(
    runs: Sequence[ShortRun], max_clusters: int | None
) -> tuple[list[StartingMode], list[int], float]:
    """Return the modes of some runs, the order in which chains use the runs, and a score.

    The score, halfway between the bounds of the best run's mass, only orders starts.
    """
    between, within = chain_disagreement([run.labels for run in runs])
    single = [_bounds([run], max_clusters) for run in runs]
    by_score = sorted(range(len(runs)), key=lambda run: -single[run].middle)
    members: dict[int, list[int]] = {}
    for run in by_score:
        nearest = min(members, key=lambda leader: between[run, leader], default=run)
        if nearest != run and between[run, nearest] <= DISAGREEMENT_MAX:
            members[nearest].append(run)
        elif within[run] <= DISAGREEMENT_MAX:
            members[run] = [run]
    modes = [
        StartingMode(
            tuple(some), _bounds([runs[run] for run in some], max_clusters), *_centre(runs[leader])
        )
        for leader, some in members.items()
    ]
    modes = _comparable(modes, [mode.bounds for mode in modes])
    firsts = [mode.runs[0] for mode in modes]
    negligible = set().union(*members.values()) - set().union(*(mode.runs for mode in modes))
    others = [run for run in by_score if run not in negligible and run not in firsts]
    others = _comparable(others, [single[run] for run in others])
    return modes, firsts + others, single[by_score[0]].middle


def _bounds(runs: Sequence[ShortRun], max_clusters: int | None) -> MassBounds:
    """Return bounds of the log mass of the mode of these runs."""
    values = np.stack([run.log_marginal for run in runs])
    draws = np.concatenate([run.labels for run in runs])
    return mass_bounds(draws, draws[int(values.argmax())], values, max_clusters)


def _comparable(found: list[Any], bounds: Sequence[MassBounds]) -> list[Any]:
    """Return those whose mass may not be negligible."""
    best = max(bounds, key=lambda one: one.low, default=None)
    return [
        one
        for one, its in zip(found, bounds, strict=True)
        if its is best or best is None or its.below(best)[0] <= NEGLIGIBLE
    ]


def _centre(run: ShortRun) -> tuple[np.ndarray, float]:
    """Return the most probable draw of a run, and the distance of its other draws."""
    best = run.labels[int(run.log_marginal.argmax())]
    return best, max(DISAGREEMENT_MAX, max(partition_distance(z, best) for z in run.labels))


def _visits(draws: np.ndarray, mode: StartingMode) -> bool:
    return any(partition_distance(z, mode.labels) <= mode.radius for z in evenly(draws, COMPARED))


def partition_distance(first: np.ndarray, second: np.ndarray) -> float:
    """Return the share of pairs that are together in only one of two partitions, in [0, 1].

    Examples
    --------
    >>> import numpy as np
    >>> halves, others = np.array([0, 0, 1, 1]), np.array([0, 1, 0, 1])
    >>> partition_distance(halves, 1 - halves), partition_distance(halves, others)
    (0.0, 1.0)
    """
    width = int(second.max()) + 1
    both = np.bincount(first.astype(np.int64) * width + second)
    pairs = [float((sizes * (sizes - 1)).sum()) for sizes in map(np.bincount, (first, second))]
    total = sum(pairs)
    return 1.0 - 2.0 * float((both * (both - 1)).sum()) / total if total else 0.0


@without_openmp
def initial_labels(
    X: np.ndarray, n_clusters: int, init: Any, chain: int, rng: np.random.Generator
) -> np.ndarray:
    """Return the starting labels of one chain.

    Parameters
    ----------
    X : array of shape (n, d)
        Standardized data.
    n_clusters : int
    init : {"dispersed", "k-means++", "random"} or array of labels
        k-means from one k-means++ seeding of this chain's own, labels drawn uniformly, the one
        for even and the other for odd starts, or these labels.
    chain : int
        Number of the start: of a chain, or of one of its short runs.
    rng : numpy.random.Generator
    """
    if not isinstance(init, str):
        return np.asarray(init)
    at_random = init == "random" or (init == "dispersed" and chain % 2 == 1)
    if at_random or n_clusters == 1:
        return rng.integers(n_clusters, size=len(X))
    from sklearn.cluster import KMeans

    some = X
    if len(X) > FITTED_ROWS:
        some = X[rng.choice(len(X), FITTED_ROWS, replace=False)]
    some = some[~lonely(some)]
    n_distinct = len(np.unique(some, axis=0))
    model = KMeans(min(n_clusters, n_distinct), n_init=1, random_state=int(rng.integers(2**31)))
    return model.fit(some).predict(X)


def lonely(X: np.ndarray) -> np.ndarray:
    """Return the tenth of the rows that are farthest from their fifth nearest neighbor.

    Examples
    --------
    >>> import numpy as np
    >>> np.flatnonzero(lonely(np.append(np.arange(19.0), 100.0)[:, None]))[-1:].tolist()
    [19]
    """
    out = np.zeros(len(X), dtype=bool)
    n_lonely = int(LONELY * len(X))
    if n_lonely:
        out[np.argsort(neighbour_distances(X), kind="stable")[len(X) - n_lonely :]] = True
    return out


@without_openmp
def neighbour_distances(X: np.ndarray) -> np.ndarray:
    """Return the distance of each row to its fifth nearest neighbor, or the farthest of fewer.

    Examples
    --------
    >>> import numpy as np
    >>> neighbour_distances(np.array([[0.0], [1.0], [5.0]]))
    array([5., 4., 5.])
    """
    from sklearn.neighbors import NearestNeighbors

    neighbours = NearestNeighbors(n_neighbors=min(NEIGHBOUR + 1, len(X))).fit(X)
    return neighbours.kneighbors(X)[0][:, -1]
