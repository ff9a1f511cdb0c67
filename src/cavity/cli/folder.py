"""The folder of a run: which files may be in it, who may write to it, and when it is emptied."""

from __future__ import annotations

import dataclasses
import json
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cavity.cli.errors import UserError
from cavity.io.words import spreadsheet_safe
from cavity.utils.files import remove_leftovers, replacing, write_text

if TYPE_CHECKING:
    import pandas as pd

    from cavity.posterior import Posterior
    from cavity.posterior.regression import Regression

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
# Made by `regress` from the draws, kept in JSON for the report.
REGRESSIONS = "regressions.json"
REGRESSION, OUTCOMES = "regression.csv", "outcomes.csv"
REGRESSION_PICTURE, OUTCOME_PICTURE = "regression.png", "outcome.png"
OF_REGRESSIONS = (REGRESSIONS, REGRESSION, OUTCOMES, REGRESSION_PICTURE, OUTCOME_PICTURE)
REPORT = "report.html"
CHECKPOINT = "checkpoint.cavity"
LOCK = ".cavity-lock"
# Of any model: a run that replaces another leaves nothing of it.
RESULTS = (
    POSTERIOR, LABELS, TRENDS, FACTORS, FORECAST, SEASONS, PARAMETERS, CLUSTERS, COLUMNS, IMPUTED,
    PICTURE, *OF_REGRESSIONS, REPORT,
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
    remove(out, (*RESULTS, CHECKPOINT))


def remove(out: Path, names: Iterable[str]) -> None:
    """Remove files that may be there."""
    for name in names:
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


def read_regressions(out: Path) -> list[Regression]:
    """Read the regressions of a run, covariates first."""
    import numpy as np

    from cavity.posterior.regression import Regression

    path = out / REGRESSIONS
    if not path.exists():
        return []
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
        return [Regression(**{**one, "draws": np.array(one["draws"])}) for one in found]
    except (ValueError, TypeError, KeyError) as error:
        raise UserError(f"{path} is damaged. Delete it and repeat 'cavity regress'.") from error


def add_regression(out: Path, found: Regression) -> None:
    """Write a regression to the folder of a run, in place of an earlier one of the same name.

    Covariates have a table and a picture, outcomes a table of all and a picture of the latest.
    """
    import pandas as pd

    every = [one for one in read_regressions(out) if one.outcome != found.outcome]
    every.insert(0 if found.outcome is None else len(every), found)
    # Six digits: the file would be three times as large.
    stored = [
        {**dataclasses.asdict(one), "draws": _six_digits(one.draws.tolist())} for one in every
    ]
    write_text(out / REGRESSIONS, json.dumps(stored) + "\n")
    if found.outcome is None:
        write_table(out / REGRESSION, found.table.reset_index())
    else:
        tables = {one.outcome: one.table.reset_index() for one in every if one.outcome is not None}
        whole = pd.concat(tables, names=["outcome"]).reset_index(level="outcome")
        first = [name for name in ("outcome", "cluster", "term") if name in whole]
        write_table(out / OUTCOMES, whole[[*first, "mean", "sd", "lower", "upper"]])
    picture = REGRESSION_PICTURE if found.outcome is None else OUTCOME_PICTURE
    save_picture(out / picture, found.plot())


def _six_digits(draws: Any) -> Any:
    if isinstance(draws, list):
        return [_six_digits(value) for value in draws]
    return float(f"{draws:.6g}")


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
