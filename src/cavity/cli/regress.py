"""The command `regress`: covariates and outcomes of the rows of a run."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cavity.cli import folder as files
from cavity.cli.errors import UserError, note, say
from cavity.cli.models import MODELS
from cavity.cli.options import Choice
from cavity.cli.runs import load_run, refresh_report
from cavity.cli.selection import read_table
from cavity.io.words import listed
from cavity.utils.text import count

if TYPE_CHECKING:
    import pandas as pd


def regress(
    out: Path,
    data: Path,
    given: Mapping[str, Any],
    outcome: str | None,
    reference: int,
    level: float,
) -> int:
    """Print and write the regression of a run's clusters on a table."""
    run, estimator = load_run(out)
    posterior = estimator.posterior_
    choice = Choice(**{name: value for name, value in given.items() if value not in (None, ())})
    table = read_table(data, choice)
    if choice.id_column is None and run.data.choice.id_column in table.names:
        choice = dataclasses.replace(choice, id_column=run.data.choice.id_column)
    frame = MODELS["table"].read(table, choice).table
    if choice.id_column is not None:
        frame = _in_order(frame, posterior.names, str(data))
    if outcome is not None and outcome not in frame.columns:
        raise UserError(f"{data} has no column {outcome!r}; it has {listed(list(frame), 12)}.")
    partition = estimator.partition_
    try:
        if outcome is not None:
            found = posterior.outcome(frame[outcome], partition, level=level)
        else:
            found = posterior.regress(frame, partition, reference=reference, level=level)
    except ValueError as error:
        raise UserError(str(error)) from error
    say(str(found))
    files.add_regression(out, found)
    path = out / (files.REGRESSION if outcome is None else files.OUTCOMES)
    if refresh_report(out, run, estimator):
        say(f"\nWrote {path} and a section of {out / files.REPORT}.")
    else:
        say(f"\nWrote {path}.")
    return 0


def _in_order(frame: pd.DataFrame, names: Any, path: str) -> pd.DataFrame:
    """Return one row for each row of the run, in its order, matched by identifier."""
    if names is None:
        raise UserError("The rows of this run have no identifiers. Leave out --id-column.")
    frame.index = frame.index.astype(str)
    if frame.index.has_duplicates:
        twice = frame.index[frame.index.duplicated()][0]
        raise UserError(f"{path} has {twice!r} twice. Keep one row for each identifier.")
    found = frame.reindex([str(name) for name in names])
    lost = int((~found.index.isin(frame.index)).sum())
    if lost == len(found):
        raise UserError(
            f"{path} has none of the identifiers of the run, such as {str(names[0])!r}. Check "
            "--id-column."
        )
    if lost:
        note(f"{path} lacks {count(lost, 'row')} of the run; they are left out.")
    return found
