"""Numba makes no promise about its internals: a missing one is named here, not met in a fit."""

from __future__ import annotations

import ast
import importlib
import importlib.metadata
import inspect
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.version import Version

from cavity._numba import cache, generators, pipeline
from cavity._numba import jit as compile
from cavity._numba import structs as states

SOURCES = [Path(module.__file__) for module in (cache, compile, generators, pipeline, states)]
PUBLIC = {"numba", "numba.extending", "llvmlite"}

# What these use beyond the documented interface, and what for.
INTERNALS = {
    "numba.config.DISABLE_JIT": "refusing to run without the compiler",
    "numba.config.CPU_NAME": "kernels that came with the package",
    "numba.config.CPU_FEATURES": "kernels that came with the package",
    "numba.core.codegen.JITCPUCodegen.magic_tuple": "kernels that came with the package",
    "numba.core.caching.FunctionCache._index_key": "kernels that came with the package",
    "numba.core.caching.CompileResultCacheImpl.rebuild": "kernels that came with the package",
    "numba._dynfunc.make_function": "functions that are only linked into kernels",
    "numba.core.types.void": "the type of wide_vectors",
    "numba.core.types.unliteral": "parts that are compiled once whatever constants they get",
    "numba.core.codegen.JITCodeLibrary.finalize": "parts that are never optimised alone",
    "numba.core.codegen.JITCodeLibrary._get_module_for_linking": "linking parts",
    "numba.core.codegen.JITCodeLibrary._optimize_functions": "tidying instead of optimising",
    "numba.core.codegen.JITCPUCodegen._pass_builder": "tidying instead of optimising",
    "numba.core.codegen.JITCodeLibrary.enable_object_caching": "kernels that can be kept",
    "numba.core.cgutils.gep_inbounds": "states given by address",
    "numba.core.cgutils.alloca_once_value": "states given by address",
    "numba.core.cgutils.false_bit": "states given by address",
    "numba.core.compiler.Compiler.define_pipelines": "Numba's own functions as parts",
    "numba.core.compiler.Flags.options": "flags that compare fast",
    "numba.core.types.functions.BaseFunction.get_call_type": "operators, asked once",
    "numba.core.types.functions.BaseFunction.get_impl_key": "operators, asked once",
    "numba.core.ir.Inst._rec_list_vars": "variables of instructions, found sooner",
    "numba.core.ir.Var": "variables of instructions, found sooner",
    **{
        f"numba.core.ir.{kind}": "variables of instructions, found sooner"
        for kind in ("Loc", "UndefinedType", "Global", "Const", "Arg")
    },
    "numba.core.types.Number": "operators, asked once",
    "numba.core.types.Boolean": "operators, asked once",
    "numba.core.types.Literal": "operators, asked once",
    "numba.core.types.BaseTuple": "operators, asked once",
    "numba.core.compiler.Flags._values": "flags that compare fast",
    "numba.core.compiler_lock.global_compiler_lock": "Numba's own functions as parts",
    "numba.core.compiler.CompilerBase.define_pipelines": "the pipeline of parts",
    "numba.core.compiler.DefaultPassBuilder.define_nopython_pipeline": "the pipeline of parts",
    "numba.core.compiler_machinery.register_pass": "the lowering of parts",
    "numba.core.compiler_machinery.PassManager.finalize": "the pipeline of parts",
    "numba.core.registry.CPUDispatcher.__call__": "refusing calls of parts from Python",
    "numba.core.registry.CPUDispatcher.compile": "no collection of garbage meanwhile",
    "numba.core.registry.CPUDispatcher.get_call_template": "the types of calls of parts",
    "numba.core.registry.CPUDispatcher.get_overload": "calls of parts",
    "numba.core.registry.CPUDispatcher.typeof_pyval": "states given by address",
    "numba.core.datamodel.models.PrimitiveModel": "states given by address",
    "numba.core.types.Array": "states given by address",
    "numba.core.typing.templates.AttributeTemplate": "the fields of states",
    "numba.core.typed_passes.InlineOverloads": "a pass that is left out",
    "numba.core.typed_passes.NopythonRewrites": "a pass that is left out",
    "numba.core.untyped_passes.InlineClosureLikes": "a pass that is left out",
    "numba.core.base.BaseContext.unpack_value": "the fields of states",
    "numba.core.base.BaseContext.pack_value": "the fields of states",
    "numba.core.typed_passes.NativeLowering.run_pass": "the lowering of parts",
    "numba.core.base.BaseContext.insert_user_function": "the lowering of parts",
    "numba.core.caching._CacheLocator": "the place of the cache",
    "numba.core.caching.CompileResultCacheImpl._locator_classes": "the place of the cache",
    "numba.core.caching.CompileResultCacheImpl.filename_base": "names in the cache",
    "numba.core.caching.CompileResultCacheImpl.locator": "the stamp of the cache",
    "numba.core.caching.FunctionCache.load_overload": "reading the cache",
    "numba.core.caching.FunctionCache.save_overload": "writing the cache",
    "numba.core.caching.IndexDataCacheFile._load_index": "sealed files",
    "numba.core.caching.IndexDataCacheFile._save_index": "sealed files",
    "numba.core.caching.IndexDataCacheFile._data_path": "sealed files",
    "numba.core.serialize.dumps": "sealed files",
    "numba.core.boxing.unbox_numpy_random_bitgenerator": "generators",
    "numba.core.cgutils.create_struct_proxy": "generators",
    "numba.core.cgutils.get_or_insert_function": "generators",
    "numba.core.pythonapi.NativeValue": "generators",
    "numba.core.pythonapi._unboxers.functions": "generators",
    "numba.core.types.NumPyRandomBitGeneratorType": "generators",
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


def test_everything_imported_from_inside_numba_is_listed():
    used = {
        f"{node.module}.{alias.name}"
        for path in SOURCES
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("numba")
        for alias in node.names
        if node.module not in PUBLIC
    }
    assert len(used) >= 8
    unlisted = [u for u in used if not any(f"{i}.".startswith(f"{u}.") for i in INTERNALS)]
    assert not unlisted


@pytest.mark.parametrize("package", ["numba", "llvmlite"])
def test_numba_is_bounded_by_what_was_tested(package):
    import tomllib

    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]
    (bound,) = (r for r in map(Requirement, project["dependencies"]) if r.name == package)
    tested = Version(importlib.metadata.version(package))
    (oldest,) = (Version(s.version) for s in bound.specifier if s.operator == ">=")
    assert bound.specifier.contains(f"{tested.major}.{tested.minor}.99")
    # The environment of the oldest releases (.ci/oldest.txt) says nothing of the newest.
    if tested.release[:2] != oldest.release[:2]:
        assert not bound.specifier.contains(f"{tested.major}.{tested.minor + 1}.0")
