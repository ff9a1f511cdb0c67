"""Killed at any moment, a fit of any collapse resumes to the draws it would have had."""

from __future__ import annotations

import io
import os
import zipfile
from pathlib import Path

import numpy as np
import pytest
from builders import gaussian_collapse, series_chain, student_t_collapse
from kill_harness import resumes_bit_for_bit
from kill_many import run_many

from cavity import SeriesMixture
from cavity.datasets import make_student_t
from cavity.mcmc.chain import PartitionSampler
from cavity.mcmc.checkpoint import CheckpointError
from cavity.priors.cluster import NIWPrior
from cavity.priors.concentration import ConcentrationUpdate
from cavity.priors.covariance_scale import FULL, scale_prior
from cavity.priors.hyperpriors import ClusterHyperpriors
from cavity.priors.mean_spread import SpreadPrior
from cavity.priors.partition import dirichlet, dirichlet_process
from cavity.series.parameters import SeriesPriors
from cavity.series.state_space import factor_series

TARGET = Path(__file__).parent / "kill_runs.py"


@pytest.mark.slow
def test_every_collapse_resumes_bit_for_bit(tmp_path):
    n_killed = resumes_bit_for_bit(
        f"{TARGET}:all_collapses", tmp_path, seed=1, n_kills=2, longest=4.0
    )
    assert n_killed >= 1


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_many_kills_and_interrupts(tmp_path):
    found = run_many(30, 30, tmp_path)
    assert found["SIGKILL -9"] >= 15
    assert found["compared"] >= 10


@pytest.mark.variants(
    "slow",
    "gaussian-naive-*",
    "student-t-ep-True",
    "student-t-blocked-*",
    "student-t-naive-*",
    "student-t-collapsed-False",
)
@pytest.mark.parametrize(
    ("likelihood", "collapse", "open_prior"),
    [
        ("gaussian", "collapsed", True),
        ("gaussian", "naive", True),
        ("student-t", "ep", True),
        pytest.param("student-t", "ep", False, marks=pytest.mark.slow),
        ("student-t", "blocked", False),
        ("student-t", "naive", True),
        ("student-t", "collapsed", True),
        ("student-t", "collapsed", False),
    ],
)
def test_a_state_taken_anywhere_continues_bit_for_bit(likelihood, collapse, open_prior):
    """Growth of the room included: a hundred observations that want many clusters."""
    y, _ = make_student_t(100, 12, 2, 4.0, "easy", random_state=0)
    y = np.ascontiguousarray((y - y.mean(axis=0)) / y.std(axis=0))
    niw = NIWPrior(np.zeros(2), 0.05, 4.0, 0.02 * np.eye(2))
    update = ClusterHyperpriors(
        2, scale_prior(FULL, 4.0, np.diag(niw.psi)), 4.0, SpreadPrior(1.0, 2.0, 1.0)
    )

    def make(rng):
        if likelihood == "gaussian":
            parts = gaussian_collapse(y, niw, 8, collapse, (update,))
        else:
            parts = student_t_collapse(y, niw, 8, collapse, 4.0, learn_df="each", updates=(update,))
        prior = dirichlet_process(8, 30.0) if open_prior else dirichlet(8)
        start = np.arange(100) % 8
        return PartitionSampler(parts, prior, start, rng, updates=(ConcentrationUpdate(2.0, 0.1),))

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


