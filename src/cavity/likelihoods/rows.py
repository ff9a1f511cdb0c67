"""Rows that are not all alike: gaps, weights, and a place outside every cluster.

A wrapper of the likelihoods of plain rows. A plain row goes to the likelihood itself; the others
are scored by `cavity.likelihoods.row_scores`:

* *Gaps.* A label is drawn from the columns that are there, the missing ones integrated out: within
  a slot NIW(m, kappa, nu, Psi) the columns O of a row are distributed as under NIW(m_O, kappa,
  nu - |M|, Psi_OO). The missing values are then drawn with the scale, given the label, and the row
  joins its cluster as a whole one. Nothing is approximated, and no label is held fast by values
  that were drawn for it.
* *Weights.* A row of weight w is w rows that share their label; its likelihood is that of one to
  the power w. Of w Student-t rows the scales enter by their sum s alone, so that the integral is
  again over one variable, of shape w (alpha + d/2).
* *Noise.* In the slot that is no cluster's a row is uniform over a box.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from cavity._numba.arrays import declare
from cavity._numba.jit import jit
from cavity.conjugate.marginal import Reduction
from cavity.conjugate.niw import add_row
from cavity.interface import (
    accumulate,
    auxiliary,
    bounds,
    complete,
    evidence,
    evidences,
    log_densities,
    log_density,
    observe,
    part_bounds,
    part_complete,
    part_evidence,
    part_evidences,
    part_log_densities,
    part_log_density,
    part_pick,
    part_settle,
    part_visit,
    pick,
    pick_given,
    set_auxiliary,
    settle,
    visit,
)
from cavity.likelihoods.selection import draw_from_scores

# The slot of rows outside every cluster, where there may be some, and what stands for none.
NOISE_SLOT, NO_NOISE = 0, -1


class RowTraits(NamedTuple):
    """What is known of rows that are not all plain, as a problem states it.

    Attributes
    ----------
    missing : array of bool, shape (n, d)
    weight : array of float, shape (n,)
        Rows of a weight other than one have no gaps.
    box : array of shape (2, d), or None
        Lower ends and widths of the box that rows outside every cluster lie in; None if no row can
        be there.
    """

    missing: np.ndarray
    weight: np.ndarray
    box: np.ndarray | None = None

    def first(self, n: int) -> RowTraits:
        """Those of the first n rows."""
        return RowTraits(self.missing[:n], self.weight[:n], self.box)


class RowKinds(NamedTuple):
    """The same as kernels need it. No chain changes any of it, and all have the same.

    The fields are those of `UnevenRows`.
    """

    kind: np.ndarray
    start: np.ndarray
    gaps: np.ndarray
    weight: np.ndarray
    n_there: np.ndarray
    weight_of: np.ndarray
    log_noise: np.ndarray
    box: np.ndarray


def row_kinds(traits: RowTraits) -> RowKinds:
    """Rows sorted by how many columns are there and what they weigh."""
    d = traits.missing.shape[1]
    there = d - traits.missing.sum(axis=1)
    kinds, kind = np.unique(
        np.vstack([[[d, 1.0]], np.column_stack([there, traits.weight])]),
        axis=0,
        return_inverse=True,
    )
    # The plain kind, which is among them, becomes the first.
    kind = kind.reshape(-1)
    plain = int(kind[0])
    order = np.concatenate([[plain], np.delete(np.arange(len(kinds)), plain)])
    box = np.vstack([np.zeros(d), np.ones(d)]) if traits.box is None else traits.box
    log_density = -np.where(traits.missing, 0.0, np.log(box[1])).sum(axis=1)
    return RowKinds(
        kind=np.argsort(order)[kind[1:]],
        start=np.concatenate([[0], np.cumsum(d - there)]).astype(np.int64),
        gaps=np.nonzero(traits.missing)[1].astype(np.int64),
        weight=np.ascontiguousarray(traits.weight, dtype=float),
        n_there=kinds[order, 0].astype(np.int64),
        weight_of=kinds[order, 1].copy(),
        log_noise=traits.weight * log_density,
        box=np.ascontiguousarray(box, dtype=float),
    )


class UnevenRows(NamedTuple):
    """Rows with gaps, weights and log densities as noise, around the likelihood of plain ones.

    The rows in ``base`` are the chain's own: their gaps hold the values last drawn.
    """

    base: Any
    kind: np.ndarray  # (n,), 0 for a plain row
    start: np.ndarray  # (n + 1,), where the gaps of each row begin in `gaps`
    gaps: np.ndarray  # (cells,), columns that are missing
    weight: np.ndarray  # (n,)
    n_there: np.ndarray  # (kinds,), columns that are there
    weight_of: np.ndarray  # (kinds,)
    rule: np.ndarray  # (kinds, constants, slots), quadrature, where scales are integrated out
    constant: np.ndarray  # (kinds, slots), of the density or the integral
    noise_slot: np.ndarray  # (1,), -1 for none
    log_noise: np.ndarray  # (n,)
    box: np.ndarray  # (2, d)
    room: Reduction

    @property
    def y(self) -> np.ndarray:
        """Rows with their gaps filled in."""
        return self.base.y

    @property
    def alpha(self) -> np.ndarray:
        """Half the degrees of freedom of every slot."""
        return self.base.alpha

    @property
    def scale(self) -> np.ndarray:
        """Scale of every row; for one of weight w the sum of w of them."""
        return self.base.scale

    @property
    def alike(self) -> bool:
        """Whether every row has weight one and is in some cluster: gaps alone tell them apart."""
        return self.noise_slot[0] < 0 and self.weight_of.max() == self.weight_of.min() == 1.0

    @property
    def own_width(self) -> int:
        """Numbers of a row's own: its scale and what fills its gaps."""
        return 1 + self.room.columns.size

    @property
    def cells(self) -> tuple[np.ndarray, np.ndarray]:
        """Rows and columns of the gaps."""
        return np.repeat(np.arange(self.kind.size), np.diff(self.start)), self.gaps


