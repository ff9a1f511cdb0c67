"""Compiles what a pass needs, on a few rows."""

from __future__ import annotations

import numpy as np

from cavity.scale.blocks import layouts
from cavity.scale.kernel import RUNGS, atoms_of
from cavity.scale.passes import Order, make_shard, run_pass


def rehearse(d: int) -> None:
    """One pass over a handful of rows in d columns, with and without degrees of freedom to try."""
    (layout,) = layouts([4], 1)
    still, one = np.zeros(d), np.ones(d)
    shard = make_shard(layout, np.zeros((4, d)), still, one, still, np.arange(2))
    atoms = atoms_of(np.ones(1), still[None], np.eye(d)[None], np.zeros(1), np.full(1, 2.0))
    run_pass(shard, Order(atoms, np.ones((1, RUNGS)), (0, 0), 0, 0))
