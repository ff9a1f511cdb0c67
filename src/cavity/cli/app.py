"""The commands and their options."""

from __future__ import annotations

import logging
import math
import sys
from contextlib import suppress
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from cavity import __version__
from cavity.cli import series_options
from cavity.cli.errors import UserError

# A line with \b alone keeps the paragraph after it as it is written.
HELP = """
Cluster data with outliers, and short noisy time series, and say how sure each answer is.

\b
Start here:
  cavity demo                          see it work on wines, some spoiled
  cavity fit data.csv --clusters 8     cluster the rows of your own table
  cavity fit --out cavity-run --resume go on with a run that was stopped
  cavity report cavity-run             write the report of a run again
  cavity predict cavity-run new.csv    put new rows into the clusters found

A run is a folder: report.html explains what was found, labels.csv has each row's cluster with its
probability. Nothing is sent anywhere; all files are ordinary ones that other tools open.
"""

FIT_HELP = """
Cluster the rows of a table, or the series in it.

The table is CSV or Parquet, taken as it is: numbers, text, true and false, gaps. Columns need no
scaling. Clusters may be long, tilted and heavy-tailed: a bad measurement neither moves a cluster
nor founds one. Text columns are categories; numbers are measurements, unless --types says that they
are counts or categories; what each column was taken for is printed.

\b
Examples:
  cavity fit wine.csv --clusters 3 --out wine-run
  cavity fit people.csv --columns height,weight --id-column name
  cavity fit people.csv --exclude street --types children=count,grade=categorical
  cavity fit messwerte.csv --separator ';' --decimal ',' --encoding latin-1
  cavity fit big.parquet --prior dp --df learn --draws 1000
  cavity fit sales.csv --model series --series shop --time month --value sales
  cavity fit births.csv --model series --series country --season 12
  cavity fit rows/ --clusters 10 --workers 4

Names of rows and series are kept exactly as written (007 stays 007). Anything that can be read in
two ways is refused, with the option that settles it.

\b
A run that was stopped (Ctrl-C, a crash, a reboot) loses nothing:
  cavity fit --out wine-run --resume   goes on; so does the very same command again
The seed is in run.json: the same data, options and --seed give the same draws.
"""

