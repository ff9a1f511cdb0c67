"""The commands `fit`, `report`, `predict` and `compare`, the same for every model."""

from __future__ import annotations

import dataclasses
import secrets
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from cavity.cli import folder as files
from cavity.cli import record as records
from cavity.cli.errors import Interrupted, UserError, note, say
from cavity.cli.models import MODELS, PARALLEL, followed_table, is_in_shards, open_data
from cavity.cli.options import Choice, speaking_of_options
from cavity.cli.record import RunFile, Source, read_record
from cavity.cli.selection import Selection, file_digest, read_table
from cavity.cli.summary import THRESHOLD, comparison_text, summarise, wrap
from cavity.io.words import listed, printable
from cavity.posterior.record import BEST_DRAW, ESTIMATE
from cavity.utils.text import count, plural

FAR = 1e-3  # tail probability of a new row that is worth a look


def fit(
    data: Path,
    out: Path,
    model: str,
    choice: Choice,
    settings: Mapping[str, Any],
    *,
    resume: bool = False,
    overwrite: bool = False,
    quiet: bool = False,
    jobs: int | None = None,
    demo: bool = False,
    client: Any = None,
) -> int:
    """Cluster a file, write the folder of the run, print the summary.

    Parameters
    ----------
    data, out : Path
        The file and the folder to write.
    model : {"auto", "student-t", "gaussian", "table", "series"}
        "auto": student-t for numbers, table where there are columns of text.
    choice : Choice
        What of the file to use.
    settings : mapping
        Parameters of the estimator; None leaves its default.
    resume : bool
        Only go on with a run that is there.
    overwrite : bool
        Replace a run that is there, once the request is known to be good.
    quiet : bool
    jobs : int, optional
        Threads.
    demo : bool
        Whether a demonstration asks.
    client : distributed.Client, optional
        Cluster that rows of Parquet files are spread over, or that has whole chains.

    Returns
    -------
    int
        Exit code.
    """
    settings = {name: value for name, value in settings.items() if value is not None}
    in_shards = is_in_shards(data, settings, client)
    if in_shards:
        settings = {"collapse": PARALLEL, **settings}
    model, selection = open_data(data, model, choice, in_shards)
    kind = MODELS[model]
    wanted = _request(data, model, choice, selection, settings, demo)
    # Nothing is touched on disk for a request that will be refused.
    going_on = _going_on(out, wanted, resume=resume, overwrite=overwrite)
    run = going_on or _with_seed(wanted)
    estimator = kind.make(
        run.settings, choice,
        progress=not quiet, n_jobs=jobs, checkpoint=out / files.CHECKPOINT,
    )  # fmt: skip
    prepared = kind.check(estimator, selection, choice, run.settings)
    files.make(out)
    with files.locked(out):
        files.tidy(out)
        if going_on is None:
            files.empty(out)
        if going_on is not None and going_on.status == records.DRAWN:
            say(f"Sampling of the run in {out} is finished. Writing the tables and the report.")
            return _finish(out, run, selection, kind.load(out), quiet=quiet, client=client)
        run.at(records.RUNNING).write(out)
        if not quiet:
            if going_on is not None:
                say(f"Going on with the run in {out}, which was not finished.")
            say(f"Fitting {kind.estimator} to {kind.size(selection)} of {data}.")
        try:
            with speaking_of_options():
                estimator.fit(prepared, client=client)
        except KeyboardInterrupt as error:
            run.at(records.INTERRUPTED).write(out)
            said = (str(error) or "stopped").partition(" The checkpoint ")[0].rstrip(".")
            raise Interrupted(f"{said}. {_again(out)}") from None
        posterior = estimator.posterior_
        run = run.at(records.INTERRUPTED if posterior.record.interrupted else records.DRAWN)
        stopped = BEST_DRAW in posterior.summaries
        if stopped:  # loading the draws starts a new search
            del posterior.summaries[BEST_DRAW], posterior.summaries[ESTIMATE]
        estimator.save(out / files.POSTERIOR)
        # Those of earlier draws, whose clusters may be others.
        files.remove(out, files.OF_REGRESSIONS)
        run.write(out)
        if stopped:
            raise Interrupted(f"stopped in the search for the point estimate. {_safe(out)}")
        return _finish(out, run, selection, estimator, quiet=quiet, client=client)


