"""The state-space model of the series: data, parameters and scratch space of the kernels.

The model (every symbol as in ``docs/notation.md``), for series i, time t = 1..T, observation l::

    x_it  = a_i x_i,t-1 + loading_i eta_kt + common_i g_t + N(0, var_x),    k = z_i
    y_itl = x_it + beta_i' f_itl + N(0, var_y_i),            l = 1..n_it, n_it may be 0
    x_i0  ~ N(0, var_x0),   eta_kt ~ N(0, 1),   g_t ~ N(0, 1)

The common factor g is there on request only. What is known of the states' steps, common_i g_t, is
subtracted from a series' drift (``kalman.prepare``), before any filter or collapse.

With Student-t noise the mean of a cell has the variance var_y_i / (n_it w_it) instead of
var_y_i / n_it, w_it ~ Gamma(df / 2, df / 2).

Only cell means enter the likelihood of x; what the observations of a cell differ by enters
var_y and beta through cross-products that never change.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from cavity._numba.arrays import declare
from cavity._numba.simd import whole_vectors


class Cells(NamedTuple):
    """The data, gathered by series and time; shared by all chains and never changed."""

    y: np.ndarray  # (n, T) mean of the cell's observations, in the user's units; NaN where none
    repeats: np.ndarray  # (n, T) number of observations of the cell
    totals: np.ndarray  # (n, 2) number of observations of the series; most in one cell
    covariates: np.ndarray  # (n, T, c) mean of the cell's covariates
    scatter: np.ndarray  # (n, p + 1, p + 1) cross-products of (u, y) about their cells' means
    unit: np.ndarray  # (n, 2) centre and 1/scale: the model sees (y - centre) / scale


class SeriesParameters(NamedTuple):
    """Parameters of every series and the variances that all share; one set per chain."""

    a: np.ndarray  # (n,)
    loading: np.ndarray  # (n,)
    var_y: np.ndarray  # (n,)
    beta: np.ndarray  # (n, p), p = c, or c + 1 with an intercept as the first coefficient
    var_x: np.ndarray  # (1,)
    population: np.ndarray  # (4,) mean and precision of the a_i, then of the loadings
    var_x0: np.ndarray  # (1,)
    tails: np.ndarray  # (n, T) what multiplies a cell's precision, or (0, 0): noise is Gaussian
    df: np.ndarray  # (1,) degrees of freedom of the noise; infinite: Gaussian
    common: np.ndarray  # (n,) loadings of the common factor, or (0,): there is none
    common_factor: np.ndarray  # (T,) g_1..g_T, or (0,)
    common_population: np.ndarray  # (2,) mean and precision of the loadings of the common factor
    free_signs: bool  # whether the sign of a loading is drawn with its series' label


class Scratch(NamedTuple):
    """Room to work in, a chain's own; nothing in it outlives a kernel."""

    row: np.ndarray  # (ROWS, T): one meaning for each row, below
    lanes: np.ndarray  # (8, padded slots) of the filters that run side by side
    signed: np.ndarray  # (2, padded slots) a score per cluster: loading as it is, and mirrored


class FactorSeries(NamedTuple):
    """The likelihood, as the framework sees it."""

    cells: Cells
    own: SeriesParameters
    scratch: Scratch


declare(SeriesParameters, slots={})
declare(Scratch, slots={"lanes": 1, "signed": 1}, constant=("row", "lanes", "signed"))
declare(FactorSeries, slots={})

DRAWN = tuple(name for name in SeriesParameters._fields if name != "free_signs")

# Places in `SeriesParameters.population`; a precision of 0 makes a_i uniform on (-1, 1).
A_MEAN, A_PRECISION, LOADING_MEAN, LOADING_PRECISION = 0, 1, 2, 3

# Rows of the scratch space. Of a prepared series: cell precisions, the reference path and its
# drift. Of a filter: one minus the gain, innovation over its variance, filtered moments. Of its
# information about the factor: see `kalman.smooth_back`. Of its site: natural parameters. Of the
# factor: moments that are the same at all times.
WEIGHT, DRIFT, CENTRE = 0, 1, 2
SHRINK, PULL, STATE, VARIANCE = 3, 4, 5, 6
PHI, DIAGONAL, SLOPE = 7, 8, 9
PRECISION, SHIFT = 10, 11
FACTOR_MEAN, FACTOR_VARIANCE = 12, 13
ROWS = 14


