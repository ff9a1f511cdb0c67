"""One slot or eight side by side: kernels that are written once for both.

Where `k` is a slot's number, a kernel computes the score of one slot. With ``Eight(k)`` in its
place the same code computes the scores of the eight slots from k on, in vector lanes.
"""

from __future__ import annotations

from typing import NamedTuple

from cavity._numba.jit import verb
from cavity._numba.simd import load8, splat8, store8


class Eight(NamedTuple):
    """The eight slots from `start` on."""

    start: int


@verb
def take(k, array):
    """Return the element of slot k of an array over slots, or the elements of eight slots."""


@verb
def zero(k):
    """Return zero, once or in eight lanes."""


@verb
def put(k, room, x):
    """Store what was computed for slot k, or for eight slots, in a room for eight numbers."""


@verb
def get(k, room):
    """Return what ``put`` stored."""


@take.register(None)
def _(k, array):
    return array[k]


@take.register(Eight)
def _(k, array):
    return load8(array, k.start)


@zero.register(None)
def _(k):
    return 0.0


@zero.register(Eight)
def _(k):
    return splat8(0.0)


@put.register(None)
def _(k, room, x):
    room[0] = x


@put.register(Eight)
def _(k, room, x):
    store8(room, 0, x)


@get.register(None)
def _(k, room):
    return room[0]


@get.register(Eight)
def _(k, room):
    return load8(room, 0)
