"""Rows with missing values, weights or noise, around a likelihood of plain rows.

A plain row goes to the likelihood itself. The others are scored by hooks, the verbs ``part_*``,
which a likelihood registers where the defaults do not do:

* *Missing values.* A label is drawn from the columns that are there, the missing ones integrated
  out: within a slot NIW(m, kappa, nu, Psi) the columns O of a row are distributed as under NIW(m_O,
  kappa, nu - |M|, Psi_OO). The missing values are then drawn with the scale, given the label, and
  the row joins its cluster as a whole one. Nothing is approximated. Missing categories and counts
  need no wrapper: they add nothing to a score.
* *Weights.* The likelihood of a row of weight w is taken to the power w, as if it were w rows that
  share their label; the partition prior counts it once. Of w Student-t rows the scales enter by
  their sum s alone, so that the integral is again over one variable, of shape w (alpha + d/2).
  Where a category has the weight a of a slot's sum A, w rows have a (a + 1) ... over
  A (A + 1) ..., w factors each; w counts are those of one cell with w y in w times the time.
* *Noise.* In the slot that is no cluster's a row has a given density: measurements are uniform over
  a box.

For a row of weight w with d columns there, m missing, against a slot NIW(m, kappa, nu, Psi): with
delta the distance of the columns that are there, Psi_O their block, n1 = nu - m + w and a scale s,

    p(y | s) = (s^w / pi^w)^(d/2) * (1 + s / kappa)^(-d/2) * Gamma_d(n1 / 2) / Gamma_d((nu - m) / 2)
               * |Psi_O|^(-w/2) * (1 + c(s) delta)^(-n1/2),   c(s) = kappa s / (kappa + s).

s is w for Gaussian rows, without the power of s. For Student-t rows it is the sum of w scales; what
is left of these, given s, is a Dirichlet distribution, whose normalizer belongs to the constant.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from cavity._numba.arrays import StateError, declare, fitting, saved_array
from cavity._numba.jit import Kernels, jit, verb
from cavity._numba.numerics import fast_log, log_gamma
from cavity._numba.simd import WIDTH, select, store8
from cavity._numba.slots import Eight, take, zero
from cavity.conjugate.marginal import (
    Reduction,
    fill_gaps,
    log_multigamma_gain,
    reduce_slot,
    reduction_room,
)
from cavity.conjugate.niw import add_row, mahalanobis
from cavity.interface import (
    End,
    accumulate,
    auxiliary,
    bounds,
    complete,
    evidence,
    evidences,
    follow_df,
    log_densities,
    log_density,
    log_likelihood,
    observe,
    pick,
    set_auxiliary,
    settle,
    shift_own,
    step,
    visit,
    weigh,
)
from cavity.likelihoods.categorical import Categorical
from cavity.likelihoods.gaussian import (
    ScaledGaussian,
    log_collapsed,
    log_norm,
    log_student_t,
    student_t_tail,
)
from cavity.likelihoods.poisson import Poisson
from cavity.likelihoods.sampled_student_t import (
    MarginalStudentT,
    SampledStudentT,
    draw_scale_of_shape,
    shift_scale,
)
from cavity.likelihoods.scale_integral import (
    N_CONSTANTS,
    REACH,
    SCORE_TOLERANCE,
    TAIL,
    log_integral,
    set_rule,
)
from cavity.likelihoods.selection import draw_by_bounds, draw_from_scores
from cavity.likelihoods.student_t import set_bounds
from cavity.updates import Chain, Update

_LOG_PI = math.log(math.pi)
_LOG_2PI = math.log(2.0 * math.pi)
# The slot of rows outside every cluster, where there may be some, and what stands for none.
NOISE_SLOT, NO_NOISE = 0, -1


class RowTraits(NamedTuple):
    """Missing values, weights and noise of measurements, as a problem states them.

    Attributes
    ----------
    missing : array of bool, shape (n, d)
    weight : array of float, shape (n,)
        Rows of a weight other than one have no missing values.
    box : array of shape (2, d), or None
        Lower ends and widths of the box that rows outside every cluster lie in; None if no row can
        be there.
    """

    missing: np.ndarray
    weight: np.ndarray
    box: np.ndarray | None = None

    def first(self, n: int) -> RowTraits:
        """Return those of the first n rows."""
        return RowTraits(self.missing[:n], self.weight[:n], self.box)


class CellTraits(NamedTuple):
    """Weights and noise of rows of categories or counts, as a problem states them.

    Attributes
    ----------
    weight : array of float, shape (n,)
    log_noise : array of float, shape (n,), or None
        Log density of a row outside every cluster; None if no row can be there.
    """

    weight: np.ndarray
    log_noise: np.ndarray | None = None

    def first(self, n: int) -> CellTraits:
        """Return those of the first n rows."""
        return CellTraits(self.weight[:n], None if self.log_noise is None else self.log_noise[:n])


class RowKinds(NamedTuple):
    """The same as kernels need it, shared by all chains; fields of `MissingOrWeightedRows`."""

    kind: np.ndarray
    start: np.ndarray
    gaps: np.ndarray
    weight: np.ndarray
    n_there: np.ndarray
    weight_of: np.ndarray
    log_noise: np.ndarray
    box: np.ndarray


def row_kinds(traits: RowTraits) -> RowKinds:
    """Sort rows by how many columns are there and what they weigh."""
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


class MissingOrWeightedRows(NamedTuple):
    """Rows with missing values, weights and log densities as noise, around plain ones."""

    base: Any
    y: np.ndarray  # (n, d), the measurements of `base`, missing ones as last drawn
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
    def alpha(self) -> np.ndarray:
        """Half the degrees of freedom of every slot."""
        return self.base.alpha

    @property
    def scale(self) -> np.ndarray:
        """Scale of every row; for one of weight w the sum of w of them."""
        return self.base.scale

    @property
    def alike(self) -> bool:
        """Whether every row has weight one and is in some cluster."""
        return self.noise_slot[0] < 0 and self.weight_of.max() == self.weight_of.min() == 1.0

    @property
    def own_width(self) -> int:
        """How many numbers are a row's own: its scale and its missing values."""
        return 1 + self.room.columns.size

    @property
    def cells(self) -> tuple[np.ndarray, np.ndarray]:
        """Rows and columns of the missing values."""
        return np.repeat(np.arange(self.kind.size), np.diff(self.start)), self.gaps


