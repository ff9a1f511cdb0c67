"""How long chains run: stages, thinning, limits, and the same draws whatever happens on the way."""

from __future__ import annotations

import _thread
import re
import threading
import time

import numpy as np
import pytest
from toy import RandomWalk, assert_same_draws, make_walk, run_chains, run_until

from cavity.mcmc import schedule as module
from cavity.mcmc.checkpoint import CheckpointError, KeptChains
from cavity.mcmc.schedule import Assessment, AutomaticSchedule, FixedSchedule, Stage, never_stop

QUIET = {"progress": False, "fingerprint": {}}
SHORT = {"n_chains": 3, "n_warmup": 20, "random_state": 1, **QUIET}


def after(n_sweeps):
    """A judge that is satisfied once a chain's last draw is at or beyond so many sweeps."""

    def judge(chains, cluster_parameters):
        last = {int(chain["sweeps"][-1]) for chain in chains}
        assert len(last) == 1, "chains were looked at while they stood at different sweeps"
        return Assessment(last.pop() >= n_sweeps, 0.5)

    return judge


# The rule


@pytest.mark.parametrize("n_warmup", [20, 137, 200, 1000])
def test_three_checks_to_a_tripling_and_a_third_is_warmup(n_warmup):
    rule = AutomaticSchedule(never_stop, n_warmup, 10**6)
    ends = [rule.boundary(step) for step in range(12)]
    assert ends[0] == n_warmup
    for step in range(9):
        assert 1.3 < ends[step + 1] / ends[step] < 1.6
        assert 3 * ends[step] <= ends[step + 3] <= 3 * ends[step] + 3
    stage, seen = rule.first(), []
    while stage.end < 40 * n_warmup:
        if rule.is_checked(stage):
            seen.append(stage.n_warmup / stage.end)
            assert stage.n_warmup in ends
        stage = rule.following(stage, 0.0)
        assert stage.n_warmup >= n_warmup
    np.testing.assert_allclose(seen, 1 / 3, atol=0.01)


