"""Which columns matter: indicators, drawn with the parameters of clusters integrated out.

A column that matters has a distribution in each cluster, any other one that all clusters share,
from the same prior. Given the labels and the share of columns that matter, w, the odds of a column
are

    w / (1 - w) times the product over clusters of m(cells of the cluster) / m(all cells),

m being marginal likelihoods: normalizers of the sums that slots have anyway. Then w | indicators ~
Beta(1 + columns that matter, 1 + others). Columns that clusters share have no part in scores.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, NamedTuple, Self

import numpy as np

# Its verbs of independent columns are those of selected ones too.
import cavity.likelihoods.diagonal_rows  # noqa: F401
from cavity._numba.arrays import declare, fitting, saved_array
from cavity._numba.jit import jit, verb
from cavity._numba.numerics import fast_log, log_gamma
from cavity._numba.simd import require_whole
from cavity._numba.slots import take, zero
from cavity.conjugate.nig import NormalInverseGammas
from cavity.conjugate.selected import (
    SelectedNormalInverseGammas,
    draw_column,
    log_odds,
    pool,
)
from cavity.interface import accumulate, evidence, log_density, log_weight, observe, show, step
from cavity.likelihoods.categorical import Categorical
from cavity.likelihoods.poisson import Poisson, log_rising
from cavity.likelihoods.scale_mixture_rows import (
    ScaleMixtureRows,
    row_accumulate,
    row_evidence,
    row_fill,
    row_observe,
)
from cavity.likelihoods.selection import side_by_side
from cavity.updates import LIKELIHOOD, Chain, Update, indicators_of

_LOG_PI = math.log(math.pi)


# --------------------------------------------------------------------------- scores


class SelectedCategorical(NamedTuple):
    """`Categorical` for columns with indicators."""

    cell: np.ndarray


class SelectedPoisson(NamedTuple):
    """`Poisson` for columns with indicators."""

    y: np.ndarray
    log_factorial: np.ndarray


for _plain, _selected in ((Categorical, SelectedCategorical), (Poisson, SelectedPoisson)):
    declare(_selected, slots={}, constant=_selected._fields)
    side_by_side(_selected)
    for _verb in (observe, accumulate, log_density):
        _verb.register(_selected)(_verb.verb.implementations[_plain])


def selected_cells(model: Any, n_slots: int) -> Any:
    """Return a model of categories or counts whose columns have indicators."""
    require_whole(n_slots)
    return (SelectedCategorical if isinstance(model, Categorical) else SelectedPoisson)(*model)


@evidence.register(SelectedCategorical)
def _(model, q, k, i):
    value = zero(k)
    for j in range(model.cell.shape[1]):
        p = model.cell[i, j]
        if q.active[j] != 0 and p >= 0:
            value = value + fast_log(take(k, q.weight[p]) / take(k, q.total[j]))
    return value


@evidence.register(SelectedPoisson)
def _(model, q, k, i):
    total = zero(k)
    for j in range(model.y.shape[1]):
        y = model.y[i, j]
        if q.active[j] != 0 and y >= 0.0:
            shape = take(k, q.shape[j])
            rising = log_rising(shape, take(k, q.log_gamma[j]), y)
            total = total + (rising - model.log_factorial[i, j])
            total = total + (shape * take(k, q.log_less[j]) - y * take(k, q.log_more[j]))
    return total


@row_evidence.register(SelectedNormalInverseGammas)
def _(q, rows, k, i):
    w, s = rows.weight[i], rows.scale[i]
    kappa, nu, ratio = take(k, q.kappa), take(k, q.nu), take(k, q.log_ratio)
    if w != 1.0:
        ratio = log_gamma(0.5 * (nu + w)) - log_gamma(0.5 * nu)
    weight = kappa * s / (kappa + s)
    logs, log_psi = zero(k), zero(k)
    n_scored = 0
    for c in range(q.mean.shape[0]):
        if q.active[c] != 0 and rows.there[i, c] != 0:
            e = rows.y[i, c] - take(k, q.mean[c])
            logs = logs + fast_log(1.0 + weight * e * e / take(k, q.psi[c]))
            log_psi = log_psi + take(k, q.log_psi[c])
            n_scored += 1
    each = ratio - 0.5 * (w * _LOG_PI + fast_log(1.0 + s / kappa))
    return n_scored * each - 0.5 * (nu + w) * logs - 0.5 * w * log_psi


for _row_verb in (row_observe, row_accumulate):
    _row_verb.register(SelectedNormalInverseGammas)(
        _row_verb.verb.implementations[NormalInverseGammas]
    )


@row_fill.register(SelectedNormalInverseGammas)
def _(q, rows, k, i, rng):
    # What is missing in a shared column does not depend on the label: `fill_shared` draws it.
    spread = 1.0 / rows.scale[i] + 1.0 / q.kappa[k]
    for c in range(q.mean.shape[0]):
        if q.active[c] != 0 and rows.there[i, c] == 0:
            variance = 0.5 * q.psi[c, k] / rng.standard_gamma(0.5 * q.nu[k])
            rows.y[i, c] = q.mean[c, k] + math.sqrt(spread * variance) * rng.standard_normal()


@verb
def fill_shared(model, q, rng):
    """Draw missing cells of shared columns given their parameters; usually there are none."""


@fill_shared.register(None)
def _(model, q, rng):
    return None


@fill_shared.register(ScaleMixtureRows)
def _(model, q, rng):
    for i in range(model.y.shape[0]):
        if model.n_there[i] == model.y.shape[1]:
            continue
        for c in range(model.y.shape[1]):
            if q.active[c] == 0 and model.there[i, c] == 0:
                noise = rng.standard_normal() * math.sqrt(q.shared.variance[c, 0] / model.scale[i])
                model.y[i, c] = q.shared.mean[c, 0] + noise


# --------------------------------------------------------------------------- indicators


class SelectionStep(NamedTuple):
    """`ColumnSelection` for kernels."""

    share: np.ndarray  # (1,), of columns that matter
    probability: np.ndarray  # (columns,), given the labels
    n_drawn: np.ndarray  # (1,)
    n_held: int


@jit(internal=True)
def draw_indicators(q, counts, share, probability, rng):
    """Draw every column's indicator given the labels, and then the share that matters."""
    n_columns = q.active.shape[0]
    n_active = 0
    prior_odds = math.log(share[0]) - math.log1p(-share[0])
    for c in range(n_columns):
        probability[c] = 1.0 / (1.0 + math.exp(-(prior_odds + log_odds(q, counts, c))))
        q.active[c] = 1 if rng.random() < probability[c] else 0
        n_active += q.active[c]
    matter = rng.standard_gamma(1.0 + n_active)
    others = rng.standard_gamma(1.0 + n_columns - n_active)
    share[0] = matter / (matter + others)


