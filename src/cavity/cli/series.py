"""Commands on time series: fit and report with `SeriesMixture`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cavity.cli import folder as files
from cavity.cli.errors import UserError
from cavity.cli.folder import encoded
from cavity.cli.summary import THRESHOLD, summarise
from cavity.cli.tables import file_digest, note, read_table, require_columns
from cavity.core.files import write_text

if TYPE_CHECKING:
    import pandas as pd

    from cavity import SeriesMixture

TRENDS = "trends.csv"
FACTORS = "factors.csv"
FORECAST = "forecast.csv"
AHEAD = 12
SHOWN = 40


def read_rows(data: Path, names: dict[str, Any], separator: str | None) -> pd.DataFrame:
    """Read a long table and check that the columns named are there."""
    for option in ("series", "time", "value"):
        if names[option] is None:
            raise UserError(
                f"--model series needs --series, --time and --value, the columns of a long table "
                f"with one observation per row; --{option} is missing."
            )
    table = read_table(data, separator)
    wanted = [names["series"], names["time"], names["value"], *names["covariates"]]
    require_columns(table, wanted, data)
    if len(set(wanted)) < len(wanted):
        raise UserError("--series, --time, --value and --covariates must name different columns.")
    return table.assign(**{names["time"]: as_times(table[names["time"]], data)})


def as_times(column: pd.Series, data: Path) -> pd.Series:
    """Times as numbers or dates; text is read as dates."""
    import pandas as pd

    if pd.api.types.is_numeric_dtype(column) or pd.api.types.is_datetime64_any_dtype(column):
        return column
    if isinstance(column.dtype, pd.PeriodDtype):
        return column
    times = pd.to_datetime(column, errors="coerce")
    bad = (times.isna() & column.notna()).to_numpy()
    if bad.any():
        row = int(bad.argmax())
        raise UserError(
            f"Row {row + 1}, column {str(column.name)!r} of {data} is {str(column.iloc[row])!r}, "
            "neither a number nor a date; write dates as 2024-01-31 or 2024-01."
        )
    return times


def fit(
    data: Path,
    out: Path,
    names: dict[str, Any],
    settings: dict[str, Any],
    *,
    separator: str | None = None,
    checkpoint: bool = False,
    resume: bool = False,
    overwrite: bool = False,
    quiet: bool = False,
    demo: bool = False,
) -> int:
    """Cluster the series of a long table, write the folder of the run, print the summary.

    Parameters
    ----------
    data, out : Path
        The table and the folder to write.
    names : dict
        ``series``, ``time``, ``value`` and ``covariates``: names of columns.
    settings : dict
        Parameters of the estimator; None leaves its default.
    separator : str, optional
    checkpoint, resume, overwrite, quiet, demo : bool

    Returns
    -------
    int
        Exit code.
    """
    table = read_rows(data, names, separator)
    settings = {name: value for name, value in settings.items() if value is not None}
    n = int(table[names["series"]].nunique())
    n_clusters = settings.get("n_clusters", 10)
    if n < n_clusters and settings.get("prior") not in ("dp", "pitman-yor"):
        raise UserError(
            f"There are {n} series, fewer than --clusters {n_clusters}; lower --clusters, or use "
            "--prior dp."
        )

    from cavity import SeriesMixture

    if checkpoint or resume:
        settings["checkpoint"] = out / files.CHECKPOINT
    estimator = SeriesMixture(progress=not quiet, **settings)
    # Nothing is touched on disk for a request that will be refused.
    estimator._check_settings()
    files.prepare(out, overwrite=overwrite, resume=resume)
    if not quiet:
        print(f"Fitting SeriesMixture to {n:,} series, {len(table):,} observations, of {data}.")
        sys.stdout.flush()
    estimator.fit(
        table,
        series=names["series"],
        time=names["time"],
        value=names["value"],
        covariates=list(names["covariates"]),
    )
    record = {
        "kind": "series",
        "model": "series",
        "demo": demo,
        "data": {
            "path": str(data.resolve()),
            "digest": file_digest(data),
            "series": n,
            "rows": len(table),
            "columns": {**names, "covariates": list(names["covariates"])},
            "separator": separator,
        },
        "settings": encoded(estimator.posterior_.record.settings),
    }
    _write(out, estimator, names, record, table)
    if not quiet:
        print("\n" + summarise(estimator.posterior_, estimator.labels_, noun="series"))
        print("\n" + _farewell(out))
    return 130 if estimator.posterior_.record.interrupted else 0


def _write(
    out: Path,
    estimator: SeriesMixture,
    names: dict[str, Any],
    record: dict[str, Any],
    table: pd.DataFrame,
) -> None:
    posterior, labels = estimator.posterior_, estimator.labels_
    posterior.save(out / files.POSTERIOR)
    listed = files.labels_table(posterior, labels, names["series"], None, THRESHOLD)
    write_text(out / files.LABELS, listed.to_csv(index=False, float_format="%.6g"))
    for name, band, key in (
        (TRENDS, estimator.trends_, names["series"]),
        (FACTORS, estimator.factors_, "cluster"),
        (FORECAST, estimator.forecast(AHEAD), names["series"]),
    ):
        write_text(
            out / name, long_band(band, key, names["time"]).to_csv(index=False, float_format="%.6g")
        )
    pictures(out, estimator, table, names, record)
    files.write_record(out, record)


def long_band(band: Any, key: str, time: str) -> pd.DataFrame:
    """A band as a long table: one row per curve and time, with mean, lower and upper."""
    import pandas as pd

    parts = {
        part: getattr(band, part).rename_axis(index=key, columns=time).stack().rename(part)
        for part in ("mean", "lower", "upper")
    }
    return pd.concat(parts.values(), axis=1).reset_index()


def pictures(
    out: Path,
    estimator: SeriesMixture,
    table: pd.DataFrame,
    names: dict[str, Any],
    record: dict[str, Any],
) -> None:
    """Draw the clusters' trends, and the report with them."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    from cavity.report.html import write_report

    figure = draw_clusters(estimator.trends_.mean, estimator.labels_, names["time"], names["value"])
    figure.savefig(out / files.PICTURE, dpi=150, bbox_inches="tight")
    source = Path(record["data"]["path"]).name
    write_report(
        out / files.REPORT,
        estimator.posterior_,
        None,
        title=f"Clusters of series in {source}",
        extra_sections=[
            (
                "The series, cluster by cluster",
                figure,
                "Posterior mean of each series' trend; the thick line is the mean of the cluster.",
            )
        ],
        settings={"data file": source, "data digest": record["data"]["digest"]},
        partition=estimator.labels_,
        threshold=THRESHOLD,
    )
    plt.close("all")


