"""Demonstrations that need neither data nor a network."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cavity.cli import folder as files
from cavity.cli import runs
from cavity.cli.errors import UserError, say
from cavity.cli.options import Choice
from cavity.cli.record import RUN, read_record
from cavity.cli.summary import wrap
from cavity.utils.files import write_text

if TYPE_CHECKING:
    import pandas as pd


def _show(
    out: Path, name: str, table: pd.DataFrame, intro: str, *,
    model: str, choice: Choice, clusters: int, seed: int, quiet: bool,
) -> int:  # fmt: skip
    """Write the table to the folder, fit it, and print the command that does the same."""
    data = out / name
    write_text(data, table.to_csv(index=table.index.name is not None))
    if not quiet:
        asked = {f"--{k.replace('_', '-')}": v for k, v in asdict(choice).items() if v}
        given = {"--model": "series"} if model == "series" else {}
        words = " ".join(f"{k} {v}" for k, v in {**given, **asked, "--clusters": clusters}.items())
        say(wrap(intro, ""))
        say(f"\nThe same with your own file: cavity fit {data} {words}\n")
    settings = {"n_clusters": clusters, "random_state": seed}
    return runs.fit(data, out, model, choice, settings, overwrite=True, quiet=quiet, demo=True)


def _prepare(out: Path) -> None:
    """Make the folder, unless it holds a run of the user's own."""
    if (out / RUN).exists() and not read_record(out).demo:
        raise UserError(f"{out} holds a run of your own; give another --out.")
    files.make(out)


def wine(out: Path, seed: int, quiet: bool) -> int:
    """Cluster wine measurements, some with errors, and compare with the cultivars."""
    import pandas as pd

    from cavity.datasets import load_wine_with_bad_rows

    _prepare(out)
    table, truth = load_wine_with_bad_rows(random_state=0)
    intro = (
        f"{len(table)} wines of three cultivars with {table.shape[1]} measurements each. "
        f"{int(truth.spoiled.sum())} rows have typical errors. Only the measurements are "
        "clustered, into at most three clusters and noise; the cultivars are used afterwards, to "
        "check the result."
    )
    code = _show(
        out, "wine.csv", table, intro, model="student-t",
        choice=Choice(id_column=str(table.index.name)), clusters=3, seed=seed, quiet=quiet,
    )  # fmt: skip
    if not quiet:
        say("\n" + _verdict(pd.read_csv(out / files.LABELS), truth))
    return code


def table(out: Path, seed: int, quiet: bool) -> int:
    """Cluster flowers, half without a name, and compare imputed values with the true ones."""
    import numpy as np
    import pandas as pd

    from cavity.datasets import load_iris_with_gaps

    _prepare(out)
    gappy, whole = load_iris_with_gaps(random_state=0)
    intro = (
        f"{len(gappy)} iris flowers with four measurements and the species of each. One in ten "
        "measurements and half of the species names were removed at random."
    )
    code = _show(
        out, "iris.csv", gappy, intro, model="auto",
        choice=Choice(id_column=str(gappy.index.name)), clusters=3, seed=seed, quiet=quiet,
    )  # fmt: skip
    if not quiet:
        cells = pd.read_csv(out / files.IMPUTED)
        named = (cells["column"] == "species").to_numpy()
        held = [whole.loc[row, name] for row, name in cells[["row", "column"]].to_numpy()]
        right = np.array([value == h for value, h in zip(cells["value"], held, strict=True)])
        truth = np.array([np.nan if n else h for h, n in zip(held, named, strict=True)], float)
        inside = (cells["lower"].to_numpy() <= truth) & (truth <= cells["upper"].to_numpy())
        text = (
            f"How good are the imputed values? Of {int(named.sum())} removed species names, "
            f"{right[named].mean():.0%} are imputed correctly. Of {int((~named).sum())} removed "
            f"measurements, {inside[~named].mean():.0%} are inside their 90% intervals."
        )
        say("\n" + wrap(text, ""))
    return code


def series(out: Path, seed: int, quiet: bool) -> int:
    """Cluster simulated noisy series with missing values, and compare with the truth."""
    import numpy as np
    import pandas as pd
    from sklearn.metrics import adjusted_rand_score

    from cavity.datasets import make_series

    _prepare(out)
    values, truth = make_series(
        n_series=60, n_times=72, n_clusters=4, var_y=0.5, missing=0.3, random_state=0
    )
    months = pd.period_range("2018-01", periods=values.shape[1], freq="M")
    row, column = np.nonzero(np.isfinite(values))
    table = pd.DataFrame(
        {
            "shop": [f"shop {i + 1:02d}" for i in row],
            "month": months[column].astype(str),
            "sales": values[row, column].round(4),
        }
    )
    intro = (
        f"{len(values)} simulated series over {values.shape[1]} months with {len(table):,} noisy "
        "observations; 30% are missing. Each series follows one of four hidden factors."
    )
    choice = Choice(series="shop", time="month", value="sales")
    code = _show(
        out, "series.csv", table, intro, model="series", choice=choice, clusters=6, seed=seed,
        quiet=quiet,
    )  # fmt: skip
    if not quiet:
        labels = pd.read_csv(out / files.LABELS)["cluster"]
        score = adjusted_rand_score(truth.labels, labels)
        say(f"\nAdjusted Rand index with the truth: {score:.2f} (1 is perfect, 0 is chance).")
    return code


def _verdict(labels: Any, truth: Any) -> str:
    import pandas as pd
    from sklearn.metrics import adjusted_rand_score

    clusters = labels["cluster"].to_numpy()
    crossed = pd.crosstab(
        pd.Series(truth.labels, name="cultivar"), pd.Series(clusters, name="cluster")
    )
    good = ~truth.spoiled
    whole = adjusted_rand_score(truth.labels, clusters)
    clean = adjusted_rand_score(truth.labels[good], clusters[good])
    far = (labels["tail_probability"] < 1 / len(labels)).to_numpy()
    outside = clusters < 0
    n_bad = int(truth.spoiled.sum())
    return "\n".join(
        [
            "Was it right? The cultivars, which were not used, and the clusters:",
            "",
            *("  " + line.rstrip() for line in crossed.to_string().splitlines()),
            "",
            wrap(
                f"Adjusted Rand index: {whole:.2f} for all rows, {clean:.2f} without those with "
                f"errors (1 is perfect, 0 is chance). Of the {n_bad} rows with errors, "
                f"{int((outside & truth.spoiled).sum())} are outside every cluster and "
                f"{int((far & ~outside & truth.spoiled).sum())} more are far from their cluster. "
                f"Of the other {int(good.sum())} rows, {int((outside & good).sum())} and "
                f"{int((far & ~outside & good).sum())}."
            ),
        ]
    )
