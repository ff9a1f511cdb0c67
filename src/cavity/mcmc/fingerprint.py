"""What identifies a run, in a form that can be written down and compared."""

from __future__ import annotations

import dataclasses
import hashlib
import math
import os
from collections.abc import Mapping
from typing import Any

import numpy as np

# What may change between a run and its continuation without changing any draw.
_FREE = frozenset(
    {
        "n_draws",
        "max_sweeps",
        "max_seconds",
        "n_jobs",
        "progress",
        "checkpoint",
        "checkpoint_every",
        "loss",
        "precision",
        "warm_start",
    }
)
# The seed is compared through the entropy that it gave, since a seed may be a generator.
_COMPARED_APART = frozenset({"random_state"})


def data_digest(*arrays: Any) -> str:
    """Digest of the values, types and shapes of arrays, for a run's fingerprint.

    Examples
    --------
    >>> from cavity.mcmc.fingerprint import data_digest
    >>> data_digest([1.0, 2.0]) == data_digest([1.0, 2.5])
    False
    """
    digest = hashlib.sha256()
    for array in arrays:
        array = np.asarray(array)
        if array.dtype == object:
            array = array.astype(str)
        digest.update(f"{array.dtype.str} {array.shape};".encode())
        digest.update(np.ascontiguousarray(array).data.cast("B") if array.size else b"")
    return f"sha256:{digest.hexdigest()}"


def flatten_fingerprint(fingerprint: Mapping[str, Any]) -> dict[str, Any]:
    """Write what identifies a run as plain values by dotted name, so that two can be compared.

    Arrays become digests; settings that do not change the draws are left out.
    """
    flat: dict[str, Any] = {}
    _flatten("", fingerprint, flat)
    return dict(sorted(flat.items()))


def _flatten(name: str, value: Any, flat: dict[str, Any]) -> None:
    if name.rpartition(".")[2] in _FREE | _COMPARED_APART:
        return
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = {f.name: getattr(value, f.name) for f in dataclasses.fields(value)}
        value = {"": type(value).__name__, **fields}
    elif hasattr(value, "_asdict"):
        value = {"": type(value).__name__, **value._asdict()}
    if isinstance(value, Mapping):
        for key, part in value.items():
            _flatten(f"{name}.{key}" if name and key else str(key) or name, part, flat)
    else:
        flat[name] = _plain(name, value)


def _plain(name: str, value: Any) -> Any:
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    if isinstance(value, np.ndarray):
        return data_digest(value)
    if isinstance(value, list | tuple):
        return [_plain(name, part) for part in value]
    raise TypeError(
        f"{name} is a {type(value).__name__}, which a checkpoint cannot compare between runs; "
        "use numbers, strings, arrays, dictionaries or dataclasses"
    )


def differences(saved: Mapping[str, Any], asked: Mapping[str, Any]) -> list[str]:
    """Say in words how a saved run differs from the one asked for."""
    found = []
    for name in sorted(saved.keys() | asked.keys()):
        old, new = saved.get(name), asked.get(name)
        if old == new and type(old) is type(new):
            continue
        if isinstance(old, str | list) and "sha256:" in str(old) and "sha256:" in str(new):
            found.append("the data are not the same" if name == "data" else f"{name} differs")
        else:
            found.append(f"it was written with {name}={old!r}, this run has {name}={new!r}")
    return found
