"""Kalman filters of one series: likelihoods for all clusters at once, tilted moments, state draws.

Coordinates. The state is measured from the data: with c_t the observed cell mean (or a c_{t-1}
where nothing is observed), the filter follows x_t - c_t, whose observations are all zero and
whose drift is ``loading * mu_t - (c_t - a c_{t-1} - common * g_t)``. Nothing large is then
subtracted from something large, whatever the level of the series.

Division-free filter. Writing the filtered variance as n/d and mean as M/d, and adding the two
further quantities E and U, the whole recursion is linear::

    n <- a^2 n + q d            b = drift, q = var_x + loading^2 v_t
    E <- a^2 E + b (2 a M + b d) + q U
    M <- a M + b d
    U <- U + w E                w = precision of the cell (0 where nothing is observed)
    d <- d + w n

and ends in ``-2 log p(y) = log d + U / d`` up to terms that do not depend on the cluster. One
logarithm and one division per series and cluster remain, unless d would overflow. With the sign
of the loading turned n and d are the same, and only M, E and U are followed once more: every
cluster is scored for both signs.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from cavity._numba.jit import jit, wide_vectors
from cavity._numba.simd import WIDTH, load8, splat8, store8
from cavity.series.state_space import (
    CENTRE,
    DIAGONAL,
    DRIFT,
    PHI,
    PRECISION,
    PULL,
    SHIFT,
    SHRINK,
    SLOPE,
    STATE,
    VARIANCE,
    WEIGHT,
)

LOG_2PI = math.log(2.0 * math.pi)
_HEADROOM = 300.0  # d may grow to exp(300) before it is rescaled


class Dynamics(NamedTuple):
    """Dynamics of the state of one series.

    Kernels take this and the scratch rows rather than the whole model: a call passes every field
    of a NamedTuple, and most of the time to compile would go into that.
    """

    a: float
    loading: float
    var_x: float
    var_x0: float


@jit(forceinline=True)
def dynamics(m, i):
    """The dynamics of series i."""
    return Dynamics(m.own.a[i], m.own.loading[i], m.own.var_x[0], m.own.var_x0[0])


@jit(forceinline=True)
def residual(m, i, t):
    """Cell mean of series i at time t in the model's units, less its regression."""
    r = (m.cells.y[i, t] - m.cells.unit[i, 0]) * m.cells.unit[i, 1]
    first = m.own.beta.shape[1] - m.cells.covariates.shape[2]
    if first:
        r -= m.own.beta[i, 0]
    for j in range(m.cells.covariates.shape[2]):
        r -= m.own.beta[i, first + j] * m.cells.covariates[i, t, j]
    return r


@jit(forceinline=True)
def cell_precision(m, i, t):
    """Precision of the mean of a cell; 0 where nothing is observed."""
    precision = m.cells.repeats[i, t] / m.own.var_y[i]
    if m.own.tails.shape[0] > 0:
        precision *= m.own.tails[i, t]
    return precision


@jit
def prepare(m, row, i):
    """Fill the scratch rows of series i: cell precisions, reference path c_t, its drift."""
    a = m.own.a[i]
    weight = row[WEIGHT]
    drift = row[DRIFT]
    centre = row[CENTRE]
    before = 0.0
    precision = 1.0 / m.own.var_y[i]
    heavy = m.own.tails.shape[0] > 0
    for t in range(m.cells.y.shape[1]):
        weight[t] = m.cells.repeats[i, t] * precision
        if heavy:
            weight[t] *= m.own.tails[i, t]
        c = a * before
        centre[t] = residual(m, i, t) if m.cells.repeats[i, t] > 0 else c
        drift[t] = centre[t] - c
        before = centre[t]
    if m.own.common.shape[0] > 0:
        for t in range(m.cells.y.shape[1]):
            drift[t] -= m.own.common[i] * m.own.common_factor[t]


@jit
def observation_constant(m, i):
    """The part of series i's log likelihood that no cluster changes.

    It makes the likelihood a density (in the model's units) of every observation, not only of
    the cells' means.
    """
    total = m.cells.totals[i, 0] * (LOG_2PI + math.log(m.own.var_y[i]))
    total += within_scatter(m, i) / m.own.var_y[i]
    if m.own.tails.shape[0] > 0:
        product = 1.0
        for t in range(m.cells.y.shape[1]):
            if m.cells.repeats[i, t] > 0:
                product *= m.own.tails[i, t]
                if not 1e-150 < product < 1e150:
                    total -= math.log(product)
                    product = 1.0
        total -= math.log(product)
    return -0.5 * total


