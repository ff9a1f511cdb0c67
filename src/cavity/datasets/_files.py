"""Locate data files: a local folder, or public addresses with a user cache.

Nothing is trusted by name: every file is compared with its whole checksum, and every table that is
put together here with the digest of the table it should become.
"""

from __future__ import annotations

import functools
import hashlib
import json
import os
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

if TYPE_CHECKING:
    import pandas as pd

FOLDER_VARIABLE = "CAVITY_DATA"


class Source(NamedTuple):
    """A public file: its name here, its address, and ``algorithm:hexadecimal`` checksum.

    Without a checksum (None), the reader of the file verifies the result instead.
    """

    name: str
    url: str
    checksum: str | None


class Prepared(NamedTuple):
    """A ready-made file that a local folder may hold, with its sha256."""

    name: str
    sha256: str


@functools.cache
def registry() -> dict[str, dict[str, Any]]:
    """Return names, addresses, checksums and digests of all data sets: ``sources.json``."""
    text = (resources.files("cavity.datasets") / "sources.json").read_text(encoding="utf-8")
    found: dict[str, dict[str, Any]] = json.loads(text)
    return found


def files_of(name: str) -> tuple[Prepared, tuple[Source, ...]]:
    """Return the ready-made file of a data set, and its public sources."""
    entry = registry()[name]
    return Prepared(**entry["prepared"]), tuple(Source(**source) for source in entry["sources"])


def local_folder(data_home: str | os.PathLike | None) -> Path | None:
    """Return the folder given by argument or by the environment, or None to use the network."""
    chosen = data_home if data_home is not None else os.environ.get(FOLDER_VARIABLE) or None
    if chosen is None:
        return None
    folder = Path(chosen).expanduser()
    if not folder.is_dir():
        origin = "data_home" if data_home is not None else f"the variable {FOLDER_VARIABLE}"
        raise FileNotFoundError(f"{origin} names {str(folder)!r}, which is not a folder.")
    return folder


def checksum_of(path: Path, algorithm: str) -> str:
    """Return the hexadecimal checksum of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, algorithm).hexdigest()


def verify(path: Path, expected: str) -> Path:
    """Return the path if the file has the expected checksum; raise ValueError otherwise."""
    algorithm, _, digest = expected.partition(":")
    found = checksum_of(path, algorithm)
    if found != digest:
        raise ValueError(
            f"{path} is not the file it should be: its {algorithm} is {found}, expected {digest}. "
            "It may be incomplete or a different version; delete it and fetch it again."
        )
    return path


def find(folder: Path, name: str) -> Path | None:
    """Return the file in the folder or in one folder below it, or None."""
    direct = folder / name
    if direct.is_file():
        return direct
    return next((p for p in sorted(folder.glob(f"*/{name}")) if p.is_file()), None)


def find_prepared(folder: Path | None, prepared: Prepared) -> Path | None:
    """Return the verified ready-made file if a folder was given and holds it."""
    path = None if folder is None else find(folder, prepared.name)
    return None if path is None else verify(path, f"sha256:{prepared.sha256}")


def obtain(source: Source, folder: Path | None, prepared: Prepared | None = None) -> Path:
    """Return the verified source file: from the folder if one was given, else by download."""
    either = source.name if prepared is None else f"{prepared.name} or {source.name}"
    if folder is not None:
        path = find(folder, source.name)
        if path is None:
            raise FileNotFoundError(
                f"{folder} holds no {either}. Place it there (public address: {source.url}), or "
                f"leave out data_home and unset {FOLDER_VARIABLE} to download it."
            )
        return path if source.checksum is None else verify(path, source.checksum)

    try:
        import pooch
    except ImportError:
        raise ImportError(
            f"Downloading {source.name} needs pooch: pip install 'cavity[datasets]'. Or place it "
            f"in a folder and pass data_home=FOLDER."
        ) from None
    try:
        path = Path(
            pooch.retrieve(
                source.url,
                known_hash=source.checksum,
                fname=source.name,
                path=pooch.os_cache("cavity") / "data",
            )
        )
    except OSError as error:
        raise ConnectionError(
            f"Could not download {source.name} from {source.url} ({type(error).__name__}). "
            f"Without internet, place {either} in a folder and pass data_home=FOLDER, or set the "
            f"variable {FOLDER_VARIABLE}."
        ) from error
    return path if source.checksum is None else verify(path, source.checksum)


def read_rda(path: Path) -> dict:
    """Read the objects of an R data file."""
    try:
        import rdata
    except ImportError:
        raise ImportError(
            "Reading R data files needs rdata: pip install 'cavity[datasets]'."
        ) from None
    return rdata.read_rda(path)


def table_digest(table: pd.DataFrame) -> str:
    """Digest of a table's values, whatever their dtype and whatever the order of the rows.

    Numbers are compared to four decimals, text and dates as text.

    Examples
    --------
    >>> import pandas as pd
    >>> a = pd.DataFrame({"x": [1, 2], "y": ["p", "q"]})
    >>> b = pd.DataFrame({"x": [2.0, 1.0], "y": ["q", "p"]})
    >>> table_digest(a) == table_digest(b)
    True
    """
    import pandas as pd

    columns = []
    for name in table.columns:
        values = table[name]
        if pd.api.types.is_numeric_dtype(values):
            rounded = np.round(values.to_numpy(dtype=float), 4) + 0.0  # no negative zero
            columns.append([f"{v:.4f}" for v in rounded])
        elif pd.api.types.is_datetime64_any_dtype(values):
            columns.append(values.dt.strftime("%Y-%m-%d").tolist())
        else:
            columns.append(values.astype(str).tolist())
    rows = sorted("\t".join(row) for row in zip(*columns, strict=True))
    text = "\n".join(["\t".join(map(str, table.columns)), *rows])
    return hashlib.sha256(text.encode()).hexdigest()