_CHANGED = ("base", "rule", "constant")
declare(
    MissingOrWeightedRows,
    slots={"rule": 2, "constant": 1},
    constant=tuple(name for name in MissingOrWeightedRows._fields if name not in _CHANGED),
)


def missing_or_weighted_rows(
    base: Any, kinds: RowKinds, noise_slot: int = NO_NOISE
) -> MissingOrWeightedRows:
    """Wrap a likelihood of measurements; with missing values the `y` of `base` is the chain's."""
    # Gaussian rows of weight w have a scale of w; others start as plain ones do, w times.
    base.scale[:] *= kinds.weight
    n_kinds = kinds.n_there.size
    model = MissingOrWeightedRows(
        base=base,
        y=base.y,
        **kinds._asdict(),
        rule=np.zeros((n_kinds, N_CONSTANTS, base.alpha.size)),
        constant=np.zeros((n_kinds, base.alpha.size)),
        noise_slot=np.array([noise_slot], dtype=np.int64),
        room=reduction_room(base.y.shape[1], int(np.diff(kinds.start).max(initial=0))),
    )
    Kernels().run(follow_tails, model)
    return model


def weighted_cells(base: Any, traits: CellTraits, noise_slot: int) -> MissingOrWeightedRows:
    """Wrap a likelihood of categories or counts; `noise_slot` is for rows that have noise."""
    weight = np.ascontiguousarray(traits.weight, dtype=float)
    n = weight.size
    log_noise = np.zeros(n) if traits.log_noise is None else traits.log_noise
    none = np.zeros(0, dtype=np.int64)
    return MissingOrWeightedRows(
        base=base,
        y=np.zeros((n, 0)),
        kind=(weight != 1.0).astype(np.int64),
        start=np.zeros(n + 1, dtype=np.int64),
        gaps=none,
        weight=weight,
        n_there=none,
        weight_of=np.zeros(0),
        rule=np.zeros((0, 0, 0)),
        constant=np.zeros((0, 0)),
        noise_slot=np.array([NO_NOISE if traits.log_noise is None else noise_slot], dtype=np.int64),
        log_noise=weight * log_noise,
        box=np.zeros((2, 0)),
        room=reduction_room(0, 0),
    )


