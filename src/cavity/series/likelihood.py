"""Likelihood of the series model as the framework sees it, and the signs of loadings.

The cluster's parameter is the path eta_k1..eta_kT of its factor. Under expectation propagation it
is approximated by independent normals (:class:`~cavity.conjugate.diagonal_normal.DiagonalNormal`).
The states of a series are always integrated out by a Kalman filter. Sites have non-negative
precision whatever the data, so no cavity can be improper here.

The sign of (loadings, factor) of a cluster is not identified: two clusters may hold the same factor
in mirror image. A series that could only change its label would never cross over, nor would the
two ever meet. Its label and the sign of its loading are therefore drawn as one block.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from cavity._numba.arrays import declare
from cavity._numba.jit import jit
from cavity._numba.simd import whole_vectors
from cavity.conjugate.diagonal_normal import DiagonalNormal, diagonal_normal
from cavity.interface import evidence, evidences, log_density, pick, pick_given, project
from cavity.likelihoods.selection import draw_from_scores
from cavity.series.kalman import (
    Dynamics,
    dynamics,
    filter_forward,
    log_likelihood,
    observation_constant,
    prepare,
    score_lanes,
    tilted_site,
)
from cavity.series.state_space import (
    DRIFT,
    LOADING_MEAN,
    LOADING_PRECISION,
    PRECISION,
    SHIFT,
    FactorSeries,
)
from cavity.updates import LIKELIHOOD, Chain, Update


@jit(internal=True)
def sign_pull(m, i):
    """Half the log prior density of series i's loading as it is over that of it turned."""
    population = m.own.population
    return population[LOADING_PRECISION] * population[LOADING_MEAN] * m.own.loading[i]


@jit(internal=True)
def both_signs(m, i, here, turned):
    """Log likelihood of series i with its sign integrated out where it is free.

    `here` and `turned` are those with the loading as it is and turned; what the two densities of
    the prior share is left out.
    """
    if not m.own.free_signs:
        return here
    pull = sign_pull(m, i)
    here += pull
    turned -= pull
    return max(here, turned) + math.log1p(math.exp(-abs(here - turned)))


@jit(internal=True)
def draw_label_and_sign(m, i, weights, scores, mass, rng):
    """Draw a slot for series i, and the sign of its loading with it where signs are free.

    ``m.scratch.signed`` has the series' log likelihood in every slot with the loading as it is,
    and turned. `scores` receives the log likelihoods from which the slot was drawn: with the sign
    integrated out where it is free.
    """
    signed = m.scratch.signed
    n_slots = scores.shape[0]
    if not m.own.free_signs:
        for k in range(n_slots):
            scores[k] = signed[0, k]
        return draw_from_scores(weights, scores, mass, rng)
    for k in range(n_slots):
        scores[k] = both_signs(m, i, signed[0, k], signed[1, k])
    k = draw_from_scores(weights, scores, mass, rng)
    if k >= 0:
        ratio = math.exp(min(signed[0, k] - signed[1, k] + 2.0 * sign_pull(m, i), 700.0))
        if rng.random() * (1.0 + ratio) < 1.0:
            m.own.loading[i] = -m.own.loading[i]
    return k


def turned(
    total: np.ndarray,
    population: np.ndarray,
    counts: np.ndarray,
    together: bool,
    rng: np.random.Generator,
) -> np.ndarray:
    """Choose the occupied clusters to turn, given the sum of the loadings of each.

    The population's mean is turned in place, if it is turned with them.
    """
    pull = population[LOADING_PRECISION] * population[LOADING_MEAN] * total
    # A logistic function that does not overflow.
    probability = 0.5 - 0.5 * np.tanh(pull)
    chosen = rng.random(total.size) < probability
    if together and rng.random() < 0.5:
        chosen = ~chosen
        population[LOADING_MEAN] *= -1.0
    return chosen & (counts > 0)


Turn = Callable[[np.ndarray, np.ndarray], None]


