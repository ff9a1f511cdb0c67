"""Weights and known labels of rows, as a user gives them."""

from __future__ import annotations

import warnings
from numbers import Real
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from cavity.estimators.validation import check_names
from cavity.posterior.record import (
    DATA,
    ERRORS,
    KNOWN,
    KNOWN_NAMES,
    NOISE_BOX,
    STEPS,
    WEIGHTS,
)
from cavity.utils.notices import WeightsWarning
from cavity.utils.text import shown

if TYPE_CHECKING:
    from cavity.priors.rows import RowPlaces

# Weights of mean one are rounded to this fraction, which makes their sums exact whatever their
# order, and multiplying all of them by a constant changes nothing.
GRAIN = 2.0**-20
# Smallest weight. Below it the likelihood is negligible, and the scale underflows.
LEAST_WEIGHT = 1e-3
# Rows that count for more than this many others are warned of.
HEAVY = 10.0
UNKNOWN = -1
# Texts that arrays of text have for an unknown label.
UNKNOWN_TEXTS = ("", "-1", "nan", "NaN", "None", "<NA>", "NA")
MOST_LABEL = 2**63
# Beta prior of the share of noise: a twentieth, more or less.
NOISE_PRIOR = (1.0, 19.0)


def check_weights(sample_weight: Any, n: int) -> np.ndarray | None:
    """Return one weight per row, of mean one; None where all are equal.

    Examples
    --------
    >>> check_weights([1, 2, 3, 2], 4)
    array([0.5, 1. , 1.5, 1. ])
    """
    if sample_weight is None:
        return None
    try:
        weight = np.asarray(sample_weight, dtype=float)
    except (TypeError, ValueError, OverflowError):
        raise ValueError("sample_weight must hold numbers, one per row of X.") from None
    if weight.ndim == 0:
        weight = np.full(n, float(weight))
    if weight.ndim != 1:
        raise ValueError(f"Sample weights must be 1D array or scalar, not of shape {weight.shape}.")
    if weight.shape != (n,):
        raise ValueError(
            f"sample_weight.shape == {weight.shape}, expected {(n,)}: give one weight per row of X."
        )
    bad = np.flatnonzero(~((weight > 0.0) & np.isfinite(weight)))
    if bad.size:
        value, remedy = f"{weight[bad[0]]:g}", "Check it."
        if weight[bad[0]] == 0.0:
            value, remedy = "zero", "Leave rows without weight out of X."
        raise ValueError(
            f"sample_weight is {value} in row {bad[0]}: it must be a positive number. {remedy}"
        )
    weight = weight / weight.max()
    weight = np.round(weight / weight.mean() / GRAIN) * GRAIN
    row = int(weight.argmin())
    if weight[row] < LEAST_WEIGHT:
        raise ValueError(
            f"sample_weight in row {row} is less than {LEAST_WEIGHT:g} of the mean weight. Weights "
            "are relative. Leave out such rows, or reduce the other weights."
        )
    return None if np.all(weight == 1.0) else weight


def warn_of_heavy_rows(weight: np.ndarray | None, measured: bool) -> None:
    """Warn of rows with weights so large that a cluster may collapse onto them.

    Categories and counts have no density that grows without bound.
    """
    if weight is None or not measured or weight.max() <= HEAVY:
        return
    heavy = np.flatnonzero(weight > HEAVY)
    row = int(weight.argmax())
    warnings.warn(
        f"{heavy.size} of {weight.size} rows have more than {HEAVY:g} times the mean weight (row "
        f"{row} has {weight[row]:.3g} times). Each counts as that many equal rows, and a cluster "
        "may collapse onto it. Limit large weights if a cluster contains only such rows. Filter "
        "cavity.WeightsWarning to silence this.",
        WeightsWarning,
        stacklevel=4,
    )


def refuse_weighted_gaps(
    measured: np.ndarray, errors: np.ndarray | None, weight: np.ndarray | None, words: str
) -> None:
    """Refuse a weight other than the mean, one, for a row with missing values or errors."""
    if weight is None:
        return
    bad = np.flatnonzero(np.isnan(measured).any(axis=1) & (weight != 1.0))
    if bad.size:
        raise ValueError(
            f"Row {bad[0]} of X has {words} and {weight[bad[0]]:.3g} times the mean of "
            "sample_weight. A row with missing measurements must have the mean weight, since its "
            "likelihood to another power has no exact draw. Impute it first or leave it out."
        )
    if errors is None:
        return
    bad = np.flatnonzero(errors.any(axis=1) & (weight != 1.0))
    if bad.size:
        raise ValueError(
            f"Row {bad[0]} of X has errors and {weight[bad[0]]:.3g} times the mean of "
            "sample_weight. A row with errors must have the mean weight, since its likelihood to "
            "another power has no exact draw."
        )


