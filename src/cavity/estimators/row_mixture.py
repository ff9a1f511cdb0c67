"""The base of the mixtures of measurements: its data, the problem that is sampled, the fit."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from sklearn.base import ClusterMixin, DensityMixin, clone
from sklearn.utils.validation import validate_data

from cavity.collapse.mixtures import refuse_uneven
from cavity.estimators.cluster_prior import ClusterPrior, cluster_prior
from cavity.estimators.coarse_columns import warn_of_coarse_columns
from cavity.estimators.dequantize import within_steps
from cavity.estimators.description import describe
from cavity.estimators.fitting import Plan, run_plan
from cavity.estimators.gaps import filled, refuse_empty_columns
from cavity.estimators.kept import WEIGHTS
from cavity.estimators.known import (
    KnownLabels,
    check_known,
    check_weights,
    kept_of_rows,
    refuse_weighted_gaps,
    row_names,
    row_places,
    weighted_rows,
)
from cavity.estimators.noise import AUTO, is_noisy, noise_box, tell_of_noise
from cavity.estimators.rows import FEW
from cavity.estimators.shard_answers import ShardAnswers
from cavity.estimators.sharded import (
    MANY,
    PARALLEL,
    check_client,
    check_sampler,
    is_in_shards,
    is_spread,
    refuse_unsupported,
    source_of,
)
from cavity.estimators.spread_fits import SpreadFits
from cavity.estimators.start import runs_of
from cavity.estimators.structures import FULL, block_names, factors_of, structured_problem
from cavity.estimators.validation import check_finite, check_numeric, robust_standardiser
from cavity.likelihoods.missing import RowTraits
from cavity.mcmc.fingerprint import data_digest
from cavity.moves.anchors import nearest_anchors
from cavity.posterior.record import ROWS_BEHIND_WEIGHTS
from cavity.posterior.units import ColumnUnits
from cavity.utils.progress import say


@dataclass(repr=False, eq=False, kw_only=True)
class RowMixture(ShardAnswers, ClusterMixin, DensityMixin, SpreadFits):
    """What the two mixtures share: validation, the problem that is sampled, its answers."""

    def _cluster_prior(self, d: int) -> ClusterPrior:
        """Prior of each cluster's mean and covariance, in standardised units."""
        return cluster_prior(
            d,
            self.n_clusters,
            self.mean_prior_strength,
            self.covariance_prior_df,
            self.covariance_prior_scale,
            self._n_held,
        )

    def _problem(
        self, standard: np.ndarray, prior: ClusterPrior, rows: RowTraits | None = None
    ) -> Any:
        raise TypeError("an estimator says what its problem is")

    def _own_problem(self, seen: np.ndarray, weight: np.ndarray | None, noisy: bool = False) -> Any:
        """The problem of data as the model sees them, with or without a place for noise."""
        missing = np.isnan(seen)
        rows = None
        if weight is not None or missing.any() or noisy:
            one = np.ones(len(seen))
            box = noise_box(seen, self.noise) if noisy else None
            rows = RowTraits(missing, one if weight is None else weight, box)
        standard = filled(seen)
        if self.covariance != FULL:
            found = getattr(self, "posterior_", None)
            n_factors = None if found is None else factors_of(found)
            return structured_problem(self, standard, self._n_held, *self._tails(), rows, n_factors)
        return self._problem(standard, self._cluster_prior(seen.shape[1]), rows)

    def _has_noise(self, standard: np.ndarray) -> bool:
        """Whether rows may be noise; not by itself where the collapse has no way with it."""
        able = self.collapse != "ep"
        return (able or self.noise != AUTO) and is_noisy(self.noise, standard)

    def _tails(self) -> tuple[float | None, str | None]:
        """Degrees of freedom, or where they start, and how they are learned; Gaussian without."""
        return None, None

    def _problem_of_fit(self, X: Any) -> tuple[Any, np.ndarray]:
        X = self._check_data(X, reset=False)
        weight = self.posterior_.summaries.get(WEIGHTS)
        volumes = self._units.log_volumes(X) * (1.0 if weight is None else weight)
        seen = within_steps(self._standard_units(X))
        return self._own_problem(seen, weight, self._noisy), volumes

    # ------------------------------------------------------------------ data

    def __sklearn_tags__(self) -> Any:
        """Of scikit-learn: values may be missing."""
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        return tags

    def _check_data(self, X: Any, *, reset: bool) -> np.ndarray:
        X = check_numeric(X)
        X = validate_data(
            self, X, reset=reset, dtype=np.float64, ensure_all_finite=False, ensure_min_samples=1
        )
        check_finite(X, getattr(self, "feature_names_in_", None))
        return X

    # ------------------------------------------------------------------ fitting

    def check(
        self,
        X: Any,
        y: Any = None,
        sample_weight: Any = None,
        *,
        columns: Sequence[str] | None = None,
    ) -> Self:
        """Refuse settings and data that `fit` would refuse, without fitting; returns self.

        Of files only the footers are looked at.
        """
        self._check_settings()
        if is_in_shards(X):
            check_sampler(self)
            if isinstance(X, str | os.PathLike):
                source_of(X, None, None if columns is None else tuple(columns), True)
            return self
        # On a copy: what the check learns of the data must not stay.
        other = clone(self)
        row_names(X)
        other.collapse = other._names_in_memory()
        other._plan(*other._check_rows(X, y, sample_weight))
        return self

    def _check_rows(
        self, X: Any, y: Any, sample_weight: Any
    ) -> tuple[np.ndarray, KnownLabels | None, np.ndarray | None]:
        X = self._check_data(X, reset=True)
        weight = check_weights(sample_weight, len(X))
        known = check_known(y, len(X), self.n_clusters, self._specification().is_open)
        refuse_weighted_gaps(X, weight, "gaps")
        return X, known, weight

    def fit(
        self,
        X: Any,
        y: Any = None,
        sample_weight: Any = None,
        *,
        client: Any = None,
        columns: Sequence[str] | None = None,
    ) -> Self:
        """Sample the posterior over partitions of the rows of X.

        Parameters
        ----------
        X : array or DataFrame of shape (n, d), path, or Dask DataFrame
            Finite numbers, NaN where one is missing. Columns need no scaling. A path is that of a
            Parquet file, a folder of such files, or a pattern such as ``"rows/*.parquet"``.
        y : array of int, optional
            Labels that are known, -1 for those that are not. Rows of the same label stay together
            in every draw, rows of different ones apart. A `y` without any -1 is ignored, as it is
            by scikit-learn's clusterers.
        sample_weight : array of float, optional
            A row of weight w stands for w rows that share their label: whole weights are repeated
            rows that are never parted. Of others the likelihood is taken to that power, and sizes
            of clusters are sums of weights. Rows with gaps have weight one.
        client : distributed.Client, optional
            Cluster that does the work. Rows in files or a Dask DataFrame, and from 100,000 of
            them an array's, are spread over its workers; of smaller arrays each worker has whole
            chains, with the same draws as without. The page on scaling has more.
        columns : sequence of str, optional
            Which columns of a path or Dask DataFrame to use; all by default.

        Returns
        -------
        self

        Warns
        -----
        CoarseColumnsWarning
            If columns have few values, or one value in many rows.
        NotConvergedWarning
            If the chains are not shown to agree.
        """
        self._check_settings()
        check_client(client)
        if is_spread(self, X, client):
            refuse_unsupported(self, y, sample_weight)
            return self._fit_rows(X, client, None if columns is None else tuple(columns))
        if columns is not None:
            raise ValueError("columns are chosen of a path or a Dask DataFrame; give X[columns].")
        names = row_names(X)
        X, known, weight = self._check_rows(X, y, sample_weight)
        plan, units, box = self._plan(X, known, weight)
        given = getattr(self, "feature_names_in_", None)
        columns = tuple((f"x{j}" for j in range(X.shape[1])) if given is None else map(str, given))
        warn_of_coarse_columns(X, columns)
        tell_of_noise(self.noise, plan.noisy)
        if len(X) >= MANY and self.collapse == "collapsed" and client is None:
            say(
                f"{len(X):,} rows: with collapse={PARALLEL!r} threads share every sweep of a chain."
            )
        run = run_plan(plan, self._run_settings(), client)
        posterior = plan.posterior(
            run,
            names=names,
            units=units,
            volume=float((units.log_volumes(X) * (1.0 if weight is None else weight)).sum()),
            summaries=kept_of_rows(data_digest(X), known, weight, box),
            settings=self._settings(),
            noun="row",
            columns=columns,
            columns_named=given is not None,
            details={ROWS_BEHIND_WEIGHTS: float(len(X) if weight is None else weight.sum())},
        )
        self._finish(posterior)
        return self

    def _plan(
        self,
        X: np.ndarray,
        known: KnownLabels | None = None,
        weight: np.ndarray | None = None,
    ) -> tuple[Plan, ColumnUnits, np.ndarray | None]:
        n = len(X)
        start, n_start = self._start_of_rows(n)
        names = getattr(self, "feature_names_in_", None)
        refuse_empty_columns(X, names)
        units = ColumnUnits(*robust_standardiser(weighted_rows(X, weight), names))
        standard = units.standardise(X)
        noisy = self._has_noise(filled(standard))
        problem = self._own_problem(within_steps(standard), weight, noisy)
        if problem.rows is not None:
            refuse_uneven(self.collapse)
        few = dataclasses.replace(
            problem,
            y=np.ascontiguousarray(problem.y[:FEW]),
            rows=None if problem.rows is None else problem.rows.first(FEW),
        )
        standard = filled(standard)
        home = None if known is None else known.home
        told = [X, *(part for part in (weight, home) if part is not None)]

        plan = self._planned(
            problem,
            few,
            data_digest(*told),
            self._collapse_options(),
            start=self._first_labels([standard], start, n_start, home, noisy),
            n_start=n_start if known is None else max(n_start, known.names.size),
            n_runs=runs_of(start, X.shape, n_start, self.n_warmup),
            places=row_places(weight, home, n, noisy),
            describe=describe,
            cluster_parameters=("weight", *block_names(self.covariance)),
            from_slots=self.covariance == FULL,
            anchors=(lambda: nearest_anchors(standard)) if self.moves else None,
        )
        return plan, units, None if problem.rows is None else problem.rows.box
