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
from typing import NamedTuple, Self

import numpy as np

# Its verbs of independent columns are those of selected ones too.
import cavity.likelihoods.diagonal_rows  # noqa: F401
from cavity._numba.arrays import fitting, saved_array
from cavity._numba.jit import jit, verb
from cavity.conjugate.nig import NormalInverseGammas
from cavity.conjugate.selected import (
    SelectedNormalInverseGammas,
    draw_column,
    log_odds,
    pool,
)
from cavity.interface import log_weight, show, step
from cavity.likelihoods.scale_mixture_rows import (
    ScaleMixtureRows,
    row_accumulate,
    row_evidence,
    row_fill,
    row_observe,
)
from cavity.updates import LIKELIHOOD, Chain, Update, indicators_of

for _verb in (row_evidence, row_observe, row_accumulate, row_fill):
    _verb.register(SelectedNormalInverseGammas)(_verb.verb.implementations[NormalInverseGammas])


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
