"""NamedTuples in kernels, which get them by address: the same values as in Python."""

from __future__ import annotations

import pickle
from typing import Any, NamedTuple

import numpy as np
import pytest

from cavity._numba.jit import Kernels, jit
from cavity._numba.structs import kernel_type


class Inner(NamedTuple):
    flag: bool
    grid: np.ndarray
    number: float


class Outer(NamedTuple):
    count: int
    inner: Inner
    row: np.ndarray
    mask: np.ndarray
    small: np.ndarray
    pair: Any
    last: Inner


def outer():
    rng = np.random.default_rng(0)
    cube = rng.standard_normal((2, 3, 4))
    return Outer(
        count=7,
        inner=Inner(True, rng.standard_normal((3, 4)), 0.5),
        row=np.arange(10.0)[::2],  # not contiguous
        mask=np.array([True, False, True]),
        small=np.arange(3, dtype=np.float32),
        pair=(2, rng.standard_normal(3)),
        last=Inner(False, cube[:, :, 1], -1.5),
    )


@jit
def facts(state, out):
    inner, last = state.inner, state.last
    out[0] = state.count
    out[1] = inner.flag
    out[2] = last.flag
    out[3] = inner.number + last.number
    out[4] = inner.grid[2, 3]
    out[5] = last.grid[1, 2]
    out[6] = last.grid.shape[0] + 10 * inner.grid.shape[1] + 100 * inner.grid.size
    out[7] = state.row[4] + state.small[2]
    out[8] = state.mask[1]
    out[9] = state.pair[0] * state.pair[1][2]
    row = inner.grid[1]
    out[10] = row[2] + row.size
    for value in last.grid[:, 0]:
        out[11] += value


def expected(state):
    return [
        state.count,
        state.inner.flag,
        state.last.flag,
        state.inner.number + state.last.number,
        state.inner.grid[2, 3],
        state.last.grid[1, 2],
        state.last.grid.shape[0] + 10 * state.inner.grid.shape[1] + 100 * state.inner.grid.size,
        state.row[4] + state.small[2],
        state.mask[1],
        state.pair[0] * state.pair[1][2],
        state.inner.grid[1][2] + 4,
        state.last.grid[:, 0].sum(),
    ]


def test_every_field_is_what_it_is_in_python():
    state, out = outer(), np.zeros(12)
    facts(state, out)
    np.testing.assert_allclose(out, expected(state), rtol=1e-15)


@jit(internal=True)
def total(inner, up):
    return inner.number + inner.grid[0, 0] if up else inner.number


@jit
def halves(state, i):
    """A state inside a state goes on to another function; one made here is a value."""
    chosen = state.inner if i > 0 else state.last
    made = Inner(True, chosen.grid, 2.0 * chosen.number)
    return total(chosen, True) + total(made, False)


@pytest.mark.parametrize("i", [0, 1])
def test_states_are_handed_on(i):
    state = outer()
    chosen = state.inner if i > 0 else state.last
    # Both grids must be of one type for a kernel to choose.
    state = state._replace(last=state.last._replace(grid=np.ascontiguousarray(state.last.grid)))
    assert halves(state, i) == pytest.approx(3.0 * chosen.number + chosen.grid[0, 0])


@jit
def write(state, value):
    state.inner.grid[1, 1] = value
    return state.inner.grid[1, 1] + state.row[0]


def test_arrays_are_those_of_the_caller():
    state = outer()
    assert write(state, 8.0) == 8.0 + state.row[0]
    assert state.inner.grid[1, 1] == 8.0


def test_a_tuple_of_another_length_is_refused():
    kernels = Kernels()
    state = outer().inner

    def number_of(inner):
        return inner.number

    assert kernels.run(number_of, state) == 0.5
    with pytest.raises(ValueError, match="expected 3 fields of Inner, got 2"):
        kernels.run(number_of, state[:2])


def test_types_are_the_same_for_the_same_structure_and_survive_the_cache():
    kind = kernel_type(outer())
    assert kind is kernel_type(outer())
    assert pickle.loads(pickle.dumps(kind)) is kind
    other = outer()._replace(count=7.0)
    assert kernel_type(other) != kind
    assert kernel_type(other).name != kind.name
