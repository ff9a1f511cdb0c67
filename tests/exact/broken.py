"""A partition prior with three mistakes to choose from: the enumeration must find each out."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from cavity._numba.arrays import declare
from cavity.interface import log_prior, prior_weights


class Careless(NamedTuple):
    """A Dirichlet process over slots taken in order of their number.

    Right for a sampler that integrates parameters out, as long as ``factor`` is one and
    ``forgotten`` zero. A sampler that conditions on parameters needs the slot that an observation
    has just left to be the one that it may come back to, which this prior ignores.
    """

    concentration: np.ndarray  # (1,)
    factor: np.ndarray  # (1,), multiplies the weight of a new cluster
    forgotten: np.ndarray  # (1,), what the count of the cluster just left was not lowered by


declare(Careless, slots={})


def careless(concentration=1.0, factor=1.0, forgotten=0.0):
    return Careless(np.array([concentration]), np.array([factor]), np.array([forgotten]))


@prior_weights.register(Careless)
def _(prior, counts, k, out):
    free = -1
    for j in range(out.shape[0]):
        out[j] = counts[j]
        if counts[j] == 0 and free < 0:
            free = j
    if counts[k] > 0:
        out[k] += prior.forgotten[0]
    out[free] = prior.concentration[0] * prior.factor[0]
    return True


@log_prior.register(Careless)
def _(prior, counts):
    return 0.0
