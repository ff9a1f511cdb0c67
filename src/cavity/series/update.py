"""The update of a chain that draws everything but the labels, whatever the collapse."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from cavity._numba.arrays import fitting, saved_array
from cavity._numba.jit import Kernels
from cavity.series.batched_filter import series_batch
from cavity.series.cluster_information import information_matrix
from cavity.series.coefficients import (
    Coefficients,
    MeanEquations,
    coefficients,
    draw_all_coefficients,
    draw_means,
    log_without_means,
    mean_equations,
)
from cavity.series.common_factor import SETTLING, draw_common_given_states, draw_common_jointly
from cavity.series.gibbs import (
    all_constants,
    draw_factorized,
    draw_factors_given_states,
    draw_factors_jointly,
    marginal_likelihood,
    refresh_series,
    summarize_trends,
)
from cavity.series.likelihood import FactorPaths
from cavity.series.metropolis import BEGINNING, DYNAMICS, OWN_NOISE, AdaptiveMetropolis
from cavity.series.moves import (
    StateSums,
    rescale_factors,
    rescale_own_noise,
    shift_autoregressions,
    state_sums,
)
from cavity.series.parameters import (
    NOTHING,
    Moving,
    SeriesPriors,
    draw_noise_weights,
    log_density_of_df,
    log_density_of_weights,
    log_normal,
    log_prior_of_series,
)
from cavity.series.state_space import FactorSeries, SeriesParameters
from cavity.updates import LIKELIHOOD, Chain, Update, below

_ROOM = 4_000_000  # numbers in the matrices of all clusters, at most


class SeriesUpdate(Update):
    """Factors, states, parameters and hyper-parameters of one chain, and its trends' summary.

    Parameters
    ----------
    model : FactorSeries
    priors : SeriesPriors
    hyper : (2, p) array
        Starting hyper-means and hyper-variances of the regression coefficients.
    moving : Moving
        Which parameters are drawn.
    joint : bool
        Draw the factors with the states integrated out (then the states given them), which is
        one exact joint draw; or alternate between the two.
    approximate : bool
        When alternating: the factors were drawn from EP's approximation after the scan, so one
        round of alternation comes first to lead towards the posterior.
    keep_trends : bool
        Keep the states of the latest sweep.
    learn_df : bool
        Draw the degrees of freedom of Student-t noise.
    """

    name = "series"
    changes = frozenset({LIKELIHOOD})
    cluster_parameters = ("factor",)

    def __init__(
        self,
        model: FactorSeries,
        priors: SeriesPriors,
        hyper: np.ndarray,
        moving: Moving,
        *,
        joint: bool,
        approximate: bool,
        keep_trends: bool = False,
        learn_df: bool = False,
    ) -> None:
        n, n_times = model.cells.y.shape
        self.learn_df = learn_df
        self._run = Kernels().run  # whose arguments keep their types as long as the chain lasts
        self.n_cells = int((model.cells.repeats > 0).sum())
        self.priors = priors
        self.moving = moving
        self.joint = joint
        self.approximate = approximate
        self.hyper = np.array(hyper, dtype=float)
        self.n_done = 0
        self.gain = np.zeros(1)  # of a log density given the weights of cells, without them
        self.dynamics = AdaptiveMetropolis(priors, DYNAMICS, n_tries=2)
        self.own_noise = AdaptiveMetropolis(priors, OWN_NOISE)
        self.beginning = AdaptiveMetropolis(priors, BEGINNING, n_tries=2)
        self.last = np.zeros(n)
        self.states = np.zeros((n, n_times) if keep_trends else (0, 0), dtype=np.float32)
        self._make_room(model)
        n_covariates = model.cells.covariates.shape[2]
        self.n_kept = 0
        # The mean in double precision: a level far above the trend's own movement would use up
        # the digits of single precision.
        self.trend_mean = np.zeros((n, n_times))
        self.trend_square = np.zeros((n, n_times), dtype=np.float32)
        self.trend_cross = np.zeros((n, n_times, n_covariates), dtype=np.float32)
        self.beta_mean = np.zeros((n, n_covariates))

    # ------------------------------------------------------------------ drawing

    def draw(self, chain: Chain, rng: np.random.Generator) -> None:
        """Draw all of it given the assignments; at the start, factors and states only.

        Parameters that moved before the assignments first had would fit the starting labels,
        at random perhaps, and loadings near zero would hold the chain there.
        """
        moving = self.moving if self.n_done else NOTHING
        if self.n_done < SETTLING:
            moving = moving._replace(common=False)
        self.n_done += 1
        model, parameters, z, counts = chain.model, chain.parameters, chain.z, chain.counts
        own = model.own
        if self.joint:
            self._draw_jointly(model, parameters, z, counts, moving, rng)
        elif self.approximate:
            self._refresh(model, parameters, z, NOTHING, rng)
            self._draw_given_states(model, parameters, rng)
        if moving.var_x and not self.joint:
            x = np.empty(model.cells.y.shape[1] + 1)
            self._run(rescale_own_noise, model, z, parameters, self.priors, x, rng)
        self._refresh(model, parameters, z, moving, rng)
        per_slot = np.empty(counts.size)
        if moving.a:
            self._run(
                shift_autoregressions, own.a, own.var_x[0], z, self.sums, own.population,
                self.priors.a, per_slot, rng,
            )  # fmt: skip
        self._draw_given_states(model, parameters, rng)
        if moving.loading:
            self._run(
                rescale_factors, own.loading, z, parameters, self.sums, own.population,
                self.priors.loading, per_slot, rng,
            )  # fmt: skip

    def _draw_jointly(
        self,
        model: FactorSeries,
        parameters: FactorPaths,
        z: np.ndarray,
        counts: np.ndarray,
        moving: Moving,
        rng: np.random.Generator,
    ) -> None:
        """Move what all series share, then draw factors and coefficients; states are out.

        Factors and coefficients are integrated out of all steps (`AdaptiveMetropolis`). The means
        of the coefficients are integrated out of those of the beginning too, and then drawn.
        """
        n_times, p = model.cells.y.shape[1], model.own.beta.shape[1]
        c = self._coefficients(model, moving)
        matrices, tried = self.matrices
        eta = np.empty(n_times)
        nothing = mean_equations(0, n_times)
        prior = self.priors.beta_mean, self.priors.beta_precision

        def density(room: np.ndarray, equations: MeanEquations = nothing) -> float:
            given = model, z, counts, c, equations, room, self.batch
            return float(self._run(marginal_likelihood, *given))

        def there() -> float:
            return density(tried)

        def draw_factors() -> None:
            nonlocal c
            given = (parameters, c, nothing, matrices, self.batch, eta, rng)
            if not math.isfinite(self._run(draw_factors_jointly, model, z, counts, *given)):
                c = given[1]._replace(free=False)
                self._run(draw_factors_jointly, model, z, counts, parameters, c, *given[2:])
            self._run(draw_all_coefficients, model, z, parameters, c, moving.loading, rng)

        if model.own.common.size:
            # Labels were drawn with the clusters' factors integrated out: these come first.
            draw_factors()
            room = matrices[0], self.batch.columns[0]
            self._run(draw_common_jointly, model, z, parameters, *room, rng)
        fresh = len(matrices) == counts.size  # whether all matrices can be kept
        equations = mean_equations(p if c.free else 0, n_times, len(matrices))
        before = density(matrices, equations)
        if c.free and not math.isfinite(before):
            # Series that know their factor to the last digit leave none to take levels out with:
            # these are then drawn given the factors, and factors given these.
            c = c._replace(free=False)
            before = density(matrices)
        gain = self._run(log_without_means, c, equations, *prior) if c.free else -math.inf
        if math.isfinite(gain):  # it fails by rounding alone
            latest = before, equations

            def without_means() -> float:
                nonlocal latest
                found = mean_equations(p, n_times, len(tried))
                latest = density(tried, found), found
                return latest[0] + float(self._run(log_without_means, c, found, *prior))

            ways = self.beginning.directions(moving, levels=p > model.cells.covariates.shape[2])
            for _ in range(self.beginning.tries() if ways else 0):
                own = model.own, self.hyper[1], ways
                accepted, _ = self.beginning.attempt(*own, before + gain, without_means, rng)
                if accepted:
                    before, equations = latest
                    gain = self._run(log_without_means, c, equations, *prior)
                    matrices, tried = tried, matrices
            old = c.centre.copy()
            before += draw_means(c, equations, *prior, rng)
            matrices[:, n_times, :n_times] += (c.centre - old) @ equations.slopes
        for steps in (self.dynamics, self.own_noise):
            ways = steps.directions(moving)
            for _ in range(steps.tries() if ways else 0):
                own = model.own, self.hyper[1], ways
                accepted, before = steps.attempt(*own, before, there, rng)
                if accepted:
                    matrices, tried = tried, matrices
        if fresh and math.isfinite(before):
            self._run(draw_factorized, counts, parameters, matrices, eta, rng)
            self._run(draw_all_coefficients, model, z, parameters, c, moving.loading, rng)
        else:
            draw_factors()

    def _coefficients(self, model: FactorSeries, moving: Moving) -> Coefficients:
        return coefficients(self.hyper, free=moving.beta)

    def _draw_given_states(
        self, model: FactorSeries, parameters: FactorPaths, rng: np.random.Generator
    ) -> None:
        """Draw all factors given the states: the common one without those of the clusters first."""
        if model.own.common.size:
            self._run(draw_common_given_states, model, self.sums, rng)
        self._run(draw_factors_given_states, model.own.var_x[0], parameters, self.sums, rng)

    def _refresh(
        self,
        model: FactorSeries,
        parameters: FactorPaths,
        z: np.ndarray,
        moving: Moving,
        rng: np.random.Generator,
    ) -> None:
        c = self._coefficients(model, moving)
        self._run(
            refresh_series, model, z, parameters, c, self.priors, moving,
            np.empty(model.cells.y.shape[1] + 1), self.last, self.states, self.sums, rng,
        )  # fmt: skip
        if model.own.tails.size:
            self.gain[0] = draw_noise_weights(model, self.n_cells, self.learn_df, rng)

    def grow(self, chain: Chain, start: int, rng: np.random.Generator) -> None:
        """Make room for more clusters."""
        self._make_room(chain.model)

    def _make_room(self, model: FactorSeries) -> None:
        n_times, n_slots = model.cells.y.shape[1], model.scratch.lanes.shape[1]
        common = bool(model.own.common.size)
        self.sums: StateSums = state_sums(n_times, n_slots, common=common)
        n_kept = n_slots if n_slots * n_times * n_times <= _ROOM else 1
        # One set for the parameters as they are, one for those that are tried.
        self.matrices = information_matrix(n_times if self.joint else 1, 2, n_kept)
        n, p = model.own.beta.shape
        self.batch = series_batch(n, n_times if self.joint else 1, p)

    # ------------------------------------------------------------------ densities and records

    def log_density(self, chain: Chain) -> float:
        """Return the log density of the parameters that move."""
        total = self._log_prior(chain.model.own)
        if self.moving.beta:
            total += log_normal(chain.model.own.beta, self.hyper[0], 1.0 / self.hyper[1])
        if chain.model.own.tails.size:
            total += log_density_of_weights(chain.model)
        return total

    def log_collapsed(self, chain: Chain) -> float | None:
        """Return the log density of data and parameters, all else integrated out, where joint.

        The weights are by one draw of them: exact for Gaussian noise, for Student-t noise on
        average (`cavity.series.parameters`).
        """
        if not self.joint:
            return None
        model, z, counts = chain.model, chain.z, chain.counts
        n_times = model.cells.y.shape[1]
        matrices = self.matrices[0]
        given = mean_equations(0, n_times), matrices, self.batch
        c = self._coefficients(model, self.moving)
        total = self._run(marginal_likelihood, model, z, counts, c, *given)
        if c.free and not math.isfinite(total):
            held = c._replace(free=False)
            total = self._run(marginal_likelihood, model, z, counts, held, *given)
            total += log_normal(model.own.beta, self.hyper[0], 1.0 / self.hyper[1])
        total += self._run(all_constants, model)
        return float(total + self._log_prior(model.own) + self.gain[0])

    def _log_prior(self, own: SeriesParameters) -> float:
        """Return the log prior density of all but coefficients and weights of cells."""
        total = log_prior_of_series(own, self.hyper, self.priors, self.moving)
        return total + log_density_of_df(own.df[0]) if self.learn_df else total

    def record(self, chain: Chain) -> dict[str, np.ndarray]:
        """Parameters of a kept draw, in the model's units; the many in single precision."""
        model = chain.model
        own = model.own
        out = {
            "factor": chain.parameters.value.T.astype(np.float32),
            "a": own.a.astype(np.float32),
            "loading": own.loading.astype(np.float32),
            "var_y": own.var_y.astype(np.float32),
            "var_x": own.var_x[0].copy(),
            "var_x0": own.var_x0[0].copy(),
            "state_last": self.last.copy(),
        }
        if self.learn_df:
            out["df"] = own.df[0].copy()
        if own.beta.shape[1]:
            out["beta"] = own.beta.copy()
            out["beta_mean"] = self.hyper[0].copy()
            out["beta_var"] = self.hyper[1].copy()
        if own.beta.shape[1] > model.cells.covariates.shape[2]:
            # For the diagnostics: the mean level mixes slowly with slow factors.
            out["intercept_mean"] = self.hyper[0, 0].copy()
        if self.states.size:
            has_intercept = own.beta.shape[1] > model.cells.covariates.shape[2]
            level = own.beta[:, :1] if has_intercept else 0.0
            out["trend"] = self.states + level
        return out

    def keep(self, chain: Chain) -> None:
        """Add the current draw to the running moments of the trends."""
        self._run(
            summarize_trends, chain.model, chain.z, chain.parameters, self.n_kept, self.trend_mean,
            self.trend_square, self.trend_cross, self.beta_mean,
        )  # fmt: skip
        self.n_kept += 1

    def summaries(self) -> dict[str, np.ndarray]:
        """Running moments of the trends."""
        return {
            "n_kept": np.array(self.n_kept),
            "trend_mean": self.trend_mean,
            "trend_square": self.trend_square,
            "trend_cross": self.trend_cross,
            "beta_mean": self.beta_mean,
        }

    def forget(self) -> None:
        """Begin new running moments."""
        self.n_kept = 0
        for moments in (self.trend_mean, self.trend_square, self.trend_cross, self.beta_mean):
            moments[:] = 0.0

    # ------------------------------------------------------------------ checkpoints

    def arrays(self) -> dict[str, np.ndarray]:
        """Copies of everything that changes."""
        return {name: getattr(self, name).copy() for name in _CHANGING} | {
            **{
                f"{block}.{name}": values
                for block in _BLOCKS
                for name, values in getattr(self, block).arrays().items()
            },
            "progress": np.array([self.n_kept, self.n_done]),
        }

    def restore(self, arrays: Mapping[str, np.ndarray], chain: Chain) -> None:
        """Continue from ``arrays``."""
        for name in _CHANGING:
            setattr(self, name, fitting(saved_array(arrays, name), getattr(self, name), name))
        for block in _BLOCKS:
            getattr(self, block).restore(below(arrays, f"{block}."))
        progress = fitting(saved_array(arrays, "progress"), np.zeros(2, dtype=int), "progress")
        self.n_kept, self.n_done = int(progress[0]), int(progress[1])
        self._make_room(chain.model)


_BLOCKS = ("dynamics", "own_noise", "beginning")
_CHANGING = (
    "hyper", "gain", "last", "states", "trend_mean", "trend_square", "trend_cross", "beta_mean",
)  # fmt: skip
