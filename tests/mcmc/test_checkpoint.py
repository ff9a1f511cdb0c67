"""Checkpoints: what continues, what is refused, and what survives."""

from __future__ import annotations

import _thread
import contextlib
import dataclasses
import errno
import json
import os
import pickle
import subprocess
import sys
import textwrap
import threading
import zipfile
from pathlib import Path

import numpy as np
import pytest
from kill_harness import kill, resumes_bit_for_bit
from toy import RandomWalk, assert_same_draws, make_walk, run_chains

from cavity.mcmc import checkpoint as module
from cavity.mcmc.checkpoint import CheckpointError, checkpoint_seconds
from cavity.mcmc.fingerprint import data_digest, flatten_fingerprint
from cavity.utils.progress import Silent

HERE = Path(__file__).parent
DATA = np.arange(12.0)
FINGERPRINT = {"model": "walk", "df": 5.0, "data": data_digest(DATA)}
BASE = {
    "n_chains": 2,
    "n_warmup": 6,
    "n_draws": 20,
    "thin": 2,
    "random_state": 4,
    "progress": False,
    "fingerprint": FINGERPRINT,
    "keep_warmup": True,
}


def run(path, **changes):
    return run_chains(make_walk(growth=0.3), checkpoint=path, **{**BASE, **changes})


def test_makes_no_difference_to_the_draws(tmp_path):
    assert_same_draws(run(tmp_path / "a", checkpoint_every=0.0), run(None))


def test_a_finished_run_is_returned_as_it_was(tmp_path):
    first = run(tmp_path / "a")

    def must_not_sweep(chain, rng):
        walk = RandomWalk(40, rng)
        walk.sweep = None
        return walk

    again = run_chains(must_not_sweep, checkpoint=tmp_path / "a", **BASE)
    assert_same_draws(again, first)
    np.testing.assert_array_equal(again.sweep_seconds, first.sweep_seconds)


def test_more_draws_and_other_threads(tmp_path):
    run(tmp_path / "a", n_draws=7, n_jobs=2)
    longer = run(tmp_path / "a", n_draws=20, n_jobs=1)
    assert_same_draws(longer, run(None))
    assert_same_draws(run(tmp_path / "a", n_draws=20), longer)


def test_fewer_draws_are_refused(tmp_path):
    run(tmp_path / "a")
    with pytest.raises(CheckpointError, match=r"sweep 46 .* n_draws=5\. .*at least n_draws=20"):
        run(tmp_path / "a", n_draws=5)


def test_without_a_seed(tmp_path):
    first = run(tmp_path / "a", random_state=None, n_draws=5)
    longer = run(tmp_path / "a", random_state=None)
    np.testing.assert_array_equal(longer.labels[:, :5], first.labels)
    with pytest.raises(CheckpointError, match="random_state is another seed"):
        run(tmp_path / "a", random_state=4)


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_interrupted_then_continued(tmp_path, n_jobs, monkeypatch):
    monkeypatch.setattr("cavity.mcmc.thread_runner._TURN_SECONDS", 0.0)
    other_has_drawn = threading.Event()

    class Stops(RandomWalk):
        n_sweeps = 0

        def sweep(self, rng):
            self.n_sweeps += 1
            super().sweep(rng)
            if self.n_sweeps == (30 if self.first else 20):
                if self.first:
                    assert other_has_drawn.wait(30)
                    _thread.interrupt_main()
                other_has_drawn.set()

    def make(chain, rng):
        walk = Stops(40, rng, growth=0.3)
        walk.first = chain == 0
        return walk

    settings = {**BASE, "n_draws": 10_000, "n_jobs": n_jobs}
    with pytest.warns(UserWarning, match=r"Stopped early.*run it again to continue"):
        part = run_chains(make, checkpoint=tmp_path / "a", **settings)
    assert part.interrupted
    with zipfile.ZipFile(tmp_path / "a") as archive:
        header = json.loads(archive.read(module.HEADER))
    furthest = max(chain["n_sweeps"] for chain in header["chains"])
    drawn = (furthest - BASE["n_warmup"]) // BASE["thin"] + 20
    whole = run(None, n_draws=drawn)
    assert_same_draws(run(tmp_path / "a", n_draws=drawn), whole)


