"""Metropolis steps of what all series share, with factors, states and coefficients integrated out.

Three directions, taken together, since none of them moves far alone:

* the logarithm of var_x;
* a shift of all artanh(a_i), with that of the mean of their population if it is learned, and its
  spread in proportion: near a unit root it is the distances from 1 that change alike, and no step
  leads beyond;
* the spread of all a_i about that mean, theirs and the population's, if it is learned: the a_i
  in units of their spread are held, not the a_i, which would hold it in turn.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from cavity.models.series.densities import log_mass
from cavity.models.series.draws import LEAST_VARIANCE, MOST_VARIANCE, Moving, SeriesPriors
from cavity.models.series.state import A_MEAN, A_PRECISION, SeriesParameters

VAR_X, SHIFT, SPREAD = 0, 1, 2
_TUNED = 300  # tries in which a step size adapts
_MEASURED = (60, 160)  # tries at which its metric is measured
_WANTED = {1: 0.44, 2: 0.35, 3: 0.31}  # acceptance that is best, by the number of directions


class SharedSteps:
    """Steps whose size and directions adapt while the chain warms up.

    Attributes
    ----------
    tuning : (2,) array
        Scale of the steps, and number of tries.
    metric : (3, 3) array
        Steps of the three directions per unit step.
    """

    def __init__(self, priors: SeriesPriors) -> None:
        self.priors = priors
        self.tuning = np.array([1.0, 0.0])
        self.metric = np.diag([0.2, 0.2, 0.3])

    def directions(self, moving: Moving) -> list[int]:
        """Those that may be taken."""
        learned = moving.a and self.priors.a.learned
        allowed = ((VAR_X, moving.var_x), (SHIFT, moving.a), (SPREAD, learned))
        return [kind for kind, moves in allowed if moves]

    def attempt(
        self,
        own: SeriesParameters,
        moving: Moving,
        before: float,
        density: Callable[[], float],
        rng: np.random.Generator,
    ) -> tuple[bool, float]:
        """One step; says whether it was accepted, and the log density of where it ended.

        Parameters
        ----------
        before : float
            ``density()`` at the present parameters.
        density : callable
            Log density of the data at the parameters as they are when it is called.
        """
        kinds = self.directions(moving)
        if not kinds:
            return False, before
        tries = int(self.tuning[1])
        if tries in _MEASURED:
            self._measure(own, kinds, density)
        step = np.zeros(3)
        step[kinds] = rng.standard_normal(len(kinds))
        old = _kept(own)
        # The way back takes the directions in the other order, which must be as likely.
        backwards = rng.random() < 0.5
        gain = self.take(own, self.tuning[0] * (self.metric @ step), backwards=backwards)
        accepted, after = False, before
        if gain > -math.inf:
            after = density()
            accepted = math.log1p(-rng.random()) < gain + after - before
        if not accepted:
            after = before
            _put_back(own, old)
        # Step size towards the best acceptance; fixed once the chain has warmed up.
        self.tuning[1] += 1.0
        if tries < _TUNED:
            since = tries - max(begun for begun in (0, *_MEASURED) if begun <= tries)
            excess = accepted - _WANTED[len(kinds)]
            self.tuning[0] *= math.exp(excess / math.sqrt(since + 1.0))
        return accepted, after

    def _measure(
        self, own: SeriesParameters, kinds: list[int], density: Callable[[], float]
    ) -> None:
        """Set the metric of the steps by the curvature of the log posterior here."""
        old = _kept(own)
        width = 0.5 * np.sqrt((self.metric**2).sum(axis=1))

        def height(*ways: tuple[int, float]) -> float:
            step = np.zeros(3)
            for kind, sign in ways:
                step[kind] = sign * width[kind]
            value = self.take(own, step)
            if value > -math.inf:
                value += density()
            _put_back(own, old)
            return value

        pairs = [(one, other) for row, one in enumerate(kinds) for other in kinds[:row]]
        ways = [[(kind, 1.0)] for kind in kinds] + [
            [(one, 1.0), (other, 1.0)] for one, other in pairs
        ]
        up = np.array([height(*way) for way in ways])
        down = np.array([height(*((kind, -1.0) for kind, _ in way)) for way in ways])
        fall = 2.0 * height() - up - down  # twice the loss of a step, there and back
        if not np.isfinite(fall).all():
            return
        curvature = np.diag(fall[: len(kinds)])
        for (one, other), both in zip(pairs, fall[len(kinds) :], strict=True):
            row, column = kinds.index(one), kinds.index(other)
            across = 0.5 * (both - curvature[row, row] - curvature[column, column])
            curvature[row, column] = curvature[column, row] = across
        if np.linalg.eigvalsh(curvature)[0] > 1e-3:
            metric = np.zeros((3, 3))
            metric[np.ix_(kinds, kinds)] = np.linalg.cholesky(np.linalg.inv(curvature))
            self.metric = width[:, None] * metric
            self.tuning[0] = 2.4 / math.sqrt(len(kinds))

    # ------------------------------------------------------------------ one step

    def take(self, own: SeriesParameters, step: np.ndarray, *, backwards: bool = False) -> float:
        """Change the parameters by a step; log ratio of priors, Jacobian included.

        It is minus infinity where the step would leave what is allowed. Directions are taken one
        after another, `backwards` from the last: a shift and a change of spread do not commute.
        """
        gain = 0.0
        changes = ((VAR_X, self._var_x), (SHIFT, self._shift), (SPREAD, self._spread))
        for kind, change in reversed(changes) if backwards else changes:
            if step[kind] and gain > -math.inf:
                gain += change(own, float(step[kind]))
        return gain

    def _var_x(self, own: SeriesParameters, step: float) -> float:
        """Multiply var_x by exp(step)."""
        old = own.var_x[0]
        new = old * math.exp(step)
        if not LEAST_VARIANCE <= new <= MOST_VARIANCE:
            return -math.inf
        own.var_x[0] = new
        priors = self.priors
        return -priors.var_x_shape * step - priors.var_x_scale * (1.0 / new - 1.0 / old)

    def _shift(self, own: SeriesParameters, step: float) -> float:
        """Shift all artanh(a_i), and the population if it is learned."""
        mean, precision = own.population[A_MEAN], own.population[A_PRECISION]
        a, hyper = np.tanh(np.arctanh(own.a) + step), self.priors.a
        if not (a.min() > -1.0 and a.max() < 1.0):
            return -math.inf
        gain = float(np.log((1.0 - a) * (1.0 + a) / ((1.0 - own.a) * (1.0 + own.a))).sum())
        new, narrow = mean, 1.0
        if hyper.learned:
            new = math.tanh(math.atanh(mean) + step)
            narrow = (1.0 - mean) * (1.0 + mean) / ((1.0 - new) * (1.0 + new))
            if not (-1.0 < new < 1.0 and LEAST_VARIANCE < 1.0 / (precision * narrow**2)):
                return -math.inf
            # Of the mean, its Jacobian included, and of the logarithm of the variance.
            gain += -0.5 * hyper.precision * (new * new - mean * mean) - math.log(narrow)
            gain += 2.0 * hyper.shape * math.log(narrow)
            gain -= hyper.scale * precision * (narrow * narrow - 1.0)
            gain += a.size * (math.log(narrow) + _log_inside(mean, precision))
            gain -= a.size * _log_inside(new, precision * narrow**2)
        away = narrow * narrow * (a - new) ** 2 - (own.a - mean) ** 2
        gain -= 0.5 * precision * float(away.sum())
        own.a[:] = a
        own.population[A_MEAN], own.population[A_PRECISION] = new, precision * narrow**2
        return gain

    def _spread(self, own: SeriesParameters, step: float) -> float:
        """Multiply the distances of all a_i from their mean, and the population's s.d., alike."""
        mean, precision = own.population[A_MEAN], own.population[A_PRECISION]
        variance = math.exp(2.0 * step) / precision
        a = mean + math.exp(step) * (own.a - mean)
        if not (a.min() > -1.0 and a.max() < 1.0 and LEAST_VARIANCE < variance < MOST_VARIANCE):
            return -math.inf
        own.a[:] = a
        own.population[A_PRECISION] = 1.0 / variance
        # The normal density of the a_i makes up for their Jacobian.
        hyper = self.priors.a
        gain = -2.0 * hyper.shape * step - hyper.scale * (1.0 / variance - precision)
        change = _log_inside(mean, precision) - _log_inside(mean, 1.0 / variance)
        return float(gain + own.a.size * change)


def _log_inside(mean: float, precision: float) -> float:
    """Log probability of (-1, 1)."""
    root = math.sqrt(precision)
    return float(log_mass((-1.0 - mean) * root, (1.0 - mean) * root))


def _kept(own: SeriesParameters) -> tuple[float, np.ndarray, np.ndarray]:
    return float(own.var_x[0]), own.a.copy(), own.population.copy()


def _put_back(own: SeriesParameters, old: tuple[float, np.ndarray, np.ndarray]) -> None:
    own.var_x[0], own.a[:], own.population[:] = old
