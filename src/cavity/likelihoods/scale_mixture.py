"""A Gaussian of unknown mean contaminated by a wider one: the convergence study's likelihood.

p(y | phi) = (1 - r) N(y; phi, s2) + r N(y; phi, C s2), one dimension, s2 known; the approximating
family is a normal for phi. `ScaleMixture` integrates over which of the two normals an observation
came from; `SortedScaleMixture` conditions on it, as the naive sampler does.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from cavity._numba.arrays import declare
from cavity._numba.jit import jit
from cavity.conjugate.diagonal_normal import set_moments
from cavity.interface import (
    accumulate,
    evidence,
    log_density,
    log_likelihood,
    project,
    settle,
    visit,
)
from cavity.updates import LIKELIHOOD, Chain, Update

_LOG_2PI = math.log(2.0 * math.pi)


class ScaleMixture(NamedTuple):
    """Data and the known constants of the contaminated Gaussian."""

    y: np.ndarray  # (n,)
    variance: float
    contamination: float  # r
    inflation: float  # C


declare(ScaleMixture, slots={}, constant=("y",))


class SortedScaleMixture(NamedTuple):
    """The same with an indicator for each observation: one if it came from the wide normal.

    The indicator of an observation in a cluster that is not its own has its prior for conditional
    distribution; it is drawn when the observation is visited, and only the own one is stored.
    """

    y: np.ndarray  # (n,)
    variance: float
    contamination: float
    inflation: float
    wide: np.ndarray  # (n,), in the present cluster
    wides: np.ndarray  # (slots,), of the observation being visited


declare(SortedScaleMixture, slots={"wides": 0}, constant=("y",))


@jit(forceinline=True)
def _log_mixture(model, e, spread):
    """Log density of a residual when `spread` is added to both variances."""
    narrow = model.variance + spread
    wide = model.inflation * model.variance + spread
    a = math.log1p(-model.contamination) - 0.5 * (math.log(narrow) + e * e / narrow)
    b = math.log(model.contamination) - 0.5 * (math.log(wide) + e * e / wide)
    top = max(a, b)
    return top + math.log(math.exp(a - top) + math.exp(b - top)) - 0.5 * _LOG_2PI


@evidence.register(ScaleMixture)
def _(model, q, k, i):
    return _log_mixture(model, model.y[i] - q.mean[0, k], q.variance[0, k])


@log_density.register(ScaleMixture)
def _(model, parameters, k, i):
    return _log_mixture(model, model.y[i] - parameters.value[0, k], 0.0)


@project.register(ScaleMixture)
def _(model, q, k, i, fraction):
    if fraction == 1.0:
        _project_whole(model, q, k, i)
    else:
        _project_power(model, q, k, i, fraction)


@jit
def _project_whole(model, q, k, i):
    """The tilted distribution is a mixture of two normals: its moments in closed form."""
    m, v = q.mean[0, k], q.variance[0, k]
    e = model.y[i] - m
    narrow = v + model.variance
    wide = v + model.inflation * model.variance
    a = math.log1p(-model.contamination) - 0.5 * (math.log(narrow) + e * e / narrow)
    b = math.log(model.contamination) - 0.5 * (math.log(wide) + e * e / wide)
    share = 1.0 / (1.0 + math.exp(a - b))  # of the wide component
    shift_narrow, shift_wide = v / narrow * e, v / wide * e
    shift = (1.0 - share) * shift_narrow + share * shift_wide
    gap = shift_wide - shift_narrow
    variance = (
        (1.0 - share) * v * (1.0 - v / narrow)
        + share * v * (1.0 - v / wide)
        + share * (1.0 - share) * gap * gap
    )
    set_moments(q, k, 0, m + shift, variance)


@jit
def _project_power(model, q, k, i, fraction):
    """Moments of cavity times likelihood to a power, by the trapezoid rule over the parameter.

    A power below one of a sum is at most the sum of powers, so all mass lies under two normals:
    the cavity times a power of either component. The window covers those that matter.
    """
    m, v = q.mean[0, k], q.variance[0, k]
    e = model.y[i] - m
    step = 0.125 * math.sqrt(min(v, model.variance))
    low, high, most = 0.0, 0.0, -math.inf
    for _ in range(2):
        # The first round finds the greater mass, the second the window.
        low, high, least = math.inf, -math.inf, most - 60.0
        for wide in range(2):
            share = model.contamination if wide == 1 else 1.0 - model.contamination
            s2 = (model.inflation if wide == 1 else 1.0) * model.variance
            total = v + s2 / fraction
            mass = fraction * (math.log(share) - 0.5 * math.log(s2))
            mass += 0.5 * (math.log(s2 / (fraction * total)) - e * e / total)
            most = max(most, mass)
            if mass >= least:
                reach = 10.0 * math.sqrt(v * (1.0 - v / total))
                low = min(low, v / total * e - reach)
                high = max(high, v / total * e + reach)
    n = int((high - low) / step) + 1
    top = -math.inf
    for j in range(n):
        x = low + step * j
        value = -0.5 * x * x / v + fraction * _log_mixture(model, e - x, 0.0)
        top = max(top, value)
    total = first = second = 0.0
    for j in range(n):
        x = low + step * j
        value = -0.5 * x * x / v + fraction * _log_mixture(model, e - x, 0.0)
        w = math.exp(value - top)
        total += w
        first += w * (x - low)
        second += w * (x - low) * (x - low)
    shift = first / total
    set_moments(q, k, 0, m + low + shift, second / total - shift * shift)


@jit(forceinline=True)
def _noise(model, wide):
    """Variance of an observation with this indicator."""
    return model.variance * (1.0 + wide * (model.inflation - 1.0))


@visit.register(SortedScaleMixture)
def _(model, i, k, rng):
    for j in range(model.wides.shape[0]):
        model.wides[j] = 1.0 if rng.random() < model.contamination else 0.0
    model.wides[k] = model.wide[i]


@settle.register(SortedScaleMixture)
def _(model, i, k):
    model.wide[i] = model.wides[k]


@log_density.register(SortedScaleMixture)
def _(model, parameters, k, i):
    noise = _noise(model, model.wides[k])
    e = model.y[i] - parameters.value[0, k]
    return -0.5 * (_LOG_2PI + math.log(noise) + e * e / noise)


@accumulate.register(SortedScaleMixture)
def _(model, q, k, i):
    precision = 1.0 / _noise(model, model.wide[i])
    q.natural[k, 0] += precision
    q.natural[k, 1] += precision * model.y[i]


@jit
def draw_wide(model, parameters, z, rng):
    """Draw every indicator given the means."""
    for i in range(z.shape[0]):
        e = model.y[i] - parameters.value[0, z[i]]
        odds = (1.0 - model.contamination) / model.contamination * math.sqrt(model.inflation)
        odds *= math.exp(-0.5 * e * e / model.variance * (1.0 - 1.0 / model.inflation))
        model.wide[i] = 1.0 if rng.random() * (1.0 + odds) < 1.0 else 0.0


@log_likelihood.register(SortedScaleMixture)
def _(model, parameters, z):
    # The indicators are integrated out.
    total = 0.0
    for i in range(z.shape[0]):
        total += _log_mixture(model, model.y[i] - parameters.value[0, z[i]], 0.0)
    return total


class IndicatorUpdate(Update):
    """Draws the indicators of the scale mixture: which normal every observation came from."""

    name = "indicators"
    changes = frozenset({LIKELIHOOD})

    def draw(self, chain: Chain, rng: np.random.Generator) -> None:
        """Draw them given the means."""
        draw_wide(chain.model, chain.parameters, chain.z, rng)
