"""Columns that a density has no use for: few values, or one value in many rows."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from cavity.io.words import shell_word
from cavity.utils.notices import CoarseColumnsWarning

# With fewer rows nothing can be told from repeated values.
ROWS_NEEDED = 20
FEW_VALUES = 5
SPIKE = 0.25
_NAMED = 5


class Coarse(NamedTuple):
    """A column that is coarse, what is coarse about it, and whether it has few values at all."""

    name: str
    words: str
    few: bool


def coarse_columns(X: np.ndarray, names: Sequence[str]) -> list[Coarse]:
    """The columns that are coarse.

    A column of one value says nothing and does no harm: it is not among them.

    Examples
    --------
    >>> X = np.column_stack([np.arange(40) % 2, np.maximum(np.arange(40) - 20, 0), np.arange(40)])
    >>> [one.words for one in coarse_columns(X, ["sex", "rain", "size"])]
    ["column 'sex' has 2 values", "column 'rain' is 0 in 52% of the rows"]
    """
    found: list[Coarse] = []
    for name, column in zip(names, X.T, strict=True):
        column = column[~np.isnan(column)]
        if len(column) < ROWS_NEEDED:
            continue
        values, counts = np.unique(column, return_counts=True)
        share = counts.max() / len(column)
        if 1 < len(values) <= FEW_VALUES:
            found.append(Coarse(name, f"column {name!r} has {len(values)} values", True))
        elif len(values) > FEW_VALUES and share >= SPIKE:
            value = values[counts.argmax()]
            words = f"column {name!r} is {value:g} in {share:.0%} of the rows"
            found.append(Coarse(name, words, False))
    return found


def warn_of_coarse_columns(X: np.ndarray, names: Sequence[str]) -> None:
    """Say which columns are coarse and what to do about them."""
    found = coarse_columns(X, names)
    if not found:
        return
    listed = "; ".join(one.words for one in found[:_NAMED])
    if len(found) > _NAMED:
        listed += f"; and {len(found) - _NAMED} more"
    few = ",".join(f"{one.name}=categorical" for one in found if one.few)
    table = f"--types {shell_word(few)}" if few else "--model table"
    kinds = ", and those of few values as categories" if few else ""
    warnings.warn(
        f"{listed[0].upper()}{listed[1:]}. A cluster that has a single value in such a column has "
        "no width there, so that these columns tend to take the clustering over, and chains "
        "seldom agree. Leave them out (--exclude on the command line) and compare them between the "
        f"clusters afterwards, or take the table as it is with TableMixture{kinds} ({table}). "
        "Filter cavity.CoarseColumnsWarning to silence this.",
        CoarseColumnsWarning,
        stacklevel=5,
    )
