"""One thread per test process, working Ctrl-C, and markers of single variants of a test."""

import fnmatch
import os
import signal

import pytest

for _name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS"):
    os.environ.setdefault(_name, "1")

# A shell's background jobs ignore SIGINT, and so would the runs that tests interrupt.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items):
    """Apply ``variants(marker, *patterns)``: mark the variants of a test whose ids match.

    A pattern that matches no variant is an error, so that a renamed one does not quietly return to
    the default run. Tests marked slow or exact take minutes on a busy machine: they have two hours.
    """
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
