"""The order of visits: every observation once, and never the same order again."""

from __future__ import annotations

import numpy as np
import pytest

from cavity._numba.jit import compiled
from cavity.mcmc import sweep


def _shuffled(order, rng):
    sweep._shuffle(order, rng)


@pytest.mark.parametrize("n", [1, 2, 7, sweep.MOST_SHUFFLED, sweep.MOST_SHUFFLED + 1, 64 * 1024])
def test_every_observation_is_visited_once(n):
    rng = np.random.default_rng(n)
    order = np.arange(n, dtype=np.int32)
    seen = set()
    for _ in range(8):
        compiled(_shuffled, ())(order, rng)
        np.testing.assert_array_equal(np.sort(order), np.arange(n))
        seen.add(order.tobytes())
    assert len(seen) >= min(n, 7)


def test_neighbours_follow_each_other_where_there_are_many():
    n = sweep.MOST_SHUFFLED + 100
    order = np.arange(n, dtype=np.int32)
    compiled(_shuffled, ())(order, np.random.default_rng(0))
    assert np.mean(np.diff(order) == 1) > 1.0 - 1.5 / sweep.RUN
    compiled(_shuffled, ())(order[: sweep.MOST_SHUFFLED], np.random.default_rng(0))
    assert np.mean(np.diff(order[: sweep.MOST_SHUFFLED]) == 1) < 0.01
