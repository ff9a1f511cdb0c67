"""The commands and their options."""

from __future__ import annotations

import logging
import sys
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from cavity import __version__
from cavity.cli.errors import UserError

# A line with \b alone keeps the paragraph after it as it is written.
HELP = """
Cluster data with outliers, and short noisy time series, and say how sure each answer is.

\b
Start here:
  cavity demo                          see it work on wines, some spoiled
  cavity fit data.csv --clusters 8     cluster the rows of your own table
  cavity report cavity-run             write the report of a run again
  cavity predict cavity-run new.csv    put new rows into the clusters found

A run is a folder: report.html explains what was found, labels.csv has each row's cluster with its
probability. Nothing is sent anywhere; all files are ordinary ones that other tools open.
"""

FIT_HELP = """
Cluster the rows of a table.

The table is CSV or Parquet, each column one measurement. Columns need no scaling. Clusters may be
long, tilted and heavy-tailed: with the default model, student-t, a bad measurement neither moves a
cluster nor founds one.

\b
Examples:
  cavity fit wine.csv --clusters 3 --out wine-run
  cavity fit people.csv --columns height,weight --id-column name
  cavity fit big.parquet --prior dp --df learn --checkpoint
  cavity fit sales.csv --model series --series shop --time month --value sales
"""

app = typer.Typer(
    name="cavity",
    help=HELP,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)


class Model(StrEnum):
    """Likelihoods that `fit` knows."""

    student_t = "student-t"
    gaussian = "gaussian"
    series = "series"


class Prior(StrEnum):
    """Priors over partitions."""

    dirichlet = "dirichlet"
    fixed = "fixed"
    dp = "dp"
    pitman_yor = "pitman-yor"


class Demo(StrEnum):
    """Demonstrations."""

    wine = "wine"
    series = "series"


def _version(shown: bool) -> None:
    if shown:
        print(f"cavity {__version__}")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")
    ] = False,
    traceback: Annotated[
        bool, typer.Option("--traceback", help="Show where in the code an error arose.")
    ] = False,
) -> None:
    """Take the options of every command; `main` reads --traceback before parsing begins."""