def _request(
    data: Path, model: str, choice: Choice, selection: Selection, settings: Any, demo: bool
) -> RunFile:
    """What is asked for, every column named."""
    if model == "series":
        resolved = dataclasses.replace(choice, series=selection.id_column)
    else:
        resolved = dataclasses.replace(
            choice,
            columns=selection.columns,
            exclude=(),
            id_column=selection.id_column,
            errors=None if choice.errors is None else str(Path(choice.errors).resolve()),
        )
    source = Source(
        path=str(data.resolve()),
        digest=selection.digest(data),
        rows=selection.n_rows,
        dropped=selection.n_dropped,
        id_name=selection.id_name,
        choice=resolved,
    )
    return RunFile(model, records.RUNNING, source, dict(settings), demo)


def _with_seed(run: RunFile) -> RunFile:
    """The run with a seed: the one given, or one drawn now."""
    seed = run.settings.get("random_state", secrets.randbits(32))
    return dataclasses.replace(run, settings={**run.settings, "random_state": seed})


def _going_on(out: Path, wanted: RunFile, *, resume: bool, overwrite: bool) -> RunFile | None:
    """The unfinished run in the folder that is to be gone on with; None to begin one."""
    if overwrite and resume:
        raise UserError("--resume goes on with a run and --overwrite replaces it; give one.")
    if not (out / records.RUN).exists():
        if resume:
            raise UserError(f"{out} holds no run to resume; leave --resume out to begin one.")
        if (out / files.CHECKPOINT).exists() and not overwrite:
            raise UserError(
                f"{out} holds the checkpoint of a run but no {records.RUN}; give another --out, or "
                "add --overwrite to replace it."
            )
        return None
    if overwrite:
        return None
    found = read_record(out)
    if found.status == records.FINISHED or (found.status == records.LIMITED and not resume):
        further = "" if found.status == records.FINISHED else ", add --resume to go on with it"
        raise UserError(
            f"{out} already holds a finished run; give another --out{further}, or add --overwrite "
            "to replace it."
        )
    if resume:
        found = found.within(wanted.settings)
    if "random_state" not in wanted.settings:
        seed = found.settings.get("random_state")
        wanted = dataclasses.replace(wanted, settings={**wanted.settings, "random_state": seed})
    other = found.differences(wanted)
    if other:
        raise UserError(
            f"{out} holds an unfinished run that differs from this one in {', '.join(other[:4])}; "
            f"finish it with 'cavity fit --out {out} --resume', give another --out, or add "
            "--overwrite to replace it."
        )
    return found


def resume(
    out: Path,
    limits: Mapping[str, Any],
    *,
    quiet: bool = False,
    jobs: int | None = None,
    client: Any = None,
) -> int:
    """Go on with the run in a folder: all that is needed is in its ``run.json``.

    Parameters
    ----------
    out : Path
        The folder.
    limits : mapping
        ``max_sweeps`` and ``max_seconds``, where they are to be others; None leaves the run's.
    quiet : bool
    jobs : int, optional
        Threads.
    client : distributed.Client, optional
        Cluster that the rows are spread over.
    """
    found = read_record(out)
    if found.status == records.FINISHED:
        raise UserError(f"The run in {out} is finished; there is nothing to resume.")
    found = found.within(limits)
    path = _where(out, found)
    if path is None:
        raise UserError(
            f"{found.data.path}, which the run in {out} was reading, is gone; repeat the 'cavity "
            "fit' command with the file's new place."
        )
    if (
        path.is_file()
        and found.settings.get("collapse") != "parallel"
        and (file_digest(path) != found.data.digest)
    ):
        raise UserError(
            f"{path} has changed since the run in {out} began, so it cannot go on; add "
            "--overwrite to a new 'cavity fit' command."
        )
    return fit(
        path, out, found.model, found.data.choice, found.settings,
        resume=True, quiet=quiet, jobs=jobs, demo=found.demo, client=client,
    )  # fmt: skip


