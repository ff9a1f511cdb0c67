"""Puts the results of all experiments on one page, with the figures beside it.

``python -m reproduction.page RESULTS DOCS`` reads the folders that ``python -m reproduction NAME
--out RESULTS/NAME`` left and writes ``DOCS/reproduction.md`` and ``DOCS/reproduction/*``. Of an
experiment without a folder the page keeps what it says.
"""

from __future__ import annotations

import json
import re
import shutil
import sys
from pathlib import Path
from typing import NamedTuple

from reproduction import EXPERIMENTS, get_experiment

HEAD = """\
# The paper, reproduced

Aicher and Fox, *Approximate Collapsed Gibbs Clustering with Expectation Propagation* (2018). Every
figure and table of its experiments is one command, printed below its results; the verdicts are
computed from the measurements by the same command. Samplers start from the same labels and run on
one thread each; compilation and evaluation are not on the clock. Where a fast implementation
changes a ranking of the paper, the table says so.
"""


def write_page(results: Path, docs: Path) -> Path:
    """Write the page anew for the experiments that have results; return its path."""
    path = docs / "reproduction.md"
    before = path.read_text() if path.exists() else ""
    figures = docs / "reproduction"
    figures.mkdir(parents=True, exist_ok=True)
    parts = [HEAD]
    times = ["| experiment | trials | work, one core |", "| --- | --- | --- |"]
    total = 0.0
    for name in EXPERIMENTS:
        folder = results / name
        if not (folder / "verdicts.json").exists():
            kept = _kept(name, before)
            if kept is not None:
                times.append(kept.row)
                total += 60.0 * kept.minutes
                parts.append(kept.section)
                # What the head says of earlier runs is still true of them.
                parts[0] = before[: before.index("## What it took")].rstrip() + "\n"
            continue
        summary = json.loads((folder / "verdicts.json").read_text())
        if summary["quick"]:
            raise ValueError(f"{folder} holds a quick run; the page is for full ones.")
        times.append(
            f"| [{name}](#{name}) | {summary['trials']} | {summary['seconds'] / 60:.1f} min |"
        )
        total += summary["seconds"]
        parts.append(_section(name, folder, figures))
    times += [f"| together | | {total / 60:.1f} min |", ""]
    times.append("With `--jobs 2` on two cores, each takes a little over half of its time.")
    text = "\n".join([parts[0], "## What it took", "", *times, "", *parts[1:]])
    path.write_text(text)
    return path


class _Kept(NamedTuple):
    """What a page says of one experiment."""

    section: str
    row: str  # of the table of times
    minutes: float


def _kept(name: str, page: str) -> _Kept | None:
    """What the page says of an experiment; None if it has none."""
    section = re.search(rf"^## {re.escape(name)}\n.*?(?=^## |\Z)", page, re.S | re.M)
    row = re.search(rf"^\| \[{re.escape(name)}\].*\| ([0-9.]+) min \|$", page, re.M)
    if section is None or row is None:
        return None
    return _Kept(section[0].rstrip("\n") + "\n", row[0], float(row[1]))


def _section(name: str, folder: Path, figures: Path) -> str:
    experiment = get_experiment(name)
    report = (folder / "report.md").read_text().splitlines()
    lines = [f"## {name}", "", f"**{experiment.title}** ({experiment.paper})", ""]
    if experiment.discussion:
        lines += [experiment.discussion, ""]
    for line in report[1:]:
        if line.startswith("!["):
            stem = line[2 : line.index("]")]
            for suffix in (".png", ".svg"):
                shutil.copyfile(folder / f"{stem}{suffix}", figures / f"{stem}{suffix}")
            lines.append(f"[![{stem}](reproduction/{stem}.png)](reproduction/{stem}.svg)")
        else:
            # The experiment's own headings go one level down.
            lines.append(f"#{line}" if line.startswith("#") else line)
    lines += ["", "Remake it with", "", "```bash"]
    lines += [f"python -m reproduction {name} --jobs 2 --out results/{name}", "```"]
    return "\n".join([*lines, ""])


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit("Usage: python -m reproduction.page RESULTS DOCS")
    print(write_page(Path(sys.argv[1]), Path(sys.argv[2])))
