"""Rows of categories or counts with weights, and with a place outside every cluster.

A wrapper of a likelihood of plain rows, as `cavity.likelihoods.rows` has it for measurements. A gap
needs none: a missing cell says nothing in any of the rows that a row stands for.

* *Weights.* A row of weight w is w rows that share their label. Where a category has the weight a
  of a slot's sum A, they have a (a + 1) ... over A (A + 1) ..., w factors each; their counts are
  those of one cell with w y in w times the time.
* *Noise.* In the slot that is no cluster's a row has a density that was given.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from cavity._numba.arrays import declare
from cavity._numba.jit import verb
from cavity.interface import (
    accumulate,
    evidence,
    evidences,
    log_densities,
    log_density,
    observe,
    part_evidence,
    pick,
    pick_given,
)
from cavity.likelihoods.categorical import Categorical
from cavity.likelihoods.poisson import Poisson
from cavity.likelihoods.rows import NO_NOISE, pick_given_weighted, pick_weighted
from cavity.likelihoods.selection import draw_from_scores


class CellTraits(NamedTuple):
    """What is known of rows that are not all plain, as a problem states it.

    Attributes
    ----------
    weight : array of float, shape (n,)
    log_noise : array of float, shape (n,), or None
        Log density of a row outside every cluster; None if no row can be there.
    """

    weight: np.ndarray
    log_noise: np.ndarray | None = None

    def first(self, n: int) -> CellTraits:
        """Those of the first n rows."""
        return CellTraits(self.weight[:n], None if self.log_noise is None else self.log_noise[:n])


class UnevenCells(NamedTuple):
    """Rows with weights and log densities as noise, around the likelihood of plain ones."""

    base: Any
    weight: np.ndarray  # (n,)
    noise_slot: np.ndarray  # (1,), -1 for none
    log_noise: np.ndarray  # (n,), of all the rows that a row stands for


declare(UnevenCells, slots={}, constant=("weight", "noise_slot", "log_noise"))


def uneven_cells(base: Any, traits: CellTraits, noise_slot: int) -> UnevenCells:
    """A likelihood's rows with what is known of each; `noise_slot` is for those that have noise."""
    weight = np.ascontiguousarray(traits.weight, dtype=float)
    there = traits.log_noise is not None
    return UnevenCells(
        base,
        weight,
        np.array([noise_slot if there else NO_NOISE], dtype=np.int64),
        weight * (traits.log_noise if traits.log_noise is not None else 0.0),
    )


def plain_cells(model: Any) -> Any:
    """The likelihood of plain rows that a model is, or is around."""
    return model.base if isinstance(model, UnevenCells) else model


def member_weights(model: Any, z: np.ndarray) -> np.ndarray:
    """What each row counts for in its cluster; nothing where it is in none."""
    if not isinstance(model, UnevenCells):
        return np.ones(z.size)
    return np.where(z == model.noise_slot[0], 0.0, model.weight)


# --------------------------------------------------------------------------- labels


@part_evidence.register(Categorical)
def _(base, rows, q, k, i):
    w = rows.weight[i]
    value = 0.0
    for j in range(base.cell.shape[1]):
        p = base.cell[i, j]
        if p >= 0:
            a, total = q.weight[p, k], q.total[j, k]
            value += math.lgamma(a + w) - math.lgamma(a)
            value -= math.lgamma(total + w) - math.lgamma(total)
    return value


@part_evidence.register(Poisson)
def _(base, rows, q, k, i):
    w = rows.weight[i]
    value = 0.0
    for j in range(base.y.shape[1]):
        y = base.y[i, j]
        if y >= 0.0:
            shape, rate = q.shape[j, k], q.rate[j, k]
            value += math.lgamma(shape + w * y) - math.lgamma(shape)
            value -= shape * math.log1p(w / rate) + w * y * math.log(rate + w)
            value -= w * base.log_factorial[i, j]
    return value


@evidence.register(UnevenCells)
def _(model, q, k, i):
    if k == model.noise_slot[0]:
        return model.log_noise[i]
    if model.weight[i] == 1.0:
        return evidence(model.base, q, k, i)
    return part_evidence(model.base, model, q, k, i)


@evidences.register(UnevenCells)
def _(model, q, i, out):
    if model.weight[i] == 1.0:
        evidences(model.base, q, i, out)
    else:
        for k in range(out.shape[0]):
            out[k] = part_evidence(model.base, model, q, np.int64(k), i)
    if model.noise_slot[0] >= 0:
        out[model.noise_slot[0]] = model.log_noise[i]


@pick.register(UnevenCells)
def _(model, q, i, weights, scores, mass, visited, rng):
    if model.weight[i] != 1.0:
        return pick_weighted(model, q, i, model.weight[i], weights, scores, mass, rng)
    evidences(model, q, i, scores)
    return draw_from_scores(weights, scores, mass, rng)


@log_density.register(UnevenCells)
def _(model, parameters, k, i):
    if k == model.noise_slot[0]:
        return model.log_noise[i]
    return model.weight[i] * log_density(model.base, parameters, k, i)


@log_densities.register(UnevenCells)
def _(model, parameters, i, out):
    log_densities(model.base, parameters, i, out)
    for k in range(out.shape[0]):
        out[k] *= model.weight[i]
    if model.noise_slot[0] >= 0:
        out[model.noise_slot[0]] = model.log_noise[i]


@pick_given.register(UnevenCells)
def _(model, parameters, i, weights, scores, mass, rng):
    w = model.weight[i]
    return pick_given_weighted(model, parameters, i, w, weights, scores, mass, rng)


# --------------------------------------------------------------------------- members


@verb
def accumulate_times(base, q, k, i, w):
    """``accumulate`` of a row that counts as w."""


@accumulate_times.register(Categorical)
def _(base, q, k, i, w):
    for j in range(base.cell.shape[1]):
        if base.cell[i, j] >= 0:
            q.natural[k, base.cell[i, j]] += w


@accumulate_times.register(Poisson)
def _(base, q, k, i, w):
    for j in range(base.y.shape[1]):
        if base.y[i, j] >= 0.0:
            q.natural[k, 2 * j] += w * base.y[i, j]
            q.natural[k, 2 * j + 1] += w


@observe.register(UnevenCells)
def _(model, q, k, i, sign):
    if k == model.noise_slot[0]:
        return True
    return observe(model.base, q, k, i, sign * model.weight[i])


@accumulate.register(UnevenCells)
def _(model, q, k, i):
    if k != model.noise_slot[0]:
        accumulate_times(model.base, q, k, i, model.weight[i])
