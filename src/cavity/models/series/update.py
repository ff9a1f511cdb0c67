"""Draws everything but the assignments, after each scan, whatever the collapse."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from cavity.core.arrays import fitting, saved_array
from cavity.models.series.draws import LEAST_VARIANCE, MOST_VARIANCE, NOTHING, Moving, SeriesPriors
from cavity.models.series.information import information_matrix
from cavity.models.series.likelihood import FactorPaths
from cavity.models.series.moves import (
    StateSums,
    rescale_factors,
    rescale_own_noise,
    shift_autoregressions,
    state_sums,
)
from cavity.models.series.refresh import (
    draw_factors_given_states,
    draw_factors_jointly,
    marginal_likelihood,
    refresh_series,
    summarise_trends,
)
from cavity.models.series.state import FactorSeries, SeriesParameters
from cavity.updates import LIKELIHOOD, Chain, Update

_TUNED = 100  # sweeps in which the step size adapts


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
    ) -> None:
        n, n_times = model.cells.y.shape
        self.priors = priors
        self.moving = moving
        self.joint = joint
        self.approximate = approximate
        self.hyper = np.array(hyper, dtype=float)
        self.started = False
        self.tuning = np.array([0.2, 0.0])  # step size of log var_x; steps it was adapted in
        self.last = np.zeros(n)
        self.states = np.zeros((n, n_times) if keep_trends else (0, 0), dtype=np.float32)
        self.sums: StateSums = state_sums(n_times, model.scratch.lanes.shape[1])
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
        moving = self.moving if self.started else NOTHING
        self.started = True
        model, parameters, z, counts = chain.model, chain.parameters, chain.z, chain.counts
        own = model.own
        if self.joint:
            self._draw_jointly(model, parameters, z, counts, moving, rng)
        elif self.approximate:
            self._refresh(model, parameters, z, NOTHING, rng)
            draw_factors_given_states(own.var_x[0], parameters, self.sums, rng)
        if moving.var_x:
            x = np.empty(model.cells.y.shape[1] + 1)
            rescale_own_noise(model, z, parameters, self.priors, x, rng)
        self._refresh(model, parameters, z, moving, rng)
        per_slot = np.empty(counts.size)
        if moving.a:
            shift_autoregressions(own.a, own.var_x[0], z, self.sums, self.priors, per_slot, rng)
        draw_factors_given_states(own.var_x[0], parameters, self.sums, rng)
        if moving.loading:
            rescale_factors(own.loading, z, parameters, self.sums, self.priors, per_slot, rng)

    def _draw_jointly(
        self,
        model: FactorSeries,
        parameters: FactorPaths,
        z: np.ndarray,
        counts: np.ndarray,
        moving: Moving,
        rng: np.random.Generator,
    ) -> None:
        """Draw var_x with factors and states integrated out, and the factors given it.

        var_x by one Metropolis step on its logarithm: given states or factors it hardly moves.
        """
        n_times = model.cells.y.shape[1]
        matrix = information_matrix(n_times)
        products = np.empty(matrix.shape[1])

        def draw_factors() -> float:
            return draw_factors_jointly(
                model, z, counts, parameters, matrix, products, np.empty(n_times), rng
            )

        before = draw_factors()
        if not moving.var_x:
            return
        old = model.own.var_x[0]
        step = self.tuning[0] * rng.standard_normal()
        accepted = False
        if math.log(LEAST_VARIANCE / old) <= step <= math.log(MOST_VARIANCE / old):
            model.own.var_x[0] = old * math.exp(step)
            after = marginal_likelihood(model, z, counts, matrix, products)
            shape, scale = self.priors.var_x_shape, self.priors.var_x_scale
            gain = after - before - shape * step
            gain -= scale * (1.0 / model.own.var_x[0] - 1.0 / old)
            accepted = math.log1p(-rng.random()) < gain
        if accepted:
            draw_factors()
        else:
            model.own.var_x[0] = old
        if self.tuning[1] < _TUNED:
            # Step size towards an acceptance of 0.44; fixed once the chain has warmed up.
            self.tuning[1] += 1.0
            self.tuning[0] *= math.exp((accepted - 0.44) / math.sqrt(self.tuning[1]))

    def _refresh(
        self,
        model: FactorSeries,
        parameters: FactorPaths,
        z: np.ndarray,
        moving: Moving,
        rng: np.random.Generator,
    ) -> None:
        p = model.own.beta.shape[1]
        refresh_series(
            model, z, parameters, self.hyper, self.priors, moving,
            np.empty(model.cells.y.shape[1] + 1), np.empty((p + 3, p + 1)), self.last, self.states,
            self.sums, rng,
        )  # fmt: skip

    def grow(self, chain: Chain, start: int, rng: np.random.Generator) -> None:
        """Make room for more clusters."""
        self._make_room(chain.model)

    def _make_room(self, model: FactorSeries) -> None:
        self.sums = state_sums(model.cells.y.shape[1], model.scratch.lanes.shape[1])

    # ------------------------------------------------------------------ what a draw says

    def log_density(self, chain: Chain) -> float:
        """Of the parameters that move."""
        return log_prior_of_series(chain.model.own, self.hyper, self.priors, self.moving)

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
            "state_last": self.last.copy(),
        }
        if own.beta.shape[1]:
            out["beta"] = own.beta.copy()
            out["beta_mean"] = self.hyper[0].copy()
            out["beta_var"] = self.hyper[1].copy()
        if self.states.size:
            has_intercept = own.beta.shape[1] > model.cells.covariates.shape[2]
            level = own.beta[:, :1] if has_intercept else 0.0
            out["trend"] = self.states + level
        return out

    def keep(self, chain: Chain) -> None:
        """Add the current draw to the running moments of the trends."""
        summarise_trends(
            chain.model, chain.z, chain.parameters, self.n_kept, self.trend_mean,
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
            "progress": np.array([self.n_kept, self.started])
        }

    def restore(self, arrays: Mapping[str, np.ndarray], chain: Chain) -> None:
        """Continue from ``arrays``."""
        for name in _CHANGING:
            setattr(self, name, fitting(saved_array(arrays, name), getattr(self, name), name))
        progress = fitting(saved_array(arrays, "progress"), np.zeros(2, dtype=int), "progress")
        self.n_kept, self.started = int(progress[0]), bool(progress[1])
        self._make_room(chain.model)


_CHANGING = (
    "hyper",
    "tuning",
    "last",
    "states",
    "trend_mean",
    "trend_square",
    "trend_cross",
    "beta_mean",
)


def _log_inverse_gamma(v: np.ndarray, shape: Any, scale: Any) -> float:
    from scipy.special import gammaln

    v, shape, scale = np.broadcast_arrays(v, shape, scale)
    terms = shape * np.log(scale) - gammaln(shape) - (shape + 1) * np.log(v) - scale / v
    return float(terms.sum())


def _log_normal(x: np.ndarray, mean: Any, precision: Any) -> float:
    x, mean, precision = np.broadcast_arrays(x, mean, precision)
    terms = 0.5 * np.log(precision / (2 * math.pi)) - 0.5 * precision * (x - mean) ** 2
    return float(terms.sum())


def _log_mass(low: float, high: float) -> float:
    """Logarithm of a standard normal's probability between two ends, however far out they are."""
    from scipy.special import log_ndtr

    if low > 0.0:
        low, high = -high, -low
    top = log_ndtr(high)
    return float(top + np.log(-np.expm1(log_ndtr(low) - top)))


def log_prior_of_series(
    own: SeriesParameters, hyper: np.ndarray, prior: SeriesPriors, moving: Moving
) -> float:
    """Log prior density of the parameters that move."""
    total = 0.0
    if moving.a:
        if prior.a_precision > 0:
            root = math.sqrt(prior.a_precision)
            log_mass = _log_mass((-1 - prior.a_mean) * root, (1 - prior.a_mean) * root)
            total += _log_normal(own.a, prior.a_mean, prior.a_precision)
            total -= own.a.size * log_mass
        else:
            total -= own.a.size * math.log(2.0)
    if moving.loading:
        total += _log_normal(own.loading, prior.loading_mean, prior.loading_precision)
    if moving.var_x:
        total += _log_inverse_gamma(own.var_x, prior.var_x_shape, prior.var_x_scale)
    if moving.var_y:
        total += _log_inverse_gamma(own.var_y, prior.var_y_shape, prior.var_y_scale)
    if moving.beta and own.beta.shape[1]:
        total += _log_normal(own.beta, hyper[0], 1.0 / hyper[1])
        total += _log_normal(hyper[0], prior.beta_mean, prior.beta_precision)
        total += _log_inverse_gamma(hyper[1], prior.beta_shape, prior.beta_scale)
    return total
