"""Compiles what a pass over series needs, on a few of them."""

from __future__ import annotations

import numpy as np

from cavity._numba.simd import whole_vectors
from cavity.distributed.blocks import layouts
from cavity.series.parameters import Moving, SeriesPriors
from cavity.series.shard_pass import RUNGS, Own, SeriesOrder, SeriesShard, run_series_pass, token
from cavity.series.state_space import factor_series


def rehearse_series(
    n_slots: int, intercept: bool, df: float, priors: SeriesPriors, moving: Moving
) -> None:
    """One pass over a handful of series, with degrees of freedom to try."""
    y = np.zeros((2, 3))
    model = factor_series(y, a=0.5, loading=1.0, var_x=1.0, var_y=1.0, df=df, intercept=intercept)
    own = model.own
    heavy = np.isfinite(df)
    begun = Own(
        np.zeros(2, dtype=np.int32), own.a, own.loading, own.var_y, own.beta,
        own.tails.astype(np.float32),
    )  # fmt: skip
    (layout,) = layouts([2], 1)
    shard = SeriesShard(layout, model.cells, begun, np.arange(1), np.zeros(1), token())
    width = whole_vectors(n_slots)
    one = np.ones(width)
    p = own.beta.shape[1]
    order = SeriesOrder(
        np.zeros((3, width)), one, 0.0 * one, one, 1.0, 1.0, df, own.population,
        np.array([np.zeros(p), np.ones(p)]), priors, moving, True,
        np.ones(RUNGS if heavy else 0), (0, 0), 0,
    )  # fmt: skip
    run_series_pass(shard, begun, order)
