"""The folder of a run: which files may be in it, who may write to it, and when it is emptied."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cavity.cli.errors import UserError
from cavity.io.words import spreadsheet_safe
from cavity.utils.files import remove_leftovers, replacing, write_text

if TYPE_CHECKING:
    import pandas as pd

    from cavity.posterior import Posterior

POSTERIOR = "posterior.nc"
LABELS = "labels.csv"
TRENDS = "trends.csv"
FACTORS = "factors.csv"
FORECAST = "forecast.csv"
SEASONS = "seasons.csv"
PARAMETERS = "parameters.csv"
CLUSTERS = "clusters.csv"
COLUMNS = "columns.csv"
IMPUTED = "imputed.csv"
PICTURE = "clusters.png"
REGRESSION = "regression.csv"
FOREST = "regression.png"
REPORT = "report.html"
CHECKPOINT = "checkpoint.cavity"
LOCK = ".cavity-lock"
# Of any model: a run that replaces another leaves nothing of it.
RESULTS = (
    POSTERIOR, LABELS, TRENDS, FACTORS, FORECAST, SEASONS, PARAMETERS, CLUSTERS, COLUMNS, IMPUTED,
    PICTURE, REGRESSION, FOREST, REPORT,
)  # fmt: skip
_PROBE = ".write-test-"


def make(out: Path) -> None:
    """Make the folder and see that it can be written to, before any work is done."""
    if out.exists() and not out.is_dir():
        raise UserError(f"{out} is a file; give a folder for --out.")
    try:
        out.mkdir(parents=True, exist_ok=True)
        probe = out / f"{_PROBE}{os.getpid()}"
        probe.write_bytes(b"x")
        probe.unlink()
    except OSError as error:
        raise UserError(
            f"Cannot write to the folder {out} ({error.strerror or error}); give another --out."
        ) from error


def tidy(out: Path) -> None:
    """Remove what a killed process was writing."""
    for name in (*RESULTS, CHECKPOINT, "run.json"):
        remove_leftovers(out / name)
    for pattern in (f"{_PROBE}*", f".{CHECKPOINT}.*.try"):
        for path in out.glob(pattern):
            path.unlink(missing_ok=True)


def empty(out: Path) -> None:
    """Remove all that an earlier run of any model left, but its ``run.json``."""
    for name in (*RESULTS, CHECKPOINT):
        (out / name).unlink(missing_ok=True)


@contextmanager
def locked(out: Path) -> Iterator[None]:
    """Keep the folder for this process; the lock of a killed one is gone with it."""
    try:
        import fcntl
    except ImportError:  # where there is no such lock, two runs in one folder are the user's care
        yield
        return
    path = out / LOCK
    with path.open("w") as stream:
        try:
            fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise UserError(
                f"Another 'cavity fit' is writing to {out} right now; wait for it, or give "
                "another --out."
            ) from None
        except OSError:  # a file system without locks
            pass
        try:
            yield
        finally:
            with suppress(OSError):
                path.unlink()


def save_picture(path: Path, axes: Any) -> None:
    """Write the figure that axes belong to."""
    import numpy as np

    figure = np.ravel(np.asarray(axes, dtype=object))[0].figure
    with replacing(path) as part:
        figure.savefig(part, dpi=150, format="png", bbox_inches="tight")


def as_csv(table: pd.DataFrame) -> str:
    """A table as CSV text; names that a spreadsheet would run as formulas are neutralised.

    Examples
    --------
    >>> import pandas as pd
    >>> as_csv(pd.DataFrame({"id": ["=1+1"], "x": [0.5]})).split()
    ['id,x', "'=1+1,0.5"]
    """
    safe = table.copy()
    for j in range(table.shape[1]):
        column = table.iloc[:, j]
        if column.dtype.kind not in "fiub":
            safe.isetitem(j, [spreadsheet_safe(v) if isinstance(v, str) else v for v in column])
    safe.columns = [spreadsheet_safe(str(name)) for name in table.columns]
    return safe.to_csv(index=False, float_format="%.6g")


def write_table(path: Path, table: pd.DataFrame) -> None:
    """Write a table as CSV, whole or not at all."""
    write_text(path, as_csv(table))


def labels_table(
    posterior: Posterior, labels: Any, id_name: str, tail: Any = None, threshold: float = 0.8
) -> pd.DataFrame:
    """One row per observation: its cluster, how sure that is, and every cluster's probability."""
    from cavity.posterior.summary import observation_table

    table = observation_table(posterior.view(labels, threshold), tail=tail).reset_index(drop=True)
    names = posterior.names
    name = f"{id_name} (row)" if id_name in table.columns else id_name
    table.insert(0, name, range(1, len(table) + 1) if names is None else names)
    return table
