"""Scales of the data and starting values of the parameters, from the data without a model."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from cavity.estimators.validation import LARGEST, SMALLEST
from cavity.posterior.units import SeriesUnits
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
    """Return starting intercepts, in the model's units: the medians of the series."""
    return np.nan_to_num((medians(y, count) - centre) / scale)


def starting_dynamics(
    y: np.ndarray, count: np.ndarray, levels: np.ndarray, scale: np.ndarray
) -> dict[str, float]:
    """Return starting values of a, loadings and variances, from autocovariances at lags 0 to 2.

    Noise of the observations makes series less like themselves at every lag by the same factor,
    so the quotient of two lags is a, and the factor is the share of noise. With almost no
    autocorrelation, a is small and half of the variance is taken for noise. Outliers are clipped.
    In the model's units.
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
    """Return starting coefficients of a season: ridge regression on the series' steps.

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
    """Return starting weights of cells: one, and less for outliers."""
    with np.errstate(invalid="ignore"):
        away = np.abs(y - levels[:, None]) / scale[:, None]
    away = np.where(count > 0, away, 0.0)
    return np.minimum(1.0, (3.0 / np.maximum(away, 3.0)) ** 2)


# Standard deviation of the kernel, in times, and the weight of a series' mean against one value.
WIDTH, SHRINKAGE = 1.5, 0.2


def smoothed_paths(y: np.ndarray, count: np.ndarray) -> np.ndarray:
    """Each series smoothed over time, less its mean and divided by its length as a vector.

    Cells without observations take their value from those around them, or the series' mean.

    Examples
    --------
    >>> paths = smoothed_paths(np.array([[1.0, np.nan, 3.0]]), np.array([[1, 0, 1]]))
    >>> paths.round(2).tolist()
    [[-0.71, 0.0, 0.71]]
    """
    seen = count > 0
    # Divided by the largest before anything is squared; outliers are clipped.
    values = np.where(seen, y, np.nan)
    with np.errstate(all="ignore"):
        filled = np.where(seen, values, 0.0)
        size = np.maximum(np.abs(filled).max(axis=1, keepdims=True), np.finfo(float).tiny)
        filled = filled / size
        total = np.maximum(seen.sum(axis=1, keepdims=True), 1)
        centred = np.where(seen, filled - filled.sum(axis=1, keepdims=True) / total, 0.0)
        spread = np.sqrt((centred**2).sum(axis=1, keepdims=True) / total)
        centred = np.clip(centred, -3.0 * spread, 3.0 * spread)
    above, below = np.zeros(y.shape), np.full(y.shape, SHRINKAGE)
    n_times = y.shape[1]
    reach = min(int(np.ceil(3.0 * WIDTH)), n_times - 1)
    kernel = np.exp(-0.5 * (np.arange(-reach, reach + 1) / WIDTH) ** 2)
    for step, weight in zip(range(-reach, reach + 1), kernel, strict=True):
        to = slice(max(step, 0), n_times + min(step, 0))
        of = slice(max(-step, 0), n_times + min(-step, 0))
        above[:, to] += weight * centred[:, of]
        below[:, to] += weight * seen[:, of]
    paths = above / below
    length = np.sqrt((paths**2).sum(axis=1, keepdims=True))
    return paths / np.maximum(length, np.finfo(float).tiny)


def largest_value(data: SeriesData) -> float:
    """The largest size of a value, by which values are divided before they are squared."""
    size = float(np.max(np.abs(data.y), initial=0.0, where=data.count > 0))
    size = size if size > 0 else 1.0
    if not SMALLEST < size < LARGEST:
        raise ValueError(
            f"the values reach {size:.1g}, whose square is beyond floating point. Multiply or "
            "divide them by a power of ten first."
        )
    return size


