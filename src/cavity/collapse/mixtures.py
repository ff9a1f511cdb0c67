"""The Gaussian, Student-t and scale mixtures under their collapses."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from cavity._numba.simd import whole_vectors
from cavity.collapse.conjugate import ConjugateCollapse
from cavity.collapse.driver import AssembledModel, CollapsedState
from cavity.collapse.ep import EPCollapse
from cavity.collapse.naive import NaiveCollapse
from cavity.collapse.registry import supports
from cavity.conjugate.diagonal_normal import diagonal_normal, vector_parameters
from cavity.conjugate.niw import gaussian_parameters, normal_inverse_wishart
from cavity.likelihoods.degrees_of_freedom import DF_PRIOR, TailUpdate
from cavity.likelihoods.gaussian import scaled_gaussian
from cavity.likelihoods.latent_cells import LatentCells, LatentCellUpdate
from cavity.likelihoods.missing import (
    NO_NOISE,
    NOISE_SLOT,
    GapUpdate,
    MissingOrWeightedRows,
    RowKinds,
    RowTraits,
    missing_or_weighted_rows,
    row_kinds,
)
from cavity.likelihoods.sampled_student_t import marginal_student_t, sampled_student_t
from cavity.likelihoods.scale_mixture import IndicatorUpdate, ScaleMixture, SortedScaleMixture
from cavity.likelihoods.student_t import student_t
from cavity.priors.cluster import NIWPrior
from cavity.priors.collapsed_df import with_collapsed_df
from cavity.updates import Update

# A member that moves under EP is projected, which takes as long as some four evidences do, and what
# these moves accept by is an approximation: the sweep gets the time instead.
_EP_EFFORT = 0.2


class _Rows:
    """Fields and methods shared by problems of measurements."""

    y: np.ndarray
    rows: RowTraits | None

    @property
    def n(self) -> int:
        """Number of observations."""
        return len(self.y)

    @cached_property
    def kinds(self) -> RowKinds:
        """Kinds of rows with missing values, weights or noise, shared by all chains."""
        if self.rows is None:
            raise ValueError("all rows are plain")
        return row_kinds(self.rows)


@dataclass(frozen=True)
class GaussianProblem(_Rows):
    """Rows in Gaussian clusters.

    Attributes
    ----------
    y : array of shape (n, d)
    prior : NIWPrior
        Prior of each cluster's mean and covariance, or the start of a learned one.
    updates : tuple of Update
        Updates that learn the prior.
    rows : RowTraits, optional
        Missing values, weights and noise of rows, if any; missing cells of `y` then hold starting
        values.
    latent : LatentCells, optional
        Cells known up to an interval or an error; `y` then holds where a chain may start.
    """

    y: np.ndarray
    prior: NIWPrior
    updates: tuple[Update, ...] = ()
    rows: RowTraits | None = None
    latent: LatentCells | None = None

    model: ClassVar[str] = "gaussian"


@dataclass(frozen=True)
class StudentTProblem(_Rows):
    """Rows in Student-t clusters.

    Attributes
    ----------
    y, prior, updates, rows, latent
        As in `GaussianProblem`.
    df : float
        Degrees of freedom, or where learned ones start.
    learn_df : {None, "shared", "each"}
    df_prior : (float, float)
        Shape and rate of learned ones' gamma prior.
    """

    y: np.ndarray
    prior: NIWPrior
    updates: tuple[Update, ...] = ()
    df: float = 5.0
    learn_df: str | None = None
    df_prior: tuple[float, float] = DF_PRIOR
    rows: RowTraits | None = None
    latent: LatentCells | None = None

    model: ClassVar[str] = "student-t"


@dataclass(frozen=True)
class ScaleMixtureProblem:
    """Contaminated Gaussian observations in one dimension.

    Attributes
    ----------
    y : array of shape (n,)
    prior : (float, float)
        Mean and variance of the normal prior of a cluster's mean.
    variance, contamination, inflation : float
    """

    y: np.ndarray
    prior: tuple[float, float]
    variance: float = 1.0
    contamination: float = 0.2
    inflation: float = 5.0

    model: ClassVar[str] = "scale-mixture"

    @property
    def n(self) -> int:
        """Number of observations."""
        return len(self.y)


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
    return () if latent is None else (LatentCellUpdate(model, latent),)


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
    n_slots = whole_vectors(n_slots)
    model = _likelihood(problem, marginal_student_t, _alpha(problem, n_slots))
    driver = NaiveCollapse(model, *_niw(problem, n_slots))
    # Labels were drawn with missing values and scales integrated out, so these come first.
    gaps = _gaps(model, given_parameters=True)
    updates = (*gaps, _tails(problem, first=True), *_updates(problem))
    return AssembledModel(driver, (*updates, *latent_update(model, problem.latent)))


def _normal(problem: ScaleMixtureProblem, n_slots: int) -> tuple[Any, Any]:
    mean, variance = problem.prior
    family = diagonal_normal(np.array([mean]), np.array([variance]), n_slots)
    return family, vector_parameters(1, n_slots)


def _constants(problem: ScaleMixtureProblem) -> tuple[float, float, float]:
    return float(problem.variance), float(problem.contamination), float(problem.inflation)


@supports("scale-mixture", "ep")
def _(problem: ScaleMixtureProblem, n_slots: int, options: Mapping[str, Any]) -> AssembledModel:
    model = ScaleMixture(problem.y, *_constants(problem))
    driver = EPCollapse(model, *_normal(problem, n_slots), n=len(problem.y), **options)
    return AssembledModel(driver)


@supports("scale-mixture", "naive")
def _(problem: ScaleMixtureProblem, n_slots: int, options: Mapping[str, Any]) -> AssembledModel:
    n = len(problem.y)
    model = SortedScaleMixture(problem.y, *_constants(problem), np.zeros(n), np.zeros(n_slots))
    return AssembledModel(NaiveCollapse(model, *_normal(problem, n_slots)), (IndicatorUpdate(),))
