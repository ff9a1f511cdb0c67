"""The paper's experiments, each one command: ``python -m reproduction NAME``."""

from __future__ import annotations

import importlib
import os
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from reproduction.harness import Experiment, Outcome

_MODULES = {
    "student-t": "student_t",
    "mnist": "mnist",
    "series-scaling": "series_scaling",
    "series": "series",
    "housing": "housing",
    "convergence": "convergence",
}

EXPERIMENTS = tuple(_MODULES)
"""Names that `reproduce` knows."""


def get_experiment(name: str) -> Experiment:
    """Return an experiment by its name."""
    if name not in _MODULES:
        raise ValueError(f"Unknown experiment {name!r}; known are {', '.join(EXPERIMENTS)}.")
    return importlib.import_module(f"reproduction.{_MODULES[name]}").EXPERIMENT


def reproduce(
    name: str,
    out: str | os.PathLike,
    *,
    trials: int | None = None,
    quick: bool = False,
    jobs: int = 1,
    data_home: str | os.PathLike | None = None,
    progress: bool | None = None,
) -> Outcome:
    """Run one of the paper's experiments, or what of it is still missing in the folder.

    Parameters
    ----------
    name : str
        One of `EXPERIMENTS`.
    out : path
        Folder for raw tables (CSV), figures (PNG and SVG), ``report.md`` and ``verdicts.json``.
    trials : int, optional
        Number of trials; the paper's by default.
    quick : bool
        A small run of everything, in seconds.
    jobs : int
        Processes to run at once, one thread each.
    data_home : path, optional
        Folder with data files, where an experiment needs real data.
    progress : bool, optional

    Returns
    -------
    Outcome
        The verdicts, the text of the report and the raw tables.

    Examples
    --------
    >>> import tempfile
    >>> outcome = reproduce("convergence", tempfile.mkdtemp(), quick=True)
    >>> outcome.verdicts[0].claim, outcome.verdicts[0].holds
    ('the error is zero at r = 0', True)
    """
    from reproduction.harness import Settings, run_experiment

    experiment = get_experiment(name)
    if trials is None:
        trials = experiment.quick_trials if quick else experiment.trials
    for argument, value in {"trials": trials, "jobs": jobs}.items():
        if not isinstance(value, int) or value < 1:
            raise ValueError(f"{argument} must be a positive integer; got {value!r}.")
    home = None if data_home is None else os.fspath(data_home)
    settings = Settings(trials, quick, jobs, home, progress)
    return run_experiment(experiment, settings, Path(out))


__all__ = ["EXPERIMENTS", "get_experiment", "reproduce"]
