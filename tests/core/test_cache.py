"""Compiled code is kept between processes, and never outlives the text it came from."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from cavity.core.compile import cache_directory

MODULE = """
from typing import NamedTuple

from cavity.core.compile import compiled, jit, verb
from cavity.verbs import log_prior


class Own(NamedTuple):
    value: float


@jit
def helper(x):
    return x + {addend}


@log_prior.register(Own)
def _(prior, counts):
    return helper(prior.value) + counts
"""

SCRIPT = """
import sys
from own import Own
from cavity.core.compile import compiled
from cavity.sampling.sampler import prior_of_partition

kernel = compiled(prior_of_partition, Own(1.0))
print(kernel(Own(1.0), 10.0), sum(kernel.stats.cache_hits.values()))
"""


@pytest.fixture
def run(tmp_path):
    def go(addend, cache="cache"):
        (tmp_path / "own.py").write_text(MODULE.format(addend=addend))
        (tmp_path / "script.py").write_text(SCRIPT)
        environment = {
            **os.environ,
            "CAVITY_CACHE_DIR": str(tmp_path / cache),
            "PYTHONDONTWRITEBYTECODE": "1",
            "PYTHONPATH": str(tmp_path),
        }
        out = subprocess.run(
            [sys.executable, "script.py"],
            cwd=tmp_path,
            env=environment,
            capture_output=True,
            text=True,
            check=True,
        )
        value, hits = out.stdout.split()
        return float(value), int(hits)

    return go


def test_a_second_process_finds_the_compiled_code_and_an_edit_is_noticed(run):
    assert run(100) == (111.0, 0)
    assert run(100) == (111.0, 1)
    # The edit is in a helper that the registered function calls.
    assert run(200) == (211.0, 0)


def test_without_a_writable_folder_everything_still_runs(run, tmp_path):
    (tmp_path / "blocked").write_text("a file where a folder should be")
    assert run(100, cache="blocked") == (111.0, 0)


def test_the_folder_is_named_after_the_sources():
    folder = cache_directory()
    assert folder is None or (isinstance(folder, Path) and len(folder.name) == 16)
