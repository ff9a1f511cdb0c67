"""A Dirichlet distribution for each of several columns: a cluster's shares of their categories.

Natural parameters, packed in a row: the concentration of every category, column after column.
Working parameters have the slots last, so eight clusters are processed in vector lanes.
"""

from __future__ import annotations

import itertools
import math
from typing import NamedTuple

import numpy as np

from cavity._numba.arrays import declare
from cavity._numba.jit import jit
from cavity._numba.numerics import digamma
from cavity.interface import divergence, draw, load, log_partition, prior_density

# No drawn share is zero, even with tiny concentrations.
LEAST_SHARE = 1e-300


class Dirichlets(NamedTuple):
    """One Dirichlet distribution per slot and column."""

    prior: np.ndarray  # (P,)
    natural: np.ndarray  # (slots, P)
    weight: np.ndarray  # (P, slots), the same with the slots last
    total: np.ndarray  # (columns, slots), sum over a column's categories
    start: np.ndarray  # (columns + 1,), where each column's categories begin


declare(Dirichlets, slots={"natural": 0, "weight": 1, "total": 1}, constant=("start",))


class Shares(NamedTuple):
    """Shares of every category in every slot, as drawn."""

    share: np.ndarray  # (P, slots)
    log_share: np.ndarray  # (P, slots)


declare(Shares, slots={"share": 1, "log_share": 1})


def dirichlets(concentration: np.ndarray, start: np.ndarray, n_slots: int) -> Dirichlets:
    """Return a family with every slot at these concentrations; columns begin at `start`.

    Examples
    --------
    >>> q = dirichlets([1.0, 1.0, 2.0, 3.0, 5.0], [0, 2, 5], n_slots=8)
    >>> q.total[:, 0].tolist()
    [2.0, 10.0]
    """
    prior = np.array(concentration, dtype=float)
    start = np.array(start, dtype=np.int64)
    total = np.array([prior[a:b].sum() for a, b in itertools.pairwise(start)])
    return Dirichlets(
        prior=prior,
        natural=np.tile(prior, (n_slots, 1)),
        weight=np.tile(prior[:, None], (1, n_slots)),
        total=np.tile(total[:, None], (1, n_slots)),
        start=start,
    )


def shares(n_categories: int, n_slots: int) -> Shares:
    """Storage for the shares of every slot."""
    return Shares(np.ones((n_categories, n_slots)), np.zeros((n_categories, n_slots)))


@load.register(Dirichlets)
def _(q, k):
    for p in range(q.natural.shape[1]):
        if not q.natural[k, p] > 0.0:
            return False
    for j in range(q.total.shape[0]):
        total = 0.0
        for p in range(q.start[j], q.start[j + 1]):
            q.weight[p, k] = q.natural[k, p]
            total += q.natural[k, p]
        q.total[j, k] = total
    return True


@log_partition.register(Dirichlets)
def _(q, k):
    value = 0.0
    for j in range(q.total.shape[0]):
        value -= math.lgamma(q.total[j, k])
        for p in range(q.start[j], q.start[j + 1]):
            value += math.lgamma(q.weight[p, k])
    return value


@prior_density.register(Dirichlets)
def _(q, parameters, k):
    value = 0.0
    for p in range(q.prior.shape[0]):
        value += (q.prior[p] - 1.0) * parameters.log_share[p, k]
    return value


@divergence.register(Dirichlets)
def _(q, k, r, j):
    value = log_partition(r, j) - log_partition(q, k)
    for c in range(q.total.shape[0]):
        centre = digamma(q.total[c, k])
        for p in range(q.start[c], q.start[c + 1]):
            value += (q.weight[p, k] - r.weight[p, j]) * (digamma(q.weight[p, k]) - centre)
    return value


@jit(internal=True)
def draw_shares(natural, begin, end, parameters, k, rng):
    """Draw the shares of one column, in places `begin` to `end`, into slot k."""
    # Gammas by their logarithms: one of a tiny shape a is one of shape a + 1 times U^(1/a).
    top = -math.inf
    for p in range(begin, end):
        a = natural[p]
        if a < 1.0:
            x = math.log(rng.standard_gamma(a + 1.0)) + math.log1p(-rng.random()) / a
        else:
            x = math.log(rng.standard_gamma(a))
        parameters.log_share[p, k] = x
        top = max(top, x)
    total = 0.0
    for p in range(begin, end):
        total += math.exp(parameters.log_share[p, k] - top)
    centre = top + math.log(total)
    for p in range(begin, end):
        parameters.log_share[p, k] -= centre
        parameters.share[p, k] = max(math.exp(parameters.log_share[p, k]), LEAST_SHARE)


@draw.register(Dirichlets)
def _(q, k, parameters, rng):
    for j in range(q.total.shape[0]):
        draw_shares(q.natural[k], q.start[j], q.start[j + 1], parameters, k, rng)
