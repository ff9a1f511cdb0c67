"""Mixtures of rows: `StudentTMixture`, `GaussianMixture` and `TableMixture`."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from sklearn.base import ClusterMixin, DensityMixin, clone
from sklearn.utils.validation import check_is_fitted

from cavity.base import Estimator
from cavity.collapse.problems import FULL, TableProblem, first_rows
from cavity.collapse.registry import collapses_of
from cavity.estimators.coarse_columns import warn_of_coarse_columns
from cavity.estimators.dequantize import drawn_steps, uncertain_cells, within_steps
from cavity.estimators.description import Describer
from cavity.estimators.fitting import Plan, prior_of_rows, run_plan
from cavity.estimators.gaps import filled, refuse_empty_columns
from cavity.estimators.known import (
    KnownLabels,
    check_known,
    check_weights,
    kept_of_rows,
    refuse_weighted_gaps,
    row_names,
    row_places,
    warn_of_heavy_rows,
    with_known,
)
from cavity.estimators.model import (
    ModelRows,
    cell_parts,
    check_covariance,
    components,
    continuous_part,
    features_of,
    joint_problem,
    levels_of,
)
from cavity.estimators.noise import check_noise, is_noisy, tell_of_noise, with_noise_last
from cavity.estimators.reading import read_frame, read_numbers, take_columns, warn_of_columns
from cavity.estimators.selection import check_selected, check_selection
from cavity.estimators.sharding import check_client, is_in_shards
from cavity.estimators.start import STARTS, initial_labels, runs_of
from cavity.estimators.validation import (
    check_choice,
    check_count,
    check_number,
    robust_standardiser,
)
from cavity.io.columns import (
    CATEGORICAL,
    CONTINUOUS,
    ORDINAL,
    OVERDISPERSED,
    Cells,
    Column,
    cells_of,
)
from cavity.mcmc.fingerprint import data_digest
from cavity.mcmc.runner import seed_entropy
from cavity.moves.anchors import nearest_anchors
from cavity.posterior.estimate import Partition
from cavity.posterior.posterior import Posterior
from cavity.posterior.record import (
    DATA,
    ERRORS,
    FOLLOWED,
    KNOWN,
    NOISE_LABEL,
    ROWS_BEHIND_WEIGHTS,
    VALUES,
    WEIGHTS,
)
from cavity.posterior.units import ColumnUnits
from cavity.posterior.view import outside_probability
from cavity.predict.noise import AUTO, Noise, asks_for_noise
from cavity.priors.cluster_prior import ClusterPrior
from cavity.priors.specifications import FixedWeights
from cavity.updates import LATENT_CELLS
from cavity.utils.notices import ColumnsNote
from cavity.utils.progress import say

if TYPE_CHECKING:
    import pandas as pd

    from cavity.predict.cluster_summary import ClusterSummary
    from cavity.predict.groups import GroupPredictor
    from cavity.predict.imputation import Imputed
    from cavity.predict.predictor import Predictor

# The sampler of sharded rows, and the rows from which a table in memory is sharded on a cluster.
PARALLEL, MANY = "parallel", 100_000
AUTO_COLLAPSE = "auto"
# Sweeps until the prior of cluster parameters is learned, if the warm-up is long enough.
HELD = 50
# Attributes that are made again when they are needed, and the levels of an answer.
_REMADE = ("_data", "_predictor", "_group_predictor")
LEVELS = ("clusters", "groups")
# Rows that kernels are compiled with.
FEW = 4
# Draws that predictions of sharded rows average over.
N_DRAWS = 50


@dataclass(frozen=True)
class Prepared:
    """Checked data and the problem made of them: `check` returns it, `fit` takes it.

    Attributes
    ----------
    X : array, DataFrame or path
        As given.
    settings : mapping
        Of the estimator that made it.
    selected : tuple of str or None
        Columns of sharded data to use.
    reader : estimator or None
        An unfitted copy that has read the columns; None if rows are sharded.
    cells : Cells
    names : list of str or None
        Of the rows.
    known : KnownLabels or None
    weight : array or None
    plan : Plan
    units : ColumnUnits
    noise : Noise or None
    """

    X: Any
    settings: Mapping[str, Any]
    selected: tuple[str, ...] | None = None
    reader: Any = None
    cells: Any = None
    names: list[str] | None = None
    known: KnownLabels | None = None
    weight: np.ndarray | None = None
    plan: Any = None
    units: Any = None
    noise: Noise | None = None


@dataclass(repr=False, eq=False, kw_only=True)
class Mixture(ClusterMixin, DensityMixin, Estimator):
    """Base of the mixtures: a table of rows in clusters, its fit and its predictions.

    A subclass has parameters and `build_model`. Rows of numbers are a table with continuous
    columns alone.
    """

    init: Any = "dispersed"
    covariance_type: str = FULL
    cluster_prior: ClusterPrior | None = None
    noise: bool | str = AUTO
    n_factors: int | None = None
    select_columns: bool = False

    _starts: ClassVar[tuple[str, ...]] = STARTS
    # Whether columns may be categories and counts.
    _mixed: ClassVar[bool] = False

    def build_model(self, rows: ModelRows) -> tuple[Any, ...]:
        """Return the parts of the model of some rows, the continuous columns first."""
        raise NotImplementedError

    def _continuous(self, rows: ModelRows, df: float | str | None) -> Any:
        prior = ClusterPrior() if self.cluster_prior is None else self.cluster_prior
        return continuous_part(
            rows, df, self.covariance_type, prior, self.n_clusters, self.n_factors
        )

    # ------------------------------------------------------------------ settings

    def __sklearn_tags__(self) -> Any:
        """Return scikit-learn's tags: values may be missing."""
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.categorical = self._mixed
        tags.input_tags.string = self._mixed
        return tags

    def __getstate__(self) -> dict[str, Any]:
        """Return what is pickled: everything but the reference to the data."""
        state: dict[str, Any] = super().__getstate__()
        return {name: value for name, value in state.items() if name not in _REMADE}

    def _collapses(self) -> tuple[str, ...]:
        return (*super()._collapses(), PARALLEL)

    def _check_settings(self) -> None:
        super()._check_settings()
        check_noise(self.noise)
        check_covariance(self.covariance_type, self.n_factors, self.collapse)
        check_selection(self)
        if not (self.cluster_prior is None or isinstance(self.cluster_prior, ClusterPrior)):
            raise ValueError(
                "cluster_prior must be a cavity.priors.ClusterPrior or None, not "
                f"{self.cluster_prior!r}."
            )
        df = getattr(self, "df", "learn")
        if isinstance(df, str):
            check_choice("df", df, ("learn", "learn-each"))
        else:
            check_number("df", df, 0.05, 1e6, strict=False)

    @property
    def _n_held(self) -> int:
        """Sweeps in which nothing is learned of the clusters' prior."""
        return min(HELD, self.n_warmup // 2)

    # ------------------------------------------------------------------ data

    def _frame(self, X: Any, *, reset: bool = False) -> Any:
        names = None if reset else [column.name for column in self._columns]
        return read_frame(self, X, reset=reset, names=names)

    def _cells(self, X: Any, errors: Any = None, *, reset: bool = False) -> Cells:
        """Return the cells of X; with `reset`, decide what its columns are."""
        cells = self._read(X, reset)
        if errors is None:
            return cells
        from cavity.estimators.errors import check_errors

        index = X.index if hasattr(X, "index") and hasattr(X, "columns") else None
        return replace(cells, errors=check_errors(errors, self._columns, len(cells), index))

    def _read(self, X: Any, reset: bool) -> Cells:
        if not self._mixed:
            cells = read_numbers(self, X, reset=reset)
            if reset:
                given = getattr(self, "feature_names_in_", None)
                names = [f"x{j}" for j in range(cells.continuous.shape[1])]
                names = names if given is None else [str(name) for name in given]
                self._columns = [Column(name, CONTINUOUS, "numbers") for name in names]
            return cells
        frame = self._frame(X, reset=reset)
        if reset:
            self._columns = take_columns(frame, getattr(self, "feature_types", None))
        cells = cells_of(frame, self._columns)
        if cells.unseen and not reset:
            listed = ", ".join(f"{n} in column {name!r}" for name, n in cells.unseen.items())
            warnings.warn(
                f"Categories that are not in the fit are treated as missing: {listed}. Filter "
                "cavity.ColumnsNote to silence this.",
                ColumnsNote,
                stacklevel=5,
            )
        return cells

    def _cells_of_fit(self, X: Any) -> Cells:
        """Return the cells of X, which must have as many rows as the fit, with its errors."""
        cells, n = self._cells(X), self.posterior_.n_observations
        if len(cells) != n:
            raise ValueError(f"X must be the data of the fit, which had {n} rows.")
        return replace(cells, errors=self.posterior_.summaries.get(ERRORS))

    def _is_fitted_to(self, cells: Cells) -> bool:
        """Return whether these are the cells of the fit."""
        return bool(self.posterior_.summaries.get(DATA, [""])[0] == _digest(cells))

    def _warn_of_columns(self, cells: Cells | None) -> None:
        if self._mixed:
            warn_of_columns(self._columns)
        elif cells is not None:
            exact = cells.continuous
            if cells.errors is not None:
                exact = np.where(cells.errors > 0.0, np.nan, exact)
            warn_of_coarse_columns(exact, [column.name for column in self._columns])

    # ------------------------------------------------------------------ fitting

    def check(
        self,
        X: Any,
        y: Any = None,
        sample_weight: Any = None,
        *,
        known_labels: Any = None,
        errors: Any = None,
        columns: Sequence[str] | None = None,
    ) -> Prepared:
        """Check settings and data as `fit` does, without fitting.

        Reads Parquet metadata only.

        Returns
        -------
        Prepared
            ``fit(prepared)`` samples without checking again.
        """
        return self._prepare(X, sample_weight, known_labels, errors, columns, None)

    def _is_sharded(self, X: Any, client: Any) -> bool:
        """Return whether rows are shared by the workers, rather than whole chains."""
        if is_in_shards(X) or self.collapse == PARALLEL:
            return True
        many = client is not None and np.shape(X)[:1] >= (MANY,)
        return many and self.collapse in (AUTO_COLLAPSE, "collapsed")

    def _prepare(
        self,
        X: Any,
        sample_weight: Any,
        known_labels: Any,
        errors: Any,
        columns: Sequence[str] | None,
        client: Any,
    ) -> Prepared:
        self._check_settings()
        settings = self.get_params(deep=False)
        # A copy reads the columns: the estimator itself is not changed before it is fitted.
        reader = clone(self)
        if self._is_sharded(X, client):
            from cavity.estimators import shard_fits, sharded

            sharded.refuse_unsupported(self, sample_weight, known_labels, errors)
            sharded.check_sampler(self)
            selected = None if columns is None else tuple(columns)
            if isinstance(X, str | os.PathLike):
                shard_fits.source_of_files(self, X, None, selected, metadata_only=True)
            elif not is_in_shards(X):
                cells = reader._cells(X, reset=True)
                if cells.low is not None:
                    raise ValueError(
                        "Ordinal columns are not supported for sharded data, or 'parallel'. Take "
                        "them as categorical in feature_types."
                    )
                shard_fits.array_source(cells, reader._columns, False)
                reader._start_of_rows(len(cells))
            return Prepared(X, settings, selected)
        if columns is not None:
            raise ValueError(
                "columns selects columns of a path or a Dask DataFrame. Pass X[columns] instead."
            )
        names = row_names(X)
        cells = reader._cells(X, errors, reset=True)
        n = len(cells)
        weight = check_weights(sample_weight, n)
        known = check_known(known_labels, n, self.n_clusters, self._specification().is_open)
        plan, units, noise = reader._plan(cells, known, weight)
        return Prepared(X, settings, None, reader, cells, names, known, weight, plan, units, noise)

    def fit(
        self,
        X: Any,
        y: Any = None,
        sample_weight: Any = None,
        *,
        known_labels: Any = None,
        errors: Any = None,
        client: Any = None,
        columns: Sequence[str] | None = None,
    ) -> Self:
        """Sample the posterior over partitions of the rows of X.

        Parameters
        ----------
        X : array or DataFrame of shape (n, d), path, Dask DataFrame, or what `check` returned
            Numbers, NaN where one is missing; for `TableMixture` any columns of pandas, polars or
            Arrow, where NaN, None and NA are missing. Columns need no scaling. A path is that of a
            Parquet file, a folder of such files, or a pattern such as ``"rows/*.parquet"``.
        y : ignored
        sample_weight : array of float, optional
            How much each row counts, relative to the others: weights are rescaled to a mean of one,
            and the likelihood of a row is taken to the power of its weight. Multiplying all weights
            by a constant changes nothing. The prior over partitions counts each row once, as do
            sizes of clusters and ``weights_``. Rows with missing measurements have the mean weight.
            For counts of identical rows pass ``X.repeat(counts)`` instead.
        known_labels : array, optional
            Labels that are known for some rows: whole numbers from 0, or text; -1, NaN or None
            where the label is unknown. Rows of the same label stay together in every draw, rows of
            different labels apart.
        errors : array, DataFrame or dict, optional
            Standard deviations of measurement errors in the units of X: one per cell, or one per
            column; NaN or 0 for exact cells. A DataFrame or dictionary has the columns with errors,
            by name. Clusters then are those of the true values, which are drawn with the labels:
            ``means_`` and ``covariances_`` are without errors. `impute` returns the true values.
        client : distributed.Client, optional
            Dask cluster that does the work. Sharded rows, and tables in memory from 100,000 rows
            on, are shared by its workers; for smaller tables each worker runs whole chains, with
            the same draws as without a cluster. See the page on scaling.
        columns : sequence of str, optional
            Columns of a path or Dask DataFrame to use; all by default.

        Returns
        -------
        self

        Warns
        -----
        CoarseColumnsWarning
            If columns of numbers have few values, or one value in many rows.
        WeightsWarning
            If rows have more than ten times the mean weight.
        ColumnsNote
            If columns of a table may be meant as another kind.
        ClusterLimitWarning
            If draws have as many clusters as `n_clusters` allows.
        NotConvergedWarning
            If the chains have not been shown to agree.
        """
        check_client(client)
        if isinstance(X, Prepared):
            prepared = X
            if any(given is not None for given in (y, sample_weight, known_labels, errors)):
                raise ValueError(
                    "Pass sample_weight, known_labels and errors to check, not to fit."
                )
            self._refuse_changed(prepared.settings)
        else:
            prepared = self._prepare(X, sample_weight, known_labels, errors, columns, client)
        if self._is_sharded(prepared.X, client):
            from cavity.estimators.shard_fits import fit_sharded

            posterior = fit_sharded(self, prepared.X, client, prepared.selected)
        else:
            posterior = self._sample(prepared, client)
        self._data = None if is_in_shards(prepared.X) else prepared.X
        self._finish(posterior)
        return self

    def _sample(self, prepared: Prepared, client: Any) -> Posterior:
        """Run the chains of a prepared problem."""
        reader, cells, plan = prepared.reader, prepared.cells, prepared.plan
        self.n_features_in_, self._columns = reader.n_features_in_, reader._columns
        self.__dict__.pop("feature_names_in_", None)
        named = hasattr(reader, "feature_names_in_")
        if named:
            self.feature_names_in_ = reader.feature_names_in_
        self._warn_of_columns(cells)
        warn_of_heavy_rows(prepared.weight, bool(cells.continuous.shape[1]))
        if plan.noisy and self.noise == AUTO:
            tell_of_noise(filled(prepared.units.standardise(cells.continuous)))
        from cavity.predict.cluster_summary import OVERALL, overall_of

        n, weight, units = len(cells), prepared.weight, prepared.units
        fixed = isinstance(self._specification(), FixedWeights)
        if n >= MANY and self.collapse == "collapsed" and client is None:
            say(f"{n:,} rows: with collapse={PARALLEL!r} threads share every sweep of a chain.")
        run = run_plan(plan, self._run_settings(), client)
        noise, steps = prepared.noise, None
        sampler: Any = run.samplers[0]
        if any(update.name == LATENT_CELLS for update in sampler.updates):
            standard = units.standardise(cells.continuous)
            steps = drawn_steps(standard, cells.scaled_errors(units.scale), cells.low, cells.high)
        return plan.posterior(
            run,
            names=prepared.names,
            units=units,
            volume=float(_log_volumes(units, cells, weight).sum()),
            summaries=kept_of_rows(
                _digest(cells),
                prepared.known,
                weight,
                None if noise is None else noise.kept,
                steps,
                cells.errors,
            ),
            settings=self._settings(),
            noun="row",
            columns=tuple(column.name for column in self._columns),
            columns_named=named,
            components=components(self._columns),
            details={
                "taken_for": [column.to_plain() for column in self._columns],
                OVERALL: overall_of(cells, self._columns, weight),
                **({} if fixed else {ROWS_BEHIND_WEIGHTS: float(n)}),
            },
        )

    def _plan(
        self, cells: Cells, known: KnownLabels | None, weight: np.ndarray | None
    ) -> tuple[Plan, ColumnUnits, Noise | None]:
        """Return how chains over some cells are made."""
        n, columns = len(cells), self._columns
        gaps = "gaps among its measurements" if self._mixed else "gaps"
        refuse_weighted_gaps(cells.continuous, cells.errors, weight, gaps)
        self._check_uneven(weight, cells.errors)
        start, n_start = self._start_of_rows(n)
        units = self._units_of(cells, weight)
        standard = units.standardise(cells.continuous)
        noise = None
        uncertain = cells.errors is not None or cells.low is not None
        if self._has_noise(filled(standard), uncertain):
            seen = within_steps(standard) if standard.shape[1] else standard
            noise = Noise.of(seen, cells.counts, levels_of(columns), self.noise)
        errors = cells.scaled_errors(units.scale)
        rows = self._model_rows(standard, cells, weight, noise, errors=errors)
        parts = self.build_model(rows)
        if self.select_columns:
            check_selected(parts, self._columns, weight, self.covariance_type)
        collapse = self._collapse_for(parts)
        few = tuple(first_rows(part, FEW) for part in parts)
        points = features_of(standard, cells)
        # Categories may group rows differently from measurements, and k-means of both together
        # would follow the stronger of the two alone: starts take both views in turn.
        views = [points]
        if 1 < standard.shape[1] < points.shape[1]:
            views.append(points[:, : standard.shape[1]])
        home = None if known is None else known.home
        given = [part for part in (weight, home) if part is not None]
        describe = Describer(parts)
        plan = self._planned(
            joint_problem(parts, collapse),
            joint_problem(few, collapse),
            _digest(cells) + (data_digest(*given) if given else ""),
            self._collapse_options(collapse),
            collapse,
            {"columns": {c.name: f"{c.kind} {' '.join(c.categories)}" for c in columns}},
            start=_first_labels(views, start, n_start, home, noise is not None),
            n_start=n_start if known is None else max(n_start, known.names.size),
            n_runs=runs_of(start, points.shape, n_start, self.n_warmup),
            places=row_places(home, n, noise is not None),
            describe=describe,
            cluster_parameters=describe.names,
            from_slots=self.covariance_type == FULL,
            anchors=(lambda: nearest_anchors(points)) if self._option("moves") else None,
        )
        return plan, units, noise

    def _units_of(self, cells: Cells, weight: np.ndarray | None) -> ColumnUnits:
        """Return the units of the continuous columns."""
        measured = [column for column in self._columns if column.measured]
        units = ColumnUnits(np.zeros(len(measured)), np.ones(len(measured)))
        own = np.array([column.kind == CONTINUOUS for column in measured], dtype=bool)
        if not own.any():
            return units
        names = [column.name for column in measured if column.kind == CONTINUOUS]
        named = self._mixed or hasattr(self, "feature_names_in_")
        words = np.array(names, dtype=object) if named else None
        refuse_empty_columns(cells.continuous[:, own], words)
        found = robust_standardiser(cells.continuous[:, own], words, weight)
        units.centre[own], units.scale[own] = found
        return units

    def _model_rows(
        self,
        standard: np.ndarray,
        cells: Cells,
        weight: np.ndarray | None,
        noise: Noise | None,
        n_factors: int | None = None,
        errors: np.ndarray | None = None,
    ) -> ModelRows:
        intervals = cells.low, cells.high
        values = within_steps(standard, errors, *intervals) if standard.shape[1] else standard
        return ModelRows(
            values,
            cells,
            levels_of(self._columns),
            weight,
            noise,
            self._n_held,
            n_factors,
            uncertain_cells(standard, values, errors, *intervals) if standard.shape[1] else None,
            self.select_columns,
        )

    def _check_uneven(self, weight: np.ndarray | None, errors: np.ndarray | None) -> None:
        """Refuse weights, errors and noise where a part of the table does not support them."""
        over = [column.name for column in self._columns if column.kind == OVERDISPERSED]
        ordinal = [column.name for column in self._columns if column.kind == ORDINAL]
        for given, word in (
            (weight is not None, "sample_weight is"),
            (asks_for_noise(self.noise), "noise=True is"),
            (self.collapse == "ep", "collapse='ep' is"),
            (bool(over), "Overdispersed counts are"),
        ):
            if given and ordinal:
                raise ValueError(
                    f"{word} not supported with ordinal columns such as {ordinal[0]!r}, whose "
                    f"latent values are drawn. Use feature_types={{{ordinal[0]!r}: 'categorical'}}."
                )
        for given, word in (
            (weight is not None, "sample_weight"),
            (errors is not None, "errors"),
            (asks_for_noise(self.noise), "noise=True"),
        ):
            if given and over:
                raise ValueError(
                    f"{word} is not supported with overdispersed counts such as column "
                    f'{over[0]!r}, which only expectation propagation samples. Use "count".'
                )
            if given and self.collapse == "ep":
                raise ValueError(
                    f"{word} is not supported with collapse='ep', which has no projection for it. "
                    "Use collapse='collapsed', which is exact."
                )

    def _has_noise(self, standard: np.ndarray, uncertain: bool) -> bool:
        """Return whether rows may be noise: as set, or by measurements far from all others.

        Rows may lie far from others for their errors alone, and latent values have no range.
        """
        if self.noise == AUTO and (
            uncertain
            or self.select_columns
            or not standard.shape[1]
            or self.collapse == "ep"
            or any(column.kind == OVERDISPERSED for column in self._columns)
        ):
            return False
        return is_noisy(self.noise, standard)

    def _collapse_for(self, parts: tuple[Any, ...]) -> str:
        """Return the collapse of a model."""
        own = collapses_of(parts[0].model) if len(parts) == 1 else ()
        able = tuple(dict.fromkeys((*TableProblem(parts).collapses, *own)))
        if not able:
            raise ValueError(
                f"covariance_type={self.covariance_type!r} is not supported with overdispersed "
                "counts, which need collapse='ep'. Use \"count\" for them, or "
                "covariance_type='full'."
            )
        if self.collapse == AUTO_COLLAPSE:
            return able[0]
        if self.collapse not in able:
            raise ValueError(
                f"collapse={self.collapse!r} is not supported for these columns. Use "
                f"{' or '.join(map(repr, able))}."
            )
        return self.collapse

    # ------------------------------------------------------------------ the estimate

    def _restore(self, posterior: Posterior) -> None:
        """Set what a fit would have set from the data."""
        record = posterior.record
        self.n_features_in_ = len(record.columns)
        if record.columns_named:
            self.feature_names_in_ = np.array(record.columns, dtype=object)
        self._columns = [Column.from_plain(plain) for plain in record.details["taken_for"]]
        self._data = None

    def _settle(self, partition: Partition) -> None:
        """Set the parameters of the point estimate's clusters."""
        super()._settle(partition)
        posterior = self.posterior_
        if posterior.record.noise:
            self.noise_probability_ = outside_probability(posterior)
            outside = self.noise_probability_ > 0.5
            self.labels_ = np.where(outside, NOISE_LABEL, self.labels_)
            self.n_clusters_ -= int(outside.any())
        for name in ("_predictor", "_group_predictor"):
            self.__dict__.pop(name, None)
        found = self._predictor.clusters
        self.weights_ = found.weights
        if found.means is not None:
            self.means_ = self._units.convert("mean", found.means)
            self.covariances_ = self._units.convert("covariance", found.covariances)
        if found.df is not None:
            self.df_ = found.df

    @cached_property
    def _predictor(self) -> Predictor:
        from cavity.predict.predictor import Predictor

        return Predictor(self.posterior_, self.partition_, self.n_clusters_, self._columns)

    def _fitted(self, level: str = LEVELS[0]) -> Predictor:
        """Return the predictor of a fitted estimator, of its clusters or groups."""
        check_is_fitted(self, "posterior_")
        check_choice("level", level, LEVELS)
        return self._predictor if level == LEVELS[0] else self._group_predictor

    def _overlaps(self) -> dict[str, np.ndarray]:
        from cavity.predict.groups import overlaps_of_fit

        posterior = self.posterior_
        X = self._data if VALUES not in posterior.summaries else self._followed_rows()
        if X is None:
            return {}
        return overlaps_of_fit(
            self._predictor, self._cells_of_fit(X), posterior.summaries.get(WEIGHTS)
        )

    @cached_property
    def _group_predictor(self) -> GroupPredictor:
        from cavity.predict.groups import GroupPredictor

        groups = self.posterior_.groups()
        partition = with_noise_last(groups, groups.partition())
        outside = groups.record.noise and bool((outside_probability(groups) > 0.5).any())
        return GroupPredictor(self._predictor, partition, int(partition.n_clusters) - outside)

    @property
    def group_labels_(self) -> np.ndarray:
        """Group of each row: clusters that overlap are one group; -1 for noise.

        The partition into groups of least expected loss; ``posterior_.groups()`` has their
        posterior.
        """
        found = self._fitted("groups")
        labels: np.ndarray = found.partition.labels.astype(np.int64)
        return np.where(labels == found.n_clusters, NOISE_LABEL, labels)

    @property
    def n_groups_(self) -> int:
        """Number of groups in ``group_labels_``."""
        return self._fitted("groups").n_clusters

    @property
    def cluster_centers_(self) -> np.ndarray:
        """Posterior means of the clusters' locations: ``means_``."""
        return self.means_

    @property
    def columns_(self) -> pd.DataFrame:
        """How each column is modeled: ``kind``, ``reason`` and ``categories``, by name."""
        import pandas as pd

        check_is_fitted(self, "posterior_")
        return pd.DataFrame(
            {
                "kind": [column.kind for column in self._columns],
                "reason": [column.reason for column in self._columns],
                "categories": [", ".join(column.categories) for column in self._columns],
            },
            index=pd.Index([column.name for column in self._columns], name="column"),
        )

    @property
    def followed_(self) -> pd.DataFrame | None:
        """Rows whose labels are kept by a fit to sharded data; None for other fits."""
        check_is_fitted(self, "posterior_")
        values = self.posterior_.summaries.get(VALUES)
        if values is None:
            return None
        from cavity.distributed.tables import frame_from

        return frame_from(values, self._columns, self.posterior_.names)

    def _followed_rows(self) -> pd.DataFrame | np.ndarray | None:
        """Return `followed_`, without names if the estimator was fitted to an array."""
        followed = self.followed_
        if followed is None or self._mixed or hasattr(self, "feature_names_in_"):
            return followed
        return followed.to_numpy()

    def _summary(self, level: float = 0.95) -> ClusterSummary:
        from cavity.predict.cluster_summary import ClusterSummary

        check_is_fitted(self, "posterior_")
        return ClusterSummary.of(
            self.posterior_,
            self.partition_.labels,
            self.weights_,
            self._columns,
            self._units,
            level,
        )

    def summary(self, level: float = 0.95) -> pd.DataFrame:
        """Summarize the clusters column by column.

        Parameters
        ----------
        level : float
            Probability of the intervals.

        Returns
        -------
        DataFrame
            One row per cluster and column, and per category of a categorical column:
            ``estimate`` (a mean, a probability, or a mean count), ``lower`` and ``upper``,
            ``overall`` (the same over all rows), and ``kind``; with ``select_columns=True`` also
            ``p_matters``, see `column_relevance`.
        """
        table = self._summary(check_number("level", level, 0.0, 0.999999)).table()
        if self.select_columns:
            from cavity.predict.column_relevance import column_relevance

            found = column_relevance(self.posterior_, self._columns, None)["probability"]
            table["p_matters"] = found.reindex(table.index.get_level_values("column")).to_numpy()
        return table

    def column_relevance(self, X: Any = None) -> pd.DataFrame:
        """Return the probability that each column matters, the most relevant first.

        A column matters if its distribution differs between clusters. With ``select_columns=True``
        this is decided in the fit: a column that does not matter has no influence on the clusters.
        Other columns have marginal odds, computed after the fit: given the labels of each draw, a
        distribution per cluster against one for all, column by column. These overstate: clusters
        were chosen to differ in these columns, and a column that only follows another one matters
        as much.

        Parameters
        ----------
        X : array or DataFrame, optional
            The data of the fit, for marginal odds after `load`; a fit in memory has kept a
            reference.

        Returns
        -------
        DataFrame
            By column: ``probability``, its ``basis`` (``"indicator"`` or ``"marginal"``) and
            ``kind``.

        Examples
        --------
        >>> import numpy as np
        >>> from cavity import GaussianMixture
        >>> X = np.random.default_rng(0).standard_normal((80, 3))
        >>> X[:40, 1] += 6.0
        >>> run = {"n_chains": 2, "n_warmup": 40, "n_draws": 40, "random_state": 0}
        >>> m = GaussianMixture(2, covariance_type="diag", select_columns=True, **run).fit(X)
        >>> m.column_relevance()["probability"].idxmax()
        'x1'
        """
        from cavity.predict.column_relevance import column_relevance

        check_is_fitted(self, "posterior_")
        if X is None:
            X = self._data if VALUES not in self.posterior_.summaries else self._followed_rows()
        cells = None if X is None else self._cells_of_fit(X)
        if cells is None and not self.select_columns:
            raise ValueError(
                "This estimator was loaded without its data. Pass X to column_relevance."
            )
        table: pd.DataFrame = column_relevance(self.posterior_, self._columns, cells)
        return table

    def distinguishing_features(self, most: int = 3, *, as_frame: bool = False) -> Any:
        """Return the columns in which each cluster differs most from all rows.

        Continuous columns are compared by the cluster's mean minus the median of all rows, in
        robust standard deviations. Categories and counts are compared by the root of twice the
        Kullback-Leibler divergence, which is the same number for a normal distribution.

        Parameters
        ----------
        most : int
            Columns to name for each cluster.
        as_frame : bool
            Return a table of all columns instead, by cluster and column, the most different first:
            ``size`` is the difference, ``words`` describes it.

        Returns
        -------
        list of str, or DataFrame
        """
        found = self._summary()
        return found.features() if as_frame else found.sentences(most)

    def furthest_columns(self, X: Any) -> list[str]:
        """Return, for each row of the fit, the column in which it lies furthest out, and how far.

        In standard deviations from its cluster's center; for a row outside every cluster, or the
        only one of its cluster, in robust ones from the median of all rows. The cell to look at
        first if the row is suspect.

        Parameters
        ----------
        X : array or DataFrame of shape (n, d)
            The data of the fit.

        Examples
        --------
        >>> import numpy as np
        >>> from cavity import StudentTMixture
        >>> X = np.random.default_rng(0).standard_normal((60, 2))
        >>> X[7, 1] = -40.0
        >>> m = StudentTMixture(1, n_chains=2, n_warmup=20, n_draws=40, random_state=0).fit(X)
        >>> m.furthest_columns(X)[7].split()[0]
        'x1'
        """
        return self._fitted().furthest_columns(self._cells_of_fit(X), self.labels_)

    def unusual_rows(self, X: Any) -> tuple[np.ndarray, list[str]]:
        """Return how far out each row of the fit is, and the cell to look at first.

        For measurements `tail_probabilities` and `furthest_columns`. For mixed tables the smallest
        tail probability of a row's cells (see `suspicious_cells`), times their number.

        Parameters
        ----------
        X : array or DataFrame
            The data of the fit.

        Returns
        -------
        tail : array, shape (n,)
        cells : list of str
        """
        cells, predictor = self._cells_of_fit(X), self._fitted()
        if all(column.kind == CONTINUOUS for column in self._columns):
            return predictor.tails(cells), predictor.furthest_columns(cells, self.labels_)
        found = predictor.suspicious_cells(cells, self.labels_)
        value = [f"{v:g}" if isinstance(v, float) else str(v) for v in found["value"]]
        words = [f"{name} {v}" for name, v in zip(found["column"], value, strict=True)]
        return found["row_tail"].to_numpy(), words

    def suspicious_cells(self, X: Any) -> pd.DataFrame:
        """Return the cells that are least probable given the other cells of their rows.

        Each cell is left out of its row: the clusters are weighed by the other cells, and the tail
        probability is that of the cell's predictive distribution, averaged over 20 draws. Columns
        of positive measurements are compared by their logarithms too, cluster by cluster.

        Parameters
        ----------
        X : array or DataFrame
            The data of the fit.

        Returns
        -------
        DataFrame
            ``row``, ``column``, ``value`` and ``tail_probability`` of the least probable cell of
            each row in which, corrected for its number of cells, the probability is below one over
            the number of rows; under the model about one. The least probable first.

        Examples
        --------
        >>> import numpy as np
        >>> from cavity import GaussianMixture
        >>> X = np.random.default_rng(0).standard_normal((60, 2))
        >>> X[7, 1] = -9.0
        >>> m = GaussianMixture(1, n_chains=2, n_warmup=20, n_draws=40, random_state=0).fit(X)
        >>> m.suspicious_cells(X)[["row", "column"]].values.tolist()
        [[7, 'x1']]
        """
        cells = self._cells_of_fit(X)
        found = self._fitted().suspicious_cells(cells, self.labels_)
        names = self.posterior_.names
        found.insert(0, "row", np.arange(len(found)) if names is None else list(names))
        found = found[found["row_tail"] < 1.0 / len(found)].drop(columns="row_tail")
        return found.sort_values("tail_probability", kind="stable").reset_index(drop=True)

    def report(
        self,
        path: str | os.PathLike[str],
        X: Any = None,
        *,
        title: str | None = None,
        settings: Mapping[str, Any] | None = None,
        count_from: int = 0,
        tail: Any = None,
        furthest: Sequence[str] | None = None,
        sections: Iterable[Any] = (),
    ) -> Path:
        """Write an HTML page: summary in words, tables, pictures.

        Parameters
        ----------
        path : path
            File to write; an existing one is replaced.
        X : array or DataFrame, optional
            The data of the fit: its continuous columns are drawn, and rows far out listed.
        title : str, optional
        settings : mapping, optional
            Further settings to list, such as the data's file.
        count_from : int
            Number of the first row, where rows have no names.
        tail, furthest : optional
            `unusual_rows` of `X`, if they are known already.
        sections : iterable, optional
            Further sections: what `posterior_.regress` and `posterior_.outcome` return, or
            (title, figure or axes, caption).
        """
        import pandas as pd

        from cavity.predict.cluster_summary import relevance_section
        from cavity.predict.cluster_summary import sections as sections_of
        from cavity.predict.column_relevance import column_relevance
        from cavity.report.html import write_report

        check_is_fitted(self, "posterior_")
        n = self.posterior_.n_observations
        X = self._followed_rows() if X is None else X
        names = [column.name for column in self._columns if column.kind == CONTINUOUS]
        only = len(names) == len(self._columns)
        drawn = cells = None
        if X is not None:
            cells = self._cells_of_fit(X)
            measured = [column.name for column in self._columns if column.measured]
            drawn = pd.DataFrame(cells.continuous, columns=measured)[names] if names else None
            if tail is None:
                tail, furthest = self.unusual_rows(X)
        return write_report(
            path,
            self.posterior_,
            drawn,
            title=f"Clusters of {n} rows" if title is None else title,
            settings=settings,
            partition=self.partition_,
            features=self.distinguishing_features(),
            tail=tail,
            furthest=furthest,
            extra_sections=[
                *(() if only else sections_of(self._summary(), self._columns)),
                *relevance_section(column_relevance(self.posterior_, self._columns, cells)),
                *sections,
            ],
            count_from=count_from,
        )

    # ------------------------------------------------------------------ predictions

    def predict(self, X: Any, *, errors: Any = None, level: str = "clusters") -> np.ndarray:
        """Return the most probable cluster of each row of X; -1 if noise is more probable.

        Parameters
        ----------
        X : array or DataFrame
        errors : array, DataFrame or dict, optional
            Standard deviations of measurement errors, as `fit` takes them. Without them all cells
            are exact, whatever the fit had.
        level : {"clusters", "groups"}
            With ``"groups"``, the most probable group: see ``group_labels_``.
        """
        return self._fitted(level).labels(self._cells(X, errors))

    def predict_proba(
        self, X: Any, *, errors: Any = None, as_frame: bool = False, level: str = "clusters"
    ) -> Any:
        """Return the probability of each cluster of the point estimate for each row of X.

        Averaged over at most 200 draws; missing values and errors are integrated out.

        Parameters
        ----------
        X : array or DataFrame
        errors : array, DataFrame or dict, optional
            Standard deviations of measurement errors, as `fit` takes them.
        as_frame : bool
            Return a table with all there is to say of each row.
        level : {"clusters", "groups"}
            With ``"groups"``, the same for the groups of ``group_labels_``.

        Returns
        -------
        array of shape (n, K), or DataFrame
            An array has probabilities given that the row is in one of these clusters: a draw's
            cluster that matches none of the estimate's is left out, as is noise. A table has
            ``cluster``, its ``probability``, ``tail_probability`` where all columns are continuous,
            ``log_density`` (see `score_samples`), ``p_0``, ``p_1``, ..., ``p_noise`` if rows may be
            noise, and ``p_unmatched``, the probability of a cluster that matches none of the
            estimate's. The last ones sum to one.
        """
        import pandas as pd

        predictor, cells = self._fitted(level), self._cells(X, errors)
        if not as_frame:
            return predictor.probabilities(cells)
        return predictor.frame(cells, X.index if isinstance(X, pd.DataFrame) else None)

    def predict_to_parquet(
        self, X: Any, folder: str | os.PathLike[str], *, client: Any = None, n_draws: int = N_DRAWS
    ) -> list[Path]:
        """Write each row's cluster and probabilities, one Parquet file per part of X.

        Files have the names of X's files, and their rows are in the same order.

        Parameters
        ----------
        X : path, Dask DataFrame, array or DataFrame
            With the columns of the fit; a path is that of a Parquet file, a folder or a pattern.
        folder : path
            Where to write; created if needed.
        client : distributed.Client, optional
            Cluster that does the work.
        n_draws : int
            Draws to average over, evenly spread.

        Returns
        -------
        list of Path
            The files, with the columns ``cluster``, ``probability`` (of that cluster),
            ``log_density``, ``p_0``, ``p_1``, ... and ``p_unmatched``; see `predict_proba`.

        Examples
        --------
        >>> import tempfile, numpy as np, pandas as pd
        >>> from cavity import GaussianMixture
        >>> X = np.random.default_rng(0).standard_normal((60, 2))
        >>> m = GaussianMixture(2, n_chains=1, n_warmup=20, n_draws=20, random_state=0).fit(X)
        >>> (path,) = m.predict_to_parquet(X, tempfile.mkdtemp())
        >>> pd.read_parquet(path).shape[0]
        60
        """
        from cavity.estimators.shard_fits import predict_files

        predictor = self._fitted()
        check_client(client)
        return predict_files(self, predictor, X, Path(folder), client, n_draws)

    def score_samples(self, X: Any, *, errors: Any = None) -> np.ndarray:
        """Return the log posterior predictive density of each row of X, its cluster integrated out.

        Missing values are integrated out. With `errors`, as `fit` takes them, the density is that
        of measurements with such errors.
        """
        return self._fitted().log_scores(self._cells(X, errors))

    def score(self, X: Any, y: Any = None) -> float:
        """Return the mean log posterior predictive density of the rows of X."""
        return float(self.score_samples(X).mean())

    def tail_probabilities(self, X: Any, *, errors: Any = None) -> np.ndarray:
        """Return the probability that a draw from the nearest cluster lies at least as far out.

        It is small where a row lies far from every cluster: the rows worth checking in the source
        of the data.

        Parameters
        ----------
        X : array or DataFrame of shape (n, d)
            Rows of the fit, or new ones. Their continuous columns are used.
        errors : array, DataFrame or dict, optional
            Standard deviations of measurement errors, as `fit` takes them; their squares are added
            to the covariances.

        Returns
        -------
        array of shape (n,)
            Under ``means_``, ``covariances_`` and ``df_``: the squared Mahalanobis distance over
            d is then F(d, df), or chi-squared over d. The largest over the clusters. It is that of
            the observed values in a row with missing ones, and 1 without any.

        Examples
        --------
        >>> import numpy as np
        >>> from cavity import StudentTMixture
        >>> X = np.random.default_rng(0).standard_normal((60, 2))
        >>> X[7] = 40.0
        >>> m = StudentTMixture(1, n_chains=2, n_warmup=20, n_draws=40, random_state=0).fit(X)
        >>> int(m.tail_probabilities(X).argmin())
        7
        """
        return self._fitted().tails(self._cells(X, errors))

    def impute(
        self, X: Any, level: float = 0.9, random_state: Any = 0, *, errors: Any = None
    ) -> Imputed:
        """Impute the missing values of X, and the true values of cells with measurement errors.

        Parameters
        ----------
        X : array or DataFrame
            The rows of the fit, or new ones.
        level : float
            Probability of the intervals.
        random_state : None, int or Generator
            Seed of the draws that the intervals come from.
        errors : array, DataFrame or dict, optional
            Standard deviations of measurement errors, as `fit` takes them. Those of the data of the
            fit are stored and need not be given again.

        Returns
        -------
        Imputed
            ``mean``, ``lower``, ``upper`` and ``probability``, tables like X, and ``cells``, the
            missing cells and those with errors by row and column. Each cell's posterior has its
            row's cluster and the clusters' parameters integrated out; rows of the data of the fit
            are in the cluster that each draw has them in. `category_probabilities` has all
            categories' probabilities.

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
        from cavity.io.frames import as_pandas, is_frame
        from cavity.predict.imputation import Filled, fill_rows, imputed_table

        predictor = self._fitted()
        check_number("level", level, 0.0, 1.0 - 1e-9)
        cells = self._cells(X, errors)
        if errors is None and len(cells) == self.posterior_.n_observations:
            same = self._cells_of_fit(X)
            cells = same if self._is_fitted_to(same) else cells
        rows = predictor.rows(cells)
        wanted = (np.isnan(rows.continuous) & ~rows.bounded) | rows.uncertain
        some = np.flatnonzero(
            wanted.any(axis=1) | (rows.codes < 0).any(axis=1) | np.isnan(rows.counts).any(axis=1)
        )
        own = np.full((some.size, predictor.chosen.size), -1)
        if self._is_fitted_to(cells):
            own = predictor.entries_of_fit()[some]
        entropy = seed_entropy(random_state)
        thresholds = predictor.thresholds
        given = rows.take(some)
        found = fill_rows(predictor.draws, given, own, level, entropy, thresholds=thresholds)
        whole = [np.full((3, len(cells), part.shape[2]), np.nan) for part in found[:2]]
        for out, part in zip(whole, found[:2], strict=True):
            out[:, some] = part
        share = np.zeros((len(cells), found.share.shape[1]))
        share[some] = found.share
        ordinal = {c: np.zeros((len(cells), part.shape[1])) for c, part in found.ordinal.items()}
        for c, part in found.ordinal.items():
            ordinal[c][some] = part
        frame = self._frame(X) if self._mixed else as_pandas(X) if is_frame(X) else None
        levels = predictor.draws.levels
        filled_rows = Filled(whole[0], whole[1], share, ordinal)
        return imputed_table(X, frame, self._columns, self._units, cells, levels, filled_rows)

    def category_probabilities(self, X: Any, column: str) -> pd.DataFrame:
        """Return the probability of every category of a column given the rest of each row of X.

        Cells of the column itself are ignored.
        """
        import pandas as pd

        from cavity.predict.imputation import fill_rows

        predictor = self._fitted()
        names = [c.name for c in self._columns if c.kind in (CATEGORICAL, ORDINAL)]
        if column not in names:
            raise ValueError(f"{column!r} is not a categorical column. These are: {names}.")
        rows = predictor.rows(self._cells(X))
        chosen = next(one for one in self._columns if one.name == column)
        same = [c.name for c in self._columns if c.measured == chosen.measured]
        draws, thresholds = predictor.draws, predictor.thresholds
        own = np.full((len(rows.codes), predictor.chosen.size), -1)
        if rows.low is not None and rows.high is not None and chosen.kind == ORDINAL:
            c = same.index(column)
            low, high = rows.low.copy(), rows.high.copy()
            low[:, c], high[:, c] = -np.inf, np.inf
            found = fill_rows(
                draws, rows._replace(low=low, high=high), own, 0.9, thresholds=thresholds
            )
            share = found.ordinal[c]
        else:
            c = [one.name for one in self._columns if one.kind == CATEGORICAL].index(column)
            codes = rows.codes.copy()
            codes[:, c] = -1
            found = fill_rows(draws, rows._replace(codes=codes), own, 0.9, n_values=1)
            share = found.share[:, draws.levels[c] : draws.levels[c + 1]]
        categories = chosen.categories
        index = X.index if isinstance(X, pd.DataFrame) else None
        return pd.DataFrame(share, index=index, columns=list(categories))

    def sample(self, n_samples: int = 1, random_state: Any = None) -> tuple[Any, np.ndarray]:
        """Draw new rows, without missing values, from the posterior predictive distribution.

        Parameters
        ----------
        n_samples : int
        random_state : None, int or Generator

        Returns
        -------
        X : array of shape (n_samples, d), or DataFrame for `TableMixture`
        labels : array of int
            The cluster of the point estimate that each row is from; -1 for one that matches none,
            and for noise.
        """
        predictor = self._fitted()
        check_count("n_samples", n_samples, 1)
        rng = np.random.default_rng(seed_entropy(random_state))
        rows, labels = predictor.sample(n_samples, rng)
        return predictor.as_frame(rows) if self._mixed else rows.continuous, labels

    # ------------------------------------------------------------------ checks

    def predictive_check(
        self, X: Any, n_replicates: int = 200, random_state: Any = 0
    ) -> pd.DataFrame:
        """Compare the data with replicated data, one row per continuous column and statistic.

        A posterior predictive p-value near 0 means that the model cannot produce what is in X:
        the center and spread of a column, its bulk (95% reach) or its farthest value, the last
        two in units of the interquartile range.

        Parameters
        ----------
        X : array or DataFrame
            The data that the model was fitted to, or other data of the same kind.
        n_replicates : int
            Replicated data sets.
        random_state : None, int or Generator

        Returns
        -------
        DataFrame
            ``observed``, and ``mean``, ``lower``, ``upper`` of the replicates, and ``p``.
        """
        from cavity.predict.checks import predictive_check

        predictor = self._fitted()
        check_count("n_replicates", n_replicates, 20)
        cells = self._cells(X)
        if len(cells) == self.posterior_.n_observations:
            cells = self._cells_of_fit(X)
        names = [column.name for column in self._columns if column.measured]
        found = predictive_check(
            predictor, predictor.rows(cells), names, n_replicates, random_state
        )
        own = [column.name for column in self._columns if column.kind == CONTINUOUS]
        return found.loc[own]

    def loo(self, X: Any = None, **options: Any) -> Any:
        """Leave-one-out cross-validation: how well each row is predicted from the others.

        In each draw a row is taken out of its cluster, and its density is that under all clusters
        of the others and a new one, each cluster's parameters integrated out exactly; the mean of
        its inverse over draws is that of the leave-one-out density. Smoothed and assessed by ArviZ
        (PSIS-LOO). The draws are those of the fit: approximate if ``collapse="ep"``.

        Parameters
        ----------
        X : array or DataFrame, optional
            The data of the fit. Needed after `load`; a fit in memory has kept a reference.
        options
            Passed to ``arviz.loo``, such as ``pointwise=True``.
        """
        return self._leave_one_out(X).compare(**options)

    @property
    def _has_loo(self) -> bool:
        """Whether rows have densities with cluster parameters integrated out in closed form."""
        kept = self.posterior_.summaries
        kinds = {column.kind for column in self._columns}
        return not (
            {ERRORS, FOLLOWED} & set(kept)
            or {ORDINAL, OVERDISPERSED} & kinds
            or self.select_columns
        )

    def _leave_one_out(self, X: Any = None) -> Any:
        from cavity.predict.leave_one_out import LeaveOneOut

        check_is_fitted(self, "posterior_")
        posterior = self.posterior_
        if FOLLOWED in posterior.summaries:
            raise ValueError(
                "Leave-one-out needs the labels of all rows, and a fit to sharded data keeps those "
                "of some. Use score_samples on rows that were left out."
            )
        X = getattr(self, "_data", None) if X is None else X
        if X is None:
            raise ValueError("This estimator was loaded without its data. Pass X to loo.")
        if len(X) != posterior.n_observations:
            raise ValueError(
                f"X has {len(X)} rows, the fit had {posterior.n_observations}: leave-one-out needs "
                "the data of the fit. Use score_samples on other rows."
            )
        cells = self._cells(X)
        kept = posterior.summaries
        if ERRORS in kept:
            raise ValueError(
                "Leave-one-out is not available for a fit with errors: the density of a value with "
                "an error has no closed form once cluster parameters are integrated out. Use "
                "score_samples on rows that were left out."
            )
        if self.select_columns:
            raise ValueError(
                "Leave-one-out is not available with select_columns=True. Use score_samples on "
                "rows that were left out."
            )
        if cells.low is not None:
            raise ValueError(
                "Leave-one-out is not available for ordinal columns: the probability of their "
                "categories has no closed form once cluster parameters are integrated out. Use "
                "score_samples on rows that were left out."
            )
        from cavity.predict.covariances import factors_of

        weight = kept.get(WEIGHTS)
        predictor = self._predictor
        standard = predictor.rows(cells).continuous
        rows = self._model_rows(standard, cells, weight, predictor.noise, factors_of(posterior))
        parts = self.build_model(rows)
        if "collapsed" not in TableProblem(parts).collapses:
            raise ValueError(
                "Leave-one-out integrates cluster parameters out exactly, which overdispersed "
                "counts do not allow. Use score_samples on rows that were left out."
            )
        n = len(cells)
        places = row_places(kept.get(KNOWN), n, posterior.record.noise)

        def prior_state(n_slots: int) -> Any:
            return prior_of_rows(self._specification(), self.n_clusters, n_slots, n, places)

        volumes = _log_volumes(self._units, cells, weight)
        problem = joint_problem(parts, "collapsed")
        return LeaveOneOut(posterior, problem, volumes, prior_state, self.n_clusters)


def _digest(cells: Cells) -> str:
    given = () if cells.errors is None else (cells.errors,)
    return data_digest(cells.continuous, cells.codes, cells.counts, cells.overdispersed, *given)


def _log_volumes(units: ColumnUnits, cells: Cells, weight: np.ndarray | None) -> np.ndarray:
    """Return what each row's log density loses from the model's units to the data's."""
    return units.log_volumes(cells.continuous) * (1.0 if weight is None else weight)


def _first_labels(
    views: Sequence[np.ndarray],
    start: Any,
    n_start: int,
    home: np.ndarray | None,
    noisy: bool,
) -> Callable[[int, np.random.Generator], np.ndarray]:
    """Return what gives a chain its first labels: from rows as points, and from known labels.

    Where there are several views of the rows, starts take them in turn.
    """

    def labels(chain: int, rng: np.random.Generator) -> np.ndarray:
        # Of two starts that follow each other one is from k-means and one at random.
        points = views[chain // 2 % len(views)]
        z = initial_labels(points, n_start, start, chain, rng)
        z = z if home is None else with_known(z, home)
        # The first slot is that of noise, and no row starts there.
        return z + 1 if noisy else z

    return labels


def table_parts(X: Any, n_clusters: int, n_warmup: int) -> tuple[tuple[Any, ...], str]:
    """Return the parts of a table next to a user's own likelihood, and its digest."""
    made = TableMixture(n_clusters, n_warmup=n_warmup)
    cells = made._cells(X, reset=True)
    standard = made._units_of(cells, None).standardise(cells.continuous)
    return made.build_model(made._model_rows(standard, cells, None, None)), _digest(cells)


@dataclass(repr=False, eq=False, kw_only=True)
class StudentTMixture(Mixture):
    """Bayesian mixture of multivariate Student-t distributions, robust to outliers.

    With heavy tails, moderate outliers neither pull clusters nor get clusters of their own. The
    posterior over partitions is sampled by collapsed Gibbs sampling. Each cluster's mean and
    covariance are integrated out by drawing each row's scale together with its label.

    Parameters
    ----------
    n_clusters : int
        Maximum number of clusters; clusters that the data do not need usually stay empty. For
        priors without a limit, the number of clusters to start with.
    df : "learn", "learn-each" or float
        Degrees of freedom: one learned value for all clusters, one per cluster, or fixed. The
        prior of learned values is Gamma(2, 0.1).
    covariance_type : {"full", "diag", "tied", "factor"}
        Form of the clusters' covariances: a matrix for each cluster, a variance for each column
        (columns are independent within a cluster), one matrix for all clusters, or a diagonal and
        `n_factors` factors, for tables with tens or hundreds of columns. Compare them by `loo`.
    prior : {"finite", "dirichlet", "fixed", "dp", "pitman-yor"} or a prior from `cavity.priors`
        Prior over partitions. ``"finite"``: up to ``n_clusters`` clusters, where K has probability
        proportional to 1 / K^2 and the concentration is learned. ``"dirichlet"`` and ``"fixed"``:
        ``n_clusters`` clusters, some of which may be empty. ``"dp"`` and ``"pitman-yor"``: no
        limit.
    cluster_prior : ClusterPrior, optional
        Prior of each cluster's mean and covariance (`cavity.priors.ClusterPrior`). By default its
        parameters are learned.
    noise : bool or "auto"
        Whether rows may be outside every cluster, with label -1. Such rows are uniform over a box
        around the data, and their share has a Beta(1, 19) prior. ``"auto"`` allows them if at
        least two rows, and one in fifty, are far from all others (see the page on outliers). Not
        supported by ``"ep"`` and ``"parallel"``.
    loss : {"omari", "vi", "binder"} or Loss
        Loss whose posterior expectation ``labels_`` minimizes: one minus the adjusted Rand index,
        variation of information, Binder's loss, or a `cavity.posterior.Loss` with unequal costs.
        The draws do not depend on it: ``posterior_.partition(loss)`` returns other estimates.
    n_chains : int
        Number of independent chains.
    max_sweeps : int
        Largest number of sweeps of each chain with ``n_draws="auto"``.
    max_seconds : float, optional
        Stop after this many seconds of sampling and keep the draws made so far; compiling and the
        report come on top. The number of draws depends on the machine, so results are not
        reproducible.
    precision : {"draft", "report"}
        Precision at which ``n_draws="auto"`` stops: 100 effective draws and R-hat of at most 1.05
        (``"draft"``), or 400 and 1.01 (``"report"``). Estimated probabilities then have standard
        errors of at most 0.05 or 0.025.
    random_state : int, Generator or None
        Seed.
    n_jobs : int or None
        Number of threads. The draws do not depend on it.
    progress : bool or None
        Whether to show progress. None shows it on a terminal.
    checkpoint : path, optional
        File to continue from if it exists and to write to; see the page on long runs.
    warm_start : bool
        Keep the chains in memory and continue those of the previous fit, with the same draws as
        one long run: from a draft to a report, or with a larger `max_sweeps` or `n_draws`. Data
        and all other settings must be unchanged.
    collapse : {"collapsed", "ep", "blocked", "naive", "parallel"}
        How cluster parameters are handled; the default, ``"collapsed"``, integrates them out
        exactly. Each row's scale is then drawn together with its label. ``"ep"``: integrated out
        approximately, by expectation propagation. ``"blocked"``: integrated out given scales that
        are drawn after each sweep. ``"naive"``: drawn. ``"parallel"``: drawn, with all labels drawn
        in parallel on `n_jobs` threads or a Dask cluster, and with splits and merges; for 100,000
        rows or more. All but ``"ep"`` target the exact posterior.
    concentration : float, "learn" or None
        Dirichlet parameter of each cluster, or mass of a new cluster for the Dirichlet and
        Pitman-Yor processes. By default it is learned for ``"finite"``, one over ``n_clusters``
        for ``"dirichlet"``, and 1 for the others. The prior of a learned one is Gamma(1, 0.1) for
        ``"finite"`` and ``"dirichlet"``, and Gamma(1, 1) for the others.
    n_factors : int, optional
        Number of factors of each cluster with ``covariance_type="factor"``. By default, it is
        estimated from correlations within k-means clusters, and at most ten.
    select_columns : bool
        Learn which columns matter. Each column either has its own distribution in every cluster,
        or one that all clusters share; `column_relevance` returns the probability that it matters.
        Requires columns that are independent within clusters: measurements with
        ``covariance_type="diag"``, and categories and counts in a table. Not available with
        weights or noise.
    n_warmup : int
        Smallest number of sweeps before the first draw. With ``n_draws="auto"`` and more than
        20,000 rows, it is halved.
    n_draws : "auto" or int
        ``"auto"``: chains run until they agree and have enough effective draws (see `precision`),
        or up to `max_sweeps`. The first third of the sweeps is warm-up, draws are thinned to at
        most 2,000 per chain, and chains in modes of negligible probability are set aside. A
        number: draws per chain after `n_warmup` sweeps.
    thin : int
        Sweeps per draw. ``n_draws="auto"`` may increase it.
    init : {"dispersed", "k-means++", "random"} or array of labels
        Starting labels of the chains. ``"dispersed"``: all chains share up to 16 short runs, half
        from k-means and half from random labels, and a chain continues from each mode found. With
        more than 2,000 rows, or a warm-up below 120 sweeps, every second chain starts at random
        and the others from k-means.
    options : dict, optional
        Details of the sampler. ``moves`` (True): propose to split, merge and exchange whole
        clusters after each sweep. ``keep_warmup`` (False): keep the labels of the first `n_warmup`
        sweeps. For ``collapse="ep"`` also ``fraction`` and ``damping`` of site updates (power EP;
        both 1), ``pass_every``: sweeps between full EP passes (0: none), and ``refresh_every``:
        sweeps between updates of the site of a row that stays in its cluster (chosen during
        warm-up by default).

    Attributes
    ----------
    labels_ : array of int, shape (n,)
        Point estimate: the partition with the smallest posterior expected loss; -1 for noise.
    noise_probability_ : array, shape (n,)
        Probability that each row is noise, if there is a noise class. Rows above 0.5 are noise.
    n_clusters_ : int
        Number of clusters of ``labels_``.
    group_labels_ : array of int, shape (n,)
        Groups of any shape: clusters that overlap, merged; see `Posterior.groups` and the page on
        groups.
    n_groups_ : int
        Number of groups.
    partition_ : Partition
        Point estimate with its expected loss and ``credible_ball``.
    posterior_ : Posterior
        All draws, with summaries, diagnostics and plots.
    converged_ : bool
        Whether all convergence checks passed.
    weights_, means_, covariances_, df_ : arrays, one row per cluster of ``labels_``
        Posterior means of the clusters' weights, locations, scale matrices and degrees of
        freedom, over the draws in which the cluster has a match.
    cluster_centers_ : array of shape ``(n_clusters_, d)``
        ``means_``, under scikit-learn's name.

    Examples
    --------
    >>> from cavity import StudentTMixture
    >>> from cavity.datasets import make_student_t
    >>> X, truth = make_student_t(120, 3, 2, df=4, separation=20, random_state=1)
    >>> m = StudentTMixture(3, n_chains=2, n_warmup=50, n_draws=50, random_state=0).fit(X)
    >>> m.n_clusters_
    3
    >>> m.predict_proba(X[:1]).shape
    (1, 3)
    """

    _model: ClassVar[str] = "student-t"

    collapse: str = "collapsed"
    df: float | str = "learn"

    def build_model(self, rows: ModelRows) -> tuple[Any, ...]:
        """Return one part: Student-t clusters."""
        return (self._continuous(rows, self.df),)


@dataclass(repr=False, eq=False, kw_only=True)
class GaussianMixture(Mixture):
    """Bayesian Gaussian mixture, by exact collapsed Gibbs sampling.

    Parameters
    ----------
    n_clusters : int
        Maximum number of clusters. For priors without a limit, the number to start with.
    collapse : {"collapsed", "naive", "parallel"}
        Method for the cluster parameters. ``"collapsed"``: integrated out. ``"naive"``: drawn.
        ``"parallel"``: drawn, with all labels drawn in parallel, and with splits and merges.
    covariance_type, prior, cluster_prior, noise, loss, n_chains, n_warmup, n_draws, max_sweeps, \
max_seconds, precision, init, n_jobs, random_state, progress, checkpoint, warm_start, \
concentration, n_factors, select_columns, thin, options
        As for `StudentTMixture`.

    Attributes
    ----------
    labels_, n_clusters_, partition_, posterior_, converged_, weights_, means_, covariances_, \
cluster_centers_
        As for `StudentTMixture`.

    Examples
    --------
    >>> from cavity import GaussianMixture
    >>> from cavity.datasets import make_student_t
    >>> X, truth = make_student_t(120, 3, 2, df=float("inf"), separation=20, random_state=1)
    >>> m = GaussianMixture(3, n_chains=2, n_warmup=50, n_draws=50, random_state=0).fit(X)
    >>> m.n_clusters_
    3
    """

    _model: ClassVar[str] = "gaussian"

    collapse: str = "collapsed"

    def build_model(self, rows: ModelRows) -> tuple[Any, ...]:
        """Return one part: Gaussian clusters."""
        return (self._continuous(rows, None),)


@dataclass(repr=False, eq=False, kw_only=True)
class TableMixture(Mixture):
    """Bayesian mixture for tables with measurements, categories, counts and missing values.

    Text, booleans and pandas categories are categorical. Numbers are continuous, except columns
    with two values, which are categorical. `feature_types` declares counts and other types, and
    ``columns_`` shows the type of each column. The continuous columns of a cluster form one
    Student-t (or Gaussian) block with a covariance matrix. Each categorical column has category
    probabilities in each cluster, and each count a rate. Given the cluster, these parts are
    independent. Missing cells are integrated out.

    Parameters
    ----------
    n_clusters : int
        Maximum number of clusters. For priors without a limit, the number to start with.
    feature_types : dict, optional
        Types of columns, by name: ``"continuous"``, ``"ordinal"`` (ordered categories such as
        grades, modeled as intervals of a latent measurement), ``"categorical"``, ``"count"``
        (Poisson) or ``"overdispersed"`` (negative binomial counts, whose variance exceeds their
        mean). By default, types follow from the dtypes; ordered categoricals of pandas are
        ordinal.
    continuous : {"student-t", "gaussian"}
        Distribution of continuous columns in a cluster.
    df : "learn", "learn-each" or float
        Degrees of freedom of Student-t clusters, as for `StudentTMixture`.
    collapse : {"auto", "collapsed", "ep", "naive", "parallel"}
        Method for the cluster parameters. ``"auto"`` is ``"collapsed"`` (exact), or ``"ep"``
        (expectation propagation) if a column is overdispersed. ``"parallel"`` draws all labels in
        parallel, given drawn parameters, with splits and merges; it is exact and meant for 100,000
        rows or more, on `n_jobs` threads or a Dask cluster.
    covariance_type, prior, cluster_prior, loss, n_chains, n_warmup, n_draws, max_sweeps, \
max_seconds, precision, init, n_jobs, random_state, progress, checkpoint, warm_start, \
concentration, n_factors, select_columns, thin, options
        As for `StudentTMixture`.
    noise : bool or "auto"
        Whether rows may be outside every cluster. The cells of such rows are uniform: measurements
        over a box around the data, categories over all categories of the column, counts from 0 to
        20% above the largest. Overdispersed counts do not support noise. ``"auto"`` decides by
        the measurements, as for `StudentTMixture`.

    Attributes
    ----------
    columns_ : DataFrame
        Type of each column, and the reason.
    labels_, n_clusters_, partition_, posterior_, converged_, weights_, noise_probability_
        As for `StudentTMixture`.

    Examples
    --------
    >>> import numpy as np, pandas as pd
    >>> from cavity import TableMixture
    >>> rng = np.random.default_rng(0)
    >>> kind = np.repeat([0, 1], 40)
    >>> table = pd.DataFrame({
    ...     "size": rng.normal(4.0 * kind),
    ...     "color": np.where(rng.random(80) < 0.1 + 0.8 * kind, "red", "green"),
    ...     "visits": rng.poisson(2 + 8 * kind),
    ... })
    >>> table.loc[3] = None
    >>> run = {"n_chains": 2, "n_warmup": 50, "n_draws": 50, "random_state": 0}
    >>> m = TableMixture(2, feature_types={"visits": "count"}, **run).fit(table)
    >>> m.columns_["kind"].tolist()
    ['continuous', 'categorical', 'count']
    >>> m.predict(pd.DataFrame({"size": [4.0, None], "color": [None, "green"], "visits": [9, 2]}))
    array([1, 0])
    """

    _model: ClassVar[str] = "table"
    _mixed: ClassVar[bool] = True

    collapse: str = AUTO_COLLAPSE
    feature_types: Any = None
    continuous: str = "student-t"
    df: float | str = "learn"

    def _collapses(self) -> tuple[str, ...]:
        return (AUTO_COLLAPSE, *super()._collapses())

    def _check_settings(self) -> None:
        super()._check_settings()
        check_choice("continuous", self.continuous, ("student-t", "gaussian"))

    def build_model(self, rows: ModelRows) -> tuple[Any, ...]:
        """Return the parts that the table has: continuous columns, categories, counts."""
        parts = cell_parts(rows)
        if rows.continuous.shape[1]:
            df = self.df if self.continuous == "student-t" else None
            parts = (self._continuous(rows, df), *parts)
        return parts
