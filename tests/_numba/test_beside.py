"""The second process of a first fit: it shares the cache, and nothing depends on it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time

import numba
import numpy as np
import pytest

from cavity._numba import beside
from cavity._numba.beside import compiled_beside, processors
from cavity.estimators.rehearsal import request_of


@pytest.fixture
def room(monkeypatch, tmp_path):
    """A new machine with two processors, and a folder for modules."""
    kernels = tmp_path / "cache" / "kernels" / "0123456789abcdef"
    kernels.mkdir(parents=True)
    monkeypatch.setattr(beside, "cache_directory", lambda: kernels)
    monkeypatch.setattr(beside, "kernels_are_kept", lambda: False)
    monkeypatch.setattr(beside, "processors", lambda: 2)
    monkeypatch.syspath_prepend(str(tmp_path))
    return tmp_path


def write_module(room, text):
    (room / "kernels_of_toys.py").write_text(text)


def test_it_runs_meanwhile_and_is_waited_for(room):
    write_module(
        room,
        "import json, os, pathlib, sys\n"
        "told = {'path': sys.path, 'cache': os.environ['CAVITY_CACHE_DIR']}\n"
        "(pathlib.Path(__file__).parent / 'told.json').write_text(json.dumps(told))\n",
    )
    with compiled_beside("kernels_of_toys"):
        pass
    told = json.loads((room / "told.json").read_text())
    assert told["cache"] == str(room / "cache")
    path = list(dict.fromkeys(map(os.path.abspath, sys.path)))
    assert list(dict.fromkeys(map(os.path.abspath, told["path"])))[: len(path)] == path


def test_it_is_given_its_arguments(room):
    write_module(
        room,
        "import pathlib, sys\n"
        "(pathlib.Path(__file__).parent / 'told.txt').write_text(' '.join(sys.argv[1:]))\n",
    )
    with compiled_beside("kernels_of_toys", "a", "b") as started:
        assert started
    assert (room / "told.txt").read_text() == "a b"


def test_its_failure_is_nobodys_concern(room, capfd):
    write_module(room, "raise OSError('no')")
    with compiled_beside("kernels_of_toys"):
        pass
    with compiled_beside("no_such_module_of_toys"):
        pass
    assert capfd.readouterr() == ("", "")


def test_it_ends_with_an_error_here(room, monkeypatch):
    write_module(room, "import time; time.sleep(60)")
    processes = []
    started = beside._started
    monkeypatch.setattr(
        beside, "_started", lambda m, **told: processes.append(started(m, **told)) or processes[0]
    )
    begun = time.monotonic()
    with pytest.raises(KeyboardInterrupt), compiled_beside("kernels_of_toys"):
        raise KeyboardInterrupt
    assert processes[0].returncode != 0
    assert time.monotonic() - begun < 30


def test_it_is_given_up_when_it_takes_too_long(room, monkeypatch):
    write_module(room, "import time; time.sleep(60)")
    monkeypatch.setattr(beside, "_PATIENCE", 0.2)
    begun = time.monotonic()
    with compiled_beside("kernels_of_toys"):
        pass
    assert time.monotonic() - begun < 30


@pytest.mark.parametrize(
    ("name", "answer"),
    [
        ("processors", 1),
        ("kernels_are_kept", True),
        ("cache_directory", None),
    ],
)
def test_it_is_not_started_where_it_cannot_help(room, monkeypatch, name, answer):
    monkeypatch.setattr(beside, name, lambda: answer)
    assert beside._started("kernels_of_toys", claims="") is None


@pytest.mark.parametrize("program", [None, "/usr/bin/blender", "/no/such/place/python3"])
def test_it_is_not_started_from_what_is_no_python(room, monkeypatch, program):
    monkeypatch.setattr(beside.multiprocessing.spawn, "get_executable", lambda: program)
    assert beside._started("kernels_of_toys", claims="") is None


@pytest.mark.parametrize(
    ("quota", "expected"),
    [("100000 100000", 1), ("50000 100000", 1), ("250000 100000", 2), ("max 100000", 4), (None, 4)],
)
def test_a_container_may_have_fewer_processors(monkeypatch, tmp_path, quota, expected):
    monkeypatch.setattr(numba.config, "NUMBA_NUM_THREADS", 4)
    monkeypatch.setattr(beside, "_QUOTA", tmp_path / "cpu.max")
    if quota is not None:
        (tmp_path / "cpu.max").write_text(f"{quota}\n")
    assert processors() == expected


COLLECT = """
import json, sys
from cavity._numba.jit import _Kernel
used = {
    f"{name}.{each}": sorted(map(str, kernel.signatures))
    for name, module in sys.modules.items() if name.startswith("cavity.posterior.")
    for each, kernel in vars(module).items()
    if isinstance(kernel, _Kernel) and kernel.__module__ == name and kernel.signatures
}
print(json.dumps(used))
"""
FIT = """
import warnings
import numpy as np
from cavity import GaussianMixture
warnings.simplefilter("ignore")
GaussianMixture(3, n_chains=2, n_warmup=1, n_draws=4, progress=False, random_state=0).fit(
    np.random.default_rng(0).standard_normal((12, 2))
)
"""


def signatures_after(code):
    run = subprocess.run(
        [sys.executable, "-c", code + COLLECT], capture_output=True, text=True, check=True
    )
    return json.loads(run.stdout)


def test_the_rehearsal_compiles_all_that_a_fit_needs_for_its_answer():
    rehearsed = signatures_after("import cavity.posterior.rehearsal as r; r.rehearse()")
    needed = signatures_after(FIT)
    assert len(needed) >= 5
    missing = {name: s for name, s in needed.items() if not set(s) <= set(rehearsed.get(name, ()))}
    assert not missing


def run_with_cache(code, folder, *arguments):
    run = subprocess.run(
        [sys.executable, "-c", code, *arguments],
        env={**os.environ, "CAVITY_CACHE_DIR": str(folder)},
        capture_output=True,
        text=True,
        check=True,
    )
    return run.stdout.split()


COMPILED = """
import sys
from cavity._numba.cache import cache_directory
from cavity._numba.jit import _Kernel
compile = _Kernel.compile