def scratch(n_times: int, n_slots: int) -> Scratch:
    """Room for one chain."""
    width = whole_vectors(n_slots)
    return Scratch(np.zeros((ROWS, n_times)), np.zeros((8, width)), np.zeros((2, width)))


def own_copy(m: FactorSeries, n_slots: int) -> FactorSeries:
    """Return the same data with a chain's own parameters and scratch space."""
    own = {name: getattr(m.own, name).copy() for name in DRAWN}
    n_times = m.cells.y.shape[1]
    return m._replace(own=m.own._replace(**own), scratch=scratch(n_times, n_slots))


def some_series(m: FactorSeries, n: int, n_times: int) -> FactorSeries:
    """The first few series and times, to compile kernels with."""
    cells, own = m.cells, m.own
    few = {name: getattr(own, name)[:n].copy() for name in ("a", "loading", "var_y", "beta")}
    few["tails"] = np.ascontiguousarray(own.tails[:n, :n_times])
    few["common"] = own.common[:n].copy()
    few["common_factor"] = own.common_factor[:n_times].copy()
    return FactorSeries(
        cells._replace(
            y=np.ascontiguousarray(cells.y[:n, :n_times]),
            repeats=np.ascontiguousarray(cells.repeats[:n, :n_times]),
            totals=cells.totals[:n],
            covariates=np.ascontiguousarray(cells.covariates[:n, :n_times]),
            scatter=cells.scatter[:n],
            unit=cells.unit[:n],
        ),
        own._replace(**few),
        scratch(n_times, m.scratch.lanes.shape[1]),
    )


def factor_series(
    y: np.ndarray,
    count: np.ndarray | None = None,
    covariates: np.ndarray | None = None,
    scatter: np.ndarray | None = None,
    *,
    a: np.ndarray | float,
    loading: np.ndarray | float,
    var_x: float,
    var_y: np.ndarray | float,
    beta: np.ndarray | None = None,
    population: Sequence[float] = (0.0, 1.0, 0.0, 1.0),
    var_x0: float = 1.0,
    df: float = np.inf,
    common: np.ndarray | float | None = None,
    common_population: Sequence[float] = (0.0, 1.0),
    free_signs: bool = False,
    centre: float = 0.0,
    scale: np.ndarray | float = 1.0,
    n_slots: int = 1,
    intercept: bool = False,
) -> FactorSeries:
    """Collect data and parameters; numbers are repeated for every series.

    `count` defaults to one observation wherever `y` is not NaN; without `common` there is no common
    factor, with it that starts at zero.
    """
    y = np.ascontiguousarray(y, dtype=float)
    n, n_times = y.shape
    if count is None:
        count = np.isfinite(y).astype(np.uint16)
    if covariates is None:
        covariates = np.zeros((n, n_times, 0))
    p = covariates.shape[2] + intercept
    if scatter is None:
        scatter = np.zeros((n, p + 1, p + 1))

    def each(value: Any) -> np.ndarray:
        return np.array(np.broadcast_to(np.asarray(value, dtype=float), (n,)))

    totals = np.column_stack([count.sum(1, dtype=float), count.max(1, initial=0)]).astype(float)
    return FactorSeries(
        Cells(
            y=y,
            repeats=count,
            totals=totals,
            covariates=np.ascontiguousarray(covariates, dtype=float),
            scatter=scatter,
            unit=np.column_stack([each(centre), 1.0 / each(scale)]),
        ),
        SeriesParameters(
            a=each(a),
            loading=each(loading),
            var_y=each(var_y),
            beta=np.zeros((n, p)) if beta is None else np.array(beta, dtype=float).reshape(n, p),
            var_x=np.array([var_x], dtype=float),
            population=np.array(population, dtype=float),
            var_x0=np.array([var_x0], dtype=float),
            tails=np.ones((n, n_times) if np.isfinite(df) else (0, 0)),
            df=np.array([df], dtype=float),
            common=np.zeros(0) if common is None else each(common),
            common_factor=np.zeros(0 if common is None else n_times),
            common_population=np.array(common_population, dtype=float),
            free_signs=bool(free_signs),
        ),
        scratch(n_times, n_slots),
    )
