"""Where rows belong under a fitted mixture of rows or of tables: clusters, densities, a table."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from cavity.estimators.kept import NOISE
from cavity.estimators.leaving_out import LeaveOneOut
from cavity.estimators.noise import NoiseAnswers
from cavity.posterior.posterior import Posterior
from cavity.posterior.units import ColumnUnits

if TYPE_CHECKING:
    import pandas as pd

# New rows further out than this, in robust standard deviations, are taken to be this far.
FARTHEST_NEW = 1e300


class PlacingAnswers(NoiseAnswers, LeaveOneOut):
    """Methods that follow from what a row's density and probabilities are."""

    weights_: np.ndarray
    n_clusters: int
    n_features_in_: int
    _units: ColumnUnits

    def _evaluate(self, X: Any) -> tuple[np.ndarray, np.ndarray]:
        """Log density (draw, n), and probability of each cluster and of elsewhere (n, K + 1).

        Of noise, where there may be some, in the column before the last.
        """
        raise TypeError("an estimator says what its densities are")

    def _restore(self, posterior: Posterior) -> None:
        """Set what a fit would have set from the data."""
        record = posterior.record
        self.n_features_in_ = len(record.columns)
        if record.columns_named:
            self.feature_names_in_ = np.array(record.columns, dtype=object)

    def _standard_units(self, values: np.ndarray) -> np.ndarray:
        """Values in the model's units; what is beyond all numbers there stays as far as they go."""
        with np.errstate(over="ignore"):
            return np.clip(self._units.standardise(values), -FARTHEST_NEW, FARTHEST_NEW)

    def predict(self, X: Any) -> np.ndarray:
        """Most probable cluster of the point estimate for each row of X; -1 if noise is more so."""
        probability = self._evaluate(X)[1]
        if self._noisy:
            return self._best(probability)
        return given_matched(probability[:, :-1]).argmax(axis=1)

    def predict_proba(self, X: Any) -> np.ndarray:
        """Probability of each cluster of the point estimate for each row of X, (n, K).

        Averaged over (at most 200, evenly spread) draws; what is missing of a row is integrated
        out. A draw's cluster that matches none of the estimate's is left out, as is noise, and the
        rest made to sum to one: these are probabilities given that the row is in one of these
        clusters. `membership` shows what was left out.
        """
        return given_matched(self._evaluate(X)[1][:, : self.n_clusters_])

    def membership(self, X: Any) -> pd.DataFrame:
        """Where each row of X belongs, by column of a table.

        Returns
        -------
        DataFrame
            ``cluster``, its ``probability``, of measurements alone ``tail_probability`` (see
            `StudentTMixture.tail_probabilities`), ``log_density`` (see `score_samples`), ``p_0``,
            ``p_1``, ..., ``noise`` if rows may be noise, and ``p_unmatched``, the probability of a
            cluster that matches none of the estimate's. The last ones sum to one.
        """
        import pandas as pd

        log_density, probability = self._evaluate(X)
        index = X.index if hasattr(X, "index") and hasattr(X, "columns") else None
        cluster = probability[:, :-1].argmax(axis=1)
        table = {
            "cluster": np.where(cluster == self.n_clusters_, NOISE, cluster),
            "probability": probability[np.arange(len(cluster)), cluster],
            **self._said_of(X),
            "log_density": log_mean_exp(log_density),
        }
        table |= {f"p_{k}": probability[:, k] for k in range(self.n_clusters_)}
        if self._noisy:
            table["noise"] = probability[:, self.n_clusters_]
        table["p_unmatched"] = probability[:, -1]
        return pd.DataFrame(table, index=index)

    def _said_of(self, X: Any) -> dict[str, np.ndarray]:
        """What else `membership` says of rows."""
        return {}

    def score_samples(self, X: Any) -> np.ndarray:
        """Log posterior predictive density of each row of X, its cluster integrated out.

        Of a row with gaps it is the density of the values that are there.
        """
        return log_mean_exp(self._evaluate(X)[0])

    def score(self, X: Any, y: Any = None) -> float:
        """Mean log posterior predictive density of the rows of X: a held-out log score."""
        return float(self.score_samples(X).mean())


def mean_over_draws(values: np.ndarray) -> np.ndarray:
    """Mean over the draws (the first axis) that have a match; some draw always has one.

    A cluster of the estimate that no draw matches would have none: it then takes the mean of all
    clusters, which is at least a number of the right kind.
    """
    present = np.isfinite(values).all(axis=tuple(range(2, values.ndim)))
    count = present.sum(axis=0)
    shape = (*present.shape, *(1,) * (values.ndim - 2))
    total = np.where(present.reshape(shape), values, 0.0).sum(axis=0)
    out = total / np.maximum(count, 1).reshape(-1, *(1,) * (values.ndim - 2))
    if not count.all():
        out[count == 0] = total.sum(axis=0) / max(int(count.sum()), 1)
    return out


def given_matched(inside: np.ndarray) -> np.ndarray:
    """Probabilities of the clusters given that it is one of them; equal where none is."""
    total = inside.sum(axis=1, keepdims=True)
    even = np.full(inside.shape, 1.0 / inside.shape[1])
    return np.where(total > 0.0, inside / np.where(total > 0.0, total, 1.0), even)


def log_mean_exp(log_density: np.ndarray) -> np.ndarray:
    """Logarithm of the mean density over draws."""
    top = log_density.max(axis=0)
    # So far out that no draw gives a density above zero, the answer is minus infinity.
    lift = np.where(np.isfinite(top), top, 0.0)
    with np.errstate(divide="ignore"):
        return lift + np.log(np.mean(np.exp(log_density - lift), axis=0))
