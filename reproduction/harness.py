"""Runs an experiment unit by unit: resumable, in parallel, raw results on disk first.

A *unit* is the smallest piece of work that is worth keeping, a dictionary of everything that
decides its result. Its tables are written under a name that hashes that dictionary, by a rename,
so a unit is either there or not; a run that was stopped goes on where it was.
"""

from __future__ import annotations

import concurrent.futures
import hashlib
import json
import multiprocessing
import os
import platform
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from cavity.datasets._files import FOLDER_VARIABLE
from cavity.utils.files import write_text
from cavity.utils.notices import NotConvergedWarning
from cavity.utils.progress import track

if TYPE_CHECKING:
    import pandas as pd

Unit = dict[str, Any]
Tables = dict[str, "pd.DataFrame"]

_THREAD_VARIABLES = (
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "MKL_NUM_THREADS",
    "NUMBA_NUM_THREADS",
    "VECLIB_MAXIMUM_THREADS",
)


class Verdict(NamedTuple):
    """One claim held against the measurements.

    Attributes
    ----------
    claim : str
        What the paper (or this study, where it goes further) says.
    measured : str
        The numbers that decide.
    holds : bool
    """

    claim: str
    measured: str
    holds: bool


@dataclass(frozen=True)
class Settings:
    """How an experiment is to be run."""

    trials: int
    quick: bool = False
    jobs: int = 1
    data_home: str | None = None
    progress: bool | None = None


@dataclass(frozen=True)
class Experiment:
    """One experiment of the paper.

    Attributes
    ----------
    name, title, paper : str
        Its command, what it shows, and where the paper shows it.
    trials : int
        Trials of a full run.
    units : callable
        ``units(settings)`` lists the units.
    run : callable
        ``run(unit)`` does one and returns tables by name. A function of a module: other processes
        call it.
    judge : callable
        ``judge(tables, settings)`` returns the verdicts.
    report : callable
        ``report(tables, settings, out)`` draws the figures into a folder and returns sections of
        text (tables in Markdown) by heading.
    prepare : callable, optional
        ``prepare(settings)`` does shared work once, before the units: fetching, embedding.
    quick_trials : int
        Trials of a quick run.
    discussion : str
        What a reader of the full results should know, in Markdown.
    """

    name: str
    title: str
    paper: str
    trials: int
    units: Callable[[Settings], list[Unit]]
    run: Callable[[Unit], Tables]
    judge: Callable[[Tables, Settings], list[Verdict]]
    report: Callable[[Tables, Settings, Path], dict[str, str]]
    prepare: Callable[[Settings], None] | None = None
    quick_trials: int = 2
    discussion: str = ""


@dataclass(frozen=True)
class Outcome:
    """What a run left.

    Attributes
    ----------
    out : Path
        Folder with the raw tables, figures and verdicts.
    verdicts : list of Verdict
    sections : dict of str to str
        Text of the report by heading.
    tables : dict of str to DataFrame
    seconds : float
        Work of all units, those of earlier runs included.
    """

    out: Path
    verdicts: list[Verdict]
    sections: dict[str, str]
    tables: Tables
    seconds: float
    files: list[Path] = field(default_factory=list)


def unit_name(unit: Unit) -> str:
    """Return a readable name of a unit that changes whenever the unit does.

    Examples
    --------
    >>> unit_name({"sampler": "ep", "trial": 3})
    'ep-3-0981cdee'
    """
    digest = hashlib.sha256(json.dumps(unit, sort_keys=True).encode()).hexdigest()[:8]
    words = [str(v).replace("/", "_").replace(" ", "_") for v in unit.values()]
    return "-".join([*words, digest])[-120:].lstrip("-.")


