"""The commands and their options."""

from __future__ import annotations

import logging
import sys
from dataclasses import fields
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from cavity import __version__
from cavity.cli.errors import UserError
from cavity.cli.options import (
    AUTO,
    ESTIMATORS,
    Choice,
    GroupedCommand,
    choice_values,
    refuse_others,
    settings_values,
    split_names,
    with_options,
)

# A line with \b alone keeps the paragraph after it as it is written.
HELP = """
Cluster tables with outliers and short, noisy time series, with the certainty of every assignment.

\b
Start here:
  cavity demo                           see it work on 178 wines
  cavity fit data.csv --clusters 8      cluster the rows of your own table
  cavity fit --out cavity-run --resume  resume a stopped run
  cavity report cavity-run              rewrite the report of a run
  cavity predict cavity-run new.csv     assign new rows to the clusters

A run is a folder: report.html explains the result, labels.csv has each row's cluster with its
probability. cavity never uses the network, and other tools can open all of its files.
"""

FIT_HELP = """
Cluster the rows of a table, or the series in it.

The table is a CSV or Parquet file. Numbers, text, booleans and missing values are used as they are,
and columns need no scaling. Moderate outliers hardly move clusters. Text columns are categories,
and numbers are measurements, unless --types declares them as counts or categories. The type of
each column is printed.

\b
Examples:
  cavity fit wine.csv --clusters 3 --out wine-run
  cavity fit people.csv --columns height,weight --id-column name
  cavity fit people.csv --exclude street --types children=count,grade=categorical
  cavity fit measurements.csv --separator ';' --decimal ',' --encoding latin-1
  cavity fit big.parquet --prior dp --df learn --draws 1000
  cavity fit sales.csv --model series --series shop --time month --value sales
  cavity fit births.csv --model series --series country --season 12
  cavity fit rows/ --clusters 10 --workers 4

Names of rows and series are kept exactly as written (007 stays 007). If a value is ambiguous, an
error names the option that resolves it.

\b
To continue a run that was stopped (Ctrl-C, a crash, a reboot), repeat the command or use
  cavity fit --out wine-run --resume
The seed is in run.json: the same data, options and --seed give the same draws.
"""

PREDICT_HELP = """
Assign new rows to the clusters of a run, or predict values of its series.

The table needs the columns of the run, in any order. The output has, for each row, the most
probable cluster, its probability, the tail probability (very low: extreme even for its cluster),
the log density, and the probability of every cluster (p_0, p_1, ...) and of none of them
(p_unmatched). For series, it has the expected value at each time, past or future, with a 90%
interval, and the tail probability of the value if the table has one. If all series are new and have
values, they are assigned to the clusters.

\b
Examples:
  cavity predict wine-run new.csv
  cavity predict wine-run new.csv --out assigned.csv --drop-missing
  cavity predict sales-run next-year.csv > expected.csv
  cavity predict big-run new-rows/ --out assigned --workers 4
"""

app = typer.Typer(
    name="cavity",
    help=HELP,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)


Model = StrEnum("Model", {name: name for name in (AUTO, *ESTIMATORS)})  # type: ignore[misc]


class Demo(StrEnum):
    """Demonstrations."""

    wine = "wine"
    table = "table"
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
        bool, typer.Option("--traceback", help="Show the traceback of an error.")
    ] = False,
) -> None:
    """Options of every command. `main` reads --traceback before parsing begins."""


Run = Annotated[Path, typer.Argument(help="Folder that 'cavity fit' wrote.", metavar="RUN")]
Text = str | None
Workers = Annotated[
    int | None,
    typer.Option(
        min=1, help="Spread the work over this many Dask processes.", rich_help_panel="Where to run"
    ),
]
Scheduler = Annotated[
    Text,
    typer.Option(
        help="Spread the work over a running Dask cluster, such as tcp://host:8786.",
        metavar="ADDRESS",
        rich_help_panel="Where to run",
    ),
]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print errors only.")]
# May differ when a run is resumed.
LIMITS = ("--max-sweeps", "--max-seconds", "--precision")
PLACES = ("--jobs", "--workers", "--scheduler")


