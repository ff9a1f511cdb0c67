"""Moves of whole groups of series: what one label at a time cannot leave."""

from __future__ import annotations

import numpy as np
import pytest
from builders import series_chain
from sklearn.metrics import adjusted_rand_score

from cavity.datasets import make_series
from cavity.moves.anchors import nearest_anchors
from cavity.moves.standard import WholeClusterMoves
from cavity.priors.partition import dirichlet
from cavity.series.initialization import smoothed_paths
from cavity.series.parameters import NOTHING, SeriesPriors
from cavity.series.state_space import factor_series

NONE = np.zeros(0)
PRIORS = SeriesPriors(3.0, 0.2, 3.0, 1.0, NONE, NONE, NONE, NONE)


@pytest.fixture(scope="module")
def stuck():
    """Three clusters, of which one holds two of the true ones and two share the third."""
    Y, truth = make_series(90, 30, 3, negative=0.5, var_y=0.05, random_state=2)
    first = np.flatnonzero(truth.labels == 0)
    labels = np.where(truth.labels == 0, 0, 2)
    labels[first[::2]] = 1
    return Y, truth, labels


def agreement(stuck, moves, n_sweeps, seed=0):
    Y, truth, labels = stuck
    # With so much noise supposed no single series gains by leaving its cluster.
    m = factor_series(Y, a=0.95, loading=truth.loading, var_x=0.01, var_y=1.0, free_signs=True)
    rng = np.random.default_rng(seed)
    sampler = series_chain(m, labels, dirichlet(3), PRIORS, np.zeros((2, 0)), rng,
                           collapse="corrected", moving=NOTHING)  # fmt: skip
    if moves:
        anchors = nearest_anchors(smoothed_paths(Y, np.isfinite(Y)), mirrored=True)
        sampler.moves = (WholeClusterMoves(anchors, 0),)
        sampler.moves[0].pace.rate[:] = 10.0
    for _ in range(n_sweeps):
        sampler.sweep(rng)
    return adjusted_rand_score(truth.labels, sampler.z)


def test_groups_move_where_single_labels_do_not(stuck):
    assert [agreement(stuck, True, 20, seed) for seed in range(3)] == [1.0, 1.0, 1.0]
    assert max(agreement(stuck, False, 20, seed) for seed in range(3)) < 0.9