def run_experiment(experiment: Experiment, settings: Settings, out: Path) -> Outcome:
    """Run what is missing, then judge and draw all of it."""
    units_folder = out / "units"
    try:
        units_folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise OSError(f"Cannot write to {out}: {error.strerror or error}.") from error
    units = experiment.units(settings)
    missing = [u for u in units if not _is_done(units_folder, u)]
    if missing:
        # Where the data are must not change the name of a unit: it goes by the environment.
        with _environment(**{FOLDER_VARIABLE: settings.data_home}):
            if experiment.prepare is not None:
                experiment.prepare(settings)
            # Exhausting the iterator does the work; a unit is on disk before the next is counted.
            for _ in track(
                _run_all(experiment, missing, units_folder, settings.jobs),
                f"{experiment.name} ({len(units) - len(missing)} of {len(units)} units were there)",
                total=len(missing),
                progress=settings.progress,
                unit="units",
            ):
                pass
    tables, seconds = _collect(units_folder, units)
    files = []
    for name, table in tables.items():
        path = out / f"{name}.csv"
        write_text(path, table.to_csv(index=False))
        files.append(path)
    verdicts = experiment.judge(tables, settings)
    sections = experiment.report(tables, settings, out)
    files += sorted([*out.glob("*.png"), *out.glob("*.svg")])
    outcome = Outcome(out, verdicts, sections, tables, seconds, files)
    write_text(out / "report.md", to_markdown(experiment, settings, outcome))
    write_text(
        out / "verdicts.json",
        json.dumps(
            {
                "experiment": experiment.name,
                "quick": settings.quick,
                "trials": settings.trials,
                "seconds": round(seconds, 1),
                "machine": f"{platform.machine()}, {os.cpu_count()} cores",
                "verdicts": [v._asdict() for v in verdicts],
            },
            indent=1,
        ),
    )
    return outcome


def to_markdown(experiment: Experiment, settings: Settings, outcome: Outcome) -> str:
    """Return the report of a run: verdicts first, then sections and figures."""
    lines = [f"# {experiment.title}", "", f"{experiment.paper}. {settings.trials} trials."]
    if settings.quick:
        lines += ["", "A quick run: it shows that everything works, not what is true."]
    lines += ["", "| claim | measured | verdict |", "| --- | --- | --- |"]
    for v in outcome.verdicts:
        # A bar, as around a loading's size, would end the cell.
        claim, measured = (text.replace("|", "\\|") for text in (v.claim, v.measured))
        lines.append(f"| {claim} | {measured} | {'holds' if v.holds else '**does not hold**'} |")
    for heading, text in outcome.sections.items():
        lines += ["", f"## {heading}", "", text]
    for path in outcome.files:
        if path.suffix == ".png":
            lines += ["", f"![{path.stem}]({path.name})"]
    lines += ["", f"Work of all units: {outcome.seconds:,.0f} s.", ""]
    return "\n".join(lines)


def _run_all(experiment: Experiment, units: list[Unit], folder: Path, jobs: int) -> Iterator[None]:
    if jobs <= 1:
        for unit in units:
            _run_one(experiment.run, unit, folder)
            yield None
        return
    # New processes rather than forks: threads of the numerical libraries do not survive a fork.
    context = multiprocessing.get_context("spawn")
    with (
        # One thread each, so that samplers are compared on equal terms.
        _environment(**dict.fromkeys(_THREAD_VARIABLES, "1")),
        concurrent.futures.ProcessPoolExecutor(jobs, mp_context=context) as pool,
    ):
        futures = [pool.submit(_run_one, experiment.run, unit, folder) for unit in units]
        try:
            for future in concurrent.futures.as_completed(futures):
                future.result()
                yield None
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise


@contextmanager
def _environment(**variables: str | None) -> Iterator[None]:
    """Set variables for this process and the ones it starts; None leaves one as it is."""
    before = {name: os.environ.get(name) for name in variables}
    os.environ.update({name: value for name, value in variables.items() if value is not None})
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


def _run_one(run: Callable[[Unit], Tables], unit: Unit, folder: Path) -> None:
    from threadpoolctl import threadpool_limits

    started = time.perf_counter()
    with threadpool_limits(1), warnings.catch_warnings():
        # The studies follow single chains from their first sweep, which are never called converged.
        warnings.simplefilter("ignore", NotConvergedWarning)
        tables = run(unit)
    note = {"unit": unit, "seconds": time.perf_counter() - started, "tables": list(tables)}
    name = unit_name(unit)
    for table_name, table in tables.items():
        write_text(folder / f"{name}.{table_name}.csv", table.to_csv(index=False))
    # The note comes last: with it the unit counts as done.
    write_text(folder / f"{name}.json", json.dumps(note))


def _is_done(folder: Path, unit: Unit) -> bool:
    return (folder / f"{unit_name(unit)}.json").exists()


def _collect(folder: Path, units: list[Unit]) -> tuple[Tables, float]:
    import pandas as pd

    parts: dict[str, list[pd.DataFrame]] = {}
    seconds = 0.0
    for unit in units:
        name = unit_name(unit)
        note = json.loads((folder / f"{name}.json").read_text())
        seconds += note["seconds"]
        for table_name in note["tables"]:
            table = pd.read_csv(folder / f"{name}.{table_name}.csv")
            parts.setdefault(table_name, []).append(table)
    return {name: pd.concat(tables, ignore_index=True) for name, tables in parts.items()}, seconds
