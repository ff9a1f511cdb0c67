"""The chain runner: what is kept, seeds and threads, interrupts and errors."""

from __future__ import annotations

import _thread
import signal
import subprocess
import sys
import textwrap
import threading
import time
from pathlib import Path

import numpy as np
import pytest
from toy import RandomWalk, assert_same_draws, make_walk, run_chains

from cavity.mcmc.draws import (
    Draws,
    LabelRows,
    ParameterRows,
    current_draw,
    smallest_integer_type,
)
from cavity.mcmc.runner import count_jobs, seed_entropy
from cavity.mcmc.schedule import Stage

QUIET = {"progress": False, "fingerprint": {}}
SHORT = {"n_chains": 3, "n_warmup": 5, "n_draws": 8, "random_state": 1, **QUIET}


def by_hand(n, *, n_chains, n_warmup, n_draws, thin, seed, growth):
    """The obvious loop that the runner must equal."""
    labels, log_joint, sizes = [], [], []
    for sequence in np.random.SeedSequence(seed).spawn(n_chains):
        rng = np.random.default_rng(sequence)
        walk = RandomWalk(n, rng, growth=growth)
        for _ in range(n_warmup):
            walk.sweep(rng)
        for _ in range(n_draws):
            for _ in range(thin):
                walk.sweep(rng)
            labels.append(walk.labels().copy())
            log_joint.append(walk.log_joint())
            sizes.append(walk.record()["size"])
    shape = (n_chains, n_draws)
    return np.reshape(labels, (*shape, n)), np.reshape(log_joint, shape), sizes


def test_equals_the_plain_loop():
    settings = {"n_chains": 3, "n_warmup": 7, "n_draws": 11, "thin": 3}
    run = run_chains(make_walk(20, growth=0.3), random_state=5, **settings, **QUIET)
    labels, log_joint, sizes = by_hand(20, seed=5, growth=0.3, **settings)
    np.testing.assert_array_equal(run.labels, labels)
    np.testing.assert_array_equal(run.log_joint, log_joint)
    assert run.labels.dtype == np.uint8
    assert run.sweep_seconds.shape == (3, 7 + 33)
    assert (run.sweep_seconds > 0).all()
    assert run.labels_warmup is None
    assert not run.interrupted
    assert run.parameters["spread"].shape == (3, 11)
    widest = max(len(s) for s in sizes)
    assert run.parameters["size"].shape == (3, 11, widest)
    for got, expected in zip(run.parameters["size"].reshape(33, -1), sizes, strict=True):
        np.testing.assert_array_equal(got[: len(expected)], expected)
        assert np.isnan(got[len(expected) :]).all()
    assert run.parameters["centre"].shape == (3, 11, widest, 2)
    assert [s.n_kept for s in run.samplers] == [11, 11, 11]
    assert run.events["moves"].shape == (3,)


@pytest.mark.parametrize("n_jobs", [1, 2, 3, 8, -1])
def test_draws_do_not_depend_on_the_number_of_threads(n_jobs, monkeypatch):
    monkeypatch.setattr("cavity.mcmc.thread_runner._TURN_SECONDS", 0.0)  # a turn is one sweep
    settings = {**SHORT, "keep_warmup": True, "n_chains": 4}
    expected = run_chains(make_walk(), **settings)
    assert_same_draws(run_chains(make_walk(), n_jobs=n_jobs, **settings), expected)


def test_another_seed_gives_other_draws():
    first = run_chains(make_walk(), **SHORT)
    second = run_chains(make_walk(), **{**SHORT, "random_state": 2})
    assert not np.array_equal(first.labels, second.labels)
    chains = first.labels
    assert not np.array_equal(chains[0], chains[1])


@pytest.mark.parametrize(
    "make", [np.random.default_rng, np.random.RandomState, int], ids=["generator", "state", "int"]
)
def test_seeds_in_every_form(make):
    one = run_chains(make_walk(), **{**SHORT, "random_state": make(3)})
    two = run_chains(make_walk(), **{**SHORT, "random_state": make(3)})
    assert_same_draws(one, two)


def test_seed_entropy():
    rng = np.random.default_rng(0)
    assert seed_entropy(rng) != seed_entropy(rng)
    assert seed_entropy(None) is None
    assert seed_entropy(np.int64(4)) == 4
    twin = np.random.RandomState()
    twin.set_state(np.random.mtrand._rand.get_state())
    assert seed_entropy(np.random) == seed_entropy(twin)
    a = run_chains(make_walk(), **{**SHORT, "random_state": None})
    b = run_chains(make_walk(), **{**SHORT, "random_state": None})
    assert not np.array_equal(a.labels, b.labels)


@pytest.mark.parametrize("bad", [-1, "seed", 1.5, True])
def test_bad_seeds(bad):
    with pytest.raises(ValueError, match="random_state must"):
        seed_entropy(bad)