PREDICT_HELP = """
Put new rows into the clusters that a run found, or predict rows of its series.

The table needs the columns that the run was fitted to, in any order. For each row: the most
probable cluster, its probability, the tail probability (very low: far out even for its cluster),
the log density, and the probability of every cluster (p_0, p_1, ...) and of none of them
(p_unmatched). For series: what is expected at each series and time, past or to come, with a 90%
interval, and the tail probability of the value if the table has one; series that are all new, with
their values, are put into the clusters.

\b
Examples:
  cavity predict wine-run new.csv
  cavity predict wine-run new.csv --out placed.csv --drop-missing
  cavity predict sales-run next-year.csv > expected.csv
  cavity predict big-run new-rows/ --out placed --workers 4
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

    auto = "auto"
    student_t = "student-t"
    gaussian = "gaussian"
    table = "table"
    series = "series"


class Prior(StrEnum):
    """Priors over partitions."""

    finite = "finite"
    dirichlet = "dirichlet"
    fixed = "fixed"
    dp = "dp"
    pitman_yor = "pitman-yor"


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
        bool, typer.Option("--traceback", help="Show where in the code an error arose.")
    ] = False,
) -> None:
    """Take the options of every command; `main` reads --traceback before parsing begins."""


Run = Annotated[Path, typer.Argument(help="Folder that 'cavity fit' wrote.", metavar="RUN")]
Text = str | None
Separator = Annotated[Text, typer.Option(help="Between fields of a CSV: one character, or tab.")]
Encoding = Annotated[Text, typer.Option(help="Of a CSV, such as latin-1 [default: utf-8]")]
Decimal = Annotated[Text, typer.Option(help="Decimal mark of a CSV, such as ',' [default: .]")]
Thousands = Annotated[Text, typer.Option(help="Mark between groups of three digits, such as '.'")]
Exclude = Annotated[Text, typer.Option(help="Columns to leave out, as a,b,c", metavar="NAMES")]
DropMissing = Annotated[
    bool,
    typer.Option(
        "--drop-missing",
        help="Leave out rows with gaps, instead of clustering them by what is there.",
    ),
]
IdColumn = Annotated[Text, typer.Option(help="Column that names the rows.", metavar="NAME")]
# What may be another when a run goes on.
LIMITS = ("--max-sweeps", "--max-seconds")
PLACES = ("--jobs", "--workers", "--scheduler")
# Words of --df beside a number, where they are not those of mixtures.
DEGREES = {"series": ("learn", "gaussian")}
Workers = Annotated[
    int | None,
    typer.Option(min=1, help="Spread the rows over so many processes of this machine, by Dask."),
]
Scheduler = Annotated[
    Text,
    typer.Option(
        help="Spread the rows over a Dask cluster that is there, such as tcp://host:8786.",
        metavar="ADDRESS",
    ),
]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print errors only.")]
Overwrite = Annotated[bool, typer.Option("--overwrite", help="Replace a run that is in --out.")]


@app.command(help=FIT_HELP)
def fit(
    context: typer.Context,
    data: Annotated[
        Path | None,
        typer.Argument(
            help="Table to cluster: CSV or Parquet, or a folder of Parquet files.", metavar="DATA"
        ),
    ] = None,
    model: Annotated[
        Model,
        typer.Option(
            help="What a cluster looks like; auto is student-t for numbers, and table for columns "
            "of text among them, or with --types."
        ),
    ] = Model.auto,
    clusters: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="Most clusters there may be [default: 10]; where the prior leaves that open, "
            "where to start.",
        ),
    ] = None,
    out: Annotated[Path, typer.Option(help="Folder to write.")] = Path("cavity-run"),
    columns: Annotated[
        Text,
        typer.Option(help="Columns to cluster by, as a,b,c [default: all]", metavar="NAMES"),
    ] = None,
    exclude: Exclude = None,
    id_column: IdColumn = None,
    drop_missing: DropMissing = False,
    types: Annotated[
        Text,
        typer.Option(
            help="table: what columns are, as visits=count,grade=categorical; kinds are "
            "continuous, categorical, count, overdispersed.",
            metavar="NAME=KIND,...",
        ),
    ] = None,
    log: Annotated[
        Text,
        typer.Option(
            help="Columns to take the logarithm of, as a,b,c: amounts with a long tail.",
            metavar="NAMES",
        ),
    ] = None,
    noise: Annotated[
        bool | None,
        typer.Option(
            "--noise/--no-noise",
            help="Whether rows may be outside every cluster: label -1 [default: if some lie far "
            "from all others]",
        ),
    ] = None,
    separator: Separator = None,
    encoding: Encoding = None,
    decimal: Decimal = None,
    thousands: Thousands = None,
    df: Annotated[
        Text,
        typer.Option(
            help="Degrees of freedom, smaller for heavier tails: a number, learn, or learn-each "
            "(one per cluster); series: of the noise, a number, learn or gaussian.",
            metavar="NUMBER|learn",
        ),
    ] = None,
    covariance: Annotated[
        Text,
        typer.Option(
            help="Form of the clusters' covariances: full, diag (independent columns), tied (one "
            "for all clusters) or factor (for very many columns).",
        ),
    ] = None,
    factors: Annotated[
        int | None,
        typer.Option(help="Factors of every cluster, with --covariance factor.", min=1),
    ] = None,
    prior: Annotated[
        Prior | None,
        typer.Option(help="Prior over partitions; dp, pitman-yor, finite leave the number open."),
    ] = None,
    concentration: Annotated[
        Text,
        typer.Option(
            help="Smaller for fewer clusters: a number, or learn.", metavar="NUMBER|learn"
        ),
    ] = None,
    collapse: Annotated[
        Text,
        typer.Option(
            help="Sampler: collapsed, naive or parallel; with student-t also ep or blocked, with "
            "series also corrected or ep."
        ),
    ] = None,
    init: Annotated[Text, typer.Option(help="Where chains start, such as random.")] = None,
    loss: Annotated[
        Text,
        typer.Option(
            help="What the single best answer minimises: omari (one minus adjusted Rand; the "
            "default), vi or binder."
        ),
    ] = None,
    series: series_options.SeriesColumn = None,
    time: series_options.TimeColumn = None,
    value: series_options.ValueColumn = None,
    covariates: series_options.Covariates = None,
    date_format: series_options.DateFormat = None,
    freq: series_options.Frequency = None,
    common_factor: series_options.CommonFactor = None,
    season: series_options.Season = None,
    scales: series_options.Scales = None,
    forecast: series_options.Forecast = None,
    chains: Annotated[
        int | None, typer.Option(min=1, help="Independent chains; four is right.")
    ] = None,
    warmup: Annotated[
        int | None, typer.Option(min=0, help="Sweeps of each chain before its draws.")
    ] = None,
    draws: Annotated[
        Text,
        typer.Option(
            help="Draws to keep of each chain: a number, or auto, as many as it takes until the "
            "chains agree [default: auto]",
            metavar="NUMBER|auto",
        ),
    ] = None,
    thin: Annotated[int | None, typer.Option(min=1, help="Sweeps per kept draw.")] = None,
    max_sweeps: Annotated[
        int | None, typer.Option(min=1, help="With --draws auto: the most sweeps of each chain.")
    ] = None,
    max_seconds: Annotated[
        float | None,
        typer.Option(
            help="Stop sampling after so many seconds, counted anew when a run goes on; compiling "
            "and the report come on top. The draws then depend on the machine."
        ),
    ] = None,
    seed: Annotated[
        int | None, typer.Option(min=0, help="Seed; the same seed gives the same draws.")
    ] = None,
    jobs: Annotated[int | None, typer.Option(help="Threads; does not change the draws.")] = None,
    workers: Workers = None,
    scheduler: Scheduler = None,
    resume: Annotated[
        bool,
        typer.Option(
            "--resume",
            help="Go on with the run in --out that was stopped or came to a limit; DATA is not "
            "needed.",
        ),
    ] = False,
    overwrite: Overwrite = False,
    quiet: Quiet = False,
) -> None:
    """Cluster a table; the help text is `FIT_HELP`."""
    from cavity.cli import runs
    from cavity.cli.models import MODELS, options_of
    from cavity.cli.shards import cluster
    from cavity.cli.tables import Choice, split_names

    _speak(quiet)
    if jobs == 0:
        raise UserError("--jobs must not be 0; leave it out, or give -1 for all processors.")
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
        limits = {"max_sweeps": max_sweeps, "max_seconds": max_seconds}
        with cluster(workers, scheduler) as client:
            code = runs.resume(out, limits, quiet=quiet, jobs=jobs, client=client)
        raise typer.Exit(code)
    for name in sorted(given - options_of(model.value)):
        owners = [other.name for other in MODELS.values() if name in other.options]
        if owners:
            raise UserError(
                f"{name} goes with --model {' or '.join(owners)} only; leave it out or change "
                "--model."
            )
    settings: dict[str, Any] = {
        "n_clusters": clusters,
        "collapse": collapse,
        "prior": None if prior is None else prior.value,
        "concentration": _number_or_word("--concentration", concentration, ("learn",)),
        "init": init,
        "loss": loss,
        "n_chains": chains,
        "n_warmup": warmup,
        "n_draws": _count_or_word("--draws", draws, "auto"),
        "thin": thin,
        "max_sweeps": max_sweeps,
        "max_seconds": max_seconds,
        "random_state": seed,
        "df": _number_or_word("--df", df, DEGREES.get(model.value, ("learn", "learn-each"))),
        "noise": noise,
        "covariance": covariance,
        "n_factors": factors,
        "freq": freq,
        "common_factor": common_factor,
        "season": season,
        "scales": scales,
        "forecast": forecast,
    }
    choice = Choice(
        columns=split_names(covariates if model is Model.series else columns),
        exclude=split_names(exclude),
        id_column=id_column,
        series=series,
        time=time,
        value=value,
        separator=separator,
        encoding=encoding,
        decimal=decimal,
        thousands=thousands,
        date_format=date_format,
        drop_missing=drop_missing,
        types=split_names(types),
        log=split_names(log),
    )
    with cluster(workers, scheduler) as client:
        code = runs.fit(
            data, out, model.value, choice, settings,
            resume=resume, overwrite=overwrite, quiet=quiet, jobs=jobs, client=client,
        )  # fmt: skip
    raise typer.Exit(code)


def _given(context: typer.Context) -> set[str]:
    """The options that were given on the command line."""
    return {
        parameter.opts[0]
        for parameter in context.command.params
        if parameter.name is not None
        and parameter.opts[0].startswith("--")
        and getattr(context.get_parameter_source(parameter.name), "name", "") == "COMMANDLINE"
    }


def _number_or_word(option: str, text: str | None, words: tuple[str, ...]) -> float | str | None:
    """A number, or one of a few words, from the command line."""
    if text is None or text in words:
        return text
    with suppress(ValueError):
        if math.isfinite(number := float(text)):
            return number
    raise UserError(f"{option} must be a number or {' or '.join(words)}, not {text!r}.")


def _count_or_word(option: str, text: str | None, word: str) -> int | str | None:
    """A whole number of at least one, or a word, from the command line."""
    if text is None or text == word:
        return text
    if not text.isdecimal() or int(text) < 1:
        raise UserError(f"{option} must be a whole number of at least 1, or {word}, not {text!r}.")
    return int(text)


@app.command()
def demo(
    which: Annotated[Demo, typer.Argument(help="wine, table or series.")] = Demo.wine,
    out: Annotated[Path, typer.Option(help="Folder to write.")] = Path("cavity-demo"),
    seed: Annotated[int, typer.Option(help="Seed.")] = 1,
    quiet: Quiet = False,
) -> None:
    """See it work, offline, in about a minute.

    wine: 178 wines of three cultivars, 13 measurements each, a dozen rows spoiled as real
    laboratory data is (units mixed up, decimal points slipped, a sensor at its ceiling).

    table: 150 iris flowers, half of them without the name of their species, one in ten measurements
    taken out; what the gaps are said to hold is compared with what they held.

    series: 60 generated monthly series with gaps, moved by four hidden factors.
    """
    from cavity.cli import demos

    _speak(quiet)
    show = {Demo.series: demos.series, Demo.table: demos.table, Demo.wine: demos.wine}[which]
    raise typer.Exit(show(out, seed, quiet))


@app.command()
def report(
    run: Run,
    data: Annotated[
        Path | None, typer.Option(help="Where the data lie now, if they have moved.")
    ] = None,
) -> None:
    """Write the tables, the picture and report.html of a run again, and print its summary.

    Needs the folder only (its posterior.nc and run.json); with the data where they were, or given
    by --data, the rows are drawn as well.
    """
    from cavity.cli import runs

    _speak(False)
    raise typer.Exit(runs.report(run, data))


@app.command()
def compare(
    first: Run,
    second: Annotated[Path, typer.Argument(help="Folder of another run.", metavar="OTHER")],
) -> None:
    """Compare two runs over the same rows: other columns, another model, another seed.

    Prints how far the answers agree, which clusters of one are which of the other, and who is
    placed differently.
    """
    from cavity.cli.comparing import compare as side_by_side

    _speak(False)
    raise typer.Exit(side_by_side(first, second))


@app.command(help=PREDICT_HELP)
def predict(
    run: Run,
    data: Annotated[Path, typer.Argument(help="Table of new rows: CSV or Parquet.")],
    out: Annotated[
        Path | None,
        typer.Option(
            help="CSV file to write [default: standard output]; of a folder of Parquet files, a "
            "folder."
        ),
    ] = None,
    id_column: IdColumn = None,
    exclude: Exclude = None,
    drop_missing: DropMissing = False,
    separator: Separator = None,
    encoding: Encoding = None,
    decimal: Decimal = None,
    thousands: Thousands = None,
    date_format: series_options.DateFormat = None,
    workers: Workers = None,
    scheduler: Scheduler = None,
) -> None:
    """Place new rows; the help text is `PREDICT_HELP`."""
    from cavity.cli.placing import predict as place
    from cavity.cli.shards import cluster
    from cavity.cli.tables import split_names

    _speak(False)
    given = {
        "id_column": id_column,
        "exclude": split_names(exclude),
        "drop_missing": drop_missing,
        "separator": separator,
        "encoding": encoding,
        "decimal": decimal,
        "thousands": thousands,
        "date_format": date_format,
    }
    with cluster(workers, scheduler) as client:
        code = place(run, data, out, given, client)
    raise typer.Exit(code)


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
