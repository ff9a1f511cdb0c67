"""Priors of partitions, clusters and series."""

from cavity.priors.cluster_prior import ClusterPrior
from cavity.priors.series import SeriesPrior
from cavity.priors.specifications import (
    Dirichlet,
    DirichletProcess,
    FiniteMixture,
    FixedWeights,
    PitmanYor,
)

__all__ = [
    "ClusterPrior",
    "Dirichlet",
    "DirichletProcess",
    "FiniteMixture",
    "FixedWeights",
    "PitmanYor",
    "SeriesPrior",
]
