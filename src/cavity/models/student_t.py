"""Multivariate Student-t observations with a normal-inverse-Wishart approximation.

y_i ~ t_df(mean_k, Sigma_k), a Gaussian with scale u ~ Gamma(alpha, alpha), alpha = df/2. Against
a cavity NIW(m, kappa, nu, Psi) everything is a one-dimensional integral over u:

    score = const + log I,   I = integral of u^(a-1) exp(-alpha u) F(u) du,   a = alpha + d/2,
    F(u)  = A^((n1-d)/2) B^(-n1/2),  A = 1 + u/kappa,  B = 1 + u/kappa + u delta,  n1 = nu + 1,

with delta the Mahalanobis distance under Psi. F is completely monotone, hence a mixture of
exp(-s u); so the trapezoid rule in log u has the relative error of the gamma function's Fourier
transform whatever kappa, nu and delta are, and the window's ends follow from gamma tails.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from cavity.core.arrays import declare
from cavity.core.compile import jit
from cavity.core.lanes import WIDTH, load8, ramp8, require_whole, select, splat8, store8, sum8
from cavity.core.numerics import ROUGH, fast_exp, fast_log_pair, rough_log
from cavity.families.normal_inverse_wishart import mahalanobis, mahalanobis8, rank_one
from cavity.models.scaled_gaussian import total_log_student_t
from cavity.models.selection import draw_by_bounds
from cavity.verbs import bounds, evidence, log_likelihood, pick, project

_LOG_PI = math.log(math.pi)

# Rows of the table of quadrature constants.
SHAPE, STEP, RISE, LOW, U_LOW, HIGH, BASE, BOUND, LOG_ALPHA = range(9)
N_CONSTANTS = 9
N_NODES = 512
SCORE_TOLERANCE = 1.5e-9
PROJECTION_TOLERANCE = 1.5e-10


class StudentT(NamedTuple):
    """Data, degrees of freedom and the quadrature rules they imply."""

    y: np.ndarray  # (n, d)
    alpha: np.ndarray  # (slots,), half the degrees of freedom
    score_rule: np.ndarray  # (constants, slots)
    score_grid: np.ndarray  # (slots, nodes), exp(step * j)
    project_rule: np.ndarray  # (constants, slots)
    project_grid: np.ndarray  # (slots, nodes)
    residual: np.ndarray  # (d, 8)


declare(
    StudentT,
    slots={
        "alpha": 0,
        "score_rule": 1,
        "score_grid": 0,
        "project_rule": 1,
        "project_grid": 0,
    },
    constant=("y",),
)


def student_t(y: np.ndarray, alpha: np.ndarray, fraction: float = 1.0) -> StudentT:
    """Model with one value of alpha (half the degrees of freedom) per slot.

    The number of slots is a multiple of eight.

    ``fraction`` is the power-EP fraction that the projection will be asked for.
    """
    d = y.shape[1]
    n_slots = alpha.size
    require_whole(n_slots)
    model = StudentT(
        y=y,
        alpha=np.array(alpha, dtype=float),
        score_rule=np.zeros((N_CONSTANTS, n_slots)),
        score_grid=np.zeros((n_slots, N_NODES)),
        project_rule=np.zeros((N_CONSTANTS, n_slots)),
        project_grid=np.zeros((n_slots, N_NODES)),
        residual=np.zeros((d, WIDTH)),
    )
    set_rules(model, fraction)
    return model


@jit(internal=True)
def _log_abs_gamma(a, y):
    """Logarithm of ``|Gamma(a + i y)|``, by Stirling's series after a shift upwards."""
    shift = 0.0
    while a < 8.0:
        shift -= 0.5 * math.log(a * a + y * y)
        a += 1.0
    log_modulus = 0.5 * math.log(a * a + y * y)
    return (
        shift
        + (a - 0.5) * log_modulus
        - y * math.atan2(y, a)
        - a
        + 0.5 * math.log(2.0 * math.pi)
        + a / (12.0 * (a * a + y * y))
    )


@jit(internal=True)
def quadrature_rule(alpha, a, d, tolerance, rule, k):
    """Step, window and constants of the trapezoid rule for one shape a of the integrand.

    The step h makes 2 |Gamma(a + 2 pi i / h)| / Gamma(a) the tolerance; the lower end cuts off
    at most a fraction `tolerance` of any integrand, as does the upper one.
    """
    log_tolerance = math.log(tolerance)
    goal = log_tolerance - math.log(2.0) + math.lgamma(a)
    low, high = 0.1, 200.0 + 20.0 * a
    for _ in range(60):
        middle = 0.5 * (low + high)
        if _log_abs_gamma(a, middle) > goal:
            low = middle
        else:
            high = middle
    step = 2.0 * math.pi / high
    # Upper end x = alpha u with gamma tail below the tolerance, by fixed-point iteration on
    # the bound  Q(a, x) <= x^(a-1) exp(-x) / (Gamma(a) (1 - (a-1)/x)).
    x = a - log_tolerance + 2.0 * math.sqrt(-a * log_tolerance)
    for _ in range(30):
        slack = max(1.0 - (a - 1.0) / x, 0.05)
        x = max((a - 1.0) * math.log(x) - math.lgamma(a) - log_tolerance - math.log(slack), a + 1.0)
    rule[SHAPE, k] = a
    rule[STEP, k] = step
    rule[RISE, k] = a * step
    rule[LOW, k] = (log_tolerance + math.lgamma(a + 1.0)) / a
    rule[U_LOW, k] = math.exp(rule[LOW, k])
    rule[HIGH, k] = math.log(x / alpha)
    constant = alpha * math.log(alpha) - math.lgamma(alpha) - 0.5 * d * _LOG_PI
    rule[BASE, k] = constant + math.log(step)
    rule[BOUND, k] = constant + math.lgamma(a)
    rule[LOG_ALPHA, k] = math.log(alpha)


