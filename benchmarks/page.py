"""Write the benchmarks page and the measured values on other pages from one table.

    python -m benchmarks                  # measure everything (some minutes), then write
    python -m benchmarks speed            # measure one section again, keep the others
    python -m benchmarks --write          # write the pages from the table without measuring

The table is ``docs/benchmarks.csv``, with the machine and the date. The page is
``docs/benchmarks.md``. In the README and on pages a value stands between two comments,
``<!-- measured: section/case/method/measure -->`` and ``<!-- end -->``. This command fills them in,
and a test compares them with the table.
"""

from __future__ import annotations

import argparse
import datetime
import os
import platform
import re
import subprocess
from pathlib import Path

import pandas as pd

from benchmarks.measure import MAX_SWEEPS, SECTIONS, SEEDS, measure

ROOT = Path(__file__).parents[1]
TABLE = ROOT / "docs" / "benchmarks.csv"
PAGE = ROOT / "docs" / "benchmarks.md"
COLUMNS = ["section", "case", "method", "measure", "value", "unit"]
MARK = re.compile(r"(<!-- measured: (.*?) -->)(.*?)(<!-- end -->)", re.DOTALL)


def read_table() -> pd.DataFrame:
    """Read the table of results."""
    return pd.read_csv(TABLE, keep_default_na=False, dtype=str)


def in_words(value: float, unit: str) -> str:
    """Format a value with two or three digits and its unit.

    Examples
    --------
    >>> in_words(13.94, "s"), in_words(0.0364, ""), in_words(1234.5, "B")
    ('14 s', '0.04', '1,234 B')
    """
    if unit == "":
        return f"{value:.2f}"
    digits = 0 if value >= 10 else 1 if value >= 1 else 2
    return f"{value:,.{digits}f} {unit}"


def figure(table: pd.DataFrame, name: str) -> str:
    """Look up a value by section/case/method/measure, or by two words such as ``about/date``."""
    parts = name.split("/")
    found = table
    for column, part in zip(COLUMNS, parts, strict=False):
        found = found[found[column] == part]
    if len(found) != 1:
        raise KeyError(f"{name!r} names {len(found)} figures of {TABLE.name}")
    row = found.iloc[0]
    return row["value"] if parts[0] == "about" else in_words(float(row["value"]), row["unit"])


def fill(text: str, table: pd.DataFrame) -> str:
    """Fill in measured values; sections that were not measured keep their text."""
    measured = set(table["section"])

    def put(mark: re.Match) -> str:
        known = mark.group(2).split("/")[0] in measured
        words = figure(table, mark.group(2)) if known else mark.group(3)
        return mark.group(1) + words + mark.group(4)

    return MARK.sub(put, text)


def pages_with_figures() -> list[Path]:
    """Return the README and the pages with measured values."""
    pages = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
    return [path for path in pages if MARK.search(path.read_text(encoding="utf-8"))]


def about() -> list[tuple[str, ...]]:
    """Return the date, the machine and the versions."""
    import numba
    import numpy
    import sklearn

    import cavity

    def of_git(*words: str) -> str:
        run = subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True, check=False)
        return run.stdout.strip()

    processor = platform.processor() or platform.machine()
    if os.path.exists("/proc/cpuinfo"):
        names = re.findall(r"^model name\s*: (.*)$", Path("/proc/cpuinfo").read_text(), re.M)
        processor = names[0] if names else processor
    changed = " with changes" if of_git("status", "--porcelain", "src") else ""
    facts = {
        "date": datetime.date.today().isoformat(),
        "machine": f"{processor}, {os.cpu_count()} processors, {platform.system()}",
        "load": f"{os.getloadavg()[1]:.1f}" if hasattr(os, "getloadavg") else "unknown",
        "cavity": cavity.__version__,
        "commit": (of_git("rev-parse", "--short", "HEAD") or "unknown") + changed,
        "Python": platform.python_version(),
        "NumPy": numpy.__version__,
        "Numba": numba.__version__,
        "scikit-learn": sklearn.__version__,
    }
    return [("about", name, "", "", value, "") for name, value in facts.items()]


def _cells(table: pd.DataFrame, section: str, measure: str) -> pd.DataFrame:
    part = table[(table["section"] == section) & (table["measure"] == measure)]
    words = [in_words(float(v), u) for v, u in zip(part["value"], part["unit"], strict=True)]
    return (
        part.assign(words=words)
        .pivot(index="case", columns="method", values="words")
        .loc[part["case"].unique(), part["method"].unique()]
    )


def _markdown(cells: pd.DataFrame) -> str:
    lines = ["| | " + " | ".join(cells.columns) + " |", "| --- " * (cells.shape[1] + 1) + "|"]
    rows = cells.fillna("").itertuples()
    lines += [f"| {row[0]} | " + " | ".join(map(str, row[1:])) + " |" for row in rows]
    return "\n".join(lines)


