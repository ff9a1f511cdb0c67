"""One NetCDF4 file per posterior, readable by other tools and refused when damaged.

The groups are ArviZ's: ``posterior`` (labels and parameters), ``sample_stats`` (log joint),
``warmup_posterior``, ``log_likelihood``; the root holds the names of the observations, events,
sweep times and, as a JSON attribute, how the run was made. Parameters are in the model's units,
which ``units`` tells; ``summaries`` is what else an estimator needs.
"""

from __future__ import annotations

import hashlib
import io
import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from cavity.posterior.record import RunRecord
from cavity.posterior.units import from_arrays, to_arrays
from cavity.utils.files import replacing

if TYPE_CHECKING:
    from cavity.posterior.posterior import Posterior

FORMAT = "cavity.posterior"
FORMAT_VERSION = 4
_HDF5_SIGNATURE = b"\x89HDF\r\n\x1a\n"
_GROUPS = (
    "posterior",
    "sample_stats",
    "warmup_posterior",
    "log_likelihood",
    "units",
    "summaries",
)


# Dimensions and values, by name.
Variables = dict[str, tuple[tuple[str, ...], np.ndarray]]


def _dims(name: str, value: np.ndarray, skip: int) -> tuple[str, ...]:
    return tuple(f"{name}_dim_{axis}" for axis in range(value.ndim - skip))


def to_groups(p: Posterior) -> dict[str, Variables]:
    """The posterior's arrays by group; "" is the root."""
    draws = ("chain", "draw")
    root: Variables = {}
    if p.names is not None:
        root["names"] = (("observation",), p.names)
    if p.sweep_seconds is not None:
        extra = tuple(f"sweep_{axis}" for axis in range(1, p.sweep_seconds.ndim - 1))
        root["sweep_seconds"] = (("chain", "sweep", *extra), p.sweep_seconds)
    for name, value in p.events.items():
        extra = tuple(f"event_{name}_{axis}" for axis in range(value.ndim - 1))
        root[f"event_{name}"] = (("chain", *extra), value)
    posterior: Variables = {"labels": ((*draws, "observation"), p.labels)}
    for name, value in p.drawn.items():
        extra = _dims(name, value, 2)
        posterior[f"parameter_{name}"] = ((*draws, *extra), value)
    groups = {"": root, "posterior": posterior}
    if p.units is not None:
        _, parts = to_arrays(p.units)
        groups["units"] = {name: (_dims(name, value, 0), value) for name, value in parts.items()}
    if p.summaries:
        groups["summaries"] = {k: (_dims(k, v, 0), v) for k, v in p.summaries.items()}
    each = (*draws, "observation")
    for group, (name, dims, array) in {
        "sample_stats": ("lp", draws, p.log_joint),
        "warmup_posterior": ("labels", each, p.labels_warmup),
        "log_likelihood": ("observations", each, p.point_log_lik),
    }.items():
        if array is not None:
            groups[group] = {name: (dims, array)}
    return groups


def _write(group: Any, variables: Variables) -> None:
    """Write one group, and those of its dimensions that the root does not have."""
    import h5py  # type: ignore[import-untyped]

    for name, (dims, given) in variables.items():
        value = np.asarray(given)
        for dim, size in zip(dims, value.shape, strict=True):
            if dim not in group.dimensions:
                group.dimensions[dim] = size
        how: dict[str, Any] = {"dtype": value.dtype}
        if value.dtype.kind in "UO":
            how, value = {"dtype": h5py.string_dtype()}, value.astype(object)
        elif value.dtype.kind == "b":
            how = {"dtype": np.dtype("i1")}
        elif value.dtype.kind in "iuf" and value.size and value.ndim:
            how |= {"compression": "gzip", "compression_opts": 1, "shuffle": True}
        made = group.create_variable(name, dims, data=value, **how)
        if value.dtype.kind == "b":
            made.attrs["dtype"] = "bool"  # as xarray reads it


def save(p: Posterior, path: str | Path) -> Path:
    """Write `p` to one file.

    The bytes are assembled in memory and written through a temporary file: HDF5 itself cannot
    recover from a disk that fills up while it writes. A failure raises `OSError` and leaves an
    earlier file as it was.
    """
    import h5netcdf

    from cavity import __version__

    target = Path(path)
    if not target.parent.is_dir():
        raise FileNotFoundError(f"cannot save {target}: the folder {target.parent} does not exist")
    if target.is_dir():
        raise IsADirectoryError(f"cannot save {target}: it is a folder; name a file such as run.nc")
    attributes = {
        "cavity_version": __version__,
        "cluster_parameters": json.dumps(list(p.cluster_parameters)),
        "record": p.record.to_json(),
        "units_kind": "" if p.units is None else to_arrays(p.units)[0],
        "names_kind": "" if p.names is None else p.names.dtype.kind,
    }
    buffer = io.BytesIO()
    with h5netcdf.File(buffer, "w") as file:
        file.attrs.update(attributes)
        for group, variables in to_groups(p).items():
            _write(file.create_group(group) if group else file, variables)
    content = buffer.getvalue()
    with replacing(target) as part, open(part, "wb") as file:
        file.write(content)
        file.write(_trailer(content, FORMAT_VERSION))
    return target


