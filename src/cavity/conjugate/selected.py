"""Families whose columns have a distribution per cluster, or one that all clusters share.

Each has the fields of its plain family, whose sums it keeps for every column and slot. A column
that is not ``active`` is shared: it has no part in a slot's mass, density or scores, and its
parameters are the same in every slot. Given all members, they have the column's prior plus the sums
of all slots.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from cavity._numba.arrays import copied, declare
from cavity._numba.jit import jit, verb
from cavity.conjugate.common import first_occupied
from cavity.conjugate.dirichlet import Dirichlets, draw_shares
from cavity.conjugate.gamma import Gammas
from cavity.conjugate.nig import NormalInverseGammas
from cavity.interface import (
    common_density,
    draw,
    is_scored,
    load,
    log_partition,
    prior_density,
)


class SelectedNormalInverseGammas(NamedTuple):
    """`NormalInverseGammas` with columns that clusters share."""

    prior: np.ndarray
    natural: np.ndarray
    kappa: np.ndarray
    nu: np.ndarray
    mean: np.ndarray
    psi: np.ndarray
    log_psi: np.ndarray
    log_ratio: np.ndarray
    active: np.ndarray  # (columns,) of 0 and 1
    pooled: np.ndarray  # natural parameters given all members
    shared: Any  # parameters of the shared columns, in the first slot


class SelectedDirichlets(NamedTuple):
    """`Dirichlets` with columns that clusters share."""

    prior: np.ndarray
    natural: np.ndarray
    weight: np.ndarray
    total: np.ndarray
    start: np.ndarray
    active: np.ndarray
    pooled: np.ndarray
    shared: Any


class SelectedGammas(NamedTuple):
    """`Gammas` with columns that clusters share."""

    prior: np.ndarray
    natural: np.ndarray
    shape: np.ndarray
    rate: np.ndarray
    log_gamma: np.ndarray
    log_more: np.ndarray
    log_less: np.ndarray
    active: np.ndarray
    pooled: np.ndarray
    shared: Any


_SELECTED: dict[type, type] = {
    NormalInverseGammas: SelectedNormalInverseGammas,
    Dirichlets: SelectedDirichlets,
    Gammas: SelectedGammas,
}


def selected(family: Any, parameters: Any) -> Any:
    """Return a family with an indicator for each of its columns, all of them active.

    Examples
    --------
    >>> from cavity.conjugate.gamma import gammas, rates
    >>> selected(gammas([2.0, 3.0], [1.0, 0.5], n_slots=8), rates(2, 8)).active.tolist()
    [1, 1]
    """
    columns = {NormalInverseGammas: "mean", Dirichlets: "total", Gammas: "shape"}[type(family)]
    return _SELECTED[type(family)](
        **family._asdict(),
        active=np.ones(len(getattr(family, columns)), dtype=np.uint8),
        pooled=family.prior.copy(),
        shared=copied(parameters),
    )


for _family, _selected, _slots, _data in (
    (
        NormalInverseGammas,
        SelectedNormalInverseGammas,
        {"natural": 0, "kappa": 0, "nu": 0, "mean": 1, "psi": 1, "log_psi": 1, "log_ratio": 0},
        (),
    ),
    (Dirichlets, SelectedDirichlets, {"natural": 0, "weight": 1, "total": 1}, ("start",)),
    (
        Gammas,
        SelectedGammas,
        {"natural": 0, **dict.fromkeys(("shape", "rate", "log_gamma", "log_more", "log_less"), 1)},
        (),
    ),
):
    declare(_selected, slots=_slots, constant=_data)
    load.register(_selected)(load.verb.implementations[_family])


# --------------------------------------------------------------------------- one column


@verb
def column_mass(q, natural, c):
    """Log normalizer of a column for a row of natural parameters."""


@verb
def column_density(q, natural, parameters, k, c):
    """Log density of slot k's parameters of a column, up to ``column_mass``."""


@verb
def draw_column(q, natural, parameters, k, c, rng):
    """Draw the parameters of a column into slot k, for a row of natural parameters."""


@verb
def copy_column(q, parameters, k, c):
    """Copy the parameters that clusters share in a column to slot k."""


@column_mass.register(SelectedNormalInverseGammas)
def _(q, natural, c):
    d = q.active.shape[0]
    kappa, nu, b = natural[0], natural[1], natural[2 + c]
    psi = natural[2 + d + c] - b * b / kappa
    value = math.lgamma(0.5 * nu) + 0.5 * math.log(2.0 * math.pi / kappa)
    return value - 0.5 * nu * math.log(0.5 * psi)


@column_density.register(SelectedNormalInverseGammas)
def _(q, natural, parameters, k, c):
    d = q.active.shape[0]
    mean, variance = parameters.mean[c, k], parameters.variance[c, k]
    form = natural[2 + d + c] - 2.0 * natural[2 + c] * mean + natural[0] * mean * mean
    return -0.5 * ((natural[1] + 3.0) * math.log(variance) + form / variance)


@draw_column.register(SelectedNormalInverseGammas)
def _(q, natural, parameters, k, c, rng):
    d = q.active.shape[0]
    kappa, centre = natural[0], natural[2 + c] / natural[0]
    psi = natural[2 + d + c] - kappa * centre * centre
    variance = 0.5 * psi / rng.standard_gamma(0.5 * natural[1])
    parameters.variance[c, k] = variance
    parameters.mean[c, k] = centre + rng.standard_normal() * math.sqrt(variance / kappa)


