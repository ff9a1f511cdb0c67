"""From data and settings to the series model in its own units, and its parameters back."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from cavity.estimators.series_data import SeriesData
from cavity.estimators.validation import LARGEST, SMALLEST
from cavity.models.series.draws import KNOWN, Hyperprior, Moving, SeriesPriors
from cavity.models.series.problem import SeriesProblem
from cavity.models.series.state import FactorSeries, factor_series
from cavity.posterior.units import SeriesUnits
from cavity.priors.series import SeriesPrior


def _largest(data: SeriesData) -> float:
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


def find_units(data: SeriesData, intercept: bool) -> SeriesUnits:
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
    return SeriesUnits(float(first[c]) * size, scale * size, first[:c], u_scale, intercept)


def scatter_in_units(data: SeriesData, units: SeriesUnits) -> np.ndarray:
    """Cross-products within cells in the model's units, with a row of zeros for an intercept."""
    divide = np.append(units.covariate_scale, units.scale)
    scatter = data.scatter / divide[:, None] / divide[None, :]
    if units.intercept:
        scatter = np.pad(scatter, ((0, 0), (1, 0), (1, 0)))
    return scatter


# What a parameter may be held at, in the model's units: beyond, sums of squares lose their digits.
_RANGES = {
    "a": (-1.0, 1.0),
    "loading": (-1e4, 1e4),
    "var_y": (1e-12, 1e8),
    "var_x": (1e-12, 1e8),
    "var_x0": (1e-12, 1e8),
    "beta": (-1e6, 1e6),
}
# Where chains start, in the model's units.
_START = {"a": 0.8, "loading": 0.4, "var_x": 0.05, "var_y": 0.2}
HOLDABLE = (*Moving._fields,)


def check_hold(hold: Any) -> dict[str, Any]:
    """Parameters to be held at values, by name."""
    if hold is None:
        return {}
    if not hasattr(hold, "items") or set(hold) - set(HOLDABLE):
        raise ValueError(
            f"hold must be a dictionary of values by name ({', '.join(HOLDABLE)}), not {hold!r}."
        )
    return dict(hold)


def _held(name: str, value: Any, n: int, unit: float) -> np.ndarray:
    """One value per series in the model's units, checked in both."""
    try:
        array = np.broadcast_to(np.asarray(value, dtype=float), (n,)).astype(float)
    except (TypeError, ValueError):
        raise ValueError(
            f"{name} must be held at a number, or one number per series ({n}), not {value!r}."
        ) from None
    low, high = _RANGES[name]
    inside = array / unit
    if name == "a" and not (np.abs(array) < 1.0).all():
        raise ValueError(f"a must be held between -1 and 1, not at {value!r}.")
    if not ((inside >= low) & (inside <= high)).all():
        raise ValueError(
            f"{name} is held at {value!r}, which is outside {low * unit:.3g} to {high * unit:.3g}, "
            "what these data's spread allows. Check it, and the data for wild values."
        )
    return inside


def population_of(prior: SeriesPrior) -> tuple[float, float, float, float]:
    """Mean and precision of the a_i, then of the loadings: known, or where chains start."""
    values: list[float] = []
    for numbers, start in ((prior.a, _START["a"]), (prior.loading, 0.0)):
        if len(numbers) == 2:
            values += [numbers[0], 0.0 if np.isinf(numbers[1]) else numbers[1] ** -2.0]
        else:
            values += [start, numbers[1] / numbers[2]]
    return values[0], values[1], values[2], values[3]


def _hyperprior(numbers: tuple[float, ...]) -> Hyperprior:
    if len(numbers) == 2:
        return KNOWN
    return Hyperprior(True, numbers[0] ** -2.0, numbers[1], numbers[2])


