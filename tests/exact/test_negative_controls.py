"""Broken samplers fail the enumeration: the statistic is far beyond its threshold."""

from __future__ import annotations

from typing import NamedTuple

import broken
import enumeration
import numpy as np
import pytest
import small

from cavity._numba.arrays import declare
from cavity.collapse.conjugate import ConjugateCollapse
from cavity.collapse.driver import AssembledModel
from cavity.interface import (
    accumulate,
    bounds,
    evidence,
    log_likelihood,
    observe,
    pick,
)
from cavity.likelihoods.degrees_of_freedom import TailUpdate
from cavity.likelihoods.gaussian import distances, draw_scales
from cavity.likelihoods.sampled_student_t import SampledStudentT
from cavity.mcmc import chain as chain_module
from cavity.mcmc.chain import PartitionSampler

N_SWEEPS = 7000
FAILS = 1e-8


def p_value(name, prior, exact, n_sweeps=N_SWEEPS):
    rng = np.random.default_rng(0)
    visited = enumeration.visits(small.sampler(name, prior, rng), exact, n_sweeps, rng)
    return enumeration.compare(exact, visited).p_value


def broken_p_value(monkeypatch, sweep, name="gaussian-collapsed"):
    monkeypatch.setattr(chain_module, "sweep", sweep)
    return p_value(name, "dp", small.exact("gaussian", "dp"))


def test_the_broken_sweep_without_its_mistakes_passes(monkeypatch):
    assert broken_p_value(monkeypatch, broken.in_order) > 1e-4


def test_a_wrong_weight_of_new_clusters_fails(monkeypatch):
    assert broken_p_value(monkeypatch, broken.wrong_new_weight) < FAILS


@pytest.mark.exact
def test_a_count_not_lowered_on_removal_fails(monkeypatch):
    assert broken_p_value(monkeypatch, broken.count_not_lowered) < FAILS


@pytest.mark.exact
def test_swapping_the_parameters_of_empty_slots_fails(monkeypatch):
    """A naive sampler whose lone observations may not stay where they are."""
    assert broken_p_value(monkeypatch, broken.in_order, "gaussian-naive") < FAILS


right_tails = TailUpdate.draw


def halved(self, chain, rng):
    right_tails(self, chain, rng)
    model, distance = chain.model, np.empty(chain.z.size)
    distances(model.y, chain.parameters, chain.z, distance)
    draw_scales(model.scale, model.alpha, 0.5 * distance, chain.z, model.y.shape[1], rng)


def from_the_prior(self, chain, rng):
    model = chain.model
    draw_scales(model.scale, model.alpha, np.zeros(chain.z.size), chain.z, 0, rng)


def test_half_the_quadratic_form_in_the_scales_fails(monkeypatch):
    exact = small.exact("student-t", "dirichlet")
    monkeypatch.setattr(TailUpdate, "draw", halved)
    # A subtle mistake for the partition: it takes more draws than the others.
    assert p_value("student-t-blocked", "dirichlet", exact, 14_000) < FAILS
    assert p_value("student-t-naive", "dirichlet", exact, 14_000) < FAILS


def test_scales_without_their_own_observation_fails(monkeypatch):
    exact = small.exact("student-t", "dirichlet")
    monkeypatch.setattr(TailUpdate, "draw", from_the_prior)
    assert p_value("student-t-blocked", "dirichlet", exact) < FAILS


def test_the_wrong_posterior_fails():
    """The test has power: heavier tails, or another concentration, are told apart."""
    assert p_value("student-t-blocked", "dirichlet", small.exact("gaussian", "dirichlet")) < FAILS
    assert p_value("gaussian-collapsed", "dp", small.exact("gaussian", "pitman-yor")) < FAILS


@pytest.mark.parametrize("gap", [0.01, 0.03])
def test_the_statistic_on_independent_draws(gap):
    """Draws from the exact posterior pass; from one a little off they do not."""
    exact = small.exact("gaussian", "dp")
    rng = np.random.default_rng(0)
    n = 60_000 if gap < 0.02 else 20_000
    assert enumeration.compare(exact, rng.choice(203, n, p=exact.probability)).p_value > 1e-4
    off = exact.probability * np.exp(10.0 * gap * rng.standard_normal(203))
    visited = rng.choice(203, n, p=off / off.sum())
    assert enumeration.compare(exact, visited).p_value < FAILS


class StaleScales(NamedTuple):
    """The sampled Student-t model, but a scale is not drawn with its label."""

    y: np.ndarray
    alpha: np.ndarray
    score_rule: np.ndarray
    score_nodes: np.ndarray
    delta: np.ndarray
    scale: np.ndarray


declare(
    StaleScales,
    slots={"alpha": 0, "score_rule": 1, "score_nodes": 0, "delta": 0},
    constant=("y", "delta"),
)
for _verb in (evidence, bounds, pick, log_likelihood, observe, accumulate):
    _verb.register(StaleScales)(_verb.verb.implementations[SampledStudentT])


@pytest.mark.exact
def test_scales_that_stay_behind_when_labels_move_fail():
    rng = np.random.default_rng(6)
    parts = small.collapse("student-t-collapsed")
    collapse = ConjugateCollapse(
        StaleScales(*parts.collapse.model), parts.collapse.family, parts.collapse.parameters
    )
    prior = small.partition_prior("dp")
    chain = PartitionSampler(
        AssembledModel(collapse, parts.updates), prior, np.zeros(small.N, dtype=int), rng
    )
    exact = small.exact("student-t", "dp")
    result = enumeration.compare(exact, enumeration.visits(chain, exact, 30_000, rng))
    assert result.p_value < 1e-6
