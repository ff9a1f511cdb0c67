"""Kernels draw what NumPy would draw from the same generator, and leave it where NumPy would."""

from __future__ import annotations

import sys

import numpy as np
import pytest

from cavity._numba.jit import jit


@jit
def draws(rng, out):
    for j in range(out.shape[0]):
        out[j, 0] = rng.random()
        out[j, 1] = rng.standard_normal()
        out[j, 2] = rng.standard_gamma(1.7)


@pytest.mark.parametrize("kind", ["PCG64", "PCG64DXSM", "Philox", "SFC64", "MT19937"])
def test_draws_are_those_of_numpy(kind):
    ours, theirs = (np.random.Generator(getattr(np.random, kind)(5)) for _ in range(2))
    out = np.empty((200, 3))
    draws(ours, out)
    expected = [
        (theirs.random(), theirs.standard_normal(), theirs.standard_gamma(1.7)) for _ in out
    ]
    np.testing.assert_allclose(out, expected, rtol=1e-14)
    assert ours.random() == theirs.random()


def test_a_call_leaves_no_reference_behind():
    rng = np.random.default_rng(0)
    out = np.empty((1, 3))
    draws(rng, out)
    before = sys.getrefcount(rng.bit_generator.capsule), sys.getrefcount(rng.bit_generator)
    for _ in range(50):
        draws(rng, out)
    after = sys.getrefcount(rng.bit_generator.capsule), sys.getrefcount(rng.bit_generator)
    assert after == before
