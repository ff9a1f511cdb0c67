"""Which chains sit together, how much each mode weighs, and when a run may end without some."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from cavity.posterior import convergence as module
from cavity.posterior.convergence import (
    chain_disagreement,
    find_modes,
    groups,
    label_entropy,
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


@pytest.mark.parametrize("gap", [0.0, 5.0, 40.0])
@pytest.mark.parametrize(("doubtful", "other"), [(2, 2), (0, 15), (15, 0)])
def test_the_mass_of_a_mode_is_found(gap, doubtful, other):
    """Modes of known mass: the estimate errs by a nat at most, where rows are independent."""
    kinds = [(FIRST, doubtful, 0.0)] * 3 + [(OTHER, other, -gap)]
    modes = found(np.random.default_rng(1), kinds)
    assert {mode.chains for mode in modes} == {(0, 1, 2), (3,)}
    weight = {mode.chains: mode.below for mode in modes}
    assert weight[(3,)] - weight[(0, 1, 2)] == pytest.approx(gap, abs=1.0)
    assert [mode.negligible for mode in modes] == [False, gap > 30]
    assert modes[0].below == 0.0


def test_without_the_entropy_it_would_not_be(monkeypatch):
    monkeypatch.setattr(module, "label_entropy", lambda draws, reference: 0.0)
    modes = found(np.random.default_rng(1), [(FIRST, 0, 0.0)] * 3 + [(OTHER, 15, 0.0)])
    assert modes[-1].below > 5.0


def test_rows_that_move_together_are_within_the_allowance():
    """There the entropy is far too large, and the allowance covers it: no mode is lost."""
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
    assert named[1].below == pytest.approx(np.log(8))
    unnamed = find_modes(labels, between, within, density, density, None)
    assert unnamed[1].below == pytest.approx(0.0, abs=1e-6)


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
    assert found.aside[2]["below"] == pytest.approx(60, abs=2)
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
    assert "chains 2 and 3 (mean log joint -5.1, mass about 2 nats lower" in found.verdict
    assert "counts every chain alike" in found.verdict
    assert "More sweeps will not mend it: fit again with n_chains=8" in found.advice
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
    assert found.advice.startswith("Let it go on: max_sweeps=")
    assert "came to its limit of 20,000 sweeps per chain" in found.verdict
    # At the limit of the number of clusters that comes first.
    full = replace(record, max_clusters=len(np.unique(FIRST)))
    found = Posterior(labels, record=full).diagnostics()
    assert f"first allow more, n_clusters={2 * full.max_clusters}:" in found.advice
    assert "Else let it go on: max_sweeps=" in found.advice


@pytest.mark.parametrize(
    ("stopped", "advice"),
    [
        ("max_sweeps", "Let it go on: max_sweeps="),
        ("max_seconds", "Give it more time: raise max_seconds"),
        ("interrupted", "Let the run go on"),
        ("n_draws", "n_draws='auto'"),
    ],
)
def test_there_is_one_thing_to_do(stopped, advice):
    record = RunRecord("Toy", n_sweeps=90, stopped=stopped)
    found = posterior([(FIRST, 5, 0.0, 60)] * 4, record).diagnostics()
    assert advice in found.advice
    assert found.sentences.count(found.advice) == 1


def test_what_was_set_aside_is_told():
    aside = ({"chain": 2, "below": 41.7, "n_clusters": 2},)
    record = RunRecord("Toy", stopped="converged", set_aside=aside)
    found = posterior([GOOD] * 3, record).diagnostics()
    assert found.converged
    assert "1 of 4 chains was set aside and has no part in any answer" in found.verdict
    assert "lower by 42 nats" in found.verdict
    assert RunRecord.from_json(record.to_json()) == record
    alone = posterior([GOOD], RunRecord("Toy", set_aside=aside)).diagnostics()
    assert alone.advice == "Fit again with more chains: n_chains=4."