def plain_rows(model: Any) -> Any:
    """Return the likelihood of plain rows that a model is, or is around."""
    return model.base if isinstance(model, MissingOrWeightedRows) else model


@verb
def rows_of(model):
    """``plain_rows`` for kernels."""


@verb
def weight_of(model, z, i):
    """Return the weight of row i in its cluster; zero where it is in none."""


@rows_of.register(None)
def _(model):
    return model


@rows_of.register(MissingOrWeightedRows)
def _(model):
    return model.base


@weight_of.register(None)
def _(model, z, i):
    return 1.0


@weight_of.register(MissingOrWeightedRows)
def _(model, z, i):
    return 0.0 if z[i] == model.noise_slot[0] else model.weight[i]


# --------------------------------------------------------------------------- hooks
# Each is the verb of its name for a row that is not plain, with the rows after the likelihood.


@verb
def part_evidence(base, rows, q, k, i):
    """``evidence``."""


@verb
def part_evidences(base, rows, q, i, out):
    """``evidences``; by default slot by slot."""


@verb
def part_bounds(base, rows, q, i, most, least):
    """``bounds`` of a row of weight one."""


@verb
def part_pick(base, rows, q, i, weights, scores, mass, visited, rng):
    """``pick`` of any row of weight one; by default from the evidence of all slots."""


@verb
def part_visit(base, rows, i, k, rng):
    """``visit`` of any row; by default there is nothing to prepare."""


@verb
def part_settle(base, rows, i, k):
    """``settle`` of any row; by default there is nothing to keep."""


@verb
def part_complete(base, rows, q, k, i, rng):
    """``complete``; by default there is nothing to draw."""


@verb
def part_shift_own(base, rows, q, i, old, new):
    """``shift_own`` of any row; by default nothing."""


@verb
def part_observe(base, rows, q, k, i, sign):
    """``observe`` of any row; by default as many statistics as the row's weight says."""


@verb
def part_accumulate(base, rows, q, k, i):
    """``accumulate`` of any row."""


@verb
def part_log_density(base, rows, parameters, k, i):
    """``log_density``; by default the weight times that of a plain row."""


@verb
def part_log_densities(base, rows, parameters, i, out):
    """``log_densities``; by default eight slots at a time."""


@part_evidences.register(None)
def _(base, rows, q, i, out):
    for k in range(out.shape[0]):
        out[k] = part_evidence(base, rows, q, np.int64(k), i)


@part_pick.register(None)
def _(base, rows, q, i, weights, scores, mass, visited, rng):
    evidences(rows, q, i, scores)
    return draw_from_scores(weights, scores, mass, rng)


@part_visit.register(None)
def _(base, rows, i, k, rng):
    return None


@part_settle.register(None)
def _(base, rows, i, k):
    return None


@part_complete.register(None)
def _(base, rows, q, k, i, rng):
    return None


@part_shift_own.register(None)
def _(base, rows, q, i, old, new):
    return 0.0


@part_observe.register(None)
def _(base, rows, q, k, i, sign):
    return observe(base, q, k, i, sign * rows.weight[i])


@part_log_density.register(None)
def _(base, rows, parameters, k, i):
    return rows.weight[i] * log_density(base, parameters, k, i)


@part_log_densities.register(None)
def _(base, rows, parameters, i, out):
    for j in range(0, out.shape[0], WIDTH):
        store8(out, j, part_log_density(base, rows, parameters, Eight(j), i))


# --------------------------------------------------------------------------- labels


@evidence.register(MissingOrWeightedRows)
def _(model, q, k, i):
    if k == model.noise_slot[0]:
        return model.log_noise[i]
    if model.kind[i] == 0:
        return evidence(model.base, q, k, i)
    return part_evidence(model.base, model, q, k, i)


@evidences.register(MissingOrWeightedRows)
def _(model, q, i, out):
    if model.kind[i] == 0:
        evidences(model.base, q, i, out)
    else:
        part_evidences(model.base, model, q, i, out)
    if model.noise_slot[0] >= 0:
        out[model.noise_slot[0]] = model.log_noise[i]


@bounds.register(MissingOrWeightedRows)
def _(model, q, i, most, least):
    if model.kind[i] == 0:
        bounds(model.base, q, i, most, least)
    else:
        part_bounds(model.base, model, q, i, most, least)
    noise = model.noise_slot[0]
    if noise >= 0:
        most[noise] = least[noise] = model.log_noise[i]


