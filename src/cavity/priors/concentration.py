"""The concentration of a partition prior, learned from the cluster sizes."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from cavity._numba.jit import jit
from cavity._numba.slice_sampler import log_target, slice_step
from cavity.interface import log_weight, step
from cavity.priors.partition import PartitionPrior, log_prior
from cavity.updates import Chain, Update


class LogConcentration(NamedTuple):
    """Density of the log concentration given cluster sizes, under a Gamma(shape, rate) prior."""

    prior: PartitionPrior
    counts: np.ndarray
    shape: float
    rate: float


@log_target.register(LogConcentration)
def _(density, x):
    prior = density.prior
    kept = prior.concentration[0]
    prior.concentration[0] = math.exp(x)
    total = log_prior(prior, density.counts) + density.shape * x
    total -= density.rate * prior.concentration[0]
    prior.concentration[0] = kept
    return total


@jit
def update_concentration(prior, counts, shape, rate, rng):
    """Draw the concentration given the cluster sizes, in place: one slice step on its logarithm.

    The same code serves every prior that has one, where the auxiliary-variable scheme of Escobar
    and West serves the Dirichlet process alone.
    """
    density = LogConcentration(prior, counts, shape, rate)
    x = slice_step(density, math.log(prior.concentration[0]), 1.0, rng)
    prior.concentration[0] = math.exp(x)


@jit(internal=True)
def log_gamma_density(value, shape, rate):
    """Log density of a Gamma(shape, rate) variable."""
    constant = shape * math.log(rate) - math.lgamma(shape)
    return constant + (shape - 1.0) * math.log(value) - rate * value


class ConcentrationStep(NamedTuple):
    """`ConcentrationUpdate` for kernels."""

    shape: float
    rate: float


@step.register(ConcentrationStep)
def _(update, model, family, parameters, prior, z, counts, rng):
    update_concentration(prior, counts, update.shape, update.rate, rng)
    return 0


@log_weight.register(ConcentrationStep)
def _(update, model, family, parameters, prior, counts):
    return log_gamma_density(prior.concentration[0], update.shape, update.rate)


class ConcentrationUpdate(Update):
    """Learns the concentration under a Gamma(shape, rate) prior.

    Parameters
    ----------
    shape, rate : float
    """

    name = "concentration"

    def __init__(self, shape: float, rate: float) -> None:
        self.shape = shape
        self.rate = rate

    def kernel(self, chain: Chain) -> ConcentrationStep:
        """Return the update for kernels."""
        return ConcentrationStep(float(self.shape), float(self.rate))
