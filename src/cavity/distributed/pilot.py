"""A uniform sample of the rows that proposals are made from, held by the coordinator."""

from __future__ import annotations

import itertools
import math

import numpy as np

from cavity.distributed.clusters import Conjugate, Location, Shape
from cavity.distributed.kernel import Components
from cavity.likelihoods.gaussian import log_norm

# Steps of EM from two rows to a proposal of two clusters.
EM_STEPS = 10


def log_sum(table: np.ndarray) -> np.ndarray:
    """Log of the sum of exponentials over the first axis."""
    top = table.max(axis=0)
    return top + np.log(np.exp(table - top).sum(axis=0))


class PilotSample:
    """Rows in the model's units, and what they say of a mixture.

    Parameters
    ----------
    rows : array of shape (n, columns)
        Measurements, codes and counts.
    n_rows : int
        Rows that they stand for.
    shape : Shape, optional
        What the columns are; all of them measurements by default.
    """

    def __init__(self, rows: np.ndarray, n_rows: int, shape: Shape | None = None) -> None:
        self.rows = rows
        self.shape = Shape(rows.shape[1]) if shape is None else shape
        self.y, codes, counts = self.shape.split(rows)
        n, self.d = self.y.shape
        self.worth = n_rows / n
        r, c = np.tril_indices(self.d)
        self._features = np.column_stack([np.ones((n, 2)), self.y, self.y[:, r] * self.y[:, c]])
        # Which category a row has in every column, and its counts; nothing where it is missing.
        self._members = np.zeros((n, self.shape.n_shares))
        for j, first in enumerate(self.shape.start[:-1]):
            there = np.flatnonzero(codes[:, j] >= 0)
            self._members[there, first + codes[there, j]] = 1.0
        self._there = (counts >= 0.0).astype(float)
        self._counts = np.maximum(counts, 0.0)
        pairs = np.stack([self._counts, self._there], axis=2).reshape(n, -1)
        self._discrete = np.column_stack([self._members, pairs])

    def distances(self, location: Location, rows: slice | np.ndarray = slice(None)) -> np.ndarray:
        """Squared Mahalanobis distance of rows."""
        away = (self.y[rows] - location.mean) @ location.whiten.T
        return np.einsum("ij,ij->i", away, away)

    def log_density(
        self, location: Location, alpha: float, rows: slice | np.ndarray = slice(None)
    ) -> np.ndarray:
        """Log density of rows in a cluster, but for what counts have in every cluster."""
        delta, d = self.distances(location, rows), self.d
        heavy = math.isfinite(alpha)
        tail = (alpha + 0.5 * d) * np.log1p(0.5 * delta / alpha) if heavy else 0.5 * delta
        out = log_norm(alpha, d) - location.half_log_det - tail
        if self.shape.n_shares:
            out = out + self._members[rows] @ location.log_share
        if self.shape.n_counts:
            out = out + self._counts[rows] @ location.log_rate
            out = out - self._there[rows] @ np.exp(location.log_rate)
        return out

    def table(self, components: Components, locations: list[Location]) -> np.ndarray:
        """Weight times density of every row in every cluster, as logarithms (K, n)."""
        return np.array(
            [
                log_weight + self.log_density(location, alpha)
                for log_weight, location, alpha in zip(
                    components.log_weight, locations, components.alpha, strict=True
                )
            ]
        )

    def statistics(
        self, share: np.ndarray, delta: np.ndarray, alpha: float, rows: np.ndarray
    ) -> np.ndarray:
        """Expected statistics of a cluster that has these shares of rows, of all the data."""
        scale = np.ones(len(rows))
        if not math.isinf(alpha):
            scale = (alpha + 0.5 * self.d) / (alpha + 0.5 * delta)
        out = np.concatenate([(share * scale) @ self._features[rows], share @ self._discrete[rows]])
        out[1] = share.sum()
        return self.worth * out

    def begun(self, z: np.ndarray, n_slots: int, scale: np.ndarray) -> np.ndarray:
        """Statistics of the pilot sample alone under some labels, these scales for weights."""
        features = np.hstack([scale[:, None] * self._features, self._discrete])
        features[:, 1] = 1.0
        out = np.zeros((n_slots, features.shape[1]))
        np.add.at(out, z, features)
        return out

    def one(self, share: np.ndarray, alpha: float, prior: np.ndarray) -> np.ndarray | None:
        """Statistics of one cluster fitted to shares of rows; None if they cannot carry it."""
        rows = np.flatnonzero(share > 1e-6)
        share = share[rows]
        if rows.size == 0:
            return None
        found = self.statistics(share, np.full(rows.size, float(self.d)), alpha, rows)
        for _ in range(1 if math.isinf(alpha) else 6):
            fitted = Conjugate(prior, self.shape, found)
            if not fitted.proper:
                return None
            delta = self.distances(fitted.typical, rows)
            found = self.statistics(share, delta, alpha, rows)
        return found

    def two(
        self,
        share: np.ndarray,
        alphas: tuple[float, float],
        seeds: tuple[int, int],
        around: Location,
        prior: np.ndarray,
    ) -> tuple[np.ndarray, np.ndarray] | None:
        """Statistics of two clusters fitted to shares of rows, from two rows on, by EM."""
        rows = np.flatnonzero(share > 1e-6)
        share = share[rows]
        places = [self._around(seed, around) for seed in seeds]
        log_w = [-math.log(2.0)] * 2
        found: list[np.ndarray] = []
        for _ in range(EM_STEPS):
            score = [
                w + self.log_density(place, alpha, rows)
                for w, place, alpha in zip(log_w, places, alphas, strict=True)
            ]
            first = 1.0 / (1.0 + np.exp(np.clip(score[1] - score[0], -700.0, 700.0)))
            found, weights = [], []
            for j, part in enumerate((first, 1.0 - first)):
                delta = self.distances(places[j], rows)
                found.append(self.statistics(share * part, delta, alphas[j], rows))
                fitted = Conjugate(prior, self.shape, found[j])
                if not fitted.proper:
                    return None
                places[j] = fitted.typical
                weights.append(1.0 + found[j][1])
            log_w = [math.log(w / sum(weights)) for w in weights]
        return found[0], found[1]

    def _around(self, seed: int, around: Location) -> Location:
        """Half the size of a cluster, around one row; half way to its categories and counts."""
        share, rate = np.exp(around.log_share), np.exp(around.log_rate)
        own = self._members[seed]
        for first, last in itertools.pairwise(self.shape.start):
            if not own[first:last].any():
                own = np.concatenate([own[:first], share[first:last], own[last:]])
        counts = np.where(self._there[seed] > 0.0, self._counts[seed], rate)
        return Location(
            self.y[seed],
            2.0 * around.whiten,
            0.0,
            np.log(np.maximum(0.5 * (share + own), 1e-300)),
            np.log(np.maximum(0.5 * (rate + counts), 1e-300)),
        )