@pick.register(MissingOrWeightedRows)
def _(model, q, i, weights, scores, mass, visited, rng):
    if model.weight[i] == 1.0:
        return part_pick(model.base, model, q, i, weights, scores, mass, visited, rng)
    evidences(model, q, i, scores)
    return draw_from_scores(weights, scores, mass, rng)


@log_density.register(MissingOrWeightedRows)
def _(model, parameters, k, i):
    if k == model.noise_slot[0]:
        return model.log_noise[i]
    if model.kind[i] == 0:
        return log_density(model.base, parameters, k, i)
    return part_log_density(model.base, model, parameters, k, i)


@log_densities.register(MissingOrWeightedRows)
def _(model, parameters, i, out):
    if model.kind[i] == 0:
        log_densities(model.base, parameters, i, out)
    else:
        part_log_densities(model.base, model, parameters, i, out)
    if model.noise_slot[0] >= 0:
        out[model.noise_slot[0]] = model.log_noise[i]


# --------------------------------------------------------------------------- members


@visit.register(MissingOrWeightedRows)
def _(model, i, k, rng):
    part_visit(model.base, model, i, k, rng)


@settle.register(MissingOrWeightedRows)
def _(model, i, k):
    part_settle(model.base, model, i, k)


@jit(internal=True)
def _fill_as_noise(model, i, rng):
    """Draw the missing values of a row outside every cluster."""
    for at in range(model.start[i], model.start[i + 1]):
        c = model.gaps[at]
        model.y[i, c] = model.box[0, c] + model.box[1, c] * rng.random()


@complete.register(MissingOrWeightedRows)
def _(model, q, k, i, rng):
    if k == model.noise_slot[0]:
        _fill_as_noise(model, i, rng)
    elif model.kind[i] == 0:
        complete(model.base, q, k, i, rng)
    else:
        part_complete(model.base, model, q, k, i, rng)


@weigh.register(MissingOrWeightedRows)
def _(model, q, k, i):
    if model.kind[i] == 0:
        return weigh(model.base, q, k, i)
    return part_evidence(model.base, model, q, k, i)


@shift_own.register(MissingOrWeightedRows)
def _(model, q, i, old, new):
    return part_shift_own(model.base, model, q, i, old, new)


@auxiliary.register(MissingOrWeightedRows)
def _(model, i, out):
    auxiliary(model.base, i, out)
    first = model.start[i]
    for at in range(first, model.start[i + 1]):
        out[1 + at - first] = model.y[i, model.gaps[at]]


@set_auxiliary.register(MissingOrWeightedRows)
def _(model, i, values):
    set_auxiliary(model.base, i, values)
    first = model.start[i]
    for at in range(first, model.start[i + 1]):
        model.y[i, model.gaps[at]] = values[1 + at - first]


@observe.register(MissingOrWeightedRows)
def _(model, q, k, i, sign):
    if k == model.noise_slot[0]:
        return True
    return part_observe(model.base, model, q, k, i, sign)


@accumulate.register(MissingOrWeightedRows)
def _(model, q, k, i):
    if k != model.noise_slot[0]:
        part_accumulate(model.base, model, q, k, i)


# --------------------------------------------------------------------------- measurements


@jit(internal=True)
def take_gaps(rows, i):
    """Put the columns that row i lacks into the room; return how many they are."""
    first = rows.start[i]
    m = rows.start[i + 1] - first
    for a in range(m):
        rows.room.columns[a] = rows.gaps[first + a]
    return m


@jit(forceinline=True, internal=True)
def _distance(rows, q, k, i, m):
    """Return the distance of what is there of row i, and half the log determinant gained."""
    if m == 0:
        return mahalanobis(q, k, rows.y[i]), zero(k)
    return reduce_slot(q.whiten, q.mean, k, rows.y[i], rows.room, m)


@jit(internal=True)
def distance_of_rest(rows, q, k, i, m):
    """``_distance`` in one slot, as a call."""
    return _distance(rows, q, k, i, m)


@jit(forceinline=True, internal=True)
def log_ratio_of_rest(q, k, m, w):
    """Return the log of Gamma_d(n1 / 2) / Gamma_d((nu - m) / 2), for the columns that are there."""
    nu = take(k, q.nu)
    if w == 1.0:
        x = 0.5 * (nu + 1.0)
        return take(k, q.log_ratio) - (log_gamma(x) - log_gamma(x - 0.5 * m))
    return log_multigamma_gain(0.5 * (nu - m), 0.5 * w, q.mean.shape[0] - m)


