"""Priors over partitions, as an estimator's ``prior=`` takes them; and what learns priors."""

from cavity.priors.specifications import Dirichlet, DirichletProcess, FixedWeights, PitmanYor

__all__ = ["Dirichlet", "DirichletProcess", "FixedWeights", "PitmanYor"]
