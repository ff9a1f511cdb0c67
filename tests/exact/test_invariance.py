"""Labels and the order of rows mean nothing."""

from __future__ import annotations

import numpy as np
import pytest
import small
from builders import student_t_collapse
from enumeration import canonical

from cavity._numba.jit import compiled
from cavity.collapse.ep import insert_members
from cavity.datasets import make_student_t
from cavity.mcmc.chain import PartitionSampler
from cavity.priors.cluster import NIWPrior
from cavity.priors.partition import dirichlet

K = small.SLOTS


@pytest.fixture(scope="module")
def data():
    y, truth = make_student_t(60, 4, 2, 5.0, "medium", random_state=0)
    return np.ascontiguousarray(y), np.asarray(truth.labels)


def chain(y, z, order):
    """A started EP chain whose sites went in, and whose scan goes on, in the given order."""
    niw = NIWPrior(y.mean(axis=0), 0.1, 4.0, np.eye(2))
    rng = np.random.default_rng(0)
    sampler = PartitionSampler(
        student_t_collapse(y, niw, K, "ep", 5.0, staleness_every=0), dirichlet(K), z, rng
    )
    sampler.order[:] = order
    state = sampler.collapse.state
    every = np.ones(sampler.counts.size, dtype=bool)
    compiled(insert_members, state)(state, sampler.z, sampler.order, every)
    return sampler


def swept(sampler, n):
    """Labels after each sweep; every sweep has a stream of its own, whatever was drawn before."""
    out = []
    for j in range(n):
        sampler.sweep(np.random.default_rng(100 + j))
        out.append(sampler.labels().copy())
    return np.array(out)


def test_relabelling_the_clusters_relabels_the_draws(data):
    y, labels = data
    other = np.random.default_rng(1).permutation(K)
    first = chain(y, labels, np.arange(60))
    second = chain(y, other[labels], np.arange(60))
    np.testing.assert_array_equal(
        second.collapse.state.family.natural[other], first.collapse.state.family.natural
    )
    evidence = [c.collapse.log_evidence(c.z, c.counts) for c in (first, second)]
    assert evidence[1] == pytest.approx(evidence[0], rel=1e-12)
    # Empty clusters are alike, and which of them is taken is no matter: compare partitions.
    for a, b in zip(swept(first, 10), swept(second, 10), strict=True):
        np.testing.assert_array_equal(canonical(a), canonical(b))


def test_permuting_the_rows_with_their_order_permutes_the_draws(data):
    y, labels = data
    rows = np.random.default_rng(2).permutation(60)
    place = np.argsort(rows)  # row i of the data is row place[i] of the permuted data
    first = chain(y, labels, np.arange(60))
    second = chain(np.ascontiguousarray(y[rows]), labels[rows], place)
    np.testing.assert_allclose(
        second.collapse.state.family.natural, first.collapse.state.family.natural, rtol=1e-12
    )
    np.testing.assert_array_equal(swept(second, 10), swept(first, 10)[:, rows])


@pytest.mark.variants("exact", "*-naive", "student-t-blocked", "student-t-ep")
@pytest.mark.parametrize("name", [*small.EXACT_SAMPLERS, "student-t-ep"])
def test_log_joint_does_not_depend_on_labels(name):
    rng = np.random.default_rng(0)
    sampler = small.sampler(name, "dp", rng)
    for _ in range(3):
        sampler.sweep(rng)
    value = sampler.log_joint()
    other = np.random.default_rng(1).permutation(small.SLOTS)
    sampler.z[:] = other[sampler.z]
    sampler.counts[other] = sampler.counts.copy()
    parameters = sampler.parameters
    for array in (parameters.mean, parameters.whiten, parameters.half_log_det):
        array[..., other] = array.copy()
    assert sampler.log_joint() == pytest.approx(value, rel=1e-12)