@pytest.mark.parametrize(
    ("name", "value"),
    [("n_chains", 0), ("n_warmup", -1), ("n_draws", 0), ("thin", 0), ("n_draws", 2.5)],
)
def test_bad_numbers(name, value):
    with pytest.raises(ValueError, match=f"{name} must be an integer of at least"):
        run_chains(make_walk(), **{**SHORT, name: value})


def test_count_jobs(monkeypatch):
    monkeypatch.setattr("os.sched_getaffinity", lambda _: range(6), raising=False)
    assert [count_jobs(j, 4) for j in (None, 1, 3, 9, -1, -4)] == [4, 1, 3, 4, 4, 3]
    assert count_jobs(None, 9) == 6
    assert count_jobs(-1, 9) == 6
    assert count_jobs(-100, 9) == 1
    with pytest.raises(ValueError, match="n_jobs must be None"):
        count_jobs(0, 4)


def test_warmup_labels():
    kept = run_chains(make_walk(), keep_warmup=True, **SHORT)
    assert kept.labels_warmup.shape == (3, 5, 40)
    shifted = run_chains(make_walk(), **{**SHORT, "n_warmup": 0, "n_draws": 13})
    np.testing.assert_array_equal(
        np.concatenate([kept.labels_warmup, kept.labels], axis=1), shifted.labels
    )


def test_no_warmup_but_kept():
    run = run_chains(make_walk(), **{**SHORT, "n_warmup": 0}, keep_warmup=True)
    assert run.labels_warmup.shape == (3, 0, 40)


def test_label_type_grows():
    rows = LabelRows(4, 3)
    for row in ([0, 1, 255], [0, 0, 256], [70_000, 0, 0], [0, 2, 1]):
        before = rows.written()
        rows.extend(np.array([row]))
    assert rows.written().tolist() == [[0, 1, 255], [0, 0, 256], [70_000, 0, 0], [0, 2, 1]]
    assert rows.written().dtype == np.uint32
    assert before.tolist() == [[0, 1, 255], [0, 0, 256], [70_000, 0, 0]]


@pytest.mark.parametrize(
    ("low", "high", "dtype"),
    [
        (0, 0, "u1"),
        (0, 255, "u1"),
        (0, 256, "u2"),
        (0, 2**16, "u4"),
        (0, 2**32, "u8"),
        (-1, 127, "i1"),
        (-1, 128, "i2"),
        (-129, 0, "i2"),
        (-5, -2, "i1"),
        (-1, 40_000, "i4"),
    ],
)
def test_smallest_integer_type(low, high, dtype):
    assert smallest_integer_type(low, high) == np.dtype(dtype)


def test_views_stay_as_they_were():
    """A checkpoint is written from views while the chain goes on."""
    rng = np.random.default_rng(0)
    walk = RandomWalk(10, rng, growth=0.9)
    stage = Stage(0, 30, 0, 1)
    draws = Draws(10, stage, n_warmup=None, cluster_parameters=("centre", "size"))
    for _ in range(10):
        walk.sweep(rng)
        draws.add_sweeps(1, 1.0)
        draws.add_draws([draws.n_sweeps], current_draw(walk))
    views = draws.arrays()
    copies = {name: view.copy() for name, view in views.items()}
    for _ in range(20):
        walk.sweep(rng)
        draws.add_sweeps(1, 1.0)
        drawn = current_draw(walk)
        draws.add_draws([draws.n_sweeps], drawn._replace(labels=drawn.labels + 300))
    assert draws.arrays()["labels"].dtype == np.uint16
    for name, view in views.items():
        np.testing.assert_array_equal(view, copies[name], err_msg=name)


def test_a_draw_without_a_density_is_refused():
    draws = Draws(10, Stage(0, 30, 0, 1), n_warmup=None, cluster_parameters=("centre", "size"))
    drawn = current_draw(RandomWalk(10, np.random.default_rng(0), growth=0.9))
    with pytest.raises(ValueError, match="The log joint density is not a number"):
        draws.add_draws([1], drawn._replace(log_joint=np.array([np.nan])))
    assert draws.n_draws == 0


def test_clusters_come_go_and_come_back():
    """A sampler gives only the clusters in use: as few as none, later more than ever."""
    counts = [0, 3, 1, 0, 4, 11, 2]
    rows = ParameterRows("mean", len(counts), np.empty((0, 2)), has_clusters=True)
    half = None
    for draw, count in enumerate(counts):
        rows.extend(np.full((1, count, 2), float(draw)))
        if draw == 3:
            half = rows.written()
            kept = half.copy()
    written = rows.written()
    assert written.shape == (7, 11, 2)
    for draw, count in enumerate(counts):
        assert (written[draw, :count] == draw).all()
        assert np.isnan(written[draw, count:]).all()
    np.testing.assert_array_equal(half, kept)
    again = ParameterRows("mean", len(counts), half[0], has_clusters=True)
    again.extend(half)
    for draw, count in enumerate(counts[4:], start=4):
        again.extend(np.full((1, count, 2), float(draw)))
    np.testing.assert_array_equal(again.written(), written)


