"""A uniform sample of the rows that proposals are made from, held by the coordinator."""

from __future__ import annotations

import math

import numpy as np

from cavity.scale.kernel import Atoms
from cavity.scale.niw import NIW, Location

# Steps of EM from two rows to a proposal of two clusters.
EM_STEPS = 10


def log_sum(table: np.ndarray) -> np.ndarray:
    """Log of the sum of exponentials over the first axis."""
    top = table.max(axis=0)
    return top + np.log(np.exp(table - top).sum(axis=0))


class Scouts:
    """Rows in the model's units, and what they say of a mixture.

    Parameters
    ----------
    y : array of shape (n, d)
    n_rows : int
        Rows that they stand for.
    """

    def __init__(self, y: np.ndarray, n_rows: int) -> None:
        n, self.d = y.shape
        self.y = y
        self.worth = n_rows / n
        rows, columns = np.tril_indices(self.d)
        self._features = np.column_stack([np.ones((n, 2)), y, y[:, rows] * y[:, columns]])

    def distances(self, location: Location, rows: slice | np.ndarray = slice(None)) -> np.ndarray:
        """Squared Mahalanobis distance of rows."""
        away = (self.y[rows] - location.mean) @ location.whiten.T
        return np.einsum("ij,ij->i", away, away)

    def log_density(
        self, location: Location, alpha: float, rows: slice | np.ndarray = slice(None)
    ) -> np.ndarray:
        """Log density of rows in a cluster."""
        delta, d = self.distances(location, rows), self.d
        if math.isinf(alpha):
            return -0.5 * (d * math.log(2.0 * math.pi) + delta) - location.half_log_det
        norm = math.lgamma(alpha + 0.5 * d) - math.lgamma(alpha)
        norm -= 0.5 * d * math.log(2.0 * math.pi * alpha) + location.half_log_det
        return norm - (alpha + 0.5 * d) * np.log1p(0.5 * delta / alpha)

    def table(self, atoms: Atoms, locations: list[Location]) -> np.ndarray:
        """Weight times density of every row in every cluster, as logarithms (K, n)."""
        return np.array(
            [
                log_weight + self.log_density(location, alpha)
                for log_weight, location, alpha in zip(
                    atoms.log_weight, locations, atoms.alpha, strict=True
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
        out = (share * scale) @ self._features[rows]
        out[1] = share.sum()
        return self.worth * out

    def one(self, share: np.ndarray, alpha: float, prior: np.ndarray) -> np.ndarray | None:
        """Statistics of one cluster fitted to shares of rows; None if they cannot carry it."""
        rows = np.flatnonzero(share > 1e-6)
        share = share[rows]
        if rows.size == 0:
            return None
        found = self.statistics(share, np.full(rows.size, float(self.d)), alpha, rows)
        for _ in range(1 if math.isinf(alpha) else 6):
            fitted = NIW(prior + found, self.d)
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
        half = Location(around.mean, 2.0 * around.whiten, 0.0)
        places = [half._replace(mean=self.y[seed]) for seed in seeds]
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
                fitted = NIW(prior + found[j], self.d)
                if not fitted.proper:
                    return None
                places[j] = fitted.typical
                weights.append(1.0 + found[j][1])
            log_w = [math.log(w / sum(weights)) for w in weights]
        return found[0], found[1]
