"""One chain of the series model: the framework's sweep, then the model's own draws."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from cavity._jit import compiled
from cavity.collapse import ep as ep_collapse
from cavity.collapse.naive import naive_state
from cavity.models.factor_series import factor_family, factor_paths
from cavity.models.series import exact
from cavity.models.series.draws import Moving, SeriesPriors
from cavity.models.series.moves import (
    rescale_factors,
    rescale_own_noise,
    shift_autoregressions,
    state_sums,
)
from cavity.models.series.refresh import (
    draw_factors_given_states,
    draw_factors_jointly,
    refresh_series,
    summarise_trends,
    total_log_likelihood,
)
from cavity.models.series.state import FactorSeries, padded
from cavity.priors import (
    Dirichlet,
    FixedWeights,
    PartitionPrior,
    is_open,
    update_concentration,
)
from cavity.sampling.sweep import sweep
from cavity.verbs import log_prior

COLLAPSES = ("ep", "collapsed", "naive")
DRAWS = ("auto", "joint", "alternate")

# Longest series whose factors are drawn jointly by default: see docs/series.md for the figures.
LONGEST_JOINT = 1000


class Settings(NamedTuple):
    """How a chain runs, beside data, priors and starting values."""

    collapse: str = "ep"
    draw: str = "auto"
    route: str = "auto"
    moving: Moving = Moving(True, True, True, True, True)
    concentration_prior: tuple[float, float] | None = None
    passes: int = 0
    pass_every: int = 1
    fraction: float = 1.0
    damping: float = 1.0
    keep_trends: bool = False


def _log_prior_kernel(prior, counts):
    return log_prior(prior, counts)


def draws_jointly(draw: str, n_times: int, collapse: str) -> bool:
    """Whether factors and states are drawn as one block."""
    if collapse == "collapsed":
        # The scan integrates both out: only a joint draw leaves the posterior invariant.
        return True
    return draw == "joint" or (draw == "auto" and n_times <= LONGEST_JOINT)


class SeriesSampler:
    """A chain over assignments, factors and parameters of the series model.

    Parameters
    ----------
    model : FactorSeries
        Data and starting values. The parameters are copied, the data are shared.
    labels : array of int
        Starting assignments.
    prior : partition prior
        Over at least ``max(labels) + 1`` slots.
    priors : SeriesPriors
    hyper : (2, p) array
        Starting hyper-means and hyper-variances of the regression coefficients.
    settings : Settings
    rng : numpy.random.Generator
        Used for the start only.
    """

    def __init__(
        self,
        model: FactorSeries,
        labels: np.ndarray,
        prior: PartitionPrior,
        priors: SeriesPriors,
        hyper: np.ndarray,
        settings: Settings,
        rng: np.random.Generator,
    ) -> None:
        n, n_times = model.y.shape
        self.settings = settings
        self.joint = draws_jointly(settings.draw, n_times, settings.collapse)
        self.priors = priors
        self.hyper = np.array(hyper, dtype=float)
        self._z = np.array(labels, dtype=np.int64)
        self._order = np.arange(n)
        n_slots = self._slots_of(prior, int(self._z.max(initial=-1)) + 1)
        self.prior = padded_prior(prior, n_slots)
        self._counts = np.bincount(self._z, minlength=n_slots)
        own = {name: getattr(model, name).copy() for name in _OWN}
        self.model = model._replace(
            **own, row=np.zeros_like(model.row), lanes=np.zeros(5 * n_slots)
        )
        self._last = np.zeros(n)
        self._n_kept = 0
        n_covariates = model.covariates.shape[2]
        self._trend_mean = np.zeros((n, n_times), dtype=np.float32)
        self._trend_square = np.zeros((n, n_times), dtype=np.float32)
        self._trend_cross = np.zeros((n, n_times, n_covariates), dtype=np.float32)
        self._beta_mean = np.zeros((n, n_covariates))
        self._states = np.zeros((n, n_times) if settings.keep_trends else (0, 0), dtype=np.float32)
        self._n_sweeps = 0
        self._staleness = math.nan
        self.cluster_parameters: tuple[str, ...] = ("factor",)
        self._make_slots(n_slots)
        self._start(rng)

    # ------------------------------------------------------------------ slots

    @staticmethod
    def _slots_of(prior: PartitionPrior, n_used: int) -> int:
        if isinstance(prior, FixedWeights):
            return padded(max(len(prior.weights), n_used))
        if isinstance(prior, Dirichlet):
            return padded(max(len(prior.shape), n_used))
        return padded(n_used + 1)

    def _make_slots(self, n_slots: int) -> None:
        """Arrays that have one entry per slot, empty."""
        n, n_times = self.model.y.shape
        self.n_slots = n_slots
        self.model = self.model._replace(lanes=np.zeros(5 * n_slots))
        self._weights = np.zeros(n_slots)
        self._paths = factor_paths(n_times, n_slots)
        self._sums = state_sums(n_times, n_slots)
        s = self.settings
        self._collapse: Any
        if s.collapse == "ep":
            family = factor_family(n_times, n_slots)
            # Half the memory of double precision; the cluster's own sum stays double.
            self._collapse = ep_collapse.ep_state(
                self.model, family, n, s.fraction, s.damping, site_type=np.float32
            )
        elif s.collapse == "collapsed":
            self._collapse = exact.exact_state(self.model, self._z, n_slots, s.route)
        else:
            self._collapse = naive_state(self.model, self._paths, n_slots)

    def _grow(self) -> None:
        """Double the room for clusters, keeping what the occupied slots hold."""
        old, n_old = self._collapse, self.n_slots
        paths = self._paths
        self._counts = np.concatenate([self._counts, np.zeros(n_old, dtype=self._counts.dtype)])
        self._make_slots(2 * n_old)
        self._paths.value[:, :n_old] = paths.value
        if self.settings.collapse == "ep":
            new = self._collapse
            new.sites[:] = old.sites
            new.counters[:] = old.counters
            new.family.natural[:n_old] = old.family.natural
            new.family.mean[:, :n_old] = old.family.mean
            new.family.variance[:, :n_old] = old.family.variance
        elif self.settings.collapse == "collapsed":
            exact.rebuild(self._collapse)

    # ------------------------------------------------------------------ running

    def _start(self, rng: np.random.Generator) -> None:
        order = rng.permutation(len(self._z))
        if self.settings.collapse == "ep":
            compiled(ep_collapse.insert_all, self._collapse)(self._collapse, self._z, order)
        elif self.settings.collapse == "collapsed":
            exact.rebuild(self._collapse)
        if self.joint:
            self._draw_joint_factors(rng)
        elif self.settings.collapse == "ep":
            self._draw_approximate_factors(rng)
        else:
            self._paths.value[:] = rng.standard_normal(self._paths.value.shape)

    def _draw_joint_factors(self, rng: np.random.Generator) -> None:
        n_times = self.model.y.shape[1]
        # Scratch of T^2, made when needed: it would be idle while the scan runs.
        matrix = np.empty((n_times + 1, n_times + 1))
        draw_factors_jointly(
            self.model, self._z, self._counts, self._paths, matrix, np.empty(n_times),
            np.empty(n_times), rng,
        )  # fmt: skip

    def _draw_approximate_factors(self, rng: np.random.Generator) -> None:
        """Factors from EP's approximation: where alternation starts after each scan."""
        q = self._collapse.family
        noise = rng.standard_normal(q.mean.shape)
        self._paths.value[:] = q.mean + np.sqrt(q.variance) * noise

    def _refresh_series(self, moving: Moving, rng: np.random.Generator) -> None:
        p = self.model.beta.shape[1]
        refresh_series(
            self.model, self._z, self._paths, self.hyper, self.priors, moving,
            np.empty(self.model.y.shape[1] + 1), np.empty((p + 3, p + 1)), self._last,
            self._states, self._sums, rng,
        )  # fmt: skip

    def sweep(self, rng: np.random.Generator) -> None:
        """One scan over all assignments, then one draw of everything else."""
        self.scan(rng)
        self.refresh(rng)
        self._n_sweeps += 1

    def scan(self, rng: np.random.Generator) -> None:
        """Draw every assignment once."""
        done = 0
        n = len(self._z)
        while done < n:
            run = compiled(sweep, (self._collapse, self.prior))
            done = run(
                self._collapse, self.prior, self._z, self._counts, self._order, self._weights,
                done, rng,
            )  # fmt: skip
            if done < n:
                self._grow()

    def refresh(self, rng: np.random.Generator) -> None:
        """Draw factors, states, parameters and concentration given the assignments."""
        m, moving = self.model, self.settings.moving
        if self.joint:
            self._draw_joint_factors(rng)
        elif self.settings.collapse == "ep":
            self._draw_approximate_factors(rng)
            # One round of alternation leads from the approximation towards the posterior.
            self._refresh_series(Moving(False, False, False, False, False), rng)
            draw_factors_given_states(m.var_x[0], self._paths, self._sums, rng)
        if moving.var_x:
            x = np.empty(m.y.shape[1] + 1)
            rescale_own_noise(m, self._z, self._paths, self.priors, x, rng)
        self._refresh_series(moving, rng)
        if moving.a:
            shifts = np.empty(self.n_slots)
            shift_autoregressions(m.a, m.var_x[0], self._z, self._sums, self.priors, shifts, rng)
        draw_factors_given_states(m.var_x[0], self._paths, self._sums, rng)
        if moving.loading:
            scales = np.empty(self.n_slots)
            rescale_factors(m.loading, self._z, self._paths, self._sums, self.priors, scales, rng)
        if self.settings.concentration_prior is not None:
            shape, rate = self.settings.concentration_prior
            compiled(update_concentration, self.prior)(self.prior, self._counts, shape, rate, rng)
        self._after_parameters()

    def _after_parameters(self) -> None:
        """Bring the collapse up to date with new parameters."""
        s = self.settings
        if s.collapse == "collapsed":
            exact.rebuild(self._collapse)
        elif s.collapse == "ep":
            state = self._collapse
            compiled(ep_collapse.rebuild, state)(state, self._z)
            if s.passes and (self._n_sweeps + 1) % s.pass_every == 0:
                self._full_passes(s.passes)

    def _full_passes(self, n_passes: int, tolerance: float = 1e-6) -> None:
        state = self._collapse
        before = state._replace(
            family=state.family._replace(
                natural=state.family.natural.copy(),
                mean=state.family.mean.copy(),
                variance=state.family.variance.copy(),
            )
        )
        for _ in range(n_passes):
            change = compiled(ep_collapse.full_pass, state)(
                state, self._z, self._counts, self._order
            )
            if change < tolerance:
                break
        self._staleness = float(compiled(ep_collapse.staleness, state)(before, state, self._counts))

    # ------------------------------------------------------------------ the runner's protocol

    def labels(self) -> np.ndarray:
        """Current assignments."""
        return self._z.copy()

    def log_likelihood(self) -> float:
        """Log density of the data given assignments, factors and parameters."""
        return float(total_log_likelihood(self.model, self._z, self._paths))

    def log_joint(self) -> float:
        """Log density of data, assignments, factors of occupied clusters and parameters."""
        occupied = self._paths.value[:, np.flatnonzero(self._counts)]
        total = self.log_likelihood()
        total -= 0.5 * float((occupied**2).sum()) + 0.5 * occupied.size * math.log(2 * math.pi)
        total += float(compiled(_log_prior_kernel, self.prior)(self.prior, self._counts))
        return total + log_prior_of_parameters(
            self.model, self.hyper, self.priors, self.settings.moving
        )

    def record(self) -> dict[str, np.ndarray]:
        """Quantities of one kept draw, in the model's units."""
        m = self.model
        factor = np.where(self._counts > 0, self._paths.value, np.nan).T.astype(np.float32)
        out = {
            "a": m.a.astype(np.float32),
            "loading": m.loading.astype(np.float32),
            "var_y": m.var_y.astype(np.float32),
            "var_x": m.var_x.copy(),
            "state_last": self._last.astype(np.float32),
            "factor": factor[: self._n_recorded()],
            "log_likelihood": np.array([self.log_likelihood()]),
        }
        if m.beta.shape[1]:
            out["beta"] = m.beta.astype(np.float32)
            out["beta_mean"] = self.hyper[0].copy()
            out["beta_var"] = self.hyper[1].copy()
        if hasattr(self.prior, "concentration"):
            out["concentration"] = self.prior.concentration.copy()
        if self.settings.keep_trends:
            first = m.beta.shape[1] - m.covariates.shape[2]
            level = m.beta[:, :1] if first else 0.0
            out["trend"] = (self._states + level).astype(np.float32)
        return out

    def _n_recorded(self) -> int:
        """Slots that may ever be used: padding of a closed prior never is."""
        if isinstance(self.prior, Dirichlet):
            return int(np.flatnonzero(self.prior.shape).max()) + 1
        if isinstance(self.prior, FixedWeights):
            return int(np.flatnonzero(self.prior.weights).max()) + 1
        return self.n_slots

    def keep(self) -> None:
        """Add this draw to the running summary of the trends."""
        summarise_trends(
            self.model, self._z, self._paths, self._n_kept, self._trend_mean,
            self._trend_square, self._trend_cross, self._beta_mean,
        )  # fmt: skip
        self._n_kept += 1

    def events(self) -> dict[str, float]:
        """Counters of the approximation."""
        if self.settings.collapse != "ep":
            return {}
        updates, invalid, refitted, limited = (int(c) for c in self._collapse.counters)
        return {
            "updates": updates,
            "invalid_cavities": invalid,
            "refits": refitted,
            "limited": limited,
            "staleness_kl": self._staleness,
        }

    def _arrays(self) -> dict[str, np.ndarray]:
        """Every array that changes while the chain runs."""
        arrays = {name: getattr(self.model, name) for name in _OWN}
        arrays |= {
            "hyper": self.hyper,
            "z": self._z,
            "order": self._order,
            "counts": self._counts,
            "paths": self._paths.value,
            "last": self._last,
            "states": self._states,
            "trend_mean": self._trend_mean,
            "trend_square": self._trend_square,
            "trend_cross": self._trend_cross,
            "trend_beta": self._beta_mean,
        }
        if hasattr(self.prior, "concentration"):
            arrays["concentration"] = self.prior.concentration
        if self.settings.collapse == "ep":
            arrays["sites"] = self._collapse.sites
            arrays["natural"] = self._collapse.family.natural
            arrays["mean"] = self._collapse.family.mean
            arrays["variance"] = self._collapse.family.variance
            arrays["counters"] = self._collapse.counters
        elif self.settings.collapse == "collapsed":
            arrays["information"] = self._collapse.information
            arrays["evidence"] = self._collapse.evidence
            arrays["constant"] = self._collapse.constant
        return arrays

    def state(self) -> dict[str, np.ndarray]:
        """Everything needed to continue bit for bit."""
        numbers = np.array([self._n_kept, self._n_sweeps, self._staleness])
        return {name: array.copy() for name, array in self._arrays().items()} | {"numbers": numbers}

    def restore(self, state: Mapping[str, np.ndarray]) -> None:
        """Continue from a state that ``state`` gave."""
        n_slots = len(state["counts"])
        if n_slots != self.n_slots:
            self._counts = np.zeros(n_slots, dtype=self._counts.dtype)
            self._make_slots(n_slots)
        for name, array in self._arrays().items():
            array[...] = state[name]
        self._n_kept = int(state["numbers"][0])
        self._n_sweeps = int(state["numbers"][1])
        self._staleness = float(state["numbers"][2])

    # ------------------------------------------------------------------ summaries

    def trend_moments(self) -> dict[str, np.ndarray]:
        """Posterior mean and variance of each trend so far, and covariance with coefficients."""
        n = max(self._n_kept, 1)
        return {
            "mean": self._trend_mean,
            "variance": self._trend_square / n,
            "cross": self._trend_cross / n,
            "beta_mean": self._beta_mean,
            "n": np.array(self._n_kept),
        }


