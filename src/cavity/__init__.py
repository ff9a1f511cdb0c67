"""Bayesian clustering for tables with outliers and missing values, and for short time series."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

__version__ = "0.3.0"

# Public names, imported when first used: estimators bring scikit-learn and compiled kernels.
_HOME = {
    "ClusterLimitWarning": "cavity.utils.notices",
    "CoarseColumnsWarning": "cavity.utils.notices",
    "ColumnsNote": "cavity.utils.notices",
    "GaussianMixture": "cavity.mixture",
    "NotConvergedWarning": "cavity.utils.notices",
    "Posterior": "cavity.posterior.posterior",
    "SeriesMixture": "cavity.series.mixture",
    "StudentTMixture": "cavity.mixture",
    "TableMixture": "cavity.mixture",
    "WeightsWarning": "cavity.utils.notices",
    "compare_models": "cavity.compare",
    "load": "cavity.base",
}

if TYPE_CHECKING:
    from cavity.base import load
    from cavity.compare import compare_models
    from cavity.mixture import GaussianMixture, StudentTMixture, TableMixture
    from cavity.posterior.posterior import Posterior
    from cavity.series.mixture import SeriesMixture
    from cavity.utils.notices import (
        ClusterLimitWarning,
        CoarseColumnsWarning,
        ColumnsNote,
        NotConvergedWarning,
        WeightsWarning,
    )

__all__ = [
    "ClusterLimitWarning",
    "CoarseColumnsWarning",
    "ColumnsNote",
    "GaussianMixture",
    "NotConvergedWarning",
    "Posterior",
    "SeriesMixture",
    "StudentTMixture",
    "TableMixture",
    "WeightsWarning",
    "__version__",
    "compare_models",
    "load",
]


def __getattr__(name: str) -> Any:
    if name in _HOME:
        return getattr(importlib.import_module(_HOME[name]), name)
    raise AttributeError(f"module 'cavity' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *_HOME])
