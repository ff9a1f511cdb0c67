"""Sufficient statistics of every cluster, gathered from its members."""

from __future__ import annotations

import numpy as np

from cavity._numba.jit import jit
from cavity.conjugate.common import load_slot
from cavity.interface import accumulate


def gather_statistics(model, q, z):
    """Recompute every slot from the prior and its members' statistics."""
    n_slots, width = q.natural.shape
    for k in range(n_slots):
        for p in range(width):
            q.natural[k, p] = q.prior[p]
    for i in range(z.shape[0]):
        accumulate(model, q, np.int64(z[i]), i)
    for k in range(n_slots):
        load_slot(q, k)


gather_sums = jit(gather_statistics, internal=True)
