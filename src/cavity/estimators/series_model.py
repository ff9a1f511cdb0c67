"""From data and settings to the series model in its own units, and its parameters back."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from cavity.estimators.series_data import SeriesData
from cavity.models.series.draws import Moving, SeriesPriors
from cavity.models.series.state import FactorSeries, factor_series

LEARN = "learn"
_SMALLEST = 1e-140  # variances are reported in the data's units, squared


@dataclass(frozen=True)
class Units:
    """The model sees (y - centre) / scale, and (u - covariate_centre) / covariate_scale."""

    centre: float
    scale: float
    covariate_centre: np.ndarray
    covariate_scale: np.ndarray
    intercept: bool


def _largest(data: SeriesData) -> float:
    size = float(np.max(np.abs(data.y), initial=0.0, where=data.count > 0))
    size = size if size > 0 else 1.0
    if not _SMALLEST < size < 1.0 / _SMALLEST:
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


def find_units(data: SeriesData, intercept: bool) -> Units:
    """Centre and scale of the observed values and covariates.

    Without an intercept the model has mean zero, so nothing is centred. Values are reduced by
    the largest before they are squared.
    """
    size = _largest(data)
    total = float(data.count.sum(dtype=float))
    c = data.covariates.shape[2]
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
    return Units(float(first[c]) * size, scale * size, first[:c], u_scale, intercept)


def scatter_in_units(data: SeriesData, units: Units) -> np.ndarray:
    """Cross-products within cells in the model's units, with a row of zeros for an intercept."""
    divide = np.append(units.covariate_scale, units.scale)
    scatter = data.scatter / divide[:, None] / divide[None, :]
    if units.intercept:
        scatter = np.pad(scatter, ((0, 0), (1, 0), (1, 0)))
    return scatter


def _per_series(name: str, value: Any, n: int, low: float, high: float) -> np.ndarray:
    try:
        array = np.asarray(value, dtype=float)
        array = np.broadcast_to(array, (n,)).astype(float)
    except (TypeError, ValueError):
        raise ValueError(
            f"{name} must be {LEARN!r}, a number, or one number per series ({n}), not {value!r}."
        ) from None
    if not ((array > low) & (array < high)).all():
        raise ValueError(f"{name} must lie between {low:g} and {high:g}, not {value!r}.")
    return array


def is_learned(name: str, value: Any) -> bool:
    """Whether a parameter is to be drawn rather than held at a value."""
    if isinstance(value, str):
        if value != LEARN:
            raise ValueError(f"{name} must be {LEARN!r} or a value to hold it at, not {value!r}.")
        return True
    return False


def build_model(data: SeriesData, units: Units, fixed: dict[str, Any], var_x0: Any) -> FactorSeries:
    """Collect data and starting (or fixed) values in the model's units."""
    n = len(data.y)
    square = units.scale**2
    start: dict[str, Any] = {"a": 0.8, "loading": 0.4, "var_x": 0.05, "var_y": 0.2}
    if not is_learned("a", fixed["a"]):
        start["a"] = _per_series("a", fixed["a"], n, -1.0, 1.0)
    if not is_learned("loading", fixed["loading"]):
        value = _per_series("loading", fixed["loading"], n, -np.inf, np.inf)
        start["loading"] = value / units.scale
    if not is_learned("var_y", fixed["var_y"]):
        start["var_y"] = _per_series("var_y", fixed["var_y"], n, 0.0, np.inf) / square
    if not is_learned("var_x", fixed["var_x"]):
        start["var_x"] = float(_per_series("var_x", fixed["var_x"], 1, 0.0, np.inf)[0]) / square
    covariates = (data.covariates - units.covariate_centre) / units.covariate_scale
    beta = None
    p = covariates.shape[2] + units.intercept
    if not is_learned("beta", fixed["beta"]):
        beta = _fixed_beta(fixed["beta"], data, units)
    if var_x0 is not None:
        var_x0 = float(_per_series("var_x0", var_x0, 1, 0.0, np.inf)[0]) / square
    return factor_series(
        data.y,
        data.count,
        covariates,
        scatter_in_units(data, units),
        **start,
        beta=np.zeros((n, p)) if beta is None else beta,
        var_x0=1.0 if var_x0 is None else var_x0,
        centre=units.centre,
        scale=units.scale,
        intercept=units.intercept,
    )


def _fixed_beta(value: Any, data: SeriesData, units: Units) -> np.ndarray:
    """Coefficients that the user holds, in the model's units."""
    n, c = len(data.y), data.covariates.shape[2]
    p = c + units.intercept
    try:
        beta = np.broadcast_to(np.asarray(value, dtype=float), (n, p)).astype(float)
    except (TypeError, ValueError):
        raise ValueError(
            f"beta must be {LEARN!r}, or {p} numbers (for all series, or a row for each), the "
            f"intercept first if there is one; not {value!r}."
        ) from None
    out = beta.copy()
    slopes = beta[:, int(units.intercept) :]
    out[:, int(units.intercept) :] = slopes * units.covariate_scale / units.scale
    if units.intercept:
        level = beta[:, 0] + slopes @ units.covariate_centre
        out[:, 0] = (level - units.centre) / units.scale
    return out


def beta_in_users_units(beta: np.ndarray, units: Units) -> np.ndarray:
    """Draws of coefficients (..., p) back in the user's units, the intercept first."""
    out = np.array(beta, dtype=float)
    first = int(units.intercept)
    out[..., first:] *= units.scale / units.covariate_scale
    if units.intercept:
        out[..., 0] = units.centre + units.scale * out[..., 0]
        out[..., 0] -= out[..., 1:] @ units.covariate_centre
    return out


def build_priors(settings: dict[str, tuple[float, float]], p: int, intercept: bool) -> SeriesPriors:
    """Hyper-parameters for the kernels; all are in the model's units."""
    a_mean, a_sd = settings["a_prior"]
    loading_mean, loading_sd = settings["loading_prior"]
    beta = [settings["intercept_prior"]] * intercept
    beta += [settings["beta_prior"]] * (p - intercept)
    table = np.array(beta, dtype=float).reshape(p, 3)
    return SeriesPriors(
        a_mean=float(a_mean),
        a_precision=0.0 if np.isinf(a_sd) else float(a_sd) ** -2.0,
        loading_mean=float(loading_mean),
        loading_precision=float(loading_sd) ** -2.0,
        var_x_shape=float(settings["var_x_prior"][0]),
        var_x_scale=float(settings["var_x_prior"][1]),
        var_y_shape=float(settings["var_y_prior"][0]),
        var_y_scale=float(settings["var_y_prior"][1]),
        beta_mean=np.zeros(p),
        beta_precision=table[:, 0] ** -2.0,
        beta_shape=table[:, 1].copy(),
        beta_scale=table[:, 2].copy(),
    )


def moving_parameters(fixed: dict[str, Any]) -> Moving:
    """Which parameters are drawn."""
    return Moving(*(is_learned(name, fixed[name]) for name in Moving._fields))