@jit(internal=True)
def within_scatter(m, i):
    """Sum of squares of series i's regression residuals about their cells' means."""
    p = m.own.beta.shape[1]
    total = m.cells.scatter[i, p, p]
    for j in range(p):
        total -= 2.0 * m.own.beta[i, j] * m.cells.scatter[i, j, p]
        for k in range(p):
            total += m.own.beta[i, j] * m.cells.scatter[i, j, k] * m.own.beta[i, k]
    return max(total, 0.0)


# --------------------------------------------------------------------------- all clusters at once


@jit
def segment_length(d, n_times, most_weight, v_max):
    """Number of time steps after which d of the division-free filter must be rescaled.

    No predicted variance exceeds that of a series without data and with factor variance `v_max`,
    and no cell is more precise than `most_weight`.
    """
    q = d.var_x + d.loading * d.loading * v_max
    spread = 1.0 - d.a * d.a
    variance = d.var_x0 + (q / spread if q < spread * q * n_times else q * n_times)
    growth = math.log1p(most_weight * variance)
    return max(1, int(_HEADROOM / growth)) if growth * n_times > _HEADROOM else n_times


@jit(internal=True)
def _advance(s, row, dyn, mean, variance, k, start, stop):
    """Run eight filters from lane k on, for both signs, through times start..stop-1."""
    wide_vectors()
    slots = mean.shape[1]
    size = s.size // 8
    means = mean.reshape(mean.size)
    variances = variance.reshape(variance.size)
    weight = row[WEIGHT]
    drift = row[DRIFT]
    a = splat8(dyn.a)
    a2 = splat8(dyn.a * dyn.a)
    b1 = splat8(dyn.loading)
    turned = splat8(-dyn.loading)
    b2 = splat8(dyn.loading * dyn.loading)
    var_x = splat8(dyn.var_x)
    n, d = load8(s, k), load8(s, size + k)
    m0, e0, u0 = load8(s, 2 * size + k), load8(s, 3 * size + k), load8(s, 4 * size + k)
    m1, e1, u1 = load8(s, 5 * size + k), load8(s, 6 * size + k), load8(s, 7 * size + k)
    for t in range(start, stop):
        w = splat8(weight[t])
        shift = splat8(drift[t])
        at = t * slots + k
        factor = load8(means, at)
        drift0 = b1 * factor - shift
        drift1 = turned * factor - shift
        q = var_x + b2 * load8(variances, at)
        n = a2 * n + q * d
        am0 = a * m0
        am1 = a * m1
        m0 = am0 + drift0 * d
        m1 = am1 + drift1 * d
        e0 = a2 * e0 + drift0 * (am0 + m0) + q * u0
        e1 = a2 * e1 + drift1 * (am1 + m1) + q * u1
        u0 = u0 + w * e0
        u1 = u1 + w * e1
        d = d + w * n
    store8(s, k, n)
    store8(s, size + k, d)
    store8(s, 2 * size + k, m0)
    store8(s, 3 * size + k, e0)
    store8(s, 4 * size + k, u0)
    store8(s, 5 * size + k, m1)
    store8(s, 6 * size + k, e1)
    store8(s, 7 * size + k, u1)