_OWN = ("a", "loading", "var_y", "beta", "var_x")


def padded_prior(prior: PartitionPrior, n_slots: int) -> PartitionPrior:
    """A chain's own copy of a prior, with weight zero for slots that only fill vectors."""
    if isinstance(prior, FixedWeights):
        weights = np.zeros(n_slots)
        weights[: len(prior.weights)] = prior.weights
        return FixedWeights(weights)
    if isinstance(prior, Dirichlet):
        shape = np.zeros(n_slots)
        shape[: len(prior.shape)] = prior.shape
        return Dirichlet(shape, prior.concentration.copy())
    assert is_open(prior)
    return type(prior)(*(np.array(field) for field in prior))


def _log_inverse_gamma(v: np.ndarray, shape: Any, scale: Any) -> float:
    from scipy.special import gammaln

    v, shape, scale = np.broadcast_arrays(v, shape, scale)
    terms = shape * np.log(scale) - gammaln(shape) - (shape + 1) * np.log(v) - scale / v
    return float(terms.sum())


def _log_normal(x: np.ndarray, mean: Any, precision: Any) -> float:
    x, mean, precision = np.broadcast_arrays(x, mean, precision)
    terms = 0.5 * np.log(precision / (2 * math.pi)) - 0.5 * precision * (x - mean) ** 2
    return float(terms.sum())


