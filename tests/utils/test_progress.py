"""Progress: bars on a terminal, lines elsewhere, silence on request."""

from __future__ import annotations

import io
import logging
import subprocess
import sys

import pytest

from cavity.utils import progress as bars


class Clock:
    def __init__(self):
        self.now = 0.0

    def __call__(self):
        return self.now


@pytest.fixture
def clock(monkeypatch):
    clock = Clock()
    monkeypatch.setattr(bars.time, "monotonic", clock)
    return clock


class Terminal(io.StringIO):
    def isatty(self):
        return True


def attach_terminal(monkeypatch):
    """Called in the test itself: pytest puts its own stream back after the fixtures."""
    stream = Terminal()
    monkeypatch.setattr(sys, "stderr", stream)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "120")
    for name in ("NO_COLOR", "FORCE_COLOR", "TTY_COMPATIBLE"):
        monkeypatch.delenv(name, raising=False)
    return stream


def test_lines_every_ten_seconds_or_tenth(clock, capsys):
    with bars.reporting(True, "fit", 100, "sweeps per chain") as reporter:
        for step in range(1, 101):
            clock.now += 0.5
            reporter.update(step)
    lines = capsys.readouterr().err.splitlines()
    assert 9 <= len(lines) <= 12
    assert lines[-1] == "fit: 100 of 100 sweeps per chain (100%), 50 s"
    assert "left" in lines[0]


def test_slow_work_still_speaks(clock, capsys):
    with bars.reporting(True, "fit", 1000) as reporter:
        for step in range(5):
            reporter.update(step)
            clock.now += 11.0
    lines = capsys.readouterr().err.splitlines()
    assert lines[0].startswith("fit: 1 of 1,000 sweeps (0%), 3 h")
    assert len(lines) == 4


def test_what_comes_before_the_first_sweep_is_told_and_is_not_slow_work(clock, capsys):
    with bars.reporting(True, "fit", 1000) as reporter:
        for second in (10, 20):
            clock.now = second
            reporter.update(0 if second == 10 else 100, "(choosing where to start)")
    assert capsys.readouterr().err.splitlines() == [
        "fit: 0 of 1,000 sweeps (0%) (choosing where to start)",
        "fit: 100 of 1,000 sweeps (10%), 1 min 30 s left",
    ]


def test_work_of_an_earlier_run_does_not_count_as_speed(clock, capsys):
    with bars.reporting(True, "fit", 1000, done=900) as reporter:
        reporter.update(900)
        clock.now += 10.0
        reporter.update(910)
        clock.now += 10.0
        reporter.update(920)
    assert capsys.readouterr().err.splitlines() == [
        "fit: 910 of 1,000 sweeps (91%), 1 min 30 s left",
        "fit: 920 of 1,000 sweeps (92%), 1 min 20 s left",
    ]


def test_work_whose_amount_is_estimated_shows_one_time_left(clock, capsys):
    with bars.reporting(True, "fit", 600) as reporter:
        reporter.expect(1800)
        clock.now += 12.0
        reporter.update(600)
        reporter.expect(2400)
        clock.now += 12.0
        reporter.update(1200)
        reporter.finish()
    assert capsys.readouterr().err.splitlines() == [
        "fit: 600 sweeps, about 20 s left",
        "fit: 1,200 sweeps, 24 s",
    ]


def test_the_same_line_on_a_terminal(monkeypatch):
    terminal = attach_terminal(monkeypatch)
    with bars.reporting(None, "fit", 600, "sweeps per chain", done=100) as reporter:
        task = reporter._rich.tasks[0]
        assert task.completed == 100
        clock = Clock()
        monkeypatch.setattr(bars.time, "monotonic", clock)
        reporter.update(100)
        reporter.expect(2000)
        clock.now = 10.0
        reporter.update(200, "(compiling)")
        assert (task.total, task.completed) == (2000, 200)
        assert task.fields["line"] == "200 sweeps per chain, about 3 min left"
        assert task.description == "fit (compiling)"
        reporter.finish()
        assert task.description == "fit"
    assert "200 sweeps per chain" in terminal.getvalue()


@pytest.mark.parametrize("progress", [None, False])
def test_silent_where_there_is_no_terminal(progress, capsys):
    assert list(bars.track(range(5), "study", progress=progress)) == [0, 1, 2, 3, 4]
    captured = capsys.readouterr()
    assert captured.err == captured.out == ""


def test_lines_above_a_bar(monkeypatch):
    terminal = attach_terminal(monkeypatch)
    with bars.reporting(None, "fit", 10) as reporter:
        reporter.update(10)
        bars.say("compiling [kernels]")
    text = terminal.getvalue()
    assert "10 of 10 sweeps (100%)" in text
    assert "compiling [kernels]" in text


def test_false_is_silent_on_a_terminal(monkeypatch):
    terminal = attach_terminal(monkeypatch)
    assert list(bars.track([1, 2], "study", progress=False)) == [1, 2]
    assert terminal.getvalue() == ""


def test_dumb_terminals_get_no_bar(monkeypatch):
    terminal = attach_terminal(monkeypatch)
    monkeypatch.setenv("TERM", "dumb")
    assert list(bars.track([1, 2], "study", progress=True)) == [1, 2]
    assert terminal.getvalue() == "study: 2 of 2 steps (100%), 0.0 s\n"


def test_bars_inside_bars(monkeypatch):
    terminal = attach_terminal(monkeypatch)
    for _ in bars.track([1, 2], "study"):
        with bars.reporting(None, "fit", 3) as reporter:
            reporter.update(3)
    assert "study" in terminal.getvalue()
    assert "fit" in terminal.getvalue()
    assert "steps" in terminal.getvalue()
    assert "sweeps" in terminal.getvalue()
    assert not bars._open


def test_say_without_progress(caplog, monkeypatch):
    terminal = attach_terminal(monkeypatch)
    bars.say("on a terminal")
    assert terminal.getvalue() == "on a terminal\n"
    with (
        caplog.at_level(logging.INFO, logger="cavity"),
        bars.reporting(False, "", 1),
    ):
        bars.say("to the logger")
    assert caplog.messages == ["to the logger"]


def test_items_without_a_length(capsys):
    assert list(bars.track(iter("ab"), "study", total=2, progress=True)) == ["a", "b"]
    assert capsys.readouterr().err.endswith("study: 2 of 2 steps (100%), 0.0 s\n")
    assert list(bars.track(iter("ab"), "study", progress=True)) == ["a", "b"]


def test_an_error_closes_the_progress(monkeypatch):
    attach_terminal(monkeypatch)
    with pytest.raises(ZeroDivisionError), bars.reporting(None, "fit", 3):
        raise ZeroDivisionError
    assert not bars._open


def test_durations():
    seconds = [0.04, 5.4, 61, 3599.6, 7325]
    words = ["0.0 s", "5 s", "1 min 01 s", "1 h 00 min", "2 h 02 min"]
    assert [bars._duration(s) for s in seconds] == words


def test_nothing_heavy_is_imported_with_it():
    code = "import sys, cavity.utils.progress; sys.exit('rich' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
