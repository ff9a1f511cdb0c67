"""Contaminated Gaussian mixtures under their collapses."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from cavity.collapse.driver import AssembledModel
from cavity.collapse.ep import EPCollapse
from cavity.collapse.naive import NaiveCollapse
from cavity.collapse.problems import ScaleMixtureProblem
from cavity.collapse.registry import supports
from cavity.conjugate.diagonal_normal import diagonal_normal, vector_parameters
from cavity.likelihoods.scale_mixture import IndicatorUpdate, ScaleMixture, SortedScaleMixture


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