def _again(out: Path) -> str:
    return f"Repeat the command, or say 'cavity fit --out {out} --resume', to go on."


def _safe(out: Path) -> str:
    return f"All draws are safe in {out / files.POSTERIOR}; 'cavity report {out}' writes the rest."


def _finish(
    out: Path, run: RunFile, selection: Selection, estimator: Any, *, quiet: bool, client: Any
) -> int:
    """All that follows from the draws; if it fails the draws are safe, and the message says so."""
    early, kind = run.status == records.INTERRUPTED, MODELS[run.model]
    if not quiet:
        note("Sampling finished. Writing the tables, the picture and the report.")
    try:
        kind.place(estimator, selection, out, client)
        text = _write_results(out, run, kind.shown(selection, estimator), estimator)
    except KeyboardInterrupt:
        raise Interrupted(f"stopped. {_safe(out)}") from None
    except (OSError, ValueError, MemoryError) as error:
        raise UserError(f"{str(error).rstrip('.')}. {_safe(out)}") from error
    except Exception as error:
        error.add_note(_safe(out))  # a fault of ours keeps its traceback
        raise
    if not early:
        run = _complete(out, run, estimator.posterior_.record.stopped)
    if not quiet:
        say("\n" + text + "\n\n" + _farewell(out, run, selection.source is not None))
    return 130 if early else 0


def _complete(out: Path, run: RunFile, stopped: str) -> RunFile:
    """Note that all is written; a run that came to a limit keeps what it can go on from."""
    draft = run.settings.get("precision") == "draft" and stopped in ("converged", "modes")
    limited = (draft or stopped in records.LIMITS) and (out / files.CHECKPOINT).exists()
    run = run.at(records.LIMITED if limited else records.FINISHED)
    run.write(out)
    if not limited:
        (out / files.CHECKPOINT).unlink(missing_ok=True)
    return run


def _write_results(out: Path, run: RunFile, table: Any, estimator: Any) -> str:
    """Tables, picture and page from the draws; returns the summary in words.

    Parameters
    ----------
    out : Path
    run : RunFile
    table : DataFrame or None
        The data, where they are at hand.
    estimator : object
        Fitted.
    """
    kind = MODELS[run.model]
    posterior, labels = estimator.posterior_, estimator.partition_.labels
    unusual = kind.unusual(estimator, table)
    # Without the data the tail probabilities of an earlier labels.csv could not be written again.
    if table is not None or not (out / files.LABELS).exists():
        rows = files.labels_table(
            posterior, labels, run.data.id_name, unusual.get("tail"), THRESHOLD
        )
        if posterior.record.noise:
            rows["cluster"] = estimator.labels_
            rows["noise_probability"] = estimator.noise_probability_
        files.write_table(out / files.LABELS, rows)
    for name, further in kind.tables(estimator, run, table).items():
        files.write_table(out / name, further)
    _write_pictures(out, run, table, estimator, unusual)
    text = summarise(
        posterior, labels, noun=kind.noun, features=kind.features(estimator),
        number_known=run.demo, **unusual,
    )  # fmt: skip
    parts = (kind.heading(estimator), kind.relevance(estimator, table))
    heading = "\n\n".join(wrap(part, "  ", "") for part in parts if part)
    return f"{heading}\n\n{text}" if heading else text


