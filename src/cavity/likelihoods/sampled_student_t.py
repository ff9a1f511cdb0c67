"""Student-t observations whose scale variables are sampled with their labels.

y_i ~ N(mean_k, Sigma_k / u_i) with u_i ~ Gamma(alpha, alpha): given all scales every cluster is
conjugate. A label is drawn with the observation's own scale integrated out, by the same integral
that expectation propagation has, and the scale is then drawn exactly given the label
(`docs/maths.md`). Nothing is approximated.

The density of the scale against a slot NIW(m, kappa, nu, Psi) is

    f(u) ~ u^(a-1) exp(-alpha u) F(u),   a = alpha + d/2,
    -log F(u) = H(u) = (n1 log B - (n1 - d) log A) / 2,  A = 1 + u/kappa,  B = A + u delta,

with n1 = nu + 1. In clusters of more than a few members f is nearly a gamma density, and one of a
little less rate bounds it but for its tail (`likelihoods.scale_integral` on G). In general: F is
a mixture of exponentials exp(-s u), so H is concave and grows from 0: for any U, H(u) is at least
H(U) u / U below U and at least H(U) beyond. Two gammas bound f. Far outliers in small clusters have
a density that is a power of u over many orders of magnitude; there H's chords over pieces of log u
bound it.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from cavity._numba.arrays import declare
from cavity._numba.jit import jit
from cavity._numba.numerics import fast_exp, fast_log, fast_log_pair
from cavity._numba.simd import require_whole
from cavity._numba.slots import take
from cavity.conjugate.niw import mahalanobis
from cavity.interface import (
    accumulate,
    auxiliary,
    bounds,
    complete,
    evidence,
    follow_df,
    log_density,
    log_likelihood,
    observe,
    pick,
    set_auxiliary,
    shift_own,
    weigh,
)
from cavity.likelihoods.gaussian import (
    ScaledGaussian,
    first_scales,
    log_scale,
    set_log_norms,
    student_t_tail,
)
from cavity.likelihoods.scale_integral import (
    N_CONSTANTS,
    N_GAUSS,
    REACH,
    SCORE_TOLERANCE,
    TAIL,
    reach_and_tail,
    set_rule,
)
from cavity.likelihoods.selection import side_by_side
from cavity.likelihoods.student_t import StudentT

_EDGES = 8
_FIRST_TRIES = 10
_FEW_TRIES = 30
_MOST_PIECES = 4000
# So many refusals mean numbers that are none.
_MOST_TRIES = 10_000


class SampledStudentT(NamedTuple):
    """Data, degrees of freedom with their quadrature rule, and the scale of every observation."""

    y: np.ndarray  # (n, d)
    alpha: np.ndarray  # (slots,), half the degrees of freedom
    score_rule: np.ndarray  # (constants, slots)
    score_nodes: np.ndarray  # (slots, nodes and weights of Gauss' rules)
    delta: np.ndarray  # (slots,), distances of the observation scored last
    scale: np.ndarray  # (n,)


declare(
    SampledStudentT,
    slots={"alpha": 0, "score_rule": 1, "score_nodes": 0, "delta": 0},
    constant=("y", "delta"),
)


class MarginalStudentT(NamedTuple):
    """Data for a sampler that conditions on cluster parameters: the density in closed form."""

    y: np.ndarray  # (n, d)
    alpha: np.ndarray  # (slots,)
    log_norm: np.ndarray  # (slots,), the density's constant
    scale: np.ndarray  # (n,), given which cluster parameters are drawn


declare(MarginalStudentT, slots={"alpha": 0, "log_norm": 0}, constant=("y",))


def sampled_student_t(y: np.ndarray, alpha: np.ndarray) -> SampledStudentT:
    """Model with its first scales; alpha has a multiple of eight slots."""
    n_slots = alpha.size
    require_whole(n_slots)
    model = SampledStudentT(
        y=y,
        alpha=np.array(alpha, dtype=float),
        score_rule=np.zeros((N_CONSTANTS, n_slots)),
        score_nodes=np.zeros((n_slots, N_GAUSS)),
        delta=np.zeros(n_slots),
        scale=first_scales(y, float(alpha[0])),
    )
    set_score_rule(model)
    return model


def set_score_rule(model):
    """Bring the quadrature table in line with the degrees of freedom."""
    d = model.y.shape[1]
    set_rule(model.alpha, d, 1.0, SCORE_TOLERANCE, model.score_rule, model.score_nodes)


follow_df.register(SampledStudentT)(set_score_rule)


@follow_df.register(MarginalStudentT)
def _(model):
    set_log_norms(model.alpha, model.y.shape[1], model.log_norm)


def marginal_student_t(y: np.ndarray, alpha: np.ndarray) -> MarginalStudentT:
    """Model with every scale at one; alpha has a multiple of eight slots."""
    n, d = y.shape
    require_whole(alpha.size)
    model = MarginalStudentT(y, np.array(alpha, dtype=float), np.zeros(alpha.size), np.ones(n))
    set_log_norms(model.alpha, d, model.log_norm)
    return model


# What both share with the models that they are made of.
for _verb in (evidence, bounds, pick, log_likelihood):
    _verb.register(SampledStudentT)(_verb.verb.implementations[StudentT])
for _verb in (observe, accumulate):
    _verb.register(SampledStudentT)(_verb.verb.implementations[ScaledGaussian])
accumulate.register(MarginalStudentT)(accumulate.verb.implementations[ScaledGaussian])
log_likelihood.register(MarginalStudentT)(log_likelihood.verb.implementations[StudentT])


class _Shape(NamedTuple):
    """What the density of a scale depends on."""

    alpha: float
    a: float
    inverse_kappa: float
    slope: float  # 1/kappa + delta
    n1: float
    d: int


@jit(forceinline=True, internal=True)
def _height(u, f):
    """H(u)."""
    near = (f.n1 - f.d) * math.log1p(u * f.inverse_kappa)
    return 0.5 * (f.n1 * math.log1p(u * f.slope) - near)


@jit(forceinline=True, internal=True)
def _fast_height(u, f):
    """H(u), off by no more than n1 roundings of a number near one."""
    near, far = fast_log_pair(1.0 + u * f.inverse_kappa, 1.0 + u * f.slope)
    return 0.5 * (f.n1 * far - (f.n1 - f.d) * near)


@jit
def draw_scale(alpha, d, kappa, nu, delta, rng):
    """Draw u from f exactly."""
    a = alpha + 0.5 * d
    reach, tail = reach_and_tail(a)
    return draw_scale_of_shape(alpha, a, d, kappa, nu + 1.0, delta, reach, tail, rng)


@jit(internal=True)
def draw_scale_of_shape(alpha, a, d, kappa, n1, delta, reach, tail, rng):
    """``draw_scale`` for a density of any shape a, whose H has any n1.

    By rejection: from one gamma, from two that join at an edge, first at one that does for most
    observations, then at the best of some, or from many pieces. Each way is exact and is given up
    after a number of tries that is fixed, so the draw is exact too.
    """
    u = _by_one_gamma(alpha, a, d, kappa, n1, delta, reach, tail, rng)
    if u > 0.0:
        return u
    inverse_kappa = 1.0 / kappa
    f = _Shape(alpha, a, inverse_kappa, inverse_kappa + delta, n1, d)
    far = f.a + 2.0 * math.sqrt(f.a)
    edge = far / (alpha + 0.5 * (d * inverse_kappa + n1 * delta))
    u = _by_two_gammas(f, 2.0 * edge, _FIRST_TRIES, rng)
    if not u > 0.0:
        u = _by_two_gammas(f, _best_edge(f, edge, far), _FEW_TRIES, rng)
    return u if u > 0.0 else _by_pieces(f, rng)


@jit(forceinline=True, internal=True)
def _by_one_gamma(alpha, a, d, kappa, n1, delta, reach, tail, rng):
    """A draw by a gamma and an exponential tail, or -1 after some refusals, or if it would not do.

    In x = rate u the density is x^(a-1) exp(-x) G(x), and log G is at most bend x^2 / 4. Up to X,
    the `reach`, that is at most c x with c = bend X / 4: a gamma of rate 1 - c. Beyond, F is at
    most F(X), and x^(a-1) exp(-beta x) is below an exponential of rate `fall`, beta being alpha
    over the rate. Polynomials decide nearly all draws.
    """
    p = 1.0 / (kappa * alpha + 0.5 * (d + n1 * kappa * delta))
    s = (1.0 + kappa * delta) * p
    bend = n1 * s * s
    c = 0.25 * bend * reach
    above = c * reach
    fall = alpha * kappa * p - max(a - 1.0, 0.0) / reach
    if not (c < 0.25 and above < 2.0 and fall > 0.05):
        return -1.0
    # G(X) is at most exp(above), and that at most 1 / most.
    most = (1.0 - 0.25 * above) * (1.0 - 0.25 * above)
    most *= most
    beyond = tail / (most * fall)
    cubic = n1 * s * s * s * (1.0 / 6.0)
    square = 0.25 * (bend - (n1 - d) * p * p)
    for _ in range(_FIRST_TRIES):
        uniform = rng.random()
        if uniform * (1.0 + beyond) >= 1.0:
            # The gamma has more than its share: (1 - c)^-a to `beyond`.
            weight = fast_exp(-a * fast_log(1.0 - c))
            if uniform * (weight + beyond) >= weight:
                further = -math.log1p(-rng.random()) / fall
                x = reach + further
                value = (a - 1.0) * math.log(x / reach) - further + _log_g(x, p, s, n1, d)
                if rng.random() <= most * math.exp(value + fall * further):
                    return x * kappa * p
                continue
        x = rng.standard_gamma(a) / (1.0 - c)
        if x > reach:
            continue
        # log G from below by its series, exp by its own.
        uniform = rng.random()
        t = x * (x * (square - x * cubic) - c)
        if uniform <= 1.0 + t * (1.0 + t * (0.5 + t * (1.0 / 6.0))):
            return x * kappa * p
        if uniform <= math.exp(_log_g(x, p, s, n1, d) - c * x):
            return x * kappa * p
    return -1.0


@jit(internal=True)
def _log_g(x, p, s, n1, d):
    """Logarithm of G(x), which is how far the density is from a gamma's."""
    near = (n1 - d) * (p * x - math.log1p(p * x))
    return 0.5 * (n1 * (s * x - math.log1p(s * x)) - near)


