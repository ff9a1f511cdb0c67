"""Scalar kernels against SciPy, decimals and the standard library."""

from __future__ import annotations

import math
from decimal import Decimal, localcontext

import numpy as np
import pytest
from entries import _ratios, call
from scipy import special

from cavity._numba.jit import jit
from cavity._numba.numerics import ROUGH, digamma, fast_exp, fast_log, rough_log, trigamma


@jit
def exp_of(x, out):
    for j in range(x.shape[0]):
        out[j] = fast_exp(x[j])


@jit
def log_of(x, out):
    for j in range(x.shape[0]):
        out[j] = fast_log(x[j])


@jit
def rough_log_of(x, out):
    for j in range(x.shape[0]):
        out[j] = rough_log(x[j])


def applied(kernel, x):
    x = np.asarray(x, dtype=float)
    out = np.empty_like(x)
    kernel(x, out)
    return out


def test_exponential_over_its_whole_range():
    x = np.concatenate([np.linspace(-707.9, 708.9, 40001), np.linspace(-1.0, 1.0, 10001)])
    assert np.max(np.abs(applied(exp_of, x) / np.exp(x) - 1.0)) < 1e-14


def test_exponential_at_the_ends():
    got = applied(exp_of, [0.0, -800.0, -np.inf, np.nan])
    assert got[0] == 1.0
    assert got[1] == 0.0
    assert got[2] == 0.0
    assert math.isnan(got[3])


def test_logarithm_over_its_whole_range():
    x = np.concatenate([10.0 ** np.linspace(-300, 300, 40001), np.linspace(0.5, 2.0, 10001)])
    exact = np.log(x)
    error = np.abs(applied(log_of, x) - exact)
    assert np.max(error / np.maximum(np.abs(exact), 1e-3)) < 1e-14
    assert applied(log_of, [1.0])[0] == 0.0
    assert math.isnan(applied(log_of, [np.nan])[0])


def test_the_rough_logarithm_errs_by_no_more_than_it_says():
    x = np.concatenate([10.0 ** np.linspace(-300, 300, 40001), 1.0 + np.logspace(-12, 0, 10001)])
    error = np.abs(applied(rough_log_of, x) - np.log(x))
    assert error.max() < ROUGH
    above = x > 1.0
    assert np.max(error[above] / np.log(x[above])) < ROUGH
    assert error.max() > 0.1 * ROUGH  # it is rough
    assert math.isnan(applied(rough_log_of, [np.nan])[0])


@pytest.mark.parametrize(
    ("kernel", "order", "tolerance"), [(digamma, 0, 2e-14), (trigamma, 1, 5e-14)]
)
def test_polygamma_against_scipy(kernel, order, tolerance):
    x = 10.0 ** np.linspace(-3, 8, 3001)
    exact = special.polygamma(order, x)
    got = np.array([kernel(v) for v in x])
    # Near digamma's zero the error is measured against one.
    assert np.max(np.abs(got - exact) / np.maximum(np.abs(exact), 1.0 if order == 0 else 0.0)) < (
        tolerance
    )


def decimal_log_gamma(x: Decimal) -> Decimal:
    """Logarithm of the gamma function to forty digits: Stirling's series far out."""
    shift = Decimal(0)
    while x < 60:
        shift += x.ln()
        x += 1
    bernoulli = [(1, 6), (-1, 30), (1, 42), (-1, 30), (5, 66), (-691, 2730), (7, 6), (-3617, 510)]
    bernoulli += [(43867, 798), (-174611, 330), (854513, 138), (-236364091, 2730)]
    series = sum(
        Decimal(a) / b / (2 * k * (2 * k - 1)) / x ** (2 * k - 1)
        for k, (a, b) in enumerate(bernoulli, start=1)
    )
    half_log_2pi = Decimal("0.918938533204672741780329736405617639861397473637783412817")
    return (x - Decimal("0.5")) * x.ln() - x + half_log_2pi + series - shift


def test_the_decimal_twin_itself():
    with localcontext() as context:
        context.prec = 50
        for x in (0.5, 1.0, 3.7, 100.0):
            assert float(decimal_log_gamma(Decimal(x))) == pytest.approx(math.lgamma(x), abs=1e-14)


@pytest.mark.variants("exact", "2", "3", "4", "10", "30")
@pytest.mark.parametrize("d", [1, 2, 3, 4, 7, 10, 30, 31])
def test_log_gamma_ratio_to_fourteen_digits(d):
    x = 0.5 * d + 10.0 ** np.linspace(-3, 6, 60)
    out = np.empty_like(x)
    call(_ratios, x, d, out)
    with localcontext() as context:
        context.prec = 50
        exact = np.array(
            [
                float(
                    decimal_log_gamma(Decimal(v)) - decimal_log_gamma(Decimal(v) - Decimal(d) / 2)
                )
                for v in x.tolist()
            ]
        )
    assert np.max(np.abs(out - exact) / np.maximum(np.abs(exact), 1.0)) < 2e-13
