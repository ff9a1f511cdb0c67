"""Fits of series whose sweeps are shared by threads or the workers of a Dask cluster."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from cavity.collapse.registry import assemble
from cavity.distributed.blocks import Layout, Node, Piece, partial_sums, total
from cavity.distributed.executor import ShardExecutor, local_rows, make_executor
from cavity.distributed.mixture_weights import is_supported
from cavity.distributed.results import predict_to_parquet
from cavity.distributed.sources import ArraySource, ShardError, Source, parquet_source, read_rows
from cavity.estimators.fitting import moves_for, posterior_of, prior_of_rows
from cavity.estimators.sharded import PARALLEL, run_of
from cavity.estimators.sharding import is_dask_frame, is_in_shards
from cavity.estimators.validation import LARGEST, check_names
from cavity.mcmc.chain import PartitionSampler
from cavity.moves.anchors import nearest_anchors
from cavity.posterior.units import SeriesUnits
from cavity.priors.series import SeriesPrior
from cavity.priors.specifications import PartitionSpecification
from cavity.series.assign import Assigner
from cavity.series.collapses import affordable_collapse
from cavity.series.common_factor import move_together
from cavity.series.data import SeriesData, from_wide, read_series, series_on
from cavity.series.initialization import (
    find_units,
    largest_value,
    own_spreads,
    smoothed_paths,
    starting_dynamics,
    starting_levels,
    starting_weights,
    typical_loudness,
)
from cavity.series.problem import SeriesProblem, check_priors, series_problem, start_df
from cavity.series.results import details_of, pool_trends, summaries_of
from cavity.series.shard_pass import SERIES_BLOCK, LocalState, SeriesShard, SeriesShards
from cavity.series.shard_sampler import SeriesShardedSampler, SeriesSizes
from cavity.series.state_space import FactorSeries, factor_series, own_copy
from cavity.series.time_axis import TimeAxis

# Series whose labels, parameters and trends are kept, a uniform sample.
N_FOLLOWED = 1_000
_SEED = 20_181_117
# Followed series that each chain clusters by itself first, sweeps of that, and series for each
# cluster there should be among them.
PILOT_SERIES, PILOT_SWEEPS, PILOT_PER_CLUSTER = 400, 60, 25
# Series that a shard of a cluster should have at least.
LEAST_SERIES = 5_000


class SeriesScaler(NamedTuple):
    """Conversion of series as recorded into those of the model, on any worker."""

    position: np.ndarray  # of each column on the axis of times
    axis: TimeAxis
    centre: float
    size: float
    common: float
    loudness: float
    each: bool  # whether a series is divided by its own spread
    intercept: bool
    df: float
    start: dict[str, float]  # a, loading, var_x, var_y

    def data(self, rows: np.ndarray) -> SeriesData:
        """Rows of columns as series."""
        import pandas as pd

        return series_on(self.axis, self.position, rows, pd.RangeIndex(len(rows)))

    def scale(self, data: SeriesData) -> np.ndarray:
        """Return the scale of each series."""
        if not self.each:
            return np.full(len(data.y), self.common * self.size)
        return own_spreads(data, self.size, self.common, self.loudness) * self.size

    def model(self, data: SeriesData, scale: np.ndarray) -> FactorSeries:
        """Data and starting values."""
        levels = starting_levels(data.y, data.count, self.centre, scale)
        start = self.start
        return factor_series(
            data.y,
            data.count,
            beta=levels[:, None] if self.intercept else None,
            df=self.df,
            centre=self.centre,
            scale=scale,
            intercept=self.intercept,
            free_signs=True,
            a=start["a"],
            loading=start["loading"],
            var_x=start["var_x"],
            var_y=start["var_y"],
        )


def series_scaler(
    data: SeriesData, position: np.ndarray, intercept: bool, each: bool, df: float
) -> SeriesScaler:
    """Units and starting values by a sample of the series."""
    base = find_units(data, intercept)
    size = largest_value(data)
    common = float(base.scale[0]) / size
    loudness = typical_loudness(data, size, common)
    found = SeriesScaler(
        position, data.axis, base.centre, size, common, loudness, each, intercept, df, {}
    )
    scale = found.scale(data)
    levels = starting_levels(data.y, data.count, base.centre, scale)
    middle = base.centre + levels * scale
    return found._replace(start=starting_dynamics(data.y, data.count, middle, scale))


def make_series_shard(
    layout: Layout, rows: np.ndarray, scaler: SeriesScaler, followed: np.ndarray
) -> SeriesShard:
    """A shard from series as recorded."""
    data = scaler.data(rows)
    if not np.abs(rows, where=~np.isnan(rows), out=np.zeros_like(rows)).max(initial=0.0) < LARGEST:
        raise ShardError(
            f"Values reach beyond {LARGEST:.0e}, whose squares are beyond floating point. Divide "
            "all by a power of ten first."
        )
    scale = scaler.scale(data)
    model = scaler.model(data, scale)
    own = model.own
    noise = np.zeros((0, 0), dtype=np.float32)
    if own.tails.size:
        middle = scaler.centre + own.beta[:, 0] * scale if scaler.intercept else 0.0 * scale
        weight = starting_weights(data.y, data.count, middle, scale)
        noise = ((scaler.df + 1.0) / weight - scaler.df).astype(np.float32)
        noise[data.count == 0] = 0.0
    begun = LocalState(
        np.zeros(len(rows), dtype=np.int32), own.a, own.loading, own.var_y, own.beta, noise
    )
    each = data.count.sum(1, dtype=float) * np.log(scale)
    volume = np.add.reduceat(each, layout.edges[:-1])
    return SeriesShard(layout, model.cells, begun, local_rows(layout, followed), volume)


def facts(shard: SeriesShard) -> tuple[list[Node], int, int]:
    """Log volume, observed cells, and series without any observation of a shard."""
    seen = shard.cells.repeats > 0
    volume = partial_sums(shard.layout.first_block, shard.log_volume[:, None])
    return volume, int(seen.sum()), int((~seen.any(axis=1)).sum())


# --------------------------------------------------------------------------- chains


class SpreadSeries(NamedTuple):
    """A fit over series in shards, as far as it is ready to run.

    Attributes
    ----------
    executor : ShardExecutor
        With all series loaded.
    data : SeriesData
        The series that are followed.
    units : SeriesUnits
        Theirs.
    problem : SeriesProblem
        Theirs, for priors and what moves.
    scaler : SeriesScaler
    prior : specification
    n_clusters : int
    sizes : SeriesSizes
    moves : bool
        Whether chains may move groups while they look for a start.
    """

    executor: ShardExecutor
    data: SeriesData
    units: SeriesUnits
    problem: SeriesProblem
    scaler: SeriesScaler
    prior: PartitionSpecification
    n_clusters: int
    sizes: SeriesSizes
    moves: bool

    def sampler(self, chain: int, rng: np.random.Generator) -> SeriesShardedSampler:
        """A started chain: factors are those of a short run over some of the followed series."""
        found = self._pilot_chain(rng)
        own = found.model.own
        model = own_copy(self.scaler.model(self.data, self.units.scale), self.n_clusters)
        for name in ("var_x", "var_x0", "df", "population"):
            getattr(model.own, name)[:] = getattr(own, name)
        prior = self.prior.state(self.n_clusters, self.n_clusters, self.sizes.n)
        return SeriesShardedSampler(
            SeriesShards(self.executor),
            model,
            self.sizes,
            found.parameters.value[:, : self.n_clusters],
            found.updates[0].hyper,  # type: ignore[attr-defined]
            prior,
            self.problem.priors,
            self.problem.moving,
            learn_df=self.problem.learn_df,
            updates=self.prior.updates(),
            rng=rng,
        )

    def _pilot_chain(self, rng: np.random.Generator) -> PartitionSampler:
        """A short chain over some of the followed series, by the sampler that fits them best."""
        problem = self.problem
        n, n_times = problem.data.cells.y.shape
        collapse = affordable_collapse(n, n_times, self.n_clusters)
        parts = assemble(problem, collapse, self.n_clusters, {})
        parts.collapse.warm_up(PILOT_SWEEPS)
        n_slots = parts.collapse.family.natural.shape[0]
        z = np.asarray(rng.integers(self.n_clusters, size=n))
        moves: Any = ()
        if self.moves and n > 1:
            cells = problem.data.cells
            anchors = nearest_anchors(smoothed_paths(cells.y, cells.repeats), mirrored=True)
            moves = moves_for(parts, anchors, PILOT_SWEEPS)
        sampler = PartitionSampler(
            parts,
            prior_of_rows(self.prior, self.n_clusters, n_slots, n),
            z,
            rng,
            updates=self.prior.updates(),
            moves=moves,
        )
        for _ in range(PILOT_SWEEPS):
            sampler.sweep(rng)
        return sampler


def spread(
    estimator: Any, source: Source, client: Any, data: SeriesData | None, names: str | None
) -> tuple[SpreadSeries, float, int]:
    """Read all series, follow some, and make ready to run.

    Parameters
    ----------
    estimator : SeriesMixture
    source : Source
    client : distributed.Client or None
    data : SeriesData, optional
        All series, where they are in memory; files' columns are times otherwise.
    names : str, optional
        Column of files with the names of the series.

    Returns
    -------
    fit : SpreadSeries
    volume : float
        Log volume of the change of units of all data.
    n_silent : int
        Series without any observation.
    """
    import pandas as pd

    n, df, intercept = sum(source.sizes), estimator.df, bool(estimator.intercept)
    rng = np.random.default_rng(_SEED)
    followed = np.sort(rng.choice(n, size=min(n, N_FOLLOWED), replace=False))
    executor = make_executor(source, client, estimator.n_jobs, SERIES_BLOCK, LEAST_SERIES, "series")
    raw = executor.sample(followed)
    if data is not None:
        frame = pd.DataFrame(raw, index=data.series[followed], columns=data.axis.labels())
    else:
        index = pd.Index(names_of(source, names, followed), name=names)
        frame = pd.DataFrame(raw, index=index, columns=times_of(source.columns))
    data = from_wide(frame)
    position = data.axis.locate(frame.columns)
    scaler = series_scaler(data, position, intercept, estimator.scales != "all", start_df(df))
    executor.load(make_series_shard, scaler, followed)
    volumes, cells, silent = zip(*executor.map(facts), strict=True)
    sizes = SeriesSizes(n, int(sum(cells)), data.axis.size)
    base = find_units(data, intercept)
    scale = scaler.scale(data)
    weight = data.count.sum(1, dtype=float)
    units = replace(base, scale=scale, log_volume=float(np.average(np.log(scale), weights=weight)))
    n_clusters = estimator.n_clusters
    most = max(PILOT_SERIES, PILOT_PER_CLUSTER * n_clusters)
    problem = pilot_problem(data, units, check_priors(estimator.priors), df, most)
    fit = SpreadSeries(
        executor, data, units, problem, scaler, estimator._specification(), n_clusters, sizes,
        estimator._option("moves"),
    )  # fmt: skip
    volume = total([node for nodes in volumes for node in nodes], executor.n_blocks)
    return fit, float(volume[0]), int(sum(silent))


def pilot_problem(
    data: SeriesData, units: SeriesUnits, prior: SeriesPrior, df: Any, most: int
) -> SeriesProblem:
    """The problem of some of the followed series, from which chains start."""
    some = np.unique(np.linspace(0, len(data.y) - 1, min(most, len(data.y))).astype(int))
    few = replace(
        data, y=data.y[some], count=data.count[some], covariates=data.covariates[some],
        scatter=data.scatter[some], series=data.series[some],
    )  # fmt: skip
    return series_problem(
        few, replace(units, scale=units.scale[some]), prior, {}, df=df, common=False, draw="auto",
        keep_trends=False,
    )  # fmt: skip


# --------------------------------------------------------------------------- fits

# Collapses under which files of series may be fitted: both mean this sampler.
SPREAD = ("auto", PARALLEL)


def is_spread(estimator: Any, Y: Any) -> bool:
    """Return whether a sweep over these series is shared by threads or workers."""
    return is_in_shards(Y) or estimator.collapse == PARALLEL


def check_spread(estimator: Any, Y: Any, covariates: Sequence[str], offset: Any) -> None:
    """Refuse what series in shards cannot have, each by its name."""
    if is_dask_frame(Y):
        raise ValueError(
            "Series in shards are read from Parquet files or memory, not from a Dask "
            "DataFrame: write it with to_parquet, a row per series, and give the folder."
        )
    if estimator.collapse not in SPREAD:
        raise ValueError(
            f"collapse={estimator.collapse!r} is not supported for sharded data. "
            f"Use collapse={PARALLEL!r}, which is exact."
        )
    for given, word in (
        (len(covariates) > 0, "covariates="),
        (offset is not None, "offset="),
        (estimator.season is not None, "season="),
        (bool(estimator.difference), "difference=True"),
        (estimator.common_factor is True, "common_factor=True"),
        (bool(estimator.hold), "hold"),
        (estimator._option("keep_trends"), "options={'keep_trends': True}"),
        (not isinstance(estimator.init, str), "init with labels"),
    ):
        if given:
            raise ValueError(
                f"{word} is not supported for sharded data or collapse={PARALLEL!r}. Leave it out, "
                "or fit the series in memory with another collapse."
            )
    prior = estimator._specification()
    if prior.is_open or not is_supported(
        prior.state(estimator.n_clusters, estimator.n_clusters, 1)
    ):
        raise ValueError(
            "Over series in shards, prior must be 'finite', 'dirichlet' or 'fixed', not "
            f"{type(prior).__name__}."
        )


def fit_spread(estimator: Any, Y: Any, client: Any, columns: Mapping[str, Any]) -> None:
    """Sample over series in blocks, here or on a cluster."""
    data: SeriesData | None = None
    if is_in_shards(Y):
        source: Any = series_source(Y, columns.get("series"))
    else:
        data = read_series(Y, **columns)
        if data.count.max(initial=0) > 1:
            row, column = (int(v) for v in np.argwhere(data.count > 1)[0])
            raise ValueError(
                f"Series {str(data.series[row])!r} has several values at "
                f"{data.axis.labels()[column]}; with collapse={PARALLEL!r} there may be one. "
                "Average them first."
            )
        source = array_source(data)
    n = sum(source.sizes)
    if n < max(2, estimator.n_clusters):
        raise ValueError(
            f"There are {n} series: clustering needs at least 2, and no fewer than "
            f"n_clusters={estimator.n_clusters}."
        )
    fit, volume, n_silent = spread(estimator, source, client, data, columns.get("series"))
    with fit.executor:
        if estimator.common_factor == "auto" and move_together(fit.data, fit.units):
            raise ValueError(
                "All series move together, and a common factor is not supported for sharded data. "
                "Subtract the mean of the series first, or pass common_factor=False."
            )
        if n_silent:
            warnings.warn(
                f"{n_silent} series without any observation: their clusters are the prior's guess.",
                UserWarning,
                stacklevel=3,
            )
        run = run_of(estimator, source, client).chains(fit.sampler, estimator.n_clusters)
    moments = pool_trends([part for chain in run.summaries for part in chain])
    estimator._data, estimator._moments = fit.data, moments
    posterior = posterior_of(
        run,
        type(estimator).__name__,
        estimator.n_clusters,
        names=check_names(fit.data.series, "series"),
        units=fit.units,
        volume=volume,
        summaries=summaries_of(fit.data, moments),
        settings=estimator._settings(),
        noun="series",
        details=details_of(fit.data) | {"collapse": PARALLEL, "n_series": n},
    )
    estimator._finish(posterior)


# --------------------------------------------------------------------------- files

# Series that are assigned together: their cells are all in memory.
CHUNK = 4_096


def series_source(Y: str | os.PathLike[str], names: str | None) -> Source:
    """Return files with a row per series and a column per time."""
    source = parquet_source(Y, None, () if names is None else (names,))
    return replace(source, gaps=True)


def times_of(columns: Sequence[str]) -> list[Any]:
    """Return times from the names of columns: numbers if all are, otherwise the text.

    Examples
    --------
    >>> times_of(["0", "1"]), times_of(["2001-01", "2001-02"])
    ([0, 1], ['2001-01', '2001-02'])
    """
    for kind in (int, float):
        try:
            return [kind(name) for name in columns]
        except ValueError:
            continue
    return list(columns)


def array_source(data: SeriesData) -> Source:
    """Return series in memory."""
    return ArraySource(data.y, tuple(map(str, range(data.y.shape[1]))), gaps=True)


def names_of(source: Any, column: str | None, rows: np.ndarray) -> list[str]:
    """Return the names of the chosen series: a column of their files, or numbers."""
    if column is None:
        return [str(row) for row in rows]
    out: list[str] = []
    first = 0
    for part, size in enumerate(source.sizes):
        own = rows[(rows >= first) & (rows < first + size)] - first
        if own.size:
            names = names_of_part(source, column, part)
            out += [names[row] for row in own]
        first += size
    return out


def names_of_part(source: Any, column: str, part: int) -> list[str]:
    """Return the names of all series of one file."""
    piece = Piece(part, 0, source.sizes[part])
    table = read_rows(source.name(part), piece, (column,))
    return [str(value) for value in table.column(column).to_pylist()]


def position_of(columns: tuple[str, ...], assigner: Assigner) -> np.ndarray:
    """Return the positions of the columns of files on the axis of the fit."""
    import pandas as pd

    position = assigner.axis.locate(pd.Index(times_of(columns)))
    if position.max(initial=0) >= assigner.axis.size:
        raise ValueError(
            f"The files reach beyond the fit's last time, {assigner.axis.labels()[-1]}. Leave the "
            "later columns out."
        )
    return position


class SeriesPredictor(NamedTuple):
    """Assign series of files to clusters."""

    assigner: Assigner
    source: Any
    position: np.ndarray  # of the columns on the axis of the fit
    series: str | None  # column with names

    def __call__(self, rows: np.ndarray, part: int) -> Iterator[Any]:
        """Yield tables of the results for the series of one file, a chunk at a time."""
        import pandas as pd
        import pyarrow as pa

        axis = self.assigner.axis
        rng = np.random.default_rng(part)
        names = None if self.series is None else names_of_part(self.source, self.series, part)
        for start in range(0, len(rows), CHUNK):
            some = rows[start : start + CHUNK]
            data = series_on(axis, self.position, some, pd.RangeIndex(len(some)))
            found = self.assigner.table(data, rng)
            if names is not None:
                found.insert(0, str(self.series), names[start : start + CHUNK])
            yield pa.Table.from_pandas(found, preserve_index=False)


def predict_series(
    assigner: Assigner,
    Y: str | os.PathLike[str],
    folder: Path,
    series: str | None,
    client: Any = None,
) -> list[Path]:
    """Write a file of results for every file of series that has any."""
    source: Any = series_source(Y, series)
    position = position_of(source.columns, assigner)
    predictor = SeriesPredictor(assigner, source, position, series)
    return predict_to_parquet(source, predictor, folder, client)
