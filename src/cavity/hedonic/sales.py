"""Tables of sales: what a fit and a prediction need of them, and what they cannot take."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from cavity.hedonic.design import month_labels, month_numbers

if TYPE_CHECKING:
    import pandas as pd


class Rows(NamedTuple):
    """Sales in the form the local models take: one entry per sale."""

    month: np.ndarray
    region: np.ndarray
    splines: np.ndarray


def check_table(X: Any, region: str, date: str, features: Sequence[str]) -> pd.DataFrame:
    """Refuse sales that are not a table, lack a column, or have no region."""
    import pandas as pd

    if not isinstance(X, pd.DataFrame):
        raise TypeError(f"Sales must come as a pandas DataFrame; got {type(X).__name__}.")
    missing = [c for c in (region, date, *features) if c not in X.columns]
    if missing:
        raise ValueError(
            f"The sales lack the column(s) {', '.join(map(repr, missing))}; name yours by the "
            "arguments region, date and features."
        )
    if X[region].isna().any():
        row = int(np.argmax(X[region].isna().to_numpy()))
        raise ValueError(f"Column {region!r} has no value in row {row}.")
    return X


def check_prices(y: Any, n_sales: int) -> np.ndarray:
    """Refuse prices that are not one per sale, positive and finite."""
    price = np.asarray(y, dtype=float)
    if price.shape != (n_sales,):
        raise ValueError(f"y must have one price per sale: {n_sales}; got {price.shape}.")
    bad = ~(np.isfinite(price) & (price > 0))
    if bad.any():
        row = int(np.argmax(bad))
        raise ValueError(f"Prices must be positive and finite; row {row} is {price[row]}.")
    if not n_sales:
        raise ValueError("There are no sales to fit.")
    return price


def region_positions(table: pd.DataFrame, column: str, regions: np.ndarray) -> np.ndarray:
    """Position of each sale's region among those of the fit; others are refused by name."""
    names = table[column].astype(str).to_numpy()
    position = np.searchsorted(regions, names)
    unknown = regions[np.minimum(position, len(regions) - 1)] != names
    if unknown.any():
        row = int(np.argmax(unknown))
        raise ValueError(
            f"Column {column!r}, row {row}: no sales were seen in the region {names[row]!r} "
            f"({len(set(names[unknown]))} such region(s), {unknown.sum()} row(s)). Leave such rows "
            "out, or fit with sales from there."
        )
    return position


def known_months(
    table: pd.DataFrame, column: str, first: int, last: int, horizon: int
) -> np.ndarray:
    """Month of each sale; those before the fit or beyond the horizon are refused by name."""
    months = month_numbers(table[column], column)
    odd = (months < first) | (months > last + horizon)
    if odd.any():
        row = int(np.argmax(odd))
        asked, start, end = month_labels([months[row], first, last + horizon])
        why = (
            f"lies before the first sale of the fit, {start}"
            if months[row] < first
            else f"lies after {end}, horizon={horizon} months after the last sale of the fit"
        )
        raise ValueError(
            f"Column {column!r}, row {row}: {asked} {why}. Leave such rows out, or fit with sales "
            "of that time."
        )
    return months
