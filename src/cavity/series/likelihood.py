"""Series of one cluster share a latent factor: the likelihood, as the framework sees it.

The cluster's parameter is the path eta_k1..eta_kT of its factor. Under expectation propagation it
is approximated by independent normals (:class:`~cavity.conjugate.diagonal_normal.DiagonalNormal`);
the states of a series are always integrated out by a Kalman filter. Sites have non-negative
precision whatever the data, so no cavity can be improper here.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from cavity._numba.arrays import declare
from cavity._numba.jit import jit
from cavity._numba.simd import whole_vectors
from cavity.conjugate.diagonal_normal import DiagonalNormal, diagonal_normal
from cavity.interface import evidence, evidences, log_density, pick, pick_given, project
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
from cavity.series.signs import draw_label_and_sign
from cavity.series.state import DRIFT, PRECISION, SHIFT, FactorSeries

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
