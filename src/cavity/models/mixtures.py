"""The Gaussian, Student-t and scale mixtures: which collapses each supports, put together."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from cavity.collapse.conjugate import ConjugateCollapse
from cavity.collapse.ep import EPCollapse
from cavity.collapse.naive import NaiveCollapse
from cavity.core.compile import compiled
from cavity.core.lanes import whole_vectors
from cavity.families.diagonal_normal import diagonal_normal, vector_parameters
from cavity.families.normal_inverse_wishart import gaussian_parameters, normal_inverse_wishart
from cavity.models.covariance_scale import CovarianceScaleUpdate
from cavity.models.degrees_of_freedom import TailUpdate
from cavity.models.scale_mixture import (
    IndicatorUpdate,
    ScaleMixture,
    SortedScaleMixture,
    total_log_mixture,
)
from cavity.models.scaled_gaussian import (
    ScaledGaussian,
    base_measure,
    gather_statistics,
    scaled_gaussian,
    total_log_student_t,
)
from cavity.models.student_t import student_t


class NIWPrior(NamedTuple):
    """Prior of a cluster's mean and covariance: NIW(mean, kappa, nu, psi)."""

    mean: np.ndarray
    kappa: float
    nu: float
    psi: np.ndarray


def _base(model: ScaledGaussian, z: np.ndarray) -> float:
    return float(base_measure(model.scale, model.alpha, z, model.y.shape[1]))


def _gather(model: Any, family: Any, z: np.ndarray) -> None:
    compiled(gather_statistics, model)(model, family, z)


def _log_student_t(model: ScaledGaussian, parameters: Any, z: np.ndarray) -> float:
    return float(total_log_student_t(model.y, parameters, model.alpha, z))


def gaussian_collapse(
    y: np.ndarray,
    prior: NIWPrior,
    n_slots: int,
    collapse: str,
    prior_update: CovarianceScaleUpdate | None = None,
) -> Any:
    """The Gaussian mixture under ``"collapsed"`` or ``"naive"``, with room for `n_slots`."""
    n_slots = whole_vectors(n_slots)
    model = scaled_gaussian(y, np.full(n_slots, np.inf))
    family = normal_inverse_wishart(*prior, n_slots)
    parameters = gaussian_parameters(y.shape[1], n_slots)
    if collapse == "collapsed":
        return ConjugateCollapse(
            model, family, parameters, base_measure=_base, prior_update=prior_update
        )
    return NaiveCollapse(
        model,
        family,
        parameters,
        gather=_gather,
        log_likelihood=_log_student_t,
        prior_update=prior_update,
    )


def student_t_collapse(
    y: np.ndarray,
    prior: NIWPrior,
    n_slots: int,
    collapse: str,
    df: float,
    learn_df: str | None = None,
    df_prior: tuple[float, float] = (2.0, 0.1),
    prior_update: CovarianceScaleUpdate | None = None,
    **ep_options: Any,
) -> Any:
    """The Student-t mixture under ``"ep"``, ``"blocked"`` or ``"naive"``."""
    n_slots = whole_vectors(n_slots)
    alpha = np.full(n_slots, 0.5 * df)
    family = normal_inverse_wishart(*prior, n_slots)
    parameters = gaussian_parameters(y.shape[1], n_slots)
    fraction = ep_options.get("fraction", 1.0)
    update = TailUpdate(learn_df, *df_prior, fraction=fraction)
    if collapse == "ep":
        model = student_t(y, alpha, fraction)
        return EPCollapse(
            model,
            family,
            parameters,
            n=len(y),
            update=update if learn_df is not None else None,
            prior_update=prior_update,
            **ep_options,
        )
    scaled = scaled_gaussian(y, alpha)
    if collapse == "blocked":
        return ConjugateCollapse(
            scaled, family, parameters, update=update, base_measure=_base, prior_update=prior_update
        )
    return NaiveCollapse(
        scaled,
        family,
        parameters,
        gather=_gather,
        update=update,
        log_likelihood=_log_student_t,
        prior_update=prior_update,
    )


def _log_mixture(model: SortedScaleMixture, parameters: Any, z: np.ndarray) -> float:
    return float(total_log_mixture(model, parameters, z))


def scale_mixture_collapse(
    y: np.ndarray,
    prior: tuple[float, float],
    n_slots: int,
    collapse: str,
    *,
    variance: float = 1.0,
    contamination: float = 0.2,
    inflation: float = 5.0,
    **ep_options: Any,
) -> Any:
    """The contaminated Gaussian in one dimension under ``"ep"`` or ``"naive"``.

    ``prior`` is the mean and variance of the normal prior of a cluster's mean.
    """
    constants = float(variance), float(contamination), float(inflation)
    family = diagonal_normal(np.array([prior[0]]), np.array([prior[1]]), n_slots)
    parameters = vector_parameters(1, n_slots)
    if collapse == "ep":
        return EPCollapse(ScaleMixture(y, *constants), family, parameters, n=len(y), **ep_options)
    sorted_model = SortedScaleMixture(y, *constants, np.zeros(len(y)), np.zeros(n_slots))
    return NaiveCollapse(
        sorted_model,
        family,
        parameters,
        gather=_gather,
        update=IndicatorUpdate(),
        log_likelihood=_log_mixture,
    )