@copy_column.register(SelectedNormalInverseGammas)
def _(q, parameters, k, c):
    parameters.mean[c, k] = q.shared.mean[c, 0]
    parameters.variance[c, k] = q.shared.variance[c, 0]


@column_mass.register(SelectedDirichlets)
def _(q, natural, c):
    value = total = 0.0
    for p in range(q.start[c], q.start[c + 1]):
        value += math.lgamma(natural[p])
        total += natural[p]
    return value - math.lgamma(total)


@column_density.register(SelectedDirichlets)
def _(q, natural, parameters, k, c):
    value = 0.0
    for p in range(q.start[c], q.start[c + 1]):
        value += (natural[p] - 1.0) * parameters.log_share[p, k]
    return value


@draw_column.register(SelectedDirichlets)
def _(q, natural, parameters, k, c, rng):
    draw_shares(natural, q.start[c], q.start[c + 1], parameters, k, rng)


@copy_column.register(SelectedDirichlets)
def _(q, parameters, k, c):
    for p in range(q.start[c], q.start[c + 1]):
        parameters.share[p, k] = q.shared.share[p, 0]
        parameters.log_share[p, k] = q.shared.log_share[p, 0]


@column_mass.register(SelectedGammas)
def _(q, natural, c):
    return math.lgamma(natural[2 * c]) - natural[2 * c] * math.log(natural[2 * c + 1])


@column_density.register(SelectedGammas)
def _(q, natural, parameters, k, c):
    log_rate = parameters.log_rate[c, k]
    return (natural[2 * c] - 1.0) * log_rate - natural[2 * c + 1] * parameters.rate[c, k]


@draw_column.register(SelectedGammas)
def _(q, natural, parameters, k, c, rng):
    a = natural[2 * c]
    x = math.log(rng.standard_gamma(a + 1.0)) - math.log(natural[2 * c + 1])
    x += math.log1p(-rng.random()) / a
    parameters.log_rate[c, k] = x
    parameters.rate[c, k] = math.exp(x)


@copy_column.register(SelectedGammas)
def _(q, parameters, k, c):
    parameters.rate[c, k] = q.shared.rate[c, 0]
    parameters.log_rate[c, k] = q.shared.log_rate[c, 0]


# --------------------------------------------------------------------------- all columns


@jit(internal=True)
def pool(q):
    """Write the natural parameters given all members to ``pooled``."""
    for p in range(q.prior.shape[0]):
        total = q.prior[p]
        for k in range(q.natural.shape[0]):
            total += q.natural[k, p] - q.prior[p]
        q.pooled[p] = total


@jit(internal=True)
def log_odds(q, counts, c):
    """Log marginal likelihood of a column with parameters per cluster over that with shared ones.

    After ``pool``.
    """
    prior = column_mass(q, q.prior, c)
    total = prior - column_mass(q, q.pooled, c)
    for k in range(counts.shape[0]):
        if counts[k] > 0:
            total += column_mass(q, q.natural[k], c) - prior
    return total


def _is_scored(q, c):
    return q.active[c] != 0


def _log_partition(q, k):
    value = 0.0
    for c in range(q.active.shape[0]):
        if q.active[c] != 0:
            value += column_mass(q, q.natural[k], c)
    return value


def _prior_density(q, parameters, k):
    value = 0.0
    for c in range(q.active.shape[0]):
        if q.active[c] != 0:
            value += column_density(q, q.prior, parameters, k, c)
    return value


def _draw(q, k, parameters, rng):
    for c in range(q.active.shape[0]):
        if q.active[c] != 0:
            draw_column(q, q.natural[k], parameters, k, c, rng)
        else:
            copy_column(q, parameters, k, c)


def _common_density(q):
    pool(q)
    before = after = 0.0
    for c in range(q.active.shape[0]):
        if q.active[c] == 0:
            before += column_density(q, q.prior, q.shared, 0, c) - column_mass(q, q.prior, c)
            after += column_density(q, q.pooled, q.shared, 0, c) - column_mass(q, q.pooled, c)
    return before, after


for _kind in _SELECTED.values():
    log_partition.register(_kind)(_log_partition)
    prior_density.register(_kind)(_prior_density)
    draw.register(_kind)(_draw)
    common_density.register(_kind)(_common_density)
    is_scored.register(_kind)(_is_scored)


# --------------------------------------------------------------------------- learned priors


@verb
def pool_categories(q, members):
    """Count all members of a shared column in the first slot, (P, slots)."""


@verb
def pool_counts(q, totals, counts):
    """Count all members of a shared column in the first occupied slot, (columns, 2, slots)."""


@pool_categories.register(None)
def _(q, members):
    return None


@pool_counts.register(None)
def _(q, totals, counts):
    return None


@pool_categories.register(SelectedDirichlets)
def _(q, members):
    for c in range(q.active.shape[0]):
        if q.active[c] == 0:
            for p in range(q.start[c], q.start[c + 1]):
                for k in range(1, members.shape[1]):
                    members[p, 0] += members[p, k]
                    members[p, k] = 0.0


@pool_counts.register(SelectedGammas)
def _(q, totals, counts):
    first = first_occupied(counts)
    for c in range(q.active.shape[0]):
        if q.active[c] == 0:
            for part in range(2):
                for k in range(first + 1, counts.shape[0]):
                    totals[c, part, first] += totals[c, part, k]
                    totals[c, part, k] = 0.0
