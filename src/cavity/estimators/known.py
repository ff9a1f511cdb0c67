"""What a user knows of rows beside their values: weights, and some of their labels."""

from __future__ import annotations

from numbers import Real
from typing import Any, NamedTuple

import numpy as np

from cavity.estimators.kept import DATA, KNOWN, KNOWN_NAMES, WEIGHTS
from cavity.estimators.validation import check_names
from cavity.predict.predictor import NOISE_BOX
from cavity.priors.rows import RowPlaces

# Weights are kept to this fraction, so that sums of them are exact whatever their order.
GRAIN = 2.0**-20
LEAST_WEIGHT, MOST_WEIGHT = 1e-3, 1e7
UNKNOWN = -1
# Beta prior of the share of noise: a twentieth, more or less.
NOISE_PRIOR = (1.0, 19.0)


def check_weights(sample_weight: Any, n: int) -> np.ndarray | None:
    """One positive number per row, or None where all are one.

    Examples
    --------
    >>> check_weights([1, 2, 2], 3)
    array([1., 2., 2.])
    """
    if sample_weight is None:
        return None
    try:
        weight = np.asarray(sample_weight, dtype=float)
    except (TypeError, ValueError):
        raise ValueError("sample_weight must hold numbers, one per row of X.") from None
    if weight.ndim == 0:
        weight = np.full(n, float(weight))
    if weight.ndim != 1:
        raise ValueError(f"Sample weights must be 1D array or scalar, not of shape {weight.shape}.")
    if weight.shape != (n,):
        raise ValueError(
            f"sample_weight.shape == {weight.shape}, expected {(n,)}: give one weight per row of X."
        )
    bad = np.flatnonzero(~((weight >= LEAST_WEIGHT) & (weight <= MOST_WEIGHT)))
    if bad.size:
        value, remedy = f"{weight[bad[0]]:g}", "Check it."
        if weight[bad[0]] == 0.0:
            value, remedy = "zero", "Leave rows without weight out of X."
        raise ValueError(
            f"sample_weight is {value} in row {bad[0]}: it must be a number from "
            f"{LEAST_WEIGHT:g} to {MOST_WEIGHT:g}. {remedy}"
        )
    weight = np.round(weight / GRAIN) * GRAIN
    return None if np.all(weight == 1.0) else weight


def refuse_weighted_gaps(measured: np.ndarray, weight: np.ndarray | None, words: str) -> None:
    """Refuse a weight other than one for a row that lacks measurements."""
    if weight is None:
        return
    bad = np.flatnonzero(np.isnan(measured).any(axis=1) & (weight != 1.0))
    if bad.size:
        raise ValueError(
            f"Row {bad[0]} of X has {words} and sample_weight {weight[bad[0]]:g}: what is missing "
            "would differ between the rows that it stands for. Repeat the row, or fill it in first."
        )


class KnownLabels(NamedTuple):
    """Labels that are known.

    Attributes
    ----------
    names : array of int or str
        The labels, rising.
    home : array of int, shape (n,)
        Of every row, the place of its label among them; -1 where it is unknown.
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
        whole = (
            isinstance(value, Real) and not isinstance(value, bool) and float(value).is_integer()
        )
        if isinstance(value, str) != text or not (text or (whole and value >= 0)):
            raise ValueError(
                f"known_labels is {value!r} in row {row}. Labels are whole numbers from 0, or all "
                "text; -1, NaN or None stands for an unknown one."
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
    """Labels to start from that agree with those known.

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


def weighted_rows(X: np.ndarray, weight: np.ndarray | None) -> np.ndarray:
    """A table whose quantiles are those of rows with weights.

    Whole weights repeat rows, as many as it takes; others, and large ones, in proportion.

    Examples
    --------
    >>> weighted_rows(np.array([[1.0], [5.0]]), np.array([1.0, 2.0])).ravel().tolist()
    [1.0, 5.0, 5.0]
    """
    if weight is None:
        return X
    times = weight
    if np.any(weight != np.round(weight)) or weight.sum() > 1e6:
        times = weight * max(1.0, min(1e6, 100.0 * len(X)) / weight.sum())
    return np.repeat(X, np.maximum(np.round(times), 1).astype(int), axis=0)


def row_places(
    weight: np.ndarray | None, home: np.ndarray | None, n: int, noise: bool = False
) -> RowPlaces | None:
    """What the prior over partitions is told of the rows; None where all are plain."""
    if weight is None and home is None and not noise:
        return None
    slot = np.full(n, UNKNOWN) if home is None else np.where(home >= 0, home + noise, UNKNOWN)
    return RowPlaces(np.ones(n) if weight is None else weight, slot, NOISE_PRIOR if noise else None)


def kept_of_rows(
    digest: str, known: KnownLabels | None, weight: np.ndarray | None, box: np.ndarray | None
) -> dict[str, np.ndarray]:
    """What a fit keeps of its rows."""
    out = {DATA: np.array([digest])}
    if box is not None:
        out[NOISE_BOX] = box
    if weight is not None:
        out[WEIGHTS] = weight
    if known is not None:
        out |= {KNOWN: known.home, KNOWN_NAMES: known.names}
    return out


def row_names(X: Any) -> list[str] | None:
    """Names of a table's rows, where it has some."""
    if not (hasattr(X, "index") and hasattr(X, "columns")):
        return None
    return check_names(X.index, "row")
