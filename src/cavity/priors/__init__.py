"""Priors as estimators take them: over partitions (``prior=``), and of a series model."""

from cavity.priors.series import SeriesPrior
from cavity.priors.specifications import (
    Dirichlet,
    DirichletProcess,
    FiniteMixture,
    FixedWeights,
    PitmanYor,
)

__all__ = [
    "Dirichlet",
    "DirichletProcess",
    "FiniteMixture",
    "FixedWeights",
    "PitmanYor",
    "SeriesPrior",
]
