"""Scalar functions for kernels: exponential, logarithm, polygamma functions, small factorisations.

The exponential and logarithm are branch-free polynomials, so a loop over them vectorises; the
builds of Numba that users install carry no vector maths library. Both work on scalars and on
eight lanes at once (`cavity._numba.simd`), and pass NaN through. Accuracy is tested against the
standard library to 1e-14 or better.
"""

from __future__ import annotations

import math

import numpy as np

from cavity._numba.jit import jit
from cavity._numba.simd import bits_float, float_bits, select

_HALF_LOG_2PI = 0.5 * math.log(2.0 * math.pi)
_LOG2E = 1.4426950408889634
_LN2_HIGH = 0.6931471803691238  # trailing zero bits: n * _LN2_HIGH is exact for |n| < 2^20
_LN2_LOW = 1.9082149292705877e-10
# Adding 1.5 * 2^52 rounds a small float to an integer held in the low bits of the sum.
_ROUND = 6755399441055744.0
_ROUND_BITS = 0x4338000000000000
_EXPONENT_BITS = 0x4330000000000000
_TWO52 = 4503599627370496.0


@jit(forceinline=True)
def fast_exp(x):
    """``exp(x)`` without branches; below -708 it returns 0, NaN passes through."""
    y = select(x > 709.0, 709.0, select(x >= -708.0, x, -708.0))
    shifted = y * _LOG2E + _ROUND
    n = shifted - _ROUND
    r = (y - n * _LN2_HIGH) - n * _LN2_LOW
    r2 = r * r
    r4 = r2 * r2
    # Taylor series to r^13 on |r| < 0.35, in Estrin's order for instruction-level parallelism.
    p01 = 1.0 + r
    p23 = 0.5 + r * (1.0 / 6.0)
    p45 = 1.0 / 24.0 + r * (1.0 / 120.0)
    p67 = 1.0 / 720.0 + r * (1.0 / 5040.0)
    p89 = 1.0 / 40320.0 + r * (1.0 / 362880.0)
    pab = 1.0 / 3628800.0 + r * (1.0 / 39916800.0)
    pcd = 1.0 / 479001600.0 + r * (1.0 / 6227020800.0)
    low = (p01 + r2 * p23) + r4 * (p45 + r2 * p67)
    high = (p89 + r2 * pab) + r4 * pcd
    p = low + r4 * r4 * high
    scale = bits_float((float_bits(shifted) - _ROUND_BITS + 1023) << 52)
    result = select(x >= -708.0, p * scale, 0.0)
    return select(x == x, result, x)


@jit(forceinline=True, internal=True)
def _split(x):
    """Exponent n and mantissa less one, f, of a positive normal x = 2^n (1 + f)."""
    # Move the exponent's boundary so that the mantissa lies in [sqrt(1/2), sqrt(2)).
    shifted = float_bits(x) + (0x3FF0000000000000 - 0x3FE6A09E667F3BCD)
    mantissa = (shifted & 0x000FFFFFFFFFFFFF) + 0x3FE6A09E667F3BCD
    n = bits_float((shifted >> 52) | _EXPONENT_BITS) - (_TWO52 + 1023.0)
    return n, bits_float(mantissa) - 1.0


@jit(forceinline=True, internal=True)
def _join(n, s):
    """``n log 2 + 2 atanh(s)``; the series in s^2 <= 0.0295 to order 11."""
    z = s * s
    z2 = z * z
    z4 = z2 * z2
    a = (1.0 / 3.0 + z * 0.2) + z2 * (1.0 / 7.0 + z * (1.0 / 9.0))
    b = (1.0 / 11.0 + z * (1.0 / 13.0)) + z2 * (1.0 / 15.0 + z * (1.0 / 17.0))
    c = 1.0 / 19.0 + z * (1.0 / 21.0)
    tail = z * (a + z4 * (b + z4 * c))
    return n * _LN2_HIGH + (2.0 * s + (2.0 * s * tail + n * _LN2_LOW))


@jit(forceinline=True)
def fast_log(x):
    """``log(x)`` of a positive normal number without branches; NaN passes through."""
    n, f = _split(x)
    # log(1 + f) = 2 atanh(f / (2 + f))
    return select(x == x, _join(n, f / (2.0 + f)), x)


@jit(forceinline=True, internal=True)
def fast_log_pair(x, y):
    """``log(x), log(y)`` for one division, which is what bounds the speed of each."""
    n, f = _split(x)
    m, g = _split(y)
    p = 2.0 + f
    q = 2.0 + g
    r = 1.0 / (p * q)
    log_x = _join(n, f * (q * r))
    log_y = _join(m, g * (p * r))
    return select(x == x, log_x, x), select(y == y, log_y, y)