@jit(internal=True)
def _best_edge(f, edge, reach):
    """The edge that makes the envelope smallest, of a few."""
    log_alpha = math.log(f.alpha)
    best = math.inf
    chosen = edge
    for _ in range(_EDGES):
        height = _height(edge, f)
        # Logarithms of the gammas' weights: rate^-a and alpha^-a exp(-H).
        near = -f.a * math.log(f.alpha + height / edge)
        far = -f.a * log_alpha - height
        size = max(near, far) + math.log1p(math.exp(-abs(near - far)))
        if size < best:
            best = size
            chosen = edge
        edge *= 4.0
        if edge * f.alpha > 4.0 * reach:
            break
    return chosen


@jit(internal=True)
def _by_two_gammas(f, edge, n_tries, rng):
    """A draw by the two gammas that join at `edge`, or -1 after some refusals."""
    a = f.a
    height = _fast_height(edge, f)
    chord = height / edge
    rate = f.alpha + chord
    below = 1.0 / (1.0 + fast_exp(a * fast_log(rate / f.alpha) - height))
    for _ in range(n_tries):
        if rng.random() < below:
            u = rng.standard_gamma(a) / rate
            bound = chord * u
            inside = u <= edge
        else:
            u = rng.standard_gamma(a) / f.alpha
            bound = height
            inside = u > edge
        if inside and u > 0.0 and rng.random() <= fast_exp(bound - _fast_height(u, f)):
            return u
    return -1.0


