"""The functions of `cavity._numba.simd` on arrays of eight floats, for ``NUMBA_DISABLE_JIT=1``."""

from __future__ import annotations

import numpy as np

WIDTH = 8


def select(condition, a, b):
    if np.ndim(condition):
        return np.where(condition, a, b)
    return a if condition else b


def float_bits(x):
    return np.asarray(x, dtype=np.float64).view(np.int64)[()]


def bits_float(x):
    return np.asarray(x, dtype=np.int64).view(np.float64)[()]


def load8(array, start):
    return array[start : start + WIDTH].copy()


def store8(array, start, value):
    array[start : start + WIDTH] = value


def splat8(x):
    return np.full(WIDTH, x, dtype=np.float64)


def repeat8(array, at):
    return splat8(array[at])


def ramp8():
    return np.arange(float(WIDTH))


def _by_halves(value, join):
    while value.size > 1:
        half = value.size // 2
        value = join(value[:half], value[half:])
    return value[0]


def sum8(x):
    return _by_halves(x, np.add)


def max8(x):
    return _by_halves(x, lambda a, b: np.where(a > b, a, b))


def first8(mask):
    return int(np.argmax(mask)) if mask.any() else WIDTH
