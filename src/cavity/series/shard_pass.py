"""One pass over a shard of series: draws of everything that belongs to a series, and their sums.

Given the factors of all clusters and what series have in common, series are independent. So a pass
draws, series by series: the weights of its cells, its label with the sign of its loading (states
integrated out), level and loading, states, autoregression, noise. The states are then discarded.
A shard returns sums, from which the coordinator draws everything that series share. It keeps
a few numbers for each series (`LocalState`), with which the next pass begins.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from cavity._numba.arrays import fitting, saved_array
from cavity._numba.jit import jit
from cavity.distributed.blocks import SWEEP, Layout, Node, partial_sums, quick_stream, total
from cavity.distributed.executor import ShardExecutor
from cavity.interface import pick_given
from cavity.likelihoods.degrees_of_freedom import log_tail
from cavity.series.coefficients import coefficients
from cavity.series.gibbs import refresh_each
from cavity.series.likelihood import FactorPaths
from cavity.series.moves import HIGH, LOW, StateSums, state_sums
from cavity.series.parameters import Moving, SeriesPriors, draw_weights
from cavity.series.state_space import Cells, FactorSeries, SeriesParameters, scratch

# Series of a block: a few milliseconds of work.
SERIES_BLOCK = 512
_NO_LABELS = np.zeros(0, dtype=np.int32)
_NOT_KEPT = np.zeros((0, 0), dtype=np.float32)

# Sums over all clusters: see `SeriesTotal`. Those of coefficients follow.
(
    LIKELIHOOD,
    WITHOUT_WEIGHTS,
    STEPS,
    STARTS,
    LOST,
    A,
    A_SQUARE,
    LOADING,
    LOADING_SQUARE,
    LOG_NOISE,
    PRECISION,
) = range(11)
N_SCALARS = 11


class LocalState(NamedTuple):
    """Parameters of the series between two passes."""

    z: np.ndarray  # (n,)
    a: np.ndarray  # (n,)
    loading: np.ndarray  # (n,)
    var_y: np.ndarray  # (n,)
    beta: np.ndarray  # (n, p)
    # Squared noise of each cell in units of its variance, single precision; or (0, 0): Gaussian.
    noise: np.ndarray

    def part(self, rows: Any) -> LocalState:
        """Return the state of some series."""
        noise = self.noise[rows] if self.noise.size else self.noise
        return LocalState(
            self.z[rows], self.a[rows], self.loading[rows], self.var_y[rows], self.beta[rows], noise
        )


def joined(parts: list[LocalState]) -> LocalState:
    """Concatenate the states of several shards."""
    return LocalState(*(np.concatenate(values) for values in zip(*parts, strict=True)))


def saved_own(own: LocalState) -> dict[str, np.ndarray]:
    """Arrays for a checkpoint."""
    return {f"own.{name}": values for name, values in own._asdict().items()}


def own_from(state: dict[str, np.ndarray], like: LocalState) -> LocalState:
    """Restore the state from `saved_own`, checked against the run's own."""
    return LocalState(
        *(fitting(saved_array(state, f"own.{k}"), v, k) for k, v in like._asdict().items())
    )


class SeriesShard(NamedTuple):
    """Series of consecutive blocks; `begun` is what they have before the first pass."""

    layout: Layout
    cells: Cells
    begun: LocalState
    followed: np.ndarray  # series, counted in the shard, of which all is wanted
    log_volume: np.ndarray  # (blocks,), sums over observations of the log scale of their series


class SeriesRequest(NamedTuple):
    """Shared parameters and settings of a pass."""

    paths: np.ndarray  # (T, padded slots), the factors
    weight: np.ndarray  # (padded slots,), 0 where there is no cluster
    shift: np.ndarray  # (padded slots,), of the a_i of those who were in a cluster
    scale: np.ndarray  # (padded slots,), what their loadings are divided by
    var_x: float
    var_x0: float
    df: float
    population: np.ndarray  # (4,)
    hyper: np.ndarray  # (2, p)
    priors: SeriesPriors
    moving: Moving
    free_signs: bool
    df_grid: np.ndarray  # (8,) or (0,), degrees of freedom to be tried
    key: tuple[int, int]
    sweep: int


class Seen(NamedTuple):
    """Draws of the followed series in one pass."""

    own: LocalState
    weight: np.ndarray  # (m, T) or (0, 0), of their cells
    last: np.ndarray  # (m,), their last state


class SeriesResult(NamedTuple):
    """Result of a pass over one shard."""

    nodes: list[Node]
    bounds: np.ndarray  # (2, padded slots), of a shift of the a_i of each cluster
    seen: Seen


