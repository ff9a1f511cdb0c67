"""Where the parameters of series start: at what the data say without a model."""

from __future__ import annotations

import math

import numpy as np

from cavity.series.data import SeriesData


def medians(y: np.ndarray, count: np.ndarray) -> np.ndarray:
    """Median of each series' cells; NaN where there are none."""
    out = np.full(len(y), np.nan)
    some = (count > 0).any(1)
    out[some] = np.nanmedian(np.where(count[some] > 0, y[some], np.nan), axis=1)
    return out


def starting_levels(
    y: np.ndarray, count: np.ndarray, centre: float, scale: np.ndarray
) -> np.ndarray:
    """Where the intercepts of the series start, in the model's units: at their medians."""
    return np.nan_to_num((medians(y, count) - centre) / scale)


def starting_dynamics(
    y: np.ndarray, count: np.ndarray, levels: np.ndarray, scale: np.ndarray
) -> dict[str, float]:
    """Where a, loadings and variances start: from how series resemble themselves a time or two on.

    Noise of the observations makes series less like themselves at every lag by the same factor,
    so that the quotient of two lags is a, and the factor says how much of them is noise. Where
    they hardly resemble themselves at all, a is small and half is taken for noise. Wild
    values are drawn in. In the model's units.
    """
    with np.errstate(invalid="ignore"):
        e = (y - levels[:, None]) / scale[:, None]
    e = np.clip(np.where(count > 0, e, np.nan), -3.0, 3.0)

    def alike(lag: int) -> float:
        products = e[:, lag:] * e[:, : e.shape[1] - lag]
        known = np.isfinite(products)
        return float(products[known].mean()) if known.any() else 0.0

    now, one, two = alike(0), alike(1), alike(2)
    if not now > 1e-8:  # nothing about their levels but rounding, as where each has one value
        return {"a": 0.0, "loading": 0.4, "common": 0.4, "var_x": 0.05, "var_y": 0.2}
    if one > 0.1 * now:
        quotient = max(two / one, 0.1)
        share = float(np.clip(one / (quotient * now), 0.1, 0.95))
        # A level that is estimated too takes about this much off, of few times most.
        a = float(np.clip(quotient + (1.0 + 4.0 * quotient) / y.shape[1], 0.1, 0.95))
    else:
        a, share = float(np.clip(one / now, 0.0, 0.1)), 0.5
    step = share * now * (1.0 - a * a)
    return {
        "a": a,
        "loading": math.sqrt(0.8 * step),
        "common": math.sqrt(0.8 * step),
        "var_x": 0.2 * step,
        "var_y": (1.0 - share) * now,
    }


def starting_waves(
    data: SeriesData, levels: np.ndarray, scale: np.ndarray, waves: np.ndarray, a: float
) -> np.ndarray:
    """Where coefficients of a season start: least squares on the series' steps, drawn to zero.

    Factors that had taken up the season first would keep it.
    """
    n, _, more = waves.shape
    with np.errstate(invalid="ignore"):
        e = np.clip((data.y - levels[:, None]) / scale[:, None], -3.0, 3.0)
    known = (data.count[:, 1:] > 0) & (data.count[:, :-1] > 0)
    steps = np.where(known, e[:, 1:] - a * e[:, :-1], 0.0)
    moved = (waves[:, 1:] - a * waves[:, :-1]) * known[..., None]
    square = np.einsum("itc,itd->icd", moved, moved) + np.eye(more)
    pull = np.einsum("itc,it->ic", moved, steps)
    return np.linalg.solve(square, pull[..., None])[..., 0].reshape(n, more)


def starting_weights(
    y: np.ndarray, count: np.ndarray, levels: np.ndarray, scale: np.ndarray
) -> np.ndarray:
    """Where cells' weights start: one, and less for wild values, which make no first factors."""
    with np.errstate(invalid="ignore"):
        away = np.abs(y - levels[:, None]) / scale[:, None]
    away = np.where(count > 0, away, 0.0)
    return np.minimum(1.0, (3.0 / np.maximum(away, 3.0)) ** 2)
