"""Blocks of sweeps in one kernel do what sweep after sweep in Python does.

What both draw by is compared with NumPy in ``oracle/test_oracle_updates.py``.
"""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from cavity import GaussianMixture, StudentTMixture, TableMixture
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


COUNTS = {"a": "continuous", "b": "continuous", "kind": "categorical", "times": "count"}
CASES = {
    "default": StudentTMixture(4, noise=False),
    "noise": StudentTMixture(4, noise=True),
    "table": TableMixture(4, feature_types=COUNTS, noise=True),
    "learned for each": StudentTMixture(3, df="learn-each", noise=False),
    "open": GaussianMixture(prior="dp", noise=False),
    "naive": StudentTMixture(4, collapse="naive", noise=False),
    "blocked": StudentTMixture(4, collapse="blocked", noise=False),
    "ep": StudentTMixture(4, collapse="ep", noise=False),
    "diag": StudentTMixture(4, covariance_type="diag", noise=True),
    "tied": StudentTMixture(4, covariance_type="tied", noise=False),
    "factor": StudentTMixture(4, covariance_type="factor", n_factors=1, noise=False),
    "table ep": TableMixture(4, feature_types={**COUNTS, "times": "overdispersed"}, collapse="ep"),
    "table selected": TableMixture(
        4, feature_types=COUNTS, covariance_type="diag", select_columns=True
    ),
    "open selected": GaussianMixture(prior="dp", covariance_type="diag", select_columns=True),
    "table naive": TableMixture(4, feature_types=COUNTS, collapse="naive", noise=False),
}


def rows(name):
    """Rows with gaps where the case takes them, in a frame for a table."""
    data = np.random.default_rng(3)
    X = data.standard_normal((48, 2)) + 6.0 * (np.arange(48) % 2)[:, None]
    if name.startswith("open"):
        # More clusters than there is room for at first.
        X = 40.0 * data.permutation(48)[:, None] + data.standard_normal((48, 2))
    if "noise" in name or name == "diag":
        X[:3] = data.uniform(-30.0, 40.0, (3, 2))
    if name in ("naive", "blocked", "tied", "table", "table selected", "table ep", "table naive"):
        X[data.random(X.shape) < 0.1] = np.nan
    if not name.startswith("table"):
        return X
    frame = pd.DataFrame(X, columns=["a", "b"])
    frame["kind"] = np.where(data.random(48) < 0.8, np.arange(48) % 2, 2).astype(str)
    frame["times"] = data.poisson(np.where(np.arange(48) % 2, 2.0, 9.0))
    frame.loc[5, "kind"] = None
    return frame


# Each compiles kernels of its own, for blocks and for single sweeps.
@pytest.mark.parametrize(
    "name", ["default", *(pytest.param(name, marks=pytest.mark.slow) for name in list(CASES)[1:])]
)
def test_blocks_are_the_sweeps_that_they_hold(name):
    X = rows(name)
    block, rng = chain(CASES[name], X, in_blocks=True)
    one, rng_of_one = chain(CASES[name], X, in_blocks=False)
    if name.startswith("open"):
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
    # A chain that continues from a checkpoint goes on as if nothing had happened.
    again, rng_of_again = chain(CASES[name], X, in_blocks=True)
    again.restore(block.state())
    rng_of_again.bit_generator.state = rng.bit_generator.state
    for mine, its in zip(
        again.advance(np.ones(10, dtype=bool), rng_of_again),
        block.advance(np.ones(10, dtype=bool), rng),
        strict=True,
    ):
        np.testing.assert_array_equal(mine.labels, its.labels)
        np.testing.assert_array_equal(mine.log_joint, its.log_joint)
    one.in_blocks = True
    assert one.log_joint() == pytest.approx(expected[-1].log_joint[0], rel=1e-9)
