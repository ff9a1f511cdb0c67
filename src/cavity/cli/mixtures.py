"""Commands on tables of rows: fit, report and predict with the mixture estimators."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cavity.cli import folder as files
from cavity.cli.errors import UserError
from cavity.cli.folder import encoded
from cavity.cli.summary import THRESHOLD, distinguishing, plural, summarise
from cavity.cli.tables import (
    Choice,
    Selection,
    file_digest,
    listed,
    note,
    read_table,
    select,
)
from cavity.core.files import write_text

if TYPE_CHECKING:
    import pandas as pd

    from cavity.estimators.mixtures import GaussianMixture, StudentTMixture

ESTIMATORS = {"student-t": "StudentTMixture", "gaussian": "GaussianMixture"}


def number_or_word(option: str, text: str | None, words: tuple[str, ...]) -> float | str | None:
    """A number, or one of a few words, from the command line.

    Examples
    --------
    >>> number_or_word("--df", "5", ("learn",)), number_or_word("--df", "learn", ("learn",))
    (5.0, 'learn')
    """
    if text is None or text in words:
        return text
    try:
        return float(text)
    except ValueError:
        raise UserError(
            f"{option} must be a number or {' or '.join(words)}, not {text!r}."
        ) from None


def fit(
    data: Path,
    out: Path,
    model: str,
    choice: Choice,
    settings: dict[str, Any],
    *,
    checkpoint: bool = False,
    resume: bool = False,
    overwrite: bool = False,
    quiet: bool = False,
    demo: bool = False,
) -> int:
    """Fit a mixture to a table, write the folder of the run, print the summary.

    Parameters
    ----------
    data, out : Path
        The table and the folder to write.
    model : {"student-t", "gaussian"}
    choice : Choice
        What of the table to use.
    settings : dict
        Parameters of the estimator; None leaves its default.
    checkpoint, resume, overwrite, quiet, demo : bool

    Returns
    -------
    int
        Exit code.
    """
    selection = select(read_table(data, choice.separator), choice, data)
    settings = {name: value for name, value in settings.items() if value is not None}
    _refuse_sizes(selection)
    _refuse_settings(selection, settings)

    import cavity

    if checkpoint or resume:
        settings["checkpoint"] = out / files.CHECKPOINT
    estimator = getattr(cavity, ESTIMATORS[model])(progress=not quiet, **settings)
    # Nothing is touched on disk for a request that will be refused.
    estimator._check_settings()
    files.prepare(out, overwrite=overwrite, resume=resume)
    table = selection.table
    n, d = table.shape
    if not quiet:
        rows, columns = plural("row", n), plural("column", d)
        print(f"Fitting {ESTIMATORS[model]} to {n:,} {rows} and {d} {columns} of {data}.")
        sys.stdout.flush()
    estimator.fit(table)
    record = {
        "kind": "mixture",
        "model": model,
        "demo": demo,
        "data": {
            "path": str(data.resolve()),
            "digest": file_digest(data),
            "rows": n,
            "dropped": selection.n_dropped,
            "columns": [str(c) for c in table.columns],
            "id_column": selection.id_column,
            "id_name": selection.id_name,
            "separator": choice.separator,
            "drop_missing": choice.drop_missing,
        },
        "settings": encoded(estimator.posterior_.record.settings),
    }
    _write(out, estimator, selection, record)
    if not quiet:
        print("\n" + _summary(estimator, table) + "\n\n" + _farewell(out))
    return 130 if estimator.posterior_.record.interrupted else 0


def _refuse_settings(selection: Selection, settings: dict[str, Any]) -> None:
    """Speak of options where the estimator would speak of arguments."""
    n = len(selection.table)
    n_clusters = settings.get("n_clusters", 10)
    if n < n_clusters and settings.get("prior") not in ("dp", "pitman-yor"):
        raise UserError(
            f"There are {n} rows, fewer than --clusters {n_clusters}; lower --clusters, or use "
            "--prior dp."
        )


def _refuse_sizes(selection: Selection) -> None:
    """Refuse what a library call can answer but a saved run cannot hold."""
    from cavity.estimators.validation import robust_standardiser

    values = selection.table.to_numpy()
    if len(values) < 2:
        raise UserError("There is one row only; clustering needs at least two.")
    _, scale = robust_standardiser(values, selection.table.columns.to_numpy())
    for column, spread in zip(selection.table.columns, scale, strict=True):
        if not 1e-140 < spread < 1e140:
            raise UserError(
                f"The values of column {column!r} spread over {spread:.0e}, whose square no number "
                "can hold; multiply the column by a power of ten first."
            )


def _write(out: Path, estimator: Any, selection: Selection, record: dict[str, Any]) -> None:
    from cavity.estimators.unusual import tail_probabilities

    posterior, labels = estimator.posterior_, estimator.labels_
    posterior.save(out / files.POSTERIOR)
    tail = tail_probabilities(estimator, selection.table)
    table = files.labels_table(posterior, labels, selection.id_name, tail, THRESHOLD)
    write_text(out / files.LABELS, table.to_csv(index=False, float_format="%.6g"))
    draw(out, posterior, selection.table, record, labels)
    files.write_record(out, record)


def draw(out: Path, posterior: Any, table: Any, record: dict[str, Any], labels: Any) -> None:
    """Write the picture (where the data are at hand) and the HTML page."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    from cavity.report.html import write_report

    if table is not None:
        files.save_picture(out / files.PICTURE, posterior.plot_clusters(table, labels))
        plt.close("all")
    source = Path(record["data"]["path"]).name
    write_report(
        out / files.REPORT,
        posterior,
        table,
        title=f"Clusters of {source}",
        settings={"data file": source, "data digest": record["data"]["digest"]},
        partition=labels,
        threshold=THRESHOLD,
    )