@jit(internal=True)
def _piece(low, high, f):
    """Log of the largest value, over a piece of log u, of the density with H's chord for H."""
    u0 = math.exp(low)
    u1 = math.exp(high)
    h0 = _height(u0, f)
    steepness = max((_height(u1, f) - h0) / (u1 - u0), 0.0)
    rate = f.alpha + steepness
    top = min(max(math.log(f.a / rate), low), high)
    return f.a * top - rate * math.exp(top) + steepness * u0 - h0


@jit(internal=True)
def _by_pieces(f, rng):
    """Rejection from an envelope that is constant on pieces of log u, with two tails."""
    a = f.a
    rate = f.alpha + 0.5 * (f.d * f.inverse_kappa + f.n1 * (f.slope - f.inverse_kappa))
    low = math.log(min(a, 1.0) / rate) - 3.0
    high = math.log((a + 6.0 * math.sqrt(a) + 10.0) / f.alpha)
    width = min(0.35, 1.5 / math.sqrt(a + 0.5 * f.n1))
    n = min(max(int((high - low) / width) + 1, 1), _MOST_PIECES)
    width = (high - low) / n
    edge = math.exp(high)
    fall = f.alpha - max(a - 1.0, 0.0) / edge
    # Below the pieces u^(a-1); beyond them the gamma's tail under an exponential.
    head = a * low - math.log(a)
    tail = (a - 1.0) * high - f.alpha * edge - _height(edge, f) - math.log(fall)
    top = max(head, tail)
    for j in range(n):
        top = max(top, _piece(low + j * width, low + (j + 1) * width, f) + math.log(width))
    total = math.exp(head - top) + math.exp(tail - top)
    for j in range(n):
        total += width * math.exp(_piece(low + j * width, low + (j + 1) * width, f) - top)
    for _ in range(_MOST_TRIES):
        target = rng.random() * total
        target -= math.exp(head - top)
        if target < 0.0:
            u = math.exp(low) * rng.random() ** (1.0 / a)
            if u > 0.0 and rng.random() <= math.exp(-f.alpha * u - _height(u, f)):
                return u
            continue
        target -= math.exp(tail - top)
        if target < 0.0:
            u = edge - math.log1p(-rng.random()) / fall
            bound = (a - 1.0) * high - f.alpha * edge - fall * (u - edge) - _height(edge, f)
            value = (a - 1.0) * math.log(u) - f.alpha * u - _height(u, f)
            if rng.random() <= math.exp(value - bound):
                return u
            continue
        for j in range(n):
            height = _piece(low + j * width, low + (j + 1) * width, f)
            target -= width * math.exp(height - top)
            if target < 0.0 or j == n - 1:
                x = low + (j + rng.random()) * width
                u = math.exp(x)
                if rng.random() <= math.exp(a * x - f.alpha * u - _height(u, f) - height):
                    return u
                break
    return a / rate


