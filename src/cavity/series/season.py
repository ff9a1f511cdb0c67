"""Seasons as covariates of time: waves whose coefficients are each series' own."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from cavity.estimators.validation import check_count

if TYPE_CHECKING:
    from cavity.series.data import SeriesData

# Waves per season at most; three make most shapes that repeat, with six numbers per series.
MOST_WAVES = 3


def check_season(season: Any) -> None:
    """Refuse a season that is no number of times, two at least."""
    if season is not None:
        check_count("season", season, 2)


def season_names(season: int) -> tuple[str, ...]:
    """Names of the waves' coefficients."""
    out = []
    for j in range(1, min(MOST_WAVES, season // 2) + 1):
        out.append(f"season cos {j}")
        if 2 * j < season:  # of the fastest wave the sine is zero at all times
            out.append(f"season sin {j}")
    return tuple(out)


def season_terms(season: int, position: np.ndarray) -> np.ndarray:
    """The waves at some times: shape (times, number of `season_names`)."""
    out = []
    for j in range(1, min(MOST_WAVES, season // 2) + 1):
        angle = 2.0 * np.pi * j * (np.asarray(position) % season) / season
        out.append(np.cos(angle))
        if 2 * j < season:
            out.append(np.sin(angle))
    return np.stack(out, axis=-1)


def with_season(data: SeriesData, season: int | None) -> SeriesData:
    """The same data with the waves of a season as further covariates, which are known."""
    if season is None:
        return data
    n, n_times = data.y.shape
    if n_times < 2 * season:
        raise ValueError(
            f"season={season} needs two seasons of data at least, {2 * season} times, and there "
            f"are {n_times}. Leave it out, or give more data."
        )
    terms = season_terms(season, np.arange(n_times))
    c, more = data.covariates.shape[2], terms.shape[1]
    waves = np.broadcast_to(terms, (n, n_times, more))
    # Within a cell the waves do not vary: their cross-products about its means are zero.
    place = np.append(np.arange(c), c + more)
    scatter = np.zeros((n, c + more + 1, c + more + 1))
    scatter[:, place[:, None], place] = data.scatter
    return replace(
        data,
        covariates=np.concatenate([data.covariates, waves], axis=2),
        scatter=scatter,
        covariate_names=(*data.covariate_names, *season_names(season)),
        season=season,
    )