def _write_pictures(
    out: Path, run: RunFile, table: Any, estimator: Any, unusual: Mapping[str, Any]
) -> None:
    """Write the picture and the report, regressions included."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    kind = MODELS[run.model]
    source = Path(run.data.path).name
    settings = {
        "data file": source,
        "data digest": run.data.digest,
        "seed": run.settings.get("random_state"),
    }
    try:
        kind.draw(out / files.PICTURE, estimator, table)
        kind.report(
            out / files.REPORT, estimator, table,
            title=kind.title(source), settings=settings,
            sections=files.read_regressions(out), **unusual,
        )  # fmt: skip
    finally:
        plt.close("all")


def _farewell(out: Path, run: RunFile, in_shards: bool) -> str:
    kind = MODELS[run.model]
    listing = [
        (files.REPORT, "everything above with pictures; open it in a browser"),
        *kind.written(in_shards),
        (files.POSTERIOR, "all draws, for cavity.load and other tools"),
        (records.RUN, f"how it was run; the seed is {run.settings.get('random_state')}"),
    ]
    there = [(name, words) for name, words in listing if (out / name).exists()]
    lines = [f"Written to {out}:", *(f"  {name:14} {words}" for name, words in there), ""]
    if run.status == records.INTERRUPTED:
        lines.append(f"The run was stopped early. {_again(out)}")
    elif run.status == records.LIMITED and run.settings.get("precision") == "draft":
        lines.append(
            f"This is a draft: 'cavity fit --out {out} --resume --precision report' continues it "
            "to a report."
        )
    elif run.status == records.LIMITED:
        lines.append(
            f"It came to a limit: 'cavity fit --out {out} --resume' with a larger --max-sweeps or "
            "--max-seconds goes on."
        )
    else:
        lines.append(f"Next: cavity predict {out} new.csv   {kind.after}.")
    return "\n".join(lines)


def report(out: Path, data: Path | None) -> int:
    """Write all that follows from a run's draws again, and print its summary."""
    run, estimator = load_run(out)
    table = followed_table(estimator)
    if table is None:
        table = _training_table(out, run, data)
    text = _write_results(out, run, table, estimator)
    if run.status == records.DRAWN:
        _complete(out, run, estimator.posterior_.record.stopped)
    say(text)
    say(f"\nWritten: {out / files.REPORT}")
    return 0


def refresh_report(out: Path, run: RunFile, estimator: Any) -> bool:
    """Write the picture and the report again; leave both if the rows to draw are gone."""
    kind = MODELS[run.model]
    table = followed_table(estimator)
    if table is None and kind.noun != "series":
        path = _where(out, run)
        if path is None or file_digest(path) != run.data.digest:
            note(
                f"{run.data.path} is gone or has changed, so the report stays as it is. "
                f"'cavity report {out} --data FILE' adds the regression."
            )
            return False
        table = _training_table(out, run, None)
    _write_pictures(out, run, table, estimator, kind.unusual(estimator, table))
    return True


def load_run(out: Path) -> tuple[RunFile, Any]:
    """A run and its fitted estimator, from the folder alone."""
    run = read_record(out)
    if not (out / files.POSTERIOR).exists():
        if run.status in (records.RUNNING, records.INTERRUPTED):
            raise UserError(f"The run in {out} is not finished. {_again(out)}")
        raise UserError(f"{out / files.POSTERIOR} is gone; run the fit again.")
    return run, MODELS[run.model].load(out)


def _where(out: Path, run: RunFile) -> Path | None:
    """Where the data of a run lie: where they were, or in its folder."""
    was = Path(run.data.path)
    if was.is_dir() or "*" in was.name:
        return was
    return next((path for path in (was, out / was.name) if path.is_file()), None)


