"""Multivariate Student-t observations with a normal-inverse-Wishart approximation.

y_i ~ t_df(mean_k, Sigma_k), a Gaussian with scale u ~ Gamma(alpha, alpha), alpha = df/2. Against
a cavity NIW(m, kappa, nu, Psi) everything is a one-dimensional integral over u
(`cavity.likelihoods.scale_integral`): evidence, and the moments that a projection matches.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from cavity._numba.arrays import declare
from cavity._numba.jit import jit
from cavity._numba.numerics import fast_exp, fast_log_pair
from cavity._numba.simd import WIDTH, load8, ramp8, require_whole, splat8, store8, sum8
from cavity._numba.slots import Eight
from cavity.conjugate.niw import mahalanobis, rank_one
from cavity.interface import bounds, evidence, follow_df, log_likelihood, pick, project
from cavity.likelihoods.gaussian import total_log_student_t
from cavity.likelihoods.scale_integral import (
    BOUND,
    FEW_PROJECT,
    LOG_ALPHA,
    LOW,
    MORE_PROJECT,
    N_CONSTANTS,
    N_GAUSS,
    PROJECTION_TOLERANCE,
    RISE,
    SCORE_TOLERANCE,
    SHAPE,
    STEP,
    bounds_of_integral,
    gauss_places,
    is_steep,
    log_integral,
    set_rule,
    steadied,
    window,
)
from cavity.likelihoods.selection import draw_by_bounds


class StudentT(NamedTuple):
    """Data, degrees of freedom and the quadrature rules they imply."""

    y: np.ndarray  # (n, d)
    alpha: np.ndarray  # (slots,), half the degrees of freedom
    score_rule: np.ndarray  # (constants, slots)
    score_nodes: np.ndarray  # (slots, nodes and weights of Gauss' rules)
    project_rule: np.ndarray  # (constants, slots)
    project_nodes: np.ndarray  # (slots, nodes and weights)
    delta: np.ndarray  # (slots,), distances of the observation scored last
    fraction: float  # of power EP, which the projection is asked for


declare(
    StudentT,
    slots={
        "alpha": 0,
        "score_rule": 1,
        "score_nodes": 0,
        "project_rule": 1,
        "project_nodes": 0,
        "delta": 0,
    },
    constant=("y", "delta"),
)


def student_t(y: np.ndarray, alpha: np.ndarray, fraction: float = 1.0) -> StudentT:
    """Model with one value of alpha (half the degrees of freedom) per slot.

    The number of slots is a multiple of eight.

    ``fraction`` is the power-EP fraction that the projection will be asked for.
    """
    n_slots = alpha.size
    require_whole(n_slots)
    model = StudentT(
        y=y,
        alpha=np.array(alpha, dtype=float),
        score_rule=np.zeros((N_CONSTANTS, n_slots)),
        score_nodes=np.zeros((n_slots, N_GAUSS)),
        project_rule=np.zeros((N_CONSTANTS, n_slots)),
        project_nodes=np.zeros((n_slots, N_GAUSS)),
        delta=np.zeros(n_slots),
        fraction=float(fraction),
    )
    set_rules(model)
    return model


def set_rules(model):
    """Bring the quadrature tables in line with the degrees of freedom."""
    d = model.y.shape[1]
    set_rule(model.alpha, d, 1.0, SCORE_TOLERANCE, model.score_rule, model.score_nodes)
    set_rule(
        model.alpha,
        d,
        model.fraction,
        PROJECTION_TOLERANCE,
        model.project_rule,
        model.project_nodes,
    )


follow_df.register(StudentT)(set_rules)


@evidence.register(StudentT)
def _(model, q, k, i):
    d = model.y.shape[1]
    delta = mahalanobis(q, k, model.y[i])
    model.delta[k] = delta
    value = log_integral(
        model.score_rule,
        model.score_nodes,
        k,
        model.alpha[k],
        1.0 / q.kappa[k],
        delta,
        q.nu[k] + 1.0,
        d,
    )
    return q.log_ratio[k] - q.half_log_det[k] + value


@jit(forceinline=True, internal=True)
def set_bounds(q, j, alpha, rule, delta, constant, m, d, most, least):
    """Write bounds of the evidence of eight slots, with m columns missing and d there."""
    above, below = bounds_of_integral(
        load8(most, j),
        delta,
        load8(q.kappa, j),
        load8(alpha, j),
        load8(q.nu, j) + 1.0 - m,
        d,
        load8(rule[SHAPE], j),
        load8(rule[LOG_ALPHA], j),
    )
    constant = constant - load8(q.half_log_det, j) + load8(rule[BOUND], j)
    store8(most, j, constant + above)
    store8(least, j, constant - below)


@bounds.register(StudentT)
def _(model, q, i, most, least):
    d = model.y.shape[1]
    for j in range(0, most.shape[0], WIDTH):
        delta = mahalanobis(q, Eight(j), model.y[i])
        store8(model.delta, j, delta)
        log_ratio = load8(q.log_ratio, j)
        set_bounds(q, j, model.alpha, model.score_rule, delta, log_ratio, 0, d, most, least)


@pick.register(StudentT)
def _(model, q, i, weights, scores, mass, visited, rng):
    return draw_by_bounds(model, q, i, weights, scores, mass, visited, rng)


@jit(forceinline=True, internal=True)
def _tilted_terms(sums, u, weight, exponent, inverse_kappa, slope, power_a, power_b):
    """Add eight nodes to the sums of 1, u/B, u^2/(AB), 1/A, A/B and log(B/A), weighted."""
    total, first, second, inverse, ratio, log_ratio = sums
    a = 1.0 + u * inverse_kappa
    b = 1.0 + u * slope
    log_a, log_b = fast_log_pair(a, b)
    w = weight * fast_exp(exponent + (power_a * log_a - power_b * log_b))
    over = 1.0 / (a * b)
    over_a = b * over
    over_b = w * a * over
    return (
        total + w,
        first + u * over_b,
        second + u * u * over_b * over_a,
        inverse + w * over_a,
        ratio + a * over_b,
        log_ratio + w * (log_b - log_a),
    )


@jit(forceinline=True, internal=True)
def _tilted_sums(rule, nodes, k, alpha, inverse_kappa, delta, n1, d):
    """Sums of the tilted scale's integrand times 1, u/B, u^2/(AB), 1/A, A/B and log(B/A)."""
    power_a = 0.5 * (n1 - d)
    power_b = 0.5 * n1
    slope = inverse_kappa + delta
    rate = alpha + 0.5 * (d * inverse_kappa + n1 * delta)
    s = slope / rate
    zero = splat8(0.0)
    sums = zero, zero, zero, zero, zero, zero
    bend = (rule[SHAPE, k] + 1.5) * n1 * s * s
    start, n = gauss_places(bend, FEW_PROJECT, MORE_PROJECT)
    if n > 0:
        p, steepness = inverse_kappa / rate, 1.0 - alpha / rate
        for j in range(start, start + n, WIDTH):
            x = load8(nodes[k], j)
            weight = load8(nodes[k], j + n)
            sums = _tilted_terms(sums, x, weight, steepness * x, p, s, power_a, power_b)
        total, first, second, inverse, ratio, log_ratio = sums
        first, second = first * (1.0 / rate), second * (1.0 / (rate * rate))
        sums = total, first, second, inverse, ratio, log_ratio
    else:
        log_rate = math.log(rate)
        u0, n = window(rule, k, rate, log_rate)
        begin = rule[SHAPE, k] * rule[LOW, k]
        if is_steep(rule, k, log_rate, n):
            u0, n, begin, _ = steadied(rule, k, n, u0, alpha, inverse_kappa, delta, n1, d)
        rise, step = rule[RISE, k], rule[STEP, k]
        ramp = ramp8() * rise + begin
        u = u0 * fast_exp(ramp8() * step)
        growth = math.exp(WIDTH * step)
        for j in range(0, n, WIDTH):
            exponent = ramp + rise * j - alpha * u
            sums = _tilted_terms(sums, u, 1.0, exponent, inverse_kappa, slope, power_a, power_b)
            u = u * growth
    total, first, second, inverse, ratio, log_ratio = sums
    return sum8(total), sum8(first), sum8(second), sum8(inverse), sum8(ratio), sum8(log_ratio)


