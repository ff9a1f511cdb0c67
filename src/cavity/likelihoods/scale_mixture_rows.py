"""Rows with a scale of their own, whichever cluster they are in: for structured covariances.

y_i ~ N(mean_k, Sigma_k / u_i), u_i ~ Gamma(alpha, alpha), as for `likelihoods.sampled_student_t`,
but a label is drawn given the row's scale, which is drawn anew after each sweep. That is exact as
well, it needs no integral that depends on the form of the covariance, and a row in the wrong
cluster has a small scale, but not so small that it could not tell the clusters apart. With every
scale at one the rows are Gaussian.

What is odd about rows is dealt with here too. Of a row with gaps the columns that are there are
scored, and the others drawn with the label. A row of weight w is w rows that share their label: its
scale s is the sum of theirs, with the density that is left when their proportions are integrated
out. In the slot of noise a row is uniform over a box, and its scale has its prior.

A family says how a row is scored by it: the verbs ``row_*`` (`cavity.likelihoods.diagonal_rows`,
`cavity.likelihoods.mean_rows`).
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from cavity._numba.arrays import declare
from cavity._numba.jit import jit, verb
from cavity._numba.simd import WIDTH, require_whole, store8
from cavity._numba.slots import Eight
from cavity.interface import (
    accumulate,
    auxiliary,
    complete,
    evidence,
    evidences,
    integrated_evidence,
    log_likelihood,
    observe,
    set_auxiliary,
    shift_own,
)
from cavity.likelihoods.gaussian import first_scales, log_scale, log_student_t
from cavity.likelihoods.missing import RowTraits


class ScaleMixtureRows(NamedTuple):
    """Data, what is there of them, and the scale of every row."""

    y: np.ndarray  # (n, d); gaps hold the values last drawn
    there: np.ndarray  # (n, d) of 0 and 1
    n_there: np.ndarray  # (n,)
    weight: np.ndarray  # (n,)
    alpha: np.ndarray  # (slots,), half the degrees of freedom; infinite for Gaussian rows
    scale: np.ndarray  # (n,), for a row of weight w the sum of w of them
    noise_slot: np.ndarray  # (1,), -1 for none
    log_noise: np.ndarray  # (n,)
    box: np.ndarray  # (2, d)
    room: np.ndarray  # (d, 8)
    square: np.ndarray  # (d + 2, d), room for what gaps come to
    own_width: int

    @property
    def cells(self) -> tuple[np.ndarray, np.ndarray]:
        """Rows and columns of the gaps."""
        rows, columns = np.nonzero(self.there == 0)
        return rows, columns


declare(
    ScaleMixtureRows,
    slots={"alpha": 0},
    constant=tuple(name for name in ScaleMixtureRows._fields if name not in ("alpha", "scale")),
)


class RowMarks(NamedTuple):
    """What is known of rows, as kernels need it: the same for all chains, which change none of it.

    The fields are those of `ScaleMixtureRows`.
    """

    there: np.ndarray
    n_there: np.ndarray
    weight: np.ndarray
    log_noise: np.ndarray
    box: np.ndarray


def row_marks(n: int, d: int, traits: RowTraits | None = None) -> RowMarks:
    """Marks of n rows of d columns, all plain by default."""
    if traits is None:
        traits = RowTraits(np.zeros((n, d), dtype=bool), np.ones(n))
    box = np.vstack([np.zeros(d), np.ones(d)]) if traits.box is None else traits.box
    return RowMarks(
        there=np.ascontiguousarray(~traits.missing, dtype=np.uint8),
        n_there=(d - traits.missing.sum(axis=1)).astype(np.int64),
        weight=np.ascontiguousarray(traits.weight, dtype=float),
        log_noise=-traits.weight * np.where(traits.missing, 0.0, np.log(box[1])).sum(axis=1),
        box=np.ascontiguousarray(box, dtype=float),
    )


def scale_mixture_rows(
    y: np.ndarray, alpha: np.ndarray, marks: RowMarks, noise_slot: int = -1, inner: int = 0
) -> ScaleMixtureRows:
    """Rows with their first scales; alpha has a multiple of eight slots.

    `inner` is the number of factors, for the room that gaps take. With gaps `y` must be the chain's
    own.
    """
    d = y.shape[1]
    require_whole(alpha.size)
    width = max(d, inner)
    return ScaleMixtureRows(
        y=y,
        **marks._asdict(),
        alpha=np.array(alpha, dtype=float),
        scale=first_scales(y, float(alpha[0])) * marks.weight,
        noise_slot=np.array([noise_slot], dtype=np.int64),
        room=np.zeros((d, 8)),
        square=np.zeros((width + 2, width)),
        own_width=max(d - int(marks.n_there.min(initial=d)), 1),
    )


# --------------------------------------------------------------------------- what a family does


@verb
def row_evidence(q, rows, k, i):
    """Log density of what is there of row i against slot k, given its scale.

    Powers of the scale are left out: they belong to the density of the scale.
    """


@verb
def row_evidences(q, rows, i, out):
    """Write ``row_evidence`` for every slot into `out`; by default eight at a time."""


@row_evidences.register(None)
def _(q, rows, i, out):
    for j in range(0, out.shape[0], WIDTH):
        store8(out, j, row_evidence(q, rows, Eight(j), i))


@verb
def row_observe(q, rows, k, i, sign):
    """``observe``."""


@verb
def row_shift(q, rows, i, old, new):
    """``shift_own`` but for scales; by default nothing."""


@row_shift.register(None)
def _(q, rows, i, old, new):
    return 0.0


@verb
def row_accumulate(q, rows, k, i):
    """``accumulate``."""


@verb
def row_fill(q, rows, k, i, rng):
    """Draw the gaps of row i in slot k, given its scale, with the cluster's mean unknown."""


