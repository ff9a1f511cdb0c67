"""Measurements that are known up to an interval or an error, drawn like missing values.

A value recorded to the nearest unit says that the measurement lies within half a unit. A value with
a standard error e says that it is normal around the measurement. Either way the measurement itself
is latent and is drawn after the labels and the clusters' parameters; the next sweep sees the new
values. All of this is exact.

* *Intervals.* Each cell is drawn from its conditional distribution given the row's other cells, its
  scale and its cluster, which is normal, truncated to the interval. This costs about as much as
  scoring a row against two clusters.
* *Errors.* Where errors are larger than clusters, a label drawn given the latent values, and those
  given the label, would hardly move. So all cells of a row that have errors, and its missing ones,
  are drawn together with its label: the label among the occupied clusters with these cells
  integrated out, then the cells. For m such cells this costs O(d^2 + m^3) per cluster, as do
  missing values.

A cell of a row outside every cluster is uniform over the box of the noise within its interval.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from cavity._numba.arrays import StateError, fitting, saved_array
from cavity._numba.jit import jit, verb
from cavity._numba.linalg import cholesky_in_place
from cavity._numba.numerics import truncated_normal
from cavity.conjugate.nig import DiagonalParameters
from cavity.conjugate.niw import GaussianParameters
from cavity.conjugate.normal import Factors, MeanParameters, Tied
from cavity.interface import log_density, log_weight, step
from cavity.likelihoods.product import Product
from cavity.priors.partition import join, leave, row_weights
from cavity.updates import LATENT_CELLS, LIKELIHOOD, Chain, Update


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
        Recorded values, NaN where missing. A missing cell is latent only in a row with errors.
    error : array, shape (n, d)
        Standard error of each value; zero where it has none. A cell has an error or an interval.

    Examples
    --------
    >>> infinite = np.full((2, 1), np.inf)
    >>> found = latent_cells(-infinite, infinite, np.ones((2, 1)), np.array([[0.0], [0.5]]))
    >>> found.start.tolist(), found.precision.tolist()
    ([0, 0, 1], [4.0])
    """
    missing = np.isnan(value)
    uncertain = (error > 0.0) & ~missing
    bounded = (np.isfinite(low) | np.isfinite(high)) & ~missing
    latent = bounded | uncertain | (missing & uncertain.any(axis=1, keepdims=True))
    if not latent.any():
        return None
    free = ~bounded
    with np.errstate(divide="ignore"):
        parts = (
            np.where(free, -np.inf, low),
            np.where(free, np.inf, high),
            np.where(missing, 0.0, value),
            np.where(uncertain, 1.0 / np.square(error), 0.0),
        )
    return LatentCells(
        np.concatenate([[0], np.cumsum(latent.sum(axis=1))]).astype(np.int64),
        np.nonzero(latent)[1].astype(np.int64),
        *(np.ascontiguousarray(part[latent]) for part in parts),
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


# --------------------------------------------------------------------------- rows with errors
# Let r be the row minus the mean of cluster k, with recorded values where cells are latent, P the
# precision of the cluster, u the row's scale, L its latent cells and T the precisions of their
# errors (zero for missing ones). With them integrated out the row's log density is
#
#     log|P|/2 - u r'Pr/2 + g'g/2 - log|R|,   R R' = u P_LL + T,   R g = u (P r)_L,
#
# up to what does not depend on k, and given k they are N(recorded - R'^-1 g, (R R')^-1).


class CellRoom(NamedTuple):
    """Room for what rows with errors come to."""

    precision: np.ndarray  # (slots, d, d)
    constant: np.ndarray  # (slots,), half the log determinant, and the constant of scales
    scores: np.ndarray  # (slots,)
    weights: np.ndarray  # (slots,)
    columns: np.ndarray  # (d,), latent ones
    known: np.ndarray  # (d,), precisions of their errors
    recorded: np.ndarray  # (d,), the row with recorded values
    away: np.ndarray  # (d,)
    pull: np.ndarray  # (d,)
    root: np.ndarray  # (d, d)


def cell_room(d: int, n_slots: int) -> CellRoom:
    """Return room for rows of d columns and so many slots; of no columns where none has errors."""
    constant, scores, weights = (np.zeros(n_slots) for _ in range(3))
    known, recorded, away, pull = (np.zeros(d) for _ in range(4))
    return CellRoom(
        precision=np.zeros((n_slots, d, d)), constant=constant, scores=scores, weights=weights,
        columns=np.zeros(d, dtype=np.int64), known=known, recorded=recorded, away=away, pull=pull,
        root=np.zeros((d, d)),
    )  # fmt: skip


@verb
def rest_density(model, parameters, k, i):
    """``log_density`` of the parts of row i other than its measurements; by default of none."""


@rest_density.register(None)
def _(model, parameters, k, i):
    return 0.0


@rest_density.register(Product)
def _(model, parameters, k, i):
    return log_density(model.rest, parameters.rest, k, i)


@jit(internal=True)
def _prepare(parameters, alpha, k, room, work):
    """Compute the precision of cluster k, and the constant of its density."""
    d = room.away.shape[0]
    y = room.away
    for c in range(d):
        y[c] = parameters.mean[c, k]
    begin_cells(parameters, k, y, work)
    for c in range(d):
        move_cell(parameters, k, c, 1.0, work)
        y[c] += 1.0
        for r in range(d):
            room.precision[k, r, c] = cell_pull(parameters, k, r, y, work)[0]
        move_cell(parameters, k, c, -1.0, work)
        y[c] = parameters.mean[c, k]
    for r in range(d):
        for c in range(d):
            room.root[r, c] = room.precision[k, r, c]
    total = 0.0
    if cholesky_in_place(room.root):
        for c in range(d):
            total += math.log(room.root[c, c])
    else:
        total = -math.inf
    if alpha < math.inf:
        total += alpha * math.log(alpha) - math.lgamma(alpha)
    room.constant[k] = total


@jit(internal=True)
def _score_row(parameters, k, m, u, room):
    """Return the log density of a row in cluster k; leaves R in `root` and g in `away`."""
    d = room.recorded.shape[0]
    for r in range(d):
        room.away[r] = room.recorded[r] - parameters.mean[r, k]
    distance = 0.0
    for r in range(d):
        s = 0.0
        for c in range(d):
            s += room.precision[k, r, c] * room.away[c]
        room.pull[r] = s
        distance += s * room.away[r]
    value = room.constant[k] - 0.5 * u * distance
    product = 1.0
    for a in range(m):
        for b in range(a + 1):
            s = u * room.precision[k, room.columns[a], room.columns[b]]
            for c in range(b):
                s -= room.root[a, c] * room.root[b, c]
            if b < a:
                room.root[a, b] = s / room.root[b, b]
        s += room.known[a]
        if not s > 0.0:
            return -math.inf
        room.root[a, a] = math.sqrt(s)
        product *= s
        if not 1e-100 < product < 1e100:
            value -= 0.5 * math.log(product)
            product = 1.0
        s = u * room.pull[room.columns[a]]
        for b in range(a):
            s -= room.root[a, b] * room.away[b]
        room.away[a] = s / room.root[a, a]
        value += 0.5 * room.away[a] * room.away[a]
    return value - 0.5 * math.log(product)


@jit(internal=True)
def _draw_with_label(
    y, u, alpha, parameters, whole, whole_parameters, prior, z, counts, i, m, room, rng
):
    """Draw the label of row i among the occupied clusters, and its m latent cells."""
    k = np.int64(z[i])
    leave(prior, counts, k)
    chosen = k
    if counts[k] > 0 and row_weights(prior, counts, i, k, room.weights):
        top = -math.inf
        for j in range(counts.shape[0]):
            room.scores[j] = -math.inf
            if counts[j] > 0 and room.weights[j] > 0.0:
                score = math.log(room.weights[j]) + _score_row(parameters, j, m, u, room)
                if alpha[j] < math.inf:
                    score += alpha[j] * (math.log(u) - u)
                room.scores[j] = score + rest_density(whole, whole_parameters, np.int64(j), i)
                top = max(top, room.scores[j])
        if top > -math.inf:
            total = 0.0
            for j in range(counts.shape[0]):
                room.scores[j] = math.exp(room.scores[j] - top)
                total += room.scores[j]
            target = rng.random() * total
            for j in range(counts.shape[0]):
                if room.scores[j] > 0.0:
                    chosen = np.int64(j)
                    target -= room.scores[j]
                    if target < 0.0:
                        break
    join(prior, counts, chosen)
    z[i] = chosen
    if _score_row(parameters, chosen, m, u, room) == -math.inf:
        return
    for a in range(m - 1, -1, -1):
        s = rng.standard_normal() - room.away[a]
        for b in range(a + 1, m):
            s -= room.root[b, a] * room.pull[b]
        room.pull[a] = s / room.root[a, a]
        c = room.columns[a]
        y[i, c] = room.recorded[c] + room.pull[a]


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
def _take_free(y, cells, i, room):
    """Put what is latent without an interval in row i into the room; return how many cells."""
    m = 0
    for at in range(cells.start[i], cells.start[i + 1]):
        if cells.low[at] > -math.inf or cells.high[at] < math.inf:
            continue
        if m == 0:
            for c in range(y.shape[1]):
                room.recorded[c] = y[i, c]
        room.columns[m] = cells.column[at]
        room.known[m] = cells.precision[at]
        room.recorded[cells.column[at]] = cells.value[at]
        m += 1
    return m


@jit(internal=True)
def _draw_bounded(y, u, parameters, cells, i, k, work, rng):
    """Draw the cells of row i that have intervals, one after another."""
    begin_cells(parameters, k, y[i], work)
    for at in range(cells.start[i], cells.start[i + 1]):
        low, high = cells.low[at], cells.high[at]
        if low == -math.inf and high == math.inf:
            continue
        c = cells.column[at]
        pull, own = cell_pull(parameters, k, c, y[i], work)
        sd = 1.0 / math.sqrt(own * u)
        drawn = truncated_normal(rng, y[i, c] - pull / own, sd, low, high)
        move_cell(parameters, k, c, drawn - y[i, c], work)
        y[i, c] = drawn


@jit(internal=True)
def draw_latent_cells(update, whole, whole_parameters, parameters, prior, z, counts, rng):
    """Draw all latent cells, and labels of rows with errors, given the clusters' parameters."""
    y, cells, room, box = update.y, update.cells, update.room, update.box
    if room.columns.shape[0] > 0:
        for k in range(counts.shape[0]):
            if counts[k] > 0:
                _prepare(parameters, update.alpha[k], np.int64(k), room, update.work)
    for i in range(z.shape[0]):
        if cells.start[i] == cells.start[i + 1]:
            continue
        if z[i] == update.noise_slot:
            for at in range(cells.start[i], cells.start[i + 1]):
                c = cells.column[at]
                low, high = (
                    max(cells.low[at], box[0, c]),
                    min(cells.high[at], box[0, c] + box[1, c]),
                )
                _draw_outside(y, i, c, low, high, cells.value[at], cells.precision[at], rng)
            continue
        m = 0
        if room.columns.shape[0] > 0:
            m = _take_free(y, cells, i, room)
        if m > 0:
            _draw_with_label(
                y, update.scale[i], update.alpha, parameters, whole, whole_parameters, prior, z,
                counts, i, m, room, rng,
            )  # fmt: skip
        if m < cells.start[i + 1] - cells.start[i]:
            own = np.int64(z[i])
            _draw_bounded(y, update.scale[i], parameters, cells, i, own, update.work, rng)


class LatentCellStep(NamedTuple):
    """`LatentCellUpdate` for kernels."""

    y: np.ndarray  # (n, d)
    scale: np.ndarray  # (n,)
    alpha: np.ndarray  # (slots,)
    noise_slot: int
    box: np.ndarray  # (2, d)
    cells: LatentCells
    row: np.ndarray  # (cells,)
    work: np.ndarray  # (d,)
    room: CellRoom


@step.register(LatentCellStep)
def _(update, model, family, parameters, prior, z, counts, rng):
    draw_latent_cells(update, model, parameters, parameters, prior, z, counts, rng)
    return 0


class CellsOfFirst(NamedTuple):
    """The same where the rows are the first part of a product: labels depend on all parts."""

    update: LatentCellStep


@step.register(CellsOfFirst)
def _(own, model, family, parameters, prior, z, counts, rng):
    draw_latent_cells(own.update, model, parameters, parameters.first, prior, z, counts, rng)
    return 0


@log_weight.register(CellsOfFirst)
def _(own, model, family, parameters, prior, counts):
    return log_weight(own.update, model.first, family.first, parameters.first, prior, counts)


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

    Labels of rows with errors are drawn with them.

    Parameters
    ----------
    model : NamedTuple
        Likelihood of the rows, whose `y` is the chain's own.
    cells : LatentCells
    """

    name = LATENT_CELLS
    changes = frozenset({LIKELIHOOD})

    def __init__(self, model: Any, cells: LatentCells) -> None:
        self.y = model.y
        self.cells = cells
        self._places = cells.row, cells.column
        self._work = np.zeros(self.y.shape[1])
        free = np.isneginf(cells.low) & np.isposinf(cells.high)
        # Without errors nothing is needed of the clusters but their conditional distributions.
        self._width = self.y.shape[1] if free.any() else 0
        self._room = cell_room(self._width, 0)

    def kernel(self, chain: Chain) -> LatentCellStep:
        """Return it for kernels."""
        model = chain.model
        noise = getattr(model, "noise_slot", None)
        if self._room.scores.size != chain.counts.size:
            self._room = cell_room(self._width, chain.counts.size)
        return LatentCellStep(
            self.y, model.scale, model.alpha, -1 if noise is None else int(noise[0]),
            np.zeros((2, 0)) if noise is None else model.box, self.cells, self._places[0],
            self._work, self._room,
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
