"""Tables: parts of several kinds, each a problem, combined as a product."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import reduce
from typing import Any

import numpy as np

from cavity._numba.arrays import copied, grown
from cavity._numba.simd import whole_vectors
from cavity.collapse.conjugate import ConjugateCollapse
from cavity.collapse.driver import AssembledModel
from cavity.collapse.ep import EPCollapse
from cavity.collapse.naive import NaiveCollapse
from cavity.collapse.parts import ComponentUpdate
from cavity.collapse.problems import (
    CategoricalProblem,
    CountsProblem,
    OwnProblem,
    TableProblem,
    paths_of,
)
from cavity.collapse.registry import assemble, collapses_of, supports
from cavity.conjugate.dirichlet import dirichlets, shares
from cavity.conjugate.gamma import gammas, rates
from cavity.conjugate.product import ProductParameters, product_family
from cavity.conjugate.selected import selected
from cavity.likelihoods.category_shares import ShareHyperpriors
from cavity.likelihoods.column_selection import ColumnSelection
from cavity.likelihoods.count_rates import (
    TYPICAL_DISPERSION,
    TYPICAL_SHAPE,
    DispersionUpdate,
    RateHyperpriors,
)
from cavity.likelihoods.gaussian import scaled_gaussian
from cavity.likelihoods.missing import (
    NOISE_SLOT,
    CellTraits,
    GapStep,
    MissingOrWeightedRows,
    RowTraits,
    missing_or_weighted_rows,
    restore_gaps,
    row_kinds,
    weighted_cells,
)
from cavity.likelihoods.negative_binomial import negative_binomial
from cavity.likelihoods.product import product_model
from cavity.updates import CATEGORIES, COUNTS, LIKELIHOOD, Chain, Update


def _cells(model: Any, rows: CellTraits | None) -> Any:
    """Return the likelihood, wrapped for rows with missing values, weights or noise."""
    return model if rows is None else weighted_cells(model, rows, NOISE_SLOT)


def _dirichlet_parts(problem: CategoricalProblem, n_slots: int) -> tuple[Any, Any, Any]:
    start = problem.start
    prior = np.ones(start[-1]) if problem.concentration is None else problem.concentration
    return (
        _cells(problem.likelihood, problem.rows),
        dirichlets(prior, start, n_slots),
        shares(int(start[-1]), n_slots),
    )


def _share_updates(problem: CategoricalProblem) -> tuple[Update, ...]:
    return (ShareHyperpriors(problem.n_held),) if problem.learn else ()


def _conjugate(
    problem: CategoricalProblem | CountsProblem,
    parts: tuple[Any, Any, Any],
    updates: tuple[Update, ...],
    name: str,
) -> AssembledModel:
    """Return categories or counts under the exact collapse, with indicators where asked for."""
    model, family, parameters = parts
    if problem.select:
        family = selected(family, parameters)
        updates = (*updates, ColumnSelection(name, family.active.size, problem.n_held))
    return AssembledModel(ConjugateCollapse(model, family, parameters), updates, movable="exactly")


@supports("categorical", "collapsed")
def _(problem: CategoricalProblem, n_slots: int, options: Mapping[str, Any]) -> AssembledModel:
    parts = _dirichlet_parts(problem, whole_vectors(n_slots))
    return _conjugate(problem, parts, _share_updates(problem), CATEGORIES)


@supports("categorical", "naive")
def _(problem: CategoricalProblem, n_slots: int, options: Mapping[str, Any]) -> AssembledModel:
    driver = NaiveCollapse(*_dirichlet_parts(problem, whole_vectors(n_slots)))
    return AssembledModel(driver, _share_updates(problem))


def _gamma_parts(problem: CountsProblem, n_slots: int) -> tuple[Any, Any]:
    centre = problem.centre
    shape = np.full(centre.size, TYPICAL_SHAPE)
    shape, rate = (shape, shape / centre) if problem.prior is None else problem.prior
    return gammas(shape, rate, n_slots), rates(centre.size, n_slots)


def _rate_updates(problem: CountsProblem) -> tuple[Update, ...]:
    if not problem.learn:
        return ()
    return (RateHyperpriors(problem.centre, problem.overdispersed, problem.n_held),)


@supports("poisson", "collapsed")
def _(problem: CountsProblem, n_slots: int, options: Mapping[str, Any]) -> AssembledModel:
    n_slots = whole_vectors(n_slots)
    parts = (_cells(problem.likelihood, problem.rows), *_gamma_parts(problem, n_slots))
    return _conjugate(problem, parts, _rate_updates(problem), COUNTS)


@supports("poisson", "naive")
def _(problem: CountsProblem, n_slots: int, options: Mapping[str, Any]) -> AssembledModel:
    n_slots = whole_vectors(n_slots)
    model = _cells(problem.likelihood, problem.rows)
    driver = NaiveCollapse(model, *_gamma_parts(problem, n_slots))
    return AssembledModel(driver, _rate_updates(problem))


@supports("negative-binomial", "ep")
def _(problem: CountsProblem, n_slots: int, options: Mapping[str, Any]) -> AssembledModel:
    n_slots = whole_vectors(n_slots)
    known = problem.dispersion
    start = np.full(problem.y.shape[1], TYPICAL_DISPERSION) if known is None else known
    model = negative_binomial(problem.y, start, n_slots)
    driver = EPCollapse(model, *_gamma_parts(problem, n_slots), n=problem.n, **options)
    updates = (*_rate_updates(problem), *((DispersionUpdate(),) if known is None else ()))
    return AssembledModel(driver, updates, movable="approximately")


def _own(problem: OwnProblem, n_slots: int) -> tuple[Any, Any, Any]:
    n_slots = whole_vectors(n_slots)
    parts = (problem.likelihood, problem.family, problem.parameters)
    # Every chain has its own model, family and parameters.
    model, family, parameters = (copied(grown(part, n_slots)) for part in parts)
    return model, family, parameters


@supports("own", "collapsed")
def _(problem: OwnProblem, n_slots: int, options: Mapping[str, Any]) -> AssembledModel:
    return AssembledModel(ConjugateCollapse(*_own(problem, n_slots)), movable="exactly")


@supports("own", "ep")
def _(problem: OwnProblem, n_slots: int, options: Mapping[str, Any]) -> AssembledModel:
    driver = EPCollapse(*_own(problem, n_slots), n=problem.n, **options)
    return AssembledModel(driver, movable="approximately")


def _whole_rows(part: Any) -> tuple[Any, RowTraits | None]:
    """Return a continuous part with imputed values, since EP needs complete rows.

    Its rows are a copy, whose missing values an update draws after every sweep.
    """
    if getattr(part, "latent", None) is not None:
        # Expectation propagation keeps the values that chains start with.
        part = replace(part, latent=None)
    rows = getattr(part, "rows", None)
    if rows is None:
        return part, None
    return replace(part, y=part.y.copy(), rows=None), rows


class _Filling(Update):
    """Draws missing values of a likelihood for complete rows, by one that shares its rows."""

    name = "gaps"
    changes = frozenset({LIKELIHOOD})

    def __init__(self, y: np.ndarray, rows: RowTraits) -> None:
        self.y, self.rows = y, rows
        self._cells = np.nonzero(rows.missing)
        self._aware: MissingOrWeightedRows | None = None

    def kernel(self, chain: Chain) -> GapStep:
        """Return it for kernels."""
        alpha = chain.model.alpha
        if self._aware is None or self._aware.alpha is not alpha:
            base = scaled_gaussian(self.y, alpha)._replace(alpha=alpha)
            self._aware = missing_or_weighted_rows(base, row_kinds(self.rows))
        return GapStep(self._aware)

    def arrays(self) -> dict[str, np.ndarray]:
        """The values, in the order of rows and columns."""
        return {"values": self.y[self._cells]}

    def restore(self, arrays: Mapping[str, np.ndarray], chain: Chain) -> None:
        """Continue from ``arrays``."""
        restore_gaps(self.y, self._cells, arrays)


def _product(
    problem: TableProblem, collapse: str, n_slots: int, options: Mapping[str, Any]
) -> tuple[tuple[Any, Any, Any], tuple[Update, ...]]:
    """Return model, family and parameters of all parts, and their updates."""
    n_slots = whole_vectors(n_slots)
    made = []
    for part in problem.parts:
        # By EP a part that is conjugate has exact sites.
        own = collapse if collapse in collapses_of(part.model) else "collapsed"
        if isinstance(part, OwnProblem) and part.conjugate:
            own = "collapsed"
        part, gaps = _whole_rows(part) if collapse == "ep" else (part, None)
        built = assemble(part, own, n_slots, options if own == "ep" else {})
        if gaps is not None:
            built = built._replace(updates=(_Filling(part.y, gaps), *built.updates))
        made.append(built)
    drivers = [parts.collapse for parts in made]

    def folded(join: Callable[[Any, Any], Any], values: list[Any]) -> Any:
        return reduce(lambda rest, first: join(first, rest), reversed(values))

    whole = (
        folded(lambda first, rest: product_model(first, rest, n_slots), [d.model for d in drivers]),
        folded(product_family, [d.family for d in drivers]),
        folded(ProductParameters, [d.parameters for d in drivers]),
    )
    updates = tuple(
        ComponentUpdate(update, path)
        for path, parts in zip(paths_of(len(made)), made, strict=True)
        for update in parts.updates
    )
    return whole, updates


@supports("table", "collapsed")
def _(problem: TableProblem, n_slots: int, options: Mapping[str, Any]) -> AssembledModel:
    whole, updates = _product(problem, "collapsed", n_slots, options)
    return AssembledModel(ConjugateCollapse(*whole), updates, movable="exactly")


@supports("table", "ep")
def _(problem: TableProblem, n_slots: int, options: Mapping[str, Any]) -> AssembledModel:
    if any(getattr(part, "rows", None) is not None for part in problem.parts):
        # Newly drawn values need new sites.
        options = {**options, "refresh_every": 1}
    whole, updates = _product(problem, "ep", n_slots, options)
    driver = EPCollapse(*whole, n=problem.n, **options)
    return AssembledModel(driver, updates, movable="approximately")


@supports("table", "naive")
def _(problem: TableProblem, n_slots: int, options: Mapping[str, Any]) -> AssembledModel:
    whole, updates = _product(problem, "naive", n_slots, options)
    return AssembledModel(NaiveCollapse(*whole), updates)
