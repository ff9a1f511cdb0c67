"""One thread per test process, working Ctrl-C, markers of single variants, what tests share."""

import fnmatch
import gc
import math
import os
import signal
import time

import pytest

for _name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS"):
    os.environ.setdefault(_name, "1")

# A shell's background jobs ignore SIGINT, and so would the runs that tests interrupt.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


def compiling_files_first(items):
    """Order files by the mark `first`; the others follow as they are.

    Those that compile most come first: no process is left with a long one at the end, and rows,
    series and tables are first compiled by different processes.
    """
    ranks = {}
    for item in items:
        mark = item.get_closest_marker("first")
        if mark:
            ranks[item.path] = mark.args[0]
    items.sort(key=lambda item: ranks.get(item.path, math.inf))


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items):
    """Apply ``variants(marker, *patterns)``: mark the variants of a test whose ids match.

    A pattern that matches no variant is an error, so that a renamed one does not quietly return to
    the default run. Tests marked slow or exact take minutes on a busy machine: they have two hours.
    """
    compiling_files_first(items)
    matched = {}
    for item in items:
        for mark in item.iter_markers("variants"):
            name, *patterns = mark.args
            test, _, variant = item.nodeid.partition("[")
            for pattern in patterns:
                found = fnmatch.fnmatchcase(variant.removesuffix("]"), pattern)
                matched[test, pattern] = matched.get((test, pattern), False) or found
                if found:
                    item.add_marker(getattr(pytest.mark, name))
        long = item.get_closest_marker("slow") or item.get_closest_marker("exact")
        if long and not item.get_closest_marker("timeout"):
            item.add_marker(pytest.mark.timeout(7200))
    stale = [f"{test}: {pattern}" for (test, pattern), found in matched.items() if not found]
    # Where single variants are asked for, the others are not collected.
    if stale and len(items) > 1000:
        raise pytest.UsageError(f"variants() matches nothing: {', '.join(stale)}")


@pytest.fixture(autouse=True, scope="module")
def frozen_leftovers():
    """The compiler leaves millions of objects, which each collection would go through again."""
    yield
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="session")
def made_once(tmp_path_factory):
    """Folders that are made once per run, by whichever test process needs them first.

    ``made_once(name, make)`` returns the folder `name`, which ``make(folder)`` has filled.
    """
    root = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        root = root.parent  # of all processes

    def folder(name, make):
        path, done, being_made = (root / f"{name}{end}" for end in ("", ".done", ".being-made"))
        while not done.exists():
            try:
                being_made.mkdir()
            except FileExistsError:
                time.sleep(0.1)
                continue
            try:
                if not done.exists():
                    path.mkdir()
                    make(path)
                    done.touch()
            finally:
                being_made.rmdir()
        return path

    return folder


# One white dot.
DOT = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAAAAAA6fptVAAAACklEQVR4nGP4DwABAQEAsTj2FAAAAABJRU5ErkJggg=="


@pytest.fixture
def without_pictures(monkeypatch):
    """Pages whose pictures are dots, for tests of their words: pictures take most of the time.

    They have tests of their own, in `tests/plotting` and `tests/report`.
    """
    from cavity.report import markup

    dot = markup.Image(f"data:image/png;base64,{DOT}", 1, 1)
    monkeypatch.setattr(markup, "_png", lambda figure: dot)
