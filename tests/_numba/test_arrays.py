"""States of arrays: growth, copies, taking apart and putting together."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from cavity._numba.arrays import by_slot, copied, declare, flatten, grown, rebuilt
from cavity.conjugate.niw import normal_inverse_wishart
from cavity.likelihoods.student_t import student_t


class Inner(NamedTuple):
    data: np.ndarray
    per_slot: np.ndarray
    last: np.ndarray


class Outer(NamedTuple):
    inner: Inner
    number: float
    scratch: np.ndarray


class Undeclared(NamedTuple):
    data: np.ndarray


declare(Inner, slots={"per_slot": 0, "last": 1}, constant=("data",))
declare(Outer, slots={})


def example():
    return Outer(
        Inner(np.arange(3.0), np.arange(2.0), np.arange(6.0).reshape(3, 2)), 0.5, np.ones(2)
    )


def test_growth_along_the_slots_only():
    big = grown(example(), 4)
    np.testing.assert_array_equal(big.inner.per_slot, [0.0, 1.0, 1.0, 1.0])
    assert big.inner.last.shape == (3, 4)
    assert big.inner.last.flags.c_contiguous
    assert big.scratch.shape == (2,)
    assert big.inner.data.shape == (3,)


def test_an_array_without_slots_stays_without():
    value = example()
    value = value._replace(inner=value.inner._replace(per_slot=np.zeros(0)))
    assert grown(value, 4).inner.per_slot.size == 0


def test_a_round_trip_keeps_everything_that_changes():
    value = example()
    arrays = flatten(value, "x.")
    assert set(arrays) == {"x.inner.per_slot", "x.inner.last", "x.scratch"}
    value.inner.per_slot[:] = -1.0
    back = rebuilt(value, arrays, "x.")
    np.testing.assert_array_equal(back.inner.per_slot, [0.0, 1.0])
    assert back.inner.data is value.inner.data
    assert back.number == 0.5


def test_a_copy_shares_only_the_data():
    value = example()
    other = copied(value)
    other.inner.per_slot[0] = 9.0
    assert value.inner.per_slot[0] == 0.0
    assert other.inner.data is value.inner.data


def test_a_class_never_declared_is_data():
    value = Undeclared(np.ones(2))
    assert flatten(value) == {}
    assert grown(value, 5).data.shape == (2,)


def test_slots_first():
    parts = by_slot(example().inner)
    assert parts["last"].shape == (2, 3)
    np.testing.assert_array_equal(parts["last"][1], [1.0, 3.0, 5.0])


def test_families_and_models_grow_to_what_a_larger_one_is():
    small = grown(normal_inverse_wishart(np.zeros(2), 1.0, 4.0, np.eye(2), 8), 16)
    large = normal_inverse_wishart(np.zeros(2), 1.0, 4.0, np.eye(2), 16)
    for a, b in zip(small, large, strict=True):
        np.testing.assert_array_equal(a, b)
    y = np.zeros((3, 2))
    small = grown(student_t(y, np.full(8, 2.0)), 16)
    for a, b in zip(small, student_t(y, np.full(16, 2.0)), strict=True):
        np.testing.assert_array_equal(a, b)