Data = Annotated[Path, typer.Argument(help="Table to cluster: CSV or Parquet.", metavar="DATA")]
Run = Annotated[Path, typer.Argument(help="Folder that 'cavity fit' wrote.", metavar="RUN")]
Separator = Annotated[
    str | None, typer.Option(help="Between fields of a CSV: one character, or tab.")
]
DropMissing = Annotated[bool, typer.Option("--drop-missing", help="Leave out rows with gaps.")]
IdColumn = Annotated[str | None, typer.Option(help="Column that names the rows.", metavar="NAME")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print errors only.")]
Seed = Annotated[int | None, typer.Option(help="Seed; the same seed gives the same draws.")]
Overwrite = Annotated[bool, typer.Option("--overwrite", help="Replace a run that is in --out.")]


@app.command(help=FIT_HELP)
def fit(
    data: Data,
    model: Annotated[Model, typer.Option(help="What a cluster looks like.")] = Model.student_t,
    clusters: Annotated[
        int | None,
        typer.Option(
            help="Most clusters there may be; with --prior dp or pitman-yor, where to start."
        ),
    ] = None,
    out: Annotated[Path, typer.Option(help="Folder to write.")] = Path("cavity-run"),
    columns: Annotated[
        str | None,
        typer.Option(help="Columns to cluster by, as a,b,c [default: all]", metavar="NAMES"),
    ] = None,
    id_column: IdColumn = None,
    separator: Separator = None,
    drop_missing: DropMissing = False,
    df: Annotated[
        str | None,
        typer.Option(
            help="student-t: degrees of freedom, smaller for heavier tails; a number, learn, or "
            "learn-each (one per cluster).",
            metavar="NUMBER|learn",
        ),
    ] = None,
    prior: Annotated[
        Prior | None,
        typer.Option(help="Prior over partitions; dp and pitman-yor leave the number open."),
    ] = None,
    concentration: Annotated[
        str | None,
        typer.Option(
            help="Smaller for fewer clusters: a number, or learn.", metavar="NUMBER|learn"
        ),
    ] = None,
    collapse: Annotated[
        str | None,
        typer.Option(help="Sampler: ep, blocked or naive (student-t); collapsed or naive."),
    ] = None,
    init: Annotated[str | None, typer.Option(help="Where chains start, such as random.")] = None,
    series: Annotated[
        str | None, typer.Option(help="series: column that names the series.", metavar="NAME")
    ] = None,
    time: Annotated[
        str | None, typer.Option(help="series: column of times.", metavar="NAME")
    ] = None,
    value: Annotated[
        str | None, typer.Option(help="series: column of values.", metavar="NAME")
    ] = None,
    covariates: Annotated[
        str | None, typer.Option(help="series: columns to regress on.", metavar="NAMES")
    ] = None,
    chains: Annotated[int | None, typer.Option(help="Independent chains; four is right.")] = None,
    warmup: Annotated[
        int | None, typer.Option(help="Sweeps of each chain before its draws.")
    ] = None,
    draws: Annotated[int | None, typer.Option(help="Draws to keep of each chain.")] = None,
    thin: Annotated[int | None, typer.Option(help="Sweeps per kept draw.")] = None,
    seed: Seed = None,
    jobs: Annotated[int | None, typer.Option(help="Threads; does not change the draws.")] = None,
    checkpoint: Annotated[
        bool,
        typer.Option(
            "--checkpoint", help="Save the state now and then, so that a crash costs little."
        ),
    ] = False,
    resume: Annotated[
        bool,
        typer.Option(
            "--resume",
            help="Go on with the run whose checkpoint is in --out, or give it more draws.",
        ),
    ] = False,
    overwrite: Overwrite = False,
    quiet: Quiet = False,
) -> None:
    """Cluster a table; the help text is `FIT_HELP`."""
    from cavity.cli import mixtures
    from cavity.cli import series as on_series
    from cavity.cli.tables import Choice, split_names

    settings: dict[str, Any] = {
        "n_clusters": clusters,
        "collapse": collapse,
        "prior": None if prior is None else prior.value,
        "concentration": mixtures.number_or_word("--concentration", concentration, ("learn",)),
        "init": init,
        "n_chains": chains,
        "n_warmup": warmup,
        "n_draws": draws,
        "thin": thin,
        "random_state": seed,
        "n_jobs": jobs,
    }
    runs = {"checkpoint": checkpoint, "resume": resume, "overwrite": overwrite, "quiet": quiet}
    _speak(quiet)
    only_series = {
        "--series": series,
        "--time": time,
        "--value": value,
        "--covariates": covariates,
    }
    if model is Model.series:
        only_tables = {"--columns": columns, "--id-column": id_column, "--df": df}
        _refuse_foreign(only_tables, "models of tables")
        names = {
            "series": series,
            "time": time,
            "value": value,
            "covariates": split_names(covariates),
        }
        raise typer.Exit(on_series.fit(data, out, names, settings, separator=separator, **runs))
    _refuse_foreign(only_series, "--model series")
    if model is Model.student_t:
        settings["df"] = mixtures.number_or_word("--df", df, ("learn", "learn-each"))
    else:
        _refuse_foreign({"--df": df}, "--model student-t")
    choice = Choice(split_names(columns), id_column, separator, drop_missing)
    raise typer.Exit(mixtures.fit(data, out, model.value, choice, settings, **runs))


def _refuse_foreign(options: dict[str, Any], model: str) -> None:
    given = [name for name, value in options.items() if value is not None]
    if given:
        raise UserError(f"{given[0]} goes with {model} only; leave it out or change --model.")


@app.command()
def demo(
    which: Annotated[Demo, typer.Argument(help="wine or series.")] = Demo.wine,
    out: Annotated[Path, typer.Option(help="Folder to write.")] = Path("cavity-demo"),
    seed: Annotated[int, typer.Option(help="Seed.")] = 1,
    quiet: Quiet = False,
) -> None:
    """See it work, offline, in about a minute.

    wine: 178 wines of three cultivars, 13 measurements each, a dozen rows spoiled as real
    laboratory data is (units mixed up, decimal points slipped, a sensor at its ceiling).

    series: 60 generated monthly series with gaps, moved by four hidden factors.
    """
    from cavity.cli import demos

    _speak(quiet)
    show = demos.series if which is Demo.series else demos.wine
    raise typer.Exit(show(out, seed, quiet))


@app.command()
def report(
    run: Run,
    data: Annotated[
        Path | None, typer.Option(help="Where the data lie now, if they have moved.")
    ] = None,
) -> None:
    """Write report.html of a run again, and print its summary."""
    from cavity.cli import folder, mixtures
    from cavity.cli import series as on_series

    _speak(False)
    record = folder.read_record(run)
    if record["kind"] == "series":
        raise typer.Exit(on_series.report(run, record))
    raise typer.Exit(mixtures.report(run, record, data))


@app.command()
def predict(
    run: Run,
    data: Annotated[Path, typer.Argument(help="Table of new rows: CSV or Parquet.")],
    out: Annotated[
        Path | None, typer.Option(help="CSV file to write [default: standard output]")
    ] = None,
    id_column: IdColumn = None,
    separator: Separator = None,
    drop_missing: DropMissing = False,
) -> None:
    """Put new rows into the clusters that a run found.

    The table needs the columns that the run was fitted to, in any order. For each row: the most
    probable cluster, its probability, the log density (very low: unlike anything seen), and the
    probability of every cluster (p_0, p_1, ...).
    """
    from cavity.cli import folder, mixtures

    _speak(False)
    record = folder.read_record(run)
    if record["kind"] == "series":
        raise UserError(
            f"{run} is a run on time series: its forecasts are in forecast.csv, and predictions "
            "for chosen rows are made in Python by SeriesMixture.predict."
        )
    raise typer.Exit(
        mixtures.predict(
            run,
            record,
            data,
            out,
            separator=separator,
            id_column=id_column,
            drop_missing=drop_missing,
        )
    )


def _speak(quiet: bool) -> None:
    """Show the library's messages on standard error, as plain lines."""
    logger = logging.getLogger("cavity")
    if not quiet and not logger.handlers:
        handler = logging.StreamHandler(sys.stderr)
        handler.setFormatter(logging.Formatter("%(message)s"))
        logger.addHandler(handler)
        logger.setLevel(logging.INFO)


def run(arguments: list[str]) -> int:
    """Run one command; errors of usage are raised, not printed."""
    command = typer.main.get_command(app)
    code = command.main(arguments, prog_name="cavity", standalone_mode=False)
    return code if isinstance(code, int) else 0
