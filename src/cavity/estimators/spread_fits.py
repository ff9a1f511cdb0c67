"""Fits of rows in blocks or shards: of files, Dask tables, and arrays that workers share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from cavity.estimators.gaps import refuse_gaps
from cavity.estimators.known import UNKNOWN
from cavity.estimators.noise import asks_for_noise
from cavity.estimators.rows import RowEstimator
from cavity.estimators.sharded import check_prior, fit_rows, is_in_shards, source_of
from cavity.estimators.start import STARTS
from cavity.estimators.structures import FULL
from cavity.estimators.validation import check_labels

# The sampler over rows in blocks: labels given drawn parameters, with splits and merges.
PARALLEL = "parallel"
# Collapses that rows in shards can be sampled under, and rows from which an array's are put there.
SPREAD, MANY = ("collapsed", PARALLEL), 100_000


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

    def _is_spread(self, X: Any, client: Any) -> bool:
        """Whether the rows are put into blocks, or shards, rather than whole chains on workers."""
        if is_in_shards(X) or self.collapse == PARALLEL:
            return True
        many = client is not None and np.shape(X)[:1] >= (MANY,)
        return many and self.collapse in SPREAD

    def _refuse_uneven(self, y: Any, sample_weight: Any) -> None:
        """Refuse what rows in blocks cannot have."""
        known = y is not None and np.any(np.asarray(y) == UNKNOWN)
        for given, word in (
            (known, "labels that are known for some rows"),
            (sample_weight is not None, "sample_weight"),
            (asks_for_noise(self.noise), "noise=True"),
            (self.covariance != FULL, f"covariance={self.covariance!r}"),
        ):
            if given:
                raise ValueError(f"{word} cannot be had with rows in shards, or {PARALLEL!r}.")

    def _check_spread(self) -> None:
        """Refuse settings that rows in blocks cannot be sampled with."""
        if self.collapse not in SPREAD:
            raise ValueError(
                f"collapse={self.collapse!r} is not supported for sharded data. "
                f"Use collapse={PARALLEL!r}, which is exact."
            )
        check_prior(self._specification(), self.n_clusters)

    def _fit_rows(self, X: Any, client: Any, columns: tuple[str, ...] | None) -> Self:
        """Sample over rows in blocks, here or on a cluster."""
        self._check_spread()
        prior, start = self._specification(), self.init
        if is_in_shards(X):
            if not isinstance(self.init, str):
                raise ValueError(
                    "init must be one of " + ", ".join(map(repr, STARTS)) + " for rows in shards."
                )
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
            if not isinstance(self.init, str):
                start = check_labels(self.init, len(X), self.n_clusters, prior.is_open)
        posterior = fit_rows(
            source,
            client,
            name=type(self).__name__,
            problem=lambda standard: self._own_problem(standard, None),
            prior=prior,
            n_clusters=self.n_clusters,
            init=start,
            moves=self.moves,
            settings=self._run_settings(),
            fingerprint={
                "model": type(self).__name__,
                "settings": {**self._settings(), "collapse": PARALLEL},
                "data": source.digest,
            },
            n_jobs=self.n_jobs,
            recorded={"settings": self._settings()},
        )
        self._finish(posterior)
        return self
