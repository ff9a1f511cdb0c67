"""Damaged checkpoints, posteriors and records of runs: refused in a sentence, or harmless.

``python tests/fuzz/test_fuzz_damage.py KIND FIRST LAST`` runs numbered cases in one process.
"""

from __future__ import annotations

import io
import re
import shutil
import sys
import tempfile
import time
import warnings
import zipfile
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from cavity import GaussianMixture, load
from cavity.mcmc.checkpoint import CheckpointError

X = np.random.default_rng(0).standard_normal((40, 2))
SETTINGS = {
    "n_chains": 2,
    "n_warmup": 5,
    "random_state": 0,
    "noise": False,
    "progress": False,
    "n_jobs": 1,
}
# Seconds of computing within which a damaged file is refused or read.
LONGEST = 5.0


def fitted(folder, n_draws=8, **more):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return GaussianMixture(2, n_draws=n_draws, **SETTINGS, **more).fit(X)


def damaged(content, rng):
    """Bytes of a file with bits, blocks or the end changed."""
    out = bytearray(content)
    for _ in range(int(rng.integers(1, 4))):
        at = int(rng.integers(len(out)))
        to = min(len(out), at + int(rng.choice([1, 8, 100, 1000])))
        kind = rng.integers(6)
        if kind == 0:
            out[at] ^= 1 << int(rng.integers(8))
        elif kind == 1:
            out[at:to] = bytes(to - at)
        elif kind == 2:
            out[at:to] = rng.bytes(to - at)
        elif kind == 3:
            del out[at:to]
        elif kind == 4:
            out[at:at] = out[at:to]
        elif rng.random() < 0.5 and at > 0:
            del out[at:]
    return bytes(out)


def changed_archive(content, rng):
    """A checkpoint whose members are whole, and one of them another array or another header."""
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    arrays = [name for name in members if name.endswith(".npy")]
    name = str(rng.choice(arrays))
    value = np.lib.format.read_array(io.BytesIO(members[name]))
    kind = rng.integers(7)
    if kind == 0:
        value = value[..., None]
    elif kind == 1:
        value = value.ravel()[: value.size // 2]
    elif kind == 2:
        value = value.astype("U4")
    elif kind == 3:
        value = np.full(value.shape, rng.choice([-1, 2**20]))
    elif kind == 4:
        value = value.astype(float) * np.nan
    elif kind == 5:
        header = next(key for key in members if not key.endswith(".npy"))
        members[header] = damaged(members[header], rng)
    else:
        del members[name]
    if kind < 5:
        out = io.BytesIO()
        np.lib.format.write_array(out, value)
        members[name] = out.getvalue()
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        for member, data in members.items():
            archive.writestr(member, data)
    return out.getvalue()


class Checkpoints:
    """A fit that goes on from a damaged checkpoint."""

    def __init__(self, folder):
        self.path = folder / "checkpoint"
        self.first = fitted(folder, checkpoint=self.path).posterior_
        self.content = self.path.read_bytes()
        self.whole = fitted(folder, n_draws=12).posterior_

    def check(self, seed):
        rng = np.random.default_rng([3, seed])
        harmless = seed % 3 != 0  # a change inside a whole file may be another state
        change = damaged if harmless else changed_archive
        self.path.write_bytes(change(self.content, rng))
        try:
            found = fitted(None, n_draws=12, checkpoint=self.path).posterior_
        except CheckpointError as error:
            return sentence(error)
        except FloatingPointError as error:
            # A state of infinities that is of the right shape.
            assert not harmless
            return sentence(error)
        if harmless:
            np.testing.assert_array_equal(found.labels, self.whole.labels)
            np.testing.assert_array_equal(found.log_joint, self.whole.log_joint)
        assert ((found.labels >= 0) & (found.labels < 2)).all()
        return "taken"


class Posteriors:
    """A posterior that is loaded."""

    def __init__(self, folder):
        self.path = folder / "run.nc"
        self.model = fitted(folder)
        self.model.save(self.path)
        self.content = self.path.read_bytes()

    def check(self, seed):
        self.path.write_bytes(damaged(self.content, np.random.default_rng([4, seed])))
        try:
            found = load(self.path)
        except ValueError as error:
            return sentence(error)
        np.testing.assert_array_equal(found.posterior_.labels, self.model.posterior_.labels)
        return "taken"


KINDS = {"checkpoint": Checkpoints, "posterior": Posteriors}


def sentence(error):
    """The kind of a refusal, which is a sentence."""
    text = str(error)
    assert len(text.split()) >= 5, text
    assert text.rstrip().endswith("."), text
    return re.sub(r"/\S+|\(.*\)|\d+", "", text)[:60]


def run(kind, folder, seeds):
    """Count what came of some cases."""
    cases, found = KINDS[kind](folder), Counter()
    for seed in seeds:
        began = time.process_time()
        try:
            found[cases.check(seed)] += 1
        except Exception as error:
            error.add_note(f"{kind} {seed}")
            raise
        assert time.process_time() - began < LONGEST, (kind, seed)
    return found


@pytest.mark.variants("slow", "checkpoint")
@pytest.mark.parametrize("kind", KINDS)
def test_damaged_files(tmp_path, kind):
    run(kind, tmp_path, range(12))


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("kind", KINDS)
def test_many_damaged_files(tmp_path, kind):
    found = run(kind, tmp_path, range(1000, 1200))
    assert len(found) > 1


if __name__ == "__main__":
    place = Path(tempfile.mkdtemp())
    try:
        print(run(sys.argv[1], place, range(int(sys.argv[2]), int(sys.argv[3]))))
    finally:
        shutil.rmtree(place)
