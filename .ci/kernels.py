"""Compile the most common kernels ahead of time, for a wheel.

``python .ci/kernels.py FOLDER`` fits small tables and series with the defaults, records which
kernels this compiles for which types, and compiles them for every level of processors of this
kind (``cavity._numba.prebuilt``). Code compiled for a level is not run here, since this machine
may lack its instructions. Then

    CAVITY_KERNELS=FOLDER python -m build --wheel

adds the folder to a wheel for this Python and system.
"""

from __future__ import annotations

import importlib
import os
import pickle
import shutil
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from cavity._numba.prebuilt import Level

Noted = tuple[str, str, Any]  # a function's module and name, and the types of its arguments
# The modules to import, which register all functions, and the kernels.
Notes = tuple[list[str], list[Noted]]


def used_kernels() -> Notes:
    """Run common fits and record every kernel that they compile."""
    from cavity._numba.private import Kernel

    notes: dict[tuple[str, str, tuple[Any, ...]], None] = {}
    plain = Kernel.compile

    def noting(self: Any, sig: Any) -> Any:
        function = self.py_func
        notes[function.__module__, function.__qualname__, tuple(sig)] = None
        return plain(self, sig)

    Kernel.compile = noting  # type: ignore[method-assign]
    try:
        with tempfile.TemporaryDirectory() as folder:
            common_use(Path(folder))
    finally:
        Kernel.compile = plain  # type: ignore[method-assign]
    modules = [name for name in sys.modules if name.startswith("cavity.")]
    return modules, [note for note in notes if "<locals>" not in note[1]]


def common_use(folder: Path) -> None:
    """Run short fits of each kind with the defaults, and their most common methods."""
    import numpy as np

    from cavity import GaussianMixture, SeriesMixture, StudentTMixture, TableMixture
    from cavity.datasets import add_outliers, make_series, make_student_t, make_table

    short: dict[str, Any] = {
        "n_chains": 2, "n_warmup": 30, "n_draws": 30, "n_jobs": 1, "random_state": 0,
        "progress": False,
    }  # fmt: skip
    clean, _ = make_student_t(90, 3, 2, df=4, separation=10, random_state=1)
    spoiled, _ = add_outliers(clean, 0.1, random_state=0)
    gappy = np.where(np.random.default_rng(0).random(clean.shape) < 0.1, np.nan, clean)
    rounded = np.round(2 * clean) / 2
    for kind in (StudentTMixture, GaussianMixture):
        for values, more in (
            (clean, {}),
            (spoiled, {"noise": True}),
            (gappy, {}),
            (rounded, {}),
            (rounded, {"noise": True}),
        ):
            fit = kind(5, **short, **more).fit(values)
            fit.predict_proba(values)
            fit.score_samples(values)
            fit.tail_probabilities(values)
            fit.impute(values)
            fit.sample(5)
            fit.report(folder / "page.html", values)
        kind(5, **short, prior="dp").fit(clean)
        kind(5, **short, covariance_type="diag").fit(clean)
    StudentTMixture(5, **short).fit(clean).loo(clean)
    for missing in (0.0, 0.1):
        table, _ = make_table(90, missing=missing, random_state=0)
        tables = TableMixture(5, **short).fit(table)
        tables.predict_proba(table)
        tables.score_samples(table)
        tables.impute(table)
        tables.report(folder / "page.html", table)
    series, _ = make_series(12, 30, 2, missing=0.2, random_state=0)
    for common in (False, True):
        many = SeriesMixture(4, **short, common_factor=common).fit(series)
        many.forecast(3)
        many.predict_proba(series)
        many.report(folder / "page.html")


def compile_noted(notes: Notes) -> None:
    """Compile kernels for the processor that `NUMBA_CPU_NAME` names."""
    from cavity._numba.jit import compiled
    from cavity._numba.private import Kernel

    modules, kernels = notes
    for module in modules:
        importlib.import_module(module)
    for module, name, types in kernels:
        function: Any = importlib.import_module(module)
        for part in name.split("."):
            function = getattr(function, part)
        kernel = function if isinstance(function, Kernel) else compiled(function, ())
        kernel.compile(types)


def apart(*arguments: str, cache: str, **environment: str) -> subprocess.Popen[bytes]:
    """Run the script in a separate process with a separate cache."""
    return subprocess.Popen(
        [sys.executable, __file__, *arguments],
        env={**os.environ, "CAVITY_CACHE_DIR": cache, **environment},
    )


def finished(process: subprocess.Popen[bytes]) -> None:
    """Wait for a process, and exit if it failed."""
    if process.wait():
        sys.exit(f"kernels: {' '.join(map(str, process.args))} failed")


def compile_levels(notes: Notes, out: Path, levels: Sequence[Level]) -> None:
    """Compile kernels for all levels of processors in parallel, into `out`."""
    from cavity._numba.cache import package_stamp
    from cavity._numba.prebuilt import folder_name

    with tempfile.TemporaryDirectory() as name:
        noted = Path(name, "notes")
        noted.write_bytes(pickle.dumps(notes))
        processes = {
            level.name: apart(
                "--compile",
                str(noted),
                cache=f"{name}/{level.name}",
                NUMBA_CPU_NAME=level.name,
                NUMBA_CPU_FEATURES="",
            )
            for level in levels
        }
        for level, process in processes.items():
            finished(process)
            (made,) = Path(name, level, "kernels").iterdir()
            target = out / folder_name(package_stamp()) / level
            shutil.copytree(made, target, copy_function=shutil.copyfile, dirs_exist_ok=True)
            size = sum(path.stat().st_size for path in target.iterdir()) / 1e6
            print(f"{target}: {sum(1 for _ in target.glob('*.nbc'))} kernels, {size:.1f} MB")


def main(out: Path) -> None:
    """Find the kernels in use and compile them into `out`."""
    from cavity._numba.prebuilt import levels

    with tempfile.TemporaryDirectory() as name:
        finished(apart("--note", f"{name}/notes", cache=f"{name}/cache"))
        notes = pickle.loads(Path(name, "notes").read_bytes())
    compile_levels(notes, out, levels())


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    if sys.argv[1] == "--note":
        Path(sys.argv[2]).write_bytes(pickle.dumps(used_kernels()))
    elif sys.argv[1] == "--compile":
        compile_noted(pickle.loads(Path(sys.argv[2]).read_bytes()))
    else:
        main(Path(sys.argv[1]))
