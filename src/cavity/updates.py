"""Updates: variables that are drawn after each sweep.

A sweep draws labels. Whatever else is unknown (auxiliary variables, degrees of freedom, the prior
of cluster parameters, the concentration) is drawn by one update each, in the order of the list. A
new hyperprior is one more file with one more subclass of `Update`, and a NamedTuple by which
kernels draw, weigh and show it (`cavity.interface.step`).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from functools import cached_property
from typing import Any, ClassVar, Protocol, Self

import numpy as np

from cavity._numba.jit import Kernels
from cavity.interface import log_weight, show, step

# What an update may change, which the collapse then brings up to date.
LIKELIHOOD = "likelihood"
CLUSTER_PRIOR = "prior of cluster parameters"
# Name of the update that draws cells known up to an interval or an error.
LATENT_CELLS = "latent_cells"
# Names of the probabilities that columns matter in draws, by kind.
MEASUREMENTS, CATEGORIES, COUNTS = (
    "measurement_matters",
    "category_matters",
    "count_matters",
)


def indicators_of(kind: str) -> str:
    """Return the name of the indicators in draws, next to the probabilities of a kind."""
    return kind.replace("matters", "active")


class Chain(Protocol):
    """The state of a chain, as updates see it; arrays are changed in place."""

    z: np.ndarray
    counts: np.ndarray
    prior: Any

    @property
    def model(self) -> Any:
        """The likelihood with its data and auxiliary variables."""

    @property
    def family(self) -> Any:
        """The distribution of every slot's parameters, with its prior."""

    @property
    def parameters(self) -> Any:
        """One draw of every slot's parameters."""


def draw_alone(update, model, family, parameters, prior, z, counts, rng):
    """``step`` as an entry kernel."""
    return step(update, model, family, parameters, prior, z, counts, rng)


def weigh_alone(update, model, family, parameters, prior, counts):
    """``log_weight`` as an entry kernel."""
    return log_weight(update, model, family, parameters, prior, counts)


def show_alone(update, model, family, parameters, prior, counts, out):
    """``show`` as an entry kernel."""
    show(update, model, family, parameters, prior, counts, out)


def split_numbers(
    numbers: np.ndarray, shapes: Mapping[str, tuple[int, ...]]
) -> dict[str, np.ndarray]:
    """Split rows of numbers into arrays by name, one after another.

    Examples
    --------
    >>> split_numbers(np.arange(3.0)[None], {"a": (), "b": (2,)})
    {'a': array([0.]), 'b': array([[1., 2.]])}
    """
    out = {}
    at = 0
    for name, shape in shapes.items():
        stop = at + math.prod(shape)
        out[name] = numbers[:, at:stop].reshape(-1, *shape)
        at = stop
    return out


class Update:
    """One group of variables that is drawn given all others; the base class draws by ``kernel``.

    Attributes
    ----------
    name : str
        Prefix of its arrays in a checkpoint.
    changes : frozenset of str
        Of `LIKELIHOOD` and `CLUSTER_PRIOR`, what ``draw`` changes.
    cluster_parameters : tuple of str
        Names in ``record`` whose first axis is the cluster slot.
    first : bool
        Whether it draws before the cluster parameters rather than after them.
    """

    name: ClassVar[str] = ""
    changes: ClassVar[frozenset[str]] = frozenset()
    cluster_parameters: ClassVar[tuple[str, ...]] = ()
    first: bool = False

    @cached_property
    def _kernels(self) -> Kernels:
        return Kernels()

    def kernel(self, chain: Chain) -> Any:
        """Return the kernel form of the update (`interface.step`), or None.

        A chain all of whose updates have such a NamedTuple does blocks of sweeps in one call. An
        update without one has methods in its place.
        """
        return None

    def shapes(self, chain: Chain) -> dict[str, tuple[int, ...]]:
        """Return the shapes of the values that `interface.show` writes, in order."""
        return {}

    def explain(self, failure: int) -> str:
        """Return the message for a failure code of `interface.step`."""
        return f"The update {self.name!r} failed with code {failure}."

    def fresh(self) -> Self:
        """Return a copy for another chain; itself, if it has no state."""
        return self

    def draw(self, chain: Chain, rng: np.random.Generator) -> None:
        """Draw the variables in place, given everything else."""
        failure = self._kernels.run(
            draw_alone, self.kernel(chain), chain.model, chain.family, chain.parameters,
            chain.prior, chain.z, chain.counts, rng,
        )  # fmt: skip
        if failure:
            raise FloatingPointError(self.explain(failure))

    def grow(self, chain: Chain, start: int, rng: np.random.Generator) -> None:
        """Draw the variables of the new, empty slots from `start` on, from their prior."""

    def log_density(self, chain: Chain) -> float:
        """Return the log prior density of the variables, for the log joint density."""
        kernel = self.kernel(chain)
        if kernel is None:
            return 0.0
        value = self._kernels.run(
            weigh_alone, kernel, chain.model, chain.family, chain.parameters, chain.prior,
            chain.counts,
        )  # fmt: skip
        return float(value)

    def log_collapsed(self, chain: Chain) -> float | None:
        """Return the log density with cluster parameters and some variables integrated out.

        Only for an update that can integrate these out in addition to the collapse.
        """
        return None

    def record(self, chain: Chain) -> dict[str, np.ndarray]:
        """Return the values to record for a stored draw."""
        shapes = self.shapes(chain)
        if not shapes:
            return {}
        out = np.empty((1, sum(map(math.prod, shapes.values()))))
        self._kernels.run(
            show_alone, self.kernel(chain), chain.model, chain.family, chain.parameters,
            chain.prior, chain.counts, out[0],
        )  # fmt: skip
        return {name: values[0] for name, values in split_numbers(out, shapes).items()}

    def keep(self, chain: Chain) -> None:
        """Add a stored draw to the running summaries."""

    def summaries(self) -> dict[str, np.ndarray]:
        """Return running summaries of the stored draws."""
        return {}

    def forget(self) -> None:
        """Begin new running summaries."""

    def events(self) -> dict[str, float]:
        """Return counts and measures for the diagnostics."""
        return {}

    def arrays(self) -> dict[str, np.ndarray]:
        """Return copies of the state kept between sweeps, for a checkpoint."""
        return {}

    def restore(self, arrays: Mapping[str, np.ndarray], chain: Chain) -> None:
        """Continue from ``arrays``."""


def arrays_of_updates(updates: Iterable[Update]) -> dict[str, np.ndarray]:
    """Return what all updates keep, by name, for a checkpoint."""
    return {f"update.{u.name}.{name}": value for u in updates for name, value in u.arrays().items()}


def restore_updates(
    updates: Iterable[Update], state: Mapping[str, np.ndarray], chain: Chain
) -> None:
    """Continue all updates from what `arrays_of_updates` gave."""
    for update in updates:
        update.restore(below(state, f"update.{update.name}."), chain)


def below(state: Mapping[str, np.ndarray], prefix: str) -> dict[str, np.ndarray]:
    """Return the arrays whose names begin with a prefix, without it."""
    return {k[len(prefix) :]: v for k, v in state.items() if k.startswith(prefix)}
