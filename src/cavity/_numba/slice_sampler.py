"""One slice sampler for every density of one variable that kernels draw from.

A density is a NamedTuple of what it needs, with the verb ``log_target`` registered for its class.
"""

from __future__ import annotations

import math

from cavity._numba.jit import jit, verb

# Steps outwards and shrinkings are bounded: a density that is flat, or NaN, cannot hold a kernel.
_MOST_STEPS = 60
_MOST_SHRINKINGS = 200


@verb
def log_target(density, x):
    """Log density at x, up to a constant."""


@jit(internal=True)
def height_at(density, x):
    """``log_target`` as a call: a verb is copied into its caller, and it has many uses."""
    return log_target(density, x)


@jit(internal=True)
def slice_step(density, x, width, rng):
    """One step from x with stepping out and shrinking (Neal 2003); leaves the density invariant.

    The number of steps outwards is limited as Neal's scheme allows: the allowance is divided at
    random between the two sides before any step is made.
    """
    level = height_at(density, x) + math.log1p(-rng.random())
    left = x - width * rng.random()
    right = left + width
    to_left = int(rng.random() * _MOST_STEPS)
    to_right = _MOST_STEPS - 1 - to_left
    while to_left > 0 and height_at(density, left) > level:
        left -= width
        to_left -= 1
    while to_right > 0 and height_at(density, right) > level:
        right += width
        to_right -= 1
    for _ in range(_MOST_SHRINKINGS):
        proposal = left + rng.random() * (right - left)
        if height_at(density, proposal) > level:
            return proposal
        if proposal < x:
            left = proposal
        else:
            right = proposal
    return x