@jit
def set_rule(alpha, d, fraction, tolerance, rule, grid):
    """Fill one quadrature table for these degrees of freedom and a power of the likelihood."""
    for k in range(alpha.shape[0]):
        if k > 0 and alpha[k] == alpha[k - 1]:
            for j in range(N_CONSTANTS):
                rule[j, k] = rule[j, k - 1]
            for j in range(grid.shape[1]):
                grid[k, j] = grid[k - 1, j]
            continue
        a = (alpha[k] + 0.5 * d) * fraction
        quadrature_rule(alpha[k], a, d, tolerance, rule, k)
        for j in range(grid.shape[1]):
            grid[k, j] = math.exp(rule[STEP, k] * j)


def set_rules(model: StudentT, fraction: float) -> None:
    """Bring the quadrature tables in line with the degrees of freedom."""
    d = model.y.shape[1]
    set_rule(model.alpha, d, 1.0, SCORE_TOLERANCE, model.score_rule, model.score_grid)
    set_rule(model.alpha, d, fraction, PROJECTION_TOLERANCE, model.project_rule, model.project_grid)


@jit(forceinline=True, internal=True)
def window(rule, k, rate):
    """Lowest node and number of nodes (a multiple of 8) for an integrand of this initial rate."""
    log_rate = math.log(rate)
    span = rule[HIGH, k] - rule[LOW, k] + log_rate
    n = (int(span / rule[STEP, k]) + 8) // 8 * 8
    return log_rate, rule[U_LOW, k] / rate, max(n, 8)


@jit(forceinline=True, internal=True)
def is_steep(rule, k, log_rate, n, n_max):
    """Whether the integrand may overflow or needs more nodes than there are.

    It is at most Gamma(a) (rate / alpha)^a in the units of the sum. Far outliers under many
    degrees of freedom get there; the common case pays one comparison.
    """
    height = rule[SHAPE, k] * (log_rate - rule[LOG_ALPHA, k]) + rule[BOUND, k] - rule[BASE, k]
    return n > n_max or height > 650.0


