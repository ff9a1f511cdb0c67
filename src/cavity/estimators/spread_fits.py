"""Fits of rows in blocks or shards: of files, Dask tables, and arrays that workers share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from cavity.estimators.gaps import refuse_gaps
from cavity.estimators.rows import RowEstimator
from cavity.estimators.sharded import (
    PARALLEL,
    check_sampler,
    check_start,
    fit_estimator,
    is_in_shards,
    source_of,
)


@dataclass(repr=False, eq=False, kw_only=True)
class SpreadFits(RowEstimator):
    """Estimators whose rows may be spread over threads, or over the workers of a cluster."""

    def _check_data(self, X: Any, *, reset: bool) -> np.ndarray:
        raise TypeError("an estimator says how its data are checked")

    def _own_problem(self, seen: np.ndarray, weight: np.ndarray | None, noisy: bool = False) -> Any:
        raise TypeError("an estimator says what its problem is")

    def _collapses(self) -> tuple[str, ...]:
        return (*super()._collapses(), PARALLEL)

    def _names_in_memory(self) -> str:
        """The sampler whose checks of data are those of this one."""
        return "collapsed" if self.collapse == PARALLEL else self.collapse

    def _fit_rows(self, X: Any, client: Any, columns: tuple[str, ...] | None) -> Self:
        """Sample over rows in blocks, here or on a cluster."""
        check_sampler(self)
        if is_in_shards(X):
            init = check_start(self, None)
            source = source_of(X, client, columns, True)
            self.n_features_in_ = len(source.columns)
            self.feature_names_in_ = np.array(source.columns, dtype=object)
        else:
            X = self._check_data(X, reset=True)
            given = getattr(self, "feature_names_in_", None)
            refuse_gaps(X, given)
            named = tuple(
                (f"x{j}" for j in range(X.shape[1])) if given is None else map(str, given)
            )
            source = source_of(X, client, named, given is not None)
            init = check_start(self, len(X))
        fit_estimator(self, source, client, init, lambda rows: self._own_problem(rows, None))
        return self
