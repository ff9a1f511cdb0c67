"""The one-dimensional integral over an observation's scale, its quadrature and its bounds.

A Gaussian row of scale u ~ Gamma(alpha, alpha) against a slot NIW(m, kappa, nu, Psi) has, up to
constants, the evidence

    I = integral of u^(a-1) exp(-alpha u) F(u) du,   a = alpha + d/2,
    F(u) = A^((n1-d)/2) B^(-n1/2),  A = 1 + u/kappa,  B = 1 + u slope,  slope = 1/kappa + delta,

with n1 = nu + 1 and delta the Mahalanobis distance under Psi. F is completely monotone, a mixture
of exp(-t u) whose mean t is -F'(0); rate = alpha - F'(0). Two quadratures:

* The trapezoid rule in log u. Its relative error is that of the gamma function's Fourier transform
  whatever kappa, nu and delta are, and the window's ends follow from gamma tails.
* In clusters of more than a few members F is nearly exp(-t u): in x = rate u the integrand is
  x^(a-1) exp(-x) times G(x), which is nearly one, and Gauss' rule for that weight needs 8 or 16
  nodes. How far G is from one is up to `bend` = n1 (slope / rate)^2.

Bounds: from below by Jensen's inequality, I >= Gamma(a) rate^-a. From above by `bend`, where that
is small: A is at most exp(u/kappa), and where alpha' = alpha - (n1-d) / (2 kappa) is not negative,
n1 slope / (2 rate) = 1 - alpha'/rate is at most one, so s = slope / rate is at least bend / 2, and
log G <= (bend/2) (s x - log(1 + s x)) / s^2, which falls in s; at s = bend / 2 the integral is a
beta function, and I <= Gamma(a) rate^-a v^a Gamma(v-a) / Gamma(v) with v = 2 / bend. By
digamma(y) > log(y) - 1 / (2 y) - 1 / (12 y^2) the logarithm of the last factors is below
a (a+1) / (2 v (1 - b)) + a / (12 v^2 (1 - b)^2) with b = a/v. Where b is at most 1/2, 1 / (1 - b)
is below 1 + 2 b. There the bound from below is raised by the expectation of log G, with logarithms
by their series.
"""

from __future__ import annotations

import math

from cavity._numba.jit import jit
from cavity._numba.numerics import ROUGH, fast_exp, fast_log_pair, rough_log
from cavity._numba.simd import WIDTH, first8, load8, ramp8, select, splat8, sum8

_LOG_PI = math.log(math.pi)

# Rows of the table of quadrature constants.
SHAPE, STEP, RISE, LOW, U_LOW, HIGH, BASE, BOUND, LOG_ALPHA, REACH, TAIL = range(11)
N_CONSTANTS = 11
# The most nodes of the trapezoid rule.
N_NODES = 512
SCORE_TOLERANCE = 1.5e-9
PROJECTION_TOLERANCE = 1.5e-10
# Gauss' rules: nodes and weights of 8, then of 16.
FEW, MORE = 8, 16
N_GAUSS = 2 * (FEW + MORE)
# Up to these values of (a + 1.5) bend each is as good as the trapezoid rule.
FEW_SERVE, MORE_SERVE = 0.1, 0.3
# The same for projections, which ask for more digits.
FEW_PROJECT, MORE_PROJECT = 0.05, 0.18
# The most that the bound from above by `bend` may exceed Jensen's from below, in nats.
_MOST_SLACK = 1.0


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
def reach_and_tail(a):
    """An X that few gamma variates of shape a exceed, and X^(a-1) exp(-X) / Gamma(a)."""
    reach = a + 4.0 * math.sqrt(a) + 4.0
    return reach, math.exp((a - 1.0) * math.log(reach) - reach - math.lgamma(a))


@jit(internal=True)
def quadrature_rule(alpha, a, d, tolerance, rule, k):
    """Step, window and constants of the trapezoid rule for one shape a of the integrand.

    The step h makes 2 |Gamma(a + 2 pi i / h)| / Gamma(a) the tolerance; the lower end cuts off
    at most a fraction `tolerance` of any integrand, as does the upper one.
    """
    log_tolerance = math.log(tolerance)
    goal = log_tolerance - math.log(2.0) + math.lgamma(a)
    low, high = 0.1, 200.0 + 20.0 * a
    for _ in range(30):
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
    rule[REACH, k], rule[TAIL, k] = reach_and_tail(a)