@complete.register(SampledStudentT)
def _(model, q, k, i, rng):
    d = model.y.shape[1]
    alpha, rule = model.alpha[k], model.score_rule
    model.scale[i] = draw_scale_of_shape(
        alpha,
        alpha + 0.5 * d,
        d,
        q.kappa[k],
        q.nu[k] + 1.0,
        model.delta[k],
        rule[REACH, k],
        rule[TAIL, k],
        rng,
    )


@weigh.register(SampledStudentT)
def _(model, q, k, i):
    # The evidence given the scale; what is the same in every slot is left out.
    d = model.y.shape[1]
    u, kappa = model.scale[i], q.kappa[k]
    share = kappa / (kappa + u)
    near, far = fast_log_pair(share, 1.0 + share * u * mahalanobis(q, k, model.y[i]))
    return q.log_ratio[k] - q.half_log_det[k] + 0.5 * (d * near - (q.nu[k] + 1.0) * far)


@jit(internal=True)
def shift_scale(u, w, old, new, d):
    """Log density of the sum u of w scales by half the degrees of freedom `new` over `old`."""
    if old == new:
        return 0.0
    return log_scale(u, w, new, d) - log_scale(u, w, old, d)


@shift_own.register(SampledStudentT)
def _(model, q, i, old, new):
    d = model.y.shape[1]
    return shift_scale(model.scale[i], 1.0, model.alpha[old], model.alpha[new], d)


@auxiliary.register(SampledStudentT)
def _(model, i, out):
    out[0] = model.scale[i]


@set_auxiliary.register(SampledStudentT)
def _(model, i, values):
    model.scale[i] = values[0]


side_by_side(MarginalStudentT)


@log_density.register(MarginalStudentT)
def _(model, parameters, k, i):
    delta = mahalanobis(parameters, k, model.y[i])
    tail = student_t_tail(delta, take(k, model.alpha), model.y.shape[1])
    return take(k, model.log_norm) - take(k, parameters.half_log_det) - tail