def logged(self, sig):
    known = set(self.overloads)
    compile(self, sig)
    if set(self.overloads) - known and not self._cache_hits:
        print(self.py_func.__name__)
    return self.overloads[tuple(sig)].entry_point

_Kernel.compile = logged
"""
SHARE = (
    COMPILED
    + """
from cavity.estimators import rehearsal
rehearsal.rehearse_answer = lambda: None
rehearsal.rehearse(sys.argv[1])
"""
)
FIT_AFTER = (
    COMPILED
    + """
import warnings
import numpy as np
import cavity
warnings.simplefilter("ignore")
fit = getattr(cavity, sys.argv[1])(3, n_chains=1, n_warmup=1, n_draws=2, n_jobs=1).fit
fit(np.random.default_rng(0).standard_normal((12, 12)))
"""
)


def test_a_request_has_only_what_decides_the_kernels():
    settings = {"n_clusters": 3, "collapse": "collapsed", "init": np.zeros(10), "checkpoint": "a"}
    told = json.loads(request_of("GaussianMixture", settings, 2))
    assert set(told["settings"]) == {"n_clusters", "collapse"}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "n_columns", "beside_labels", "moves"),
    [
        ("GaussianMixture", 12, "draw_hyperparameters", "_all"),
        ("StudentTMixture", 12, "draw_tails", "_all"),
        ("SeriesMixture", 0, "refresh_series", "_of_whole_clusters"),
    ],
)
def test_a_fit_takes_what_was_compiled_on_request(tmp_path, name, n_columns, beside_labels, moves):
    left = run_with_cache(SHARE, tmp_path, request_of(name, {"n_clusters": 3}, n_columns))
    assert {beside_labels, "log_densities_of_all"} <= set(left)
    assert not {"sweep", moves} & set(left)
    compiled = run_with_cache(FIT_AFTER, tmp_path, name)
    assert {"sweep", moves} <= set(compiled)
    assert not set(left) & set(compiled)
