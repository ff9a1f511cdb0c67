"""Interface of a collapse: start, settle after a sweep, draw parameters, grow, save, restore."""

from __future__ import annotations

from collections.abc import Mapping, Set
from typing import Any, Literal, NamedTuple

import numpy as np

from cavity._numba.arrays import flatten, grown, rebuilt
from cavity._numba.jit import Kernels
from cavity.conjugate.common import draw_from, load_from
from cavity.updates import Update


class CollapsedState:
    """The slots of one chain: the compiled state, a family and a draw of every slot's parameters.

    The state holds the family and parameters that its kernels read; this class keeps the
    others beside it.

    Parameters
    ----------
    state : NamedTuple
        State passed to the sweep, with at least a field ``model``.
    beside : dict of str to NamedTuple
        ``family``, ``parameters`` or both: what the state does not hold.

    Attributes
    ----------
    in_kernels : bool
        Whether all that it does between two scans has kernels.
    """

    in_kernels: bool = False

    def __init__(self, state: Any, **beside: Any) -> None:
        self.state = state
        self._beside = beside
        self._kernels = Kernels()

    @property
    def beside(self) -> Any:
        """What kernels are given beside the state: its family or its parameters."""
        (beside,) = self._beside.values()
        return beside

    @property
    def model(self) -> Any:
        """The likelihood, with its data."""
        return self.state.model

    @property
    def family(self) -> Any:
        """The distribution of each slot's parameters."""
        if "family" in self._beside:
            return self._beside["family"]
        return self.state.family

    @property
    def parameters(self) -> Any:
        """The parameters of each slot as last drawn."""
        if "parameters" in self._beside:
            return self._beside["parameters"]
        return self.state.parameters

    @property
    def own_width(self) -> int:
        """Number of values of one observation that its cluster depends on (`interface.note`)."""
        return 1

    # ------------------------------------------------------------------ a sweep's surroundings

    def start(self, z: np.ndarray, counts: np.ndarray, rng: np.random.Generator) -> None:
        """Initialize the state from the first assignments."""
        self.settle(z, counts)

    def warm_up(self, n_sweeps: int) -> None:
        """Set the number of warm-up sweeps, after which adaptation is frozen."""

    def settle(self, z: np.ndarray, counts: np.ndarray) -> None:
        """Recompute sums after a sweep if due."""

    def until_diagnosis(self) -> int:
        """Return the number of sweeps until ``diagnose`` is due; zero if it never is."""
        return 0

    def diagnose(self, z: np.ndarray, counts: np.ndarray) -> None:
        """Run the diagnostics that are due after this sweep."""

    def draw_parameters(self, z: np.ndarray, rng: np.random.Generator) -> None:
        """Draw the parameters of every slot given its members."""
        self._draw_slots(0, rng)

    def renew(
        self, z: np.ndarray, counts: np.ndarray, changed: Set[str], rng: np.random.Generator
    ) -> None:
        """Update the state after changes made by updates."""

    def _draw_slots(self, start: int, rng: np.random.Generator) -> None:
        self._kernels.run(draw_from, self.family, self.parameters, start, rng)

    def grow(self, n_slots: int, rng: np.random.Generator) -> None:
        """Add slots for more clusters, at the prior."""
        old = self.family.natural.shape[0]
        self._resize(n_slots)
        self.family.natural[old:] = self.family.prior
        self._kernels.run(load_from, self.family, old)
        self._draw_slots(old, rng)

    def _resize(self, n_slots: int) -> None:
        self.state = grown(self.state, n_slots)
        self._beside = {name: grown(value, n_slots) for name, value in self._beside.items()}

    # ------------------------------------------------------------------ results

    def log_evidence(self, z: np.ndarray, counts: np.ndarray) -> float:
        """Log marginal likelihood of the data given the partition, parameters integrated out."""
        raise TypeError(f"{type(self).__name__} integrates no parameters out")

    def events(self) -> dict[str, float]:
        """Return counts of numerical events; an exact sampler has none."""
        return {}

    def arrays(self) -> dict[str, np.ndarray]:
        """Return everything that changes, for a checkpoint."""
        out = flatten(self.state, "state.")
        for name, value in self._beside.items():
            out |= flatten(value, f"{name}.")
        return out

    def restore(self, arrays: Mapping[str, np.ndarray], n_slots: int, z: np.ndarray) -> None:
        """Continue from ``arrays`` of a state with `n_slots` slots and assignments z."""
        # Scratch is not saved, so all arrays grow first.
        self._resize(n_slots)
        self.state = rebuilt(self.state, arrays, "state.")
        self._beside = {
            name: rebuilt(value, arrays, f"{name}.") for name, value in self._beside.items()
        }


class AssembledModel(NamedTuple):
    """A model under one collapse, ready for a chain, with its updates.

    ``movable`` says how moves of many labels are accepted: by evidence that is exact given the
    state, by an approximation of it that exact evidence of whole clusters confirms, by the
    approximation alone, or not at all. ``effort`` multiplies the usual tries.
    """

    collapse: CollapsedState
    updates: tuple[Update, ...] = ()
    movable: Literal["exactly", "confirmed", "approximately", "never"] = "never"
    effort: float = 1.0
