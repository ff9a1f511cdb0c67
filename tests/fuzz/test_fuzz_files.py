"""Files for the command line with bytes changed: one sentence and code 2, or a whole run."""

from __future__ import annotations

import shutil

import numpy as np
import pytest

from cavity.cli import main

TABLE = b"name,height,weight\n" + b"".join(
    f"item {i},{v:.2f},{w:.2f}\n".encode()
    for i, (v, w) in enumerate(np.random.default_rng(3).standard_normal((12, 2)))
)
SHORT = ["--clusters", "2", "--chains", "1", "--warmup", "2", "--draws", "4", "--seed", "0"]
PIECES = (
    *(b"", b",", b'"', b"\n", b"\r", b"\x00", b"\xff\xfe", b"\xef\xbb\xbf", b";", b"\t", b"nan"),
    *(b"NA", b"1e400", b"-inf", b"1e200", b"=1+2", b"x" * 50, b"{", b"}", b"[", b"null", b"-1"),
)


def mutate(content, rng):
    """A few pieces put in, taken out or repeated anywhere."""
    for _ in range(int(rng.integers(1, 5))):
        at = int(rng.integers(len(content) + 1))
        to = min(len(content), at + int(rng.integers(0, 12)))
        piece = PIECES[rng.integers(len(PIECES))]
        kind = rng.integers(4)
        if kind == 0:
            content = content[:at] + piece + content[at:]
        elif kind == 1:
            content = content[:at] + piece + content[to:]
        elif kind == 2:
            content = content[:to] + content[at:]
        elif rng.random() < 0.2:
            content = content[:at]
    return content


@pytest.fixture
def command(capsys, monkeypatch, tmp_path, without_pictures):
    """Run the command in this process; what it must keep to whatever it is given."""
    import warnings

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(warnings, "showwarning", warnings.showwarning)

    def run(*arguments):
        with pytest.raises(SystemExit) as left:
            main([str(argument) for argument in arguments])
        error = capsys.readouterr().err
        assert left.value.code in (0, 2), (left.value.code, error)
        assert "Traceback" not in error
        if left.value.code == 2:
            lines = [v for v in error.splitlines() if not v.startswith("Note: ")]
            assert len(lines) == 1, error
            assert lines[0].startswith("cavity: "), error
            assert len(lines[0].split()) >= 5, error
            assert lines[0].isprintable(), error
        return left.value.code

    return run


def _fit(command, tmp_path, seed):
    content = mutate(TABLE, np.random.default_rng([1, seed]))
    (tmp_path / "data.csv").write_bytes(content)
    shutil.rmtree(tmp_path / "run", ignore_errors=True)
    code = command("fit", "data.csv", "--id-column", "name", "--out", "run", *SHORT)
    assert (code == 0) == (tmp_path / "run" / "posterior.nc").is_file(), content


def _records(command, tmp_path, seeds):
    (tmp_path / "data.csv").write_bytes(TABLE)
    assert command("fit", "data.csv", "--id-column", "name", "--out", "whole", *SHORT) == 0
    whole = (tmp_path / "whole" / "run.json").read_bytes()
    for seed in seeds:
        shutil.rmtree(tmp_path / "run", ignore_errors=True)
        shutil.copytree(tmp_path / "whole", tmp_path / "run")
        changed = mutate(whole, np.random.default_rng([2, seed]))
        (tmp_path / "run" / "run.json").write_bytes(changed)
        for arguments in (["fit", "--out", "run", "--resume"], ["report", "run"]):
            command(*arguments)


@pytest.mark.parametrize("seed", range(8))
def test_a_changed_table(command, tmp_path, seed):
    _fit(command, tmp_path, seed)


def test_changed_records_of_runs(command, tmp_path):
    _records(command, tmp_path, range(4))


@pytest.mark.slow
def test_many_changed_files(command, tmp_path):
    for seed in range(1000, 1200):
        _fit(command, tmp_path, seed)
    _records(command, tmp_path, range(1000, 1060))
