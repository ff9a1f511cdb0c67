"""Overlaps of the clusters of a fit, and predictions of groups."""

from __future__ import annotations

from functools import cached_property

import numpy as np

from cavity.io.columns import CONTINUOUS, Cells
from cavity.posterior.estimate import Partition
from cavity.posterior.groups import (
    CUT,
    OVERLAP,
    OVERLAP_DRAWS,
    Merges,
    chosen_draws,
    overlaps,
    responsibilities,
    rows_to_use,
)
from cavity.predict.covariances import most_draws
from cavity.predict.densities import entry_densities
from cavity.predict.draws import MAX_DRAWS, MixtureDraws, Rows, cholesky, spread_draws
from cavity.predict.predictor import Clusters, Predictor

# Draws whose mixtures are in memory at a time.
_AT_A_TIME = 50


def overlaps_of_fit(
    predictor: Predictor, cells: Cells, weight: np.ndarray | None
) -> dict[str, np.ndarray]:
    """Return the overlaps of the clusters in some of the draws, to be kept with the posterior.

    Parameters
    ----------
    predictor : Predictor
    cells : Cells
        The rows whose labels the draws have.
    weight : array, shape (n,), or None
    """
    p = predictor.posterior
    used = rows_to_use(p.n_observations)
    rows = predictor.rows(cells).take(used)
    weight = None if weight is None else weight[used]
    numbers = all(column.kind == CONTINUOUS for column in predictor.columns)
    # Small clusters of a fit over shards may be without any of the rows whose labels are kept.
    occupied = np.isfinite(p.drawn["weight"]).any(axis=(0, 1))
    n_slots = max(int(p.labels.max()), int(np.flatnonzero(occupied).max(initial=0))) + 1
    chosen = chosen_draws(p.n_chains, p.n_draws, n_slots)
    out = np.tile(np.eye(n_slots, dtype=np.float32), (len(chosen), 1, 1))
    for begin in range(0, len(chosen), _AT_A_TIME):
        draws = predictor.pack(chosen[begin : begin + _AT_A_TIME])
        for s in range(draws.start.size - 1):
            one = _occupied(draws, s)
            if not one.slot.size:  # every row is noise
                continue
            scores = entry_densities(one, rows)
            direction = _Directions(one, rows, scores) if numbers else None
            inside = weight
            if p.record.noise:
                clustered = p.flat_labels[chosen[begin + s], used] != 0
                inside = clustered * (1.0 if weight is None else weight)
            out[begin + s][np.ix_(one.slot, one.slot)] = overlaps(scores, inside, direction)
    return {OVERLAP: out, OVERLAP_DRAWS: chosen}


def _occupied(draws: MixtureDraws, s: int) -> MixtureDraws:
    """Return the mixture of one draw, without entries for empty clusters."""
    entries = np.arange(draws.start[s], draws.start[s + 1])
    entries = entries[draws.slot[entries] >= 0]
    return MixtureDraws(
        **{
            name: value if name == "levels" else value[entries]
            for name, value in draws._asdict().items()
            if name != "start"
        },
        start=np.array([0, entries.size]),
    )


class _Directions:
    """Places of rows on the line between the centers of two clusters.

    Along the linear discriminant, which uses both clusters' covariances.
    """

    def __init__(self, draw: MixtureDraws, rows: Rows, scores: np.ndarray) -> None:
        self.mean = draw.mean
        root = np.linalg.inv(draw.whiten)
        self.covariance: np.ndarray = root @ np.swapaxes(root, 1, 2)
        X = rows.continuous
        if np.isnan(X).any():
            X = np.where(np.isnan(X), responsibilities(scores).T @ draw.mean, X)
        self.X = X

    def __call__(self, first: np.ndarray, second: np.ndarray) -> np.ndarray:
        between = self.mean[second] - self.mean[first]
        root = cholesky(self.covariance[first] + self.covariance[second])
        # Rows may lie so far out that their places overflow: they are in no window.
        with np.errstate(over="ignore", invalid="ignore"):
            direction = np.linalg.solve(root, between[..., None])
            direction = np.linalg.solve(np.swapaxes(root, 1, 2), direction)[..., 0]
            distance = np.maximum((direction * between).sum(axis=1), 1e-300)
            start = (direction * self.mean[first]).sum(axis=1)
            out: np.ndarray = (direction @ self.X.T - start[:, None]) / distance[:, None]
        return out


class GroupPredictor(Predictor):
    """Predictions of groups by the draws of a fit.

    Parameters
    ----------
    base : Predictor
        Of the clusters.
    partition : Partition
        Point estimate of the groups.
    n_groups : int
        Its groups, without noise.
    """

    def __init__(self, base: Predictor, partition: Partition, n_groups: int) -> None:
        super().__init__(base.posterior, partition, n_groups, base.columns)
        self.base, self.merges = base, Merges(base.posterior)

    @cached_property
    def place(self) -> np.ndarray:
        """The draws to average over, counted among those that have groups."""
        return spread_draws(len(self.merges.draws), most_draws(self.posterior, MAX_DRAWS))

    @cached_property
    def chosen(self) -> np.ndarray:
        """Draws that predictions average over: at most 200 of those that have groups."""
        return self.merges.draws[self.place]

    @cached_property
    def draws(self) -> MixtureDraws:
        """The mixtures of the chosen draws, each cluster with its group as target."""
        draws = self.base.pack(self.chosen)
        groups = self.posterior.groups()
        first = self.merges.first(CUT)[self.place]
        group = groups.relabel(self.partition).targets(first.shape[1])[self.place]
        # The estimate's groups beyond these are noise.
        group = np.where(group < self.n_clusters, group, -1)
        slot = draws.slot
        own = group[draws.draw, first[draws.draw, np.maximum(slot, 0)]]
        return draws._replace(target=np.where(slot >= 0, own, -1))

    @property
    def clusters(self) -> Clusters:
        """Posterior means of the clusters, which tail probabilities use."""
        return self.base.clusters

    def tails(self, cells: Cells) -> np.ndarray:
        """Return each row's tail probability under the nearest cluster."""
        return self.base.tails(cells)
