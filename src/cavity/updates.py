"""What is drawn after each sweep, as a list of updates that compose.

A sweep draws labels. Whatever else is unknown (auxiliary variables, degrees of freedom, the prior
of cluster parameters, the concentration) is drawn by one update each, in the order of the list. A
new hyperprior is one more file with one more subclass of `Update`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Protocol, Self

import numpy as np

# What an update may change, so that the collapse knows what to bring up to date.
LIKELIHOOD = "likelihood"
CLUSTER_PRIOR = "prior of cluster parameters"


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


class Update:
    """Draws one group of variables given all others; the base class draws nothing.

    Attributes
    ----------
    name : str
        Prefix of its arrays in a checkpoint.
    changes : frozenset of str
        Of `LIKELIHOOD` and `CLUSTER_PRIOR`, what ``draw`` changes.
    cluster_parameters : tuple of str
        Names in ``record`` whose first axis is the cluster slot.
    first : bool
        Whether it draws before the cluster parameters are drawn anew, rather than after.
    """

    name: ClassVar[str] = ""
    changes: ClassVar[frozenset[str]] = frozenset()
    cluster_parameters: ClassVar[tuple[str, ...]] = ()
    first: bool = False

    def kernel(self, chain: Chain) -> Any:
        """Return what kernels draw, weigh and show it by (`interface.step`), or None.

        A chain all of whose updates have such a NamedTuple does blocks of sweeps in one call.
        """
        return None

    def shapes(self, chain: Chain) -> dict[str, tuple[int, ...]]:
        """Return shapes of what `interface.show` writes, in its order."""
        return {}

    def explain(self, failure: int) -> str:
        """Return what a failure of `interface.step` means."""
        raise NotImplementedError

    def fresh(self) -> Self:
        """One like it for another chain: itself, unless it keeps something of its own."""
        return self

    def draw(self, chain: Chain, rng: np.random.Generator) -> None:
        """Draw the variables in place, given everything else."""

    def grow(self, chain: Chain, start: int, rng: np.random.Generator) -> None:
        """Draw what belongs to the new, empty slots from `start` on, from its prior."""

    def log_density(self, chain: Chain) -> float:
        """Log prior density of the variables, for the log joint density."""
        return 0.0

    def log_collapsed(self, chain: Chain) -> float | None:
        """Log density of data and variables with cluster parameters, and some of these, out.

        Only of an update that can integrate these out beside the collapse.
        """
        return None

    def record(self, chain: Chain) -> dict[str, np.ndarray]:
        """What a kept draw should show of them."""
        return {}

    def keep(self, chain: Chain) -> None:
        """Take the kept draw into running summaries."""

    def summaries(self) -> dict[str, np.ndarray]:
        """Running summaries of the kept draws, part of the chain's result."""
        return {}

    def forget(self) -> None:
        """Begin new running summaries."""

    def events(self) -> dict[str, float]:
        """Counts and measures for the diagnostics."""
        return {}

    def arrays(self) -> dict[str, np.ndarray]:
        """Copies of what it keeps for itself between sweeps, for a checkpoint."""
        return {}

    def restore(self, arrays: Mapping[str, np.ndarray], chain: Chain) -> None:
        """Continue from ``arrays``."""
