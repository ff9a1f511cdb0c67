"""Contaminated data: uniform outliers, and a table with typical laboratory errors."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from cavity.datasets._validate import as_generator
from cavity.estimators.validation import check_count, check_number

if TYPE_CHECKING:
    import pandas as pd


class WineTruth(NamedTuple):
    """True values of `load_wine_with_bad_rows`.

    Attributes
    ----------
    labels : ndarray of shape (178,)
        Cultivar of each wine: 0, 1 or 2.
    spoiled : ndarray of bool, shape (178,)
    fault : ndarray of str, shape (178,)
        Error in a spoiled row; empty elsewhere.
    """

    labels: np.ndarray
    spoiled: np.ndarray
    fault: np.ndarray

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return np.array(self.labels, dtype=dtype)


def add_outliers(
    X: ArrayLike, fraction: float = 0.05, random_state: Any = None, *, reach: float = 3.0
) -> tuple[np.ndarray, np.ndarray]:
    """Append outliers: rows uniform over a box `reach` times the data's range.

    Parameters
    ----------
    X : array of shape (n, dim)
    fraction : float
        Outliers added, as a fraction of n (rounded to the nearest whole number).
    random_state : None, int or Generator
    reach : float
        Width of the box in units of each column's range; the box is centered on the data.

    Returns
    -------
    X_out : ndarray of shape (n + n_outliers, dim)
        The rows of X in their order, then the outliers.
    is_outlier : ndarray of bool

    Examples
    --------
    >>> import numpy as np
    >>> X, is_outlier = add_outliers(np.random.default_rng(0).normal(size=(100, 2)), 0.1)
    >>> X.shape, int(is_outlier.sum()), bool(is_outlier[:100].any())
    ((110, 2), 10, False)
    """
    X = np.asarray(X, dtype=float)
    if X.ndim != 2 or X.shape[0] == 0:
        raise ValueError(f"X must be a table with at least one row; got shape {X.shape}.")
    if not np.isfinite(X).all():
        row, column = np.argwhere(~np.isfinite(X))[0]
        raise ValueError(f"X must be finite; row {row}, column {column} is {X[row, column]}.")
    fraction = check_number("fraction", fraction, 0.0, 1.0, strict=False)
    reach = check_number("reach", reach, 0.0)
    rng = as_generator(random_state)

    low, high = X.min(axis=0), X.max(axis=0)
    centre, width = (low + high) / 2, reach * (high - low)
    n_outliers = round(fraction * X.shape[0])
    outliers = centre + width * (rng.random((n_outliers, X.shape[1])) - 0.5)
    is_outlier = np.arange(X.shape[0] + n_outliers) >= X.shape[0]
    return np.vstack([X, outliers]), is_outlier


def load_wine_with_bad_rows(
    random_state: Any = 0, n_bad: int = 12
) -> tuple[pd.DataFrame, WineTruth]:
    """Load scikit-learn's wine measurements with typical laboratory errors in some rows.

    Three faults take turns: a unit mix-up (proline in g/L instead of mg/L, magnesium in mg/100 mL
    instead of mg/L), a decimal slip (a value ten times too large), and a saturated sensor (a
    photometer stuck at its ceiling, far above any wine).

    Parameters
    ----------
    random_state : None, int or Generator
    n_bad : int
        Number of the 178 rows to spoil.

    Returns
    -------
    table : DataFrame of 178 rows and 13 columns
    truth : WineTruth
        The cultivars, which rows are spoiled, and how.

    Examples
    --------
    >>> table, truth = load_wine_with_bad_rows()
    >>> table.shape, int(truth.spoiled.sum())
    ((178, 13), 12)
    """
    import pandas as pd
    from sklearn.datasets import load_wine

    bunch = load_wine(as_frame=True)
    table = bunch.data.rename(columns={"od280/od315_of_diluted_wines": "od280_od315"})
    table = table.astype(float)
    table.index = pd.Index([f"wine {i + 1}" for i in range(len(table))], name="sample")
    n_bad = check_count("n_bad", n_bad, 0)
    if n_bad > len(table):
        raise ValueError(f"n_bad must be at most {len(table)}; got {n_bad}.")
    rng = as_generator(random_state)

    values = table.to_numpy().copy()
    fault = np.full(len(table), "", dtype=object)
    for turn, row in enumerate(rng.choice(len(table), size=n_bad, replace=False)):
        measured = dict(zip(table.columns, values[row], strict=True))
        fault[row] = _FAULTS[turn % len(_FAULTS)](measured, rng)
        values[row] = list(measured.values())
    table = pd.DataFrame(values, index=table.index, columns=table.columns)
    labels = bunch.target.to_numpy()
    return table, WineTruth(labels, fault != "", fault.astype(str))


def _mix_up_units(measured: dict[str, float], rng: np.random.Generator) -> str:
    measured["proline"] /= 1000
    measured["magnesium"] /= 10
    return "unit mix-up in proline and magnesium"


def _slip_decimal(measured: dict[str, float], rng: np.random.Generator) -> str:
    column = str(rng.choice(["alcohol", "ash", "alcalinity_of_ash", "total_phenols", "hue"]))
    measured[column] *= 10
    return f"decimal slip in {column}"


def _saturate(measured: dict[str, float], rng: np.random.Generator) -> str:
    # One photometer reads all three, so it fails in all three.
    measured.update(color_intensity=30.0, od280_od315=9.99, hue=4.0)
    return "saturated sensor in color_intensity, od280_od315 and hue"


_FAULTS = (_mix_up_units, _slip_decimal, _saturate)
