"""``run.json``: what was asked for and how far it has come, checked field by field when read."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cavity import __version__
from cavity.cli.errors import UserError
from cavity.cli.options import ESTIMATORS, TABLE_SETTINGS, Choice, option, parameters
from cavity.utils.files import write_text

RUN = "run.json"
FORMAT = "cavity run"
VERSION = 6
RUNNING, DRAWN, INTERRUPTED, LIMITED, FINISHED = STATUSES = (
    "running",
    "drawn",
    "interrupted",
    "limited",
    "finished",
)
LIMITS = ("max_sweeps", "max_seconds", "precision")


@dataclass(frozen=True)
class Source:
    """The data of a run.

    Attributes
    ----------
    path, digest : str
        Where the file was, and the digest of its bytes.
    rows, dropped : int
        Rows used, and rows left out for gaps.
    id_name : str
        What the names of rows (or series) are called.
    choice : Choice
        What of the file was used, all columns named.
    """

    path: str
    digest: str
    rows: int
    dropped: int
    id_name: str
    choice: Choice


@dataclass(frozen=True)
class RunFile:
    """One run, as its folder tells it.

    Attributes
    ----------
    model : {"student-t", "gaussian", "table", "series"}
    status : {"running", "drawn", "interrupted", "limited", "finished"}
        Sampling; draws written but not all else; stopped early, with what there was by then;
        all written after a limit of sweeps or time, from where it can go on; all written.
    data : Source
    settings : mapping
        What was asked of the estimator, and the seed (``random_state``), drawn if none was given.
    demo : bool
        Whether a demonstration made it, which may be replaced without asking.
    """

    model: str
    status: str
    data: Source
    settings: Mapping[str, Any] = field(default_factory=dict)
    demo: bool = False

    def write(self, folder: Path) -> None:
        """Write ``run.json``, whole or not at all."""
        data = dataclasses.asdict(self.data)
        choice = data.pop("choice")
        whole = {
            "format": FORMAT,
            "version": VERSION,
            "cavity": __version__,
            "model": self.model,
            "status": self.status,
            "demo": self.demo,
            "settings": dict(self.settings),
            "data": {**data, **choice},
        }
        write_text(folder / RUN, json.dumps(whole, indent=1) + "\n")

    def at(self, status: str) -> RunFile:
        """The same run, so far."""
        return dataclasses.replace(self, status=status)

    def within(self, limits: Mapping[str, Any]) -> RunFile:
        """The same run with other limits, where these are given."""
        given = {name: limits[name] for name in LIMITS if limits.get(name) is not None}
        return dataclasses.replace(self, settings={**self.settings, **given})

    def differences(self, other: RunFile) -> list[str]:
        """What another run asks for that this one does not: the words for it."""
        found = []
        if self.model != other.model:
            found.append("--model")
        if self.data.digest != other.data.digest:
            found.append("the data")
        if self.data.choice != other.data.choice:
            found.append("the columns or how they are read")
        names = sorted(set(self.settings) | set(other.settings))
        found += [
            option(name) for name in names if self.settings.get(name) != other.settings.get(name)
        ]
        return found


def read_record(folder: Path) -> RunFile:
    """Read ``run.json`` of a folder, refusing what is not a run."""
    if folder.is_file():
        raise UserError(f"{folder} is a file; give the folder that 'cavity fit' wrote.")
    if not folder.is_dir():
        raise UserError(f"There is no folder {folder}; give one that 'cavity fit' wrote.")
    path = folder / RUN
    if not path.is_file():
        raise UserError(f"{folder} is not a run of 'cavity fit': it has no {RUN}.")
    try:
        plain = json.loads(path.read_text(encoding="utf-8"))
        if not isinstance(plain, dict) or plain.get("format") != FORMAT:
            raise ValueError("it does not say that it is a run of cavity")
        version = _field(plain, "version", int)
        if version > VERSION:
            raise UserError(
                f"{folder} was written by a newer version of cavity; update cavity to read it."
            )
        if version < VERSION:
            raise UserError(
                f"{folder} was written by an older version of cavity; run the fit again."
            )
        return _checked(plain)
    except (ValueError, RecursionError) as error:
        raise UserError(
            f"{path} is damaged or was not written by cavity ({error}); run the fit again."
        ) from error


def _checked(plain: dict[str, Any]) -> RunFile:
    data = _field(plain, "data", dict)
    choice: dict[str, Any] = {}
    for part in dataclasses.fields(Choice):
        if isinstance(part.default, bool):
            choice[part.name] = _field(data, part.name, bool)
        elif isinstance(part.default, tuple):
            names = _field(data, part.name, list)
            if not all(isinstance(name, str) for name in names):
                raise ValueError(f"its {part.name} are not all text")
            choice[part.name] = tuple(names)
        else:
            choice[part.name] = _field(data, part.name, (str, type(None)))
    source = Source(
        path=_field(data, "path", str),
        digest=_field(data, "digest", str),
        rows=_count(data, "rows"),
        dropped=_count(data, "dropped"),
        id_name=_field(data, "id_name", str),
        choice=Choice(**choice),
    )
    settings = _field(plain, "settings", dict)
    for name, value in settings.items():
        if name not in parameters() and name not in TABLE_SETTINGS:
            raise ValueError(f"its settings have {name[:40]!r}")
        if not isinstance(value, bool | int | float | str):
            raise ValueError(f"its {name} is of type {type(value).__name__}")
    model = _one_of(plain, "model", tuple(ESTIMATORS))
    columns = choice["series"], choice["time"], choice["value"]
    # In wide tables a series is a row, and times are columns.
    wide = columns[1:] == (None, None)
    if model == "series" and not wide and None in columns:
        raise ValueError("its columns of series, time or value are not named")
    if model != "series" and not choice["columns"]:
        raise ValueError("its columns are not named")
    return RunFile(
        model=model,
        status=_one_of(plain, "status", STATUSES),
        data=source,
        settings=settings,
        demo=_field(plain, "demo", bool),
    )


def _field(plain: dict[str, Any], name: str, kinds: Any) -> Any:
    if name not in plain:
        raise ValueError(f"its {name} is missing")
    value = plain[name]
    truth = isinstance(value, bool) and kinds not in (bool, (bool,))  # a bool is an int to Python
    if truth or not isinstance(value, kinds):
        raise ValueError(f"its {name} is of type {type(value).__name__}")
    return value


def _count(plain: dict[str, Any], name: str) -> int:
    value: int = _field(plain, name, int)
    if value < 0:
        raise ValueError(f"its {name} is negative")
    return value


def _one_of(plain: dict[str, Any], name: str, words: tuple[str, ...]) -> str:
    value: str = _field(plain, name, str)
    if value not in words:
        raise ValueError(f"its {name} is {value[:40]!r}")
    return value
