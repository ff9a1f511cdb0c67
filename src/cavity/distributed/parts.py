"""One part of a chain over rows in shards, as an update sees it: the sums of its members."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, NamedTuple, Self

import numpy as np

from cavity.collapse.parts import ComponentUpdate
from cavity.collapse.problems import Path, part_at
from cavity.likelihoods.category_shares import count_members
from cavity.likelihoods.count_rates import total_members
from cavity.updates import Chain, Update


class Members(NamedTuple):
    """What stands in the place of rows."""

    alpha: np.ndarray  # (slots,), half the degrees of freedom
    members: np.ndarray  # (slots, P), statistics of the part


@count_members.register(Members)
def _(model, start, z, first, step, out):
    n_slots = model.members.shape[0]
    for p in range(out.shape[0]):
        for k in range(out.shape[1]):
            out[p, k] = model.members[k, p] if k < n_slots else 0.0


@total_members.register(Members)
def _(model, z, out):
    for j in range(out.shape[0]):
        for k in range(out.shape[2]):
            out[j, 0, k] = model.members[k, 2 * j + 1]
            out[j, 1, k] = model.members[k, 2 * j]


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
            model=Members(own.model.alpha, own.statistics[:, self.columns]),
            family=part_at(own.family, self.path),
            parameters=part_at(own.parameters, self.path),
        )