@jit(internal=True)
def _fill(rows, q, k, i, m, delta, s, rng):
    """Draw the gaps of row i in slot k, whose parameters are integrated out, given its scale."""
    freedom = 2.0 * rng.standard_gamma(0.5 * (q.nu[k] + 1.0 - m))
    spread = math.sqrt((1.0 / s + 1.0 / q.kappa[k] + delta) / freedom)
    fill_gaps(rows.y[i], q.mean[:, k], spread, rows.room, m, rng)


def _observe(base, rows, q, k, i, sign):
    # As for plain rows, but that a row of weight w counts as w.
    return add_row(q, k, sign * base.scale[i], sign * rows.weight[i], base.y[i])


def _accumulate(base, rows, q, k, i):
    accumulate(base, q, k, i)
    q.natural[k, 1] += rows.weight[i] - 1.0


for _class in (ScaledGaussian, SampledStudentT, MarginalStudentT):
    part_observe.register(_class)(_observe)
    part_accumulate.register(_class)(_accumulate)


@part_evidence.register(ScaledGaussian)
def _(base, rows, q, k, i):
    m = take_gaps(rows, i)
    w = rows.weight[i]
    d = base.y.shape[1] - m
    sampled = take(k, base.alpha) < math.inf
    s = select(sampled, take(k, base.scales), w)
    power = select(sampled, (w - 1.0) * d, -1.0 * d)
    delta, half_log_det = _distance(rows, q, k, i, m)
    value = take(k, rows.constant[rows.kind[i]]) + log_ratio_of_rest(q, k, m, w)
    value = value + 0.5 * (power * fast_log(s) - w * d * _LOG_PI)
    value = value - w * (take(k, q.half_log_det) + half_log_det)
    return value + log_collapsed(q, k, s, delta, d, take(k, q.nu) - m + w)


@part_evidences.register(ScaledGaussian)
def _(base, rows, q, i, out):
    for j in range(0, out.shape[0], WIDTH):
        store8(out, j, part_evidence(base, rows, q, Eight(j), i))


@part_visit.register(ScaledGaussian)
def _(base, rows, i, k, rng):
    w = rows.weight[i]
    for j in range(base.alpha.shape[0]):
        if base.alpha[j] < math.inf:
            base.scales[j] = rng.standard_gamma(w * base.alpha[j]) / base.alpha[j]
    if base.alpha[k] < math.inf:
        base.scales[k] = base.scale[i]


@part_settle.register(ScaledGaussian)
def _(base, rows, i, k):
    # The scale of a Gaussian row is its weight, and stays.
    if base.alpha[k] < math.inf:
        base.scale[i] = base.scales[k]


@part_complete.register(ScaledGaussian)
def _(base, rows, q, k, i, rng):
    m = take_gaps(rows, i)
    if m > 0:
        delta, _half = distance_of_rest(rows, q, k, i, m)
        _fill(rows, q, k, i, m, delta, base.scales[k], rng)


@part_log_density.register(ScaledGaussian)
def _(base, rows, parameters, k, i):
    m = take_gaps(rows, i)
    d = base.y.shape[1] - m
    delta, half_log_det = _distance(rows, parameters, k, i, m)
    score = 0.5 * (delta + d * _LOG_2PI) + take(k, parameters.half_log_det) + half_log_det
    return -rows.weight[i] * score


@part_evidence.register(SampledStudentT)
def _(base, rows, q, k, i):
    m = take_gaps(rows, i)
    w = rows.weight[i]
    kind = rows.kind[i]
    delta, half_log_det = distance_of_rest(rows, q, k, i, m)
    constant = log_ratio_of_rest(q, k, m, w) - w * (q.half_log_det[k] + half_log_det)
    # Gauss' nodes of every kind of row would take longer to make than they save.
    value = log_integral(
        rows.rule[kind],
        rows.constant[:, :0],
        k,
        base.alpha[k],
        1.0 / q.kappa[k],
        delta,
        q.nu[k] - m + w,
        base.y.shape[1] - m,
    )
    return constant + rows.constant[kind, k] + value


