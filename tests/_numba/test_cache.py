"""Compiled code is kept between processes, never outlives its text, and is not trusted blindly."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap

import pytest

from cavity._numba import cache, private
from cavity._numba.cache import kernels_are_kept

MODULE = """
from typing import NamedTuple

from cavity._numba.jit import compiled, jit, verb
from cavity.interface import log_likelihood


class Own(NamedTuple):
    value: float


@jit
def helper(x):
    return x + {addend}


@log_likelihood.register(Own)
def _(model, parameters, z):
    return helper(model.value) + z
"""

SCRIPT = """
import sys
from own import Own
from cavity._numba.jit import compiled
from cavity.mcmc.chain import likelihood_of_all

kernel = compiled(likelihood_of_all, Own(1.0))
print(kernel(Own(1.0), 0.0, 10.0), sum(kernel.stats.cache_hits.values()))
"""


def python(folder, code, **environment):
    """Run code in a process of its own, with its cache in a folder of its own."""
    (folder / "script.py").write_text(textwrap.dedent(code))
    paths = [str(folder), *filter(None, [os.environ.get("PYTHONPATH")])]
    return subprocess.run(
        [sys.executable, "script.py"],
        cwd=folder,
        env={
            **os.environ,
            "CAVITY_CACHE_DIR": str(folder / "cache"),
            "PYTHONDONTWRITEBYTECODE": "1",
            "PYTHONPATH": os.pathsep.join(paths),
            **environment,
        },
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.fixture
def run(tmp_path):
    def go(addend, cache="cache"):
        (tmp_path / "own.py").write_text(MODULE.format(addend=addend))
        out = python(tmp_path, SCRIPT, CAVITY_CACHE_DIR=str(tmp_path / cache))
        assert out.returncode == 0, out.stderr
        value, hits = out.stdout.split()
        return float(value), int(hits), out.stderr

    return go


def test_a_second_process_finds_the_compiled_code_and_an_edit_is_noticed(run):
    assert run(100) == (111.0, 0, "")
    assert run(100) == (111.0, 1, "")
    # The edit is in a helper that the registered function calls.
    assert run(200) == (211.0, 0, "")


def test_without_a_writable_folder_everything_still_runs(run, tmp_path):
    (tmp_path / "blocked").write_text("a file where a folder should be")
    value, hits, said = run(100, cache="blocked")
    assert (value, hits) == (111.0, 0)
    assert said.startswith("Compiled kernels are not kept: ")
    assert said.count("\n") == 1


# Damage

# Each file of the cache is cut, zeroed and flipped this often.
DAMAGE = """
    import pathlib, random
    from cavity._numba.cache import cache_directory
    from cavity._numba.jit import jit

    def kernel(x, y):
        total = 0.0
        for i in range(len(x)):
            total += x[i] * y
        return total

    import numpy as np
    x = np.arange(5.0)

    def call():
        dispatcher = jit(kernel)
        assert dispatcher(x, 2.0) == 20.0
        assert dispatcher(x, 3) == 30.0
        return sum(dispatcher.stats.cache_hits.values())

    assert call() == 0
    assert call() == 2
    rng = random.Random(0)
    whole = {path: path.read_bytes() for path in cache_directory().iterdir()}
    assert sorted(path.suffix for path in whole) == [".nbc", ".nbc", ".nbi"]
    n_damaged = 0
    for path, data in whole.items():
        for kind in TIMES * ["cut", "zero", "flip"]:
            for other in cache_directory().iterdir():
                other.unlink()
            for other, old in whole.items():
                other.write_bytes(old)
                other.chmod(0o600)
            damaged = bytearray(data)
            place = rng.randrange(len(data))
            if kind == "cut":
                del damaged[place:]
            elif kind == "zero":
                damaged[place:] = bytes(len(data) - place)
            else:
                damaged[place] ^= 1 << rng.randrange(8)
            path.write_bytes(damaged)
            print(path.suffix, kind, place, flush=True)
            if bytes(damaged) == data:
                continue
            n_damaged += 1
            assert call() == (0 if path.suffix == ".nbi" else 1)
            assert call() == 2, "what was compiled anew was not kept"
            assert len(list(cache_directory().iterdir())) == 3, "what was damaged is still there"
    print("damaged", n_damaged)
"""


@pytest.mark.slow
@pytest.mark.parametrize("times", [2, 7])
def test_damaged_files_are_noticed_and_compiled_anew(tmp_path, times):
    out = python(tmp_path, DAMAGE.replace("TIMES", str(times)))
    assert out.returncode == 0, f"after {out.stdout.splitlines()[-1:]}: {out.stderr}"
    assert int(out.stdout.split()[-1]) > 8 * times - 2


def test_two_processes_that_save_at_once_keep_their_own_code(tmp_path, monkeypatch):
    """Numba numbers its files: both would write number 1, and one read the other's code."""
    monkeypatch.setattr(cache, "cache_directory", lambda: tmp_path)
    one, two = (private._SealedFiles(str(tmp_path), "f", "stamp") for _ in range(2))
    first_index = two._load_index
    monkeypatch.setattr(two, "_load_index", dict)  # it looked before the other had written
    one.save("a", "code of a")
    two.save("b", "code of b")
    monkeypatch.setattr(two, "_load_index", first_index)
    assert one.load("b") == "code of b"
    assert one.load("a") in (None, "code of a")


# Disks and users


