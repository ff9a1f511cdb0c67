"""One part of a chain over rows in shards, as an update sees it: the sums of its members."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, NamedTuple, Self

import numpy as np

from cavity.collapse.parts import ComponentUpdate, Path, part_at
from cavity.updates import Chain, Update


class Members(NamedTuple):
    """What stands in the place of rows."""

    alpha: np.ndarray  # (slots,), half the degrees of freedom
    members: np.ndarray  # (slots, P), statistics of the part


class ShardUpdate(ComponentUpdate):
    """An update that belongs to one part, of rows that are elsewhere.

    Parameters
    ----------
    update : Update
    path : tuple of str
        Where its part is.
    columns : slice
        Where the statistics of its part are.
    """

    def __init__(self, update: Update, path: Path, columns: slice) -> None:
        super().__init__(update, path)
        self.columns = columns

    def fresh(self) -> Self:
        """One like it for another chain."""
        return type(self)(self.update.fresh(), self.path, self.columns)

    def _of(self, chain: Chain) -> Any:
        own: Any = chain
        return SimpleNamespace(
            z=own.z,
            counts=own.counts,
            prior=own.prior,
            collapse=own,
            model=Members(own.model.alpha, own.statistics[:, self.columns]),
            family=part_at(own.family, self.path),
            parameters=part_at(own.parameters, self.path),
        )
