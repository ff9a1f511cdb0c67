"""Rows outside every cluster: where they lie, and how an estimate tells of them."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from cavity.estimators.base import Fitted, known_partition
from cavity.estimators.kept import NOISE
from cavity.estimators.start import neighbour_distances
from cavity.likelihoods.table_predictive import Rows
from cavity.posterior.estimate import Partition
from cavity.posterior.view import outside_probability
from cavity.utils.progress import say

# How much wider than the data what noise is uniform over is.
WIDER = 1.2
# Where the data, and not the user, say that there is noise, it reaches so many robust standard
# deviations from each column's median, at the least: over the bare range it would take the edges of
# clusters. A user may mean just that: rows scattered evenly where the others are.
REACH = 5.0
# With "auto" there is noise if so many rows lie alone, and this share of all. A row does if its
# distance to its neighbours, as a logarithm, is so many robust deviations above the median.
AUTO = "auto"
LEAST_ALONE, LEAST_SHARE, ALONE = 2, 0.02, 4.0
# Rows that are looked at, evenly spread.
LOOKED_AT = 5_000


def check_noise(noise: Any) -> None:
    """Refuse what is neither True nor False nor "auto"."""
    if not isinstance(noise, bool | np.bool_) and noise != AUTO:
        raise ValueError(f"noise must be True, False or {AUTO!r}, not {noise!r}.")


def asks_for_noise(noise: bool | str) -> bool:
    """Whether a user, and not the data, says that rows may be noise."""
    return noise != AUTO and bool(noise)


def rows_alone(standard: np.ndarray) -> np.ndarray:
    """Which rows lie far from all others, as rows of the same groups do not.

    Heavy tails and skewed columns thin out by and by, and leave few rows alone; rows that belong
    to nothing lie where there is nobody.

    Parameters
    ----------
    standard : array of shape (n, d)
        Rows without gaps, in robust standard deviations.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> rows = np.vstack([rng.standard_normal((100, 2)), [[9.0, 9.0], [-9.0, 9.0]]])
    >>> np.flatnonzero(rows_alone(rows))
    array([100, 101])
    """
    distance = neighbour_distances(standard)
    low, middle, high = np.quantile(distance, [0.25, 0.5, 0.75])
    # Of rows that repeat each other distances tell nothing.
    if not 0.0 < low < high:
        return np.zeros(len(standard), dtype=bool)
    spread = np.log(high / low) / 1.349
    return np.log(np.maximum(distance, low) / middle) > ALONE * spread


def is_noisy(noise: bool | str, standard: np.ndarray) -> bool:
    """Whether rows may be outside every cluster: as set, or by how many lie alone."""
    if isinstance(noise, bool | np.bool_):
        return bool(noise)
    every = -(-len(standard) // LOOKED_AT)
    alone = rows_alone(standard[::every])
    return int(alone.sum()) >= max(LEAST_ALONE, LEAST_SHARE * alone.size)


def tell_of_noise(noise: bool | str, noisy: bool) -> None:
    """Say so where data, and not the user, have decided that rows may be noise."""
    if noisy and noise == AUTO:
        say(
            "Some rows lie far from all others, so that rows may be outside every cluster (label "
            "-1); with noise=False each is given to one."
        )


def noise_box(seen: np.ndarray, noise: bool | str) -> np.ndarray:
    """Lower ends and widths of the box that noise lies in, for data in the model's units.

    It is that of the data, a fifth wider; unless a user asks for noise, it reaches at least `REACH`
    to either side.

    Examples
    --------
    >>> noise_box(np.array([[0.0], [10.0], [np.nan]]), "auto").round(6).tolist()
    [[-5.0], [16.0]]
    >>> noise_box(np.array([[0.0], [10.0], [np.nan]]), True).round(6).tolist()
    [[-1.0], [12.0]]
    """
    reach = 0.0 if asks_for_noise(noise) else REACH
    low, high = np.nanmin(seen, axis=0), np.nanmax(seen, axis=0)
    margin = 0.5 * (WIDER - 1.0) * (high - low)
    low, high = np.minimum(low - margin, -reach), np.maximum(high + margin, reach)
    return np.vstack([low, high - low])


class TableNoise(NamedTuple):
    """What the cells of a row outside every cluster are: each uniform over its column's range.

    Attributes
    ----------
    box : array, shape (2, d)
        Lower ends and widths of the measurements' box, in the model's units.
    n_counts : array, shape (counts,)
        How many whole numbers from 0 on a count may be.
    levels : array of int, shape (categories,)
        How many categories each column has.
    """

    box: np.ndarray
    n_counts: np.ndarray
    levels: np.ndarray

    @classmethod
    def of(
        cls,
        standard: np.ndarray,
        counts: np.ndarray,
        levels: tuple[int, ...],
        noise: bool | str = AUTO,
    ) -> TableNoise:
        """Of a table: by the box of its measurements, and a fifth wider than its counts.

        Examples
        --------
        >>> noise = TableNoise.of(np.empty((2, 0)), np.array([[3.0], [10.0]]), (2,))
        >>> noise.n_counts.tolist()
        [13.0]
        """
        box = noise_box(standard, noise) if standard.shape[1] else np.empty((2, 0))
        most = np.nanmax(counts, axis=0) if counts.shape[1] else np.empty(0)
        return cls(box, np.floor(WIDER * most) + 1.0, np.array(levels, dtype=np.int64))

    @classmethod
    def from_kept(cls, kept: np.ndarray | None, d: int, levels: list[int]) -> TableNoise:
        """From what a run keeps."""
        kept = np.empty((2, 0)) if kept is None else kept
        return cls(kept[:, :d], kept[1, d:], np.array(levels, dtype=np.int64))

    @property
    def kept(self) -> np.ndarray | None:
        """What a run keeps: lower ends and widths of measurements and counts, if there are any."""
        counts = np.vstack([np.zeros(self.n_counts.size), self.n_counts])
        out = np.hstack([self.box, counts])
        return out if out.size else None

    def of_cells(self, codes: np.ndarray) -> np.ndarray:
        """Log probability of each row's categories."""
        return -(np.where(codes >= 0, 1.0, 0.0) @ np.log(self.levels))

    def of_counts(self, counts: np.ndarray) -> np.ndarray:
        """Log probability of each row's counts; beyond the range it is taken to go on."""
        return -(np.isfinite(counts).astype(float) @ np.log(self.n_counts))

    def log_density(self, rows: Rows) -> np.ndarray:
        """Log density of rows; beyond the box it is taken to go on."""
        measured = -(np.isfinite(rows.continuous).astype(float) @ np.log(self.box[1]))
        return measured + self.of_cells(rows.codes) + self.of_counts(rows.counts)

    def draw(self, n: int, rng: np.random.Generator) -> Rows:
        """So many rows."""
        d, c, k = self.box.shape[1], self.n_counts.size, self.levels.size
        return Rows(
            self.box[0] + self.box[1] * rng.random((n, d)),
            np.floor(rng.random((n, k)) * self.levels).astype(np.int64),
            np.floor(rng.random((n, c)) * self.n_counts),
        )


