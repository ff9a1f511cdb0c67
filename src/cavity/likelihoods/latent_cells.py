"""Measurements that are known up to an interval or an error, drawn like missing values.

A value recorded to the nearest unit says that the measurement lies within half a unit. A value with
a standard error e says that it is normal around the measurement. Either way the measurement itself
is latent: after the labels and the clusters' parameters it is drawn from its conditional
distribution given the row's other cells, its scale and its cluster, which is normal, times the
error's density, truncated to the interval. The next sweep sees the new values. All of this is
exact, and costs about as much as scoring a row against two clusters.

A cell of a row outside every cluster is uniform over the box of the noise within its interval.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from cavity._numba.arrays import StateError, fitting, saved_array
from cavity._numba.jit import jit, verb
from cavity._numba.numerics import truncated_normal
from cavity.conjugate.nig import DiagonalParameters
from cavity.conjugate.niw import GaussianParameters
from cavity.conjugate.normal import Factors, MeanParameters, Tied
from cavity.interface import log_weight, step
from cavity.updates import LIKELIHOOD, Chain, Update


class LatentCells(NamedTuple):
    """Cells that are known up to an interval or an error, row by row.

    Attributes
    ----------
    start : array of int, shape (n + 1,)
        Where the cells of each row begin.
    column : array of int, shape (cells,)
    low, high : array, shape (cells,)
        Ends of the interval; infinite where there is none.
    value, precision : array, shape (cells,)
        Recorded value and one over its squared error; a precision of zero where there is none.
    """

    start: np.ndarray
    column: np.ndarray
    low: np.ndarray
    high: np.ndarray
    value: np.ndarray
    precision: np.ndarray

    @property
    def row(self) -> np.ndarray:
        """Row of each cell."""
        return np.repeat(np.arange(self.start.size - 1), np.diff(self.start))

    def first(self, n: int) -> LatentCells:
        """Return those of the first n rows."""
        start = self.start[: n + 1]  # there may be fewer rows
        last = start[-1]
        return LatentCells(start, *(values[:last] for values in self[1:]))


def latent_cells(
    low: np.ndarray, high: np.ndarray, value: np.ndarray, error: np.ndarray
) -> LatentCells | None:
    """Return the latent cells of a table, or None if it has none.

    Parameters
    ----------
    low, high : array, shape (n, d)
        Interval of each cell; infinite ends where it has none.
    value : array, shape (n, d)
        Recorded values, NaN where missing. A missing cell is no latent cell.
    error : array, shape (n, d)
        Standard error of each value; zero where it has none.

    Examples
    --------
    >>> infinite = np.full((2, 1), np.inf)
    >>> found = latent_cells(-infinite, infinite, np.ones((2, 1)), np.array([[0.0], [0.5]]))
    >>> found.start.tolist(), found.precision.tolist()
    ([0, 0, 1], [4.0])
    """
    latent = (np.isfinite(low) | np.isfinite(high) | (error > 0.0)) & ~np.isnan(value)
    if not latent.any():
        return None
    with np.errstate(divide="ignore"):
        precision = np.where(error > 0.0, 1.0 / np.square(error), 0.0)
    return LatentCells(
        np.concatenate([[0], np.cumsum(latent.sum(axis=1))]).astype(np.int64),
        np.nonzero(latent)[1].astype(np.int64),
        *(np.ascontiguousarray(part[latent]) for part in (low, high, value, precision)),
    )


# --------------------------------------------------------------------------- conditional normals
# With P the precision of cluster k, one column of a row given the others is N(y_c - g_c / P_cc,
# 1 / P_cc), g = P (y - mean). `work` holds what keeps g cheap to bring up to date.


@verb
def begin_cells(parameters, k, y, work):
    """Write what the cells of row y have in common into `work`."""


@verb
def cell_pull(parameters, k, c, y, work):
    """Return g_c and P_cc."""


@verb
def move_cell(parameters, k, c, step, work):
    """Bring `work` up to date after y_c has grown by `step`."""


@begin_cells.register(GaussianParameters)
def _(parameters, k, y, work):
    for r in range(y.shape[0]):
        s = 0.0
        for c in range(r + 1):
            s += parameters.whiten[r, c, k] * (y[c] - parameters.mean[c, k])
        work[r] = s


@cell_pull.register(GaussianParameters)
def _(parameters, k, c, y, work):
    pull = precision = 0.0
    for r in range(c, y.shape[0]):
        w = parameters.whiten[r, c, k]
        pull += w * work[r]
        precision += w * w
    return pull, precision


@move_cell.register(GaussianParameters)
def _(parameters, k, c, step, work):
    for r in range(c, parameters.mean.shape[0]):
        work[r] += parameters.whiten[r, c, k] * step


@begin_cells.register(DiagonalParameters)
def _(parameters, k, y, work):
    return None


@cell_pull.register(DiagonalParameters)
def _(parameters, k, c, y, work):
    precision = 1.0 / parameters.variance[c, k]
    return precision * (y[c] - parameters.mean[c, k]), precision


@move_cell.register(DiagonalParameters)
def _(parameters, k, c, step, work):
    return None


@begin_cells.register(MeanParameters)
def _(parameters, k, y, work):
    begin_given(parameters.covariance, parameters.mean, k, y, work)


@cell_pull.register(MeanParameters)
def _(parameters, k, c, y, work):
    return pull_given(parameters.covariance, parameters.mean, k, c, y, work)


@move_cell.register(MeanParameters)
def _(parameters, k, c, step, work):
    move_given(parameters.covariance, k, c, step, work)


@verb
def begin_given(covariance, mean, k, y, work):
    """``begin_cells`` for a form of covariance."""


@verb
def pull_given(covariance, mean, k, c, y, work):
    """``cell_pull`` for a form of covariance."""


@verb
def move_given(covariance, k, c, step, work):
    """``move_cell`` for a form of covariance."""


@begin_given.register(Tied)
def _(covariance, mean, k, y, work):
    for r in range(y.shape[0]):
        s = 0.0
        for c in range(r + 1):
            s += covariance.whiten[r, c] * (y[c] - mean[c, k])
        work[r] = s


@pull_given.register(Tied)
def _(covariance, mean, k, c, y, work):
    pull = precision = 0.0
    for r in range(c, y.shape[0]):
        w = covariance.whiten[r, c]
        pull += w * work[r]
        precision += w * w
    return pull, precision


@move_given.register(Tied)
def _(covariance, k, c, step, work):
    for r in range(c, covariance.whiten.shape[0]):
        work[r] += covariance.whiten[r, c] * step


# P = D^-1/2 (I - B'B) D^-1/2 with B = R^-1 A', the rows of `project`.


@begin_given.register(Factors)
def _(covariance, mean, k, y, work):
    for f in range(covariance.project.shape[0]):
        s = 0.0
        for c in range(y.shape[0]):
            s += covariance.project[f, c, k] * covariance.root[c, k] * (y[c] - mean[c, k])
        work[f] = s


@pull_given.register(Factors)
def _(covariance, mean, k, c, y, work):
    root = covariance.root[c, k]
    pull = root * (y[c] - mean[c, k])
    precision = 1.0
    for f in range(covariance.project.shape[0]):
        b = covariance.project[f, c, k]
        pull -= b * work[f]
        precision -= b * b
    return root * pull, root * root * precision


@move_given.register(Factors)
def _(covariance, k, c, step, work):
    for f in range(covariance.project.shape[0]):
        work[f] += covariance.project[f, c, k] * covariance.root[c, k] * step


# --------------------------------------------------------------------------- draws


@jit(internal=True)
def _draw_outside(y, i, c, low, high, value, precision, rng):
    """Draw a cell of a row outside every cluster, uniform where nothing else is known."""
    if not low < high:
        return
    if precision > 0.0:
        y[i, c] = truncated_normal(rng, value, 1.0 / math.sqrt(precision), low, high)
    else:
        y[i, c] = low + (high - low) * rng.random()


@jit(internal=True)
def draw_latent_cells(y, scale, noise_slot, box, parameters, z, cells, work, rng):
    """Draw all latent cells given labels, scales of the rows and the clusters' parameters."""
    for i in range(z.shape[0]):
        first, last = cells.start[i], cells.start[i + 1]
        if first == last:
            continue
        k = np.int64(z[i])
        outside = k == noise_slot
        if not outside:
            begin_cells(parameters, k, y[i], work)
        for at in range(first, last):
            c = cells.column[at]
            low, high = cells.low[at], cells.high[at]
            value, known = cells.value[at], cells.precision[at]
            if outside:
                low, high = max(low, box[0, c]), min(high, box[0, c] + box[1, c])
                _draw_outside(y, i, c, low, high, value, known, rng)
                continue
            pull, own = cell_pull(parameters, k, c, y[i], work)
            mean = y[i, c] - pull / own
            precision = own * scale[i] + known
            mean = (own * scale[i] * mean + known * value) / precision
            sd = 1.0 / math.sqrt(precision)
            if low == -math.inf and high == math.inf:
                drawn = mean + sd * rng.standard_normal()
            else:
                drawn = truncated_normal(rng, mean, sd, low, high)
            move_cell(parameters, k, c, drawn - y[i, c], work)
            y[i, c] = drawn