class SeriesTotal(NamedTuple):
    """The sums of a whole pass.

    Attributes
    ----------
    sums : StateSums
        Of each cluster, given states.
    a_square : (padded slots,) array
    scalars : (11,) array
        Log density of the data given labels and parameters as these were drawn; what it gains
        without the weights of cells; squares of the states' steps and of their beginnings;
        series whose label could not be drawn; and, as labels were drawn, sums of a, a^2, loading,
        loading^2, log var_y and 1 / var_y.
    before, after : (2, p) arrays
        Sums of coefficients and their squares: as labels were drawn, and now.
    tails : (8,) or (0,) array
        Sums over cells of log(1 + noise / rung).
    seen : Seen
    """

    sums: StateSums
    a_square: np.ndarray
    scalars: np.ndarray
    before: np.ndarray
    after: np.ndarray
    tails: np.ndarray
    seen: Seen


@jit
def draw_block_labels(m, z, paths, weights, shift, scale, scores, mass, totals, rng):
    """Apply the drawn shifts and scales of the clusters, then draw weights and labels.

    The first sums of `totals` are added to.
    """
    own = m.own
    n = z.shape[0]
    for i in range(n):
        moved = own.a[i] + shift[z[i]]
        if -1.0 < moved < 1.0:
            own.a[i] = moved
        own.loading[i] /= scale[z[i]]
    if own.tails.shape[0] > 0:
        totals[WITHOUT_WEIGHTS] += draw_weights(own.tails, m.cells.repeats, own.df[0], rng)
    signed = m.scratch.signed
    for i in range(n):
        before = own.loading[i]
        k = pick_given(m, paths, i, weights, scores, mass, rng)
        if k < 0:
            totals[LOST] += 1.0
            k = np.int64(z[i])
        z[i] = k
        totals[LIKELIHOOD] += signed[0 if own.loading[i] == before else 1, k]


@jit
def sum_tails(noise, labels, df_grid, out):
    """Sums over all cells of log(1 + noise / rung), for every rung; `labels` are none."""
    for r in range(df_grid.shape[0]):
        out[r] = log_tail(noise, labels, -1, df_grid[r])


def run_series_pass(
    shard: SeriesShard, own: LocalState, request: SeriesRequest
) -> tuple[LocalState, SeriesResult]:
    """Sweep over every block of a shard.

    `own` is not changed, so a pass can be repeated.
    """
    layout, cells = shard.layout, shard.cells
    request = request._replace(
        **{name: getattr(request, name).copy() for name in ("weight", "shift", "scale", "df_grid")}
    )
    n, n_times = cells.y.shape
    width, p = request.weight.size, own.beta.shape[1]
    # A name for each thing that is summed, in the order in which they stand.
    sizes = leaf_sizes(n_times, width, p, request.df_grid.size)
    places = np.cumsum(sizes)
    leaves = np.zeros((layout.n_blocks, places[-1]))
    bounds = np.empty((layout.n_blocks, 2, width))
    after = LocalState(*(values.copy() for values in own))
    m = len(shard.followed)
    heavy = own.noise.size > 0
    weight = np.zeros((m, n_times) if heavy else (0, 0), dtype=np.float32)
    last = np.empty(n)
    among = np.searchsorted(shard.followed, layout.edges)
    paths = FactorPaths(request.paths.copy(), np.zeros_like(request.paths))

    for b in range(layout.n_blocks):
        rows = slice(int(layout.edges[b]), int(layout.edges[b + 1]))
        rng = quick_stream(request.key, layout.first_block + b, request.sweep, SWEEP)
        pull, back, scalars, a_square, totals, before, now, tails = np.split(leaves[b], places[:-1])
        part = after.part(rows)
        model = _model(cells, part, own.noise[rows], request, rows)
        draw_block_labels(
            model, part.z, paths, request.weight, request.shift, request.scale, np.zeros(width),
            np.zeros(width), totals, rng,
        )  # fmt: skip
        totals[A:] = (
            part.a.sum(), (part.a**2).sum(), part.loading.sum(), (part.loading**2).sum(),
            np.log(part.var_y).sum(), (1.0 / part.var_y).sum(),
        )  # fmt: skip
        before[:] = _two_sums(part.beta)
        here = slice(among[b], among[b + 1])
        if heavy:
            weight[here] = model.own.tails[shard.followed[here] - rows.start]
        sums = state_sums(n_times, width)
        hyper = request.hyper.copy()
        totals[STEPS], totals[STARTS] = refresh_each(
            model, part.z, paths, coefficients(hyper, free=request.moving.beta),
            request.priors, request.moving, np.empty(n_times + 1), last[rows], _NOT_KEPT, sums, rng,
        )  # fmt: skip
        pull[:], back[:] = sums.pull.ravel(), sums.back.ravel()
        bounds[b] = sums.scalars[:, LOW], sums.scalars[:, HIGH]
        sums.scalars[:, [LOW, HIGH]] = 0.0
        scalars[:] = sums.scalars.ravel()
        a_square[:] = np.bincount(part.z, part.a * part.a, width)
        now[:] = _two_sums(part.beta)
        if heavy:
            after.noise[rows] = model.own.tails
            sum_tails(model.own.tails.reshape(-1), _NO_LABELS, request.df_grid, tails)
    found = shard.followed
    seen = Seen(
        after._replace(noise=_NOT_KEPT).part(found),
        weight,
        last[found],
    )
    extremes = np.array([bounds[:, 0].max(axis=0), bounds[:, 1].min(axis=0)])
    nodes = partial_sums(layout.first_block, leaves)
    return after, SeriesResult(nodes, extremes, seen)


