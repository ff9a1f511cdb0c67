"""Metropolis steps of what all series share, with factors, states and coefficients integrated out.

Two blocks of directions. Those of a block are taken together, since none of them moves far alone.
Of the dynamics (`DYNAMICS`):

* the logarithm of var_x;
* a shift of all artanh(a_i), with that of the mean of their population if it is learned, and its
  spread in proportion: near a unit root it is the distances from 1 that change alike, and no step
  leads beyond;
* the spread of all a_i about that mean, theirs and the population's, if it is learned: the a_i
  in units of their spread are held, not the a_i, which would hold it in turn.

Of how far series lie apart from the beginning (`BEGINNING`): the logarithms of var_x0 and of the
variance of the levels. Near a unit root a state never forgets where it began, and the two are
hardly told apart.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from cavity.models.series.densities import log_mass
from cavity.models.series.draws import LEAST_VARIANCE, MOST_VARIANCE, Moving, SeriesPriors
from cavity.models.series.state import A_MEAN, A_PRECISION, SeriesParameters

VAR_X, SHIFT, SPREAD, START, LEVELS = 0, 1, 2, 3, 4
DYNAMICS, BEGINNING = (VAR_X, SHIFT, SPREAD), (START, LEVELS)
_FIRST = (0.2, 0.2, 0.3, 0.3, 0.3)  # steps of each before anything is known
_TUNED = 300  # tries in which a step size adapts
_MEASURED = (60, 160)  # tries at which its metric is measured
_WANTED = {1: 0.44, 2: 0.35, 3: 0.31}  # acceptance that is best, by the number of directions


class SharedSteps:
    """Steps whose size and directions adapt while the chain warms up.

    Parameters
    ----------
    priors : SeriesPriors
    block : tuple of int
        The directions.

    Attributes
    ----------
    tuning : (2,) array
        Scale of the steps, and number of tries.
    metric : (d, d) array
        Steps of the directions per unit step.
    """

    def __init__(self, priors: SeriesPriors, block: tuple[int, ...] = DYNAMICS) -> None:
        self.priors = priors
        self.block = block
        self.tuning = np.array([1.0, 0.0])
        self.metric = np.diag([_FIRST[kind] for kind in block])

    def directions(self, moving: Moving, *, levels: bool = False) -> list[int]:
        """Places in the block of those that may be taken; `levels`: series have levels to draw."""
        together = levels and moving.beta and moving.var_x0
        allowed = {
            VAR_X: moving.var_x,
            SHIFT: moving.a,
            SPREAD: moving.a and self.priors.a.learned,
            START: together,
            LEVELS: together,
        }
        return [place for place, kind in enumerate(self.block) if allowed[kind]]

    def attempt(
        self,
        own: SeriesParameters,
        spread: np.ndarray,
        places: list[int],
        before: float,
        density: Callable[[], float],
        rng: np.random.Generator,
    ) -> tuple[bool, float]:
        """One step; says whether it was accepted, and the log density of where it ended.

        Parameters
        ----------
        spread : (p,) array
            Variances of the coefficients, that of the levels first.
        places : list of int
            What ``directions`` gave.
        before : float
            ``density()`` at the present parameters.
        density : callable
            Log density of the data at the parameters as they are when it is called.
        """
        tries = int(self.tuning[1])
        if tries in _MEASURED:
            self._measure(own, spread, places, density)
        step = np.zeros(len(self.block))
        step[places] = rng.standard_normal(len(places))
        old = _kept(own, spread)
        # The way back takes the directions in the other order, which must be as likely.
        backwards = rng.random() < 0.5
        step = self.tuning[0] * (self.metric @ step)
        gain = self.take(own, spread, step, backwards=backwards)
        accepted, after = False, before
        if gain > -math.inf:
            after = density()
            accepted = math.log1p(-rng.random()) < gain + after - before
        if not accepted:
            after = before
            _put_back(own, spread, old)
        # Step size towards the best acceptance; fixed once the chain has warmed up.
        self.tuning[1] += 1.0
        if tries < _TUNED:
            since = tries - max(begun for begun in (0, *_MEASURED) if begun <= tries)
            excess = accepted - _WANTED[len(places)]
            self.tuning[0] *= math.exp(excess / math.sqrt(since + 1.0))
        return accepted, after

    def _measure(
        self,
        own: SeriesParameters,
        spread: np.ndarray,
        places: list[int],
        density: Callable[[], float],
    ) -> None:
        """Set the metric of the steps by the curvature of the log posterior here."""
        old = _kept(own, spread)
        size = len(self.block)
        width = 0.5 * np.sqrt((self.metric**2).sum(axis=1))

        def height(*ways: tuple[int, float]) -> float:
            step = np.zeros(size)
            for place, sign in ways:
                step[place] = sign * width[place]
            value = self.take(own, spread, step)
            if value > -math.inf:
                value += density()
            _put_back(own, spread, old)
            return value

        pairs = [(one, other) for row, one in enumerate(places) for other in places[:row]]
        ways = [[(place, 1.0)] for place in places] + [
            [(one, 1.0), (other, 1.0)] for one, other in pairs
        ]
        up = np.array([height(*way) for way in ways])
        down = np.array([height(*((place, -1.0) for place, _ in way)) for way in ways])
        fall = 2.0 * height() - up - down  # twice the loss of a step, there and back
        if not np.isfinite(fall).all():
            return
        curvature = np.diag(fall[: len(places)])
        for (one, other), both in zip(pairs, fall[len(places) :], strict=True):
            row, column = places.index(one), places.index(other)
            across = 0.5 * (both - curvature[row, row] - curvature[column, column])
            curvature[row, column] = curvature[column, row] = across
        if np.linalg.eigvalsh(curvature)[0] > 1e-3:
            metric = np.zeros((size, size))
            metric[np.ix_(places, places)] = np.linalg.cholesky(np.linalg.inv(curvature))
            self.metric = width[:, None] * metric
            self.tuning[0] = 2.4 / math.sqrt(len(places))

    # ------------------------------------------------------------------ one step

    def take(
        self,
        own: SeriesParameters,
        spread: np.ndarray,
        step: np.ndarray,
        *,
        backwards: bool = False,
    ) -> float:
        """Change the parameters by a step; log ratio of priors, Jacobian included.

        It is minus infinity where the step would leave what is allowed. Directions are taken one
        after another, `backwards` from the last: a shift and a change of spread do not commute.
        """
        priors, gain = self.priors, 0.0
        ways = list(zip(self.block, step.tolist(), strict=True))
        for kind, size in reversed(ways) if backwards else ways:
            if not size or gain == -math.inf:
                continue
            if kind == SHIFT:
                gain += self._shift(own, size)
            elif kind == SPREAD:
                gain += self._spread(own, size)
            elif kind == VAR_X:
                gain += _scale(own.var_x, size, priors.var_x_shape, priors.var_x_scale)
            elif kind == START:
                gain += _scale(own.var_x0, size, priors.var_x0_shape, priors.var_x0_scale)
            else:
                gain += _scale(spread, size, priors.beta_shape[0], priors.beta_scale[0])
        return gain

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


def _scale(variance: np.ndarray, step: float, shape: float, scale: float) -> float:
    """Multiply the first variance by exp(step); log ratio of its inverse gamma prior."""
    old = variance[0]
    new = old * math.exp(step)
    if not LEAST_VARIANCE <= new <= MOST_VARIANCE:
        return -math.inf
    variance[0] = new
    return float(-shape * step - scale * (1.0 / new - 1.0 / old))


Kept = tuple[float, float, np.ndarray, np.ndarray, np.ndarray]


def _kept(own: SeriesParameters, spread: np.ndarray) -> Kept:
    variances = float(own.var_x[0]), float(own.var_x0[0])
    return *variances, own.a.copy(), own.population.copy(), spread.copy()


def _put_back(own: SeriesParameters, spread: np.ndarray, old: Kept) -> None:
    own.var_x[0], own.var_x0[0], own.a[:], own.population[:], spread[:] = old
