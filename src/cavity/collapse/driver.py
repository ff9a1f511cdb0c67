"""What the drivers of the collapses do alike: draw cluster parameters, grow, save and restore."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from cavity.collapse.update import PriorUpdate, Update
from cavity.core.arrays import flatten, grown, rebuilt
from cavity.core.compile import compiled
from cavity.families.common import draw_from, load_from


class Driver:
    """Slots of one chain: the compiled state, a family and a draw of every slot's parameters.

    Of family and parameters the state holds the one that its kernels read; a driver keeps the
    other beside it.

    Parameters
    ----------
    state : NamedTuple
        What the sweep is given.
    beside : {"family", "parameters"}
        Which of the two the state does not hold.
    value : NamedTuple
        That one.
    update : Update or None
        Draws what the likelihood has beyond cluster parameters, in place.
    prior_update : PriorUpdate or None
        Draws what is unknown in the prior of cluster parameters, in place.
    """

    def __init__(
        self,
        state: Any,
        beside: str,
        value: Any,
        update: Update | None,
        prior_update: PriorUpdate | None,
    ) -> None:
        self.state = state
        self.update = update
        self.prior_update = prior_update
        self._beside = beside
        self._value = value

    @property
    def family(self) -> Any:
        """The distribution of each slot's parameters."""
        return self._value if self._beside == "family" else self.state.family

    @property
    def parameters(self) -> Any:
        """The parameters of each slot as last drawn."""
        return self._value if self._beside == "parameters" else self.state.parameters

    def draw_variables(self, z: np.ndarray, counts: np.ndarray, rng: np.random.Generator) -> None:
        """Parameters of every slot, then what is drawn given them: likelihood's, then prior's."""
        self._draw_slots(0, rng)
        if self.update is not None:
            self.update.draw(self.state.model, self.parameters, z, counts, rng)
        if self.prior_update is not None:
            self.prior_update.draw(self.family, self.parameters, counts, rng)

    def _draw_slots(self, start: int, rng: np.random.Generator) -> None:
        kernel = compiled(draw_from, (self.state, self.family))
        kernel(self.family, self.parameters, start, rng)

    def grow(self, n_slots: int, rng: np.random.Generator) -> None:
        """Make room for more clusters; the new slots are at the prior."""
        old = self.family.natural.shape[0]
        self.state = grown(self.state, n_slots)
        self._value = grown(self._value, n_slots)
        self.family.natural[old:] = self.family.prior
        compiled(load_from, (self.state, self.family))(self.family, old)
        self._draw_slots(old, rng)
        if self.update is not None:
            self.update.renew(self.state.model, old, rng)

    def events(self) -> dict[str, float]:
        """Counts of numerical events; an exact sampler has none to tell of."""
        return {}

    def arrays(self) -> dict[str, np.ndarray]:
        """Everything that changes, for a checkpoint."""
        return {**flatten(self.state, "state."), **flatten(self._value, f"{self._beside}.")}

    def restore(self, arrays: Mapping[str, np.ndarray], n_slots: int) -> None:
        """Continue from ``arrays`` of a state with `n_slots` slots."""
        # Scratch is not saved, so the room grows first, scratch and all.
        self.state = rebuilt(grown(self.state, n_slots), arrays, "state.")
        self._value = rebuilt(grown(self._value, n_slots), arrays, f"{self._beside}.")