@pytest.mark.slow
def test_an_early_interrupt_keeps_the_draws_of_chains_not_yet_begun(tmp_path):
    settings = {**BASE, "n_chains": 3, "n_jobs": 1}
    first = run_chains(make_walk(growth=0.3), checkpoint=tmp_path / "a", **settings)
    began = []

    def make(chain, rng):
        if not began:
            _thread.interrupt_main()
        began.append(chain)
        return RandomWalk(40, rng, growth=0.3)

    with pytest.warns(UserWarning, match=r"Stopped early: 20 of 10000 draws exist in each of 3 ch"):
        part = run_chains(make, checkpoint=tmp_path / "a", **{**settings, "n_draws": 10_000})
    assert sorted(began) == [0, 1, 2]
    np.testing.assert_array_equal(part.labels, first.labels)
    assert len(part.samplers) == 3
    assert part.samplers[2].n_kept == 20
    # Nothing of it is lost in the file either; on a busy machine a chain has gone on for a while.
    longer = run_chains(
        make_walk(growth=0.3), checkpoint=tmp_path / "a", **{**settings, "n_draws": 2000}
    )
    assert_same_draws(longer, run(None, n_chains=3, n_draws=2000))


def test_an_interrupt_with_a_state_that_does_not_fit_is_an_error(tmp_path):
    settings = {**BASE, "n_jobs": 1}
    run(tmp_path / "a", n_jobs=1)

    class Other(RandomWalk):
        def restore(self, state):
            if self.chain == 1:
                raise ValueError("it has other arrays")
            super().restore(state)

    def make(chain, rng):
        if chain == 0:
            _thread.interrupt_main()
        walk = Other(40, rng, growth=0.3)
        walk.chain = chain
        return walk

    with pytest.raises(CheckpointError, match=r"state of chain 2 does not fit.*other arrays"):
        run_chains(make, checkpoint=tmp_path / "a", **{**settings, "n_draws": 10_000})


def test_the_time_left_counts_new_sweeps_only(tmp_path, monkeypatch):
    run(tmp_path / "a", n_draws=7)
    seen = {}

    @contextlib.contextmanager
    def reporting(progress, label, total, unit, done):
        seen.update(total=total, done=done)
        yield Silent()

    monkeypatch.setattr("cavity.mcmc.runner.reporting", reporting)
    run(tmp_path / "a", n_draws=20)
    assert seen == {"total": 46, "done": 20}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"fingerprint": {**FINGERPRINT, "df": 3.0}}, r"written with df=5.0, this run has df=3.0"),
        ({"fingerprint": {**FINGERPRINT, "df": 5}}, r"written with df=5.0, this run has df=5"),
        ({"fingerprint": {**FINGERPRINT, "model": "other"}}, "model='walk'.*model='other'"),
        ({"fingerprint": {**FINGERPRINT, "data": data_digest(DATA + 1)}}, "data are not the same"),
        ({"fingerprint": {**FINGERPRINT, "more": 1}}, "more=None, this run has more=1"),
        ({"n_warmup": 7}, "n_warmup=6, this run has n_warmup=7"),
        ({"n_chains": 3}, "n_chains=2, this run has n_chains=3"),
        ({"thin": 1}, "thin=2, this run has thin=1"),
        ({"keep_warmup": False}, "keep_warmup=True, this run has keep_warmup=False"),
        ({"random_state": 5}, "random_state is another seed"),
    ],
)
def test_another_run_is_refused(tmp_path, change, message):
    run(tmp_path / "a")
    before = (tmp_path / "a").read_bytes()
    with pytest.raises(CheckpointError, match=message) as caught:
        run(tmp_path / "a", **change)
    assert "belongs to another run" in str(caught.value)
    assert "deleting the file or giving another path" in str(caught.value)
    assert (tmp_path / "a").read_bytes() == before


def test_fingerprint_of_nested_settings(tmp_path):
    @dataclasses.dataclass
    class Prior:
        concentration: float
        scale: np.ndarray

    settings = {"prior": Prior(1.0, np.eye(2)), "n_jobs": 3, "init": ("a", 1), "tol": np.float64(2)}
    flat = flatten_fingerprint({"model": "x", "settings": settings})
    assert flat["settings.prior"] == "Prior"
    assert flat["settings.prior.concentration"] == 1.0
    assert flat["settings.prior.scale"] == data_digest(np.eye(2))
    assert flat["settings.init"] == ["a", 1]
    assert "settings.n_jobs" not in flat
    assert json.loads(json.dumps(flat)) == flat
    with pytest.raises(TypeError, match=r"settings.f is a function, which a checkpoint cannot"):
        flatten_fingerprint({"settings": {"f": print_nothing}})


