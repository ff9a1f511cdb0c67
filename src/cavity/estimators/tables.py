"""`TableMixture`: clusters of tables as they are, with categories, counts and gaps."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import ClusterMixin, DensityMixin, clone

from cavity.collapse.mixtures import GaussianProblem, StudentTProblem
from cavity.collapse.tables import (
    CategoricalProblem,
    CountsProblem,
    TableProblem,
    first_rows,
)
from cavity.estimators.cluster_prior import cluster_prior
from cavity.estimators.dequantize import within_steps
from cavity.estimators.fitting import Plan, run_plan
from cavity.estimators.gaps import filled
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
from cavity.estimators.noise import AUTO, TableNoise, asks_for_noise, is_noisy, tell_of_noise
from cavity.estimators.rows import FEW, RowEstimator
from cavity.estimators.sharded import (
    PARALLEL,
    check_client,
    check_sampler,
    is_in_shards,
    is_spread,
    refuse_unsupported,
)
from cavity.estimators.start import runs_of
from cavity.estimators.structures import FULL, factors_of, structured_problem, tails_of
from cavity.estimators.table_answers import digest_of
from cavity.estimators.table_model import (
    Describer,
    components,
    features_of,
    levels_of,
    volumes_of,
)
from cavity.estimators.table_shards import TableShards
from cavity.estimators.table_words import OVERALL, overall_of
from cavity.estimators.validation import check_choice, robust_standardiser
from cavity.io.columns import (
    CONTINUOUS,
    OVERDISPERSED,
    Cells,
    Column,
    cells_of,
)
from cavity.likelihoods.missing import CellTraits, RowTraits
from cavity.mcmc.fingerprint import data_digest
from cavity.moves.anchors import nearest_anchors
from cavity.posterior.record import ROWS_BEHIND_WEIGHTS
from cavity.posterior.units import ColumnUnits

AUTO_COLLAPSE = "auto"


@dataclass(repr=False, eq=False, kw_only=True)
class TableMixture(TableShards, ClusterMixin, DensityMixin, RowEstimator):
    """Clusters of a table as it is: measurements, categories, counts, and gaps among them.

    Columns are taken for what they hold (``columns_`` says for what): text, true and false and
    pandas' categories are categorical; numbers are continuous, but those of two values, which are
    categorical; whole numbers are counts only where `feature_types` says so. Continuous columns of
    a cluster are together one Student-t (or Gaussian) block with a covariance matrix; every
    categorical column has a cluster's shares of its categories, every count a cluster's rate, and
    given the cluster these are independent. A missing cell has no part in where its row goes.

    Parameters
    ----------
    n_clusters : int
        Number of clusters; under an open prior, where to start.
    feature_types : dict, optional
        What columns are, by name, where the dtypes do not say it: ``"continuous"``,
        ``"categorical"``, ``"count"`` (Poisson with a rate of each cluster) or
        ``"overdispersed"`` (negative binomial counts, whose variance exceeds their mean).
    continuous : {"student-t", "gaussian"}
        What continuous columns are in a cluster.
    df : "learn", "learn-each" or float
        Degrees of freedom of Student-t clusters, as for `StudentTMixture`.
    collapse : {"auto", "collapsed", "ep", "naive", "parallel"}
        ``"auto"``: cluster parameters are integrated out exactly (``"collapsed"``), and by
        expectation propagation (``"ep"``) where a column is overdispersed, since nothing else can;
        categories and Poisson counts are exact then as well. ``"parallel"`` draws all labels side
        by side given drawn parameters, with splits and merges: exact, for 100,000 rows and more,
        shared by `n_jobs` threads or a cluster.
    prior, concentration, n_chains, n_warmup, n_draws, thin, max_sweeps, max_seconds, init, \
