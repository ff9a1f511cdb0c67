"""What is drawn after each sweep, given cluster parameters: the likelihood's, and the prior's."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np


class Update(Protocol):
    """Draws degrees of freedom, scale variables and the like, in place."""

    def draw(
        self,
        model: Any,
        parameters: Any,
        z: np.ndarray,
        counts: np.ndarray,
        rng: np.random.Generator,
    ) -> None:
        """Draw them given the cluster parameters and the assignments."""

    def renew(self, model: Any, start: int, rng: np.random.Generator) -> None:
        """Draw those of the new, empty slots from `start` on from their prior."""

    def record(self, model: Any) -> dict[str, np.ndarray]:
        """What a kept draw should show of them; a cluster axis comes first."""


class PriorUpdate(Protocol):
    """Draws what is unknown in the prior of cluster parameters, in place."""

    def draw(
        self, family: Any, parameters: Any, counts: np.ndarray, rng: np.random.Generator
    ) -> None:
        """Draw it given the parameters of the occupied clusters; set ``family.prior``."""

    def record(self, family: Any) -> dict[str, np.ndarray]:
        """What a kept draw should show of it."""
