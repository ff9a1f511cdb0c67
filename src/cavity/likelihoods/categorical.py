"""Categories: each column of a row is one of its categories, or missing.

With a Dirichlet for a cluster's shares the collapse is exact: a category is as probable as its
share of the cluster's members, with the prior's concentrations added. A missing cell adds nothing
and says nothing.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from cavity._numba.arrays import declare
from cavity._numba.jit import jit
from cavity._numba.numerics import fast_log
from cavity._numba.simd import WIDTH, load8, require_whole, splat8, store8
from cavity.interface import (
    accumulate,
    evidence,
    evidences,
    log_densities,
    log_density,
    observe,
)

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


@evidence.register(Categorical)
def _(model, q, k, i):
    value = 0.0
    above = below = 1.0
    for j in range(model.cell.shape[1]):
        p = model.cell[i, j]
        if p >= 0:
            above *= q.weight[p, k]
            below *= q.total[j, k]
        if j % _FACTORS == _FACTORS - 1:
            value += math.log(above / below)
            above = below = 1.0
    return value + math.log(above / below)


@evidences.register(Categorical)
def _(model, q, i, out):
    cell, weight, total = model.cell[i], q.weight, q.total
    n_columns = cell.shape[0]
    for k in range(0, out.shape[0], WIDTH):
        value = splat8(0.0)
        for begin in range(0, n_columns, _FACTORS):
            above, below = splat8(1.0), splat8(1.0)
            for j in range(begin, min(begin + _FACTORS, n_columns)):
                p = cell[j]
                if p >= 0:
                    above = above * load8(weight[p], k)
                    below = below * load8(total[j], k)
            value = value + fast_log(above / below)
        store8(out, k, value)


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
    total = 0.0
    for j in range(model.cell.shape[1]):
        p = model.cell[i, j]
        if p >= 0:
            total += parameters.log_share[p, k]
    return total


@log_densities.register(Categorical)
def _(model, parameters, i, out):
    for k in range(0, out.shape[0], WIDTH):
        total = splat8(0.0)
        for j in range(model.cell.shape[1]):
            p = model.cell[i, j]
            if p >= 0:
                total = total + load8(parameters.log_share[p], k)
        store8(out, k, total)


@jit
def count_categories(cell, weight, start, z, first, step, out):
    """Members of every cluster in every category of some columns: `out` of shape (P, slots).

    Row i counts for ``weight[i]`` of them.
    """
    for j in range(first, cell.shape[1], step):
        for p in range(start[j], start[j + 1]):
            for k in range(out.shape[1]):
                out[p, k] = 0.0
    for i in range(cell.shape[0]):
        for j in range(first, cell.shape[1], step):
            if cell[i, j] >= 0:
                out[cell[i, j], z[i]] += weight[i]