class LatentCellStep(NamedTuple):
    """`LatentCellUpdate` for kernels."""

    y: np.ndarray  # (n, d)
    scale: np.ndarray  # (n,)
    noise_slot: int
    box: np.ndarray  # (2, d)
    cells: LatentCells
    row: np.ndarray  # (cells,)
    work: np.ndarray  # (d,)


@step.register(LatentCellStep)
def _(update, model, family, parameters, prior, z, counts, rng):
    draw_latent_cells(
        update.y,
        update.scale,
        update.noise_slot,
        update.box,
        parameters,
        z,
        update.cells,
        update.work,
        rng,
    )
    return 0


@jit(internal=True)
def log_density_of_errors(y, row, column, value, precision):
    """Log density of recorded values that have errors, given the latent ones."""
    total = 0.0
    for at in range(row.shape[0]):
        if precision[at] > 0.0:
            away = y[row[at], column[at]] - value[at]
            total += 0.5 * (math.log(precision[at] / (2.0 * math.pi)) - precision[at] * away * away)
    return total


@log_weight.register(LatentCellStep)
def _(update, model, family, parameters, prior, counts):
    cells = update.cells
    return log_density_of_errors(update.y, update.row, cells.column, cells.value, cells.precision)


class LatentCellUpdate(Update):
    """Draws the latent cells of a chain's rows after the clusters' parameters.

    Parameters
    ----------
    model : NamedTuple
        Likelihood of the rows, whose `y` is the chain's own.
    cells : LatentCells
    """

    name = "latent_cells"
    changes = frozenset({LIKELIHOOD})

    def __init__(self, model: Any, cells: LatentCells) -> None:
        self.y = model.y
        self.cells = cells
        self._places = cells.row, cells.column
        self._work = np.zeros(self.y.shape[1])

    def kernel(self, chain: Chain) -> LatentCellStep:
        """Return it for kernels."""
        model = chain.model
        noise = getattr(model, "noise_slot", None)
        return LatentCellStep(
            self.y, model.scale, -1 if noise is None else int(noise[0]),
            np.zeros((2, 0)) if noise is None else model.box, self.cells, self._places[0],
            self._work,
        )  # fmt: skip

    def arrays(self) -> dict[str, np.ndarray]:
        """Return the latent values, row by row."""
        return {"values": self.y[self._places]}

    def restore(self, arrays: Mapping[str, np.ndarray], chain: Chain) -> None:
        """Continue from ``arrays``."""
        values = fitting(saved_array(arrays, "values"), self.y[self._places], "values")
        if not np.all((values >= self.cells.low) & (values <= self.cells.high)):
            raise StateError("a latent value of the saved state lies outside its interval")
        self.y[self._places] = values
