"""Runs that survive: one file from which chains continue bit for bit.

The file is a ZIP archive (the layout of NumPy's ``.npz``) that holds

* ``cavity.json``: the format, the version of cavity, what the run is (model, settings, digest of
  the data, entropy of the seed), the stage that it is in, and for every chain the number of sweeps
  and the state of its random generator;
* ``chain-3/state/NAME.npy``: the sampler's state, and ``chain-3/draws/NAME.npy``: all its draws.

Nothing in it is ever unpickled. It is written beside its final place, flushed to the disk and
then renamed over the earlier one, so that at every moment the path holds one whole checkpoint,
whatever happens to the process or the disk.
"""

from __future__ import annotations

import dataclasses
import errno
import io
import json
import os
import tempfile
import time
import warnings
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from cavity.mcmc.fingerprint import differences, flatten_fingerprint
from cavity.mcmc.schedule import Stage
from cavity.utils.files import refuse_special, remove_leftovers, replacing, resolved

FORMAT = "cavity checkpoint"
VERSION = 2
HEADER = "cavity.json"
DEFAULT_SECONDS = 30.0
# A checkpoint that takes long to write is written more rarely: at most this share of the time.
_WRITING_SHARE = 0.05
_ADVICE = (
    "Run it again with the settings and data of that run, or start afresh by deleting the file "
    "or giving another path."
)


class CheckpointError(ValueError):
    """A checkpoint cannot be used for this run; the message says why and what to do."""


@dataclasses.dataclass(frozen=True)
class Snapshot:
    """One chain between two sweeps: all that is needed to continue it.

    Attributes
    ----------
    n_sweeps : int
        Sweeps done, warm-up included.
    rng : dict
        State of the bit generator.
    state : dict of arrays
        State of the sampler.
    draws : dict of arrays
        What the chain has kept so far, as its stage says.
    """

    n_sweeps: int
    rng: dict[str, Any]
    state: dict[str, np.ndarray]
    draws: dict[str, np.ndarray]


def checkpoint_seconds(every: float | None) -> float:
    """Seconds between checkpoints: the argument, ``CAVITY_CHECKPOINT_EVERY``, or 30."""
    name = "checkpoint_every"
    if every is None:
        name = "CAVITY_CHECKPOINT_EVERY"
        text = os.environ.get(name, "").strip()
        if not text:
            return DEFAULT_SECONDS
        try:
            every = float(text)
        except ValueError:
            raise ValueError(f"{name} must be a number of seconds, not {text!r}") from None
    if not every >= 0:
        raise ValueError(f"{name} must be a number of seconds of at least 0, not {every!r}")
    return float(every)


class KeptChains:
    """Chains of a fit in memory, from which the next fit continues (``warm_start=True``).

    Attributes
    ----------
    stage : Stage or None
        Stage of the chains; None before the first fit.
    entropy : int or None
        Entropy of the first fit's seed.
    """

    stage: Stage | None = None
    entropy: int | None = None
    again = " With warm_start=True the next fit continues."

    def __init__(self) -> None:
        self.fingerprint: dict[str, Any] = {}
        self._snapshots: list[Snapshot | None] = []

    def __str__(self) -> str:
        return "previous fit"

    def begin(
        self, fingerprint: Mapping[str, Any], settings: Mapping[str, Any], entropy: int | None
    ) -> None:
        """Take the identity of a run, which must be that of the chains kept so far."""
        asked = flatten_fingerprint({**fingerprint, **settings})
        if any(self._snapshots):
            found = differences(self.fingerprint, asked)
            if entropy is not None and entropy != self.entropy:
                found.append("random_state is another seed")
            if found:
                raise CheckpointError(
                    "warm_start=True continues the chains of the previous fit, and this fit "
                    f"differs: {'; '.join(found[:3])}. Pass warm_start=False to start over."
                )
        else:
            self.fingerprint, self._snapshots = asked, [None] * int(settings["n_chains"])
            self.entropy = fresh_entropy() if entropy is None else entropy

    def open(self) -> list[Snapshot | None]:
        """Return the last snapshot of every chain; None where there is none."""
        return list(self._snapshots)

    def due(self) -> bool:
        """Nothing is written during a run."""
        return False

    def write(self, snapshots: Sequence[Snapshot | None]) -> bool:
        """Keep the chains."""
        self._snapshots = list(snapshots)
        return True