@jit(internal=True)
def _centred_digamma(x):
    """``digamma(x) - log(x)`` and ``trigamma(x)``, accurate also where they nearly vanish."""
    sum_inverse = 0.0
    sum_square = 0.0
    y = x
    while y < 10.0:
        r = 1.0 / y
        sum_inverse += r
        sum_square += r * r
        y += 1.0
    r = 1.0 / y
    w = r * r
    value = -0.5 * r - w * (
        1.0 / 12.0
        - w
        * (
            1.0 / 120.0
            - w * (1.0 / 252.0 - w * (1.0 / 240.0 - w * (1.0 / 132.0 - w * 691.0 / 32760.0)))
        )
    )
    slope = (
        r
        + 0.5 * w
        + r
        * w
        * (
            1.0 / 6.0
            - w
            * (
                1.0 / 30.0
                - w * (1.0 / 42.0 - w * (1.0 / 30.0 - w * (5.0 / 66.0 - w * 691.0 / 2730.0)))
            )
        )
    )
    if y > x:
        value += math.log(y / x) - sum_inverse
        slope += sum_square
    return value, slope


@jit(internal=True)
def expected_log_gap(nu, d):
    """g(nu) = sum_j digamma((nu-j)/2) - d log(nu/2) over j < d, and its derivative.

    By the duplication formula a pair of neighbours is one digamma at nu - j - 1, and pairs are
    linked by the recurrence; an odd d leaves one more. Every term is kept relative to log(nu),
    so the differences that the projection solves for survive at large nu.
    """
    value = 0.0
    slope = -d / nu
    pairs = d // 2
    if pairs > 0:
        x = nu - 2.0 * pairs + 1.0
        gap, tri = _centred_digamma(x)
        gap += math.log1p((x - nu) / nu)
        for pair in range(pairs):
            value += 2.0 * gap
            slope += 2.0 * tri
            if pair < pairs - 1:
                r0, r1 = 1.0 / x, 1.0 / (x + 1.0)
                gap += r0 + r1
                tri -= r0 * r0 + r1 * r1
                x += 2.0
    if d % 2 == 1:
        x = nu - d + 1.0
        gap, tri = _centred_digamma(0.5 * x)
        value += gap + math.log1p((x - nu) / nu)
        slope += 0.5 * tri
    return value, slope


