"""From checked data and settings to the problem that chains sample, in the model's units."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from cavity.estimators.validation import check_choice, check_number
from cavity.posterior.units import SeriesUnits
from cavity.priors.series import SeriesPrior
from cavity.series.common_factor import CommonFactorUpdate
from cavity.series.data import SeriesData
from cavity.series.initialization import (
    scatter_in_units,
    starting_dynamics,
    starting_levels,
    starting_waves,
    starting_weights,
)
from cavity.series.likelihood import ClusterFlips, Turn
from cavity.series.parameters import (
    EVERYTHING,
    KNOWN,
    Hyperprior,
    Moving,
    PopulationUpdate,
    SeriesPriors,
)
from cavity.series.state_space import FactorSeries, factor_series, own_copy, some_series
from cavity.series.update import SeriesUpdate
from cavity.updates import Update

# Range in which a parameter may be held, in the model's units; beyond, sums of squares lose digits.
_RANGES = {
    "a": (-1.0, 1.0),
    "loading": (-1e4, 1e4),
    "common": (-1e4, 1e4),
    "var_y": (1e-12, 1e8),
    "var_x": (1e-12, 1e8),
    "var_x0": (1e-12, 1e8),
    "beta": (-1e6, 1e6),
}
_SHARED = ("var_x", "var_x0")
SCALES = ("auto", "each", "all")
HOLDABLE = (*Moving._fields,)


def check_df(df: Any) -> None:
    """Refuse degrees of freedom that are neither "learn", None nor a number."""
    if isinstance(df, str):
        check_choice("df", df, ("learn",))
    elif df is not None and df != np.inf:
        check_number("df", df, 0.5, 1e6, strict=False)


def start_df(df: float | str | None) -> float:
    """Degrees of freedom that are known, or where chains start; infinite for Gaussian noise."""
    if df is None:
        return np.inf
    return 10.0 if isinstance(df, str) else float(df)


def check_scales(scales: Any, hold: dict[str, Any]) -> None:
    """Refuse a word that is none of `SCALES`, and shared variances held in scales of many."""
    check_choice("scales", scales, SCALES)
    shared = [name for name in _SHARED if name in hold]
    if scales == "each" and shared:
        raise ValueError(
            f"{shared[0]} is shared by all series, and cannot be held at one value in the data's "
            'units when each series is divided by its own scale. Use scales="all".'
        )


def own_scales(scales: str, data: SeriesData, hold: dict[str, Any]) -> bool:
    """Return whether each series has its own scale."""
    if scales != "auto":
        return scales == "each"
    return not data.given_covariates and not set(hold) & set(_SHARED)


def check_hold(hold: Any) -> dict[str, Any]:
    """Parameters to be held at values, by name."""
    if hold is None:
        return {}
    if not hasattr(hold, "items") or set(hold) - set(HOLDABLE):
        raise ValueError(
            f"hold must be a dictionary of values by name ({', '.join(HOLDABLE)}), not {hold!r}."
        )
    return dict(hold)


def _held(name: str, value: Any, n: int, unit: np.ndarray) -> np.ndarray:
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
            f"{name} is held at {value!r}, which is outside {low * unit.max():.3g} to "
            f"{high * unit.min():.3g}, "
            "what these data's spread allows. Check it, and the data for outliers."
        )
    return inside


def population_of(prior: SeriesPrior, a: float = 0.8) -> tuple[float, float, float, float]:
    """Mean and precision of the a_i, then of the loadings: known, or where chains start."""
    values: list[float] = []
    for numbers, start in ((prior.a, a), (prior.loading, 0.0)):
        if len(numbers) == 2:
            values += [numbers[0], 0.0 if np.isinf(numbers[1]) else numbers[1] ** -2.0]
        else:
            values += [start, numbers[1] / numbers[2]]
    return values[0], values[1], values[2], values[3]


def common_population_of(prior: SeriesPrior) -> tuple[float, float]:
    """Mean and precision of the common factor's loadings: known, or where chains start."""
    if len(prior.common) == 2:
        return prior.common[0], prior.common[1] ** -2.0
    return 0.0, prior.common[1] / prior.common[2]


def _hyperprior(numbers: tuple[float, ...]) -> Hyperprior:
    if len(numbers) == 2:
        return KNOWN
    return Hyperprior(True, numbers[0] ** -2.0, numbers[1], numbers[2])