def _blocks(data: SeriesData, size: float) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Counts and (covariates, reduced values) of some series at a time: no copy of all data."""
    step = max(1, 1_000_000 // max(data.y.shape[1], 1))
    for start in range(0, len(data.y), step):
        part = slice(start, start + step)
        count = data.count[part].astype(float)
        y = np.where(count > 0, data.y[part], 0.0) / size
        yield count, np.concatenate([data.covariates[part], y[..., None]], axis=2)


# A series with this many values weighs its own spread as much as that of all others.
_FEW = 5.0


_ROBUST = 1.4826  # of a normal distribution, the standard deviation over the median deviation


def find_units(data: SeriesData, intercept: bool, *, each: bool = False) -> SeriesUnits:
    """Centre and scale of the observed values and covariates.

    Without an intercept the model has mean zero, so nothing is centred. Values are reduced by
    the largest before they are squared.

    Parameters
    ----------
    data : SeriesData
    intercept : bool
    each : bool
        Divide each series by its own robust spread, rather than all by their standard deviation.
    """
    size = largest_value(data)
    total = float(data.count.sum(dtype=float))
    n, c = len(data.y), data.covariates.shape[2]
    first = np.zeros(c + 1)
    second = data.scatter.diagonal(axis1=1, axis2=2).sum(0)
    second[c] = second[c] / size / size
    if intercept:
        for count, values in _blocks(data, size):
            first += np.einsum("nt,ntc->c", count, values) / total
    for count, values in _blocks(data, size):
        second += np.einsum("nt,ntc->c", count, (values - first) ** 2)
    spread = np.sqrt(second / total)
    scale = float(spread[c]) if spread[c] > 1e-13 else 1.0
    u_scale = np.where(spread[:c] > 0, spread[:c], 1.0)
    scales = own_spreads(data, size, scale) if each else np.full(n, scale)
    weight = data.count.sum(1, dtype=float)
    volume = float(np.average(np.log(scales) + np.log(size), weights=weight))
    return SeriesUnits(float(first[c]) * size, scales * size, first[:c], u_scale, intercept, volume)


def own_spreads(
    data: SeriesData, size: float, common: float, loudness: float | None = None
) -> np.ndarray:
    """Robust spread of each series about its median, drawn to the others' where values are few.

    Robust to outliers. In units of `size`, as
    is `common`, which serves where no series has a spread of its own; `loudness` is that of series
    in general, squared, where these are but some of them.
    """
    square, flat = _own_squares(data, size, common)
    if loudness is None:
        loudness = typical_loudness(data, size, common)
    known = (data.count > 0).sum(1).astype(float)
    share = np.where(flat, 0.0, known / (known + _FEW))
    return np.sqrt(share * square + (1.0 - share) * loudness)


def typical_loudness(data: SeriesData, size: float, common: float) -> float:
    """Squared robust spread of series in general, in units of `size`."""
    square, flat = _own_squares(data, size, common)
    return float(np.median(square[~flat])) if (~flat).any() else common**2


def _own_squares(data: SeriesData, size: float, common: float) -> tuple[np.ndarray, np.ndarray]:
    """Squared robust spread of each series, and which have none: one value, or mostly the same."""
    y = data.y / size
    total = np.maximum(data.count.sum(1, dtype=float), 1.0)
    deviation = medians(np.abs(y - medians(y, data.count)[:, None]), data.count)
    square = (_ROBUST * np.nan_to_num(deviation)) ** 2
    square += data.scatter[:, -1, -1] / size / size / total
    return square, ~(square > (1e-6 * common) ** 2)


def scatter_in_units(data: SeriesData, units: SeriesUnits) -> np.ndarray:
    """Cross-products within cells in the model's units, with a row of zeros for an intercept."""
    n = len(data.y)
    divide = np.column_stack([np.tile(units.covariate_scale, (n, 1)), units.scale])
    scatter = data.scatter / divide[:, :, None] / divide[:, None, :]
    if units.intercept:
        scatter = np.pad(scatter, ((0, 0), (1, 0), (1, 0)))
    return scatter
