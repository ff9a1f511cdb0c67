"""`TableMixture`: clusters of tables as they are, with categories, counts and gaps."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import ClusterMixin, DensityMixin, clone
from sklearn.utils.validation import validate_data

from cavity.collapse.mixtures import GaussianProblem, StudentTProblem
from cavity.collapse.parts import part_at, paths_of
from cavity.collapse.registry import assemble
from cavity.collapse.tables import (
    CategoricalProblem,
    CountsProblem,
    TableProblem,
    first_rows,
)
from cavity.core.arrays import by_slot
from cavity.core.notices import ColumnsNote
from cavity.estimators.base import Estimator
from cavity.estimators.cluster_prior import cluster_prior
from cavity.estimators.description import describe_sizes
from cavity.estimators.fitting import Plan, prior_of_rows, run_plan
from cavity.estimators.gaps import filled
from cavity.estimators.imputing import WEIGHTS
from cavity.estimators.known import (
    KNOWN,
    KnownLabels,
    check_known,
    check_weights,
    kept_of_rows,
    refuse_weighted_gaps,
    row_names,
    row_places,
    weighted_rows,
    with_known,
)
from cavity.estimators.mixtures import FEW, HELD
from cavity.estimators.noise import TableNoise, check_noise
from cavity.estimators.recording import within_steps
from cavity.estimators.sharded import check_client, is_in_shards
from cavity.estimators.start import STARTS, initial_labels, runs_of
from cavity.estimators.structures import (
    FULL,
    block_names,
    check_structure,
    describe_block,
    describe_prior,
    factors_of,
    structured_problem,
    tails_of,
)
from cavity.estimators.table_answers import digest_of
from cavity.estimators.table_shards import PARALLEL, TableShards
from cavity.estimators.validation import (
    check_choice,
    check_number,
    robust_standardiser,
)
from cavity.models.predictive import CLUSTER_PRIOR
from cavity.models.rows import RowTraits
from cavity.models.uneven_cells import CellTraits
from cavity.moves.anchors import nearest_anchors
from cavity.posterior.units import ColumnUnits
from cavity.reading.columns import (
    CATEGORICAL,
    CONTINUOUS,
    COUNT,
    EMPTY,
    OVERDISPERSED,
    Cells,
    Column,
    cells_of,
    check_types,
    take_column,
)
from cavity.reading.frames import as_pandas, is_frame
from cavity.sampling.fingerprint import data_digest
from cavity.sampling.sampler import PartitionSampler

AUTO_COLLAPSE = "auto"


@dataclass(repr=False, eq=False, kw_only=True)
class TableMixture(TableShards, ClusterMixin, DensityMixin, Estimator):
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
    noise : bool
        Whether rows may be outside every cluster. Each cell of such a row is uniform over its
        column's range: measurements over a box a fifth wider than the data's, categories over all
        that the column has, counts over the whole numbers from 0 to a fifth above the largest.
        Overdispersed counts cannot be had with it.

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
    _starts: ClassVar[tuple[str, ...]] = STARTS

    collapse: str = AUTO_COLLAPSE
    feature_types: Any = None
    continuous: str = "student-t"
    df: float | str = "learn"
    init: Any = "dispersed"
    moves: bool = True
    mean_prior_strength: float | str = "learn"
    covariance_prior_df: float | str = "learn"
    covariance_prior_scale: float | str = "full"
    covariance: str = "full"
    n_factors: int | None = None
    noise: bool = False

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
        check_noise(self.noise)
        check_structure(self.covariance, self.n_factors, self.collapse)
        if isinstance(self.df, str):
            check_choice("df", self.df, ("learn", "learn-each"))
        else:
            check_number("df", self.df, 0.05, 1e6, strict=False)
        for name, low, high, words in (
            ("mean_prior_strength", 1e-12, 1e12, ("learn",)),
            ("covariance_prior_df", 1.0, 1e9, ("learn",)),
            ("covariance_prior_scale", 1e-12, 1e12, ("full", "diagonal")),
        ):
            value = getattr(self, name)
            if isinstance(value, str):
                check_choice(name, value, words)
            else:
                check_number(name, value, low, high, strict=False)

    # ------------------------------------------------------------------ data

    def _frame(self, X: Any, *, reset: bool) -> Any:
        """A pandas table of the rows; scikit-learn's own checks of shape and names are made."""
        import pandas as pd

        X = as_pandas(X) if is_frame(X) else X
        if not isinstance(X, pd.DataFrame):
            if np.ma.isMaskedArray(X):
                X = np.ma.filled(X.astype(float), np.nan)
            values = validate_data(
                self, X, reset=reset, dtype=None, ensure_all_finite=False, ensure_min_samples=1
            )
            names = [f"x{j}" for j in range(values.shape[1])]
            if not reset:
                names = [column.name for column in self._columns]
            return pd.DataFrame(values, columns=names)
        if not X.columns.is_unique:
            twice = X.columns[X.columns.duplicated()][0]
            raise ValueError(f"X has more than one column named {twice!r}; rename one.")
        if X.shape[1] == 0 or len(X) == 0:
            raise ValueError(
                f"Found array with {len(X)} sample(s) and {X.shape[1]} feature(s) (shape="
                f"{X.shape}) while a minimum of 1 is required."
            )
        validate_data(self, X, reset=reset, skip_check_array=True)
        return X

    def _take(self, frame: Any) -> list[Column]:
        names = [str(name) for name in frame.columns]
        types = check_types(self.feature_types, names)
        columns = [
            take_column(frame.iloc[:, j], name, types.get(name)) for j, name in enumerate(names)
        ]
        if all(column.kind == EMPTY for column in columns):
            raise ValueError("No column of X has any value, so there is nothing to cluster by.")
        return columns

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
        if self._is_spread(X, None):
            self._refuse_spread(y, sample_weight)
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
        if self._is_spread(X, client):
            self._refuse_spread(y, sample_weight)
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
        run = run_plan(plan, self._run_settings(), client)
        posterior = plan.posterior(
            run,
            names=names,
            units=units,
            volume=float(_volumes(units, cells, weight).sum()),
            summaries=kept_of_rows(
                digest_of(cells), known, weight, None if noise is None else noise.kept
            ),
            settings=self._settings(),
            noun="row",
            columns=tuple(column.name for column in self._columns),
            columns_named=hasattr(self, "feature_names_in_"),
            components=components(self._columns),
            details={"taken_for": [column.to_plain() for column in self._columns]},
        )
        self._finish(posterior)
        return self

    def _warn_of_columns(self) -> None:
        notes = [column.note for column in self._columns if column.note]
        notes += [
            f"column {column.name!r} has no value and no part in the clustering"
            for column in self._columns
            if column.kind == EMPTY
        ]
        if notes:
            text = "; ".join(notes)
            warnings.warn(
                f"{text[0].upper()}{text[1:]}. Settle it by feature_types (--types on the command "
                "line). Filter cavity.ColumnsNote to silence this.",
                ColumnsNote,
                stacklevel=3,
            )

    def _noise_of(
        self, cells: Cells, standard: np.ndarray, columns: list[Column]
    ) -> TableNoise | None:
        """What rows outside every cluster are; None if there can be none."""
        return TableNoise.of(standard, cells.counts, _levels(columns)) if self.noise else None

    def _problem(
        self,
        cells: Cells,
        standard: np.ndarray,
        columns: list[Column],
        weight: np.ndarray | None = None,
        noise: TableNoise | None = None,
    ) -> TableProblem:
        """All parts that the table has, the continuous block first; gaps of `standard` are NaN."""
        n_held = min(HELD, self.n_warmup // 2)
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
        levels = _levels(columns)
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
        for given, word in ((weight is not None, "sample_weight"), (self.noise, "noise=True")):
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

    def _prior_state(self, n_slots: int) -> Any:
        n, kept = self.posterior_.n_observations, self.posterior_.summaries
        places = row_places(kept.get(WEIGHTS), kept.get(KNOWN), n, self.noise)
        return prior_of_rows(self._specification(), self.n_clusters, n_slots, n, places)

    def _problem_of_fit(self, X: Any) -> tuple[Any, np.ndarray]:
        cells = cells_of(self._frame(X, reset=False), self._columns)
        standard = self._units.standardise(cells.continuous)
        seen = within_steps(standard) if standard.shape[1] else standard
        weight = self.posterior_.summaries.get(WEIGHTS)
        noise = self._noise_of(cells, seen, self._columns)
        problem = self._problem(cells, seen, self._columns, weight, noise)
        if "collapsed" not in problem.collapses:
            raise ValueError(
                "Leave-one-out needs cluster parameters integrated out exactly, and overdispersed "
                "counts do not allow it. Use score_samples on rows that were left out."
            )
        return problem, _volumes(self._units, cells, weight)

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
        home = None if known is None else known.home

        def labels(chain: int, rng: np.random.Generator) -> np.ndarray:
            z = initial_labels(places, n_start, start, chain, rng)
            z = z if home is None else with_known(z, home)
            # The first slot is that of noise, and no row starts there.
            return z + 1 if self.noise else z

        told = [part for part in (weight, home) if part is not None]
        digest = digest_of(cells) + (data_digest(*told) if told else "")
        plan = Plan(
            name=type(self).__name__,
            n=n,
            n_clusters=self.n_clusters,
            assemble=lambda n_slots: assemble(problem, collapse, n_slots, options),
            assemble_few=lambda n_slots: (few.n, assemble(few, collapse, n_slots, options)),
            prior=self._specification(),
            fingerprint={
                "model": type(self).__name__,
                "settings": self._settings(),
                "data": digest,
                "columns": {c.name: f"{c.kind} {' '.join(c.categories)}" for c in columns},
            },
            start=labels,
            n_start=n_start if known is None else max(n_start, known.names.size),
            n_runs=runs_of(start, places.shape, n_start, self.n_warmup),
            places=row_places(weight, home, n, self.noise),
            describe=Describer(problem),
            cluster_parameters=Describer(problem).names,
            from_slots=self.covariance == FULL,
            anchors=(lambda: nearest_anchors(places)) if self.moves else None,
        )
        return plan, units, noise


def _levels(columns: list[Column]) -> tuple[int, ...]:
    """Number of categories of each categorical column."""
    return tuple(len(column.categories) for column in columns if column.kind == CATEGORICAL)


def _volumes(units: ColumnUnits, cells: Cells, weight: np.ndarray | None) -> np.ndarray:
    """What the log density of each row, or of those it stands for, loses to units."""
    return units.log_volumes(cells.continuous) * (1.0 if weight is None else weight)


def components(columns: list[Column]) -> dict[str, list[str]]:
    """Names of the components of the draws' parameters."""
    of = {kind: [c for c in columns if c.kind == kind] for kind in
          (CONTINUOUS, CATEGORICAL, COUNT, OVERDISPERSED)}  # fmt: skip
    out = {
        "mean": [c.name for c in of[CONTINUOUS]],
        "share": [f"{c.name}={name}" for c in of[CATEGORICAL] for name in c.categories],
        "rate": [c.name for c in of[COUNT]],
        "mean_count": [c.name for c in of[OVERDISPERSED]],
    }
    out |= dict.fromkeys(("covariance", "variance", "uniqueness"), out["mean"])
    return {name: names for name, names in out.items() if names}


def features_of(standard: np.ndarray, cells: Cells) -> np.ndarray:
    """Rows as points, for where chains start and who is whose neighbour; gaps in the middle."""
    blocks = [filled(standard) if standard.shape[1] else standard]
    for codes in cells.codes.T:
        # Two rows that differ are as far apart as a standard deviation and a half.
        shares = np.bincount(codes[codes >= 0], minlength=1) / max(int((codes >= 0).sum()), 1)
        block = (codes[:, None] == np.arange(shares.size)).astype(float)
        block[codes < 0] = shares
        blocks.append(block)
    for y in (*cells.counts.T, *cells.overdispersed.T):
        value = np.log1p(y)
        value = (value - np.nanmean(value)) / max(float(np.nanstd(value)), 1e-9)
        blocks.append(np.nan_to_num(value, nan=0.0)[:, None])
    return np.ascontiguousarray(np.hstack(blocks))


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


class Describer:
    """Gives the cluster parameters of a kept draw, part by part.

    Parameters
    ----------
    problem : TableProblem
    """

    def __init__(self, problem: TableProblem) -> None:
        kinds = [part.model for part in problem.parts]
        self.block = block_names(getattr(problem.parts[0], "structure", FULL))
        self.paths = dict(zip(kinds, paths_of(len(kinds)), strict=True))
        own = [part for part in problem.parts if part.model == "own"]
        self.own = tuple(by_slot(own[0].parameters)) if own else ()

    @property
    def names(self) -> tuple[str, ...]:
        """Of parameters with a cluster axis."""
        out = ["weight"]
        for kind in self.paths:
            out += {
                "own": [*self.own],
                "categorical": ["share"],
                "poisson": ["rate"],
                "negative-binomial": ["mean_count"],
            }.get(kind, [*self.block])
        return tuple(out)

    def __call__(self, sampler: PartitionSampler) -> dict[str, np.ndarray]:
        """Parameters of every slot, and the natural parameters of all parts' priors."""
        out = {
            **describe_sizes(sampler),
            CLUSTER_PRIOR: self._prior(sampler.family),
        }
        for kind, path in self.paths.items():
            parameters = part_at(sampler.parameters, path)
            if kind == "own":
                out |= by_slot(parameters)
            elif kind == "categorical":
                out["share"] = parameters.share.T
            elif kind == "poisson":
                out["rate"] = parameters.rate.T
            elif kind == "negative-binomial":
                out["mean_count"] = parameters.rate.T
            else:
                out |= describe_block(parameters, sampler.counts)
        return out

    def _prior(self, family: Any) -> np.ndarray:
        """What says the priors of all parts, one after another."""
        return np.concatenate([describe_prior(part_at(family, at)) for at in self.paths.values()])
