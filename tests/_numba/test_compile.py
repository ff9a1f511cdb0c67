"""What is compiled, how often, and for whom: the time of a first fit is made of it."""

from __future__ import annotations

import gc

import numpy as np
import pytest
from numba.core import event
from numba.core.caching import NullCache
from numba.extending import overload

from cavity._numba.jit import jit


def uncached(kernel):
    """A kernel that is compiled, also where an earlier run of these tests has left it."""
    kernel._cache = NullCache()
    return kernel


@jit(internal=True)
def shifted(x, by, up):
    return x + by if up else x - by


@jit
def shifted_thrice(x, by):
    return shifted(shifted(shifted(x, 1, True), 2, False), by, True)


def test_a_constant_is_no_reason_to_compile_a_part_again():
    assert uncached(shifted_thrice)(1.0, 5) == 5.0
    assert len(shifted.overloads) == 1


@jit
def halved(x):
    return 0.5 * x


@jit
def quartered(x):
    return halved(halved(x))


def test_a_kernel_is_to_other_kernels_a_part_of_them():
    assert uncached(quartered)(2.0) == 0.5
    assert not halved.overloads  # nothing that Python could call was made
    assert len(halved.part.overloads) == 1
    assert uncached(halved)(2.0) == 1.0
    assert len(halved.overloads) == 1


def stub(x):
    """A function that Numba compiles for its callers, such as max."""


@overload(stub)
def _(x):
    def three_times(x):
        return 3.0 * x

    return three_times


@jit(internal=True, forceinline=True)
def inlined(x):
    return stub(x)


@jit(internal=True)
def called(x):
    return stub(x)


@jit
def of_all(x):
    return stub(x) + inlined(x) + called(x)


def test_what_numba_compiles_for_its_callers_is_compiled_once():
    with event.install_recorder("numba:compile") as recorder:
        assert uncached(of_all)(1.0) == 9.0
    names = [e.data["dispatcher"].py_func.__name__ for _, e in recorder.buffer if e.is_start]
    assert names.count("inlined") == 1
    assert names.count("three_times") == 1


@jit
def first_of(x):
    return x[0]


@pytest.mark.parametrize("collecting", [True, False])
def test_compiling_leaves_the_collection_of_garbage_as_it_was(collecting):
    was = gc.isenabled()
    try:
        (gc.enable if collecting else gc.disable)()
        uncached(first_of)(np.zeros(1, dtype=np.float64 if collecting else np.float32))
        assert gc.isenabled() == collecting
    finally:
        (gc.enable if was else gc.disable)()


def test_garbage_is_not_collected_meanwhile():
    seen = []

    @overload(len_of_nothing := lambda x: None, strict=False)
    def _(x):
        seen.append(gc.isenabled())
        return lambda x: 0

    @jit
    def kernel(x):
        return len_of_nothing(x)

    assert uncached(kernel)(1.0) == 0
    assert seen
    assert not any(seen)
    assert gc.isenabled()