@verb
def row_distance(parameters, rows, k, i):
    """Squared distance of what is there of row i in cluster k, and half its log determinant."""


@verb
def row_fill_given(parameters, rows, k, i, rng):
    """Draw the gaps of row i in cluster k, given its scale and the cluster's parameters."""


@jit(internal=True)
def distance_of_row(parameters, rows, k, i):
    """``row_distance`` as a call."""
    return row_distance(parameters, rows, k, i)


# --------------------------------------------------------------------------- scales


@jit(internal=True)
def log_scale_of_row(rows, i, a):
    """``log_scale`` of row i."""
    return log_scale(rows.scale[i], rows.weight[i], a, rows.n_there[i])


@jit(internal=True)
def log_scale_of_noise(rows, i, a):
    """Log density of row i's scale where nothing is known of it."""
    if a == math.inf:
        return 0.0
    s, shape = rows.scale[i], rows.weight[i] * a
    return shape * math.log(a) - math.lgamma(shape) + (shape - 1.0) * math.log(s) - a * s


# --------------------------------------------------------------------------- labels


@evidence.register(ScaleMixtureRows)
def _(model, q, k, i):
    if k == model.noise_slot[0]:
        return model.log_noise[i] + log_scale_of_noise(model, i, model.alpha[k])
    return row_evidence(q, model, k, i) + log_scale_of_row(model, i, model.alpha[k])


@evidences.register(ScaleMixtureRows)
def _(model, q, i, out):
    row_evidences(q, model, i, out)
    last = math.inf
    value = 0.0
    for k in range(out.shape[0]):
        if model.alpha[k] != last:
            last = model.alpha[k]
            value = log_scale_of_row(model, i, last)
        out[k] += value
    noise = model.noise_slot[0]
    if noise >= 0:
        out[noise] = model.log_noise[i] + log_scale_of_noise(model, i, model.alpha[noise])


# Steps of the integral over a scale, in standard deviations of its logarithm; where it begins, in
# standard deviations, and where it ends at the latest, as a logarithm; coarse steps; and how far
# the logarithm of what is left out is below the largest.
_STEP, _REACH, _LEAST, _STRIDE, _DROP = 0.7, 9.0, -600.0, 0.5, 35.0