@jit(internal=True)
def steadied(rule, k, n, n_max, u0, alpha, inverse_kappa, delta, n1, d):
    """Lowest node, number of nodes, start of the exponent and its height at the top.

    With more nodes than there is room for, those around the top are kept: at the steps that
    call for so many, the rest of the window holds nothing.
    """
    best, height = 0, -math.inf
    start = rule[SHAPE, k] * rule[LOW, k]
    for j in range(n):
        u = u0 * math.exp(rule[STEP, k] * j)
        value = start + rule[RISE, k] * j - alpha * u
        value += 0.5 * (n1 - d) * math.log1p(u * inverse_kappa)
        value -= 0.5 * n1 * math.log1p(u * (inverse_kappa + delta))
        if value > height:
            best, height = j, value
    first = min(max(best - n_max // 2, 0), max(n - n_max, 0))
    u0 *= math.exp(rule[STEP, k] * first)
    return u0, min(n, n_max), start + rule[RISE, k] * first - height, height


@jit(forceinline=True, internal=True)
def _integral(grid, n, u0, start, rise, alpha, inverse_kappa, delta, n1, d):
    """Sum of the integrand over n nodes (a multiple of 8), eight at a time."""
    power_a = 0.5 * (n1 - d)
    power_b = 0.5 * n1
    slope = inverse_kappa + delta
    ramp = ramp8() * rise + start
    total = splat8(0.0)
    for j in range(0, n, WIDTH):
        u = u0 * load8(grid, j)
        log_a, log_b = fast_log_pair(1.0 + u * inverse_kappa, 1.0 + u * slope)
        total = total + fast_exp(ramp + rise * j - alpha * u + (power_a * log_a - power_b * log_b))
    return sum8(total)


@evidence.register(StudentT)
def _(model, q, k, i):
    d = model.y.shape[1]
    delta = mahalanobis(q, k, model.y[i])
    alpha = model.alpha[k]
    inverse_kappa = 1.0 / q.kappa[k]
    n1 = q.nu[k] + 1.0
    rule = model.score_rule
    shape = rule[SHAPE, k]
    rate = alpha + 0.5 * (d * inverse_kappa + n1 * delta)
    n_max = model.score_grid.shape[1]
    log_rate, u0, n = window(rule, k, rate)
    start, height = shape * rule[LOW, k], 0.0
    if is_steep(rule, k, log_rate, n, n_max):
        u0, n, start, height = steadied(rule, k, n, n_max, u0, alpha, inverse_kappa, delta, n1, d)
    total = _integral(
        model.score_grid[k],
        n,
        u0,
        start,
        rule[RISE, k],
        alpha,
        inverse_kappa,
        delta,
        n1,
        d,
    )
    constant = q.log_ratio[k] - q.half_log_det[k] + rule[BASE, k] + height
    return constant - shape * log_rate + math.log(total)


@jit(forceinline=True, internal=True)
def bounds_of_integral(delta, kappa, alpha, n1, d, shape, log_alpha):
    """Upper bound of log I / Gamma(a) for eight slots, and minus a lower bound.

    -log F is concave in u: above its chord on [0, U], and above its value at U beyond. Hence
    I <= Gamma(a) [ (alpha + H/U)^-a + alpha^-a exp(-H) ] with H = -log F(U), for any U. From below:
    F(u) is an average of exp(-s u) with mean s = -F'(0), and Jensen's inequality. Logarithms are
    rough, each on the safe side.
    """
    # U = 1, or 2 / delta if that is less; one division gives U and 1 / kappa.
    per_reach = select(delta > 2.0, 0.5 * delta, 1.0)
    both = 1.0 / (per_reach * kappa)
    reach = both * kappa
    inverse_kappa = both * per_reach
    a = 1.0 + reach * inverse_kappa
    most = (1.0 + ROUGH) * (n1 - d) * rough_log(a)
    height = 0.5 * ((1.0 - ROUGH) * n1 * rough_log(a + reach * delta) - most)
    height = select(height < 0.0, 0.0, height)
    rate = alpha + 0.5 * (d * inverse_kappa + n1 * delta)
    near = shape * (rough_log(alpha + height * per_reach) - ROUGH)
    far = shape * log_alpha + height
    # -log(exp(-near) + exp(-far)) >= low - min(log 2, exp(-gap)), and the series of exp(gap)
    # bounds exp(-gap).
    larger = near > far
    low = select(larger, far, near)
    gap = select(larger, near, far) - low
    slack = 1.0 / (1.0 + gap * (1.0 + gap * (0.5 + gap * (1.0 / 6.0))))
    above = select(slack > 0.6931471805599454, 0.6931471805599454, slack) - low
    return above, shape * (rough_log(rate) + ROUGH)


@bounds.register(StudentT)
def _(model, q, i, most, least):
    d = model.y.shape[1]
    rule = model.score_rule
    for j in range(0, most.shape[0], WIDTH):
        delta = mahalanobis8(q, j, model.y[i], model.residual)
        above, below = bounds_of_integral(
            delta,
            load8(q.kappa, j),
            load8(model.alpha, j),
            load8(q.nu, j) + 1.0,
            d,
            load8(rule[SHAPE], j),
            load8(rule[LOG_ALPHA], j),
        )
        constant = load8(q.log_ratio, j) - load8(q.half_log_det, j) + load8(rule[BOUND], j)
        store8(most, j, constant + above)
        store8(least, j, constant - below)


@pick.register(StudentT)
def _(model, q, i, weights, scores, mass, visited, rng):
    return draw_by_bounds(model, q, i, weights, scores, mass, visited, rng)


@jit(forceinline=True, internal=True)
def _tilted_sums(grid, n, u0, start, rise, alpha, inverse_kappa, delta, n1, d):
    """Weighted sums over the nodes: of 1, u/B, u^2/(AB), 1/A, A/B and log(B/A)."""
    power_a = 0.5 * (n1 - d)
    power_b = 0.5 * n1
    slope = inverse_kappa + delta
    ramp = ramp8() * rise + start
    zero = splat8(0.0)
    total, first, second, inverse, ratio, log_ratio = zero, zero, zero, zero, zero, zero
    for j in range(0, n, WIDTH):
        u = u0 * load8(grid, j)
        a = 1.0 + u * inverse_kappa
        b = 1.0 + u * slope
        log_a, log_b = fast_log_pair(a, b)
        w = fast_exp(ramp + rise * j - alpha * u + (power_a * log_a - power_b * log_b))
        over = 1.0 / (a * b)
        over_a = b * over
        over_b = w * a * over
        total = total + w
        first = first + u * over_b
        second = second + u * u * over_b * over_a
        inverse = inverse + w * over_a
        ratio = ratio + a * over_b
        log_ratio = log_ratio + w * (log_b - log_a)
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
    rule = model.project_rule
    rate = model.alpha[k] + 0.5 * (d * inverse_kappa + n1 * delta)
    n_max = model.project_grid.shape[1]
    log_rate, u0, n = window(rule, k, rate)
    start = rule[SHAPE, k] * rule[LOW, k]
    if is_steep(rule, k, log_rate, n, n_max):
        u0, n, start, _ = steadied(
            rule, k, n, n_max, u0, model.alpha[k], inverse_kappa, delta, n1, d
        )
    total, first, second, inverse, ratio, log_ratio = _tilted_sums(
        model.project_grid[k],
        n,
        u0,
        start,
        rule[RISE, k],
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
