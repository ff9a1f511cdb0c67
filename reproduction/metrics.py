"""What is measured of a run: agreement with known labels, efficiency, and paired comparisons."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike


def recorded_sweeps(n_sweeps: int, points: int = 60) -> np.ndarray:
    """Return the sweeps at which a trace is evaluated: every early one, then ever wider apart.

    Examples
    --------
    >>> recorded_sweeps(100, 10).tolist()
    [1, 2, 3, 5, 8, 13, 22, 36, 60, 100]
    """
    return np.unique(np.round(np.geomspace(1, n_sweeps, points)).astype(int))


def agreement(truth: np.ndarray, labels: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return NMI and adjusted Rand of each row of `labels` with the truth."""
    from sklearn.metrics import adjusted_rand_score, normalized_mutual_info_score

    nmi = [normalized_mutual_info_score(truth, row) for row in labels]
    ari = [adjusted_rand_score(truth, row) for row in labels]
    return np.array(nmi), np.array(ari)


class Paired(NamedTuple):
    """A paired difference over trials: its mean and standard error, and the number of trials."""

    mean: float
    error: float
    n: int

    @property
    def score(self) -> float:
        """Mean over standard error; zero if there is no difference, NaN for a single trial."""
        if self.mean == 0:
            return 0.0
        if self.error == 0:
            return float(np.sign(self.mean) * np.inf)
        return self.mean / self.error


def paired(first: ArrayLike, second: ArrayLike) -> Paired:
    """Compare two measurements of the same trials.

    Examples
    --------
    >>> paired([1.0, 2.0, 3.0], [0.5, 1.5, 2.5])
    Paired(mean=0.5, error=0.0, n=3)
    """
    difference = np.asarray(first, dtype=float) - np.asarray(second, dtype=float)
    difference = difference[np.isfinite(difference)]
    n = len(difference)
    if n == 0:
        return Paired(float("nan"), float("nan"), 0)
    # One trial has no spread to be judged by.
    error = float(difference.std(ddof=1) / np.sqrt(n)) if n > 1 else float("nan")
    return Paired(float(difference.mean()), error, n)


def growth_exponent(sizes: ArrayLike, costs: ArrayLike) -> float:
    """Return the slope of log cost against log size: 1 for linear growth.

    Examples
    --------
    >>> round(growth_exponent([1, 10, 100], [2, 20, 200]), 6)
    1.0
    """
    return float(np.polyfit(np.log(sizes), np.log(costs), 1)[0])