HEAD = """\
# Benchmarks

Measured on {date}: {machine} (load {load} at the start), cavity {cavity} at commit {commit},
Python {Python}, NumPy {NumPy}, Numba {Numba}, scikit-learn {scikit-learn}. `python -m benchmarks`
measures everything again and writes this page and [its table](benchmarks.csv). If the machine has
other work to do, wall times are too long; ratios and processor times are little affected.
"""
START = """
## First use

Wheels contain the most common kernels; others are compiled on first use and cached. Wall time of a
very small fit on a new machine, from a wheel and from source, and of a later process until its
first sweep is done, imports included:

{}

Importing scikit-learn alone accounts for {} of each.
"""
SPEED = """
## Sweeps

Processor time of one sweep of a default fit, including moves and hyperparameters, and of one EM
iteration of scikit-learn's `GaussianMixture` on the same data, in alternation on one thread. A fit
takes hundreds to thousands of sweeps; EM takes tens of iterations per start:

{}
"""
MEMORY = """
## Memory

A fit of a million rows in three columns takes {} per row in addition to the data.
"""
ACCURACY = """
## Accuracy compared with other methods

Adjusted Rand index on the rows with a known group. EM, k-means and HDBSCAN get scaled columns, EM
and k-means also the true number of groups. cavity (`StudentTMixture`) may use up to two clusters
more than that, and at most {sweeps:,} sweeps. Outliers are spread over three times the range.
Simulated data and outliers use seeds {seeds}, which were not used for any choice.

{scores}

Wall time of one fit, all threads:

{seconds}

The results differ in kind: the other methods return one partition, cavity draws from the posterior
over partitions with certainties and a convergence verdict.
"""
FOOT = """
## More studies

Each file of `benchmarks/` is a study with its own options: `mixtures.py` (growth with rows,
clusters and columns), `convergence.py` (which tables converge), `accuracy.py`, `losses.py`,
`missing.py`, `tables.py`, `series.py`, `series_model.py`, `scale.py`, `first_fit.py`. Results are
on the page [Benchmark studies](studies.md).
"""


def _start(table: pd.DataFrame) -> str:
    names = [
        name for name in table[table["section"] == "start"]["measure"].unique() if name != "alone"
    ]
    cells = [_cells(table, "start", name).rename(columns={"cavity": name}) for name in names]
    return START.format(_markdown(pd.concat(cells, axis=1)), figure(table, "start/imports"))


def _speed(table: pd.DataFrame) -> str:
    sweeps = _cells(table, "speed", "one sweep")
    ratios = _cells(table, "speed", "sweep over EM iteration").add_suffix(", over EM")
    iteration = _cells(table, "speed", "one iteration").add_prefix("one iteration of ")
    return SPEED.format(_markdown(pd.concat([sweeps, ratios, iteration], axis=1).T))


def _memory(table: pd.DataFrame) -> str:
    return MEMORY.format(figure(table, "memory"))


def _accuracy(table: pd.DataFrame) -> str:
    return ACCURACY.format(
        sweeps=MAX_SWEEPS,
        seeds=" and ".join(f"{s:,}" for s in SEEDS),
        scores=_markdown(_cells(table, "accuracy", "adjusted Rand index")),
        seconds=_markdown(_cells(table, "accuracy", "one fit")),
    )


def page_of(table: pd.DataFrame) -> str:
    """Return the text of the page."""
    facts = table[table["section"] == "about"].set_index("case")["value"]
    parts = {"start": _start, "speed": _speed, "memory": _memory, "accuracy": _accuracy}
    there = set(table["section"])
    return HEAD.format(**facts) + "".join(
        part(table) for name, part in parts.items() if name in there
    ) + FOOT  # fmt: skip


def write(table: pd.DataFrame) -> None:
    """Write the page, and the values on other pages."""
    PAGE.write_text(page_of(table), encoding="utf-8")
    for path in pages_with_figures():
        path.write_text(fill(path.read_text(encoding="utf-8"), table), encoding="utf-8")


def keep(new: pd.DataFrame) -> None:
    """Replace the measured sections of the table."""
    old = read_table() if TABLE.exists() else new.iloc[:0]
    table = pd.concat([new, old[~old["section"].isin(new["section"])]])
    order = ["about", *SECTIONS]
    table = table.sort_values("section", key=lambda s: s.map(order.index), kind="stable")
    table.to_csv(TABLE, index=False, lineterminator="\n")


def main() -> None:
    """Measure and write."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("sections", nargs="*", metavar="section", help=", ".join(SECTIONS))
    parser.add_argument("--write", action="store_true", help="measure nothing, write the pages")
    options = parser.parse_args()
    unknown = set(options.sections) - set(SECTIONS)
    if unknown:
        parser.error(f"unknown section: {', '.join(sorted(unknown))}")
    if not options.write:
        for section in options.sections or SECTIONS:
            rows = about()
            for row in measure(section):
                rows.append((*row[:4], f"{row[4]:.6g}", row[5]))
                print(*rows[-1], sep="\t", flush=True)
            keep(pd.DataFrame(rows, columns=COLUMNS, dtype=str))
    write(read_table())


if __name__ == "__main__":
    main()
