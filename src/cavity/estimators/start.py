"""Where a chain starts: labels from k-means, at random, or as given.

By default every second start is at random. Chains that all start from k-means may all stay in the
mode that k-means prefers, and their agreement says nothing of other modes.

Started at random alone, though, a chain may take thousands of sweeps to leave a mode of next to no
mass. So where rows are few, each chain makes some short runs of its own, from starts of both kinds,
and goes on with one of them, drawn by the estimated mass of the places that they came to
(`cavity.posterior.convergence`): chains are then in different modes about as often as the
posterior is.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from cavity.posterior.convergence import log_mass

if TYPE_CHECKING:
    from cavity.mcmc.chain import PartitionSampler

# k-means is fitted to at most so many rows, less the loneliest tenth of them; the others go to
# their nearest centre. Outliers would each draw a centre to themselves, and a chain that starts
# with a cluster of outliers is slow to give it up.
FITTED_ROWS = 5_000
LONELY = 0.1
NEIGHBOUR = 5
STARTS = ("dispersed", "k-means++", "random")
# Short runs of each chain, and rows beyond which there is but one; about what they may cost
# altogether, in numbers read per sweep.
LEAST_RUNS, MOST_RUNS, MOST_ROWS = 4, 16, 2_000
RUNS_WORK = 150_000
# Sweeps of a run, and how many of these, at the end, are looked at. Nothing is learned of the
# clusters' prior in the first fifty.
RUN_SWEEPS, LOOKED_AT = 120, 40
# Share of the rows' entropy that does not count: as long as a run is on its way, rows that are in
# doubt are so together, and the sum of their entropies is far too large.
DEPENDENCE = 0.5


def runs_of(init: Any, shape: tuple[int, ...], n_clusters: int, n_warmup: int) -> int:
    """Short runs that each chain chooses its start from, more where they are cheap.

    One is no choice: for rows without number, a given start, or a warm-up shorter than a run.

    Examples
    --------
    >>> runs_of("dispersed", (150, 4), 3, 200), runs_of("dispersed", (600, 2), 20, 200)
    (16, 5)
    >>> runs_of("random", (150, 4), 3, 200), runs_of("dispersed", (150, 4), 3, 50)
    (1, 1)
    """
    dispersed = isinstance(init, str) and init == STARTS[0]
    n, d = shape
    if not dispersed or n > MOST_ROWS or n_warmup < RUN_SWEEPS:
        return 1
    return min(max(RUNS_WORK // (n * d * (d + n_clusters)), LEAST_RUNS), MOST_RUNS)


def chosen_run(
    begun: Callable[[int], PartitionSampler],
    n_runs: int,
    max_clusters: int | None,
    rng: np.random.Generator,
) -> PartitionSampler:
    """One of some short runs, with probability proportional to the estimated mass where it is.

    Parameters
    ----------
    begun : callable
        ``begun(run)``: a chain at its start, even ones from k-means and odd ones at random.
    n_runs : int
    max_clusters : int or None
        Names that clusters may have, where the prior is over labels.
    rng : numpy.random.Generator
        The chain's own.
    """
    runs, masses = [], np.empty(n_runs)
    for run in range(n_runs):
        sampler = begun(run)
        for _ in range(RUN_SWEEPS - LOOKED_AT):
            sampler.sweep(rng)
        draws, densities = [], []
        for _ in range(LOOKED_AT):
            sampler.sweep(rng)
            densities.append(sampler.log_marginal())
            draws.append(sampler.labels().copy())
        best = draws[int(np.argmax(densities))]
        mass, entropy = log_mass(np.stack(draws), best, np.array(densities), max_clusters)
        masses[run] = mass - DEPENDENCE * entropy
        runs.append(sampler)
    chances = np.exp(masses - masses.max())
    return runs[int(rng.choice(n_runs, p=chances / chances.sum()))]


def initial_labels(
    X: np.ndarray, n_clusters: int, init: Any, chain: int, rng: np.random.Generator
) -> np.ndarray:
    """Labels to start one chain from.

    Parameters
    ----------
    X : array of shape (n, d)
        Standardised data.
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
    """Which rows are farthest from their fifth nearest neighbour: the last tenth.

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


def neighbour_distances(X: np.ndarray) -> np.ndarray:
    """Distance of each row to its fifth nearest neighbour, or the farthest of fewer.

    Examples
    --------
    >>> import numpy as np
    >>> neighbour_distances(np.array([[0.0], [1.0], [5.0]]))
    array([5., 4., 5.])
    """
    from sklearn.neighbors import NearestNeighbors

    neighbours = NearestNeighbors(n_neighbors=min(NEIGHBOUR + 1, len(X))).fit(X)
    return neighbours.kneighbors(X)[0][:, -1]
