"""Categories: each column of a row is one of its categories, or missing.

With a Dirichlet for a cluster's shares the collapse is exact: a category is as probable as its
share of the cluster's members, with the prior's concentrations added. A missing cell adds nothing
and says nothing.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from cavity._numba.arrays import declare
from cavity._numba.numerics import fast_log
from cavity._numba.simd import require_whole
from cavity._numba.slots import take, zero
from cavity.interface import accumulate, evidence, is_scored, log_density, observe
from cavity.likelihoods.selection import side_by_side

# Factors between two logarithms: so many concentrations, and so many sums, are still a number.
_FACTORS = 16


class Categorical(NamedTuple):
    """Rows of categories."""

    cell: np.ndarray  # (n, columns), place among all columns' categories; -1 where missing


declare(Categorical, slots={}, constant=("cell",))


def categorical(codes: np.ndarray, start: np.ndarray, n_slots: int) -> Categorical:
    """Model of codes from 0 within each column, -1 where missing; slots come in eights.

    Examples
    --------
    >>> categorical(np.array([[0, 2], [1, -1]]), np.array([0, 2, 5]), 8).cell.tolist()
    [[0, 4], [1, -1]]
    """
    require_whole(n_slots)
    return Categorical(places_of(codes, start))


def places_of(codes: np.ndarray, start: np.ndarray) -> np.ndarray:
    """Each cell's place among all columns' categories, which begin at `start`; -1 where missing."""
    codes = np.asarray(codes)
    place = np.where(codes < 0, -1, codes + np.asarray(start)[:-1])
    return np.ascontiguousarray(place, dtype=np.int32)


side_by_side(Categorical)


@evidence.register(Categorical)
def _(model, q, k, i):
    cell = model.cell[i]
    n_columns = cell.shape[0]
    value = zero(k)
    for begin in range(0, n_columns, _FACTORS):
        above, below = zero(k) + 1.0, zero(k) + 1.0
        for j in range(begin, min(begin + _FACTORS, n_columns)):
            p = cell[j]
            if p >= 0 and is_scored(q, j):
                above = above * take(k, q.weight[p])
                below = below * take(k, q.total[j])
        value = value + fast_log(above / below)
    return value


@observe.register(Categorical)
def _(model, q, k, i, sign):
    # Named once: what is written here might be where a state keeps its arrays, for all that the
    # compiler knows, and it would look them up again for every column.
    cell, natural, weight, total = model.cell[i], q.natural[k], q.weight, q.total
    least = 1.0
    for j in range(cell.shape[0]):
        p = cell[j]
        if p >= 0:
            value = weight[p, k] + sign
            least = min(least, value)
            natural[p] = value
            weight[p, k] = value
            total[j, k] += sign
    return least > 0.0


@accumulate.register(Categorical)
def _(model, q, k, i):
    for j in range(model.cell.shape[1]):
        p = model.cell[i, j]
        if p >= 0:
            q.natural[k, p] += 1.0


@log_density.register(Categorical)
def _(model, parameters, k, i):
    total = zero(k)
    for j in range(model.cell.shape[1]):
        p = model.cell[i, j]
        if p >= 0:
            total = total + take(k, parameters.log_share[p])
    return total
