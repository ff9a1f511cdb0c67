"""Metropolis steps of what all series share, with factors, states and coefficients integrated out.

Directions come in blocks. Those of a block are taken together, since none of them moves far alone.
The dynamics (`DYNAMICS`):

* the logarithm of var_x;
* a shift of all artanh(a_i), with that of the mean of their population if it is learned, and its
  spread in proportion: near a unit root it is the distances from 1 that change alike, and no step
  leads beyond;
* the spread of all a_i about that mean, theirs and the population's, if it is learned: the a_i
  in units of their spread are held, not the a_i, which would hold it in turn.

var_x has steps of its own too (`OWN_NOISE`): at a unit root the other two are one narrow ridge.

The spread of series at the beginning (`BEGINNING`): the logarithms of var_x0 and of the
variance of the levels. Near a unit root a state never forgets where it began, and the two are
nearly confounded.

Steps are of two kinds: a random walk and leaps, which propose from a Student-t distribution about
where the chain has been, whatever the present place; its tails are long, or chains would stay in
those of the posterior. Both are tried by turns at the end of the adaptation. Three steps in four
are then leaps if these went further (by the mean square of what was accepted), and none if they
did not: at a unit root the place follows the a_i, and few leaps fit the current ones.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

import numpy as np

from cavity._numba.arrays import fitting, saved_array
from cavity.series.parameters import LEAST_VARIANCE, MOST_VARIANCE, Moving, SeriesPriors, log_mass
from cavity.series.state_space import A_MEAN, A_PRECISION, SeriesParameters

_ADAPTED = ("tuning", "metric", "places", "jumps")
VAR_X, SHIFT, SPREAD, START, LEVELS = 0, 1, 2, 3, 4
DYNAMICS, OWN_NOISE, BEGINNING = (VAR_X, SHIFT, SPREAD), (VAR_X,), (START, LEVELS)
_FIRST = (0.2, 0.2, 0.3, 0.3, 0.3)  # steps of each before anything is known
_TUNED = 190  # sweeps in which a step size adapts: fewer than the least warm-up has
_MEASURED = (30, 90)  # sweeps at which its metric is measured
_WATCHED = 80  # sweeps before the places that leaps are made from are noted ...
_COMPARED = 140  # ... until so many; from then on leaps and walk are compared, until _TUNED
_WIDENED = 1.2  # squared scale of leaps over the variance of the places
_DF = 5.0  # degrees of freedom of leaps
_EAGER = 2  # times as many tries while steps adapt
_WANTED = {1: 0.44, 2: 0.35, 3: 0.31}  # acceptance that is best, by the number of directions


class AdaptiveMetropolis:
    """Steps whose size and directions adapt while the chain warms up.

    Parameters
    ----------
    priors : SeriesPriors
    block : tuple of int
        The directions.
    n_tries : int
        Steps in one sweep once they have adapted.

    Attributes
    ----------
    tuning : (2,) array
        Scale of the steps, and number of tries.
    metric : (d, d) array
        Steps of the directions per unit step.
    places : (d + 2, d) array
        Number of places that were noted (all of the first row), their mean, and the sums of
        products about it.
    jumps : (2, 2) array
        Tries of the walk and of leaps that were compared, and the sums of their squared lengths.
    """

    def __init__(
        self, priors: SeriesPriors, block: tuple[int, ...] = DYNAMICS, n_tries: int = 1
    ) -> None:
        self.priors = priors
        self.block = block
        self.n_tries = n_tries
        self.tuning = np.array([1.0, 0.0])
        self.metric = np.diag([_FIRST[kind] for kind in block])
        self.places = np.zeros((len(block) + 2, len(block)))
        self.jumps = np.zeros((2, 2))
        # Of the covariance of leaps, and its inverse; both follow from the places.
        self._root: tuple[np.ndarray, np.ndarray] | None = None

    def arrays(self) -> dict[str, np.ndarray]:
        """Copies of what has adapted, for a checkpoint."""
        return {name: getattr(self, name).copy() for name in _ADAPTED}

    def restore(self, arrays: Mapping[str, np.ndarray]) -> None:
        """Continue from ``arrays``."""
        for name in _ADAPTED:
            setattr(self, name, fitting(saved_array(arrays, name), getattr(self, name), name))
        self._root = None

    def tries(self) -> int:
        """Steps in this sweep."""
        eager = self.tuning[1] < _EAGER * self.n_tries * _TUNED
        return _EAGER * self.n_tries if eager else self.n_tries

    def directions(self, moving: Moving, *, levels: bool = False) -> list[int]:
        """Return the usable directions of the block as indices; `levels`: levels are drawn."""
        together = levels and moving.beta and moving.var_x0
        allowed = {
            VAR_X: moving.var_x,
            SHIFT: moving.a,
            SPREAD: moving.a and self.priors.a.learned,
            START: together,
            LEVELS: together,
        }
        return [way for way, kind in enumerate(self.block) if allowed[kind]]

    def attempt(
        self,
        own: SeriesParameters,
        spread: np.ndarray,
        ways: list[int],
        before: float,
        density: Callable[[], float],
        rng: np.random.Generator,
    ) -> tuple[bool, float]:
        """Take one step; return whether it was accepted, and the log density where it ended.

        Parameters
        ----------
        spread : (p,) array
            Variances of the coefficients, that of the levels first.
        ways : list of int
            From ``directions``.
        before : float
            ``density()`` at the present parameters.
        density : callable
            Log density of the data at the parameters as they are when it is called.
        """
        tries = int(self.tuning[1])
        each = _EAGER * self.n_tries
        begun = [each * sweep for sweep in (0, *_MEASURED)]
        tuned = each * _TUNED
        if tries in begun[1:]:
            self._measure(own, spread, ways, density)
        here = self.place(own, spread)
        compared = each * _COMPARED
        if each * _WATCHED <= tries < compared:
            self._note(here)
        step = np.zeros(len(self.block))
        step[ways] = rng.standard_normal(len(ways))
        old = _snapshot(own, spread)
        # The way back takes the directions in the other order, which must be as likely.
        backwards = rng.random() < 0.5
        if tries < tuned:
            leaping = tries >= compared and tries % 2 == 1
        else:
            leaping = tries % 4 > 0 and self.independence_is_better()
        if leaping:
            step *= math.sqrt(0.5 * _DF / rng.standard_gamma(0.5 * _DF))
            step, chance = self._independence_proposal(here, step, ways)
        else:
            step, chance = self.tuning[0] * (self.metric @ step), 0.0
        gain = chance + self.take(own, spread, step, backwards=backwards)
        accepted, after = False, before
        if gain > -math.inf:
            after = density()
            accepted = math.log1p(-rng.random()) < gain + after - before
        if not accepted:
            after = before
            _restore_snapshot(own, spread, old)
        if compared <= tries < tuned:
            self.jumps[int(leaping)] += 1.0, self._length(step, ways) if accepted else 0.0
        # Step size towards the best acceptance; fixed once the chain has warmed up.
        self.tuning[1] += 1.0
        if tries < tuned and not leaping:
            since = tries - max(number for number in begun if number <= tries)
            excess = accepted - _WANTED[len(ways)]
            self.tuning[0] *= math.exp(excess / math.sqrt(since + 1.0))
        return accepted, after

    def place(self, own: SeriesParameters, spread: np.ndarray) -> np.ndarray:
        """Return the coordinates of the parameters; a step adds to them in any order."""
        mean, precision = own.population[A_MEAN], own.population[A_PRECISION]
        if not self.priors.a.learned:
            # Only the a_i shift then, and they define the place.
            mean, precision = math.tanh(float(np.arctanh(own.a).mean())), 1.0
        at = {}
        if VAR_X in self.block:
            at[VAR_X] = math.log(own.var_x[0])
            at[SHIFT] = math.atanh(mean)
            at[SPREAD] = -0.5 * math.log(precision) - math.log((1.0 - mean) * (1.0 + mean))
        else:
            at[START] = math.log(own.var_x0[0])
            at[LEVELS] = math.log(spread[0])
        return np.array([at[kind] for kind in self.block])

    def _note(self, here: np.ndarray) -> None:
        """Take a place into the mean and the products."""
        count, mean, products = self.places[0], self.places[1], self.places[2:]
        away = here - mean
        count += 1.0
        mean += away / count
        products += np.outer(away, here - mean)

    def independence_is_better(self) -> bool:
        """Return whether leaps went further than the walk where they were compared."""
        (walks, by_walk), (leaps, by_leaps) = self.jumps.tolist()
        return by_leaps * walks > by_walk * leaps

    def _roots(self, ways: list[int]) -> tuple[np.ndarray, np.ndarray]:
        """Root of the covariance of leaps, and its inverse; zero if it has never moved."""
        if self._root is None:
            covariance = (_WIDENED * self.places[2:] / (self.places[0, 0] - 1.0))[ways][:, ways]
            known = np.linalg.eigvalsh(covariance)[0] > 1e-12
            root = np.linalg.cholesky(covariance) if known else np.zeros_like(covariance)
            self._root = root, np.linalg.inv(root) if known else root
        return self._root

    def _length(self, step: np.ndarray, ways: list[int]) -> float:
        """Square of a step's length, in units of the places' spread."""
        away = self._roots(ways)[1] @ step[ways]
        return float(away @ away)

    def _independence_proposal(
        self, here: np.ndarray, noise: np.ndarray, ways: list[int]
    ) -> tuple[np.ndarray, float]:
        """A step from here by Student-t noise, and log chance of the way back over it."""
        root, inverse = self._roots(ways)
        step = np.zeros(len(self.block))
        if not root[0, 0]:
            return step, -math.inf  # it has never moved
        away = here[ways] - self.places[1, ways]
        step[ways] = root @ noise[ways] - away
        old = inverse @ away
        chance = math.log1p(float(noise @ noise) / _DF) - math.log1p(float(old @ old) / _DF)
        return step, 0.5 * (_DF + len(ways)) * chance

    def _measure(
        self,
        own: SeriesParameters,
        spread: np.ndarray,
        ways: list[int],
        density: Callable[[], float],
    ) -> None:
        """Set the metric of the steps by the curvature of the log posterior here."""
        old = _snapshot(own, spread)
        size = len(self.block)
        width = 0.5 * np.sqrt((self.metric**2).sum(axis=1))

        def height(*signs: tuple[int, float]) -> float:
            step = np.zeros(size)
            for way, sign in signs:
                step[way] = sign * width[way]
            value = self.take(own, spread, step)
            if value > -math.inf:
                value += density()
            _restore_snapshot(own, spread, old)
            return value

        pairs = [(one, other) for row, one in enumerate(ways) for other in ways[:row]]
        trials = [[(way, 1.0)] for way in ways] + [
            [(one, 1.0), (other, 1.0)] for one, other in pairs
        ]
        up = np.array([height(*trial) for trial in trials])
        down = np.array([height(*((way, -1.0) for way, _ in trial)) for trial in trials])
        fall = 2.0 * height() - up - down  # twice the loss of a step, there and back
        if not np.isfinite(fall).all():
            return
        curvature = np.diag(fall[: len(ways)])
        for (one, other), both in zip(pairs, fall[len(ways) :], strict=True):
            row, column = ways.index(one), ways.index(other)
            across = 0.5 * (both - curvature[row, row] - curvature[column, column])
            curvature[row, column] = curvature[column, row] = across
        if np.linalg.eigvalsh(curvature)[0] > 1e-3:
            metric = np.zeros((size, size))
            metric[np.ix_(ways, ways)] = np.linalg.cholesky(np.linalg.inv(curvature))
            self.metric = width[:, None] * metric
            self.tuning[0] = 2.4 / math.sqrt(len(ways))

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


Snapshot = tuple[float, float, np.ndarray, np.ndarray, np.ndarray]


def _snapshot(own: SeriesParameters, spread: np.ndarray) -> Snapshot:
    variances = float(own.var_x[0]), float(own.var_x0[0])
    return *variances, own.a.copy(), own.population.copy(), spread.copy()


def _restore_snapshot(own: SeriesParameters, spread: np.ndarray, old: Snapshot) -> None:
    own.var_x[0], own.var_x0[0], own.a[:], own.population[:], spread[:] = old