@pytest.mark.variants("slow", "dp-ep", "dp-naive")
@pytest.mark.parametrize("collapse", ["ep", "collapsed", "naive"])
@pytest.mark.parametrize("prior", ["dp", pytest.param("pitman-yor", marks=pytest.mark.slow)])
def test_series_whose_room_has_grown_resume_bit_for_bit(tmp_path, collapse, prior):
    """Scratch is not saved: it must grow with the state, or kernels write beside it."""
    Y = np.cumsum(np.random.default_rng(0).standard_normal((60, 20)), axis=1)

    def fit(n_draws, name):
        return SeriesMixture(
            2, collapse=collapse, prior=prior, concentration=30.0, n_chains=1, n_warmup=5,
            n_draws=n_draws, random_state=0, checkpoint=tmp_path / name,
        ).fit(Y)  # fmt: skip

    fit(10, "resumed")
    resumed, whole = fit(14, "resumed").posterior_, fit(14, "whole").posterior_
    assert resumed.labels.max() >= 16  # the room to begin with
    np.testing.assert_array_equal(resumed.labels, whole.labels)
    np.testing.assert_array_equal(resumed.log_joint, whole.log_joint)


def _started(collapse, open_prior):
    Y = np.cumsum(np.random.default_rng(0).standard_normal((20, 12)), axis=1)
    model = factor_series(Y, a=0.5, loading=0.5, var_x=0.5, var_y=0.5, free_signs=True)
    none = np.zeros(0)
    priors = SeriesPriors(3.0, 0.2, 3.0, 1.0, none, none, none, none)
    rng = np.random.default_rng(0)
    prior = dirichlet_process(8, 3.0) if open_prior else dirichlet(8)
    start = np.arange(20) % 4
    sampler = series_chain(model, start, prior, priors, np.zeros((2, 0)), rng, collapse=collapse)
    sampler.sweep(rng)
    return sampler


@pytest.mark.parametrize("collapse", ["ep", "collapsed", "naive"])
def test_a_state_of_another_shape_or_meaning_is_refused(collapse):
    """Kernels index without looking: whatever a file holds, it must never reach them unchecked."""
    sampler = _started(collapse, open_prior=True)
    good = sampler.state()
    sampler.restore(good)
    bad = {
        "z": {"z": good["z"] + 100},
        "negative z": {"z": good["z"] - 1},
        "counts": {"counts": good["counts"][::-1].copy()},
        "less room": {"counts": good["counts"][:8]},
        "order": {"order": np.zeros_like(good["order"])},
        "free": {"prior.free": good["prior.free"] + 1000},
        "n_free": {"prior.n_free": good["prior.n_free"] + 1000},
    }
    arrays = [k for k, v in good.items() if v.ndim and v.size]
    for name in arrays:
        bad[f"shorter {name}"] = {name: good[name][:-1]}
        bad[f"deeper {name}"] = {name: good[name][None]}
        bad[f"text {name}"] = {name: np.full(good[name].shape, "x")}
    for what, change in bad.items():
        try:
            sampler.restore({**good, **change})
        except ValueError:
            continue
        pytest.fail(f"a state with {what} was taken")
    for name in arrays:
        with pytest.raises(ValueError, match=name.split(".")[-1]):
            sampler.restore({k: v for k, v in good.items() if k != name})
    other = _started(collapse, open_prior=False)
    with pytest.raises(ValueError, match="room"):
        other.restore(_grown_state(sampler))


def _grown_state(sampler):
    rng = np.random.default_rng(1)
    sampler._grow(rng)
    return sampler.state()


def test_a_foreign_state_in_a_whole_checkpoint_is_a_sentence(tmp_path):
    """The file itself is sound and of the right run; what it holds is not."""
    Y = np.random.default_rng(0).standard_normal((12, 6))
    path = tmp_path / "c"

    def fit(n_draws):
        return SeriesMixture(
            2, n_chains=1, n_warmup=2, n_draws=n_draws, random_state=0, checkpoint=path
        ).fit(Y)

    fit(3)
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    name = "chain-0/state/z.npy"
    z = np.lib.format.read_array(io.BytesIO(members[name]))
    out = io.BytesIO()
    np.lib.format.write_array(out, z + 1_000_000)
    members[name] = out.getvalue()
    with zipfile.ZipFile(path, "w") as archive:
        for member, data in members.items():
            archive.writestr(member, data)
    with pytest.raises(CheckpointError, match="does not fit this run"):
        fit(5)