declare(
    UnevenRows,
    slots={"rule": 2, "constant": 1},
    constant=tuple(name for name in UnevenRows._fields if name not in ("base", "rule", "constant")),
)


# --------------------------------------------------------------------------- labels


@evidence.register(UnevenRows)
def _(model, q, k, i):
    if k == model.noise_slot[0]:
        return model.log_noise[i]
    if model.kind[i] == 0:
        return evidence(model.base, q, k, i)
    return part_evidence(model.base, model, q, k, i)


@evidences.register(UnevenRows)
def _(model, q, i, out):
    if model.kind[i] == 0:
        evidences(model.base, q, i, out)
    else:
        part_evidences(model.base, model, q, i, out)
    if model.noise_slot[0] >= 0:
        out[model.noise_slot[0]] = model.log_noise[i]


@bounds.register(UnevenRows)
def _(model, q, i, most, least):
    if model.kind[i] == 0:
        bounds(model.base, q, i, most, least)
    else:
        part_bounds(model.base, model, q, i, most, least)
    noise = model.noise_slot[0]
    if noise >= 0:
        most[noise] = least[noise] = model.log_noise[i]


@jit(internal=True)
def pick_weighted(model, q, i, w, weights, scores, mass, rng):
    """``pick`` of a row of any weight w."""
    # The prior gives the weight of a slot for all w rows as one of max(w, 1) equal factors, lest
    # it overflow.
    for k in range(weights.shape[0]):
        if weights[k] > 0.0:
            prior = max(w, 1.0) * np.log(weights[k])
            scores[k] = evidence(model, q, np.int64(k), i) + prior
            weights[k] = 1.0
    return draw_from_scores(weights, scores, mass, rng)


@pick.register(UnevenRows)
def _(model, q, i, weights, scores, mass, visited, rng):
    w = model.weight[i]
    if w == 1.0:
        return part_pick(model.base, model, q, i, weights, scores, mass, visited, rng)
    return pick_weighted(model, q, i, w, weights, scores, mass, rng)


@log_density.register(UnevenRows)
def _(model, parameters, k, i):
    if k == model.noise_slot[0]:
        return model.log_noise[i]
    if model.kind[i] == 0:
        return log_density(model.base, parameters, k, i)
    return part_log_density(model.base, model, parameters, k, i)


@log_densities.register(UnevenRows)
def _(model, parameters, i, out):
    if model.kind[i] == 0:
        log_densities(model.base, parameters, i, out)
    else:
        part_log_densities(model.base, model, parameters, i, out)
    if model.noise_slot[0] >= 0:
        out[model.noise_slot[0]] = model.log_noise[i]


@jit(internal=True)
def pick_given_weighted(model, parameters, i, w, weights, scores, mass, rng):
    """``pick_given`` of a row of any weight w."""
    log_densities(model, parameters, i, scores)
    if w != 1.0:
        for k in range(weights.shape[0]):
            if weights[k] > 0.0:
                scores[k] += max(w, 1.0) * np.log(weights[k])
                weights[k] = 1.0
    return draw_from_scores(weights, scores, mass, rng)


@pick_given.register(UnevenRows)
def _(model, parameters, i, weights, scores, mass, rng):
    w = model.weight[i]
    return pick_given_weighted(model, parameters, i, w, weights, scores, mass, rng)


# --------------------------------------------------------------------------- members


@visit.register(UnevenRows)
def _(model, i, k, rng):
    part_visit(model.base, model, i, k, rng)


@settle.register(UnevenRows)
def _(model, i, k):
    part_settle(model.base, model, i, k)


@complete.register(UnevenRows)
def _(model, q, k, i, rng):
    if k == model.noise_slot[0]:
        for at in range(model.start[i], model.start[i + 1]):
            c = model.gaps[at]
            model.base.y[i, c] = model.box[0, c] + model.box[1, c] * rng.random()
    elif model.kind[i] == 0:
        complete(model.base, q, k, i, rng)
    else:
        part_complete(model.base, model, q, k, i, rng)


@auxiliary.register(UnevenRows)
def _(model, i, out):
    out[0] = model.base.scale[i]
    first = model.start[i]
    for at in range(first, model.start[i + 1]):
        out[1 + at - first] = model.base.y[i, model.gaps[at]]


@set_auxiliary.register(UnevenRows)
def _(model, i, values):
    model.base.scale[i] = values[0]
    first = model.start[i]
    for at in range(first, model.start[i + 1]):
        model.base.y[i, model.gaps[at]] = values[1 + at - first]


@observe.register(UnevenRows)
def _(model, q, k, i, sign):
    # As for plain rows, but that a row of weight w counts as w.
    if k == model.noise_slot[0]:
        return True
    return add_row(q, k, sign * model.base.scale[i], sign * model.weight[i], model.base.y[i])


@accumulate.register(UnevenRows)
def _(model, q, k, i):
    if k != model.noise_slot[0]:
        accumulate(model.base, q, k, i)
        q.natural[k, 1] += model.weight[i] - 1.0