@pytest.mark.slow
def test_a_full_disk_means_uncached(tmp_path):
    code = """
        import errno, io
        from cavity._numba import cache
        from cavity._numba.jit import jit

        class Full(io.FileIO):
            def write(self, data):
                raise OSError(errno.ENOSPC, "No space left on device")

        def full_open(file, mode="r", *rest, **options):
            return Full(file, mode) if "w" in mode else open(file, mode, *rest, **options)

        cache.open = full_open
        for addend in (1.0, 2.0):
            @jit
            def kernel(x):
                return x + addend
            print(kernel(1.0))
        print([p.name for p in cache.cache_directory().iterdir()])
    """
    out = python(tmp_path, code)
    assert out.returncode == 0, out.stderr
    assert out.stdout.split() == ["2.0", "3.0", "[]"]
    assert out.stderr.startswith("Compiled kernels are not kept: No space left on device (")
    assert out.stderr.count("\n") == 1


@pytest.mark.slow
def test_a_user_without_a_home(tmp_path):
    code = """
        import os, pwd
        os.environ.pop("HOME", None)
        def nobody(uid):
            raise KeyError(f"getpwuid(): uid not found: {uid}")
        pwd.getpwuid = nobody
        import cavity
        from cavity._numba.jit import jit

        @jit
        def kernel(x):
            return x + 1.0
        print(kernel(1.0))
    """
    out = python(tmp_path, code, CAVITY_CACHE_DIR="", XDG_CACHE_HOME="")
    assert (out.returncode, out.stdout) == (0, "2.0\n"), out.stderr
    assert "no home folder; set CAVITY_CACHE_DIR" in out.stderr


@pytest.fixture
def place(tmp_path, monkeypatch):
    """A cache folder that is looked for anew, as in a new process."""
    base = tmp_path / "cache"
    base.mkdir(mode=0o700)
    monkeypatch.setenv("CAVITY_CACHE_DIR", str(base))
    monkeypatch.setattr(cache, "_said", [])
    find = cache.cache_directory.__wrapped__
    monkeypatch.setattr(cache, "cache_directory", find)
    return base


def test_the_folder_is_for_its_user_alone(place):
    folder = cache.cache_directory()
    assert folder is not None
    assert folder.stat().st_mode & 0o777 == 0o700
    assert folder.parent.stat().st_mode & 0o777 == 0o700
    cache.write_sealed(str(folder / "a"), b"code")
    assert (folder / "a").stat().st_mode & 0o777 == 0o600
    assert cache.read_sealed(str(folder / "a")) == b"code"


@pytest.mark.parametrize("part", ["base", "kernels", "stamp"])
@pytest.mark.parametrize("mode", [0o770, 0o707])
def test_folders_that_others_can_write_to_are_refused(place, part, mode, caplog):
    folder = cache.cache_directory()
    {"base": place, "kernels": folder.parent, "stamp": folder}[part].chmod(mode)
    assert cache.cache_directory() is None
    assert cache.cache_directory() is None
    (line,) = caplog.messages
    assert "others can write to" in line
    assert "chmod go-w" in line


@pytest.mark.parametrize("part", ["base", "kernels", "stamp"])
def test_folders_of_another_user_are_refused(place, part, caplog, monkeypatch):
    folder = cache.cache_directory()
    theirs = {"base": place, "kernels": folder.parent, "stamp": folder}[part]
    check = cache._refuse_shared

    def look(status, path, **options):
        fields = list(status)
        fields[4] += path == theirs  # st_uid
        check(os.stat_result(fields), path, **options)

    monkeypatch.setattr(cache, "_refuse_shared", look)
    assert cache.cache_directory() is None
    assert "belongs to another user" in caplog.text


def test_a_sticky_folder_may_hold_ours(place):
    place.chmod(0o1777)
    assert cache.cache_directory() is not None


def test_a_file_that_others_can_write_to_is_not_read(place, caplog):
    path = cache.cache_directory() / "a"
    cache.write_sealed(str(path), b"code")
    path.chmod(0o666)
    with pytest.raises(PermissionError, match="others can write to"):
        cache.read_sealed(str(path))


def test_old_stamps_are_removed_and_the_last_used_stay(place, monkeypatch):
    kernels = place / "kernels"
    kernels.mkdir(mode=0o700)
    for age in range(5):
        folder = kernels / f"{age:016x}"
        folder.mkdir(mode=0o700)
        (folder / "kernel.nbc").write_text("")
        os.utime(folder, (1e9 - age, 1e9 - age))
    (kernels / "notes").mkdir()
    new = cache.cache_directory()
    assert {p.name for p in kernels.iterdir()} == {f"{0:016x}", f"{1:016x}", "notes", new.name}
    # An old stamp that is used again is the last used.
    monkeypatch.setattr(cache, "package_stamp", lambda: f"{1:016x}")
    assert cache.cache_directory().stat().st_mtime > 1e9
    monkeypatch.setattr(cache, "package_stamp", lambda: "f" * 16)
    cache.cache_directory()
    assert {p.name for p in kernels.iterdir()} == {f"{1:016x}", "f" * 16, "notes", new.name}


def test_a_folder_that_vanished_holds_no_kernels(place, monkeypatch):
    assert not kernels_are_kept()
    folder = cache.cache_directory()
    cache.write_sealed(str(folder / "a"), b"code")
    assert kernels_are_kept()
    cache.shutil.rmtree(folder)
    monkeypatch.setattr(cache, "cache_directory", lambda: folder)
    assert not kernels_are_kept()