@part_bounds.register(SampledStudentT)
def _(base, rows, q, i, most, least):
    m = take_gaps(rows, i)
    d = base.y.shape[1] - m
    rule = rows.rule[rows.kind[i]]
    for j in range(0, most.shape[0], WIDTH):
        delta, half_log_det = _distance(rows, q, Eight(j), i, m)
        constant = log_ratio_of_rest(q, Eight(j), m, 1.0) - half_log_det
        set_bounds(q, j, base.alpha, rule, delta, constant, m, d, most, least)


@part_pick.register(SampledStudentT)
def _(base, rows, q, i, weights, scores, mass, visited, rng):
    return draw_by_bounds(rows, q, i, weights, scores, mass, visited, rng)


@part_complete.register(SampledStudentT)
def _(base, rows, q, k, i, rng):
    m = take_gaps(rows, i)
    w = rows.weight[i]
    d = base.y.shape[1] - m
    delta, _half = distance_of_rest(rows, q, k, i, m)
    alpha = base.alpha[k]
    shape = w * (alpha + 0.5 * d)
    n1 = q.nu[k] - m + w
    rule = rows.rule[rows.kind[i]]
    reach, tail = rule[REACH, k], rule[TAIL, k]
    base.scale[i] = draw_scale_of_shape(alpha, shape, d, q.kappa[k], n1, delta, reach, tail, rng)
    if m > 0:
        _fill(rows, q, k, i, m, delta, base.scale[i], rng)


@part_shift_own.register(SampledStudentT)
def _(base, rows, q, i, old, new):
    d = base.y.shape[1]
    return shift_scale(base.scale[i], rows.weight[i], base.alpha[old], base.alpha[new], d)


@part_log_density.register(MarginalStudentT)
def _(base, rows, parameters, k, i):
    m = take_gaps(rows, i)
    delta, half_log_det = _distance(rows, parameters, k, i, m)
    tail = student_t_tail(delta, take(k, base.alpha), base.y.shape[1] - m)
    constant = take(k, rows.constant[rows.kind[i]])
    return rows.weight[i] * (constant - take(k, parameters.half_log_det) - half_log_det - tail)


@verb
def total_of_rows(base, rows, parameters, z):
    """``log_likelihood`` of all rows."""


@total_of_rows.register(None)
def _(base, rows, parameters, z):
    total = 0.0
    for i in range(z.shape[0]):
        total += log_density(rows, parameters, np.int64(z[i]), i)
    return total


def _total_of_measurements(base, rows, parameters, z):
    total = 0.0
    for i in range(z.shape[0]):
        k = np.int64(z[i])
        if k == rows.noise_slot[0]:
            total += rows.log_noise[i]
            continue
        m = take_gaps(rows, i)
        delta, half_log_det = distance_of_rest(rows, parameters, k, i, m)
        score = log_student_t(delta, base.alpha[k], base.y.shape[1] - m)
        total += rows.weight[i] * (score - parameters.half_log_det[k] - half_log_det)
    return total


for _class in (ScaledGaussian, SampledStudentT, MarginalStudentT):
    total_of_rows.register(_class)(_total_of_measurements)


@log_likelihood.register(MissingOrWeightedRows)
def _(rows, parameters, z):
    return total_of_rows(rows.base, rows, parameters, z)


@jit
def fill_all_gaps(rows, parameters, z, rng):
    """Draw all missing values, and the scales of their rows, given the clusters' parameters."""
    base = rows.base
    for i in range(z.shape[0]):
        m = take_gaps(rows, i)
        k = np.int64(z[i])
        if m == 0:
            continue
        if k == rows.noise_slot[0]:
            _fill_as_noise(rows, i, rng)
            continue
        delta, _half = distance_of_rest(rows, parameters, k, i, m)
        a = base.alpha[k]
        if a < math.inf:
            shape = a + 0.5 * (base.y.shape[1] - m)
            base.scale[i] = rng.standard_gamma(shape) / (a + 0.5 * delta)
        spread = 1.0 / math.sqrt(base.scale[i])
        fill_gaps(base.y[i], parameters.mean[:, k], spread, rows.room, m, rng)