def test_draws_of_a_stage_are_counted_as_they_are_kept():
    rng = np.random.default_rng(0)
    for _ in range(200):
        thin = int(rng.integers(1, 9))
        warmup, more = (int(v) for v in rng.integers(0, 60, 2))
        stage = Stage(0, warmup + more, warmup, thin, int(rng.integers(0, 2)) * warmup)
        kept = [s for s in range(1, stage.end + 1) if stage.keeps(s)]
        assert stage.n_draws() == len(kept)
        assert stage.n_draws(stage.end // 2) == sum(s <= stage.end // 2 for s in kept)
        assert stage.keeps(np.array(kept, dtype=int)).all()


def by_hand(n_warmup, max_sweeps, thin, most):
    """Which sweeps are draws in the end if no check is ever satisfied, step by step."""
    ends = [n_warmup * 3**t * a // b for t in range(9) for a, b in ((1, 1), (13, 9), (25, 12))]
    step = 0
    while True:
        first = ends[max(step - 2, 0)]
        while sum(s % thin == 0 for s in range(first + 1, ends[step + 1] + 1)) > most:
            thin *= 2
        if ends[step + 1] > max_sweeps:
            return [s for s in range(first + 1, max_sweeps + 1) if s % thin == 0]
        step += 1
        if ends[step] == max_sweeps:
            return [s for s in range(ends[step - 3] + 1, max_sweeps + 1) if s % thin == 0]


@pytest.mark.parametrize(
    ("max_sweeps", "thin", "most"),
    [(21, 1, 2000), (60, 1, 2000), (500, 1, 2000), (500, 1, 40), (541, 3, 25), (700, 2, 64)],
)
def test_equals_the_plain_loop(monkeypatch, max_sweeps, thin, most):
    """All sweeps of a run without warm-up, of which the rule chooses."""
    monkeypatch.setattr(module, "MOST_DRAWS", most)
    every = run_chains(make_walk(growth=0.05), **{**SHORT, "n_warmup": 0, "n_draws": max_sweeps})
    run = run_until(never_stop, make_walk(), max_sweeps=max_sweeps, thin=thin, **SHORT)
    chosen = np.array(by_hand(20, max_sweeps, thin, most))
    np.testing.assert_array_equal(run.labels, every.labels[:, chosen - 1])
    np.testing.assert_array_equal(run.log_joint, every.log_joint[:, chosen - 1])
    assert len(set(np.diff(chosen))) <= 1, "draws are equally spaced"
    assert run.labels.shape[1] <= most
    assert run.thin == (chosen[1] - chosen[0] if len(chosen) > 1 else run.thin)
    assert run.n_warmup < chosen[0]
    assert run.stopped == "max_sweeps"


def test_the_plain_loop_would_notice_a_draw_too_early(monkeypatch):
    every = run_chains(make_walk(), **{**SHORT, "n_warmup": 0, "n_draws": 100})
    early = AutomaticSchedule._warmup
    monkeypatch.setattr(AutomaticSchedule, "_warmup", lambda self, step: early(self, step) - 1)
    run = run_until(never_stop, make_walk(), max_sweeps=100, **SHORT)
    chosen = np.array(by_hand(20, 100, 1, 2000))
    assert not np.array_equal(run.labels, every.labels[:, chosen - 1])


def test_large_draws_are_thinned_to_a_bound_of_bytes(monkeypatch):
    monkeypatch.setattr(module, "LEAST_DRAWS", 30)
    free = run_until(never_stop, make_walk(), max_sweeps=540, **SHORT)
    held = sum(a.nbytes for a in (free.labels, free.log_joint, *free.parameters.values()))
    monkeypatch.setattr(module, "MOST_BYTES", held // 3)
    run = run_until(never_stop, make_walk(), max_sweeps=540, **SHORT)
    assert run.thin in (4, 8)
    monkeypatch.setattr(module, "MOST_BYTES", 1)
    least = run_until(never_stop, make_walk(), max_sweeps=540, **SHORT)
    assert 30 <= least.labels.shape[1] < 60


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"n_warmup": 19}, "n_warmup must be an integer of at least 20 with n_draws='auto'"),
        ({"max_sweeps": 200}, r"max_sweeps=200 leaves no sweep .* n_warmup=200 with thin=1"),
        ({"max_sweeps": 2.5}, "max_sweeps must be an integer"),
        ({"thin": 0}, "thin must be an integer"),
    ],
)
def test_bad_settings(settings, message):
    with pytest.raises(ValueError, match=message):
        AutomaticSchedule(never_stop, **settings)


# The run


@pytest.mark.parametrize("n_jobs", [1, 2, 3])
def test_draws_do_not_depend_on_the_number_of_threads(n_jobs, monkeypatch):
    monkeypatch.setattr("cavity.mcmc.thread_runner._TURN_SECONDS", 0.0)  # a turn is one sweep
    settings = {**SHORT, "n_chains": 4, "keep_warmup": True}
    expected = run_until(after(260), make_walk(), n_jobs=3, **settings)
    assert expected.stopped == "converged"
    run = run_until(after(260), make_walk(), n_jobs=n_jobs, **settings)
    assert_same_draws(run, expected)
    assert run.labels_warmup.shape == (4, 20, 40)


@pytest.mark.parametrize(("wanted", "end"), [(1, 60), (61, 86), (400, 540)])
def test_it_ends_at_the_first_check_that_is_satisfied(wanted, end):
    run = run_until(after(wanted), make_walk(), **SHORT)
    assert run.stopped == "converged"
    assert run.sweep_seconds.shape == (3, end)
    assert run.n_warmup == end // 3


