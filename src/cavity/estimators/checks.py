"""Does the model fit? Replicated data beside the real ones, and leave-one-out densities."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from cavity.likelihoods.predictive import MixtureDraws, replicate
from cavity.mcmc.runner import seed_entropy

if TYPE_CHECKING:
    import pandas as pd


def _statistics(X: np.ndarray) -> np.ndarray:
    """Rows: median, spread of the quartiles, and how far out the extremes lie in those units."""
    low, middle, high = np.nanquantile(X, [0.25, 0.5, 0.75], axis=0)
    spread = np.where(high > low, high - low, 1.0)
    reach = np.nanmax(np.abs(X - middle), axis=0) / spread
    tail = np.nanquantile(np.abs(X - middle), 0.95, axis=0) / spread
    return np.stack([middle, high - low, tail, reach])


STATISTICS = ("median", "quartile spread", "95% reach", "farthest")


def predictive_check(
    draws: MixtureDraws,
    X: np.ndarray,
    columns: list[str],
    n_replicates: int,
    random_state: Any,
) -> pd.DataFrame:
    """Statistics of every column in the data and in replicated data sets.

    Parameters
    ----------
    draws : MixtureDraws
    X : array of shape (n, d)
        The data, in the units of the draws.
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

    rng = np.random.default_rng(seed_entropy(random_state))
    n_draws = draws.start.size - 1
    observed = _statistics(X)
    missing, n = np.isnan(X), len(X)
    copies = np.stack(
        [
            _statistics(
                np.where(missing, np.nan, replicate(draws, int(rng.integers(n_draws)), n, rng)[0])
            )
            for _ in range(n_replicates)
        ]
    )
    above = (copies >= observed).mean(axis=0)
    below = (copies <= observed).mean(axis=0)
    lower, upper = np.quantile(copies, [0.025, 0.975], axis=0)
    index = pd.MultiIndex.from_product([columns, STATISTICS], names=["column", "statistic"])
    return pd.DataFrame(
        {
            "observed": observed.T.ravel(),
            "mean": copies.mean(axis=0).T.ravel(),
            "lower": lower.T.ravel(),
            "upper": upper.T.ravel(),
            "p": np.minimum(1.0, 2.0 * np.minimum(above, below)).T.ravel(),
        },
        index=index,
    )
