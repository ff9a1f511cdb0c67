"""What a fitted mixture says of gaps: values for the missing cells of a table."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from sklearn.utils.validation import check_is_fitted

from cavity.estimators.kept import DATA
from cavity.estimators.placing import PlacingAnswers
from cavity.estimators.validation import check_number
from cavity.likelihoods.imputation import impute
from cavity.likelihoods.predictive import MixtureDraws
from cavity.mcmc.fingerprint import data_digest


class Imputed(NamedTuple):
    """A table with values in its gaps.

    Attributes
    ----------
    mean, lower, upper : arrays or DataFrames
    """

    mean: Any
    lower: Any
    upper: Any


class GapAnswers(PlacingAnswers):
    """Values for missing cells, by the draws that predictions average over."""

    def _check_data(self, X: Any, *, reset: bool) -> np.ndarray:
        raise TypeError("an estimator says how its data are checked")

    @property
    def _chosen(self) -> np.ndarray:
        raise TypeError("an estimator says which draws it averages over")

    @property
    def _mixtures(self) -> MixtureDraws:
        raise TypeError("an estimator says what its mixtures are")

    def impute(self, X: Any, level: float = 0.9) -> Imputed:
        """Values for the missing cells of X: posterior means and intervals.

        Parameters
        ----------
        X : array or DataFrame of shape (n, d)
            The rows of the fit, or new ones; NaN where a value is missing.
        level : float
            Probability of the interval.

        Returns
        -------
        Imputed
            ``mean``, ``lower`` and ``upper``, tables like X. Values that are there are all three.
            The posterior is that of each cell alone, its row's cluster and the clusters' parameters
            unknown; rows of the very table of the fit are in the cluster that each draw has them
            in.

        Examples
        --------
        >>> import numpy as np
        >>> from cavity import GaussianMixture
        >>> x = np.random.default_rng(0).standard_normal((60, 1))
        >>> X = np.hstack([x, 2.0 * x + 1.0])
        >>> m = GaussianMixture(1, n_chains=2, n_warmup=20, n_draws=40, random_state=0).fit(X)
        >>> filled = m.impute([[1.5, np.nan]])
        >>> bool(abs(filled.mean[0, 1] - 4.0) < 0.2), bool(filled.lower[0, 1] < 4.0)
        (True, True)
        """
        check_is_fitted(self)
        check_number("level", level, 0.0, 1.0 - 1e-9)
        table = X
        X = self._check_data(X, reset=False)
        standard = self._standard_units(X)
        missing = np.isnan(X)
        rows = missing.any(axis=1)
        chosen = self._chosen
        own = np.full((int(rows.sum()), chosen.size), -1)
        if self.posterior_.summaries.get(DATA, [""])[0] == data_digest(X):
            own = self._places(chosen)[rows]
        parts = impute(self._mixtures, standard[rows], own, level)
        return Imputed(*(_like(table, X, self._filled(X, part)) for part in parts))

    def _filled(self, X: np.ndarray, values: np.ndarray) -> np.ndarray:
        """X with values, in the model's units, in its gaps."""
        out = X.copy()
        _, columns = np.nonzero(np.isnan(X))
        out[np.isnan(X)] = values * self._units.scale[columns] + self._units.centre[columns]
        return out

    def _places(self, chosen: np.ndarray) -> np.ndarray:
        """Where among the clusters of `_mixtures` each row is in each chosen draw, (n, draw)."""
        weight = self.posterior_.drawn["weight"]
        weight = weight.reshape(-1, weight.shape[2])[chosen]
        use = np.isfinite(weight) & (weight > 0.0)
        place = self._mixtures.start[:-1, None] + np.cumsum(use, axis=1) - 1
        labels = self.posterior_.flat_labels[chosen].astype(np.int64)
        out = np.take_along_axis(place, labels, axis=1)
        # Noise says nothing of a gap: the row is then as one of which nothing is known.
        return np.ascontiguousarray(np.where((labels == 0) & self._noisy, -1, out).T)


def _like(table: Any, X: np.ndarray, values: np.ndarray) -> Any:
    """Values as a DataFrame where the table was one."""
    from cavity.io.frames import as_pandas, is_frame

    if not is_frame(table):
        return values
    import pandas as pd

    frame = as_pandas(table)
    return pd.DataFrame(values, index=frame.index, columns=frame.columns)