class Checkpoint:
    """The file of one run: opened (and checked) before any work, then written now and then.

    Parameters
    ----------
    path : path-like
        Where the file is or will be.
    fingerprint : mapping
        What identifies the run: model, settings, data.
    settings : mapping
        The runner's own settings that may not change.
    entropy : int or None
        Entropy of the given seed; None when no seed was given.
    every : float, optional
        Seconds between two writings.

    Attributes
    ----------
    stage : Stage or None
        What the chains are doing; when the file is opened, what they were doing when it was
        written, or None if it is new.
    """

    stage: Stage | None = None

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        fingerprint: Mapping[str, Any],
        settings: Mapping[str, Any],
        entropy: int | None,
        every: float | None = None,
    ) -> None:
        self.path = Path(path).expanduser()
        self._place = resolved(path)  # a link stays a link, and what it points to is replaced
        self.fingerprint = flatten_fingerprint({**fingerprint, **settings})
        self._n_chains = int(settings["n_chains"])
        self._seconds = checkpoint_seconds(every)
        self._due = 0.0
        self._failing = False
        self.entropy = entropy

    def __str__(self) -> str:
        return f"checkpoint {self.path}"

    @property
    def again(self) -> str:
        """Return how to continue a run that was stopped."""
        return f" The {self} holds its state: run it again to continue."

    def open(self) -> list[Snapshot | None]:
        """Load what is there, or begin the file; also finds out whether it can be written.

        Returns
        -------
        snapshots : list of Snapshot or None
            One per chain; None for a chain that has not begun.
        """
        self._refuse_bad_place()
        remove_leftovers(self._place)
        snapshots: list[Snapshot | None] = [None] * self._n_chains
        try:
            if self.path.exists():
                snapshots = self._load()
                self._try_to_write()
            else:
                if self.entropy is None:
                    self.entropy = fresh_entropy()
                self._replace(snapshots)
        except OSError as error:
            raise type(error)(
                error.errno,
                f"The checkpoint cannot be read or written ({error.strerror or error}); give a "
                "path in a folder that you can write to and whose disk is not full",
                str(self.path),
            ) from error
        self._due = time.monotonic() + self._seconds
        return snapshots

    def due(self) -> bool:
        """Whether it is time to write."""
        return time.monotonic() >= self._due

    def write(self, snapshots: Sequence[Snapshot | None]) -> bool:
        """Replace the file; where that fails, warn and keep the one before."""
        start = time.monotonic()
        try:
            self._replace(snapshots)
        except OSError as error:
            if not self._failing:
                warnings.warn(
                    f"The checkpoint {self.path} could not be written "
                    f"({error.strerror or error}). The one before is intact and the run goes on; "
                    "make room or access, and the next one will be tried.",
                    UserWarning,
                    stacklevel=4,
                )
            self._failing = True
        else:
            self._failing = False
        now = time.monotonic()
        self._due = now + max(self._seconds, (now - start) / _WRITING_SHARE)
        return not self._failing

    # Writing

    def _refuse_bad_place(self) -> None:
        folder = self._place.parent
        refuse_special(self._place)
        if not folder.is_dir():
            what = "is not a folder" if folder.exists() else "does not exist"
            raise FileNotFoundError(
                errno.ENOENT, f"The checkpoint's folder {what}; make it first", str(folder)
            )

    def _try_to_write(self) -> None:
        with tempfile.TemporaryFile(dir=self._place.parent) as probe:
            probe.write(b"cavity")

    def _replace(self, snapshots: Sequence[Snapshot | None]) -> None:
        with replacing(self._place) as part, open(part, "wb") as file:
            self._write_archive(file, snapshots)

    def _write_archive(self, file: Any, snapshots: Sequence[Snapshot | None]) -> None:
        from cavity import __version__

        chains: list[dict[str, Any] | None] = []
        with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED, allowZip64=True) as archive:
            for chain, snapshot in enumerate(snapshots):
                if snapshot is None:
                    chains.append(None)
                    continue
                members: list[str] = []
                for part, arrays in (("state", snapshot.state), ("draws", snapshot.draws)):
                    for name, array in arrays.items():
                        member = f"chain-{chain}/{part}/{name}.npy"
                        _write_array(archive, member, np.asarray(array))
                        members.append(member)
                chains.append(
                    {"n_sweeps": snapshot.n_sweeps, "rng": snapshot.rng, "members": members}
                )
            header = {
                "format": FORMAT,
                "version": VERSION,
                "cavity": __version__,
                "fingerprint": self.fingerprint,
                "entropy": str(self.entropy),
                "stage": None if self.stage is None else dataclasses.asdict(self.stage),
                "chains": chains,
            }
            archive.writestr(HEADER, json.dumps(header))

    # Reading

    def _load(self) -> list[Snapshot | None]:
        try:
            with zipfile.ZipFile(self.path) as archive:
                header = self._read_header(archive)
                self._refuse_other_run(header)
                if header["stage"] is not None:
                    self.stage = Stage(**{k: int(v) for k, v in header["stage"].items()})
                return [
                    None if entry is None else _read_snapshot(archive, chain, entry)
                    for chain, entry in enumerate(header["chains"])
                ]
        except (CheckpointError, PermissionError):
            raise
        # Damaged bytes make zipfile, json and NumPy raise almost anything.
        except Exception as error:
            raise CheckpointError(
                f"The file {self.path} is damaged, or is not a checkpoint of cavity ({error}). "
                "Delete it, or give another path, to start afresh."
            ) from error

    def _read_header(self, archive: zipfile.ZipFile) -> dict[str, Any]:
        header = json.loads(archive.read(HEADER))
        if header["format"] != FORMAT:
            raise ValueError("its format is not that of a checkpoint")
        if header["version"] != VERSION:
            raise CheckpointError(
                f"The checkpoint {self.path} has format version {header['version']} (written by "
                f"cavity {header['cavity']}); this version of cavity reads version {VERSION}. "
                "Finish that run with the version that began it, or start afresh with another path."
            )
        from cavity import __version__

        if _release(header["cavity"]) != _release(__version__):
            raise CheckpointError(
                f"The checkpoint {self.path} was written by cavity {header['cavity']}, and this is "
                f"cavity {__version__}, whose draws may differ. Finish that run with the version "
                "that began it, or start afresh with another path."
            )
        return header

    def _refuse_other_run(self, header: dict[str, Any]) -> None:
        found = differences(header["fingerprint"], self.fingerprint)
        entropy = int(header["entropy"])
        if self.entropy is not None and self.entropy != entropy:
            found.append("random_state is another seed")
        if found:
            more = f"; and {len(found) - 3} more" if len(found) > 3 else ""
            raise CheckpointError(
                f"The checkpoint {self.path} belongs to another run: "
                f"{'; '.join(found[:3])}{more}. {_ADVICE}"
            )
        self.entropy = entropy


