"""The folder of a run: what is in it, and how it is written and read again."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cavity import __version__
from cavity.cli.errors import UserError
from cavity.core.files import replacing, write_text

if TYPE_CHECKING:
    import pandas as pd

    from cavity.posterior import Posterior

RUN = "run.json"
POSTERIOR = "posterior.nc"
LABELS = "labels.csv"
PICTURE = "clusters.png"
REPORT = "report.html"
CHECKPOINT = "checkpoint.cavity"
FORMAT = "cavity run"
VERSION = 1


def prepare(out: Path, *, overwrite: bool, resume: bool) -> Path:
    """Make the folder and see that it can be written to, before any work is done.

    Parameters
    ----------
    out : Path
    overwrite : bool
        Replace a run that is there.
    resume : bool
        Go on with the run whose checkpoint is there.
    """
    if out.exists() and not out.is_dir():
        raise UserError(f"{out} is a file; give a folder for --out.")
    try:
        out.mkdir(parents=True, exist_ok=True)
        probe = out / f".write-test-{os.getpid()}"
        probe.write_bytes(b"x")
        probe.unlink()
    except OSError as error:
        raise UserError(
            f"Cannot write to the folder {out} ({error.strerror or error}); give another --out."
        ) from error
    if resume:
        if not (out / CHECKPOINT).exists():
            raise UserError(
                f"{out} holds no checkpoint to resume from; start the run with --checkpoint."
            )
        return out
    found = [name for name in (RUN, CHECKPOINT) if (out / name).exists()]
    if found and not overwrite:
        again = ", add --resume to go on with it," if CHECKPOINT in found else ""
        raise UserError(
            f"{out} already holds a run; give another --out{again} or add --overwrite to replace "
            "it."
        )
    for name in (RUN, POSTERIOR, LABELS, PICTURE, REPORT, CHECKPOINT):
        (out / name).unlink(missing_ok=True)
    return out


def write_record(folder: Path, record: dict[str, Any]) -> None:
    """Write ``run.json``; the last file of a run, so that with it the run is complete."""
    whole = {"format": FORMAT, "version": VERSION, "cavity": __version__, **record}
    write_text(folder / RUN, json.dumps(whole, indent=1, ensure_ascii=False) + "\n")


def read_record(folder: Path) -> dict[str, Any]:
    """Read ``run.json`` of a folder, refusing what is not a run."""
    if folder.is_file():
        raise UserError(f"{folder} is a file; give the folder that 'cavity fit' wrote.")
    if not folder.is_dir():
        raise UserError(f"There is no folder {folder}; give one that 'cavity fit' wrote.")
    path = folder / RUN
    if not path.exists():
        if (folder / CHECKPOINT).exists():
            raise UserError(
                f"The run in {folder} is not finished; repeat its 'cavity fit' command with "
                "--resume."
            )
        raise UserError(f"{folder} is not a run of 'cavity fit': it has no {RUN}.")
    try:
        record = json.loads(path.read_text(encoding="utf-8"))
        known = record["format"] == FORMAT
        version = int(record["version"])
    except (ValueError, KeyError, TypeError) as error:
        raise UserError(
            f"{path} is damaged or was not written by cavity; run the fit again."
        ) from (error)
    if not known:
        raise UserError(f"{path} was not written by cavity.")
    if version > VERSION:
        raise UserError(
            f"{folder} was written by cavity {record.get('cavity')}, in a newer format; update "
            "cavity to read it."
        )
    return record


def encoded(settings: Any) -> dict[str, Any]:
    """Settings as JSON holds them."""
    from cavity.posterior.record import encode

    return {name: encode(value) for name, value in settings.items()}


def read_posterior(folder: Path) -> Posterior:
    """Load the draws of a run."""
    from cavity.posterior import Posterior

    return Posterior.load(folder / POSTERIOR)


def read_labels(folder: Path, n: int) -> Any:
    """The point estimate of a run, from its labels file; None where that is gone or altered."""
    import numpy as np
    import pandas as pd

    path = folder / LABELS
    if not path.exists():
        return None
    try:
        labels = pd.read_csv(path, usecols=["cluster"])["cluster"].to_numpy()
    except ValueError:
        return None
    if labels.shape != (n,) or labels.dtype.kind != "i":
        return None
    if set(np.unique(labels)) != set(range(int(labels.max()) + 1)):
        return None
    return labels


def save_picture(path: Path, axes: Any) -> None:
    """Write the figure that axes belong to."""
    import numpy as np

    figure = np.ravel(np.asarray(axes, dtype=object))[0].figure
    with replacing(path) as part:
        figure.savefig(part, dpi=150, format="png", bbox_inches="tight")


def labels_table(
    posterior: Posterior, labels: Any, id_name: str, tail: Any = None, threshold: float = 0.8
) -> pd.DataFrame:
    """One row per observation: its cluster, how sure that is, and every cluster's probability."""
    from cavity.posterior.summary import observation_table

    table = observation_table(posterior.view(labels, threshold), tail=tail).reset_index(drop=True)
    names = posterior.names
    if id_name in table.columns:
        id_name = f"{id_name} (row)"
    table.insert(0, id_name, range(1, len(table) + 1) if names is None else names)
    return table
