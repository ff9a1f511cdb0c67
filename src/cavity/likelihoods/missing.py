"""The values that fill gaps, as a chain keeps them between sweeps."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from cavity._numba.arrays import StateError, fitting, saved_array
from cavity._numba.jit import Kernels
from cavity.likelihoods.row_scores import fill_all_gaps
from cavity.updates import Chain, Update


class GapUpdate(Update):
    """Keeps what fills the gaps of a chain's rows, and draws it where the sweep does not.

    A sweep that integrates parameters out draws a row's gaps with its label. One that conditions
    on them draws labels alone: gaps then come first of all that follows, given the parameters that
    the labels were drawn with.

    Parameters
    ----------
    rows : UnevenRows or ScaleMixtureRows
        The chain's own.
    given_parameters : bool
        Whether it draws.
    """

    name = "gaps"
    first = True

    def __init__(self, rows: Any, given_parameters: bool) -> None:
        self.y = rows.y
        self.cells = rows.cells
        self.given_parameters = given_parameters
        self._kernels = Kernels()

    def draw(self, chain: Chain, rng: np.random.Generator) -> None:
        """Draw all gaps, with the scales of their rows, given the clusters' parameters."""
        if self.given_parameters:
            self._kernels.run(fill_all_gaps, chain.model, chain.parameters, chain.z, rng)

    def arrays(self) -> dict[str, np.ndarray]:
        """The values, in the order of rows and columns."""
        return {"values": self.y[self.cells]}

    def restore(self, arrays: Mapping[str, np.ndarray], chain: Chain) -> None:
        """Continue from ``arrays``."""
        values = fitting(saved_array(arrays, "values"), self.y[self.cells], "values")
        if not np.isfinite(values).all():
            raise StateError("a value that fills a gap is no number")
        self.y[self.cells] = values