def print_nothing():
    """Anything that is not a setting."""


def test_digest_sees_values_types_and_shapes():
    x = np.arange(6.0)
    texts = np.array(["a", None], dtype=object)
    digests = [
        data_digest(v)
        for v in (x, x[::-1], x.astype("f4"), x.reshape(2, 3), x[:0], texts, np.array(["a"]))
    ]
    assert len(set(digests)) == len(digests)
    assert data_digest(x[::2]) == data_digest(x[::2].copy())
    assert data_digest(x, x) != data_digest(x)


# Damaged and foreign files


def write_pickle(path):
    with open(path, "wb") as file:
        pickle.dump({"a": 1}, file)


def write_archive_with_objects(path):
    np.savez(path, a=np.array([{"a": 1}], dtype=object))
    os.replace(f"{path}.npz", path)


def write_archive_with_foreign_header(path):
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(module.HEADER, json.dumps({"format": "other"}))


@pytest.mark.parametrize(
    "write",
    [
        lambda path: path.write_bytes(b""),
        lambda path: path.write_text("x,y\n1,2\n"),
        write_pickle,
        write_archive_with_objects,
        write_archive_with_foreign_header,
    ],
    ids=["empty", "text", "pickle", "objects", "other header"],
)
def test_foreign_files_are_refused_and_left_alone(tmp_path, write):
    path = tmp_path / "a"
    write(path)
    before = path.read_bytes()
    with pytest.raises(CheckpointError, match="damaged, or is not a checkpoint of cavity"):
        run(path)
    assert path.read_bytes() == before


def test_pickled_objects_inside_are_never_loaded(tmp_path, monkeypatch):
    path = tmp_path / "a"
    run(path)
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    np.save(tmp_path / "evil.npy", np.array([print_nothing], dtype=object), allow_pickle=True)
    members["chain-0/state/z.npy"] = (tmp_path / "evil.npy").read_bytes()
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in members.items():
            archive.writestr(name, data)
    monkeypatch.setattr(pickle, "load", None)
    with pytest.raises(CheckpointError, match="damaged"):
        run(path)


def test_truncated_files_are_refused(tmp_path):
    path = tmp_path / "a"
    run(path)
    data = path.read_bytes()
    for size in np.linspace(0, len(data) - 1, 25).astype(int):
        path.write_bytes(data[:size])
        with pytest.raises(CheckpointError, match="damaged"):
            run(path)


def test_a_flipped_bit_is_refused_or_harmless(tmp_path):
    """Bits that the archive ignores (dates, for one) may change nothing, and must not."""
    path = tmp_path / "a"
    whole = run(path)
    data = path.read_bytes()
    rng = np.random.default_rng(0)
    n_refused = 0
    for place, bit in zip(rng.integers(0, len(data), 150), rng.integers(0, 8, 150), strict=True):
        damaged = bytearray(data)
        damaged[place] ^= 1 << int(bit)
        path.write_bytes(damaged)
        try:
            again = run(path)
        except CheckpointError:
            n_refused += 1
        else:
            assert_same_draws(again, whole)
    assert n_refused > 100


def test_other_versions_are_refused(tmp_path, monkeypatch):
    run(tmp_path / "a")
    monkeypatch.setattr(module, "VERSION", 3)
    with pytest.raises(CheckpointError, match=r"format version 2 .* reads version 3"):
        run(tmp_path / "a")


@pytest.mark.parametrize("version", ["0.1.9", "0.1.0rc1", "0.1.0.dev3"])
def test_a_patch_of_the_version_may_differ(tmp_path, monkeypatch, version):
    monkeypatch.setattr("cavity.__version__", "0.1.0")
    first = run(tmp_path / "a")
    monkeypatch.setattr("cavity.__version__", version)
    assert_same_draws(run(tmp_path / "a"), first)


