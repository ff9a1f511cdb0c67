"""Imputation: posterior means and intervals of missing values, probabilities of categories."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from cavity._numba.jit import jit
from cavity.conjugate.marginal import fill_gaps
from cavity.io.columns import CATEGORICAL, CONTINUOUS, COUNT, OVERDISPERSED, Cells, Column
from cavity.io.frames import is_frame
from cavity.posterior.units import ColumnUnits
from cavity.predict.densities import cell_densities, partial_density, partial_rows, slots_last
from cavity.predict.draws import MixtureDraws, Rows, draw_counts

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
        Of the category in ``mean``; 1 for an observed cell, NaN for a missing number.
    cells : DataFrame
        The missing cells alone, by ``row`` and ``column``: ``value``, ``lower``, ``upper``,
        ``probability``.
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


def fill_rows(
    draws: MixtureDraws,
    rows: Rows,
    own: np.ndarray,
    level: float,
    random_state: int | np.random.Generator | None = 0,
    n_values: int = N_VALUES,
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
    """
    n, d = rows.continuous.shape
    n_draws, n_counts = draws.start.size - 1, rows.counts.shape[1]
    n_each = max(-(-n_values // n_draws), 1)
    tails = [0.5 - 0.5 * level, 0.5 + 0.5 * level]
    rng, packed = np.random.default_rng(random_state), slots_last(draws)
    out = Filled(
        np.full((3, n, d), np.nan),
        np.full((3, n, n_counts), np.nan),
        np.empty((n, draws.share.shape[1])),
    )
    # About fifty megabytes of draws at a time.
    step = max(1, 6_000_000 // max(n_draws * n_each * max(d, 1), draws.alpha.size))
    for first in range(0, n, step):
        piece = slice(first, first + step)
        some = rows.take(piece)
        partial = partial_rows(some.continuous)
        mean = np.zeros(partial.gaps.size)
        values = np.empty((partial.gaps.size, n_draws * n_each))
        probability = np.zeros((len(some.codes), draws.alpha.size))
        entry = np.empty((len(some.codes), n_draws * n_each), dtype=np.int64)
        impute_rows(
            packed, partial, cell_densities(draws, some), own[piece], n_each, mean, values,
            probability, entry, np.empty(draws.alpha.size), rng,
        )  # fmt: skip
        at = np.isnan(some.continuous)
        if at.any():
            out.continuous[:, piece][:, at] = [mean, *np.quantile(values, tails, axis=1)]
        out.share[piece] = probability @ draws.share
        rate = probability @ draws.rate
        for j in range(n_counts):
            gap = np.flatnonzero(np.isnan(some.counts[:, j]))
            if gap.size:
                drawn = draw_counts(draws.rate[entry[gap], j], draws.size[entry[gap], j], rng)
                ends = np.quantile(drawn, tails, axis=1)
                out.counts[:, first + gap, j] = [rate[gap, j], *ends]
    return out


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
        if column.kind not in position:
            for table in values:
                table.append(np.full(n, np.nan))
            continue
        c = position[column.kind]
        position[column.kind] += 1
        if column.kind == CATEGORICAL:
            if frame is None:
                raise ValueError("an array of numbers has no categories")
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
            gaps = np.flatnonzero(np.isnan(seen))
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
