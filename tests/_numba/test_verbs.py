"""Verbs are resolved by class, with defaults, and the sweep reports what it cannot do."""

from __future__ import annotations

import subprocess
import sys
from typing import NamedTuple

import numpy as np
import pytest
from builders import gaussian_collapse

from cavity._numba.jit import Kernels, compiled, jit, verb
from cavity.mcmc.chain import PartitionSampler, slots_for
from cavity.priors.cluster import NIWPrior
from cavity.priors.partition import dirichlet


@verb
def area(shape):
    """Area of a shape."""


class Square(NamedTuple):
    side: float


class Circle(NamedTuple):
    radius: float


class Blob(NamedTuple):
    size: float


@area.register(Square)
def _(shape):
    return shape.side * shape.side


@area.register(Circle)
def _(shape):
    return 3.0 * shape.radius * shape.radius


@area.register(None)
def _(shape):
    return -1.0


def area_of(shape):
    return area(shape)


def test_kernels_of_one_chain_each_keep_to_their_types():
    squares, circles = Kernels(), Kernels()
    for size in (2.0, 3.0):
        assert squares.run(area_of, Square(size)) == size * size
        assert circles.run(area_of, Circle(size)) == 3.0 * size * size


def test_the_class_of_the_first_argument_decides():
    assert compiled(area_of, Square(3.0))(Square(3.0)) == 9.0
    assert compiled(area_of, Circle(2.0))(Circle(2.0)) == 12.0
    assert compiled(area_of, Blob(2.0))(Blob(2.0)) == -1.0


def test_a_verb_knows_its_implementations_and_its_meaning():
    assert set(area.verb.implementations) == {Square, Circle, None}
    assert area.verb.__doc__ == "Area of a shape."


@jit
def filled(x):
    for i in range(x.shape[0]):
        x[i] = 1.0 / x[i]


def test_division_by_zero_follows_numpy():
    x = np.array([0.0, 2.0])
    filled(x)
    assert np.isinf(x[0])
    assert x[1] == 0.5


def test_an_observation_that_no_cluster_can_hold_is_named():
    y = np.zeros((4, 1))
    niw = NIWPrior(np.zeros(1), 1.0, 3.0, np.eye(1))
    rng = np.random.default_rng(0)
    sampler = PartitionSampler(
        gaussian_collapse(y, niw, 8, "collapsed"), dirichlet(2), np.array([0, 1, 0, 1]), rng
    )
    y[2] = np.nan
    with pytest.raises(FloatingPointError, match="observation 2"):
        sampler.sweep(rng)


def test_room_to_begin_with():
    assert slots_for(5, prior_is_open=False) == 5
    assert slots_for(5, prior_is_open=True) > 10


@jit(internal=True)
def doubled(x):
    return 2.0 * x


@jit
def quadrupled(x):
    return doubled(doubled(x))


def test_a_part_of_kernels_is_called_by_kernels_only():
    assert quadrupled(1.5) == 6.0
    with pytest.raises(TypeError, match="doubled is compiled with internal=True"):
        doubled(1.5)


@pytest.mark.parametrize("collapse", ["ep", "conjugate"])
def test_a_collapse_brings_the_default_of_its_verbs(collapse):
    """In a process of its own, where no model has brought it."""
    code = (
        f"import cavity.collapse.{collapse}; from cavity.interface import pick; "
        "print(None in pick.verb.implementations)"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout == "True\n"
