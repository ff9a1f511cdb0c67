"""Numba makes no promise about its internals: a missing one is named here, not met in a fit."""

from __future__ import annotations

import ast
import contextlib
import importlib
import inspect
import io
import os
import subprocess
import sys
from pathlib import Path

import pytest

import cavity
from cavity._numba.cache import cache_directory

NUMBA = Path(cavity.__file__).parent / "_numba"
# Documented by Numba; `cgutils` in its chapter on extensions.
PUBLIC = {"numba", "numba.types", "numba.extending", "numba.core.cgutils", "llvmlite"}

# What these use beyond the documented interface, and what for.
INTERNALS = {
    "numba._dynfunc.make_function": "functions that are only linked into kernels",
    "numba.core.base.BaseContext.insert_user_function": "the lowering of parts",
    "numba.core.boxing.unbox_numpy_random_bitgenerator": "generators",
    "numba.core.caching.CompileResultCacheImpl._locator_classes": "the place of the cache",
    "numba.core.caching.CompileResultCacheImpl.filename_base": "names in the cache",
    "numba.core.caching.CompileResultCacheImpl.locator": "the stamp of the cache",
    "numba.core.caching.CompileResultCacheImpl.rebuild": "kernels that came with the package",
    "numba.core.caching.FunctionCache._index_key": "kernels that came with the package",
    "numba.core.caching.FunctionCache.load_overload": "reading the cache",
    "numba.core.caching.FunctionCache.save_overload": "writing the cache",
    "numba.core.caching.IndexDataCacheFile._data_path": "sealed files",
    "numba.core.caching.IndexDataCacheFile._load_index": "sealed files",
    "numba.core.caching.IndexDataCacheFile._save_index": "sealed files",
    "numba.core.caching._CacheLocator": "the place of the cache",
    "numba.core.codegen.JITCPUCodegen.magic_tuple": "kernels that came with the package",
    "numba.core.codegen.JITCodeLibrary._get_module_for_linking": "linking parts",
    "numba.core.codegen.JITCPUCodegen._pass_builder": "tidying instead of optimizing",
    "numba.core.codegen.JITCodeLibrary._optimize_functions": "tidying instead of optimizing",
    "numba.core.codegen.JITCodeLibrary.finalize": "parts that are never optimized alone",
    "numba.core.compiler.CompilerBase.define_pipelines": "the pipeline of parts",
    "numba.core.compiler.DefaultPassBuilder.define_nopython_pipeline": "the pipeline of parts",
    "numba.core.compiler_machinery.PassManager.finalize": "the pipeline of parts",
    "numba.core.compiler_machinery.register_pass": "the lowering of parts",
    "numba.core.pythonapi._unboxers.functions": "generators",
    "numba.core.registry.CPUDispatcher.__call__": "refusing calls of parts from Python",
    "numba.core.registry.CPUDispatcher.compile": "no collection of garbage meanwhile",
    "numba.core.registry.CPUDispatcher.get_call_template": "the types of calls of parts",
    "numba.core.registry.CPUDispatcher.get_overload": "calls of parts",
    "numba.core.registry.CPUDispatcher.typeof_pyval": "states given by address",
    "numba.core.serialize.dumps": "sealed files",
    "numba.core.typed_passes.NativeLowering.run_pass": "the lowering of parts",
    "numba.np.linalg": "the Cholesky factorization of LAPACK",
    "numba.core.typing.templates.AttributeTemplate": "the fields of states",
}
# Attributes that objects get when they are made, by the text of the code that sets them.
SET_BY = {
    "numba.core.caching.IndexDataCacheFile.__init__": (
        "self._index_name",
        "self._index_path",
        "self._source_stamp",
    ),
    "numba.core.caching.Cache.__init__": ("self._cache_file", "self._cache_path", "self._impl"),
    "numba.core.codegen.CPUCodeLibrary.__init__": (
        "self._linking_libraries",
        "self._final_module",
    ),
    "numba.core.compiler.CompilerBase.__init__": ("self.state.pipeline",),
    "numba.core.dispatcher.Dispatcher.__init__": ("self._cache",),
}


def look_up(dotted):
    """The object of a dotted name; the first part that is missing is named."""
    parts = dotted.split(".")
    found, name = importlib.import_module(parts[0]), parts[0]
    for part in parts[1:]:
        name = f"{name}.{part}"
        if hasattr(found, part):
            found = getattr(found, part)
            continue
        try:
            found = importlib.import_module(name)
        except ImportError:
            raise AssertionError(f"this Numba has no {name}") from None
    return found


@pytest.mark.parametrize("dotted", INTERNALS)
def test_the_internals_in_use_are_there(dotted):
    try:
        look_up(dotted)
    except AssertionError as error:
        raise AssertionError(f"{error}; cavity uses it for {INTERNALS[dotted]}") from None


