"""Columns that a density cannot describe: few distinct values, or one dominant value."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from cavity.io.words import shell_word
from cavity.utils.notices import CoarseColumnsWarning

# With fewer rows repeated values are no evidence.
ROWS_NEEDED = 20
FEW_VALUES = 5
SPIKE = 0.25
_NAMED = 5


class Coarse(NamedTuple):
    """A coarse column, the reason in words, and whether it has few distinct values."""

    name: str
    words: str
    few: bool


def coarse_columns(X: np.ndarray, names: Sequence[str]) -> list[Coarse]:
    """Return the coarse columns.

    A constant column is uninformative and harmless, so it is not included.

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
    """Warn about coarse columns, with the fix."""
    found = coarse_columns(X, names)
    if not found:
        return
    listed = "; ".join(one.words for one in found[:_NAMED])
    if len(found) > _NAMED:
        listed += f"; and {len(found) - _NAMED} more"
    few = ",".join(f"{one.name}=categorical" for one in found if one.few)
    table = f"--types {shell_word(few)}" if few else "--model table"
    kinds = ", with columns of few values as categories" if few else ""
    warnings.warn(
        f"{listed[0].upper()}{listed[1:]}. Such columns tend to dominate the clustering, because a "
        "cluster with a single value in them has no spread, and chains seldom agree. Leave them "
        "out (--exclude on the command line) and compare them between the clusters afterwards, or "
        f"use TableMixture{kinds} ({table}). "
        "Filter cavity.CoarseColumnsWarning to silence this.",
        CoarseColumnsWarning,
        stacklevel=5,
    )
