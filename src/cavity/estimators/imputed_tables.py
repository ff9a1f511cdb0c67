"""A table with values in its gaps: means and intervals of numbers, categories by probability."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from cavity.io.columns import CATEGORICAL, CONTINUOUS, COUNT, OVERDISPERSED, Column
from cavity.likelihoods.table_predictive import Filled, Rows, TableDraws
from cavity.posterior.units import ColumnUnits

if TYPE_CHECKING:
    import pandas as pd


class ImputedTable(NamedTuple):
    """A table with values in its gaps.

    Attributes
    ----------
    mean : DataFrame
        The table with posterior means of numbers, and the most probable categories.
    lower, upper : DataFrame
        Ends of the intervals of numbers; categories as in ``mean``.
    probability : DataFrame
        Of the category in ``mean``; 1 where a cell was there, NaN for a number that was not.
    cells : DataFrame
        The missing cells alone, by ``row`` and ``column``: ``value``, ``lower``, ``upper``,
        ``probability``.
    """

    mean: Any
    lower: Any
    upper: Any
    probability: Any
    cells: Any


def imputed_table(
    frame: pd.DataFrame,
    columns: list[Column],
    units: ColumnUnits,
    rows: Rows,
    draws: TableDraws,
    filled: Filled,
    tails: list[float],
) -> ImputedTable:
    """Put what gaps may hold into the columns of a table."""
    import pandas as pd

    tables = [frame.astype(object).copy() for _ in range(3)]
    probability = pd.DataFrame(1.0, index=frame.index, columns=frame.columns)
    found = []
    at = {CONTINUOUS: 0, CATEGORICAL: 0, COUNT: 0}
    at[OVERDISPERSED] = sum(column.kind == COUNT for column in columns)
    for j, column in enumerate(columns):
        if column.kind not in at:
            continue
        c = at[column.kind]
        at[column.kind] += 1
        if column.kind == CATEGORICAL:
            gaps = np.flatnonzero(rows.codes[:, c] < 0)
            share = filled.share[gaps, draws.levels[c] : draws.levels[c + 1]]
            best = share.argmax(axis=1) if gaps.size else np.zeros(0, dtype=int)
            values = np.array(column.categories, dtype=object)[best]
            parts: list[Any] = [values, values, values]
            chance = share[np.arange(gaps.size), best]
        else:
            continuous = column.kind == CONTINUOUS
            seen = rows.continuous if continuous else rows.counts
            gaps = np.flatnonzero(np.isnan(seen[:, c]))
            drawn = (filled.draws if continuous else filled.counted)[:, gaps, c]
            ends = np.quantile(drawn, tails, axis=0) if gaps.size else np.zeros((2, 0))
            parts = [(filled.mean if continuous else filled.rate)[gaps, c], *ends]
            if continuous:
                parts = [part * units.scale[c] + units.centre[c] for part in parts]
            chance = np.full(gaps.size, np.nan)
        for table, part in zip(tables, parts, strict=True):
            table.iloc[gaps, j] = part
        probability.iloc[gaps, j] = chance
        ends_of = parts[1:] if column.kind != CATEGORICAL else [np.full(gaps.size, np.nan)] * 2
        found += list(zip(gaps.tolist(), [j] * gaps.size, parts[0], *ends_of, chance, strict=True))
    for table in tables:
        for j, column in enumerate(columns):
            if column.kind != CATEGORICAL:
                table.isetitem(j, pd.to_numeric(table.iloc[:, j]).to_numpy())
    found.sort(key=lambda cell: cell[:2])
    index = [[frame.index[cell[0]] for cell in found], [columns[cell[1]].name for cell in found]]
    cells = pd.DataFrame(
        [cell[2:] for cell in found],
        columns=["value", "lower", "upper", "probability"],
        index=pd.MultiIndex.from_arrays(index, names=["row", "column"]),
    )
    mean, lower, upper = tables
    return ImputedTable(mean, lower, upper, probability, cells)
