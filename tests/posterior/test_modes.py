"""Which chains sit together, how much each mode weighs, and when a run may end without some."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from cavity import StudentTMixture
from cavity.posterior import convergence as module
from cavity.posterior.convergence import (
    chain_disagreement,
    find_modes,
    groups,
    label_entropy,
    mass_bounds,
    stopping_rule,
)
from cavity.posterior.posterior import Posterior
from cavity.posterior.record import RunRecord

N = 40
FIRST = np.arange(N) % 4
OTHER = np.where(np.arange(N) < 10, (FIRST + 1) % 4, FIRST)  # ten rows lie otherwise


def sampled(rng, base, doubtful, log_mass, n_draws=400, together=False):
    """Independent draws of a mode whose mass is known, and their log densities.

    `doubtful` rows are each in the next cluster with probability 0.3, all of them at once if they
    go `together`.
    """
    moved = rng.random((n_draws, 1 if together else doubtful)) < 0.3
    log_density = log_mass + np.where(moved, np.log(0.3), np.log(0.7)).sum(axis=1)
    labels = np.tile(base, (n_draws, 1))
    rows = np.arange(N - doubtful, N)
    labels[:, rows] = np.where(moved, (base[rows] + 1) % 4, base[rows])
    return labels.astype(np.uint8), log_density


def chains(rng, kinds):
    return zip(*(sampled(rng, *kind) for kind in kinds), strict=True)


def found(rng, kinds, **options):
    labels, density = chains(rng, kinds)
    between, within = chain_disagreement(labels)
    density = np.stack(density)
    return find_modes(labels, between, within, density, density, **{"max_clusters": 4, **options})


def test_groups_are_joined_by_chains_that_wander():
    apart = np.array([[0, 0.5, 0.3], [0.5, 0, 0.3], [0.3, 0.3, 0]])
    assert groups(apart, np.array([0.01, 0.01, 0.05])) == [(0,), (1,), (2,)]
    assert groups(apart, np.array([0.01, 0.01, 0.3])) == [(0, 1, 2)]
    assert groups(np.full((2, 2), 0.09), np.zeros(2)) == [(0, 1)]


def test_entropy_of_independent_rows():
    """Against the exact one; 1600 draws give it to about a tenth of a nat."""
    rng = np.random.default_rng(0)
    labels, _ = sampled(rng, FIRST, 12, 0.0, n_draws=1600)
    exact = -12 * (0.3 * np.log(0.3) + 0.7 * np.log(0.7))
    assert label_entropy(labels, FIRST) == pytest.approx(exact, rel=0.05)
    assert label_entropy(np.tile(FIRST, (9, 1)), FIRST) == 0.0


@pytest.mark.parametrize("gap", [0.0, 4.0, 40.0])
@pytest.mark.parametrize(("doubtful", "other"), [(2, 2), (0, 15), (15, 0)])
def test_the_mass_of_a_mode_is_within_its_bounds(gap, doubtful, other):
    """Modes of known mass. Independent rows reach the upper bound, to a nat."""
    kinds = [(FIRST, doubtful, 0.0)] * 3 + [(OTHER, other, -gap)]
    labels, density = chains(np.random.default_rng(1), kinds)
    for part, drawn, truth in ((labels[:3], density[:3], 0.0), (labels[3:], density[3:], -gap)):
        bounds = mass_bounds(np.concatenate(part), part[0][0], np.stack(drawn), None)
        assert bounds.low <= truth + 1e-9
        assert bounds.high == pytest.approx(truth, abs=1.0)
    modes = found(np.random.default_rng(1), kinds)
    assert {mode.chains for mode in modes} == {(0, 1, 2), (3,)}
    weakest = {mode.chains: mode for mode in modes}[(3,)]
    if gap == 40.0:
        assert weakest.negligible
    assert modes[0].negligible is False
    below = [mode.below for mode in modes]
    assert (0.0, 0.0) in below
    least, most = max(below)
    if modes[-1] is weakest:
        assert least <= gap <= most


def test_without_the_entropy_a_mode_would_be_lost(monkeypatch):
    kinds = [(FIRST, 0, 0.0)] * 3 + [(OTHER, 15, 0.0)]
    assert not found(np.random.default_rng(1), kinds)[-1].negligible
    monkeypatch.setattr(module, "label_entropy", lambda draws, reference: 0.0)
    assert found(np.random.default_rng(1), kinds)[-1].negligible


def test_rows_that_move_together_lose_no_mode():
    """Their entropy is next to nothing and its upper bound is not: the bounds hold both."""
    rng = np.random.default_rng(2)
    for together in (True, False):
        kinds = [(FIRST, 14, 0.0, 400, together)] * 2 + [(OTHER, 14, 0.0, 400, not together)] * 2
        assert not any(mode.negligible for mode in found(rng, kinds))


def test_clusters_that_are_named_count_once_for_every_name():
    """A partition of two of ten names is there 90 times, one of three 720 times."""
    two, three = FIRST % 2, FIRST % 3
    kinds = [(two, 0, 0.0)] * 2 + [(three, 0, 0.0)] * 2
    labels, density = chains(np.random.default_rng(3), kinds)
    density = np.stack(density) + 1e-9 * np.random.default_rng(4).standard_normal((4, 400))
    between, within = chain_disagreement(labels)
    named = find_modes(labels, between, within, density, density, 10)
    assert named[0].chains == (2, 3)
    assert np.mean(named[1].below) == pytest.approx(np.log(8))
    unnamed = find_modes(labels, between, within, density, density, None)
    assert np.mean(unnamed[1].below) == pytest.approx(0.0, abs=1e-6)


@pytest.mark.parametrize(
    ("d", "separation"), [(1, 2.5), pytest.param(5, 0.0, marks=pytest.mark.slow)]
)
def test_the_bounds_hold_what_mixing_chains_find(d, separation):
    """One cluster against two of Student-t data, by a hundred changes of the chains and more."""
    rng = np.random.default_rng(1)
    n = 60
    X = rng.standard_normal((n, d)) / np.sqrt(rng.gamma(2.0, 0.5, n))[:, None]
    X[:, 0] += separation * rng.integers(2, size=n)
    settings = {"noise": False, "n_chains": 2, "n_draws": 1500, "progress": False}
    model = StudentTMixture(2, random_state=1, **settings).fit(X)
    draws = model.posterior_
    one = (draws.n_occupied == 1).ravel()
    assert np.count_nonzero(np.diff(one)) > 50
    truth = np.log(one.mean() / (~one).mean())
    labels, density = draws.flat_labels, draws.parameters["log_marginal"].ravel()
    first, second = (
        mass_bounds(labels[some], labels[some][density[some].argmax()], density[some][None], 2)
        for some in (one, ~one)
    )
    least, most = second.below(first)
    assert least < truth < most
    # The upper bounds alone would be a bad estimate.
    assert abs(first.high - second.high - truth) > 3.0


# When a run may end


def views(rng, kinds, marginal=True):
    out = []
    for labels, density in zip(*chains(rng, kinds), strict=True):
        view = {"labels": labels, "log_joint": density + rng.standard_normal(len(density))}
        if marginal:
            view["parameters/log_marginal"] = density
        out.append(view)
    return out


GOOD, FAR, NEAR = (FIRST, 5, 0.0), (OTHER, 5, -60.0), (OTHER, 5, -2.0)


def judged(kinds, seed=0, **options):
    judge = stopping_rule(4, options.pop("log_joint_is_marginal", False))
    return judge(views(np.random.default_rng(seed), kinds, **options), ())


def test_chains_that_agree_may_end():
    assert judged([GOOD] * 4).settled
    assert judged([GOOD] * 4).share > 1
    few = judged([(FIRST, 5, 0.0, 60)] * 4)
    assert not few.settled
    assert 0 < few.share < 1
    assert not judged([(FIRST, 5, 0.0, 3)] * 4).settled
    assert judged([(FIRST, 5, 0.0, 800)]).settled


def test_a_chain_in_a_negligible_mode_is_set_aside():
    found = judged([GOOD, GOOD, FAR, GOOD])
    assert found.settled
    assert list(found.aside) == [2]
    assert 54 < found.aside[2]["below"] < 60
    assert found.aside[2]["n_clusters"] == 4
    assert list(judged([GOOD] * 2 + [FAR], marginal=False, log_joint_is_marginal=True).aside) == [2]


@pytest.mark.parametrize(
    ("kinds", "options"),
    [
        ([GOOD, GOOD, NEAR, GOOD], {}),
        ([GOOD, GOOD, FAR, GOOD], {"marginal": False}),
        ([(FIRST, 5, 0.0, 40)] * 3 + [(OTHER, 5, -60.0, 40)], {}),
    ],
    ids=["comparable", "mass unknown", "few draws"],
)
def test_modes_that_may_matter_are_neither_set_aside_nor_passed(kinds, options):
    found = judged(kinds, **options)
    assert not found.settled
    assert not found.aside


@pytest.mark.parametrize(
    ("kinds", "stuck"),
    [
        ([GOOD, GOOD, NEAR, NEAR], True),
        ([(FIRST, 5, 0.0, 150)] * 2 + [(OTHER, 5, -2.0, 150)] * 2, False),
        ([GOOD] * 4, False),
        ([GOOD, GOOD, FAR, GOOD], False),
    ],
    ids=["two modes", "few draws", "one mode", "set aside"],
)
def test_chains_that_stay_in_their_modes_end_the_run(kinds, stuck):
    found = judged(kinds)
    assert found.stuck is stuck
    assert not (found.stuck and found.settled)


def test_a_mode_that_no_chain_visits_ends_the_run_after_twice_the_draws():
    for n_draws, stuck in ((150, False), (300, True)):
        judge = stopping_rule(4, False, unvisited=lambda chains: [{}])
        found = judge(views(np.random.default_rng(0), [(FIRST, 5, 0.0, n_draws)] * 4), ())
        assert found.share > 1
        assert not found.settled
        assert found.stuck is stuck


def test_the_last_chain_of_several_is_not_enough():
    found = judged([GOOD, FAR, FAR])
    assert sorted(found.aside) == [1, 2]
    assert not found.settled


def test_a_chain_on_its_way_is_waited_for():
    chains_now = views(np.random.default_rng(0), [GOOD, GOOD, FAR, GOOD])
    drift = np.linspace(-40.0, 0.0, 400)
    for name in ("log_joint", "parameters/log_marginal"):
        chains_now[2][name] = chains_now[2][name] + drift
    found = stopping_rule(4, False)(chains_now, ())
    assert list(found.aside) == [2]
    assert not found.settled


# What is said of it


def posterior(kinds, record=None, marginal=True):
    labels, density = chains(np.random.default_rng(0), kinds)
    density = np.stack(density)
    return Posterior(
        np.stack(labels),
        log_joint=density,
        parameters={"log_marginal": density} if marginal else None,
        record=record or RunRecord("Toy", max_clusters=4),
    )


def test_two_equal_modes_are_named_and_not_averaged_silently():
    found = posterior([GOOD, GOOD, NEAR, NEAR]).diagnostics()
    assert not found.converged
    assert "sit in 2 modes and none moves between them: chains 0 and 1 (mean" in found.verdict
    assert "chains 2 and 3 (mean log joint -5.1, log mass lower by -" in found.verdict
    assert "weight its chains equally" in found.verdict
    assert "Running longer will not help: fit again with n_chains=8" in found.advice
    assert posterior([GOOD] * 4).diagnostics().converged


def test_chains_that_merely_need_longer_are_told_so():
    labels = np.stack([sampled(np.random.default_rng(c), FIRST, 5, 0.0)[0] for c in range(4)])
    # A row goes over once in each chain, at a time of its own.
    for chain, when in enumerate((40, 120, 200, 330)):
        labels[chain, :when, :10] = OTHER[:10]
    record = RunRecord("Toy", n_sweeps=20_000, stopped="max_sweeps")
    found = Posterior(labels, record=record).diagnostics()
    assert not found.converged
    assert "modes" not in found.verdict
    assert found.advice.startswith("Continue the run: max_sweeps=")
    assert "came to its limit of 20,000 sweeps per chain" in found.verdict
    # At the limit of the number of clusters that comes first.
    full = replace(record, max_clusters=len(np.unique(FIRST)))
    found = Posterior(labels, record=full).diagnostics()
    assert f"first allow more, n_clusters={2 * full.max_clusters}:" in found.advice
    assert "Otherwise continue the run: max_sweeps=" in found.advice


@pytest.mark.parametrize(
    ("stopped", "advice"),
    [
        ("max_sweeps", "Continue the run: max_sweeps="),
        ("max_seconds", "Give it more time: raise max_seconds"),
        ("interrupted", "Continue the run to its end"),
        ("n_draws", "n_draws='auto'"),
    ],
)
def test_there_is_one_thing_to_do(stopped, advice):
    record = RunRecord("Toy", n_sweeps=90, stopped=stopped)
    found = posterior([(FIRST, 5, 0.0, 60)] * 4, record).diagnostics()
    assert advice in found.advice
    assert found.sentences.count(found.advice) == 1


def test_a_mode_that_no_chain_visits_is_told_and_the_run_is_not_called_converged():
    modes = ({"n_clusters": 2, "runs": 5, "below": [-1.2, 3.9]},)
    found = posterior([GOOD] * 4, RunRecord("Toy", stopped="max_sweeps", unvisited=modes))
    found = found.diagnostics()
    assert not found.converged
    assert (
        "1 more mode that may hold as much of the posterior, and no chain visits it"
        in found.verdict
    )
    assert "2 clusters (found by 5 runs, log mass lower by -1 to 4)" in found.verdict
    assert found.advice == "Fit again with more chains: n_chains=5."
    judge = stopping_rule(4, False, unvisited=lambda chains: modes)
    assert not judge(views(np.random.default_rng(0), [GOOD] * 4), ()).settled


def test_what_was_set_aside_is_told():
    aside = ({"chain": 2, "below": 41.7, "n_clusters": 2},)
    record = RunRecord("Toy", stopped="converged", set_aside=aside)
    found = posterior([GOOD] * 3, record).diagnostics()
    assert found.converged
    assert "1 of 4 chains was set aside and has no part in any result" in found.verdict
    assert "lower by at least 42 nats" in found.verdict
    assert RunRecord.from_json(record.to_json()) == record
    alone = posterior([GOOD], RunRecord("Toy", set_aside=aside)).diagnostics()
    assert alone.advice == "Fit again with more chains: n_chains=4."