def test_summaries_are_those_of_the_draws():
    """Running summaries have no part of what has become warm-up since."""
    run = run_until(after(500), make_walk(), **SHORT)
    centres = np.nansum(run.parameters["centre"], axis=(1, 2))
    for chain, parts in enumerate(run.summaries):
        assert len(parts) == 3
        assert sum(int(part["n_kept"]) for part in parts) == run.labels.shape[1]
        total = sum(part["sum_centre"] for part in parts)
        np.testing.assert_allclose(total, centres[chain], rtol=1e-9)


def test_chains_that_are_set_aside_have_no_part():
    def judge(chains, cluster_parameters):
        assert "centre" in cluster_parameters
        return Assessment(True, 1.0, {1: {"below": 40.0}})

    whole = run_until(after(0), make_walk(), **SHORT)
    run = run_until(judge, make_walk(), **SHORT)
    np.testing.assert_array_equal(run.labels, whole.labels[[0, 2]])
    assert len(run.samplers) == len(run.summaries) == len(run.events["moves"]) == 2
    assert run.aside == {1: {"below": 40.0}}


class Slow(RandomWalk):
    def sweep(self, rng):
        time.sleep(0.001)
        super().sweep(rng)


def make_slow(chain, rng):
    return Slow(20, rng)


def test_a_limit_of_seconds_keeps_the_draws_so_far():
    settings = {**SHORT, "max_sweeps": 10**6, "max_seconds": 0.4}
    run = run_until(never_stop, make_slow, **settings)
    assert run.stopped == "max_seconds"
    assert 0 < run.labels.shape[1] < 5000
    end = run.sweep_seconds.shape[1]
    whole = run_until(never_stop, make_slow, **{**settings, "max_sweeps": end, "max_seconds": None})
    # Stopped just after a check, it has let go of what would have become warm-up at the next.
    np.testing.assert_array_equal(run.labels, whole.labels[:, -run.labels.shape[1] :])
    fixed = run_chains(make_slow, n_draws=10**6, **{**SHORT, "max_seconds": 0.3})
    assert fixed.stopped == "max_seconds"


@pytest.mark.variants("slow", "run_chains")
@pytest.mark.parametrize("run", [run_chains, lambda *a, **k: run_until(never_stop, *a, **k)])
def test_time_that_ends_within_the_warmup_leaves_the_last_two_thirds(run):
    settings = {**SHORT, "n_warmup": 10**5, "early": True, "max_seconds": 0.4}
    limit = {"n_draws": 10**5} if run is run_chains else {"max_sweeps": 10**6}
    part = run(make_slow, **settings, **limit)
    assert part.stopped == "max_seconds"
    last = part.sweep_seconds.shape[1]
    assert part.labels.shape[:2] == (3, last - part.n_warmup)
    assert part.n_warmup <= last / 2
    every = run_chains(make_slow, **{**SHORT, "n_warmup": 0, "n_draws": last})
    np.testing.assert_array_equal(part.labels, every.labels[:, part.n_warmup :])


@pytest.mark.variants("slow", "False")
@pytest.mark.parametrize("early", [False, True])
def test_no_time_at_all_leaves_the_state(early):
    settings = {**SHORT, "n_warmup": 10**5, "max_sweeps": 10**6, "max_seconds": 0.0}
    run = run_until(never_stop, make_slow, early=early, **settings)
    assert run.stopped == "max_seconds"
    assert run.labels.shape[1] >= 1


def test_time_that_ends_before_the_first_thinned_draw_leaves_the_state():
    settings = {**SHORT, "early": True, "thin": 10**5, "max_sweeps": 10**6, "max_seconds": 0.3}
    run = run_until(never_stop, make_slow, **settings)
    assert run.sweep_seconds.shape[1] <= 20 or run.labels.shape[1] == 1


@pytest.mark.parametrize("n_warmup", [20, 137])
def test_draws_within_the_warmup_change_no_later_one(n_warmup, tmp_path):
    settings = {**SHORT, "n_warmup": n_warmup}
    plain = run_until(after(400), make_walk(), **settings)
    assert_same_draws(run_until(after(400), make_walk(), early=True, **settings), plain)
    fixed = run_chains(make_walk(), n_draws=50, **settings)
    assert_same_draws(run_chains(make_walk(), n_draws=50, early=True, **settings), fixed)