@app.command(help=FIT_HELP, cls=GroupedCommand)
@with_options([part.name for part in fields(Choice)], estimators=True)
def fit(
    context: typer.Context,
    data: Annotated[
        Path | None,
        typer.Argument(
            help="Table to cluster: CSV or Parquet, or a folder of Parquet files.", metavar="DATA"
        ),
    ] = None,
    out: Annotated[Path, typer.Option(help="Folder to write.")] = Path("cavity-run"),
    model: Annotated[
        Model,
        typer.Option(
            help="Kind of clusters. auto is student-t for numbers, and table if there are columns "
            "of text or --types is given."
        ),
    ] = AUTO,  # type: ignore[assignment]
    resume: Annotated[
        bool,
        typer.Option(
            "--resume",
            help="Continue the run in --out that was stopped or reached a limit. DATA is not "
            "needed.",
        ),
    ] = False,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace the run in --out.")
    ] = False,
    quiet: Quiet = False,
    covariates: Annotated[
        Text,
        typer.Option(
            help="series: columns to regress on.", metavar="NAMES", rich_help_panel="Series"
        ),
    ] = None,
    freq: Annotated[
        Text,
        typer.Option(
            help="series: group dates into periods: D, W, M, Q or Y.",
            metavar="PERIOD",
            rich_help_panel="Series",
        ),
    ] = None,
    forecast: Annotated[
        int | None,
        typer.Option(
            min=1,
            max=10_000,
            help="series: number of times to forecast in forecast.csv [default: 12]",
            rich_help_panel="Series",
        ),
    ] = None,
    jobs: Annotated[
        int | None,
        typer.Option(
            help="Threads. The draws do not depend on it.", rich_help_panel="Where to run"
        ),
    ] = None,
    workers: Workers = None,
    scheduler: Scheduler = None,
    **options: Any,
) -> None:
    """Cluster a table; the help text is `FIT_HELP`."""
    from cavity.cli import runs
    from cavity.cli.models import cluster

    _show_messages(quiet)
    if jobs == 0:
        raise UserError("--jobs must not be 0; leave it out, or give -1 for all processors.")
    settings = settings_values({**options, "freq": freq, "forecast": forecast})
    given = _given(context)
    if data is None:
        if not resume:
            raise UserError(
                "Missing argument 'DATA': the table to cluster, as in 'cavity fit data.csv'; see "
                "'cavity fit --help'."
            )
        others = sorted(given - {"--resume", "--out", "--quiet", *PLACES, *LIMITS})
        if others:
            raise UserError(
                f"--resume takes all settings from the run in {out}; leave out {others[0]}."
            )
        with cluster(workers, scheduler) as client:
            raise typer.Exit(runs.resume(out, settings, quiet=quiet, jobs=jobs, client=client))
    refuse_others(given, model.value)
    chosen = choice_values(options)
    if covariates is not None:
        chosen["columns"] = split_names(covariates)
    with cluster(workers, scheduler) as client:
        code = runs.fit(
            data, out, model.value, Choice(**chosen), settings,
            resume=resume, overwrite=overwrite, quiet=quiet, jobs=jobs, client=client,
        )  # fmt: skip
    raise typer.Exit(code)


def _given(context: typer.Context) -> set[str]:
    """Return the options that were given on the command line."""
    return {
        parameter.opts[0]
        for parameter in context.command.params
        if parameter.name is not None
        and parameter.opts[0].startswith("--")
        and getattr(context.get_parameter_source(parameter.name), "name", "") == "COMMANDLINE"
    }


@app.command()
def demo(
    which: Annotated[Demo, typer.Argument(help="wine, table or series.")] = Demo.wine,
    out: Annotated[Path, typer.Option(help="Folder to write.")] = Path("cavity-demo"),
    seed: Annotated[int, typer.Option(help="Seed.")] = 1,
    quiet: Quiet = False,
) -> None:
    """Run a demonstration that takes about a minute and needs no network.

    wine: 178 wines of three cultivars with 13 measurements each. Twelve rows have typical errors
    (wrong units, misplaced decimal points, a saturated sensor).

    table: 150 iris flowers. Half of the species names and one in ten measurements are removed, and
    imputed values are compared with the true ones.

    series: 60 simulated monthly series with missing values, driven by four hidden factors.
    """
    from cavity.cli import demos

    _show_messages(quiet)
    show = {Demo.series: demos.series, Demo.table: demos.table, Demo.wine: demos.wine}[which]
    raise typer.Exit(show(out, seed, quiet))


