"""Demonstrations that need neither data nor a network."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from cavity.cli import folder as files
from cavity.cli import runs
from cavity.cli.errors import UserError, say
from cavity.cli.options import Choice
from cavity.cli.record import RUN, read_record
from cavity.cli.summary import wrap
from cavity.utils.files import write_text


def _prepare(out: Path) -> None:
    """Make the folder, unless it holds a run of the user's own."""
    if (out / RUN).exists() and not read_record(out).demo:
        raise UserError(f"{out} holds a run of your own; give another --out.")
    files.make(out)


def wine(out: Path, seed: int, quiet: bool) -> int:
    """Cluster the wine measurements, some rows spoiled, and say how well it went."""
    import pandas as pd

    from cavity.datasets import load_wine_with_bad_rows

    _prepare(out)
    table, truth = load_wine_with_bad_rows(random_state=0)
    data = out / "wine.csv"
    write_text(data, table.to_csv())
    if not quiet:
        say(
            wrap(
                f"{len(table)} wines of three cultivars with {table.shape[1]} measurements each; "
                f"{int(truth.spoiled.sum())} rows are spoiled as in a laboratory. The cultivars "
                "are kept aside: only the measurements are clustered, into at most three, and what "
                "belongs to none may be outside.",
                "",
            )
        )
        say(f"\nThe same by hand: cavity fit {data} --id-column sample --clusters 3\n")
    choice = Choice(id_column=str(table.index.name))
    settings: dict[str, Any] = {"n_clusters": 3, "random_state": seed}
    code = runs.fit(
        data, out, "student-t", choice, settings, overwrite=True, quiet=quiet, demo=True
    )
    if not quiet:
        labels = pd.read_csv(out / files.LABELS)
        say("\n" + _verdict(labels, truth))
    return code


def table(out: Path, seed: int, quiet: bool) -> int:
    """Cluster flowers of which half have no name, and say how well the gaps are filled."""
    import numpy as np
    import pandas as pd

    from cavity.datasets import load_iris_with_gaps

    _prepare(out)
    gappy, whole = load_iris_with_gaps(random_state=0)
    data = out / "iris.csv"
    write_text(data, gappy.to_csv())
    if not quiet:
        say(
            wrap(
                f"{len(gappy)} iris flowers, four measurements and the species of each. The table "
                "is real; one in ten measurements and every second name, taken at random, were "
                "emptied, and are kept aside.",
                "",
            )
        )
        say(f"\nThe same by hand: cavity fit {data} --id-column flower --clusters 3\n")
    choice = Choice(id_column=str(gappy.index.name))
    settings: dict[str, Any] = {"n_clusters": 3, "random_state": seed}
    code = runs.fit(data, out, "auto", choice, settings, overwrite=True, quiet=quiet, demo=True)
    if not quiet:
        cells = pd.read_csv(out / files.IMPUTED)
        named = (cells["column"] == "species").to_numpy()
        held = [whole.loc[row, name] for row, name in cells[["row", "column"]].to_numpy()]
        right = np.array([value == h for value, h in zip(cells["value"], held, strict=True)])
        truth = np.array([np.nan if n else h for h, n in zip(held, named, strict=True)], float)
        inside = (cells["lower"].to_numpy() <= truth) & (truth <= cells["upper"].to_numpy())
        say(
            "\n"
            + wrap(
                f"How well are gaps filled? Of {int(named.sum())} flowers without a name "
                f"{right[named].mean():.0%} are named right, and of {int((~named).sum())} emptied "
                f"measurements {inside[~named].mean():.0%} lie in their 90% intervals.",
                "",
            )
        )
    return code


def series(out: Path, seed: int, quiet: bool) -> int:
    """Cluster generated series, noisy and full of gaps, and say how well it went."""
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
    data = out / "series.csv"
    write_text(data, table.to_csv(index=False))
    if not quiet:
        say(
            wrap(
                f"{len(values)} generated series over {values.shape[1]} months, {len(table):,} "
                "noisy observations with 30% missing. Four hidden factors move them; which series "
                "follows which is kept aside.",
                "",
            )
        )
        names = "--series shop --time month --value sales"
        say(f"\nThe same by hand: cavity fit {data} --model series {names} --clusters 6\n")
    choice = Choice(series="shop", time="month", value="sales")
    settings = {"n_clusters": 6, "random_state": seed}
    code = runs.fit(data, out, "series", choice, settings, overwrite=True, quiet=quiet, demo=True)
    if not quiet:
        labels = pd.read_csv(out / files.LABELS)["cluster"]
        score = adjusted_rand_score(truth.labels, labels)
        say(f"\nAgainst the truth: adjusted Rand index {score:.2f} (1 is perfect, 0 is chance).")
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
            "How well did it do? The cultivars, which it has not seen, against the clusters:",
            "",
            *("  " + line.rstrip() for line in crossed.to_string().splitlines()),
            "",
            wrap(
                f"Adjusted Rand index {whole:.2f} over all rows, {clean:.2f} over the good ones "
                f"(1 is perfect, 0 is chance). Of the {n_bad} spoiled rows "
                f"{int((outside & truth.spoiled).sum())} are outside every cluster "
                f"(and {int((outside & good).sum())} good ones), "
                f"{int((far & ~outside & truth.spoiled).sum())} more were singled out as far from "
                f"their cluster (and {int((far & ~outside & good).sum())} good ones)."
            ),
        ]
    )
