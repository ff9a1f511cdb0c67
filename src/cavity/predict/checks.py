"""Posterior predictive checks: statistics of replicated data sets next to the real ones."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from cavity.mcmc.runner import seed_entropy

if TYPE_CHECKING:
    import pandas as pd

    from cavity.predict.draws import Rows
    from cavity.predict.predictor import Predictor


STATISTICS = ("median", "quartile spread", "95% reach", "farthest")


def _statistics(X: np.ndarray) -> np.ndarray:
    """Return median and interquartile range, and the extremes in units of the latter.

    NaN for a column without values.
    """
    there = ~np.isnan(X).all(axis=0)
    out = np.full((len(STATISTICS), X.shape[1]), np.nan)
    X = X[:, there]
    low, middle, high = np.nanquantile(X, [0.25, 0.5, 0.75], axis=0)
    spread = np.where(high > low, high - low, 1.0)
    reach = np.nanmax(np.abs(X - middle), axis=0) / spread
    tail = np.nanquantile(np.abs(X - middle), 0.95, axis=0) / spread
    out[:, there] = [middle, high - low, tail, reach]
    return out


def _replicated(predictor: Predictor, s: int, rows: Rows, rng: np.random.Generator) -> np.ndarray:
    made = predictor.replicate(s, len(rows.codes), rng)[0].continuous
    if rows.errors is not None:
        made = made + rows.errors * rng.standard_normal(made.shape)
    return np.where(np.isnan(rows.continuous), np.nan, made)


def predictive_check(
    predictor: Predictor,
    rows: Rows,
    columns: list[str],
    n_replicates: int,
    random_state: Any,
) -> pd.DataFrame:
    """Compare statistics of every continuous column with those of replicated data sets.

    Parameters
    ----------
    predictor : Predictor
        Replicates include rows outside every cluster, where the fit has a noise class.
    rows : Rows
        The data, in the units of the draws; replicates get the errors that they have.
    columns : list of str
    n_replicates : int
    random_state : None, int or Generator

    Returns
    -------
    DataFrame
        One row per column and statistic: ``observed``, the replicates' ``mean``, ``lower`` and
        ``upper`` (95%), and ``p``, the two-sided posterior predictive p-value.
    """
    import pandas as pd

    X = rows.continuous
    if np.isnan(X).all():
        raise ValueError("X has no value in a continuous column, so there is nothing to compare.")
    rng = np.random.default_rng(seed_entropy(random_state))
    n_draws = predictor.draws.start.size - 1
    units = predictor.units
    observed = _statistics(X)
    copies = np.stack(
        [
            _statistics(_replicated(predictor, int(rng.integers(n_draws)), rows, rng))
            for _ in range(n_replicates)
        ]
    )
    known = ~np.isnan(observed)
    above = (copies >= observed).mean(axis=0)
    below = (copies <= observed).mean(axis=0)
    lower, upper = np.quantile(copies, [0.025, 0.975], axis=0)
    index = pd.MultiIndex.from_product([columns, STATISTICS], names=["column", "statistic"])
    table = pd.DataFrame(
        {
            "observed": observed.T.ravel(),
            "mean": copies.mean(axis=0).T.ravel(),
            "lower": lower.T.ravel(),
            "upper": upper.T.ravel(),
            "p": np.where(known, np.minimum(1.0, 2.0 * np.minimum(above, below)), np.nan).T.ravel(),
        },
        index=index,
    )
    # Medians move and scale, spreads scale, ratios stay.
    shown = ["observed", "mean", "lower", "upper"]
    values = np.array(table[shown]).reshape(X.shape[1], len(STATISTICS), len(shown))
    values[:, :2] *= units.scale[:, None, None]
    values[:, 0] += units.centre[:, None]
    table[shown] = values.reshape(len(table), -1)
    return table