@pytest.mark.parametrize("version", ["0.2.0", "1.1.0", "0.10.0"])
def test_other_versions_of_the_package_are_refused(tmp_path, monkeypatch, version):
    monkeypatch.setattr("cavity.__version__", "0.1.0")
    run(tmp_path / "a")
    monkeypatch.setattr("cavity.__version__", version)
    with pytest.raises(CheckpointError, match=rf"by cavity 0.1.0, and this is cavity {version}"):
        run(tmp_path / "a")


# Places and disks


def no_work(chain, rng):
    raise AssertionError("work began before the place was found to be bad")


@pytest.mark.parametrize(
    ("place", "error", "message"),
    [
        ("folder", IsADirectoryError, "is a folder"),
        ("missing/a", FileNotFoundError, "folder does not exist; make it first"),
        ("file/a", FileNotFoundError, "is not a folder"),
    ],
)
def test_bad_places_are_reported_before_any_work(tmp_path, place, error, message):
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").write_text("")
    with pytest.raises(error, match=message):
        run_chains(no_work, checkpoint=tmp_path / place, **BASE)


def test_a_pipe_is_refused_before_any_work(tmp_path):
    os.mkfifo(tmp_path / "a")
    with pytest.raises(OSError, match="a pipe or a device; give the path of a file"):
        run_chains(no_work, checkpoint=tmp_path / "a", **BASE)


@pytest.mark.parametrize("exists", [False, True])
def test_a_link_stays_a_link_and_its_file_is_replaced(tmp_path, exists):
    for folder in ("here", "there"):
        (tmp_path / folder).mkdir()
    link, file = tmp_path / "here" / "link", tmp_path / "there" / "file"
    if exists:
        run(file, n_draws=5)
    link.symlink_to(file)
    whole = run(link)
    assert link.is_symlink()
    assert [p.name for p in link.parent.iterdir()] == ["link"]
    assert [p.name for p in file.parent.iterdir()] == ["file"]
    assert_same_draws(run(file), whole)


def test_a_link_to_a_folder_that_is_not_there_is_refused(tmp_path):
    (tmp_path / "link").symlink_to(tmp_path / "missing" / "file")
    with pytest.raises(FileNotFoundError, match="folder does not exist; make it first"):
        run_chains(no_work, checkpoint=tmp_path / "link", **BASE)