def log_prior_of_parameters(
    m: FactorSeries, hyper: np.ndarray, prior: SeriesPriors, moving: Moving
) -> float:
    """Log prior density of the parameters that move."""
    from scipy.special import ndtr

    total = 0.0
    if moving.a:
        if prior.a_precision > 0:
            root = math.sqrt(prior.a_precision)
            mass = ndtr((1 - prior.a_mean) * root) - ndtr((-1 - prior.a_mean) * root)
            total += _log_normal(m.a, prior.a_mean, prior.a_precision) - m.a.size * math.log(mass)
        else:
            total -= m.a.size * math.log(2.0)
    if moving.loading:
        total += _log_normal(m.loading, prior.loading_mean, prior.loading_precision)
    if moving.var_x:
        total += _log_inverse_gamma(m.var_x, prior.var_x_shape, prior.var_x_scale)
    if moving.var_y:
        total += _log_inverse_gamma(m.var_y, prior.var_y_shape, prior.var_y_scale)
    if moving.beta and m.beta.shape[1]:
        total += _log_normal(m.beta, hyper[0], 1.0 / hyper[1])
        total += _log_normal(hyper[0], prior.beta_mean, prior.beta_precision)
        total += _log_inverse_gamma(hyper[1], prior.beta_shape, prior.beta_scale)
    return total
