"""No collapse: assignments given drawn cluster parameters."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from cavity.collapse.driver import Driver
from cavity.collapse.selection import draw_from_scores
from cavity.collapse.update import PriorUpdate, Update
from cavity.core.arrays import declare
from cavity.core.compile import compiled
from cavity.families.common import draw_empty
from cavity.verbs import choose, insert, log_densities, log_density, remove


class Naive(NamedTuple):
    """State of the sampler that conditions on everything."""

    model: Any
    parameters: Any
    scores: np.ndarray  # (slots,)
    mass: np.ndarray  # (slots,)


declare(Naive, slots={"scores": 0, "mass": 0})


def naive_state(model: Any, parameters: Any, n_slots: int) -> Naive:
    """State over the given parameters."""
    return Naive(model, parameters, np.zeros(n_slots), np.zeros(n_slots))


@remove.register(Naive)
def _(state, z, counts, i, k):
    return None


@choose.register(Naive)
def _(state, i, weights, rng):
    log_densities(state.model, state.parameters, i, state.scores)
    return draw_from_scores(weights, state.scores, state.mass, rng)


@insert.register(Naive)
def _(state, i, k):
    return None


def total_log_density(state, z):
    """Log likelihood of every observation under its own cluster's parameters, summed."""
    total = 0.0
    for i in range(z.shape[0]):
        total += log_density(state.model, state.parameters, np.int64(z[i]), i)
    return total


class NaiveCollapse(Driver):
    """Drives the sampler that conditions on cluster parameters.

    Parameters
    ----------
    model, parameters : NamedTuple
        The likelihood with its data, and room for every cluster's parameters.
    family : NamedTuple
        The distribution of cluster parameters given their members.
    gather : callable
        ``gather(model, family, z)``: bring the family up to date with the assignments.
    update : Update, optional
        Draws auxiliary and other variables given the cluster parameters, in place.
    prior_update : PriorUpdate, optional
        Draws what is unknown in the prior of cluster parameters, in place.
    log_likelihood : callable, optional
        ``log_likelihood(model, parameters, z)``; the sum of ``log_density`` by default.
    """

    def __init__(
        self,
        model: Any,
        family: Any,
        parameters: Any,
        *,
        gather: Callable[..., None],
        update: Update | None = None,
        prior_update: PriorUpdate | None = None,
        log_likelihood: Callable[..., float] | None = None,
    ) -> None:
        state = naive_state(model, parameters, family.natural.shape[0])
        super().__init__(state, "family", family, update, prior_update)
        self.gather = gather
        self._log_likelihood = log_likelihood

    def start(self, z: np.ndarray, counts: np.ndarray, rng: np.random.Generator) -> None:
        """Draw parameters given the initial assignments."""
        self.refresh(z, counts, rng)

    def refresh(self, z: np.ndarray, counts: np.ndarray, rng: np.random.Generator) -> None:
        """After a sweep: draw the parameters, then auxiliary and other variables given them."""
        self.gather(self.state.model, self.family, z)
        self.draw_variables(z, counts, rng)
        if self.prior_update is not None:
            # The prior was drawn given the occupied clusters alone; the others follow it.
            kernel = compiled(draw_empty, (self.state, self.family))
            kernel(self.family, self.parameters, counts, rng)

    def log_likelihood(self, z: np.ndarray, counts: np.ndarray) -> float:
        """Log likelihood given the cluster parameters."""
        if self._log_likelihood is not None:
            return self._log_likelihood(self.state.model, self.parameters, z)
        return float(compiled(total_log_density, self.state)(self.state, z))
