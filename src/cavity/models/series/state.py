"""What the kernels of the series model read and write: data, parameters, scratch space.

The model (every symbol as in ``docs/series.md``), for series i, time t = 1..T, observation l::

    x_it  = a_i x_i,t-1 + loading_i eta_kt + N(0, var_x),    k = z_i,  eta_kt ~ N(0, 1)
    y_itl = x_it + beta_i' u_itl + N(0, var_y_i),            l = 1..n_it, n_it may be 0
    x_i0  ~ N(0, var_x0)

Only cell means enter the likelihood of x; what the observations of a cell differ by enters
var_y and beta through cross-products that never change.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from cavity.core.arrays import declare
from cavity.core.lanes import whole_vectors


class FactorSeries(NamedTuple):
    """Data, current parameters and scratch space of one chain. Also the model of the framework."""

    y: np.ndarray  # (n, T) mean of the cell's observations, in the user's units; NaN where none
    repeats: np.ndarray  # (n, T) number of observations of the cell
    totals: np.ndarray  # (n, 2) number of observations of the series; most in one cell
    covariates: np.ndarray  # (n, T, c) mean of the cell's covariates
    scatter: np.ndarray  # (n, p + 1, p + 1) cross-products of (u, y) about their cells' means
    unit: np.ndarray  # (2,) centre and 1/scale: the model sees (y - centre) / scale
    a: np.ndarray  # (n,)
    loading: np.ndarray  # (n,)
    var_y: np.ndarray  # (n,)
    beta: np.ndarray  # (n, p), p = c, or c + 1 with an intercept as the first coefficient
    var_x: np.ndarray  # (1,)
    var_x0: float
    row: np.ndarray  # (ROWS, T) scratch: see below
    lanes: np.ndarray  # (5, padded slots) scratch of the filters that run side by side


declare(
    FactorSeries,
    slots={"lanes": 1},
    constant=("y", "repeats", "totals", "covariates", "scatter", "unit", "row", "lanes"),
)

# Rows of the scratch space.
WEIGHT, DRIFT, SHRINK, PULL, CENTRE, VARIANCE, STATE = range(7)
ROWS = 7


def own_copy(m: FactorSeries, n_slots: int) -> FactorSeries:
    """The same data with parameters and scratch space of a chain's own."""
    own = {name: getattr(m, name).copy() for name in ("a", "loading", "var_y", "beta", "var_x")}
    return m._replace(**own, row=np.zeros_like(m.row), lanes=np.zeros((5, whole_vectors(n_slots))))


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
    var_x0: float = 1.0,
    centre: float = 0.0,
    scale: float = 1.0,
    n_slots: int = 1,
    intercept: bool = False,
) -> FactorSeries:
    """Collect data and parameters; numbers are repeated for every series.

    `count` defaults to one observation wherever `y` is not NaN.
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
    return FactorSeries(
        y=y,
        repeats=count,
        totals=np.column_stack([count.sum(1, dtype=float), count.max(1, initial=0)]).astype(float),
        covariates=np.ascontiguousarray(covariates, dtype=float),
        scatter=scatter,
        unit=np.array([centre, 1.0 / scale], dtype=float),
        a=np.full(n, a, dtype=float) if np.ndim(a) == 0 else np.array(a, dtype=float),
        loading=np.full(n, loading) * 1.0 if np.ndim(loading) == 0 else np.array(loading) * 1.0,
        var_y=np.full(n, var_y) * 1.0 if np.ndim(var_y) == 0 else np.array(var_y) * 1.0,
        beta=np.zeros((n, p)) if beta is None else np.array(beta, dtype=float).reshape(n, p),
        var_x=np.array([var_x], dtype=float),
        var_x0=float(var_x0),
        row=np.zeros((ROWS, n_times)),
        lanes=np.zeros((5, whole_vectors(n_slots))),
    )
