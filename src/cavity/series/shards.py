"""Series in shards: one chain's sweep shared by threads, or by the workers of a Dask cluster."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from cavity.collapse.registry import assemble
from cavity.distributed.blocks import Layout, Node, partial_sums, total
from cavity.distributed.executor import ShardExecutor, local_rows, make_executor
from cavity.distributed.sources import ShardError, Source
from cavity.estimators.fitting import moves_for, prior_of_rows
from cavity.estimators.validation import LARGEST
from cavity.mcmc.chain import PartitionSampler
from cavity.moves.anchors import nearest_anchors
from cavity.posterior.units import SeriesUnits
from cavity.priors.series import SeriesPrior
from cavity.priors.specifications import PartitionSpecification
from cavity.series.collapses import affordable_collapse
from cavity.series.data import SeriesData, from_wide
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
from cavity.series.problem import SeriesProblem, series_problem, start_df
from cavity.series.shard_pass import SERIES_BLOCK, LocalState, SeriesShard, SeriesShards
from cavity.series.shard_sampler import SeriesShardedSampler, SeriesSizes
from cavity.series.sources import names_of, times_of
from cavity.series.state_space import FactorSeries, factor_series, own_copy

# Series whose labels, parameters and trends are kept, a uniform sample.
N_FOLLOWED = 1_000
_SEED = 20_181_117
# Followed series that each chain clusters by itself first, sweeps of that, and series for each
# cluster there should be among them.
PILOT_SERIES, PILOT_SWEEPS, PILOT_PER_CLUSTER = 400, 60, 25
# Series that a shard of a cluster should have at least.
LEAST_SERIES = 5_000


class SeriesScaler(NamedTuple):
    """What turns series as recorded into those of the model, wherever they are read."""

    position: np.ndarray  # of each column on the axis of times
    n_times: int
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

        y = np.full((len(rows), self.n_times), np.nan)
        y[:, self.position] = rows
        count = (~np.isnan(y)).astype(np.uint16)
        n = len(y)
        none = np.zeros((n, self.n_times, 0))
        axis: Any = None  # of no use to what is asked of it here
        return SeriesData(y, count, none, np.zeros((n, 1, 1)), pd.RangeIndex(n), axis)

    def scale(self, data: SeriesData) -> np.ndarray:
        """What each series is divided by."""
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
        position, data.axis.size, base.centre, size, common, loudness, each, intercept, df, {}
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
    source: Source,
    client: Any,
    n_jobs: int | None,
    *,
    axis_of: SeriesData | None,
    names: str | None,
    prior: PartitionSpecification,
    n_clusters: int,
    series_prior: SeriesPrior,
    intercept: bool,
    each: bool,
    df: float | str | None,
    moves: bool,
) -> tuple[SpreadSeries, float, int]:
    """Read all series, follow some, and make ready to run.

    Parameters
    ----------
    source : Source
    client : distributed.Client or None
    n_jobs : int or None
        Threads, without a client.
    axis_of : SeriesData, optional
        All series, where they are in memory; files' columns are times otherwise.
    names : str, optional
        Column of files with the names of the series.
    prior : specification
    n_clusters : int
    series_prior : SeriesPrior
    intercept, each : bool
    df : float, "learn" or None
    moves : bool

    Returns
    -------
    fit : SpreadSeries
    volume : float
        What the log density of all data loses on the way to their units.
    n_silent : int
        Series without any observation.
    """
    import pandas as pd

    n = sum(source.sizes)
    rng = np.random.default_rng(_SEED)
    followed = np.sort(rng.choice(n, size=min(n, N_FOLLOWED), replace=False))
    start = start_df(df)
    executor = make_executor(source, client, n_jobs, SERIES_BLOCK, LEAST_SERIES, "series")
    raw = executor.sample(followed)
    if axis_of is not None:
        index = axis_of.series[followed]
        frame = pd.DataFrame(raw, index=index, columns=axis_of.axis.labels())
    else:
        index = pd.Index(names_of(source, names, followed), name=names)
        frame = pd.DataFrame(raw, index=index, columns=times_of(source.columns))
    data = from_wide(frame)
    position = data.axis.locate(frame.columns)
    scaler = series_scaler(data, position, intercept, each, start)
    executor.load(make_series_shard, scaler, followed)
    volumes, cells, silent = zip(*executor.map(facts), strict=True)
    sizes = SeriesSizes(n, int(sum(cells)), data.axis.size)
    base = find_units(data, intercept)
    scale = scaler.scale(data)
    weight = data.count.sum(1, dtype=float)
    units = replace(base, scale=scale, log_volume=float(np.average(np.log(scale), weights=weight)))
    most = max(PILOT_SERIES, PILOT_PER_CLUSTER * n_clusters)
    problem = pilot_problem(data, units, series_prior, df, most)
    fit = SpreadSeries(executor, data, units, problem, scaler, prior, n_clusters, sizes, moves)
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
