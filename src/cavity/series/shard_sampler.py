"""One chain over series in shards: a pass draws what belongs to a series, sums give the rest.

A sweep draws what all series share given the states of the last pass: variances, populations,
levels' spread, degrees of freedom (weights of cells integrated out), a shift of each cluster's
autoregressions with its factor integrated out, the factors, their scales and signs, the clusters'
weights. Then a pass over all series draws the rest. The labels that the runner sees are those of
the followed series, whose state is complete here.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np

from cavity._numba.arrays import StateError, fitting, flatten, rebuilt, saved_array
from cavity._numba.jit import Kernels
from cavity._numba.simd import whole_vectors
from cavity.distributed.df_grid import DF_EVERY, DFSettings, choose_df, draw_df_grid
from cavity.distributed.mixture_weights import draw_weights
from cavity.mcmc.draws import mark_empty
from cavity.priors.partition import log_prior, renew
from cavity.series.coefficients import draw_hyper_by_sums
from cavity.series.gibbs import draw_factors_given_states
from cavity.series.likelihood import FactorPaths, factor_paths, turned
from cavity.series.moves import LOADING as SUM_OF_LOADINGS
from cavity.series.moves import LOADING_SQUARE as SUM_OF_SQUARES
from cavity.series.moves import PRIOR_PULL, SIZE, draw_scales, draw_shifts
from cavity.series.parameters import (
    LEAST_VARIANCE,
    MOST_VARIANCE,
    RATE,
    SHAPE,
    Moving,
    PopulationUpdate,
    SeriesPriors,
    draw_autoregressions_by_sums,
    draw_normals_by_sums,
    log_density_of_df,
    log_inverse_gamma,
    log_mass,
    log_normal,
)
from cavity.series.shard_pass import (
    A_SQUARE,
    LIKELIHOOD,
    LOADING,
    LOADING_SQUARE,
    LOG_NOISE,
    PRECISION,
    STARTS,
    STEPS,
    WITHOUT_WEIGHTS,
    A,
    SeriesRequest,
    SeriesShards,
    SeriesTotal,
    no_df_grid,
    own_from,
    saved_own,
)
from cavity.series.state_space import LOADING_MEAN, FactorSeries
from cavity.series.update import SeriesUpdate
from cavity.updates import Update, below

_SHARED = ("shift", "scale", "weight", "df_grid")


class SeriesSizes(NamedTuple):
    """Sizes of all shards together."""

    n: int  # series
    cells: int  # cells that were observed
    times: int


class SeriesShardedSampler:
    """A started chain that the runner drives.

    Parameters
    ----------
    shards : SeriesShards
        The shards, for this chain.
    model : FactorSeries
        The series that are followed, with the parameters that all series begin with.
    sizes : SeriesSizes
    paths : (T, clusters) array
        Factors that the chain begins with.
    hyper : (2, p) array
        Means and variances of the coefficients that it begins with.
    prior : NamedTuple
        The partition prior's state.
    priors : SeriesPriors
    moving : Moving
    learn_df : bool
    updates : iterable of Update
        What learns the partition prior.
    rng : numpy.random.Generator
    """

    cluster_parameters: tuple[str, ...] = ("factor", "size")
    family: Any = None  # factors have no statistics that are kept in slots

    def __init__(
        self,
        shards: SeriesShards,
        model: FactorSeries,
        sizes: SeriesSizes,
        paths: np.ndarray,
        hyper: np.ndarray,
        prior: Any,
        priors: SeriesPriors,
        moving: Moving,
        *,
        learn_df: bool = False,
        updates: Iterable[Update] = (),
        rng: np.random.Generator,
    ) -> None:
        self.shards, self.model, self.sizes = shards, model, sizes
        self.prior, self.priors, self.moving = prior, priors, moving
        self.updates = tuple(updates)
        n_times, self.n_slots = paths.shape
        width = whole_vectors(self.n_slots)
        self.parameters: FactorPaths = factor_paths(n_times, width)
        self.parameters.value[:, : self.n_slots] = paths
        self._series = SeriesUpdate(
            model, priors, hyper, moving, joint=False, approximate=False, learn_df=learn_df
        )
        self._population = PopulationUpdate(priors, moving)
        self._tails = DFSettings(
            float(model.own.df[0]), "shared" if learn_df else None, SHAPE, RATE
        )
        first, second = (int(word) for word in rng.integers(0, 2**63, size=2))
        self.key = first, second
        self.n_sweeps = 0
        self._kernels = Kernels()
        self.shift, self.scale = np.zeros(width), np.ones(width)
        self.df_grid = no_df_grid()
        self.weight = np.zeros(width)
        self.weight[: self.n_slots] = 1.0 / self.n_slots
        self.z = np.zeros(len(model.own.a), dtype=np.int64)
        self.counts = np.zeros(self.n_slots, dtype=np.int64)
        self._log_likelihood = self._log_joint = math.nan
        self._pass()

    # ------------------------------------------------------------------ a sweep

    def sweep(self, rng: np.random.Generator) -> None:
        """Draw everything shared given states and labels, then run a pass over all series."""
        self._draw_shared(rng)
        self.n_sweeps += 1
        self._pass()

    def _request(self) -> SeriesRequest:
        own = self.model.own
        return SeriesRequest(
            self.parameters.value.copy(), self.weight.copy(), self.shift.copy(), self.scale.copy(),
            float(own.var_x[0]), float(own.var_x0[0]), float(own.df[0]), own.population.copy(),
            self._series.hyper.copy(), self.priors, self.moving, bool(own.free_signs), self.df_grid,
            self.key, self.n_sweeps,
        )  # fmt: skip

    def _pass(self) -> None:
        """Run a pass over all series and take over its results."""
        self.total: SeriesTotal = self.shards.run(self._request())
        seen, own = self.total.seen, self.model.own
        self.z[:] = seen.own.z
        for name in ("a", "loading", "var_y", "beta"):
            getattr(own, name)[:] = getattr(seen.own, name)
        if own.tails.size:
            own.tails[:] = seen.weight
        self._series.last[:] = seen.last
        sizes = self.total.sums.scalars[: self.n_slots, SIZE]
        self.counts = np.rint(sizes).astype(np.int64)
        self.prior = renew(self.prior, self.counts)
        self._log_likelihood = float(
            self.total.scalars[LIKELIHOOD] + self.total.scalars[WITHOUT_WEIGHTS]
        )
        self._log_joint = self._log_likelihood + self._log_priors()

    def _draw_shared(self, rng: np.random.Generator) -> None:
        """Draw everything that series share, given the sums of the last pass."""
        own, moving, priors, sums = self.model.own, self.moving, self.priors, self.total.sums
        n, n_times = self.sizes.n, self.sizes.times
        scalars = self.total.scalars
        if moving.var_x:
            shape = priors.var_x_shape + 0.5 * n * n_times
            own.var_x[0] = _variance(shape, priors.var_x_scale + 0.5 * scalars[STEPS], rng)
        if moving.var_x0:
            shape = priors.var_x0_shape + 0.5 * n
            own.var_x0[0] = _variance(shape, priors.var_x0_scale + 0.5 * scalars[STARTS], rng)
        if moving.beta:
            hyper, (total, square) = self._series.hyper, self.total.after
            about = np.maximum(square - total * total / n, 0.0)
            for j in range(hyper.shape[1]):
                draw_hyper_by_sums(n, total[j], about[j], j, hyper[0], hyper[1], priors, rng)
        self._draw_df(rng)
        self.shift[:], self.scale[:] = 0.0, 1.0
        if moving.a:
            draw_shifts(own.var_x[0], n, sums, own.population, priors.a, self.shift, rng)
        draw_factors_given_states(own.var_x[0], self.parameters, sums, rng)
        if moving.loading:
            draw_scales(self.parameters, sums, own.population, priors.loading, self.scale, rng)
        self._draw_populations(rng)
        for update in self.updates:
            update.draw(self, rng)
        self.prior = renew(self.prior, self.counts)
        self.weight[: self.n_slots] = draw_weights(self.prior, self.counts, rng).weight

    def _draw_df(self, rng: np.random.Generator) -> None:
        """Degrees of freedom of the noise, on the df_grid that the last pass has tried."""
        if self.df_grid.size:
            self.model.own.df[0] = choose_df(
                self.df_grid[None], self.total.tails[None], np.array([self.sizes.cells]), 1,
                self._tails, rng,
            )[0]  # fmt: skip
        self.df_grid = no_df_grid()
        if self._tails.learn is not None and self.n_sweeps % DF_EVERY == 0:
            alpha = 0.5 * self.model.own.df
            self.df_grid = draw_df_grid(alpha, self._tails, self.sizes.cells, rng)[0]

    def _draw_populations(self, rng: np.random.Generator) -> None:
        """Draw the populations of the a_i and of the loadings, shifts and scales applied."""
        own, n, learned = self.model.own, self.sizes.n, self._population
        by_cluster = self.total.sums.scalars
        if learned.a is not None:
            # The sums of the a_i have been shifted already; those of their squares have not.
            total, size = by_cluster[:, PRIOR_PULL], by_cluster[:, SIZE]
            square = self.total.a_square + self.shift * (2.0 * total - size * self.shift)
            about = max(float(square.sum() - total.sum() ** 2 / n), 0.0)
            draw_autoregressions_by_sums(
                n, float(total.sum()), about, own.population, learned.a, rng
            )
        loadings = by_cluster[:, SUM_OF_LOADINGS] / self.scale
        if learned.loading is not None:
            mean = float(loadings.sum()) / n
            of_squares = float((by_cluster[:, SUM_OF_SQUARES] / self.scale**2).sum())
            about = max(of_squares - n * mean * mean, 0.0)
            draw_normals_by_sums(
                n, n * mean, about, own.population[LOADING_MEAN:], learned.loading, rng
            )
        if own.free_signs:
            chosen = turned(
                loadings, own.population, by_cluster[:, SIZE], learned.loading is not None, rng
            )
            self.scale[chosen] *= -1.0
            self.parameters.value[:, chosen] *= -1.0

    # ------------------------------------------------------------------ densities and records

    def labels(self) -> np.ndarray:
        """Current slot of every followed series."""
        return self.z

    def log_joint(self) -> float:
        """Log joint density of all data, labels and parameters, as labels were drawn.

        The weights of cells are out, by one draw of them (`cavity.series.parameters`).
        """
        return self._log_joint

    def _log_priors(self) -> float:
        """Log prior of labels, factors and all parameters, from sums over all series."""
        own, priors, moving, n = self.model.own, self.priors, self.moving, self.sizes.n
        sums = self.total.scalars
        total = float(self._kernels.run(log_prior, self.prior, self.counts))
        total += sum((update.log_density(self) for update in self.updates), 0.0)
        total += self._population.log_density(self)
        occupied = np.flatnonzero(self.counts)
        total += log_normal(self.parameters.value[:, occupied], 0.0, 1.0)
        a_mean, a_precision, b_mean, b_precision = own.population
        if moving.a and a_precision > 0.0:
            root = math.sqrt(a_precision)
            total += _normals(n, sums[A], sums[A_SQUARE], a_mean, a_precision)
            total -= n * log_mass((-1.0 - a_mean) * root, (1.0 - a_mean) * root)
        elif moving.a:
            total -= n * math.log(2.0)
        if moving.loading:
            total += _normals(n, sums[LOADING], sums[LOADING_SQUARE], b_mean, b_precision)
        if moving.var_y:
            shape, scale = priors.var_y_shape, priors.var_y_scale
            each = shape * math.log(scale) - math.lgamma(shape)
            total += n * each - (shape + 1.0) * sums[LOG_NOISE] - scale * sums[PRECISION]
        if moving.var_x:
            total += log_inverse_gamma(own.var_x, priors.var_x_shape, priors.var_x_scale)
        if moving.var_x0:
            total += log_inverse_gamma(own.var_x0, priors.var_x0_shape, priors.var_x0_scale)
        if moving.beta:
            mean, variance = self._series.hyper
            total += log_normal(mean, priors.beta_mean, priors.beta_precision)
            total += log_inverse_gamma(variance, priors.beta_shape, priors.beta_scale)
            for j, (first, square) in enumerate(self.total.before.T):
                total += _normals(n, first, square, mean[j], 1.0 / variance[j])
        return total + (0.0 if self._tails.learn is None else log_density_of_df(own.df[0]))

    def record(self) -> dict[str, np.ndarray]:
        """Parameters of a kept draw: of the followed series, and of all."""
        out = self._series.record(self) | self._population.record(self)
        out["size"] = self.counts.astype(float)
        for update in self.updates:
            out |= update.record(self)
        mark_empty(out, self.cluster_parameters, self.counts)
        out["log_likelihood"] = np.array(self._log_likelihood)
        if self.prior.has_concentration:
            out["concentration"] = self.prior.concentration[0].copy()
        return out

    def keep(self) -> None:
        """Add the draw to the moments of the followed series' trends."""
        self._series.keep(self)

    def summaries(self) -> dict[str, np.ndarray]:
        """Moments of the followed series' trends."""
        return self._series.summaries()

    def forget(self) -> None:
        """Begin new moments."""
        self._series.forget()

    def events(self) -> dict[str, float]:
        """Return events of the workers."""
        return self.shards.executor.events()

    def news(self) -> str:
        """Return the status for a progress bar."""
        return self.shards.executor.status()

    # ------------------------------------------------------------------ checkpoints

    def state(self) -> dict[str, np.ndarray]:
        """Return everything needed to continue, with the state of all series."""
        return {
            "key": np.array(self.key, dtype=np.int64),
            "n_sweeps": np.array(self.n_sweeps),
            "z": self.z.copy(),
            "log_densities": np.array([self._log_likelihood, self._log_joint]),
            **{name: getattr(self, name).copy() for name in _SHARED},
            **flatten(self.prior, "prior."),
            **flatten(self.parameters, "parameters."),
            **flatten(self.model.own, "model."),
            **{f"total.{name}": value.copy() for name, value in _plain(self.total).items()},
            **{f"series.{name}": value for name, value in self._series.arrays().items()},
            **saved_own(self.shards.fetch()),
        }

    def restore(self, state: Mapping[str, np.ndarray]) -> None:
        """Continue from ``state``."""
        state = dict(state)
        own = own_from(state, self.shards.fetch())
        if own.z.min(initial=0) < 0 or own.z.max(initial=0) >= self.n_slots:
            raise StateError("its labels name clusters that it has no room for")
        self.shards.put(own)
        first, second = (int(word) for word in saved_array(state, "key"))
        self.key, self.n_sweeps = (first, second), int(saved_array(state, "n_sweeps"))
        self.z[:] = fitting(saved_array(state, "z"), self.z, "z")
        self.df_grid = np.array(saved_array(state, "df_grid"), dtype=float)
        for name in _SHARED[:-1]:
            getattr(self, name)[:] = fitting(saved_array(state, name), getattr(self, name), name)
        self._log_likelihood, self._log_joint = map(float, saved_array(state, "log_densities"))
        for name, value in _plain(self.total).items():
            if name != "tails":
                value[...] = fitting(saved_array(state, f"total.{name}"), value, name)
        self.total = self.total._replace(tails=np.array(saved_array(state, "total.tails")))
        self.counts = np.rint(self.total.sums.scalars[: self.n_slots, SIZE]).astype(np.int64)
        self.prior = rebuilt(renew(self.prior, self.counts), state, "prior.")
        self.parameters = rebuilt(self.parameters, state, "parameters.")
        found = rebuilt(self.model.own, state, "model.")
        self.model = self.model._replace(own=found)
        self._series.restore(below(state, "series."), self)


def _plain(total: SeriesTotal) -> dict[str, np.ndarray]:
    """The sums of a pass by name, but for what is known of the followed series."""
    return {
        "pull": total.sums.pull,
        "back": total.sums.back,
        "by_cluster": total.sums.scalars,
        **{name: getattr(total, name) for name in ("a_square", "scalars", "before", "after")},
        "tails": total.tails,
    }


def _variance(shape: float, scale: float, rng: np.random.Generator) -> float:
    """A draw of an inverse gamma distribution, within the range of variances."""
    drawn = scale / max(rng.standard_gamma(shape), 1e-300)
    return float(min(max(drawn, LEAST_VARIANCE), MOST_VARIANCE))


def _normals(n: int, total: float, square: float, mean: float, precision: float) -> float:
    """Sum of log densities of normal values with this sum and sum of squares."""
    away = square - 2.0 * mean * total + n * mean * mean
    return float(0.5 * n * math.log(precision / (2.0 * math.pi)) - 0.5 * precision * away)