def test_records_that_change_shape_are_refused():
    class Odd(RandomWalk):
        def record(self):
            return {"spread": np.zeros(len(self.centre))}

    with pytest.raises(ValueError, match="'spread' changed shape"):
        run_chains(lambda chain, rng: Odd(10, rng, growth=1.0), **SHORT)


class Scripted(RandomWalk):
    """Does something of its own at one sweep."""

    def __init__(self, n, rng, at, action):
        super().__init__(n, rng)
        self.at, self.action, self.count = at, action, 0

    def sweep(self, rng):
        self.count += 1
        if self.count == self.at:
            self.action()
        super().sweep(rng)


@pytest.mark.parametrize("n_jobs", [1, 3])
def test_error_in_one_chain_stops_the_others(n_jobs):
    counts = []

    def fail():
        raise FloatingPointError("no more numbers")

    def make(chain, rng):
        sampler = Scripted(10, rng, 4 if chain == 1 else -1, fail)
        counts.append(sampler)
        return sampler

    settings = {**SHORT, "n_draws": 10**6, "n_jobs": n_jobs}
    with pytest.raises(FloatingPointError, match="no more numbers") as caught:
        run_chains(make, **settings)
    assert caught.value.__notes__ == ["In chain 2 of 3, after 3 sweeps."]
    assert max(s.count for s in counts) < 10**6
    assert not [t for t in threading.enumerate() if t.name.startswith("cavity-")]


def test_error_at_the_start():
    def make(chain, rng):
        raise ValueError("nothing to start from")

    with pytest.raises(ValueError, match="nothing to start from"):
        run_chains(make, **SHORT)


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_interrupt_keeps_the_draws_so_far(n_jobs, monkeypatch):
    monkeypatch.setattr("cavity.mcmc.thread_runner._TURN_SECONDS", 0.0)
    settings = {**SHORT, "n_draws": 100_000, "n_jobs": n_jobs, "n_chains": 2}
    other_has_drawn = threading.Event()

    def interrupt():
        assert other_has_drawn.wait(30)
        _thread.interrupt_main()

    def make(chain, rng):
        if chain == 0:
            return Scripted(40, rng, 60, interrupt)
        return Scripted(40, rng, 20, other_has_drawn.set)

    with pytest.warns(UserWarning, match=r"Stopped early: \d+ of 100000 draws exist in each of 2"):
        run = run_chains(make, **settings)
    assert run.interrupted
    n_draws = run.labels.shape[1]
    assert 0 < n_draws < 100_000
    assert run.log_joint.shape == (2, n_draws)
    assert run.sweep_seconds.shape == (2, 5 + n_draws)
    whole = run_chains(make_walk(), **{**settings, "n_draws": n_draws})
    np.testing.assert_array_equal(run.labels, whole.labels)
    # A chain that was ahead when stopped may have met more clusters than the draws returned.
    got, expected = run.parameters["centre"], whole.parameters["centre"]
    np.testing.assert_array_equal(got[:, :, : expected.shape[2]], expected)
    assert np.isnan(got[:, :, expected.shape[2] :]).all()


def test_interrupt_before_any_draw():
    def make(chain, rng):
        return Scripted(40, rng, 3, _thread.interrupt_main)

    settings = {**SHORT, "n_warmup": 10**6, "n_chains": 1}
    with pytest.raises(KeyboardInterrupt, match="before any chain had a draw"):
        run_chains(make, **settings)


def test_interrupt_leaves_out_chains_without_draws():
    def make(chain, rng):
        if chain == 1:
            time.sleep(0.3)  # the other has drawn and called for the end by then
        return Scripted(40, rng, 50 if chain == 0 else -1, _thread.interrupt_main)

    settings = {**SHORT, "n_draws": 10**5, "n_chains": 2, "n_jobs": 2}
    with pytest.warns(UserWarning, match=r"each of 1 chain \(1 more had none yet"):
        run = run_chains(make, **settings)
    assert run.labels.shape[0] == len(run.samplers) == len(run.events["moves"]) == 1


@pytest.mark.slow
def test_a_real_signal_stops_a_real_process(tmp_path):
    code = f"""
        import sys, warnings
        sys.path.insert(0, {str(Path(__file__).parent)!r})
        from toy_runs import run
        print("sampling", flush=True)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            part = run("a", n_draws=10**5, n_chains=2)
        assert part.interrupted
        whole = run(None, n_draws=part.labels.shape[1], n_chains=2)
        assert (part.labels == whole.labels).all()
        print(caught[0].message)
    """
    process = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(code)],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout.readline() == "sampling\n"
    time.sleep(1.0)
    process.send_signal(signal.SIGINT)
    out, _ = process.communicate(timeout=60)
    assert process.returncode == 0
    assert out.startswith("Stopped early:")
    assert "The checkpoint a holds its state" in out