def build_model(
    data: SeriesData,
    units: SeriesUnits,
    hold: dict[str, Any],
    prior: SeriesPrior,
    df: float = np.inf,
    *,
    common: bool = False,
) -> FactorSeries:
    """Collect data and starting (or held) values in the model's units."""
    n = len(data.y)
    square = units.scale**2
    levels = starting_levels(data.y, data.count, units.centre, units.scale)
    middle = units.centre + levels * units.scale
    start: dict[str, Any] = starting_dynamics(data.y, data.count, middle, units.scale)
    start["var_x0"] = 1.0
    typical = start["a"]
    if not common:
        start["common"] = None
    unit = {"a": np.ones(n), "loading": units.scale, "common": units.scale}
    for name in start:
        if name in hold:
            # What all series share is held only where they have one scale: `check_scales`.
            one = name in _SHARED
            unit_of = unit.get(name, square)
            start[name] = _held(name, hold[name], 1 if one else n, unit_of[:1] if one else unit_of)
            if one:
                start[name] = float(start[name][0])
    beta = np.zeros((n, data.covariates.shape[2] + units.intercept))
    if units.intercept:
        beta[:, 0] = levels
    covariates = (data.covariates - units.covariate_centre) / units.covariate_scale
    n_given = len(data.given_covariates)
    if n_given < covariates.shape[2]:
        first = n_given + units.intercept
        beta[:, first:] = starting_waves(
            data, middle, units.scale, covariates[..., n_given:], typical
        )
    model = factor_series(
        data.y,
        data.count,
        covariates,
        scatter_in_units(data, units),
        **start,
        beta=_fixed_beta(hold["beta"], data, units) if "beta" in hold else beta,
        population=population_of(prior, typical),
        common_population=common_population_of(prior),
        df=df,
        free_signs="loading" not in hold,
        centre=units.centre,
        scale=units.scale,
        intercept=units.intercept,
    )
    if model.own.tails.size:
        model.own.tails[:] = starting_weights(data.y, data.count, middle, units.scale)
    return model


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
        out[:, int(units.intercept) :] = slopes * units.covariate_scale / units.scale[:, None]
        if units.intercept:
            level = beta[:, 0] + slopes @ units.covariate_centre
            out[:, 0] = (level - units.centre) / units.scale
    if not (np.abs(out) <= _RANGES["beta"][1]).all():
        raise ValueError(
            f"beta is held at {value!r}, which puts series more than {_RANGES['beta'][1]:g} "
            "standard deviations of these data away. Check it, and the data for outliers."
        )
    return out


def check_priors(priors: Any) -> SeriesPrior:
    """The priors that a user states (None: the defaults), within what kernels can square."""
    if priors is None:
        return SeriesPrior()
    if not isinstance(priors, SeriesPrior):
        raise ValueError(f"priors must be a cavity.priors.SeriesPrior or None, not {priors!r}.")
    most = _RANGES["loading"][1]
    for name in ("loading", "common"):
        numbers = getattr(priors, name)
        if max(abs(v) for v in numbers) > most:
            raise ValueError(
                f"priors: the mean and standard deviation of {name}, {numbers!r}, must be at "
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
        var_x0_shape=prior.var_x0[0],
        var_x0_scale=prior.var_x0[1],
        a=_hyperprior(prior.a),
        loading=_hyperprior(prior.loading),
        common=_hyperprior(prior.common),
    )


def series_problem(
    data: SeriesData,
    units: SeriesUnits,
    prior: SeriesPrior,
    hold: dict[str, Any],
    *,
    df: float | str | None,
    common: bool,
    draw: str,
    keep_trends: bool,
) -> SeriesProblem:
    """The problem that chains sample, from data and settings."""
    model = build_model(data, units, hold, prior, start_df(df), common=common)
    p = model.own.beta.shape[1]
    priors = build_priors(prior, p, units.intercept)
    level = model.own.beta.mean(0)
    spread = model.own.beta.var(0) + priors.beta_scale / (priors.beta_shape + 1.0)
    hyper = np.array([level, spread])
    moving = Moving(*(name not in hold for name in Moving._fields))
    return SeriesProblem(model, priors, hyper, moving, draw, keep_trends, df == "learn")


DRAWS = ("auto", "joint", "alternate")

# Longest series whose factors are drawn jointly by default: docs/studies.md has the figures.
LONGEST_JOINT = 500


@dataclass(frozen=True)
class SeriesProblem:
    """Series in clusters that share a latent factor.

    Attributes
    ----------
    data : FactorSeries
        Data and starting values; chains copy the parameters and share the data.
    priors : SeriesPriors
    hyper : (2, p) array
        Starting hyper-means and hyper-variances of the regression coefficients.
    moving : Moving
        Which parameters are drawn.
    draw : {"auto", "joint", "alternate"}
        How factors and states are drawn.
    keep_trends : bool
        Keep the states of every draw.
    learn_df : bool
        Draw the degrees of freedom of Student-t noise.
    """

    data: FactorSeries
    priors: SeriesPriors
    hyper: np.ndarray
    moving: Moving = EVERYTHING
    draw: str = "auto"
    keep_trends: bool = False
    learn_df: bool = False

    model: ClassVar[str] = "series"

    @property
    def n(self) -> int:
        """Number of series."""
        return len(self.data.cells.y)

    def likelihood(self, n_slots: int) -> FactorSeries:
        """The model of one chain."""
        return own_copy(self.data, n_slots)

    def updates(
        self, model: FactorSeries, *, exact: bool, approximate: bool, turn: Turn | None = None
    ) -> tuple[Update, ...]:
        """Return the updates that draw factors, states and parameters in one chain.

        Parameters
        ----------
        model : FactorSeries
            That chain's.
        exact : bool
            The scan integrates factors and states out: only a joint draw of the two leaves the
            posterior unchanged.
        approximate : bool
            The scan leaves factors drawn from an approximation.
        turn : callable, optional
            See `ClusterFlips`.
        """
        n_times = self.data.cells.y.shape[1]
        joint = exact or self.draw == "joint"
        joint = joint or (self.draw == "auto" and n_times <= LONGEST_JOINT)
        series = SeriesUpdate(
            model,
            self.priors,
            self.hyper,
            self.moving,
            joint=joint,
            approximate=approximate,
            keep_trends=self.keep_trends,
            learn_df=self.learn_df,
        )
        population = PopulationUpdate(self.priors, self.moving)
        common = CommonFactorUpdate(model, self.priors, self.moving)
        flips = ClusterFlips(turn, together=population.loading is not None)
        return series, population, common, flips

    def few(self) -> SeriesProblem:
        """Return the problem with few series and times, to compile kernels with."""
        n, n_times = self.data.cells.y.shape
        return replace(self, data=some_series(self.data, min(3, n), min(3, n_times)))
