"""How far EP is from exact: the comparison against dense Gaussians, and what is said of it."""

from __future__ import annotations

import math

import numpy as np
import pytest
import series_oracle as oracle
from builders import series_chain
from scipy import special

from cavity._numba.jit import compiled
from cavity.moves.anchors import nearest_anchors
from cavity.posterior.posterior import Posterior
from cavity.priors.partition import dirichlet
from cavity.series.collapses import ExactComparison, affordable_collapse, compare, sweeps_between
from cavity.series.exact import evidence_workspace
from cavity.series.initialization import smoothed_paths
from cavity.series.parameters import NOTHING, SeriesPriors

NONE = np.zeros(0)
PRIORS = SeriesPriors(3.0, 0.2, 3.0, 1.0, NONE, NONE, NONE, NONE)
CLUSTERS, ALPHA = 4, 1.5


def chain_of(m, seed=0):
    rng = np.random.default_rng(seed)
    labels = np.array([0, 0, 1, 1, 1, 3])
    made = series_chain(m, labels, dirichlet(CLUSTERS, ALPHA), PRIORS, np.zeros((2, 0)), rng,
                        collapse="ep", moving=NOTHING)  # fmt: skip
    return made, rng


@pytest.mark.parametrize("free_signs", [False, True], ids=["signs known", "signs free"])
def test_the_distance_is_that_of_dense_probabilities(free_signs):
    m, rows = oracle.model_of(
        np.random.default_rng(8), n=6, n_times=9, var_x=0.2, free_signs=free_signs,
        population=(0.5, 4.0, 0.3, 1.0), n_slots=8,
    )  # fmt: skip
    sampler, _ = chain_of(m)
    state, z, counts, n_times = sampler.collapse.state, sampler.z, sampler.counts, 9
    own = sampler.model.own
    before = state.family.natural.copy(), counts.copy()
    for i in range(6):
        found = [np.zeros(counts.size) for _ in range(3)]
        workspace = evidence_workspace(sampler.model)
        distance = compiled(compare, (state, sampler.prior))(
            state, workspace, sampler.prior, z, counts, i, state.held, *found
        )
        approximate, exact = np.zeros(CLUSTERS), np.zeros(CLUSTERS)
        for k in range(CLUSTERS):
            others = [j for j in range(6) if z[j] == k and j != i]
            natural = before[0][k] - (state.sites[i] if z[i] == k else 0.0)
            if not others:
                natural = state.family.prior
            q = natural[n_times:] / natural[:n_times], np.diag(1.0 / natural[:n_times])
            sides = []
            for sign in (1.0, -1.0) if free_signs else (1.0,):
                loading = own.loading.copy()
                loading[i] *= sign
                turned = sampler.model._replace(own=own._replace(loading=loading))
                zero = np.zeros(n_times), np.eye(n_times)
                joined = oracle.joint_loglik(turned, rows, [*others, i], *zero)
                alone = oracle.joint_loglik(turned, rows, others, *zero)
                by_ep = oracle.joint_loglik(turned, rows, [i], *q)
                prior = -0.5 * (loading[i] - 0.3) ** 2
                sides.append((by_ep + prior, joined - alone + prior))
            weight = math.log(len(others) + ALPHA)
            approximate[k], exact[k] = special.logsumexp(sides, axis=0) + weight
        wanted = 0.5 * np.abs(special.softmax(approximate) - special.softmax(exact)).sum()
        # Empty clusters are alike, and compared as one; sites are kept in single precision.
        assert distance == pytest.approx(wanted, abs=1e-6)
    np.testing.assert_allclose(state.family.natural, before[0], rtol=1e-12, atol=1e-12)
    np.testing.assert_array_equal(counts, before[1])


def test_draws_that_are_kept_are_compared():
    m, _ = oracle.model_of(np.random.default_rng(8), n=6, n_times=9, var_x=0.2)
    sampler, rng = chain_of(m)
    (update,) = (u for u in sampler.updates if isinstance(u, ExactComparison))
    assert update.every >= 5
    for _ in range(4 * update.every):
        sampler.sweep(rng)
    assert sampler.events()["labels_compared"] >= 4
    assert "staleness_kl" not in sampler.events()
    sampler.keep()
    assert "labels_compared" not in sampler.events()
    for _ in range(2 * update.every):
        sampler.sweep(rng)
        sampler.keep()
    found = sampler.events()
    assert found["labels_compared"] == 2
    assert 0.0 <= found["ep_distance"] <= found["ep_distance_worst"] <= 1.0
    # Nothing is drawn: a chain without the comparison is the same.
    one, rng_one = chain_of(m, 3)
    other, rng_other = chain_of(m, 3)
    other.updates = tuple(u for u in other.updates if not isinstance(u, ExactComparison))
    for _ in range(12):
        one.sweep(rng_one)
        other.sweep(rng_other)
    np.testing.assert_array_equal(one.z, other.z)
    assert one.log_joint() == other.log_joint()


@pytest.mark.parametrize(
    ("distance", "words"),
    [(0.004, "as good as exact"), (0.03, "not quite"), (0.3, "collapse='corrected'")],
)
def test_the_verdict_on_the_distance(distance, words):
    labels = np.random.default_rng(0).integers(0, 3, (2, 50, 6))
    events = {"labels_compared": [30, 90], "ep_distance": [4 * distance, 0.0],
              "ep_distance_worst": [0.9, 0.1]}  # fmt: skip
    found = Posterior(labels, events=events).diagnostics()
    (note,) = (text for text in found.notes if text.startswith("EP's probabilities"))
    assert words in note
    assert f"{distance:.2g} from the exact ones" in note
    assert "120 compared, the worst 0.9" in note


def test_which_collapse_is_affordable():
    assert affordable_collapse(300, 200, 20) == "corrected"
    assert affordable_collapse(2_500, 200, 20) == "corrected"
    assert affordable_collapse(3_000, 200, 20) == "ep"
    assert affordable_collapse(150, 500, 20) == "corrected"
    assert affordable_collapse(5, 501, 2) == "ep"
    assert affordable_collapse(150, 500, 120) == "ep"
    assert sweeps_between(10_000, 200, 24) < sweeps_between(60, 900, 8) <= 200


def test_series_that_look_alike_are_neighbours():
    rng = np.random.default_rng(2)
    paths = rng.standard_normal((3, 80)).cumsum(axis=1)
    group = np.arange(90) % 3
    sign = np.where(rng.random(90) < 0.5, 1.0, -1.0)
    y = 1e3 + sign[:, None] * paths[group] * rng.uniform(0.5, 20.0, (90, 1))
    y[rng.random(y.shape) < 0.4] = np.nan
    y[4] = np.nan
    y[7] = 5.0
    found = smoothed_paths(y, np.isfinite(y).astype(int))
    assert np.isfinite(found).all()
    anchors = nearest_anchors(found, mirrored=True)
    assert anchors.second.shape == (90, 80)
    usual = np.delete(np.arange(90), [4, 7])
    assert (anchors.second[usual, :25] != usual[:, None]).all()
    alike = group[anchors.second[usual, :20]] == group[usual][:, None]
    assert alike.mean() > 0.9