def draw_clusters(trends: pd.DataFrame, labels: Any, time: str, value: str) -> Any:
    """One panel per cluster: the trends of its series, and their mean."""
    import matplotlib.pyplot as plt
    import numpy as np
    import pandas as pd

    from cavity.pictures import style

    times = trends.columns
    if isinstance(times, pd.PeriodIndex):
        times = times.to_timestamp()
    n = min(int(labels.max()) + 1, 12)
    columns = min(n, 3)
    rows = -(-n // columns)
    figure, axes = plt.subplots(
        rows, columns, figsize=(3.6 * columns, 2.4 * rows), sharex=True, sharey=True,
        squeeze=False, layout="constrained",
    )  # fmt: skip
    values = trends.to_numpy()
    for k, ax in enumerate(axes.flat):
        if k >= n:
            ax.set_visible(False)
            continue
        own = values[labels == k]
        colour = style.cluster_colour(k)
        ax.plot(times, own[:SHOWN].T, color=colour, alpha=0.35, linewidth=0.7)
        ax.plot(times, np.nanmean(own, axis=0), color=colour, linewidth=2.2)
        ax.set_title(f"cluster {k}: {len(own)} series", fontsize=10)
        ax.tick_params(axis="x", rotation=30)
    figure.supxlabel(time)
    figure.supylabel(value)
    return figure


def report(run: Path, record: dict[str, Any]) -> int:
    """Write the report of a run of series again, from what its folder holds."""
    import matplotlib

    matplotlib.use("Agg")
    import pandas as pd

    from cavity.report.html import write_report

    posterior = files.read_posterior(run)
    labels = files.read_labels(run, posterior.n_observations)
    names = record["data"]["columns"]
    sections = []
    if labels is None:
        note(f"{run / files.LABELS} is gone or altered; the point estimate is searched for again.")
        labels = posterior.partition().labels
    if (run / TRENDS).exists():
        long = pd.read_csv(run / TRENDS)
        long[names["time"]] = as_times(long[names["time"]], run / TRENDS)
        wide = long.pivot(index=names["series"], columns=names["time"], values="mean")
        # In the order of the labels; names of series may look like numbers in the file.
        order = pd.read_csv(run / files.LABELS)[names["series"]]
        figure = draw_clusters(wide.loc[order], labels, names["time"], names["value"])
        sections.append(
            ("The series, cluster by cluster", figure, "Posterior mean of each series' trend.")
        )
    write_report(
        run / files.REPORT,
        posterior,
        None,
        title=f"Clusters of series in {Path(record['data']['path']).name}",
        extra_sections=sections,
        partition=labels,
        threshold=THRESHOLD,
    )
    print(summarise(posterior, labels, noun="series"))
    print(f"\nWritten: {run / files.REPORT}")
    return 0


def _farewell(out: Path) -> str:
    return "\n".join(
        [
            f"Written to {out}:",
            f"  {files.REPORT:14} everything above with pictures; open it in a browser",
            f"  {files.LABELS:14} each series' cluster, probabilities and certainty",
            f"  {TRENDS:14} each series' trend: mean and 90% interval at every time",
            f"  {FORECAST:14} the same for the next {AHEAD} times",
            f"  {FACTORS:14} what the series of a cluster share: mean and 90% interval",
            f"  {files.PICTURE:14} the trends, cluster by cluster",
            f"  {files.POSTERIOR:14} all draws, for cavity.Posterior.load and other tools",
            f"  {files.RUN:14} how it was run",
        ]
    )