@integrated_evidence.register(ScaleMixtureRows)
def _(model, q, k, i):
    a = model.alpha[k]
    if a == math.inf:
        return evidence(model, q, k, i)
    kept = model.scale[i]
    shape = model.weight[i] * (a + 0.5 * model.n_there[i])
    step = _STEP / math.sqrt(shape + 1.0)
    upper = math.log(shape + _REACH * math.sqrt(shape) + 30.0) - math.log(a)
    # Where there is anything to add up: coarse steps down to where it has fallen off, and then
    # down again to where it begins.
    best = -math.inf
    x = upper
    while x > _LEAST:
        model.scale[i] = math.exp(x)
        height = evidence(model, q, k, i) + x
        if height > best:
            best = height
        elif height < best - _DROP:
            break
        x -= _STRIDE
    lower = x
    height = -math.inf
    while upper > lower and height < best - _DROP:
        upper -= _STRIDE
        model.scale[i] = math.exp(upper)
        height = evidence(model, q, k, i) + upper
    x = upper + _STRIDE
    total = 0.0
    while x > lower:
        model.scale[i] = math.exp(x)
        total += math.exp(evidence(model, q, k, i) + x - best)
        x -= step
    model.scale[i] = kept
    return best + math.log(total * step)


# --------------------------------------------------------------------------- members


@complete.register(ScaleMixtureRows)
def _(model, q, k, i, rng):
    d = model.y.shape[1]
    if model.n_there[i] == d:
        return
    if k == model.noise_slot[0]:
        for c in range(d):
            if model.there[i, c] == 0:
                model.y[i, c] = model.box[0, c] + model.box[1, c] * rng.random()
    else:
        row_fill(q, model, k, i, rng)


@shift_own.register(ScaleMixtureRows)
def _(model, q, i, old, new):
    value = row_shift(q, model, i, old, new)
    if model.alpha[old] != model.alpha[new]:
        value += log_scale_of_row(model, i, model.alpha[new])
        value -= log_scale_of_row(model, i, model.alpha[old])
    return value


@auxiliary.register(ScaleMixtureRows)
def _(model, i, out):
    at = 0
    for c in range(model.y.shape[1]):
        if model.there[i, c] == 0:
            out[at] = model.y[i, c]
            at += 1


@set_auxiliary.register(ScaleMixtureRows)
def _(model, i, values):
    at = 0
    for c in range(model.y.shape[1]):
        if model.there[i, c] == 0:
            model.y[i, c] = values[at]
            at += 1


@observe.register(ScaleMixtureRows)
def _(model, q, k, i, sign):
    if k == model.noise_slot[0]:
        return True
    return row_observe(q, model, k, i, sign)


@accumulate.register(ScaleMixtureRows)
def _(model, q, k, i):
    if k != model.noise_slot[0]:
        row_accumulate(q, model, k, i)


# --------------------------------------------------------------------------- given parameters


@log_likelihood.register(ScaleMixtureRows)
def _(model, parameters, z):
    total = 0.0
    for i in range(z.shape[0]):
        k = np.int64(z[i])
        if k == model.noise_slot[0]:
            total += model.log_noise[i]
            continue
        delta, half_log_det = distance_of_row(parameters, model, k, i)
        d = model.n_there[i]
        a = model.alpha[k]
        total += model.weight[i] * (log_student_t(delta, a, d) - half_log_det)
    return total


def draw_given(rows, parameters, z, rng):
    """Draw all scales and gaps given the clusters' parameters."""
    for i in range(z.shape[0]):
        k = np.int64(z[i])
        a, w = rows.alpha[k], rows.weight[i]
        noise = k == rows.noise_slot[0]
        if a < math.inf:
            delta, half = 0.0, 0.0
            if not noise:
                delta = distance_of_row(parameters, rows, k, i)[0]
                half = 0.5 * rows.n_there[i]
            drawn = rng.standard_gamma(w * (a + half)) / (a + 0.5 * delta)
            rows.scale[i] = max(drawn, 1e-280)
        if rows.n_there[i] == rows.y.shape[1]:
            continue
        if noise:
            for c in range(rows.y.shape[1]):
                if rows.there[i, c] == 0:
                    rows.y[i, c] = rows.box[0, c] + rows.box[1, c] * rng.random()
        else:
            row_fill_given(parameters, rows, k, i, rng)
