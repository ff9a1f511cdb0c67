"""The command `predict`, the same for every model."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from cavity.cli import folder as files
from cavity.cli.errors import UserError, note, say
from cavity.cli.model_base import speaking_of_options
from cavity.cli.models import FAR, MODELS
from cavity.cli.record import read_record
from cavity.cli.runs import load_run
from cavity.cli.summary import plural
from cavity.cli.tables import read_table
from cavity.io.words import listed, printable


def predict(
    out: Path, data: Path, to: Path | None, given: Mapping[str, Any], client: Any = None
) -> int:
    """Place new rows by a run; CSV to a file or standard output.

    Parameters
    ----------
    out : Path
        The folder of the run.
    data : Path
        The new rows.
    to : Path or None
        The file to write.
    given : mapping
        Fields of `Choice` that differ from the run's; None leaves the run's.
    client : distributed.Client, optional
        Cluster that places rows in shards.
    """
    from cavity.cli.shards import is_in_shards

    run = read_record(out)
    if client is not None or is_in_shards(data, {}, client):
        named = {"series": run.data.choice.series} if run.model == "series" else {}
        return _place(out, data, to, client, named)
    changes = {name: value for name, value in given.items() if value not in (None, (), False)}
    choice = dataclasses.replace(run.data.choice, drop_missing=False, **changes)
    table = read_table(data, choice)
    missing = [name for name in choice.columns if name not in table.names]
    if missing:
        raise UserError(
            f"{data} lacks the {plural('column', len(missing))} {listed(missing)} that {out} was "
            f"fitted to; it has {listed(table.names, 12)}."
        )
    if "id_column" not in changes and choice.id_column not in table.names:
        choice = dataclasses.replace(choice, id_column=None)
    if to is not None:
        _check_output_file(to)
    run, estimator = load_run(out)
    result = MODELS[run.model].predict(estimator, table, choice)
    _note_far(result)
    if to is not None:
        files.write_table(to, result)
        noun = MODELS[run.model].noun
        if noun == "series" and "probability" not in result.columns:
            what = f"predictions of {len(result):,} {plural('row', len(result))}"
        else:
            what = f"clusters of {len(result):,} {plural(noun, len(result))}"
        say(f"Wrote the {what} to {to}.")
        return 0
    text = files.as_csv(result)
    if sys.stdout.isatty():
        text = printable(text, keep="\n\t")
    sys.stdout.write(text)
    sys.stdout.flush()
    return 0


def _place(out: Path, data: Path, to: Path | None, client: Any, named: Mapping[str, Any]) -> int:
    """Place rows in shards; a folder with a file of results for each file."""
    if to is None or to.is_file():
        raise UserError("Rows in shards are placed file by file; give --out, a folder to write.")
    with speaking_of_options():
        written = load_run(out)[1].place(data, to, client=client, **named)
    n = len(written)
    what = "series" if named else "rows"
    say(f"Wrote the clusters of {n:,} {plural('file', n)} of {what} to {to}.")
    return 0


def _note_far(result: Any) -> None:
    if "tail_probability" not in result.columns:
        return
    far = int((result["tail_probability"] < min(FAR, 1.0 / len(result))).sum())
    if far:
        verb = "lies" if far == 1 else "lie"
        note(
            f"{far:,} of {len(result):,} {plural('row', len(result))} {verb} far from anything the "
            "run has seen; check the smallest tail_probability for errors of measurement."
        )


def _check_output_file(out: Path) -> None:
    if out.is_dir():
        raise UserError(f"{out} is a folder; give a file for --out, such as predictions.csv.")
    if not out.parent.is_dir():
        raise UserError(f"The folder {out.parent} does not exist; make it or give another --out.")