@app.command()
def report(
    run: Run,
    data: Annotated[
        Path | None, typer.Option(help="Current path of the data, if they were moved.")
    ] = None,
) -> None:
    """Write the tables, plots and report.html of a run again, and print its summary.

    Only posterior.nc and run.json in the folder are needed. If the data are in the same place, or
    --data has their path, the plots show the rows as well.
    """
    from cavity.cli import runs

    _show_messages(False)
    raise typer.Exit(runs.report(run, data))


@app.command()
def compare(
    first: Run,
    others: Annotated[list[Path], typer.Argument(help="Folders of other runs.", metavar="OTHER")],
    out: Annotated[Path | None, typer.Option(help="HTML page to write.", metavar="FILE")] = None,
) -> None:
    """Compare runs on the same rows with other columns, models or seeds.

    Prints leave-one-out densities, numbers of clusters and certainties. For two runs, also prints
    how far they agree, which of their clusters correspond, and which rows differ.
    """
    from cavity.cli import runs

    _show_messages(False)
    raise typer.Exit(runs.compare([first, *others], out))


@app.command(cls=GroupedCommand)
@with_options(
    ["id_column", "exclude", "separator", "encoding", "decimal", "thousands"],
)
def regress(
    run: Run,
    data: Annotated[Path, typer.Argument(help="Table with a row for each row of the run.")],
    outcome: Annotated[
        str | None,
        typer.Option(help="Column to compare between clusters, instead of regressing on all."),
    ] = None,
    reference: Annotated[
        int, typer.Option(help="Cluster that log odds compare with.", metavar="CLUSTER")
    ] = 0,
    level: Annotated[float, typer.Option(help="Probability of the intervals.")] = 0.9,
    **options: Any,
) -> None:
    """Estimate which covariates predict a row's cluster, or how an outcome differs by cluster.

    Rows are matched by the run's identifiers if the table has them (--id-column), otherwise by
    their order. Writes regression.csv (or outcomes.csv) and a picture to the folder of the run,
    and adds a section to its report. A second call with the same outcome replaces the first.
    """
    from cavity.cli.regress import regress as run_regression

    _show_messages(False)
    raise typer.Exit(run_regression(run, data, choice_values(options), outcome, reference, level))


@app.command(help=PREDICT_HELP, cls=GroupedCommand)
@with_options(
    [
        "id_column", "exclude", "drop_missing", "errors", "errors_pattern", "separator", "encoding",
        "decimal", "thousands", "date_format",
    ]
)  # fmt: skip
def predict(
    run: Run,
    data: Annotated[Path, typer.Argument(help="Table of new rows: CSV or Parquet.")],
    out: Annotated[
        Path | None,
        typer.Option(
            help="CSV file to write [default: standard output]. For a folder of Parquet files, a "
            "folder."
        ),
    ] = None,
    workers: Workers = None,
    scheduler: Scheduler = None,
    **options: Any,
) -> None:
    """Predict for new rows; the help text is `PREDICT_HELP`."""
    from cavity.cli import runs
    from cavity.cli.models import cluster

    _show_messages(False)
    with cluster(workers, scheduler) as client:
        code = runs.predict(run, data, out, choice_values(options), client)
    raise typer.Exit(code)


def _show_messages(quiet: bool) -> None:
    """Print the library's messages to standard error, as plain lines."""
    logger = logging.getLogger("cavity")
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(logging.Formatter("%(message)s"))
    logger.handlers = [] if quiet else [handler]
    logger.setLevel(logging.INFO)


def run(arguments: list[str]) -> int:
    """Run one command; errors of usage are raised, not printed."""
    command = typer.main.get_command(app)
    code = command.main(arguments, prog_name="cavity", standalone_mode=False)
    return code if isinstance(code, int) else 0
