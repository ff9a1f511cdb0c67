"""Eight lanes at once do what NumPy does value by value."""

from __future__ import annotations

import numpy as np
import pytest

from cavity._numba.jit import jit
from cavity._numba.simd import (
    WIDTH,
    first8,
    load8,
    max8,
    ramp8,
    repeat8,
    require_whole,
    select,
    splat8,
    store8,
    sum8,
)
from cavity.likelihoods.selection import largest_of


@jit
def arithmetic(x, y, out):
    a, b = load8(x, 0), load8(y, 0)
    store8(out[0], 0, a + b)
    store8(out[1], 0, a - 2.0)
    store8(out[2], 0, 3 * b)
    store8(out[3], 0, 1.0 / b)
    store8(out[4], 0, select(a > b, a, b))
    store8(out[5], 0, select(a < 0.5, 7.0, b))
    store8(out[6], 0, select(a >= b, 1.0, 0.0))
    store8(out[7], 0, ramp8() + splat8(0.25))
    store8(out[8], 0, repeat8(x, 5))


def test_arithmetic_and_choice_lane_by_lane():
    rng = np.random.default_rng(0)
    x, y = rng.standard_normal((2, WIDTH))
    x[3] = y[3]
    out = np.empty((9, WIDTH))
    arithmetic(x, y, out)
    expected = [
        x + y,
        x - 2.0,
        3.0 * y,
        1.0 / y,
        np.where(x > y, x, y),
        np.where(x < 0.5, 7.0, y),
        (x >= y).astype(float),
        np.arange(WIDTH) + 0.25,
        np.full(WIDTH, x[5]),
    ]
    np.testing.assert_allclose(out, expected, rtol=1e-15)


@jit
def reductions(x, start, level):
    a = load8(x, start)
    return sum8(a), max8(a), first8(a == level)


def test_reductions_at_any_start():
    rng = np.random.default_rng(1)
    x = rng.standard_normal(3 * WIDTH)
    for start in (0, 1, 5, 2 * WIDTH):
        part = x[start : start + WIDTH]
        for place in (*range(WIDTH), None):
            level = 99.0 if place is None else part[place]
            total, largest, first = reductions(x, start, level)
            assert total == pytest.approx(part.sum(), abs=1e-14)
            assert largest == part.max()
            assert first == (WIDTH if place is None else place)
    # The first of equals.
    x[:] = 2.0
    assert reductions(x, 0, 2.0)[2] == 0


@jit
def place_of_largest(values):
    return largest_of(values)


@pytest.mark.parametrize("n", [8, 16, 40])
def test_the_first_of_the_largest_values(n):
    rng = np.random.default_rng(n)
    for _ in range(100):
        values = np.floor(rng.uniform(0, 10, n))
        place, largest = place_of_largest(values)
        assert (place, largest) == (values.argmax(), values.max())


def test_a_length_that_lanes_would_overrun_is_refused():
    require_whole(16)
    with pytest.raises(ValueError, match="multiple of 8"):
        require_whole(12)