@pytest.mark.parametrize("where", SET_BY)
def test_the_attributes_in_use_are_set(where):
    text = inspect.getsource(look_up(where))
    missing = [name for name in SET_BY[where] if name not in text]
    assert not missing, f"{where} of this Numba no longer sets {missing}"


@pytest.mark.parametrize("name", ["_nrt", "no_cfunc_wrapper", "no_cpython_wrapper", "forceinline"])
def test_the_options_in_use_are_known(name):
    known = hasattr(look_up("numba.core.cpu.CPUTargetOptions"), name)
    assert known, f"the compiler of this Numba has no option {name}"


def test_a_missing_internal_is_named():
    with pytest.raises(AssertionError, match=r"has no numba\.core\.caching\._Gone"):
        look_up("numba.core.caching._Gone.attribute")


def imported(path):
    """Dotted names that a module imports from Numba, those of documented modules apart."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("numba"):
            names = {f"{node.module}.{alias.name}" for alias in node.names}
            is_private = {name for name in names if name.rpartition(".")[2].startswith("_")}
            found |= is_private if node.module in PUBLIC else names - PUBLIC
        elif isinstance(node, ast.Import):
            names = {alias.name for alias in node.names}
            found |= {name for name in names if name.startswith("numba.")} - PUBLIC
    return found


def test_everything_imported_from_inside_numba_is_listed():
    used = imported(NUMBA / "private.py")
    assert len(used) >= 8
    unlisted = [u for u in used if not any(f"{i}.".startswith(f"{u}.") for i in INTERNALS)]
    assert not unlisted


def test_no_other_module_imports_from_inside_numba():
    for path in NUMBA.parent.rglob("*.py"):
        if path.name != "private.py":
            assert not imported(path), path


def test_the_trial_of_a_newer_numba_passes_with_this_one():
    from cavity._numba import private

    private.try_out()


SMALL = """
import logging, sys
logging.basicConfig(format="%(message)s", stream=sys.stdout)
{before}
from cavity._numba import jit
from cavity._numba.numerics import digamma
print(jit.private is None, round(digamma(1.0), 6))
"""


@pytest.mark.variants("slow", "as it is", "newer", "no import", "on request")
@pytest.mark.parametrize(
    ("before", "plain"),
    [
        ("", False),
        ("import os; os.environ['CAVITY_PLAIN_NUMBA'] = '1'", True),
        ("import numba.core.codegen as c; del c.JITCodeLibrary", True),
        ("import numba; numba.__version__ = '0.99.1'", False),
        (
            "import numba; numba.__version__ = '0.99.1'\n"
            "from cavity._numba import structs; structs._words = None",
            True,
        ),
    ],
    ids=["as it is", "on request", "no import", "newer", "newer and different"],
)
def test_where_internals_are_missing_numba_compiles_alone(tmp_path, before, plain):
    out = run(SMALL.format(before=before), tmp_path)
    assert out.splitlines()[-1] == f"{plain} -0.577216"
    assert ("compiling takes longer" in out) == (plain and "environ" not in before)


FIT = """
import warnings
import numpy as np
from cavity import GaussianMixture
from cavity._numba import jit
warnings.simplefilter("ignore")
X = np.random.default_rng(0).standard_normal((20, 2)) + 8.0 * (np.arange(20) % 2)[:, None]
fit = GaussianMixture(3, n_chains=1, n_warmup=5, n_draws=5, random_state=0, progress=False).fit(X)
print(jit.private is None, fit.labels_.tolist(), fit.posterior_.labels.sum())
"""


def run(code, folder, **environment):
    ran = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "CAVITY_CACHE_DIR": str(folder), **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    return ran.stdout


@pytest.mark.slow
def test_a_fit_without_numba_s_internals_gives_the_same_draws():
    """In the usual cache, since it takes a minute to compile."""
    folder = os.environ.get("CAVITY_CACHE_DIR") or cache_directory().parent.parent
    usual = run(FIT, folder)
    plain = run(FIT, folder, CAVITY_PLAIN_NUMBA="1")
    assert usual.startswith("False [")
    assert plain == usual.replace("False", "True", 1)


IN_PYTHON = """
import warnings
import numpy as np
from cavity import StudentTMixture
warnings.simplefilter("ignore")
X = np.random.default_rng(0).standard_normal((8, 1)) + 8.0 * (np.arange(8) % 2)[:, None]
fit = StudentTMixture(2, n_chains=1, n_warmup=2, n_draws=3, random_state=0, progress=False).fit(X)
print(fit.labels_.tolist(), fit.posterior_.labels.tolist(), fit.posterior_.log_joint.round(6))
"""


@pytest.mark.slow
def test_kernels_in_python_draw_what_compiled_ones_do():
    folder = os.environ.get("CAVITY_CACHE_DIR") or cache_directory().parent.parent
    with contextlib.redirect_stdout(io.StringIO()) as compiled:
        exec(IN_PYTHON, {})
    assert run(IN_PYTHON, folder, NUMBA_DISABLE_JIT="1") == compiled.getvalue()
