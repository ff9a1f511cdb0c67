"""Mixtures with a structured covariance: independent columns, one for all clusters, or factors."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

# The verbs of each form of covariance are registered when these are imported.
import cavity.likelihoods.diagonal_rows
import cavity.likelihoods.mean_rows  # noqa: F401
from cavity._numba.simd import whole_vectors
from cavity.collapse.conjugate import ConjugateCollapse
from cavity.collapse.driver import AssembledModel
from cavity.collapse.mixtures import latent_update
from cavity.collapse.problems import DIAGONAL, FACTOR, TIED, StructuredProblem
from cavity.collapse.registry import supports
from cavity.conjugate.nig import diagonal_parameters, normal_inverse_gammas
from cavity.conjugate.normal import MeanParameters, factors, normal_means, tied_covariance
from cavity.conjugate.selected import selected
from cavity.likelihoods.column_selection import ColumnSelection
from cavity.likelihoods.degrees_of_freedom import TailUpdate
from cavity.likelihoods.factor_loadings import FactorUpdate
from cavity.likelihoods.missing import NO_NOISE, NOISE_SLOT, GapUpdate
from cavity.likelihoods.scale_mixture_rows import scale_mixture_rows
from cavity.likelihoods.shared_covariance import TiedCovarianceUpdate
from cavity.priors.collapsed_df import CollapsedSpareUpdate
from cavity.priors.hyperpriors import DiagonalHyperpriors, MeanSpreadUpdate
from cavity.priors.selected_columns import SelectedSpareUpdate
from cavity.priors.structured import StructuredPrior
from cavity.updates import MEASUREMENTS, Update


def _diagonal(problem: StructuredProblem, n_slots: int) -> tuple[Any, Any, tuple[Update, ...]]:
    prior = problem.prior
    psi = (prior.nu - 2.0) * prior.scale
    family: Any = normal_inverse_gammas(prior.mean, prior.kappa, prior.nu, psi, n_slots)
    parameters = diagonal_parameters(prior.mean.size, n_slots)
    learned = not (prior.variance is None and prior.typical is None and prior.spread is None)
    updates: tuple[Update, ...] = ()
    if problem.select:
        family = selected(family, parameters)
        updates += (ColumnSelection(MEASUREMENTS, prior.mean.size, prior.n_held),)
        if learned:
            hyperpriors = DiagonalHyperpriors(*prior.learned)
            updates += (hyperpriors,)
            if prior.typical is not None:
                updates = (SelectedSpareUpdate(hyperpriors), *updates)
        return family, parameters, updates
    if prior.typical is not None:
        updates += (CollapsedSpareUpdate(*prior.learned),)
    if learned:
        updates += (DiagonalHyperpriors(*prior.learned),)
    return family, parameters, updates


def _mean_spread(prior: StructuredPrior) -> tuple[Update, ...]:
    if prior.spread is None:
        return ()
    return (MeanSpreadUpdate(prior.mean.size, spread=prior.spread, n_held=prior.n_held),)


def _tied(problem: StructuredProblem, n_slots: int) -> tuple[Any, Any, tuple[Update, ...]]:
    prior = problem.prior
    d = prior.mean.size
    psi = (prior.nu - d - 1.0) * prior.scale
    made = [tied_covariance(np.diag(prior.scale)) for _ in range(2)]
    family = normal_means(prior.mean, prior.kappa, made[0], n_slots)
    updates: tuple[Update, ...] = (TiedCovarianceUpdate(prior.nu, psi),)
    updates += _mean_spread(prior)
    return family, MeanParameters(np.zeros((d, n_slots)), made[1]), updates


def _factor(problem: StructuredProblem, n_slots: int) -> tuple[Any, Any, tuple[Update, ...]]:
    prior = problem.prior
    common = np.concatenate([[prior.nu, 1.0], prior.scale])
    made = [factors(prior.scale, problem.n_factors, n_slots, common) for _ in range(2)]
    family = normal_means(prior.mean, prior.kappa, made[0], n_slots)
    updates: tuple[Update, ...] = (FactorUpdate(*prior.learned),)
    updates += _mean_spread(prior)
    return family, MeanParameters(np.zeros((prior.mean.size, n_slots)), made[1]), updates


_FORMS = {DIAGONAL: _diagonal, TIED: _tied, FACTOR: _factor}


@supports("structured", "collapsed")
def _(problem: StructuredProblem, n_slots: int, options: Mapping[str, Any]) -> AssembledModel:
    n_slots = whole_vectors(n_slots)
    half = np.inf if problem.df is None else 0.5 * problem.df
    marks = problem.marks
    gappy = bool((marks.n_there < problem.y.shape[1]).any())
    noisy = problem.rows is not None and problem.rows.box is not None
    model = scale_mixture_rows(
        # Values that are drawn are a chain's own, and so are the rows then.
        problem.y.copy() if gappy or problem.latent is not None else problem.y,
        np.full(n_slots, half),
        marks,
        NOISE_SLOT if noisy else NO_NOISE,
        problem.n_factors,
    )
    family, parameters, updates = _FORMS[problem.structure](problem, n_slots)
    if problem.df is not None:
        updates = (TailUpdate(problem.learn_df, *problem.df_prior), *updates)
    if gappy:
        updates = (GapUpdate(model, False), *updates)
    updates = (*updates, *latent_update(model, problem.latent))
    return AssembledModel(ConjugateCollapse(model, family, parameters), updates, movable="exactly")