def _release(version: str) -> list[str]:
    """What of a version must be equal: patches (the third number) never change draws."""
    return version.split(".")[:2]


def fresh_entropy() -> int:
    """Entropy of the operating system, for runs without a seed."""
    return int.from_bytes(os.urandom(16), "little")


def _write_array(archive: zipfile.ZipFile, member: str, array: np.ndarray) -> None:
    if array.dtype.hasobject:
        raise TypeError(f"{member} holds Python objects; a checkpoint takes arrays of numbers only")
    with archive.open(member, "w", force_zip64=True) as target:
        np.lib.format.write_array(target, array, allow_pickle=False)


def _read_snapshot(archive: zipfile.ZipFile, chain: int, entry: dict[str, Any]) -> Snapshot:
    parts: dict[str, dict[str, np.ndarray]] = {"state": {}, "draws": {}}
    for member in entry["members"]:
        # Read whole: the archive's checksum is compared at a member's end only.
        data = archive.read(member)
        part, _, name = member.removeprefix(f"chain-{chain}/").partition("/")
        array = np.lib.format.read_array(io.BytesIO(data), allow_pickle=False)
        parts[part][name.removesuffix(".npy")] = array
    return Snapshot(entry["n_sweeps"], entry["rng"], parts["state"], parts["draws"])
