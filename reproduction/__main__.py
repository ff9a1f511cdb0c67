"""The paper's experiments as a command: ``python -m reproduction NAME --out DIR``, from a clone."""

from __future__ import annotations

import argparse
import sys
import textwrap
from pathlib import Path

from reproduction import EXPERIMENTS, get_experiment, reproduce


def main(arguments: list[str] | None = None) -> int:
    """Run one experiment and print its verdicts; without a name, list them all."""
    parser = argparse.ArgumentParser(prog="python -m reproduction", description=__doc__)
    parser.add_argument("name", nargs="?", help="experiment; without one they are listed")
    parser.add_argument("--out", type=Path, help="folder to write [default: results/NAME]")
    parser.add_argument("--quick", action="store_true", help="a small run, in seconds")
    parser.add_argument("--trials", type=int, help="trials; the paper's number if left out")
    parser.add_argument("--jobs", type=int, default=1, help="processes at once, one thread each")
    parser.add_argument("--data", type=Path, help="folder with data files, without internet")
    parser.add_argument("--quiet", action="store_true", help="print nothing")
    given = parser.parse_args(arguments)
    if given.name is None:
        print("Experiments of the paper:\n")
        width = max(map(len, EXPERIMENTS))
        for known in EXPERIMENTS:
            print(_wrap(f"{known:{width}}  {get_experiment(known).title}", " " * (width + 4), "  "))
        print("\nRun one with: python -m reproduction NAME   (--quick for a small run in seconds)")
        return 0
    if given.name not in EXPERIMENTS:
        parser.error(f"there is no experiment {given.name!r}; there are {', '.join(EXPERIMENTS)}")
    target = Path("results") / given.name if given.out is None else given.out
    outcome = reproduce(
        given.name,
        target,
        trials=given.trials,
        quick=given.quick,
        jobs=given.jobs,
        data_home=given.data,
        progress=not given.quiet,
    )
    if not given.quiet:
        for verdict in outcome.verdicts:
            word = "holds" if verdict.holds else "DOES NOT HOLD"
            print(_wrap(f"{word}: {verdict.claim} ({verdict.measured})", "  ", ""))
        if given.quick:
            print("\nThis was a quick run: it shows that everything works, not what is true.")
        print(f"\nReport, tables and figures: {target / 'report.md'}")
    return 0


def _wrap(text: str, later: str, first: str) -> str:
    return textwrap.fill(text, 100, initial_indent=first, subsequent_indent=later)


if __name__ == "__main__":
    sys.exit(main())