def _summary(estimator: StudentTMixture | GaussianMixture, table: pd.DataFrame | None) -> str:
    from cavity.estimators.unusual import tail_probabilities

    columns = list(estimator.posterior_.record.columns)
    features = distinguishing(
        estimator.cluster_centers_, estimator._centre, estimator._scale, columns
    )
    return summarise(
        estimator.posterior_,
        estimator.labels_,
        features=features,
        tail=None if table is None else tail_probabilities(estimator, table),
    )


def _farewell(out: Path) -> str:
    return "\n".join(
        [
            f"Written to {out}:",
            f"  {files.REPORT:14} everything above with pictures; open it in a browser",
            f"  {files.LABELS:14} each row's cluster, probabilities and certainty",
            f"  {files.PICTURE:14} the rows coloured by cluster",
            f"  {files.POSTERIOR:14} all draws, for cavity.Posterior.load and other tools",
            f"  {files.RUN:14} how it was run",
            "",
            f"Next: cavity predict {out} new.csv   puts new rows into these clusters.",
        ]
    )


def load(run: Path, record: dict[str, Any]) -> StudentTMixture | GaussianMixture:
    """Rebuild the fitted estimator of a run from its folder alone."""
    from cavity.estimators.saved import mixture_from_posterior

    posterior = files.read_posterior(run)
    return mixture_from_posterior(posterior, files.read_labels(run, posterior.n_observations))


def report(run: Path, record: dict[str, Any], data: Path | None) -> int:
    """Write the report of a run again and print its summary."""
    estimator = load(run, record)
    table = _training_table(run, record, data)
    draw(run, estimator.posterior_, table, record, estimator.labels_)
    print(_summary(estimator, table))
    print(f"\nWritten: {run / files.REPORT}")
    return 0


def _training_table(run: Path, record: dict[str, Any], data: Path | None) -> Any:
    """The rows of the run, where their file is still what it was."""
    source = record["data"]
    beside = run / Path(source["path"]).name
    candidates = [data] if data is not None else [Path(source["path"]), beside]
    path = next((p for p in candidates if p.is_file()), None)
    if path is None:
        if data is not None:
            raise UserError(f"There is no file {data}; check the name and the folder.")
        note(f"{source['path']} is gone, so the report does not draw the rows; give --data.")
        return None
    if file_digest(path) != source["digest"]:
        if data is not None:
            raise UserError(f"{data} is not the file that this run was fitted to.")
        note(f"{path} has changed since the fit, so the report does not draw the rows.")
        return None
    choice = Choice(
        tuple(source["columns"]),
        source["id_column"],
        source["separator"],
        source["drop_missing"],
    )
    return select(read_table(path, choice.separator), choice, path).table


def predict(
    run: Path,
    record: dict[str, Any],
    data: Path,
    out: Path | None,
    *,
    separator: str | None,
    id_column: str | None,
    drop_missing: bool,
) -> int:
    """Place new rows into the clusters of a run; CSV to a file or standard output."""
    source = record["data"]
    if separator is None:
        separator = source["separator"]
    table = read_table(data, separator)
    missing = [c for c in source["columns"] if c not in table.columns]
    if missing:
        raise UserError(
            f"{data} lacks the {plural('column', len(missing))} {listed(missing)} that {run} was "
            f"fitted to; it has {listed(table.columns, 12)}."
        )
    if id_column is None and source["id_column"] in table.columns:
        id_column = source["id_column"]
    choice = Choice(tuple(source["columns"]), id_column, separator, drop_missing)
    selection = select(table, choice, data)
    if out is not None:
        _check_output_file(out)
    estimator = load(run, record)
    probability = estimator.predict_proba(selection.table)
    result = selection.table.index.to_frame(index=False, name=selection.id_name)
    result["cluster"] = probability.argmax(axis=1)
    result["probability"] = probability.max(axis=1)
    result["log_density"] = estimator.score_samples(selection.table)
    for k in range(probability.shape[1]):
        result[f"p_{k}"] = probability[:, k]
    text = result.to_csv(index=False, float_format="%.6g")
    if out is None:
        sys.stdout.write(text)
        sys.stdout.flush()
    else:
        write_text(out, text)
        print(f"Wrote the clusters of {len(result):,} {plural('row', len(result))} to {out}.")
    return 0


def _check_output_file(out: Path) -> None:
    if out.is_dir():
        raise UserError(f"{out} is a folder; give a file for --out, such as predictions.csv.")
    if not out.parent.is_dir():
        raise UserError(f"The folder {out.parent} does not exist; make it or give another --out.")
