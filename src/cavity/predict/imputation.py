"""Imputation: posterior means and intervals of missing values, probabilities of categories."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from cavity._numba.jit import jit
from cavity.conjugate.marginal import fill_gaps
from cavity.io.columns import CATEGORICAL, CONTINUOUS, COUNT, ORDINAL, OVERDISPERSED, Cells, Column
from cavity.io.frames import is_frame
from cavity.posterior.units import ColumnUnits
from cavity.predict.densities import cell_densities, partial_density, partial_rows, slots_last
from cavity.predict.draws import MixtureDraws, Rows, draw_counts
from cavity.predict.latent_rows import draw_latent_rows, entries_of, latent_rows, room_for

if TYPE_CHECKING:
    import pandas as pd

# Draws of each missing value that intervals are quantiles of, about.
N_VALUES = 2000


class Imputed(NamedTuple):
    """A table with its missing values imputed.

    Attributes
    ----------
    mean : array or DataFrame
        The table with posterior means of numbers, and the most probable categories.
    lower, upper : array or DataFrame
        Ends of the intervals of numbers; categories as in ``mean``.
    probability : array or DataFrame
        Of the category in ``mean``; 1 for an observed cell, NaN for a missing number and one with
        an error.
    cells : DataFrame
        The missing cells and those with errors alone, by ``row`` and ``column``: ``value``,
        ``lower``, ``upper``, ``probability``.
    """

    mean: Any
    lower: Any
    upper: Any
    probability: Any
    cells: Any


@jit
def impute_rows(draws, rows, cells, own, n_each, mean, values, probability, entry, scratch, rng):
    """Compute the posterior mean of every missing continuous value, and draw it.

    Parameters
    ----------
    draws : MixtureDraws
        After `slots_last`.
    rows : PartialRows
    cells : array, shape (entry, n)
        Log weight plus log density of categories and counts.
    own : array of int, shape (n, draw)
        The entry that each row belongs to in each draw; -1 for a row that may belong to any.
    n_each : int
        Values drawn from each draw.
    mean : array, shape (cells,)
        Means are added here.
    values : array, shape (cells, draw * n_each)
    probability : array, shape (n, entry)
        Probability of every entry, over all draws.
    entry : array of int, shape (n, draw * n_each)
        The entry that each value is drawn from.
    """
    n_draws = draws.start.shape[0] - 1
    for i in range(rows.X.shape[0]):
        at = rows.start[i]
        m = rows.start[i + 1] - at
        for s in range(n_draws):
            first, last = draws.start[s], draws.start[s + 1]
            if own[i, s] >= 0:
                first, last = own[i, s], own[i, s] + 1
            top = -math.inf
            for k in range(first, last):
                scratch[k] = cells[k, i] + partial_density(draws, rows, i, k)[0]
                top = max(top, scratch[k])
            total = 0.0
            for k in range(first, last):
                scratch[k] = math.exp(scratch[k] - top) if top > -math.inf else 1.0
                total += scratch[k]
            for k in range(first, last):
                probability[i, k] = scratch[k] / (total * n_draws)
                # The mean given the cluster: as a draw with no spread.
                if m > 0 and scratch[k] > 1e-12 * total:
                    partial_density(draws, rows, i, k)
                    fill_gaps(rows.X[i], draws.mean[:, k], 0.0, rows.room, m, rng)
                    for a in range(m):
                        value = rows.X[i, rows.gaps[at + a]]
                        mean[at + a] += scratch[k] / (total * n_draws) * value
            for t in range(n_each):
                target = rng.random() * total
                chosen = first
                for k in range(first, last):
                    if scratch[k] > 0.0:
                        chosen = k
                        target -= scratch[k]
                        if target < 0.0:
                            break
                entry[i, s * n_each + t] = chosen
                if m == 0:
                    continue
                delta = partial_density(draws, rows, i, chosen)[1]
                u = 1.0
                alpha = draws.alpha[chosen]
                if alpha < math.inf:
                    shape = alpha + 0.5 * (rows.X.shape[1] - m)
                    u = max(rng.standard_gamma(shape), 1e-290) / (alpha + 0.5 * delta)
                fill_gaps(rows.X[i], draws.mean[:, chosen], 1.0 / math.sqrt(u), rows.room, m, rng)
                for a in range(m):
                    values[at + a, s * n_each + t] = rows.X[i, rows.gaps[at + a]]


class Filled(NamedTuple):
    """Imputed values of some rows in the model's units; NaN where a value is observed."""

    continuous: np.ndarray  # (3, n, d): mean, lower and upper end
    counts: np.ndarray  # (3, n, counts)
    share: np.ndarray  # (n, P), probability of every category given the row
    ordinal: dict[int, np.ndarray]  # by continuous column, (n, categories), the same


