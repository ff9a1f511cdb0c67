"""Compiles what a pass needs, on a few rows."""

from __future__ import annotations

import numpy as np

from cavity.distributed.blocks import layouts
from cavity.distributed.clusters import Shape
from cavity.distributed.kernel import RUNGS, atoms_of
from cavity.distributed.passes import Order, make_shard, run_pass


def rehearse(shape: Shape) -> None:
    """One pass over a handful of rows, with degrees of freedom to try."""
    (layout,) = layouts([4], 1)
    d = shape.d
    still, one = np.zeros(d), np.ones(d)
    rows = np.zeros((4, shape.n_columns))
    shard = make_shard(layout, rows, still, one, still, np.arange(2), shape)
    atoms = atoms_of(
        np.ones(1), still[None], np.eye(d)[None], np.zeros(1), np.full(1, 2.0),
        np.zeros((1, shape.n_shares)), np.zeros((1, shape.n_counts)),
    )  # fmt: skip
    run_pass(shard, Order(atoms, np.ones((1, RUNGS)), (0, 0), 0, 0))