@jit(internal=True)
def _solve_near(n1, d, drop):
    """``solve_degrees`` for large n1, by one step of second order; its error is below 1e-12.

    In x = 1/nu the function G(x) = g(1/x) is so nearly linear that its third derivative does
    not matter; the derivatives are asymptotic series of trigamma and tetragamma functions.
    """
    slope = -d / n1
    curvature = d / (n1 * n1)
    for j in range(d):
        r = 2.0 / (n1 - j)
        w = r * r
        slope += 0.5 * (r + 0.5 * w + r * w * (1.0 / 6.0 - w / 30.0))
        curvature -= 0.25 * (w + r * w + w * w * (0.5 - w / 6.0))
    # dG/dx = -nu^2 g', d2G/dx2 = nu^4 g'' + 2 nu^3 g'.
    change = drop / (n1 * n1 * slope)
    bend = -(n1 * n1 * curvature + 2.0 * n1 * slope) / slope
    return n1 / (1.0 + n1 * (change - 0.5 * bend * change * change))


@jit(internal=True)
def solve_degrees(n1, d, drop):
    """The nu <= n1 with g(nu) = g(n1) - drop: Newton's method in 1/nu, where g is near linear."""
    if not drop > 0.0:
        return n1
    if n1 > 400.0 + 4.0 * d * d and drop * n1 < 0.5:
        return _solve_near(n1, d, drop)
    start, slope = expected_log_gap(n1, d)
    goal = start - drop
    nu = n1 / (1.0 + drop / (n1 * slope))
    for _ in range(50):
        if nu <= d - 1.0 + 1e-10:
            nu = d - 1.0 + 1e-10 + 1e-3 * (n1 - d + 1.0)
        value, slope = expected_log_gap(nu, d)
        step = (value - goal) / (nu * slope)
        proposal = nu / (1.0 + step) if step > -0.9 else 2.0 * nu
        if proposal <= d - 1.0:
            proposal = 0.5 * (nu + d - 1.0)
        proposal = min(proposal, n1)
        change = abs(proposal - nu)
        nu = proposal
        if change <= 1e-13 * nu or abs(step) < 1e-9:
            break
    return nu


@project.register(StudentT)
def _(model, q, k, i, fraction):
    d = model.y.shape[1]
    delta = mahalanobis(q, k, model.y[i])
    inverse_kappa = 1.0 / q.kappa[k]
    n1 = q.nu[k] + fraction
    total, first, second, inverse, ratio, log_ratio = _tilted_sums(
        model.project_rule,
        model.project_nodes,
        k,
        model.alpha[k],
        inverse_kappa,
        delta,
        n1,
        d,
    )
    norm = 1.0 / total
    weight = first * norm  # E[c q]
    kept = ratio * norm  # E[q]
    pull = weight * inverse_kappa  # E[r q]
    shift = pull / kept
    second_pull = second * norm * inverse_kappa * inverse_kappa  # E[r^2 q]
    kappa = d / (n1 * delta * (second_pull - pull * shift) + d * inverse * norm * inverse_kappa)
    nu = solve_degrees(n1, d, log_ratio * norm + math.log(kept))
    rank_one(q, k, kappa, nu, shift, nu / n1, weight / kept, model.y[i])


@log_likelihood.register(StudentT)
def _(model, parameters, z):
    return total_log_student_t(model.y, parameters, model.alpha, z)