def build_model(
    data: SeriesData, units: SeriesUnits, hold: dict[str, Any], prior: SeriesPrior
) -> FactorSeries:
    """Collect data and starting (or held) values in the model's units."""
    n = len(data.y)
    square = units.scale**2
    start: dict[str, Any] = dict(_START)
    unit = {"a": 1.0, "loading": units.scale, "var_x": square, "var_y": square}
    for name in start:
        if name in hold:
            start[name] = _held(name, hold[name], 1 if name == "var_x" else n, unit[name])
    if "var_x" in hold:
        start["var_x"] = float(start["var_x"][0])
    covariates = (data.covariates - units.covariate_centre) / units.covariate_scale
    return factor_series(
        data.y,
        data.count,
        covariates,
        scatter_in_units(data, units),
        **start,
        beta=_fixed_beta(hold["beta"], data, units) if "beta" in hold else None,
        population=population_of(prior),
        var_x0=1.0 if prior.var_x0 is None else float(_held("var_x0", prior.var_x0, 1, square)[0]),
        free_signs="loading" not in hold,
        centre=units.centre,
        scale=units.scale,
        intercept=units.intercept,
    )


def _fixed_beta(value: Any, data: SeriesData, units: SeriesUnits) -> np.ndarray:
    """Coefficients that the user holds, in the model's units."""
    n, c = len(data.y), data.covariates.shape[2]
    p = c + units.intercept
    try:
        beta = np.broadcast_to(np.asarray(value, dtype=float), (n, p)).astype(float)
    except (TypeError, ValueError):
        raise ValueError(
            f"beta must be held at {p} numbers (for all series, or a row for each), the intercept "
            f"first if there is one; not {value!r}."
        ) from None
    if not np.isfinite(beta).all():
        raise ValueError(f"beta must be held at finite numbers, not {value!r}.")
    out = beta.copy()
    slopes = beta[:, int(units.intercept) :]
    with np.errstate(over="ignore", invalid="ignore"):  # what overflows is refused below
        out[:, int(units.intercept) :] = slopes * units.covariate_scale / units.scale
        if units.intercept:
            level = beta[:, 0] + slopes @ units.covariate_centre
            out[:, 0] = (level - units.centre) / units.scale
    if not (np.abs(out) <= _RANGES["beta"][1]).all():
        raise ValueError(
            f"beta is held at {value!r}, which puts series more than {_RANGES['beta'][1]:g} "
            "standard deviations of these data away. Check it, and the data for wild values."
        )
    return out


def check_priors(priors: Any) -> SeriesPrior:
    """The priors that a user states (None: the defaults), within what kernels can square."""
    if priors is None:
        return SeriesPrior()
    if not isinstance(priors, SeriesPrior):
        raise ValueError(f"priors must be a cavity.priors.SeriesPrior or None, not {priors!r}.")
    most = _RANGES["loading"][1]
    if max(abs(v) for v in priors.loading) > most:
        raise ValueError(
            f"priors: the mean and standard deviation of loading, {priors.loading!r}, must be at "
            f"most {most:g}, in standard deviations of the data."
        )
    return priors


def build_priors(prior: SeriesPrior, p: int, intercept: bool) -> SeriesPriors:
    """Hyper-parameters for the kernels; all are in the model's units."""
    table = np.array([prior.intercept] * intercept + [prior.beta] * (p - intercept), dtype=float)
    table = table.reshape(p, 3)
    return SeriesPriors(
        var_x_shape=prior.var_x[0],
        var_x_scale=prior.var_x[1],
        var_y_shape=prior.var_y[0],
        var_y_scale=prior.var_y[1],
        beta_mean=np.zeros(p),
        beta_precision=table[:, 0] ** -2.0,
        beta_shape=table[:, 1].copy(),
        beta_scale=table[:, 2].copy(),
        a=_hyperprior(prior.a),
        loading=_hyperprior(prior.loading),
    )


def series_problem(
    data: SeriesData,
    units: SeriesUnits,
    prior: SeriesPrior,
    hold: dict[str, Any],
    *,
    draw: str,
    keep_trends: bool,
) -> SeriesProblem:
    """The problem that chains sample, from data and settings."""
    model = build_model(data, units, hold, prior)
    p = model.own.beta.shape[1]
    priors = build_priors(prior, p, units.intercept)
    hyper = np.array([np.zeros(p), priors.beta_scale / (priors.beta_shape + 1.0)])
    moving = Moving(*(name not in hold for name in Moving._fields))
    return SeriesProblem(model, priors, hyper, moving, draw, keep_trends)
