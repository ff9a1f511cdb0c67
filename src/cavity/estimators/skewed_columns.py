"""Columns that a symmetric density has no use for, and whose logarithms it has."""

from __future__ import annotations

import warnings
from collections.abc import Sequence

import numpy as np

from cavity.core.notices import SkewedColumnsWarning
from cavity.core.words import enumerate_words
from cavity.reading.words import shell_word

# With fewer rows, or of fewer values, nothing can be told of tails.
ROWS_NEEDED = 40
VALUES_NEEDED = 20
# How much further the 95th percentile is from the median than the 5th, as a share of the sum; of
# that the logarithms must have less than half. The third moment keeps two groups of unequal size,
# which have such quantiles as well, out of it.
ONE_SIDED = 0.45
SKEWNESS = 1.5
_NAMED = 8


def is_skewed(values: np.ndarray) -> bool:
    """Whether a column has a long tail to the right that its logarithms have not.

    Examples
    --------
    >>> incomes = np.exp(np.random.default_rng(0).normal(size=200))
    >>> is_skewed(incomes), is_skewed(np.log(incomes)), is_skewed(np.log(incomes) + 10.0)
    (True, False, False)
    """
    values = values[~np.isnan(values)]
    if len(values) < ROWS_NEEDED or values.min() <= 0.0:
        return False
    if len(np.unique(values)) < VALUES_NEEDED:
        return False
    raw, logs = _one_sided(values), _one_sided(np.log(values))
    if raw < ONE_SIDED or abs(logs) > 0.5 * raw:
        return False
    standard = (values - values.mean()) / values.std()
    return float(np.mean(standard**3)) > SKEWNESS


def _one_sided(values: np.ndarray) -> float:
    low, middle, high = np.quantile(values, [0.05, 0.5, 0.95])
    return float((high - 2.0 * middle + low) / (high - low)) if high > low else 0.0


def warn_of_skewed_columns(X: np.ndarray, names: Sequence[str]) -> None:
    """Say of which columns the logarithm should be taken, and why."""
    found = [name for name, column in zip(names, X.T, strict=True) if is_skewed(column)]
    if not found:
        return
    listed = enumerate_words([repr(name) for name in found[:_NAMED]])
    if len(found) > _NAMED:
        listed = (
            f"{', '.join(repr(name) for name in found[:_NAMED])} and {len(found) - _NAMED} more"
        )
    one = len(found) == 1
    warnings.warn(
        f"Column{'' if one else 's'} {listed} {'has' if one else 'have'} a long tail to the right "
        f"that {'its logarithm has' if one else 'their logarithms have'} not. Clusters are "
        "symmetric about their centres, so that a tail of one group is taken for further groups. "
        f"Take the logarithm{'' if one else 's'} first (numpy.log; on the command line --log "
        f"{shell_word(','.join(found))}). Filter cavity.SkewedColumnsWarning to silence this.",
        SkewedColumnsWarning,
        stacklevel=3,
    )
