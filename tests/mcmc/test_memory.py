"""Draws that cannot fit in memory are refused before the first sweep."""

from __future__ import annotations

import os

import numpy as np
import pytest
from toy import RandomWalk, make_walk, run_chains, run_until

from cavity.mcmc import memory
from cavity.mcmc.memory import StoredDraws
from cavity.mcmc.schedule import never_stop
from cavity.utils.text import readable_bytes

SETTINGS = {"n_chains": 2, "n_warmup": 3, "progress": False, "fingerprint": {}, "random_state": 0}


class Unswept(RandomWalk):
    def sweep(self, rng):
        raise AssertionError("it was swept")


def run_unswept(**settings):
    return run_chains(lambda chain, rng: Unswept(40, rng), **{**SETTINGS, **settings})


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_too_many_draws_are_refused_before_any_sweep(n_jobs):
    with pytest.raises(MemoryError, match=r"n_draws=10\d+ draws in each of 2 chains") as caught:
        run_unswept(n_draws=10**13, n_jobs=n_jobs)
    assert "TB of memory" in str(caught.value)
    assert "Ask for at most" in str(caught.value)
    assert "larger thin" in str(caught.value)
    assert str(caught.value).count("\n") == 0


def test_so_is_an_automatic_run_that_could_not_keep_its_first_draws(monkeypatch):
    monkeypatch.setattr(memory.MemoryCheck.__init__, "__defaults__", (lambda: 50_000,))
    settings = {**SETTINGS, "n_warmup": 200}
    with pytest.raises(MemoryError, match=r"the 400 draws that n_draws='auto' takes at the least"):
        run_until(never_stop, lambda chain, rng: Unswept(400, rng), **settings)


def test_the_number_of_draws_advised_fits(monkeypatch):
    monkeypatch.setattr(memory.MemoryCheck.__init__, "__defaults__", (lambda: 50_000,))
    with pytest.raises(MemoryError, match=r"Ask for at most (\d+) draws") as caught:
        run_unswept(n_draws=1000)
    advised = int(str(caught.value).split("at most ")[1].split()[0])
    assert advised > 10
    run = run_chains(make_walk(growth=0.0), n_draws=advised, **SETTINGS)
    assert run.labels.shape == (2, advised, 40)
    held = [run.labels, run.log_joint, run.sweep_seconds, *run.parameters.values()]
    assert 0.8 * 50_000 < sum(array.nbytes for array in held) <= 50_000


@pytest.mark.parametrize("keep_warmup", [False, True])
def test_the_estimate_is_what_is_kept(keep_warmup):
    kept = StoredDraws(11, 7 * keep_warmup, 7 + 33)
    walk = RandomWalk(300, np.random.default_rng(0))
    sizes = memory.bytes_of_draws(walk.labels() + 256, walk.record(), 2, kept)
    assert sizes == {
        "labels": 2 * (11 + 7 * keep_warmup) * 300 * 2,
        "centre": 2 * 11 * 3 * 2 * 8,
        "size": 2 * 11 * 3 * 8,
        "spread": 2 * 11 * 8,
        "times of sweeps": 2 * (7 + 33 + 2 * 11) * 8,
    }


def test_one_chain_checks_for_all():
    """Draws made meanwhile take memory that was counted already."""
    rooms = [10**9, 0]
    check = memory.MemoryCheck(2, StoredDraws(10, 0, 10), room=lambda: rooms.pop(0))
    walk = RandomWalk(40, np.random.default_rng(0))
    check(walk)
    check(walk)
    assert rooms == [0]


def test_systems_that_do_not_tell_are_not_refused():
    check = memory.MemoryCheck(2, StoredDraws(10**15, 0, 10**15), room=lambda: None)
    check(RandomWalk(40, np.random.default_rng(0)))


@pytest.fixture
def files(tmp_path, monkeypatch):
    monkeypatch.setattr(memory, "_MEMINFO", tmp_path / "meminfo")
    monkeypatch.setattr(memory, "_GROUP", tmp_path)
    return tmp_path


def test_what_linux_tells(files):
    (files / "meminfo").write_text("MemTotal:  900 kB\nMemFree: 1 kB\nMemAvailable:  700 kB\n")
    assert memory.available_bytes() == 700 * 1024


@pytest.mark.parametrize(("limit", "expected"), [("500000", 130_000), ("max", 700 * 1024)])
def test_the_limit_of_a_container(files, limit, expected):
    (files / "meminfo").write_text("MemAvailable: 700 kB\n")
    (files / "memory.max").write_text(f"{limit}\n")
    (files / "memory.current").write_text("400000\n")
    (files / "memory.stat").write_text("anon 370000\ninactive_file 30000\n")
    assert memory.available_bytes() == expected


@pytest.mark.parametrize("known", [["SC_AVPHYS_PAGES", "SC_PHYS_PAGES"], ["SC_PHYS_PAGES"], []])
def test_other_systems(files, monkeypatch, known):
    values = {"SC_AVPHYS_PAGES": 5, "SC_PHYS_PAGES": 9, "SC_PAGE_SIZE": 4096}

    def sysconf(name):
        if name != "SC_PAGE_SIZE" and name not in known:
            raise ValueError("unrecognized configuration name")
        return values[name]

    monkeypatch.setattr(os, "sysconf", sysconf)
    assert memory.available_bytes() == (values[known[0]] * 4096 if known else None)


def test_sizes_in_words():
    sizes = [12, 4_500, 2.5e6, 3e9, 7.25e12, 4.2e18]
    words = ["12 bytes", "4.5 kB", "2.5 MB", "3 GB", "7.25 TB", "4,200,000 TB"]
    assert [readable_bytes(int(size)) for size in sizes] == words
