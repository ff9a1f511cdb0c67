"""No collapse: assignments given drawn cluster parameters."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np

from cavity._jit import compiled
from cavity.collapse.selection import draw_from_scores
from cavity.collapse.update import PriorUpdate, Update
from cavity.families.common import draw_empty, draw_from, load_from
from cavity.sampling.arrays import declare, flatten, grown, rebuilt
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


class NaiveCollapse:
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
        Draws what the prior of cluster parameters does not know, in place.
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
        self.state: Any = naive_state(model, parameters, family.natural.shape[0])
        self.family = family
        self.gather = gather
        self.update = update
        self.prior_update = prior_update
        self._log_likelihood = log_likelihood

    @property
    def parameters(self) -> Any:
        """The cluster parameters as last drawn."""
        return self.state.parameters

    def start(self, z: np.ndarray, counts: np.ndarray, rng: np.random.Generator) -> None:
        """Draw parameters given the initial assignments."""
        self.refresh(z, counts, rng)

    def refresh(self, z: np.ndarray, counts: np.ndarray, rng: np.random.Generator) -> None:
        """After a sweep: draw the parameters, then auxiliary and other variables given them."""
        self.gather(self.state.model, self.family, z)
        compiled(draw_from, (self.state, self.family))(self.family, self.parameters, 0, rng)
        if self.update is not None:
            self.update.draw(self.state.model, self.parameters, z, counts, rng)
        if self.prior_update is not None:
            self.prior_update.draw(self.family, self.parameters, counts, rng)
            # The scale was drawn given the occupied clusters alone; the others follow it.
            kernel = compiled(draw_empty, (self.state, self.family))
            kernel(self.family, self.parameters, counts, rng)

    def grow(self, n_slots: int, rng: np.random.Generator) -> None:
        """Make room for more clusters, with parameters drawn from the prior."""
        old = self.family.natural.shape[0]
        self.state = grown(self.state, n_slots)
        self.family = grown(self.family, n_slots)
        self.family.natural[old:] = self.family.prior
        compiled(load_from, (self.state, self.family))(self.family, old)
        compiled(draw_from, (self.state, self.family))(self.family, self.parameters, old, rng)
        if self.update is not None:
            self.update.renew(self.state.model, old, rng)

    def log_likelihood(self, z: np.ndarray, counts: np.ndarray) -> float:
        """Log likelihood given the cluster parameters."""
        if self._log_likelihood is not None:
            return self._log_likelihood(self.state.model, self.parameters, z)
        return float(compiled(total_log_density, self.state)(self.state, z))

    def events(self) -> dict[str, float]:
        """No approximation, no events."""
        return {}

    def arrays(self) -> dict[str, np.ndarray]:
        """Everything that changes, for a checkpoint."""
        return {**flatten(self.state, "state."), **flatten(self.family, "family.")}

    def restore(self, arrays: Mapping[str, np.ndarray]) -> None:
        """Continue from ``arrays``."""
        self.state = rebuilt(self.state, arrays, "state.")
        self.family = rebuilt(self.family, arrays, "family.")