def test_runs_in_several_threads_may_share_a_checkpoint(tmp_path):
    expected, results = run(None), []

    def go():
        for _ in range(5):
            results.append(run(tmp_path / "a", checkpoint_every=0.0, n_jobs=1))

    threads = [threading.Thread(target=go) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(results) == 20
    for result in results:
        assert_same_draws(result, expected)
    assert [p.name for p in tmp_path.iterdir()] == ["a"]


@pytest.mark.parametrize("exists", [False, True])
def test_unwritable_folder_is_reported_before_any_work(tmp_path, monkeypatch, exists):
    if exists:
        run(tmp_path / "a")

    def deny(*args, **kwargs):
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(module, "open", deny, raising=False)
    monkeypatch.setattr(module.tempfile, "TemporaryFile", deny)
    with pytest.raises(PermissionError, match=r"cannot be read or written .Permission denied"):
        run_chains(no_work, checkpoint=tmp_path / "a", **BASE)


@pytest.mark.slow
def test_full_disk_warns_and_keeps_the_checkpoint_before(tmp_path):
    """A limit on the size of files stands for a disk that fills up during the run."""
    code = f"""
        import resource, sys, warnings
        sys.path.insert(0, {str(HERE)!r})
        from toy_runs import run
        run("a", n_draws=5)
        size = __import__("os").path.getsize("a")
        resource.setrlimit(resource.RLIMIT_FSIZE, (size + 1000, size + 1000))
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            result = run("a", n_draws=40, checkpoint_every=0.0)
        assert result.labels.shape[1] == 40, result.labels.shape
        print([str(w.message) for w in caught])
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("could not be written") == 1
    assert "The one before is intact" in done.stdout
    assert [p.name for p in tmp_path.iterdir()] == ["a"]
    from toy_runs import arrays
    from toy_runs import run as slow

    again = arrays(slow(tmp_path / "a", n_draws=30))
    for name, expected in arrays(slow(None, n_draws=30)).items():
        np.testing.assert_array_equal(again[name], expected, err_msg=name)


def test_a_state_of_objects_is_an_error(tmp_path):
    class Odd(RandomWalk):
        def state(self):
            return {"z": np.array([None])}

    with pytest.raises(TypeError, match=r"state/z\.npy holds Python objects"):
        run_chains(lambda c, rng: Odd(5, rng), checkpoint=tmp_path / "a", **BASE)


def test_seconds_between_checkpoints(monkeypatch):
    monkeypatch.delenv("CAVITY_CHECKPOINT_EVERY", raising=False)
    assert checkpoint_seconds(None) == 30.0
    assert checkpoint_seconds(2) == 2.0
    monkeypatch.setenv("CAVITY_CHECKPOINT_EVERY", "0.5")
    assert checkpoint_seconds(None) == 0.5
    monkeypatch.setenv("CAVITY_CHECKPOINT_EVERY", "often")
    with pytest.raises(ValueError, match="CAVITY_CHECKPOINT_EVERY must be a number"):
        checkpoint_seconds(None)
    with pytest.raises(ValueError, match="checkpoint_every must be"):
        checkpoint_seconds(-1)
    with pytest.raises(ValueError, match="checkpoint_every must be"):
        checkpoint_seconds(float("nan"))


def test_only_leftovers_of_dead_processes_are_removed(tmp_path):
    dead = subprocess.Popen([sys.executable, "-c", ""])
    dead.wait()
    ours, theirs, other = (
        tmp_path / name
        for name in (f".a.{dead.pid}-0.part", f".a.{os.getppid()}-0.part", ".a.x.part")
    )
    for path in (ours, theirs, other):
        path.write_text("")
    run(tmp_path / "a")
    assert not ours.exists()
    assert theirs.exists()
    assert other.exists()


# Killed processes


# Seconds within which a run is killed: the first stages of an automatic one are too short for a
# checkpoint to be written in them.
LONGEST = {"plain": 0.6, "automatic": 1.5}


@pytest.mark.variants("slow", "automatic-3", "automatic-2")
@pytest.mark.parametrize(("function", "seed"), [("plain", 1), ("automatic", 2), ("automatic", 3)])
def test_killed_at_random_times(tmp_path, function, seed):
    n_killed = resumes_bit_for_bit(
        f"{HERE / 'toy_runs.py'}:{function}",
        tmp_path,
        seed=seed,
        n_kills=4,
        longest=LONGEST[function],
    )
    assert n_killed >= 2


@pytest.mark.slow
def test_killed_while_writing(tmp_path):
    moments = tmp_path / "killed.moments"
    for expected in range(1, 4):
        process = subprocess.Popen(
            [
                sys.executable,
                str(HERE / "kill_harness.py"),
                f"{HERE / 'toy_runs.py'}:dies_in_a_system_call",
                str(tmp_path / "killed.checkpoint"),
                str(tmp_path / "killed.npz"),
            ],
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "CAVITY_CHECKPOINT_EVERY": "0"},
        )
        process.communicate(timeout=60)
        assert process.returncode == -9
        assert moments.read_text() == str(expected)
    resumes_bit_for_bit(
        f"{HERE / 'toy_runs.py'}:dies_in_a_system_call", tmp_path, seed=0, n_kills=0
    )


@pytest.mark.variants("slow", "automatic")
@pytest.mark.parametrize("function", ["plain", "automatic"])
def test_the_kill_test_can_fail(tmp_path, function):
    """A sampler that forgets part of its state must be caught."""
    forgetful = tmp_path / "forgetful.py"
    forgetful.write_text(
        textwrap.dedent(f"""
            import sys
            sys.path.insert(0, {str(HERE)!r})
            import toy_runs

            class Forgetful(toy_runs.Slow):
                def restore(self, state):
                    super().restore({{**state, "centre": state["centre"] + 1e-9}})

            toy_runs.Slow = Forgetful
            plain, automatic = toy_runs.plain, toy_runs.automatic
        """)
    )
    with pytest.raises(AssertionError, match="Arrays are not equal"):
        resumes_bit_for_bit(
            f"{forgetful}:{function}", tmp_path, seed=5, n_kills=2, longest=LONGEST[function]
        )


def test_kill_says_whether_it_hit():
    process = subprocess.Popen([sys.executable, "-c", ""], stdout=subprocess.PIPE, text=True)
    process.wait()
    assert not kill(process)