def _training_table(out: Path, run: RunFile, data: Path | None) -> Any:
    """The rows of the run, where their file is still what it was; series need none."""
    kind = MODELS[run.model]
    if data is not None and not data.is_file():
        raise UserError(f"There is no file {data}; check the name and the folder.")
    if kind.noun == "series":
        return None
    path = data if data is not None else _where(out, run)
    if path is None:
        note(f"{run.data.path} is gone, so the report does not draw the rows; give --data.")
        return None
    if file_digest(path) != run.data.digest:
        if data is not None:
            raise UserError(f"{data} is not the file that this run was fitted to.")
        note(f"{path} has changed since the fit, so the report does not draw the rows.")
        return None
    # The posterior has the errors.
    choice = dataclasses.replace(run.data.choice, errors=None, errors_pattern=None)
    return kind.read(read_table(path, choice), choice).table


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
    run = read_record(out)
    if client is not None or is_in_shards(data, {}, client):
        named = {"series": run.data.choice.series} if run.model == "series" else {}
        return _predict_files(out, data, to, client, named)
    changes = {name: value for name, value in given.items() if value not in (None, (), False)}
    choice = dataclasses.replace(
        run.data.choice, **{"drop_missing": False, "errors": None, **changes}
    )
    if choice.errors is not None:
        choice = dataclasses.replace(choice, errors_pattern=None)
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
        what = f"clusters of {count(len(result), noun)}"
        if noun == "series" and "probability" not in result.columns:
            what = f"predictions of {count(len(result), 'row')}"
        say(f"Wrote the {what} to {to}.")
        return 0
    text = files.as_csv(result)
    if sys.stdout.isatty():
        text = printable(text, keep="\n\t")
    sys.stdout.write(text)
    sys.stdout.flush()
    return 0


def _predict_files(
    out: Path, data: Path, to: Path | None, client: Any, named: Mapping[str, Any]
) -> int:
    """Place rows in shards; a folder with a file of results for each file."""
    if to is None or to.is_file():
        raise UserError("Rows in shards are placed file by file; give --out, a folder to write.")
    with speaking_of_options():
        written = load_run(out)[1].predict_to_parquet(data, to, client=client, **named)
    what = "series" if named else "rows"
    say(f"Wrote the clusters of {count(len(written), 'file')} of {what} to {to}.")
    return 0


def _note_far(result: Any) -> None:
    if "tail_probability" not in result.columns:
        return
    far = int((result["tail_probability"] < min(FAR, 1.0 / len(result))).sum())
    if far:
        verb = "lies" if far == 1 else "lie"
        note(
            f"{far:,} of {count(len(result), 'row')} {verb} far from anything the "
            "run has seen; check the smallest tail_probability for measurement errors."
        )


def _check_output_file(out: Path) -> None:
    if out.is_dir():
        raise UserError(f"{out} is a folder; give a file for --out, such as predictions.csv.")
    if not out.parent.is_dir():
        raise UserError(f"The folder {out.parent} does not exist; make it or give another --out.")


def compare(folders: Sequence[Path], to: Path | None = None) -> int:
    """Print a table of runs over the same rows, and for two how far their answers agree.

    Parameters
    ----------
    folders : sequence of Path
    to : Path, optional
        HTML page to write.
    """
    from cavity.compare import compare_models

    places = [folder.resolve() for folder in folders]
    if len(set(places)) < len(places):
        twice = next(f for f, place in zip(folders, places, strict=True) if places.count(place) > 1)
        raise UserError(f"{twice} is given twice. Name different runs.")
    if to is not None:
        _check_output_file(to)
    loaded = {str(folder): load_run(folder) for folder in folders}
    models = {name: estimator for name, (_, estimator) in loaded.items()}
    run = next(iter(loaded.values()))[0]
    listed_names = " and ".join(models)
    try:
        if len(models) == 2:
            posteriors = {name: m.posterior_ for name, m in models.items()}
            say(comparison_text(posteriors, MODELS[run.model].noun) + "\n")
        table = compare_models(models, _training_table(folders[0], run, None))
    except ValueError as error:
        raise UserError(f"{listed_names} cannot be compared: {error}") from error
    say(str(table))
    if "elpd" not in table:
        note(
            "Predictions are not compared: the data of the runs differ or have no leave-one-out "
            "densities."
        )
    if to is not None:
        table.report(to)
        say(f"\nWrote {to}.")
    return 0