class KnownLabels(NamedTuple):
    """Known labels.

    Attributes
    ----------
    names : array of int or str
        The labels, rising.
    home : array of int, shape (n,)
        Index of each row's label among them; -1 if unknown.
    """

    names: np.ndarray
    home: np.ndarray


def check_known(known_labels: Any, n: int, n_clusters: int, is_open: bool) -> KnownLabels | None:
    """Return labels that are known for some rows; None if there are none.

    Examples
    --------
    >>> check_known([-1, 7, 3, 7], 4, 2, False).home.tolist()
    [-1, 1, 0, 1]
    >>> check_known(["oak", None, "elm"], 3, 2, False).names.tolist()
    ['elm', 'oak']
    """
    if known_labels is None:
        return None
    import pandas as pd

    if np.ma.isMaskedArray(known_labels):
        hidden = np.ma.getmaskarray(known_labels)
        known_labels = known_labels.data.astype(object)
        known_labels[hidden] = None
    labels = np.asarray(known_labels, dtype=object)
    if labels.ndim == 2 and labels.shape[1] == 1:
        labels = labels[:, 0]
    if labels.shape != (n,):
        raise ValueError(
            f"known_labels has shape {np.shape(known_labels)}, but X has {n} rows: give one label "
            "per row, -1 or None where it is unknown."
        )
    known = ~pd.isna(labels)
    known[known] = [value != UNKNOWN for value in labels[known]]
    if not known.any():
        return None
    text = isinstance(labels[known][0], str)
    for row in np.flatnonzero(known):
        value = labels[row]
        number = isinstance(value, Real) and not isinstance(value, bool)
        whole = number and 0 <= value < MOST_LABEL and value == int(value)
        if isinstance(value, str) != text or not (text or whole):
            raise ValueError(
                f"known_labels is {shown(value)} in row {row}. Labels are whole numbers from 0, or "
                "all text; -1, NaN or None stands for an unknown one."
            )
        if text and value.strip() in UNKNOWN_TEXTS:
            raise ValueError(
                f"known_labels is the text {value!r} in row {row}. Use None where the label is "
                "unknown, in a list or an array of objects."
            )
    given = labels[known].astype(str if text else np.int64)
    names, at = np.unique(given, return_inverse=True)
    if names.size > n_clusters and not is_open:
        raise ValueError(
            f"known_labels has {names.size} different labels, but n_clusters={n_clusters}. Raise "
            "n_clusters or use prior='dp'."
        )
    home = np.full(n, UNKNOWN)
    home[known] = at.reshape(-1)
    return KnownLabels(names, home)


def with_known(z: np.ndarray, home: np.ndarray) -> np.ndarray:
    """Return starting labels that agree with the known ones.

    Clusters take the slot of the known label that most of their rows have, one to one.

    Examples
    --------
    >>> with_known(np.array([1, 1, 1, 0, 0]), np.array([0, 0, -1, -1, -1])).tolist()
    [0, 0, 0, 1, 1]
    """
    from scipy.optimize import linear_sum_assignment

    k = int(max(z.max(), home.max())) + 1
    shared = np.zeros((k, k))
    known = home >= 0
    np.add.at(shared, (z[known], home[known]), 1.0)
    clusters, slots = linear_sum_assignment(-shared)
    slot = np.empty(k, dtype=np.int64)
    slot[clusters] = slots
    return np.where(known, home, slot[z])


def row_places(home: np.ndarray | None, n: int, noise: bool = False) -> RowPlaces | None:
    """Return the clusters that rows may be in; None without known labels or noise."""
    if home is None and not noise:
        return None
    from cavity.priors.rows import RowPlaces

    slot = np.full(n, UNKNOWN) if home is None else np.where(home >= 0, home + noise, UNKNOWN)
    return RowPlaces(slot, NOISE_PRIOR if noise else None)


def kept_of_rows(
    digest: str,
    known: KnownLabels | None,
    weight: np.ndarray | None,
    box: np.ndarray | None,
    steps: np.ndarray | None,
    errors: np.ndarray | None,
) -> dict[str, np.ndarray]:
    """Return the data about rows that a fit stores."""
    out = {DATA: np.array([digest])}
    if steps is not None:
        out[STEPS] = steps
    if box is not None:
        out[NOISE_BOX] = box
    if weight is not None:
        out[WEIGHTS] = weight
    if errors is not None:
        out[ERRORS] = errors
    if known is not None:
        out |= {KNOWN: known.home, KNOWN_NAMES: known.names}
    return out


def row_names(X: Any) -> list[str] | None:
    """Return the names of a table's rows, if it has any."""
    if not (hasattr(X, "index") and hasattr(X, "columns")):
        return None
    return check_names(X.index, "row")