def fill_rows(
    draws: MixtureDraws,
    rows: Rows,
    own: np.ndarray,
    level: float,
    random_state: int | np.random.Generator | None = 0,
    n_values: int = N_VALUES,
    thresholds: Mapping[int, np.ndarray] | None = None,
) -> Filled:
    """Impute the missing values of rows given their observed ones.

    Parameters
    ----------
    draws : MixtureDraws
    rows : Rows
    own : array of int, shape (n, draw)
        The entry of each row in each draw, or -1 if it is unknown.
    level : float
        Probability of the intervals.
    random_state : int or Generator
    n_values : int
        Draws of each value that the intervals are quantiles of, about.
    thresholds : mapping of int to array, optional
        Those of ordinal columns, by place among the continuous ones.
    """
    thresholds = {} if thresholds is None else thresholds
    n, d = rows.continuous.shape
    n_draws, n_counts = draws.start.size - 1, rows.counts.shape[1]
    n_each = max(-(-n_values // n_draws), 1)
    tails = [0.5 - 0.5 * level, 0.5 + 0.5 * level]
    rng = np.random.default_rng(random_state)
    out = Filled(
        np.full((3, n, d), np.nan),
        np.full((3, n, n_counts), np.nan),
        np.empty((n, draws.share.shape[1])),
        {c: np.empty((n, ends.size + 1)) for c, ends in thresholds.items()},
    )
    # About fifty megabytes of draws at a time.
    step = max(1, 6_000_000 // max(n_draws * n_each * max(d, 1), draws.alpha.size))
    latent = rows.latent | bool(thresholds)
    for fill, members in ((_fill_missing, ~latent), (_fill_latent, latent)):
        places = np.flatnonzero(members)
        for first in range(0, places.size, step):
            piece = places[first : first + step]
            some = rows.take(piece)
            numbers, probability, entry, values = fill(draws, some, own[piece], n_each, tails, rng)
            out.continuous[:, piece] = numbers
            for c, ends in thresholds.items():
                codes = np.searchsorted(ends, values[:, :, c])
                out.ordinal[c][piece] = (codes[..., None] == np.arange(ends.size + 1)).mean(axis=1)
            out.share[piece] = probability @ draws.share
            rate = probability @ draws.rate
            for j in range(n_counts):
                gap = np.flatnonzero(np.isnan(some.counts[:, j]))
                if gap.size:
                    drawn = draw_counts(draws.rate[entry[gap], j], draws.size[entry[gap], j], rng)
                    ends = np.quantile(drawn, tails, axis=1)
                    out.counts[:, piece[gap], j] = [rate[gap, j], *ends]
    return out


def _fill_missing(
    draws: MixtureDraws,
    rows: Rows,
    own: np.ndarray,
    n_each: int,
    tails: list[float],
    rng: np.random.Generator,
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Return means and interval ends of missing values, (3, n, d), and the draws' entries."""
    n, n_values = len(rows.codes), (draws.start.size - 1) * n_each
    partial = partial_rows(rows.continuous)
    mean = np.zeros(partial.gaps.size)
    values = np.empty((partial.gaps.size, n_values))
    probability = np.zeros((n, draws.alpha.size))
    entry = np.empty((n, n_values), dtype=np.int64)
    impute_rows(
        slots_last(draws), partial, cell_densities(draws, rows), own, n_each, mean, values,
        probability, entry, np.empty(draws.alpha.size), rng,
    )  # fmt: skip
    out = np.full((3, *rows.continuous.shape), np.nan)
    at = np.isnan(rows.continuous)
    if at.any():
        out[:, at] = [mean, *np.quantile(values, tails, axis=1)]
    return out, probability, entry, values


def _fill_latent(
    draws: MixtureDraws,
    rows: Rows,
    own: np.ndarray,
    n_each: int,
    tails: list[float],
    rng: np.random.Generator,
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Return the same of rows with errors or ordinal cells, for all cells that are not exact."""
    n, n_values = len(rows.codes), (draws.start.size - 1) * n_each
    values = np.empty((n, n_values, rows.continuous.shape[1]))
    probability = np.zeros((n, draws.alpha.size))
    entry = np.empty((n, n_values), dtype=np.int64)
    draw_latent_rows(
        entries_of(draws), draws.start, latent_rows(rows), cell_densities(draws, rows), own, n_each,
        values, probability, entry, np.empty(draws.alpha.size), room_for(values.shape[2]), rng,
    )  # fmt: skip
    out = np.array([values.mean(axis=1), *np.quantile(values, tails, axis=1)])
    known = ~(np.isnan(rows.continuous) | rows.uncertain)
    out[:, known] = np.nan
    return out, probability, entry, values


def imputed_table(
    X: Any,
    frame: pd.DataFrame | None,
    columns: list[Column],
    units: ColumnUnits,
    cells: Cells,
    levels: np.ndarray,
    filled: Filled,
) -> Imputed:
    """Put imputed values into a table like X.

    Parameters
    ----------
    X : array or DataFrame
    frame : DataFrame or None
        X as a DataFrame; None for an array of numbers alone.
    columns : list of Column
    units : ColumnUnits
        Of the continuous columns.
    cells : Cells
        The cells of X.
    levels : array of int
        Where the categories of each column begin among all.
    filled : Filled
    """
    import pandas as pd

    values: tuple[list[Any], list[Any], list[Any]] = ([], [], [])
    probability, found = [], []
    position = {CONTINUOUS: 0, CATEGORICAL: 0, COUNT: 0}
    position[OVERDISPERSED] = cells.counts.shape[1]
    counts = np.hstack([cells.counts, cells.overdispersed])
    n = len(cells)
    for j, column in enumerate(columns):
        chance = np.ones(n)
        probability.append(chance)
        kind = CONTINUOUS if column.measured else column.kind
        if kind not in position:
            for table in values:
                table.append(np.full(n, np.nan))
            continue
        c = position[kind]
        position[kind] += 1
        if column.kind in (CATEGORICAL, ORDINAL):
            if frame is None:
                raise ValueError("an array of numbers has no categories")
            if column.kind == ORDINAL:
                gaps = np.flatnonzero(np.isnan(cells.continuous[:, c]))
                share = filled.ordinal[c][gaps]
            else:
                gaps = np.flatnonzero(cells.codes[:, c] < 0)
                share = filled.share[gaps, levels[c] : levels[c + 1]]
            best = share.argmax(axis=1) if gaps.size else np.zeros(0, dtype=int)
            names = np.array(column.categories, dtype=object)[best]
            chance[gaps] = share[np.arange(gaps.size), best]
            own = frame.iloc[:, j].astype(object).to_numpy(copy=True)
            own[gaps] = names
            for table in values:
                table.append(own)
            ends = [names, np.full(gaps.size, np.nan), np.full(gaps.size, np.nan)]
        else:
            seen = cells.continuous[:, c] if column.kind == CONTINUOUS else counts[:, c]
            wanted = np.isnan(seen)
            if column.kind == CONTINUOUS and cells.errors is not None:
                wanted |= cells.errors[:, c] > 0.0
            gaps = np.flatnonzero(wanted)
            if column.kind == CONTINUOUS:
                ends = [*(filled.continuous[:, gaps, c] * units.scale[c] + units.centre[c])]
            else:
                ends = [*filled.counts[:, gaps, c]]
            chance[gaps] = np.nan
            for table, part in zip(values, ends, strict=True):
                own = seen.copy()
                own[gaps] = part
                table.append(own)
        found.append(
            pd.DataFrame(
                {
                    "row": gaps,
                    "column": j,
                    "value": ends[0],
                    "lower": ends[1],
                    "upper": ends[2],
                    "probability": chance[gaps],
                }
            )
        )
    index = pd.RangeIndex(n) if frame is None else frame.index
    missing = [part for part in found if len(part)] or found[:1]
    listed = pd.concat(missing, ignore_index=True).sort_values(["row", "column"])
    names = [column.name for column in columns]
    listed["column"] = [names[j] for j in listed["column"]]
    listed["row"] = index[listed["row"].to_numpy(dtype=int)]
    listed = listed.set_index(["row", "column"])
    mean, lower, upper, chances = (_like(X, frame, t) for t in (*values, probability))
    return Imputed(mean, lower, upper, chances, listed)


def _like(X: Any, frame: pd.DataFrame | None, columns: list[Any]) -> Any:
    """Return columns as a DataFrame if X is one, else as an array."""
    if not is_frame(X) or frame is None:
        return np.column_stack(columns)
    import pandas as pd

    out = pd.DataFrame(dict(enumerate(columns)), index=frame.index)
    out.columns = frame.columns
    return out