@jit
def score_lanes(m, i, mean, variance, v_max, out):
    """Log likelihood of prepared series i, less ``observation_constant``, for every cluster.

    Parameters
    ----------
    m : FactorSeries
        Prepared for series i, with scratch for at least as many lanes as `mean` has columns.
    mean, variance : (T, slots) arrays
        Mean and variance of eta_t per cluster, the slots padded to a multiple of ``WIDTH``.
    v_max : float
        No element of `variance` is larger.
    out : (2, n) array
        Filled, the second row for the loading of the other sign; n may be less than the number
        of padded slots.
    """
    n_times = mean.shape[0]
    n_slots = out.shape[1]
    lanes = m.scratch.lanes
    flat = lanes.reshape(lanes.size)
    used = -(-n_slots // WIDTH) * WIDTH
    for k in range(used):
        for j in range(8):
            lanes[j, k] = 0.0
        lanes[0, k] = m.own.var_x0[0]
        lanes[1, k] = 1.0
    for k in range(n_slots):
        out[0, k] = 0.0
    dyn = dynamics(m, i)
    most_weight = m.cells.totals[i, 1] / m.own.var_y[i]
    if m.own.tails.shape[0] > 0:
        for t in range(n_times):
            most_weight = max(most_weight, m.scratch.row[WEIGHT, t])
    length = segment_length(dyn, n_times, most_weight, v_max)
    n_segments = -(-n_times // length)
    for segment in range(n_segments):
        start = segment * length
        stop = min(start + length, n_times)
        for k in range(0, used, WIDTH):
            _advance(flat, m.scratch.row, dyn, mean, variance, k, start, stop)
        if segment < n_segments - 1:
            for k in range(n_slots):
                out[0, k] -= 0.5 * math.log(lanes[1, k])
            for k in range(used):
                scale = 1.0 / lanes[1, k]
                for j in range(8):
                    lanes[j, k] *= scale
                lanes[1, k] = 1.0
    for k in range(n_slots):
        d = lanes[1, k]
        common = out[0, k] - 0.5 * math.log(d)
        out[0, k] = common - 0.5 * lanes[4, k] / d
        out[1, k] = common - 0.5 * lanes[7, k] / d


# --------------------------------------------------------------------------- one cluster


@jit
def filter_forward(row, dyn, mean, variance, k):
    """Filter prepared series i against column k; returns the log likelihood.

    Leaves in the scratch rows: SHRINK 1/(1 + w p), which is one minus the gain, PULL the
    innovation over its variance, STATE and VARIANCE the filtered moments (STATE measured from
    the CENTRE). ``observation_constant`` is left out.
    """
    a = dyn.a
    b = dyn.loading
    var_x = dyn.var_x
    weight = row[WEIGHT]
    drift = row[DRIFT]
    shrink = row[SHRINK]
    pull = row[PULL]
    state = row[STATE]
    var = row[VARIANCE]
    x = 0.0
    p = dyn.var_x0
    log_det = 0.0
    quad = 0.0
    product = 1.0
    for t in range(row.shape[1]):
        x = a * x + (b * mean[t, k] - drift[t])
        p = a * a * p + var_x + b * b * variance[t, k]
        w = weight[t]
        d = 1.0 + w * p
        inverse = 1.0 / d
        shrink[t] = inverse
        pull[t] = -x * w * inverse
        quad -= x * pull[t]
        x *= inverse
        p *= inverse
        state[t] = x
        var[t] = p
        product *= d
        if product > 1e200:
            log_det += math.log(product)
            product = 1.0
    log_det += math.log(product)
    return -0.5 * (log_det + quad)


@jit
def log_likelihood(m, i, mean, variance, k):
    """Log density of every observation of series i given moments of its cluster's factor."""
    row = m.scratch.row
    prepare(m, row, i)
    return filter_forward(row, dynamics(m, i), mean, variance, k) + observation_constant(m, i)


@jit
def smooth_back(row, dyn):
    """Run the backward disturbance recursion after ``filter_forward``.

    Leaves in the scratch rows: SLOPE the disturbances times the loading, DIAGONAL their variance
    times its square, PHI a (1 - gain).
    """
    a = dyn.a
    b = dyn.loading
    weight = row[WEIGHT]
    shrink = row[SHRINK]
    pull = row[PULL]
    phi = row[PHI]
    diagonal = row[DIAGONAL]
    slope = row[SLOPE]
    r = 0.0
    info = 0.0
    for t in range(row.shape[1] - 1, -1, -1):
        g = shrink[t]
        r = pull[t] + g * r
        info = weight[t] * g + g * g * info
        slope[t] = b * r
        diagonal[t] = b * b * info
        phi[t] = a * g
        r *= a
        info *= a * a


@jit
def tilted_site(row, dyn, mean, variance, k):
    """Find the site of series i against the cavity in column k, after ``filter_forward``.

    Writes the site's natural parameters into the rows PRECISION and SHIFT: adding them to the
    cavity's gives the marginal means and variances of the tilted distribution.
    """
    smooth_back(row, dyn)
    b2 = dyn.loading * dyn.loading
    for t in range(row.shape[1]):
        v = variance[t, k]
        known = row[DIAGONAL, t]
        # info <= 1/(var_x + b^2 v): the bound keeps rounding from making the site improper.
        left = max(1.0 - known * v, dyn.var_x / (dyn.var_x + b2 * v))
        row[PRECISION, t] = known / left
        row[SHIFT, t] = (row[SLOPE, t] + known * mean[t, k]) / left


@jit
def draw_states(row, dyn, mean, variance, k, x, rng):
    """Draw x_i0..x_iT given a factor path (variance 0) after ``filter_forward``: x has T + 1.

    With a positive `variance` the draw has the factor integrated out.
    """
    a = dyn.a
    b = dyn.loading
    drift = row[DRIFT]
    state = row[STATE]
    var = row[VARIANCE]
    centre = row[CENTRE]
    last = row.shape[1] - 1
    later = state[last] + math.sqrt(var[last]) * rng.standard_normal()
    x[last + 1] = later + centre[last]
    for t in range(last - 1, -2, -1):
        filtered = state[t] if t >= 0 else 0.0
        p = var[t] if t >= 0 else dyn.var_x0
        q = dyn.var_x + b * b * variance[t + 1, k]
        predicted = a * a * p + q
        share = a * p / predicted
        step = later - a * filtered - (b * mean[t + 1, k] - drift[t + 1])
        later = filtered + share * step + math.sqrt(p * q / predicted) * rng.standard_normal()
        x[t + 1] = later + (centre[t] if t >= 0 else 0.0)