n_jobs, random_state, progress, checkpoint, keep_warmup, moves, mean_prior_strength, \
covariance_prior_df, covariance_prior_scale, covariance, n_factors, collapse_options, loss
        As for `StudentTMixture`.
    noise : bool or "auto"
        Whether rows may be outside every cluster. Each cell of such a row is uniform over its
        column's range: measurements over a box around the data's, categories over all that the
        column has, counts over the whole numbers from 0 to a fifth above the largest.
        Overdispersed counts cannot be had with it. ``"auto"`` decides by the measurements, as
        for `StudentTMixture`.

    Attributes
    ----------
    columns_ : DataFrame
        What each column was taken for, and why.
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
    ...     "colour": np.where(rng.random(80) < 0.1 + 0.8 * kind, "red", "green"),
    ... })
    >>> table.loc[3, "colour"] = None
    >>> m = TableMixture(2, n_chains=2, n_warmup=50, n_draws=50, random_state=0).fit(table)
    >>> m.columns_["kind"].tolist()
    ['continuous', 'categorical']
    >>> m.predict(pd.DataFrame({"size": [4.0, None], "colour": [None, "green"]})).shape
    (2,)
    """

    _model: ClassVar[str] = "table"

    collapse: str = AUTO_COLLAPSE
    feature_types: Any = None
    continuous: str = "student-t"
    df: float | str = "learn"

    def __sklearn_tags__(self) -> Any:
        """Tables with gaps, text and categories are welcome."""
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.categorical = True
        tags.input_tags.string = True
        return tags

    # ------------------------------------------------------------------ settings

    def _collapses(self) -> tuple[str, ...]:
        return (AUTO_COLLAPSE, *super()._collapses(), PARALLEL)

    def _check_settings(self) -> None:
        super()._check_settings()
        check_choice("continuous", self.continuous, ("student-t", "gaussian"))

    # ------------------------------------------------------------------ fitting

    def _known(self, y: Any, n: int) -> KnownLabels | None:
        return check_known(y, n, self.n_clusters, self._specification().is_open)

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
        if is_spread(self, X, None):
            refuse_unsupported(self, y, sample_weight)
            check_sampler(self)
            if is_in_shards(X):
                self._files(X, None if columns is None else tuple(columns))
                return self
        row_names(X)
        # On a copy: what the check learns of the data must not stay.
        other = clone(self)
        if other.collapse == PARALLEL:
            other.collapse = AUTO_COLLAPSE
        frame = other._frame(X, reset=True)
        taken = other._take(frame)
        weight = check_weights(sample_weight, len(frame))
        other._plan(cells_of(frame, taken), taken, self._known(y, len(frame)), weight)
        return self

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
        X : DataFrame or array of shape (n, d), or path
            Of pandas, polars or Arrow, with any of their types; NaN, None and NA are gaps. A path
            is that of a Parquet file, a folder of such files, or a pattern; their measurements
            must all be there, while categories and counts may be missing.
        y : array of int, optional
            Labels that are known, -1 for those that are not, as for `StudentTMixture`. A `y`
            without any -1 is ignored.
        sample_weight : array of float, optional
            A row of weight w stands for w rows that share their label, as for `StudentTMixture`.
            Rows that lack a measurement have weight one; categories and counts may be missing.
            Overdispersed counts cannot be had with weights.
        client : distributed.Client, optional
            Dask cluster. Rows in files, and from 100,000 of them a table's, are spread over its
            workers; of smaller tables each worker has whole chains, with the same draws as
            without.
        columns : sequence of str, optional
            Which columns of a path to use; all by default.

        Returns
        -------
        self

        Warns
        -----
        ColumnsNote
            Of columns that might be taken for something else.
        NotConvergedWarning
            If the chains are not shown to agree.
        """
        self._check_settings()
        check_client(client)
        if is_spread(self, X, client):
            refuse_unsupported(self, y, sample_weight)
            check_sampler(self)
            return self._fit_rows(X, client, None if columns is None else tuple(columns))
        if columns is not None:
            raise ValueError("columns are chosen of a path; give X[columns].")
        names = row_names(X)
        frame = self._frame(X, reset=True)
        self._columns = self._take(frame)
        cells = cells_of(frame, self._columns)
        known = self._known(y, len(frame))
        weight = check_weights(sample_weight, len(frame))
        plan, units, noise = self._plan(cells, self._columns, known, weight)
        self._warn_of_columns()
        tell_of_noise(self.noise, plan.noisy)
        run = run_plan(plan, self._run_settings(), client)
        posterior = plan.posterior(
            run,
            names=names,
            units=units,
            volume=float(volumes_of(units, cells, weight).sum()),
            summaries=kept_of_rows(
                digest_of(cells), known, weight, None if noise is None else noise.kept
            ),
            settings=self._settings(),
            noun="row",
            columns=tuple(column.name for column in self._columns),
            columns_named=hasattr(self, "feature_names_in_"),
            components=components(self._columns),
            details={
                "taken_for": [column.to_plain() for column in self._columns],
                OVERALL: overall_of(cells, self._columns, weight),
                ROWS_BEHIND_WEIGHTS: float(len(frame) if weight is None else weight.sum()),
            },
        )
        self._finish(posterior)
        return self

    def _noise_of(
        self, cells: Cells, standard: np.ndarray, columns: list[Column]
    ) -> TableNoise | None:
        """What rows outside every cluster are; None if there can be none."""
        if not self._has_noise(columns, filled(standard)):
            return None
        return TableNoise.of(standard, cells.counts, levels_of(columns), self.noise)

    def _has_noise(self, columns: list[Column], standard: np.ndarray) -> bool:
        """Whether rows may be noise; by itself only by measurements far from all others."""
        if self.noise == AUTO and (
            not standard.shape[1]
            or self.collapse == "ep"
            or any(column.kind == OVERDISPERSED for column in columns)
        ):
            return False
        return is_noisy(self.noise, standard)

    def _problem(
        self,
        cells: Cells,
        standard: np.ndarray,
        columns: list[Column],
        weight: np.ndarray | None = None,
        noise: TableNoise | None = None,
    ) -> TableProblem:
        """All parts that the table has, the continuous block first; gaps of `standard` are NaN."""
        n_held = self._n_held
        parts: list[Any] = []
        plain = weight is None and noise is None
        w = np.ones(len(standard)) if weight is None else weight

        def traits(log_noise: Any) -> CellTraits | None:
            return None if plain else CellTraits(w, None if noise is None else log_noise(noise))

        if standard.shape[1]:
            missing = np.isnan(standard)
            box = None if noise is None else noise.box
            rows = None if plain and not missing.any() else RowTraits(missing, w, box)
            parts.append(self._block(filled(standard), rows, n_held))
        levels = levels_of(columns)
        if levels:
            rows_of = traits(lambda noise: noise.of_cells(cells.codes))
            parts.append(CategoricalProblem(cells.codes, levels, n_held=n_held, rows=rows_of))
        if cells.counts.shape[1]:
            rows_of = traits(lambda noise: noise.of_counts(cells.counts))
            parts.append(CountsProblem(cells.counts, n_held=n_held, rows=rows_of))
        if cells.overdispersed.shape[1]:
            parts.append(CountsProblem(cells.overdispersed, overdispersed=True, n_held=n_held))
        return TableProblem(tuple(parts))

    def _block(self, standard: np.ndarray, rows: RowTraits | None, n_held: int) -> Any:
        """The continuous columns, gaps filled in to start from."""
        heavy = self.continuous == "student-t"
        if self.covariance != FULL:
            found = getattr(self, "posterior_", None)
            df, learn = tails_of(self.df) if heavy else (None, None)
            n_factors = None if found is None else factors_of(found)
            return structured_problem(self, standard, n_held, df, learn, rows, n_factors)
        prior = cluster_prior(
            standard.shape[1],
            self.n_clusters,
            self.mean_prior_strength,
            self.covariance_prior_df,
            self.covariance_prior_scale,
            n_held,
        )
        if heavy:
            return StudentTProblem(
                standard, prior.niw, prior.updates, *tails_of(self.df), rows=rows
            )
        return GaussianProblem(standard, prior.niw, prior.updates, rows)

    def _refuse_uneven(self, columns: list[Column], weight: np.ndarray | None) -> None:
        """Refuse weights and noise where a part of the table has no way with them."""
        for given, word in (
            (weight is not None, "sample_weight"),
            (asks_for_noise(self.noise), "noise=True"),
        ):
            over = [column.name for column in columns if column.kind == OVERDISPERSED]
            if given and over:
                raise ValueError(
                    f"{word} cannot be had with overdispersed counts such as column {over[0]!r}, "
                    'which only expectation propagation samples. Take it as "count".'
                )
            if given and self.collapse == "ep":
                raise ValueError(
                    f"{word} cannot be had with collapse='ep', which has no projection for it. "
                    "Leave collapse out: 'collapsed' is exact."
                )

    def _units_of(
        self, cells: Cells, columns: list[Column], weight: np.ndarray | None = None
    ) -> ColumnUnits:
        """Units of the continuous columns."""
        names = np.array([c.name for c in columns if c.kind == CONTINUOUS], dtype=object)
        if not names.size:
            return ColumnUnits(np.zeros(0), np.ones(0))
        return ColumnUnits(*robust_standardiser(weighted_rows(cells.continuous, weight), names))

    def _collapse_for(self, problem: TableProblem) -> str:
        if not problem.collapses:
            raise ValueError(
                f"covariance={self.covariance!r} cannot be had beside overdispersed counts, which "
                "need collapse='ep'. Take them as \"count\", or use covariance='full'."
            )
        if self.collapse == AUTO_COLLAPSE:
            return problem.collapses[0]
        if self.collapse not in problem.collapses:
            raise ValueError(
                f"collapse={self.collapse!r} cannot be used for this table: with the columns as "
                f"they are taken there is {' or '.join(map(repr, problem.collapses))}."
            )
        return self.collapse

    def _problem_of_fit(self, X: Any) -> tuple[Any, np.ndarray]:
        cells = cells_of(self._frame(X, reset=False), self._columns)
        standard = self._units.standardise(cells.continuous)
        seen = within_steps(standard) if standard.shape[1] else standard
        weight = self.posterior_.summaries.get(WEIGHTS)
        noise = self._noise if self._noisy else None
        problem = self._problem(cells, seen, self._columns, weight, noise)
        if "collapsed" not in problem.collapses:
            raise ValueError(
                "Leave-one-out needs cluster parameters integrated out exactly, and overdispersed "
                "counts do not allow it. Use score_samples on rows that were left out."
            )
        return problem, volumes_of(self._units, cells, weight)

    def _plan(
        self,
        cells: Cells,
        columns: list[Column],
        known: KnownLabels | None = None,
        weight: np.ndarray | None = None,
    ) -> tuple[Plan, ColumnUnits, TableNoise | None]:
        n = len(cells)
        refuse_weighted_gaps(cells.continuous, weight, "gaps among its measurements")
        self._refuse_uneven(columns, weight)
        start, n_start = self._start_of_rows(n)
        units = self._units_of(cells, columns, weight)
        standard = units.standardise(cells.continuous)
        seen = within_steps(standard) if standard.shape[1] else standard
        noise = self._noise_of(cells, seen, columns)
        problem = self._problem(cells, seen, columns, weight, noise)
        few = TableProblem(tuple(first_rows(part, FEW) for part in problem.parts))
        collapse = self._collapse_for(problem)
        options = self._collapse_options(collapse)
        places = features_of(standard, cells)
        # What categories tell may be another story than that of the measurements: k-means of both
        # together would hear the louder one alone.
        views = [places]
        if 1 < standard.shape[1] < places.shape[1]:
            views.append(places[:, : standard.shape[1]])
        home = None if known is None else known.home

        told = [part for part in (weight, home) if part is not None]
        digest = digest_of(cells) + (data_digest(*told) if told else "")
        taken_for = {c.name: f"{c.kind} {' '.join(c.categories)}" for c in columns}
        plan = self._planned(
            problem,
            few,
            digest,
            options,
            collapse,
            {"columns": taken_for},
            start=self._first_labels(views, start, n_start, home, noise is not None),
            n_start=n_start if known is None else max(n_start, known.names.size),
            n_runs=runs_of(start, places.shape, n_start, self.n_warmup),
            places=row_places(weight, home, n, noise is not None),
            describe=Describer(problem),
            cluster_parameters=Describer(problem).names,
            from_slots=self.covariance == FULL,
            anchors=(lambda: nearest_anchors(places)) if self.moves else None,
        )
        return plan, units, noise


def table_parts(X: Any, n_clusters: int, n_warmup: int) -> tuple[tuple[Any, ...], str]:
    """The parts of a table beside a likelihood of a user's own, and the digest of its cells."""
    made = TableMixture(n_clusters, n_warmup=n_warmup)
    frame = made._frame(X, reset=True)
    columns = made._take(frame)
    cells = cells_of(frame, columns)
    units = made._units_of(cells, columns)
    seen = units.standardise(cells.continuous)
    seen = within_steps(seen) if seen.shape[1] else seen
    return made._problem(cells, seen, columns).parts, digest_of(cells)
