"""One part of a chain whose model is a product, as an update sees it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple, Self

import numpy as np

from cavity.collapse.problems import Path, part_at
from cavity.interface import End, log_weight, show, step
from cavity.likelihoods.latent_cells import CellsOfFirst, LatentCellStep
from cavity.updates import Chain, Update


class OfFirst(NamedTuple):
    """An update of the first part of a product, for kernels."""

    update: Any


class OfRest(NamedTuple):
    """An update of the other parts of a product, for kernels."""

    update: Any


@step.register(OfFirst)
def _(own, model, family, parameters, prior, z, counts, rng):
    return step(own.update, model.first, family.first, parameters.first, prior, z, counts, rng)


@step.register(OfRest)
def _(own, model, family, parameters, prior, z, counts, rng):
    return step(own.update, model.rest, family.rest, parameters.rest, prior, z, counts, rng)


@log_weight.register(OfFirst)
def _(own, model, family, parameters, prior, counts):
    return log_weight(own.update, model.first, family.first, parameters.first, prior, counts)


@log_weight.register(OfRest)
def _(own, model, family, parameters, prior, counts):
    return log_weight(own.update, model.rest, family.rest, parameters.rest, prior, counts)


@show.register(OfFirst)
def _(own, model, family, parameters, prior, counts, out):
    return show(own.update, model.first, family.first, parameters.first, prior, counts, out)


@show.register(OfRest)
def _(own, model, family, parameters, prior, counts, out):
    return show(own.update, model.rest, family.rest, parameters.rest, prior, counts, out)


_OF = {"first": OfFirst, "rest": OfRest}


class PartOfChain:
    """A chain's labels and partition prior, with the model, family and parameters of one part."""

    def __init__(self, chain: Chain, path: Path) -> None:
        self.z, self.counts, self.prior = chain.z, chain.counts, chain.prior
        self.model = part_at(chain.model, path)
        self.family = part_at(chain.family, path)
        self.parameters = part_at(chain.parameters, path)


class ComponentUpdate(Update):
    """An update that belongs to one part of a product.

    Parameters
    ----------
    update : Update
    path : tuple of str
        Path of its part (`paths_of`).
    """

    def __init__(self, update: Update, path: Path) -> None:
        self.update = update
        self.path = path
        # Class attributes of the base class are instance attributes here.
        self.name = update.name  # type: ignore[misc]
        self.changes = update.changes  # type: ignore[misc]
        self.cluster_parameters = update.cluster_parameters  # type: ignore[misc]
        self.first = update.first

    def _of(self, chain: Chain) -> Any:
        return PartOfChain(chain, self.path)

    def fresh(self) -> Self:
        """Return a copy for another chain."""
        return type(self)(self.update.fresh(), self.path)

    def draw(self, chain: Chain, rng: np.random.Generator) -> None:
        """Draw the variables of the part."""
        if isinstance(self.kernel(chain), CellsOfFirst):
            super().draw(chain, rng)
        else:
            self.update.draw(self._of(chain), rng)

    def kernel(self, chain: Chain) -> Any:
        """Return the part's update for kernels that have the whole chain."""
        found = self.update.kernel(self._of(chain))
        if isinstance(found, LatentCellStep) and self.path == ("first",):
            return CellsOfFirst(found)
        if found is not None and not isinstance(found, End):
            for name in reversed(self.path):
                found = _OF[name](found)
        return found

    def shapes(self, chain: Chain) -> dict[str, tuple[int, ...]]:
        """Return shapes of what a kept draw shows."""
        return self.update.shapes(self._of(chain))

    def explain(self, failure: int) -> str:
        """Return what a failure means."""
        return self.update.explain(failure)

    def grow(self, chain: Chain, start: int, rng: np.random.Generator) -> None:
        """Draw what belongs to the part's new slots."""
        self.update.grow(self._of(chain), start, rng)

    def log_density(self, chain: Chain) -> float:
        """Log prior density of the variables."""
        return self.update.log_density(self._of(chain))

    def record(self, chain: Chain) -> dict[str, np.ndarray]:
        """Return the values to record for a stored draw."""
        return self.update.record(self._of(chain))

    def keep(self, chain: Chain) -> None:
        """Add a stored draw to the running summaries."""
        self.update.keep(self._of(chain))

    def summaries(self) -> dict[str, np.ndarray]:
        """Running summaries of the kept draws."""
        return self.update.summaries()

    def forget(self) -> None:
        """Begin new running summaries."""
        self.update.forget()

    def arrays(self) -> dict[str, np.ndarray]:
        """Return copies of the state kept between sweeps."""
        return self.update.arrays()

    def restore(self, arrays: Mapping[str, np.ndarray], chain: Chain) -> None:
        """Continue from ``arrays``."""
        self.update.restore(arrays, self._of(chain))