class NoiseAnswers(Fitted):
    """How the estimate of a fit with noise tells of it."""

    noise_probability_: np.ndarray
    labels_: np.ndarray
    n_clusters_: int
    _noisy: bool

    def _told(self, partition: Partition) -> Partition:
        """The estimate with noise as its last cluster: the rows that most draws have there."""
        posterior = self.posterior_
        if not posterior.record.noise:
            return partition
        probability = outside_probability(posterior)
        outside = probability > 0.5
        most = posterior.record.max_clusters
        labels = without_leftovers(
            partition.labels, probability, posterior.flat_labels, None if most is None else most - 1
        )
        labels = np.unique(labels[~outside], return_inverse=True)[1].reshape(-1)
        out = np.full(outside.size, int(labels.max(initial=-1)) + 1)
        out[~outside] = labels
        return known_partition(posterior, out)

    def _settle_noise(self) -> None:
        """Labels of -1 for noise, and its probabilities."""
        self._noisy = bool(self.posterior_.record.noise)
        if self._noisy:
            self.noise_probability_ = outside_probability(self.posterior_)
            outside = self.noise_probability_ > 0.5
            self.labels_ = np.where(outside, NOISE, self.labels_)
            self.n_clusters_ -= int(outside.any())

    def _refuse_noise_in_files(self) -> None:
        """Refuse to place rows file by file where they may be noise."""
        if self._noisy:
            raise ValueError(
                "Rows of a fit with noise are placed by membership, not file by file; "
                "noise=False fits without."
            )

    def _best(self, probability: np.ndarray) -> np.ndarray:
        """Most probable cluster, -1 for noise: from probabilities in the order of `_evaluate`."""
        best = probability[:, :-1].argmax(axis=1)
        return np.where(best == self.n_clusters_, NOISE, best)


def without_leftovers(
    labels: np.ndarray, probability: np.ndarray, draws: np.ndarray, most: int | None = None
) -> np.ndarray:
    """Labels in which no cluster is what is left of one that was mostly noise.

    A search for the estimate knows of no noise. It may leave a row with those that are noise
    although most draws have it in a cluster, or make a cluster of rows that are noise now and
    then: such a row goes to the cluster whose rows it is with most often.

    Parameters
    ----------
    labels : array of int, shape (n,)
        An estimate that has noise as a cluster like any other.
    probability : array, shape (n,)
        Of each row that it is noise, which those above a half are.
    draws : array of int, shape (draw, n)
    most : int or None
        Clusters that there may be beside noise.

    Examples
    --------
    >>> draws = np.array([[1, 1, 1, 0, 0], [1, 1, 0, 0, 0], [1, 1, 1, 0, 0]])
    >>> without_leftovers(np.array([0, 0, 1, 1, 1]), (draws == 0).mean(axis=0), draws)
    array([0, 0, 0, 1, 1])
    """
    outside = probability > 0.5
    inside = np.bincount(labels[~outside], minlength=labels.max() + 1)
    noise = np.bincount(labels[outside], minlength=labels.max() + 1)
    clusters = np.flatnonzero(inside > noise)
    if most is not None and clusters.size > most:
        share = np.bincount(labels, probability) / np.bincount(labels)
        clusters = np.sort(clusters[np.argsort(share[clusters], kind="stable")[:most]])
    left = np.flatnonzero(~outside & ~np.isin(labels, clusters))
    if not (clusters.size and left.size):
        return labels
    out = labels.copy()
    for i in left:
        together = (draws == draws[:, [i]]).mean(axis=0)
        shares = [together[(labels == k) & ~outside].mean() for k in clusters]
        out[i] = clusters[int(np.argmax(shares))]
    return out


__all__ = [
    "NoiseAnswers",
    "TableNoise",
    "asks_for_noise",
    "check_noise",
    "is_noisy",
    "noise_box",
    "rows_alone",
    "tell_of_noise",
    "without_leftovers",
]
