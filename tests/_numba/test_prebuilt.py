"""Kernels that came with the package are used where they fit exactly, and nowhere else."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from cavity._numba.cache import package_stamp
from cavity._numba.prebuilt import Level, best_level, folder_name, levels

ROOT = Path(__file__).parents[2]

USE = """
    import sys
    from pathlib import Path
    from cavity._numba import prebuilt as shipped
    shipped._HERE = Path(sys.argv[1])
    {before}
    from cavity._numba import cache
    from cavity._numba.numerics import digamma
    print(cache.kernels_are_kept())
    print(round(digamma(1.0), 6), sum(digamma.stats.cache_hits.values()))
    kept = cache.cache_directory()
    print(len(list(kept.iterdir())) if kept else "nowhere")
"""


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A folder of shipped kernels with one in it, for the lowest level of this machine's kind."""
    folder = tmp_path_factory.mktemp("made")
    spec = importlib.util.spec_from_file_location("kernels", ROOT / ".ci" / "kernels.py")
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    from numba import float64

    kernel = ("cavity._numba.numerics", "digamma", (float64,))
    script.compile_levels(([], [kernel]), folder / "kernels", levels()[-1:])
    return folder / "kernels"


def use(made, tmp_path, before="", **environment):
    """Whether kernels are there, a value with its hits of the cache, and files that were kept."""
    (tmp_path / "script.py").write_text(textwrap.dedent(USE).format(before=before))
    out = subprocess.run(
        [sys.executable, tmp_path / "script.py", made],
        env={**os.environ, "CAVITY_CACHE_DIR": str(tmp_path / "cache"), **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    assert out.returncode == 0, out.stderr
    there, found, kept = out.stdout.splitlines()
    value, hits = found.split()
    assert value == "-0.577216"
    return there == "True", int(hits), kept


def copy_of(made, tmp_path):
    import shutil

    return Path(shutil.copytree(made, tmp_path / "kernels"))


def test_a_shipped_kernel_is_loaded_and_nothing_is_compiled_or_written(made, tmp_path):
    assert use(made, tmp_path) == (True, 1, "0")


@pytest.mark.slow
def test_without_shipped_kernels_it_is_compiled(made, tmp_path):
    """Negative control."""
    assert use(tmp_path / "none", tmp_path) == (False, 0, "2")


@pytest.mark.slow
def test_it_needs_no_folder_of_the_user_s(made, tmp_path):
    (tmp_path / "cache").write_text("a file where a folder should be")
    assert use(made, tmp_path) == (True, 1, "nowhere")


@pytest.mark.slow
@pytest.mark.parametrize(
    "before",
    [
        "from cavity._numba import cache; cache.package_stamp = lambda: 16 * '0'",
        "shipped.levels = lambda: ()",
        "sys.implementation.cache_tag = 'cpython-27'",
    ],
    ids=["other sources", "other machine", "other Python"],
)
def test_of_anything_else_it_is_compiled(made, tmp_path, before):
    assert use(made, tmp_path, before) == (False, 0, "2")


@pytest.mark.slow
def test_a_wish_for_a_processor_is_granted(made, tmp_path):
    assert use(made, tmp_path, NUMBA_CPU_NAME="generic") == (False, 0, "2")


@pytest.mark.slow
def test_a_damaged_kernel_is_compiled(made, tmp_path):
    copy = copy_of(made, tmp_path)
    (code,) = copy.rglob("*.nbc")
    whole = bytearray(code.read_bytes())
    whole[-1] ^= 1
    code.write_bytes(whole)
    assert use(copy, tmp_path) == (True, 0, "2")


@pytest.mark.slow
def test_files_of_whoever_installed_the_package_are_read(made, tmp_path):
    """A folder of programs is often its group's, unlike the user's own cache."""
    copy = copy_of(made, tmp_path)
    for path in copy.rglob("*"):
        path.chmod(0o775)
    assert use(copy, tmp_path) == (True, 1, "0")


def test_the_most_able_level_that_the_processor_has_is_chosen(tmp_path):
    low, high = Level("low", frozenset({"a"})), Level("high", frozenset({"a", "b"}))
    (tmp_path / "low").mkdir()
    both = {"a": True, "b": True}
    assert best_level((high, low), tmp_path, both) == low  # no code for the other
    (tmp_path / "high").mkdir()
    assert best_level((high, low), tmp_path, both) == high
    assert best_level((high, low), tmp_path, {"a": True, "b": False}) == low
    assert best_level((high, low), tmp_path, {"b": True}) is None


def test_the_folder_names_sources_and_python():
    assert folder_name(package_stamp()).startswith(package_stamp())
    assert folder_name("x") == f"x-{sys.implementation.cache_tag}"
