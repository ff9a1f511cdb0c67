"""Gaussian and Student-t mixtures under their collapses."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from cavity._numba.simd import whole_vectors
from cavity.collapse.conjugate import ConjugateCollapse
from cavity.collapse.driver import AssembledModel, CollapsedState
from cavity.collapse.problems import GaussianProblem, StudentTProblem
from cavity.collapse.registry import supports
from cavity.conjugate.niw import gaussian_parameters, normal_inverse_wishart
from cavity.likelihoods.degrees_of_freedom import TailUpdate
from cavity.likelihoods.gaussian import scaled_gaussian
from cavity.likelihoods.missing import (
    NO_NOISE,
    NOISE_SLOT,
    GapUpdate,
    MissingOrWeightedRows,
    missing_or_weighted_rows,
)
from cavity.likelihoods.sampled_student_t import marginal_student_t, sampled_student_t
from cavity.likelihoods.student_t import student_t
from cavity.priors.collapsed_df import with_collapsed_df
from cavity.updates import Update

if TYPE_CHECKING:
    from cavity.likelihoods.latent_cells import LatentCells

# A member that moves under EP is projected, which takes as long as some four evidences do, and what
# these moves accept by is an approximation: the sweep gets the time instead.
_EP_EFFORT = 0.2


def _niw(problem: GaussianProblem | StudentTProblem, n_slots: int) -> tuple[Any, Any]:
    family = normal_inverse_wishart(*problem.prior, n_slots)
    return family, gaussian_parameters(problem.y.shape[1], n_slots)


def _updates(problem: GaussianProblem | StudentTProblem) -> tuple[Update, ...]:
    return tuple(update.fresh() for update in problem.updates)


def _likelihood(
    problem: GaussianProblem | StudentTProblem, make: Callable[..., Any], alpha: np.ndarray
) -> Any:
    """Return the likelihood, wrapped for rows with missing values, weights or noise."""
    # Values that are drawn are a chain's own, and so are the rows then.
    gappy = problem.rows is not None and problem.kinds.gaps.size
    y = problem.y.copy() if gappy or problem.latent is not None else problem.y
    if problem.rows is None:
        return make(y, alpha)
    noise = NO_NOISE if problem.rows.box is None else NOISE_SLOT
    return missing_or_weighted_rows(make(y, alpha), problem.kinds, noise)


def latent_update(model: Any, latent: LatentCells | None) -> tuple[Update, ...]:
    """Return the update that draws latent cells, if there are any. It comes last."""
    if latent is None:
        return ()
    from cavity.likelihoods.latent_cells import LatentCellUpdate

    return (LatentCellUpdate(model, latent),)


def _gaps(model: Any, *, given_parameters: bool = False) -> tuple[Update, ...]:
    """Return the update that stores imputed values, and draws them if a sweep does not."""
    if isinstance(model, MissingOrWeightedRows) and model.gaps.size:
        return (GapUpdate(model, given_parameters),)
    return ()


def _gaussian(
    collapse: type[CollapsedState], problem: GaussianProblem, n_slots: int
) -> AssembledModel:
    n_slots = whole_vectors(n_slots)
    model = _likelihood(problem, scaled_gaussian, np.full(n_slots, np.inf))
    driver: Any = collapse
    built, updates = driver(model, *_niw(problem, n_slots)), _updates(problem)
    latent = latent_update(model, problem.latent)
    if collapse is ConjugateCollapse:
        updates = (*_gaps(model), *with_collapsed_df(updates), *latent)
        return AssembledModel(built, updates, movable="exactly")
    return AssembledModel(built, (*_gaps(model, given_parameters=True), *updates, *latent))


@supports("gaussian", "collapsed")
def _(problem: GaussianProblem, n_slots: int, options: Mapping[str, Any]) -> AssembledModel:
    return _gaussian(ConjugateCollapse, problem, n_slots)


@supports("gaussian", "naive")
def _(problem: GaussianProblem, n_slots: int, options: Mapping[str, Any]) -> AssembledModel:
    from cavity.collapse.naive import NaiveCollapse

    return _gaussian(NaiveCollapse, problem, n_slots)


def _alpha(problem: StudentTProblem, n_slots: int) -> np.ndarray:
    return np.full(n_slots, 0.5 * problem.df)


def _tails(problem: StudentTProblem, **options: Any) -> TailUpdate:
    return TailUpdate(problem.learn_df, *problem.df_prior, **options)


@supports("student-t", "collapsed")
def _(problem: StudentTProblem, n_slots: int, options: Mapping[str, Any]) -> AssembledModel:
    n_slots = whole_vectors(n_slots)
    model = _likelihood(problem, sampled_student_t, _alpha(problem, n_slots))
    driver = ConjugateCollapse(model, *_niw(problem, n_slots))
    updates = (*_gaps(model), _tails(problem), *with_collapsed_df(_updates(problem)))
    latent = latent_update(model, problem.latent)
    return AssembledModel(driver, (*updates, *latent), movable="exactly")


def refuse_uneven(collapse: str) -> None:
    """Refuse missing values, weights or noise that a collapse does not support."""
    if collapse == "ep":
        raise ValueError(
            "collapse='ep' takes whole rows of weight one: it has no projection for missing "
            "values, sample_weight or noise. Use collapse='collapsed', which is exact."
        )


@supports("student-t", "ep")
def _(problem: StudentTProblem, n_slots: int, options: Mapping[str, Any]) -> AssembledModel:
    from cavity.collapse.ep import EPCollapse

    n_slots = whole_vectors(n_slots)
    fraction = options.get("fraction", 1.0)
    if problem.rows is not None:
        refuse_uneven("ep")
    model = student_t(problem.y, _alpha(problem, n_slots), fraction)
    tails = _tails(problem)
    driver = EPCollapse(model, *_niw(problem, n_slots), n=len(problem.y), **options)
    updates = (tails, *_updates(problem))
    return AssembledModel(driver, updates, movable="approximately", effort=_EP_EFFORT)


@supports("student-t", "blocked")
def _(problem: StudentTProblem, n_slots: int, options: Mapping[str, Any]) -> AssembledModel:
    n_slots = whole_vectors(n_slots)
    model = _likelihood(problem, scaled_gaussian, _alpha(problem, n_slots))
    driver = ConjugateCollapse(model, *_niw(problem, n_slots))
    updates = (*_gaps(model), _tails(problem), *with_collapsed_df(_updates(problem)))
    return AssembledModel(driver, (*updates, *latent_update(model, problem.latent)))


@supports("student-t", "naive")
def _(problem: StudentTProblem, n_slots: int, options: Mapping[str, Any]) -> AssembledModel:
    from cavity.collapse.naive import NaiveCollapse

    n_slots = whole_vectors(n_slots)
    model = _likelihood(problem, marginal_student_t, _alpha(problem, n_slots))
    driver = NaiveCollapse(model, *_niw(problem, n_slots))
    # Labels were drawn with missing values and scales integrated out, so these come first.
    gaps = _gaps(model, given_parameters=True)
    updates = (*gaps, _tails(problem, first=True), *_updates(problem))
    return AssembledModel(driver, (*updates, *latent_update(model, problem.latent)))
