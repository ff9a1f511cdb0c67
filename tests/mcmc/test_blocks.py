"""Blocks of sweeps in one kernel do what sweep after sweep in Python does."""

from __future__ import annotations

import numpy as np
import pytest

from cavity import GaussianMixture, StudentTMixture
from cavity.estimators.fitting import moves_for


def chain(model, X, *, in_blocks):
    """A chain of the estimator, and its generator."""
    plan = model.check(X).plan
    rng = np.random.default_rng(5)
    parts = plan.assemble(plan.n_slots)
    moves = moves_for(parts, plan.anchors(), 20, plan.noisy)
    sampler = plan.sampler(parts, plan.start(0, rng), rng, moves)
    assert sampler.block_length > 1
    sampler.in_blocks = in_blocks
    return sampler, rng


CASES = {
    "default": StudentTMixture(4, noise=False),
    "noise": StudentTMixture(4, noise=True),
    "learned for each": StudentTMixture(3, df="learn-each", noise=False),
    "open": GaussianMixture(prior="dp", noise=False),
}


# Each compiles kernels of its own, for blocks and for single sweeps.
@pytest.mark.parametrize(
    "name", ["default", *(pytest.param(name, marks=pytest.mark.slow) for name in list(CASES)[1:])]
)
def test_blocks_are_the_sweeps_that_they_hold(name):
    data = np.random.default_rng(3)
    X = data.standard_normal((48, 2)) + 6.0 * (np.arange(48) % 2)[:, None]
    if name == "open":
        # More clusters than there is room for at first.
        X = 40.0 * data.permutation(48)[:, None] + data.standard_normal((48, 2))
    if name == "noise":
        X[:3] = data.uniform(-30.0, 40.0, (3, 2))
    block, rng = chain(CASES[name], X, in_blocks=True)
    one, rng_of_one = chain(CASES[name], X, in_blocks=False)
    if name == "open":
        for sampler, own in ((block, rng), (one, rng_of_one)):
            sampler.sweep(own)
    keeps = np.arange(70) % 2 == 1
    found = block.advance(keeps, rng)
    expected = one.advance(keeps, rng_of_one)
    assert sum(len(drawn.labels) for drawn in found) == len(expected) == 35
    np.testing.assert_array_equal(
        np.concatenate([drawn.labels for drawn in found]),
        np.concatenate([drawn.labels for drawn in expected]),
    )
    np.testing.assert_allclose(
        np.concatenate([drawn.log_joint for drawn in found]),
        np.concatenate([drawn.log_joint for drawn in expected]),
        rtol=1e-9,
    )
    at = 0
    for drawn in found:
        for row in range(len(drawn.labels)):
            for key, values in expected[at].record.items():
                width = min(
                    len(np.atleast_1d(values[0])), len(np.atleast_1d(drawn.record[key][row]))
                )
                mine, its = np.atleast_1d(drawn.record[key][row]), np.atleast_1d(values[0])
                np.testing.assert_allclose(mine[:width], its[:width], rtol=1e-8, err_msg=key)
                assert np.isnan(mine[width:]).all()
            assert drawn.record.keys() == expected[at].record.keys()
            at += 1
    mine, its = block.state(), one.state()
    for key, values in its.items():
        if not key.endswith("seconds"):
            np.testing.assert_allclose(mine[key], values, rtol=1e-7, atol=1e-12, err_msg=key)
    assert rng.random() == rng_of_one.random()
    one.in_blocks = True
    assert one.log_joint() == pytest.approx(expected[-1].log_joint[0], rel=1e-9)