def test_early_draws_are_few_and_end_with_the_warmup():
    rule = AutomaticSchedule(never_stop, 5000, 10**6, early=True)
    stage = rule.first()
    while stage.end < 5000:
        assert stage.n_draws() <= module.EARLY_DRAWS
        assert stage.keeps(stage.n_warmup + stage.thin - stage.n_warmup % stage.thin)
        stage = rule.following(stage, 0.0)
    later = rule.following(stage, 0.0)
    assert (later.n_warmup, later.end, later.thin) == (5000, rule.boundary(1), 1)


# Continued in memory


def test_chains_in_memory_continue_as_one_long_run():
    kept = KeptChains()
    settings = {**SHORT, "n_jobs": 2}
    first = run_until(after(100), make_walk(), checkpoint=kept, **settings)
    whole = run_until(after(400), make_walk(), **settings)
    assert first.labels.shape[1] < whole.labels.shape[1]
    assert_same_draws(run_until(after(400), make_walk(), checkpoint=kept, **settings), whole)
    with pytest.raises(CheckpointError, match="this fit differs: random_state"):
        run_until(after(400), make_walk(), checkpoint=kept, **{**settings, "random_state": 2})
    with pytest.raises(CheckpointError, match=r"previous fit has already come to sweep \d+"):
        run_until(after(400), make_walk(), max_sweeps=100, checkpoint=kept, **settings)


def test_a_chain_that_continues_does_not_choose_a_start_again():
    kept = KeptChains()
    run_until(after(100), make_walk(), checkpoint=kept, **SHORT)

    def refuse(chain, rng):
        raise AssertionError("a start was chosen again")

    run_until(after(400), refuse, checkpoint=kept, make_restored=make_walk(), **SHORT)


def test_what_is_expected_grows_with_what_is_missing():
    rule = AutomaticSchedule(never_stop, 200, 20_000)
    stage = rule.first()
    assert rule.expected(stage, 1.0) == 1800
    while stage.end < 600:
        stage = rule.following(stage, 0.0)
    found = [rule.expected(stage, share) for share in (2.0, 1.0, 0.7, 0.3, 0.01, 0.0)]
    assert found == [866, 866, 866, 1480, 5400, 5400]
    assert FixedSchedule(5, 7, 3).expected(stage, 0.1) == 26


def lines_of(capsys):
    return [line.partition(": ")[2] for line in capsys.readouterr().err.splitlines()]


def test_a_slow_run_estimates_its_time_and_says_when_a_draft_is_ready(monkeypatch, capsys):
    monkeypatch.setattr("cavity.mcmc.runner.LONG_SECONDS", 0.1)

    def judge(chains, cluster_parameters):
        n = int(chains[0]["sweeps"][-1])
        return Assessment(n >= 180, 0.5, draft=n >= 86)

    settings = {**SHORT, "progress": True, "label": "walk"}
    run_until(judge, make_slow, **settings)
    lines = lines_of(capsys)
    told = [line for line in lines if "to a draft" in line]
    assert len(told) == 1
    assert re.fullmatch(r"about \S+ s to a draft, \S+ s to a report on this machine", told[0])
    ready = "a draft is ready (probabilities to about ±0.05); Ctrl-C stops with it"
    assert lines.count(ready) == 1
    assert re.fullmatch(r"180 sweeps per chain, .* s", lines[-1])
    assert not [line for line in lines if "to go" in line or "look" in line]
    monkeypatch.setattr("cavity.mcmc.runner.LONG_SECONDS", 1e9)
    run_until(judge, make_slow, **settings)
    assert not [line for line in lines_of(capsys) if "to a draft" in line]


# Stopped and continued