@jit(internal=True)
def _gauss_rule(a, n, nodes, start):
    """Nodes and weights of Gauss' rule with n nodes for x^(a-1) exp(-x) / Gamma(a).

    The zeros of a Laguerre polynomial from the smallest on, by Newton's method with those found
    divided out: all zeros are real, so that from the left it never oversteps the next one.
    """
    # Below the smallest zero, by two bounds of it.
    x = max(a / n, 2.0 * n + a - 3.0 - math.sqrt(1.0 + 4.0 * (n - 1.0) * (n + a - 2.0)))
    for found in range(n):
        for _ in range(100):
            # The polynomial times n!, by recurrence; its derivative follows from the last two.
            before, value = 0.0, 1.0
            for j in range(n):
                before, value = value, (2.0 * j + a - x) * value - j * (j + a - 1.0) * before
            slope = n * (value - (n + a - 1.0) * before) / x
            for other in range(found):
                slope -= value / (x - nodes[start + other])
            step = value / slope
            x -= step
            if not step < -1e-14 * x:
                break
        before, value = 0.0, 1.0
        for j in range(n - 1):
            before, value = value, (2.0 * j + a - x) * value - j * (j + a - 1.0) * before
        nodes[start + found] = x
        nodes[start + n + found] = x / (value * value)
        x += 0.01 * min(x, math.sqrt(x))
    total = 0.0
    for j in range(n):
        total += nodes[start + n + j]
    for j in range(n):
        nodes[start + n + j] /= total


@jit
def set_rule(alpha, d, fraction, tolerance, rule, nodes):
    """Fill the tables for these degrees of freedom and a power of the likelihood.

    Without columns `nodes` is left alone, and only the trapezoid rule can be asked for.
    """
    for k in range(alpha.shape[0]):
        if k > 0 and alpha[k] == alpha[k - 1]:
            for j in range(N_CONSTANTS):
                rule[j, k] = rule[j, k - 1]
            for j in range(nodes.shape[1]):
                nodes[k, j] = nodes[k - 1, j]
            continue
        a = (alpha[k] + 0.5 * d) * fraction
        quadrature_rule(alpha[k], a, d, tolerance, rule, k)
        if nodes.shape[1] > 0:
            _gauss_rule(a, FEW, nodes[k], 0)
            _gauss_rule(a, MORE, nodes[k], 2 * FEW)


@jit(forceinline=True, internal=True)
def window(rule, k, rate, log_rate):
    """Lowest node and number of nodes (a multiple of 8) for an integrand of this initial rate."""
    span = rule[HIGH, k] - rule[LOW, k] + log_rate
    n = (int(span / rule[STEP, k]) + 8) // 8 * 8
    return rule[U_LOW, k] / rate, max(n, 8)


@jit(forceinline=True, internal=True)
def is_steep(rule, k, log_rate, n):
    """Whether the integrand may overflow or needs more nodes than there are.

    It is at most Gamma(a) (rate / alpha)^a in the units of the sum. Far outliers under many
    degrees of freedom get there; the common case pays one comparison.
    """
    height = rule[SHAPE, k] * (log_rate - rule[LOG_ALPHA, k]) + rule[BOUND, k] - rule[BASE, k]
    return n > N_NODES or height > 650.0