def _two_sums(beta: np.ndarray) -> np.ndarray:
    return np.concatenate([beta.sum(axis=0), (beta * beta).sum(axis=0)])


def _model(
    cells: Cells, own: LocalState, noise: np.ndarray, request: SeriesRequest, rows: slice
) -> FactorSeries:
    """Some series as kernels see them, with parameters that they may change."""
    data = Cells(*(_writable(values[rows]) for values in cells))
    n_times = cells.y.shape[1]
    shared = SeriesParameters(
        a=own.a,
        loading=own.loading,
        var_y=own.var_y,
        beta=own.beta,
        var_x=np.array([request.var_x]),
        population=request.population.copy(),
        var_x0=np.array([request.var_x0]),
        tails=noise.astype(float),
        df=np.array([request.df]),
        common=np.zeros(0),
        common_factor=np.zeros(0),
        common_population=np.array([0.0, 1.0]),
        free_signs=request.free_signs,
    )
    return FactorSeries(data, shared, scratch(n_times, request.weight.size))


def _writable(values: np.ndarray) -> np.ndarray:
    """The values, copied if they came over the network read-only: kernels would be others."""
    return values if values.flags.writeable else values.copy()


def leaf_sizes(n_times: int, width: int, p: int, n_grid: int) -> tuple[int, ...]:
    """Return the number of values of each of a block's sums."""
    grid = n_times * width
    return grid, grid, 10 * width, width, N_SCALARS, 2 * p, 2 * p, n_grid


def whole(parts: list[SeriesResult], values: np.ndarray, request: SeriesRequest) -> SeriesTotal:
    """The sums of all shards by name; `values` are those of all blocks."""
    n_times, width = request.paths.shape
    p = request.hyper.shape[1]
    sizes = leaf_sizes(n_times, width, p, request.df_grid.size)
    pull, back, scalars, a_square, totals, before, now, tails = np.split(
        values, np.cumsum(sizes)[:-1]
    )
    if totals[LOST]:
        raise FloatingPointError(
            f"{int(totals[LOST])} series have no finite density in any cluster; check their values "
            "against the scale of the others"
        )
    sums = state_sums(n_times, width)
    sums.pull[:], sums.back[:] = pull.reshape(n_times, width), back.reshape(n_times, width)
    sums.scalars[:] = scalars.reshape(width, 10)
    sums.scalars[:, LOW] = np.max([part.bounds[0] for part in parts], axis=0)
    sums.scalars[:, HIGH] = np.min([part.bounds[1] for part in parts], axis=0)
    owns, weights, lasts = zip(*(part.seen for part in parts), strict=True)
    seen = Seen(joined(list(owns)), np.concatenate(weights), np.concatenate(lasts))
    return SeriesTotal(sums, a_square, totals, before.reshape(2, p), now.reshape(2, p), tails, seen)


def no_df_grid() -> np.ndarray:
    """No degrees of freedom to be tried."""
    return np.zeros(0)


def initial_state(shard: SeriesShard) -> LocalState:
    """Return the state of a shard's series before the first pass."""
    return shard.begun


class SeriesShards:
    """The shards of an executor with the state of their series, for one chain.

    Parameters
    ----------
    executor : ShardExecutor
        With its series loaded.
    """

    def __init__(self, executor: ShardExecutor) -> None:
        self.executor = executor
        self._states = executor.begin(initial_state)

    def run(self, request: SeriesRequest) -> SeriesTotal:
        """Sweep over all series and return the sums."""
        self._states, parts = self.executor.step(self._states, run_series_pass, request)
        values = total([node for part in parts for node in part.nodes], self.executor.n_blocks)
        return whole(parts, np.asarray(values), request)

    def fetch(self) -> LocalState:
        """Return the state of all series, in their order."""
        return joined(self.executor.fetch(self._states))

    def put(self, own: LocalState) -> None:
        """Set the state of all series."""
        ends = np.cumsum(self.executor.shard_sizes)
        starts = ends - self.executor.shard_sizes
        parts = [own.part(slice(int(a), int(b))) for a, b in zip(starts, ends, strict=True)]
        self._states = self.executor.scatter(parts)