def stops(monkeypatch, name, at):
    """Send Ctrl-C when a function of the runner is called for the n-th time."""
    calls = {"n": 0}
    original = getattr(*name)

    def interrupting(*args, **kwargs):
        calls["n"] += 1
        if calls["n"] == at:
            _thread.interrupt_main()
        if calls["n"] >= at:
            time.sleep(0.2)  # nothing gets far until the signal has come through
        return original(*args, **kwargs)

    monkeypatch.setattr(*name, interrupting)


@pytest.mark.variants("slow", "2-warm-up", "1-sweep", "1-judge", "2-between")
@pytest.mark.parametrize("phase", ["warm-up", "sweep", "judge", "between"])
@pytest.mark.parametrize("n_jobs", [1, 2])
def test_interrupted_at_each_phase_and_continued(tmp_path, monkeypatch, phase, n_jobs):
    from cavity.mcmc.draws import Draws

    settings = {**SHORT, "n_jobs": n_jobs, "checkpoint": tmp_path / "a"}
    judge = after(400)
    whole = run_until(judge, make_walk(), **{**SHORT, "n_jobs": n_jobs})
    calls = {"n": 0}

    def interrupted_judge(chains, cluster_parameters):
        calls["n"] += 1
        if calls["n"] == 2:
            _thread.interrupt_main()
            time.sleep(0.02)
        return judge(chains, cluster_parameters)

    with monkeypatch.context() as patch:
        if phase == "between":
            stops(patch, (Draws, "enter"), 8)  # the second chain, on its way into a stage
        elif phase != "judge":
            stops(patch, (RandomWalk, "sweep"), 10 if phase == "warm-up" else 700)
        first = interrupted_judge if phase == "judge" else judge
        if phase == "warm-up":
            with pytest.raises(KeyboardInterrupt, match=r"before any chain had a draw"):
                run_until(first, make_walk(), **settings)
        else:
            with pytest.warns(UserWarning, match=r"Stopped early: \d+ draws exist in each of 3"):
                part = run_until(first, make_walk(), **settings)
    if phase != "warm-up":
        assert part.interrupted
        assert part.labels.shape[1] > 0
        end = part.sweep_seconds.shape[1]
        same = run_until(never_stop, make_walk(), **{**SHORT, "max_sweeps": end})
        np.testing.assert_array_equal(part.labels[:, -1], same.labels[:, -1])
    assert_same_draws(run_until(judge, make_walk(), **settings), whole)
    # And once more: a run that has ended is given back as it was.
    assert_same_draws(run_until(judge, make_walk(), **settings), whole)
    assert not [t for t in threading.enumerate() if t.name.startswith("cavity-")]


@pytest.mark.variants("slow", "25", "61", "541")
@pytest.mark.parametrize("first", [25, 60, 61, 300, 541])
def test_a_larger_limit_goes_on(tmp_path, monkeypatch, first):
    monkeypatch.setattr(module, "MOST_DRAWS", 100)
    settings = {**SHORT, "checkpoint": tmp_path / "a"}
    part = run_until(never_stop, make_walk(), max_sweeps=first, **settings)
    assert part.stopped == "max_sweeps"
    longer = run_until(never_stop, make_walk(), max_sweeps=900, **settings)
    assert_same_draws(longer, run_until(never_stop, make_walk(), max_sweeps=900, **SHORT))
    with pytest.raises(CheckpointError, match=r"sweep 900 .*max_sweeps=899\. .*max_sweeps=900"):
        run_until(never_stop, make_walk(), max_sweeps=899, **settings)


def test_a_run_of_the_other_kind_is_refused(tmp_path):
    run_until(after(0), make_walk(), checkpoint=tmp_path / "a", **SHORT)
    with pytest.raises(CheckpointError, match=r"run length='auto', this run has .*='fixed'"):
        run_chains(make_walk(), n_draws=10, checkpoint=tmp_path / "a", **SHORT)