@jit(internal=True)
def steadied(rule, k, n, u0, alpha, inverse_kappa, delta, n1, d):
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
    first = min(max(best - N_NODES // 2, 0), max(n - N_NODES, 0))
    u0 *= math.exp(rule[STEP, k] * first)
    return u0, min(n, N_NODES), start + rule[RISE, k] * first - height, height


@jit(forceinline=True, internal=True)
def gauss_places(bend, few_serve, more_serve):
    """Where nodes that serve begin, and how many they are; none if the trapezoid rule must."""
    if bend <= few_serve:
        return 0, FEW
    return 2 * FEW, MORE if bend <= more_serve else 0


@jit(forceinline=True, internal=True)
def log_integral(rule, nodes, k, alpha, inverse_kappa, delta, n1, d):
    """Log of I, with the factors of a Student-t density that alpha and d alone decide."""
    shape = rule[SHAPE, k]
    slope = inverse_kappa + delta
    rate = alpha + 0.5 * (d * inverse_kappa + n1 * delta)
    log_rate = math.log(rate)
    s = slope / rate
    start, n = gauss_places((shape + 1.5) * n1 * s * s, FEW_SERVE, MORE_SERVE)
    if n > 0 and nodes.shape[1] > 0:
        p, steepness = inverse_kappa / rate, 1.0 - alpha / rate
        total = _gauss_integral(nodes[k], start, n, p, s, steepness, n1, d)
        return rule[BOUND, k] - shape * log_rate + math.log(total)
    u0, n = window(rule, k, rate, log_rate)
    first, height = shape * rule[LOW, k], 0.0
    if is_steep(rule, k, log_rate, n):
        u0, n, first, height = steadied(rule, k, n, u0, alpha, inverse_kappa, delta, n1, d)
    total = _trapezoid(rule, k, n, u0, first, alpha, inverse_kappa, slope, n1, d)
    return rule[BASE, k] + height - shape * log_rate + math.log(total)


@jit(forceinline=True, internal=True)
def _gauss_integral(nodes, start, n, p, s, steepness, n1, d):
    """Expectation of G(x) over Gauss' nodes from `start` on, n of them."""
    power_a = 0.5 * (n1 - d)
    power_b = 0.5 * n1
    total = splat8(0.0)
    for j in range(start, start + n, WIDTH):
        x = load8(nodes, j)
        log_a, log_b = fast_log_pair(1.0 + x * p, 1.0 + x * s)
        weight = load8(nodes, j + n)
        total = total + weight * fast_exp(steepness * x + (power_a * log_a - power_b * log_b))
    return sum8(total)


@jit(forceinline=True, internal=True)
def _trapezoid(rule, k, n, u0, start, alpha, inverse_kappa, slope, n1, d):
    """Sum of the integrand over n nodes (a multiple of 8), eight at a time."""
    power_a = 0.5 * (n1 - d)
    power_b = 0.5 * n1
    rise, step = rule[RISE, k], rule[STEP, k]
    ramp = ramp8() * rise + start
    u = u0 * fast_exp(ramp8() * step)
    growth = math.exp(WIDTH * step)
    total = splat8(0.0)
    for j in range(0, n, WIDTH):
        log_a, log_b = fast_log_pair(1.0 + u * inverse_kappa, 1.0 + u * slope)
        total = total + fast_exp(ramp + rise * j - alpha * u + (power_a * log_a - power_b * log_b))
        u = u * growth
    return sum8(total)


@jit(forceinline=True, internal=True)
def bounds_of_integral(weight, delta, kappa, alpha, n1, d, shape, log_alpha):
    """Upper bound of log I / Gamma(a) for eight slots, and minus a lower bound.

    By `bend` where that will do for every slot of a positive weight, or else as anywhere.
    """
    # Of 1 / (kappa rate), and of the slopes of A and B in x.
    distance = kappa * delta
    scaled = kappa * alpha + 0.5 * (d + n1 * distance)
    both = 1.0 / (kappa * scaled)
    p = kappa * both
    s = (1.0 + distance) * p
    bend = n1 * s * s
    spread = shape * bend
    mean = 0.25 * shape * (shape + 1.0)
    slack = (mean * bend + spread * bend * (1.0 / 24.0)) * (1.0 + spread)
    serves = select(2.0 * alpha * kappa >= n1 - d, slack, 2.0)
    serves = select(1.0 >= spread, serves, 2.0)
    misfit = select(_MOST_SLACK >= select(weight > 0.0, serves, 0.0), 0.0, 1.0)
    if first8(misfit > 0.5) == WIDTH:
        low = shape * rough_log(scaled * scaled * both)
        gain = mean * (bend * (1.0 - (2.0 / 3.0) * (shape + 2.0) * s) - (n1 - d) * p * p)
        above = slack - (low - shape * ROUGH)
        below = low + shape * ROUGH - select(gain > 0.0, gain, 0.0)
    else:
        rate = alpha + 0.5 * (d / kappa + n1 * delta)
        above = _bound_anywhere(delta, kappa, alpha, n1, d, shape, log_alpha)
        below = shape * (rough_log(rate) + ROUGH)
    return above, below


@jit(forceinline=True, internal=True)
def _bound_anywhere(delta, kappa, alpha, n1, d, shape, log_alpha):
    """Upper bound of log I / Gamma(a) for eight slots of any kind.

    -log F is concave in u: above its chord on [0, U], and above its value at U beyond. Hence
    I <= Gamma(a) [ (alpha + H/U)^-a + alpha^-a exp(-H) ] with H = -log F(U), for any U. Logarithms
    are rough, each on the safe side.
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
    near = shape * (rough_log(alpha + height * per_reach) - ROUGH)
    far = shape * log_alpha + height
    # -log(exp(-near) + exp(-far)) >= low - min(log 2, exp(-gap)), and the series of exp(gap)
    # bounds exp(-gap).
    larger = near > far
    low = select(larger, far, near)
    gap = select(larger, near, far) - low
    slack = 1.0 / (1.0 + gap * (1.0 + gap * (0.5 + gap * (1.0 / 6.0))))
    return select(slack > 0.6931471805599454, 0.6931471805599454, slack) - low