@jit
def _rules(alpha, n_there, weight_of, rule, constant, no_grid):
    for kind in range(1, n_there.shape[0]):
        d, w = n_there[kind], weight_of[kind]
        set_rule(alpha, d, w, SCORE_TOLERANCE, rule[kind], no_grid)
        for k in range(alpha.shape[0]):
            a = alpha[k]
            one = a * math.log(a) - math.lgamma(a) - 0.5 * d * _LOG_PI
            shape = a + 0.5 * d
            constant[kind, k] = (w - 1.0) * one + w * math.lgamma(shape) - math.lgamma(w * shape)


@jit
def _constants(alpha, n_there, weight_of, of_density, constant):
    for kind in range(1, n_there.shape[0]):
        half, w = 0.5 * n_there[kind], weight_of[kind]
        for k in range(alpha.shape[0]):
            a = alpha[k]
            if of_density:
                constant[kind, k] = log_norm(a, n_there[kind])
            elif a < math.inf:
                value = w * (math.lgamma(a + half) - math.lgamma(a))
                constant[kind, k] = value + math.lgamma(w * a) - math.lgamma(w * (a + half))


@verb
def set_tables(base, rows):
    """Fill the tables of the kinds of rows that depend on the degrees of freedom."""


@set_tables.register(SampledStudentT)
def _(base, rows):
    no_grid = base.score_nodes[:, :0]
    _rules(base.alpha, rows.n_there, rows.weight_of, rows.rule, rows.constant, no_grid)


@set_tables.register(ScaledGaussian)
def _(base, rows):
    _constants(base.alpha, rows.n_there, rows.weight_of, False, rows.constant)


@set_tables.register(MarginalStudentT)
def _(base, rows):
    _constants(base.alpha, rows.n_there, rows.weight_of, True, rows.constant)


@follow_df.register(MissingOrWeightedRows)
def _(rows):
    follow_df(rows.base)
    set_tables(rows.base, rows)


def follow_tails(rows):
    """Bring the tables that depend on the degrees of freedom up to date, as an entry kernel."""
    set_tables(rows.base, rows)


# --------------------------------------------------------------------------- categories and counts


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


@part_accumulate.register(Categorical)
def _(base, rows, q, k, i):
    for j in range(base.cell.shape[1]):
        if base.cell[i, j] >= 0:
            q.natural[k, base.cell[i, j]] += rows.weight[i]


@part_accumulate.register(Poisson)
def _(base, rows, q, k, i):
    for j in range(base.y.shape[1]):
        if base.y[i, j] >= 0.0:
            q.natural[k, 2 * j] += rows.weight[i] * base.y[i, j]
            q.natural[k, 2 * j + 1] += rows.weight[i]


# --------------------------------------------------------------------------- a chain's values


class GapStep(NamedTuple):
    """Draws all missing values given cluster parameters, for kernels."""

    rows: MissingOrWeightedRows


@step.register(GapStep)
def _(update, model, family, parameters, prior, z, counts, rng):
    fill_all_gaps(update.rows, parameters, z, rng)
    return 0


class GapUpdate(Update):
    """Keeps the missing values of a chain's rows, and draws them where the sweep does not.

    A sweep that integrates parameters out draws a row's missing values with its label. One that
    conditions on them draws labels alone: missing values then come first of all that follows, given
    the parameters that the labels were drawn with.

    Parameters
    ----------
    rows : MissingOrWeightedRows or ScaleMixtureRows
        The chain's own.
    given_parameters : bool
        Whether it draws.
    """

    name = "gaps"
    first = True

    def __init__(self, rows: Any, given_parameters: bool) -> None:
        self.y = rows.y
        self.cells = rows.cells
        self.given_parameters = given_parameters

    def kernel(self, chain: Chain) -> End | GapStep:
        """Return it for kernels: what does nothing, where the sweep draws."""
        return GapStep(chain.model) if self.given_parameters else End()

    def arrays(self) -> dict[str, np.ndarray]:
        """Return the values, in the order of rows and columns."""
        return {"values": self.y[self.cells]}

    def restore(self, arrays: Mapping[str, np.ndarray], chain: Chain) -> None:
        """Continue from ``arrays``."""
        restore_gaps(self.y, self.cells, arrays)


def restore_gaps(y: np.ndarray, cells: Any, arrays: Mapping[str, np.ndarray]) -> None:
    """Fill missing values as they are in a checkpoint."""
    values = fitting(saved_array(arrays, "values"), y[cells], "values")
    if not np.isfinite(values).all():
        raise StateError("a missing value of the saved state is not a finite number")
    y[cells] = values