# Relative error of ``rough_log`` of a number above one; its absolute error is less anywhere.
ROUGH = 1e-5


@jit(forceinline=True, internal=True)
def rough_log(x):
    """``log(x)`` of a positive normal number without a division, for bounds (`ROUGH`).

    log(1 + f) is f times a polynomial whose largest relative error is smallest, 7.4e-6.
    """
    n, f = _split(x)
    f2 = f * f
    low = 1.0000045588950177 - f * 0.4999021745180178
    middle = 0.33258022598413045 - f * 0.25403271582561987
    high = 0.2205594978569771 - f * 0.142920801892907
    value = n * 0.6931471805599453 + f * (low + f2 * (middle + f2 * high))
    return select(x == x, value, x)


@jit(forceinline=True, internal=True)
def log_gamma(x):
    """Return lnGamma(x) of positive x: Stirling's series after eight steps upwards."""
    product = x * (x + 1.0) * (x + 2.0) * (x + 3.0)
    product = product * (x + 4.0) * (x + 5.0) * (x + 6.0) * (x + 7.0)
    s = x + 8.0
    r = 1.0 / s
    w = r * r
    series = r * (
        1.0 / 12.0 - w * (1.0 / 360.0 - w * (1.0 / 1260.0 - w * (1.0 / 1680.0 - w / 1188.0)))
    )
    return (s - 0.5) * fast_log(s) - s + _HALF_LOG_2PI + series - fast_log(product)


@jit
def digamma(x):
    """Digamma function of a positive number."""
    shift = 0.0
    while x < 10.0:
        shift -= 1.0 / x
        x += 1.0
    w = 1.0 / (x * x)
    series = w * (
        1.0 / 12.0
        - w
        * (
            1.0 / 120.0
            - w * (1.0 / 252.0 - w * (1.0 / 240.0 - w * (1.0 / 132.0 - w * 691.0 / 32760.0)))
        )
    )
    return shift + math.log(x) - 0.5 / x - series


@jit
def trigamma(x):
    """First derivative of the digamma function at a positive number."""
    shift = 0.0
    while x < 10.0:
        shift += 1.0 / (x * x)
        x += 1.0
    w = 1.0 / (x * x)
    series = (
        (1.0 / x)
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
    return shift + 1.0 / x + 0.5 * w + series


# Each proposal below is taken with a probability of a third at least; so many refusals mean
# numbers that are none, and a kernel must come back from those too.
_MOST_TRIES = 1000


@jit(internal=True)
def _tail(rng, low, high):
    """Standard normal given low < Z < high, low > 0: an exponential proposal (Robert 1995)."""
    rate = 0.5 * (low + math.sqrt(low * low + 4.0))
    width = -math.expm1(-rate * (high - low))
    for _ in range(_MOST_TRIES):
        z = low - math.log1p(-rng.random() * width) / rate
        if rng.random() <= math.exp(-0.5 * (z - rate) * (z - rate)):
            return z
    return low


@jit
def truncated_normal(rng, mean, sd, low, high):
    """Draw from N(mean, sd^2) given low < value < high; exact however far out the interval is."""
    alpha = (low - mean) / sd
    beta = (high - mean) / sd
    if alpha > 0.3 and beta - alpha > 1.0 / alpha:
        z = _tail(rng, alpha, beta)
    elif beta < -0.3 and beta - alpha > -1.0 / beta:
        z = -_tail(rng, -beta, -alpha)
    elif beta - alpha < 1.5 or alpha > 0.3 or beta < -0.3:
        # The density varies little over the interval: a uniform proposal.
        nearest = alpha if alpha > 0.0 else (beta if beta < 0.0 else 0.0)
        z = nearest
        for _ in range(_MOST_TRIES):
            proposal = alpha + (beta - alpha) * rng.random()
            if rng.random() <= math.exp(0.5 * (nearest * nearest - proposal * proposal)):
                z = proposal
                break
    else:
        z = 0.5 * (alpha + beta)
        for _ in range(_MOST_TRIES):
            proposal = rng.standard_normal()
            if alpha < proposal < beta:
                z = proposal
                break
    value = mean + sd * z
    # A sum may round onto the end of the interval, where a unit root would divide by zero.
    return min(max(value, np.nextafter(low, high)), np.nextafter(high, low))
