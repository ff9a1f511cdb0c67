"""Whether series move together beyond their clusters: the rule behind ``common_factor="auto"``."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from cavity.posterior.units import SeriesUnits
from cavity.series.data import SeriesData
from cavity.series.start import (
    starting_dynamics,
    starting_levels,
    starting_waves,
)

# Series looked at, spread evenly; times that a pair must have in common, on average.
_MOST_SERIES, _FEWEST_TIMES = 400, 20
# The strongest direction of the steps against the next one, and how evenly all take part in it.
_STRONGER, _EVEN = 2.0, 0.9


def common_factor_words(asked: bool | str, has_one: bool, n_times: int) -> str:
    """Whether a movement of all series was taken out, and why; empty where it was not to be.

    Parameters
    ----------
    asked : bool or "auto"
        The estimator's `common_factor`.
    has_one : bool
    n_times : int

    Examples
    --------
    >>> print(common_factor_words("auto", False, 17))
    Whether all series share a movement cannot be told from 17 times (21 are needed), so none was
    taken out.
    """
    apart = "was taken out: clusters are of what it does not explain."
    if has_one:
        if asked == "auto":
            return f"All series share a movement. It {apart}"
        return f"As asked, a movement that all series share {apart}"
    if asked != "auto":
        return ""
    if n_times <= _FEWEST_TIMES:
        return (
            f"Whether all series share a movement cannot be told from {n_times} times "
            f"({_FEWEST_TIMES + 1} are needed), so none was taken out."
        )
    return (
        "No movement that all series share stands out, or too few of their times are the same to "
        "tell, so none was taken out."
    )


def move_together(data: SeriesData, units: SeriesUnits) -> bool:
    """Whether one movement shared by nearly all series stands out.

    Of the correlations between the series' steps, wild values drawn in, the leading eigenvalue is
    compared with the next: clusters without a common factor have several of about the same size,
    and a single large cluster has few series in its own. docs/series.md has the evidence.
    """
    n = len(data.y)
    if n < 4:
        return False
    chosen = np.unique(np.linspace(0, n - 1, min(n, _MOST_SERIES)).astype(int))
    y, count = data.y[chosen], data.count[chosen]
    scale = units.scale[chosen]
    n_given = len(data.given_covariates)
    levels = units.centre + starting_levels(y, count, units.centre, scale) * scale
    a = starting_dynamics(y, count, levels, scale)["a"]
    with np.errstate(invalid="ignore"):
        e = np.clip((y - levels[:, None]) / scale[:, None], -3.0, 3.0)
    if n_given < data.covariates.shape[2]:
        # A season that is in the model already is no common factor.
        waves = data.covariates[chosen][..., n_given:] - units.covariate_centre[n_given:]
        part = replace(data, y=y, count=count)
        e -= np.einsum("itc,ic->it", waves, starting_waves(part, levels, scale, waves, a))
    steps = e[:, 1:] - a * e[:, :-1]
    known = (count[:, 1:] > 0) & (count[:, :-1] > 0)
    shared = known.astype(float) @ known.T
    if not known.size or np.median(shared) < _FEWEST_TIMES:
        return False
    total = np.maximum(known.sum(1, keepdims=True), 1)
    steps = np.where(known, steps, 0.0)
    steps = np.where(known, steps - steps.sum(1, keepdims=True) / total, 0.0)
    spread = np.sqrt((steps**2).sum(1, keepdims=True) / total)
    varied = spread[:, 0] > 1e-9
    if varied.sum() < 4:
        return False
    steps = steps[varied] / spread[varied]
    correlation = steps @ steps.T / np.maximum(shared[np.ix_(varied, varied)], 1.0)
    np.fill_diagonal(correlation, 1.0)
    values, vectors = np.linalg.eigh(correlation)
    evenness = np.abs(vectors[:, -1]).sum() ** 2 / len(vectors)
    return bool(values[-1] > _STRONGER * values[-2] and evenness > _EVEN)
