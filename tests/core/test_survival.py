"""Killed at any moment, a fit of any collapse resumes to the draws it would have had."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from kill_harness import resumes_bit_for_bit

from cavity.datasets import make_student_t
from cavity.models.covariance_scale import CovarianceScaleUpdate
from cavity.models.mixtures import NIWPrior, gaussian_collapse, student_t_collapse
from cavity.priors import dirichlet, dirichlet_process
from cavity.sampling.sampler import PartitionSampler

TARGET = Path(__file__).parent / "kill_runs.py"


def test_every_collapse_resumes_bit_for_bit(tmp_path):
    n_killed = resumes_bit_for_bit(
        f"{TARGET}:all_collapses", tmp_path, seed=1, n_kills=2, longest=4.0
    )
    assert n_killed >= 1


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(5))
def test_many_kills(tmp_path, seed):
    resumes_bit_for_bit(f"{TARGET}:all_collapses", tmp_path, seed=seed, n_kills=8, longest=5.0)


@pytest.mark.parametrize(
    ("likelihood", "collapse", "open_prior"),
    [
        ("gaussian", "collapsed", True),
        ("gaussian", "naive", True),
        ("student-t", "ep", True),
        ("student-t", "ep", False),
        ("student-t", "blocked", False),
        ("student-t", "naive", True),
    ],
)
def test_a_state_taken_anywhere_continues_bit_for_bit(likelihood, collapse, open_prior):
    """Growth of the room included: a hundred observations that want many clusters."""
    y, _ = make_student_t(100, 12, 2, 4.0, "easy", random_state=0)
    y = np.ascontiguousarray((y - y.mean(axis=0)) / y.std(axis=0))
    niw = NIWPrior(np.zeros(2), 0.05, 4.0, 0.02 * np.eye(2))
    update = CovarianceScaleUpdate(0.5, np.diag(niw.psi), np.full(2, 1e-6))

    def make(rng):
        if likelihood == "gaussian":
            parts = gaussian_collapse(y, niw, 8, collapse, update)
        else:
            parts = student_t_collapse(
                y, niw, 8, collapse, 4.0, learn_df="each", prior_update=update
            )
        prior = dirichlet_process(8, 30.0) if open_prior else dirichlet(8)
        start = np.arange(100) % 8
        return PartitionSampler(parts, prior, start, rng, concentration_prior=(2.0, 0.1))

    rng = np.random.default_rng(0)
    first = make(rng)
    for _ in range(6):
        first.sweep(rng)
    assert (first.n_slots > 8) == open_prior
    state, stream = first.state(), rng.bit_generator.state
    second, other = make(np.random.default_rng(9)), np.random.default_rng(1)
    second.restore(state)
    other.bit_generator.state = stream
    for _ in range(6):
        first.sweep(rng)
        second.sweep(other)
        np.testing.assert_array_equal(first.labels(), second.labels())
        assert first.log_joint() == second.log_joint()
    for key, value in first.state().items():
        np.testing.assert_array_equal(value, second.state()[key], err_msg=key)
    assert first.events() == second.events()
