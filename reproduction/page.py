"""Puts the results of all experiments on one page, with the figures beside it.

``python -m reproduction.page RESULTS DOCS`` reads the folders that ``python -m reproduction NAME
--out RESULTS/NAME`` left and writes ``DOCS/reproduction.md`` and ``DOCS/reproduction/*``. An
experiment without results there keeps the section that the page has of it.
"""

from __future__ import annotations

import json
import re
import shutil
import sys
from pathlib import Path

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
    """Write the page from the experiments that have results; return its path."""
    figures = docs / "reproduction"
    figures.mkdir(parents=True, exist_ok=True)
    path = docs / "reproduction.md"
    sections = _sections(path.read_text()) if path.exists() else {}
    for name in EXPERIMENTS:
        folder = results / name
        if (folder / "verdicts.json").exists():
            if json.loads((folder / "verdicts.json").read_text())["quick"]:
                raise ValueError(f"{folder} holds a quick run; the page is for full ones.")
            sections[name] = _section(name, folder, figures)
    written = {name: sections[name] for name in EXPERIMENTS if name in sections}
    times = ["| experiment | trials | work, one core |", "| --- | --- | --- |"]
    total = 0.0
    for name, text in written.items():
        trials, seconds = _size(text)
        times.append(f"| [{name}](#{name}) | {trials} | {seconds / 60:.1f} min |")
        total += seconds
    times += [f"| together | | {total / 60:.1f} min |", ""]
    times.append("With `--jobs 2` on two cores, each takes a little over half of its time.")
    path.write_text("\n".join([HEAD, "## What it took", "", *times, "", *written.values()]))
    return path


def _sections(page: str) -> dict[str, str]:
    """The experiments' sections of a page that is there."""
    parts = re.split(r"^(?=## )", page, flags=re.MULTILINE)
    named = {part.splitlines()[0].removeprefix("## "): part for part in parts if part}
    return {name: f"{part.rstrip()}\n" for name, part in named.items() if name in EXPERIMENTS}


def _size(section: str) -> tuple[int, float]:
    """Trials and seconds, as a section tells them."""
    trials = re.search(r" (\d+) trials\.$", section, flags=re.MULTILINE)
    seconds = re.search(r"^Work of all units: ([\d,]+) s\.$", section, flags=re.MULTILINE)
    assert trials is not None
    assert seconds is not None
    return int(trials[1]), float(seconds[1].replace(",", ""))


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
