"""Noise: rows outside every cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from cavity.predict.draws import Rows

AUTO = "auto"
# Noise is uniform over ranges this much wider than the data's.
WIDER = 1.2
# With noise="auto" the box reaches this many robust standard deviations from each column's median,
# since noise over the bare range would take the edges of clusters.
REACH = 5.0
# Share of noise beyond the box, where new rows may be. The box is so much wider than the data that
# the range which gives up this share holds every row of the fit.
BEYOND = 0.01


def asks_for_noise(noise: bool | str) -> bool:
    """Return whether the user, and not the data, decides that rows may be noise."""
    return noise != AUTO and bool(noise)


def noise_box(seen: np.ndarray, noise: bool | str) -> np.ndarray:
    """Return lower ends and widths of the box that noise is uniform over, in the model's units.

    It is a fifth wider than the data. Unless the user asks for noise, it reaches at least `REACH`
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


class Noise(NamedTuple):
    """Distribution of rows outside every cluster: each cell uniform over its column's range.

    Measurements beyond the box, which only new rows can have, are Cauchy around its center, with a
    hundredth of the mass in all. Counts beyond their range have density zero.

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
    ) -> Noise:
        """Return the noise of a table: the box of its measurements, counts a fifth wider.

        Examples
        --------
        >>> noise = Noise.of(np.empty((2, 0)), np.array([[3.0], [10.0]]), (2,))
        >>> noise.n_counts.tolist()
        [13.0]
        """
        box = noise_box(standard, noise) if standard.shape[1] else np.empty((2, 0))
        most = np.nanmax(counts, axis=0) if counts.shape[1] else np.empty(0)
        return cls(box, np.floor(WIDER * most) + 1.0, np.array(levels, dtype=np.int64))

    @classmethod
    def from_kept(cls, kept: np.ndarray | None, d: int, levels: list[int]) -> Noise:
        """Restore what `kept` stores."""
        kept = np.empty((2, 0)) if kept is None else kept
        return cls(kept[:, :d], kept[1, d:], np.array(levels, dtype=np.int64))

    @property
    def kept(self) -> np.ndarray | None:
        """Lower ends and widths of measurements and counts, to be stored; None without any."""
        counts = np.vstack([np.zeros(self.n_counts.size), self.n_counts])
        out = np.hstack([self.box, counts])
        return out if out.size else None

    def of_cells(self, codes: np.ndarray) -> np.ndarray:
        """Return the log probability of each row's categories."""
        return -(np.where(codes >= 0, 1.0, 0.0) @ np.log(self.levels))

    def of_counts(self, counts: np.ndarray) -> np.ndarray:
        """Return the log probability of each row's counts."""
        inside = ~(counts >= self.n_counts).any(axis=1)
        value = -(np.isfinite(counts).astype(float) @ np.log(self.n_counts))
        return np.where(inside, value, -np.inf)

    def of_measurements(self, standard: np.ndarray) -> np.ndarray:
        """Return the log density of each row's measurements, of those that are there.

        It is one over the volume of the box as far as that makes up all but `BEYOND`: in a box
        with the same center that is a little smaller.

        Examples
        --------
        >>> noise = Noise(np.array([[-5.0], [10.0]]), np.empty(0), np.empty(0))
        >>> x = np.linspace(-1e5, 1e5, 4_000_001)
        >>> density = np.exp(noise.of_measurements(x[:, None]))
        >>> round(float(density[2_000_000]), 4), round(float(density.sum() * (x[1] - x[0])), 4)
        (0.1, 1.0)
        """
        there = np.isfinite(standard)
        d = there.sum(axis=1)
        value = -(there.astype(float) @ np.log(self.box[1]))
        half = 0.5 * self.box[1]
        away = np.abs(standard - (self.box[0] + half)) / half
        edge = (1.0 - BEYOND) ** (1.0 / np.maximum(d, 1))
        outside = np.flatnonzero(np.nan_to_num(away).max(axis=1, initial=0.0) > edge)
        if outside.size:
            # Of the Cauchy distribution whose scale is the edge, half of each column is inside.
            own, scale = there[outside], edge[outside, None]
            cauchy = -np.log(np.pi * scale * half) - 2.0 * np.log(
                np.hypot(1.0, away[outside] / scale)
            )
            value[outside] = np.log(BEYOND) - np.log1p(-(0.5 ** d[outside]))
            value[outside] += np.where(own, cauchy, 0.0).sum(axis=1)
        return value

    def log_density(self, rows: Rows) -> np.ndarray:
        """Return the log density of rows."""
        return (
            self.of_measurements(rows.continuous)
            + self.of_cells(rows.codes)
            + self.of_counts(rows.counts)
        )

    def _draw_measurements(self, n: int, rng: np.random.Generator) -> np.ndarray:
        d, half = self.box.shape[1], 0.5 * self.box[1]
        edge = (1.0 - BEYOND) ** (1.0 / max(d, 1))
        away = rng.uniform(-1.0, 1.0, (n, d))
        beyond = rng.random(n) < BEYOND * (d > 0)
        while beyond.any():
            away[beyond] = rng.standard_cauchy((int(beyond.sum()), d))
            beyond[beyond] = np.abs(away[beyond]).max(axis=1) <= 1.0
        return self.box[0] + half * (1.0 + edge * away)

    def draw(self, n: int, rng: np.random.Generator) -> Rows:
        """Draw n rows."""
        from cavity.predict.draws import Rows

        c, k = self.n_counts.size, self.levels.size
        return Rows(
            self._draw_measurements(n, rng),
            np.floor(rng.random((n, k)) * self.levels).astype(np.int64),
            np.floor(rng.random((n, c)) * self.n_counts),
        )