def _trailer(content: bytes, version: int) -> bytes:
    """Format, version and digest, appended to the HDF5 bytes; HDF5 ignores what follows its end."""
    return f"\n{FORMAT} {version:6d} {hashlib.sha256(content).hexdigest()}\n".encode()


_TRAILER_BYTES = len(_trailer(b"", 0))
_TRAILER = re.compile(rf"\n{re.escape(FORMAT)} +(\d+) [0-9a-f]{{64}}\n".encode())


# Deflate shrinks nothing more than this, apart from what a small dataset stores at least.
_MOST_SHRUNK, _SMALL = 1100, 1 << 20


def _refuse_crafted(file: Any) -> None:
    """Refuse links, data in other files, and sizes that the bytes cannot hold."""
    import h5py

    for group in (file, *(file[name] for name in file if name in _GROUPS)):
        for name in group:
            if not isinstance(group.get(name, getlink=True), h5py.HardLink):
                raise ValueError(f"{name!r} is a link")
            data = group[name]
            if not isinstance(data, h5py.Dataset):
                continue
            if data.is_virtual or data.external:
                raise ValueError(f"{name!r} has its data elsewhere")
            if data.nbytes > _MOST_SHRUNK * data.id.get_storage_size() + _SMALL:
                raise ValueError(f"{name!r} is larger than what the file holds of it")


def _read(content: bytes) -> tuple[dict[str, dict[str, np.ndarray]], dict[str, str]]:
    """Read the arrays of all groups, and the root's attributes."""
    import h5py

    with h5py.File(io.BytesIO(content), "r") as file:
        _refuse_crafted(file)
        present = {group: file[group] for group in _GROUPS if group in file}
        groups = {
            group: {
                name: _values(data)
                for name, data in variables.items()
                if isinstance(data, h5py.Dataset) and not data.is_scale
            }
            for group, variables in {"": file, **present}.items()
        }
        return groups, dict(file.attrs)


def _values(data: Any) -> np.ndarray:
    """The values of a variable; text comes back as text."""
    import h5py

    if h5py.check_string_dtype(data.dtype):
        return np.asarray(data.asstr()[...]).astype(str)
    values = data[...]
    return values.astype(bool) if data.attrs.get("dtype") == "bool" else values


def load(path: str | Path) -> Posterior:
    """Read a file written by `save`.

    The digest of the raw bytes is compared before HDF5 parses any of them, because damaged
    files can make HDF5 loop forever.
    """
    source = Path(path)
    if not source.is_file():
        raise FileNotFoundError(f"there is no file {source}")
    with source.open("rb") as stream:
        if stream.read(len(_HDF5_SIGNATURE)) != _HDF5_SIGNATURE:
            raise ValueError(f"{source} is not a posterior saved by cavity")
        stream.seek(0)
        content = stream.read()
    content, trailer = content[:-_TRAILER_BYTES], content[-_TRAILER_BYTES:]
    found = _TRAILER.fullmatch(trailer)
    if found is None:
        raise ValueError(
            f"{source} is not a posterior saved by this version of cavity, or it is damaged "
            "(cut short or altered). Use another copy or fit again."
        )
    version = int(found[1])
    if version != FORMAT_VERSION:
        age, remedy = (
            ("a newer", "Update cavity") if version > FORMAT_VERSION else ("an older", "Fit again")
        )
        raise ValueError(
            f"{source} was written by {age} version of cavity. {remedy}, or read it with that "
            "version."
        )
    damaged = f"{source} is damaged (cut short or altered). Use another copy or fit again."
    if trailer != _trailer(content, version):
        raise ValueError(damaged)
    try:
        return _from_groups(*_read(content))
    # A file crafted with a matching digest: HDF5's exceptions depend on the damage.
    except Exception as error:
        raise ValueError(damaged) from error


def _from_groups(groups: dict[str, dict[str, np.ndarray]], attrs: dict[str, str]) -> Posterior:
    from cavity.posterior.posterior import Posterior

    root, posterior = groups[""], groups["posterior"]

    def only(group: str, name: str) -> np.ndarray | None:
        return groups[group][name] if group in groups else None

    return Posterior(
        posterior["labels"],
        log_joint=only("sample_stats", "lp"),
        sweep_seconds=root.get("sweep_seconds"),
        labels_warmup=only("warmup_posterior", "labels"),
        parameters={
            name.removeprefix("parameter_"): value
            for name, value in posterior.items()
            if name != "labels"
        },
        cluster_parameters=json.loads(attrs["cluster_parameters"]),
        events={
            name.removeprefix("event_"): value
            for name, value in root.items()
            if name.startswith("event_")
        },
        point_log_lik=only("log_likelihood", "observations"),
        names=root["names"] if attrs["names_kind"] else None,
        record=RunRecord.from_json(attrs["record"]),
        units=from_arrays(kind, groups.get("units", {})) if (kind := attrs["units_kind"]) else None,
        summaries=groups.get("summaries", {}),
    )