class ClusterFlips(Update):
    """Turns the signs of all loadings of a cluster and of its factor.

    The likelihood does not change and the factor's prior is symmetric: the prior of the loadings
    alone decides, and each cluster is turned with its exact conditional probability.

    Parameters
    ----------
    turn : callable, optional
        ``turn(z, chosen)`` turns whatever else the collapse keeps about the chosen slots.
    together : bool
        Turn all clusters with the mean of the loadings' population as well, which is learned and
        as likely with either sign.
    """

    name = "flips"
    changes = frozenset({LIKELIHOOD})

    def __init__(self, turn: Turn | None = None, *, together: bool = False) -> None:
        self.turn = turn
        self.together = together

    def draw(self, chain: Chain, rng: np.random.Generator) -> None:
        """Turn each occupied cluster or not, and then all of them or none."""
        own, z = chain.model.own, chain.z
        if not own.free_signs:
            return
        total = np.bincount(z, own.loading, chain.counts.size)
        chosen = turned(total, own.population, chain.counts, self.together, rng)
        own.loading[chosen[z]] *= -1.0
        chain.parameters.value[:, chosen] *= -1.0
        if self.turn is not None:
            self.turn(z, chosen)


_V_MAX = 1.001  # a cavity's variance is the prior's, 1, or less; sites are kept in single precision


class FactorPaths(NamedTuple):
    """One drawn factor path per slot, with the zero variance of what is known."""

    value: np.ndarray  # (T, padded slots)
    none: np.ndarray  # (T, padded slots)


declare(FactorPaths, slots={"value": 1, "none": 1}, constant=("none",))


def factor_paths(n_times: int, n_slots: int) -> FactorPaths:
    """Paths at zero."""
    shape = (n_times, whole_vectors(n_slots))
    return FactorPaths(np.zeros(shape), np.zeros(shape))


def factor_family(n_times: int, n_slots: int) -> DiagonalNormal:
    """Independent standard normals for each time, in a whole number of vectors of slots."""
    return diagonal_normal(np.zeros(n_times), np.ones(n_times), whole_vectors(n_slots))


@jit(internal=True)
def _score_all(model, i, mean, variance, v_max):
    signed = model.scratch.signed
    prepare(model, model.scratch.row, i)
    score_lanes(model, i, mean, variance, v_max, signed)
    constant = observation_constant(model, i)
    for k in range(signed.shape[1]):
        signed[0, k] += constant
        signed[1, k] += constant


@evidences.register(FactorSeries)
def _(model, q, i, out):
    _score_all(model, i, q.mean, q.variance, _V_MAX)
    for k in range(out.shape[0]):
        out[k] = model.scratch.signed[0, k]


@pick.register(FactorSeries)
def _(model, q, i, weights, scores, mass, visited, rng):
    _score_all(model, i, q.mean, q.variance, _V_MAX)
    return draw_label_and_sign(model, i, weights, scores, mass, rng)


@evidence.register(FactorSeries)
def _(model, q, k, i):
    return log_likelihood(model, i, q.mean, q.variance, k)


@jit(internal=True)
def _project(model, natural, mean, variance, k, i, fraction):
    row = model.scratch.row
    prepare(model, row, i)
    n_times = row.shape[1]
    # The likelihood to a power is, as a function of eta, that of a series whose loading and data
    # are both multiplied by the root of the power.
    root = math.sqrt(fraction)
    own = dynamics(model, i)
    dyn = Dynamics(own.a, root * own.loading, own.var_x, own.var_x0)
    for t in range(n_times):
        row[DRIFT, t] *= root
    filter_forward(row, dyn, mean, variance, k)
    tilted_site(row, dyn, mean, variance, k)
    precision = row[PRECISION]
    shift = row[SHIFT]
    for t in range(n_times):
        natural[k, t] += precision[t]
        natural[k, n_times + t] += shift[t]
        v = 1.0 / natural[k, t]
        variance[t, k] = v
        mean[t, k] = natural[k, n_times + t] * v


@project.register(FactorSeries)
def _(model, q, k, i, fraction):
    _project(model, q.natural, q.mean, q.variance, k, i, fraction)


@pick_given.register(FactorSeries)
def _(model, parameters, i, weights, scores, mass, rng):
    _score_all(model, i, parameters.value, parameters.none, 0.0)
    return draw_label_and_sign(model, i, weights, scores, mass, rng)


@log_density.register(FactorSeries)
def _(model, parameters, k, i):
    return log_likelihood(model, i, parameters.value, parameters.none, k)