@step.register(SelectionStep)
def _(update, model, family, parameters, prior, z, counts, rng):
    update.n_drawn[0] += 1
    if update.n_drawn[0] <= update.n_held:
        return 0
    pool(family)
    draw_indicators(family, counts, update.share, update.probability, rng)
    for c in range(family.active.shape[0]):
        if family.active[c] == 0:
            draw_column(family, family.pooled, family.shared, 0, c, rng)
    fill_shared(model, family, rng)
    return 0


@log_weight.register(SelectionStep)
def _(update, model, family, parameters, prior, counts):
    share = update.share[0]
    total = 0.0
    for c in range(family.active.shape[0]):
        total += math.log(share) if family.active[c] != 0 else math.log1p(-share)
    return total


@show.register(SelectionStep)
def _(update, model, family, parameters, prior, counts, out):
    n_columns = update.probability.shape[0]
    for c in range(n_columns):
        out[c] = update.probability[c]
        out[n_columns + c] = family.active[c]
    return 2 * n_columns


class ColumnSelection(Update):
    """Draws which columns of one kind differ between clusters.

    Parameters
    ----------
    kind : str
        Name of the probabilities in draws: `MEASUREMENTS`, `CATEGORIES` or `COUNTS`.
    n_columns : int
    n_held : int
        Draws at the beginning that are left out: all columns matter.
    """

    changes = frozenset({LIKELIHOOD})
    first = True

    def __init__(self, kind: str, n_columns: int, n_held: int = 0) -> None:
        self.name = kind  # type: ignore[misc]
        self.n_held = n_held
        self.share = np.full(1, 0.5)
        self.probability = np.ones(n_columns)
        self.n_drawn = np.zeros(1, dtype=np.int64)

    def fresh(self) -> Self:
        """Return one that has drawn nothing yet."""
        return type(self)(self.name, self.probability.size, self.n_held)

    def kernel(self, chain: Chain) -> SelectionStep:
        """Return it for kernels."""
        return SelectionStep(self.share, self.probability, self.n_drawn, self.n_held)

    def shapes(self, chain: Chain) -> dict[str, tuple[int, ...]]:
        """Return the shapes of the probabilities given the labels, and of the indicators."""
        return dict.fromkeys((self.name, indicators_of(self.name)), self.probability.shape)

    def arrays(self) -> dict[str, np.ndarray]:
        """Return the share, the probabilities, and how often it was asked to draw."""
        names = "share", "probability", "n_drawn"
        return {name: getattr(self, name).copy() for name in names}

    def restore(self, arrays: Mapping[str, np.ndarray], chain: Chain) -> None:
        """Continue from ``arrays``."""
        for name in ("share", "probability", "n_drawn"):
            own = getattr(self, name)
            own[:] = fitting(saved_array(arrays, name), own, name)
