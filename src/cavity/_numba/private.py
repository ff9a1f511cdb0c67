"""All that is used of Numba's internals: it makes compiling and calls faster, nothing more.

Numba makes no promise about any of it. Where an import fails, or the first kernel that a newer
Numba compiles this way, `cavity._numba.jit` does without this module (``numba.njit(cache=True)``).

* A *part*, called by kernels alone, is linked into them as LLVM code: never optimized alone, never
  made executable, compiled once whatever constants it is called with. This halves the time.
* Kernels get NamedTuples by address (`cavity._numba.structs`), and generators by NumPy's own
  structure of pointers.
* Compiled code is kept in files with a checksum, named by a stamp of all kernel sources
  (`cavity._numba.cache`), or comes with the package (`cavity._numba.prebuilt`).
"""

from __future__ import annotations

import functools
import gc
import glob
import hashlib
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numba
import numpy as np
from llvmlite import ir
from llvmlite.binding import newpassmanagers
from numba import _dynfunc, types
from numba.core import boxing, caching, cgutils
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import CompilerBase, DefaultPassBuilder
from numba.core.compiler_machinery import register_pass
from numba.core.pythonapi import _unboxers
from numba.core.registry import CPUDispatcher
from numba.core.serialize import dumps
from numba.core.typed_passes import NativeLowering
from numba.core.typing.templates import AttributeTemplate
from numba.extending import NativeValue, infer_getattr
from numba.np import linalg

from cavity._numba.cache import (
    cache_directory,
    logger,
    package_stamp,
    read_sealed,
    say_uncached,
    write_sealed,
)
from cavity._numba.prebuilt import shipped_kernels
from cavity._numba.structs import StateType, kernel_type

# --------------------------------------------------------------------------- parts and kernels


class _PartLibrary(JITCodeLibrary):
    """Code that is only ever linked into a kernel: never optimized nor made executable alone."""

    def _optimize_functions(self, ll_module: Any) -> None:
        """Tidy what Numba wrote: variables from memory to registers, and what follows at once."""
        ll_module.data_layout = self._codegen._data_layout
        builder = self._codegen._pass_builder()
        for function in ll_module.functions:
            if not function.is_declaration:
                passes = newpassmanagers.create_new_function_pass_manager()
                passes.add_sroa_pass()
                passes.add_instruction_combine_pass()
                passes.add_simplify_cfg_pass()
                passes.run(function, builder)

    def finalize(self) -> None:
        for library in dict.fromkeys(self._linking_libraries):
            if hasattr(library, "_reload_init"):  # since Numba 0.63
                self._reload_init.update(library._reload_init)
            self._final_module.link_in(library._get_module_for_linking(), preserve=True)
        self._finalized = True


@register_pass(mutates_CFG=True, analysis_only=False)
class _PartLowering(NativeLowering):
    """Lowers a function for use by other compiled ones alone."""

    _name = "cavity_part_lowering"

    def run_pass(self, state: Any) -> bool:
        state.library = _PartLibrary(state.targetctx.codegen(), state.func_id.func_qualname)
        # Set here, not as options: Numba compiles its own functions, such as max or the methods
        # of a generator, once for every set of options among their callers.
        state.flags.no_compile = True
        state.flags.no_cpython_wrapper = True
        state.flags.no_cfunc_wrapper = True
        state.flags.forceinline = state.flags.forceinline or state.pipeline.inlined
        super().run_pass(state)
        lowered = state["cr"]
        fndesc = lowered.fndesc
        # Numba knows a compiled function by such an object; this one has no address to call.
        entry = _dynfunc.make_function(
            fndesc.lookup_module(), fndesc.qualname, "", 0, lowered.env, (state.library,)
        )
        state.targetctx.insert_user_function(entry, fndesc, [state.library])
        state.reload_init.extend(getattr(state.library, "_reload_init", ()))
        state["cr"] = lowered._replace(cfunc=entry)
        return True


class PartCompiler(CompilerBase):
    """Compiles a function for kernels."""

    inlined = False

    def define_pipelines(self) -> list[Any]:
        """Numba's passes, but for the lowering."""
        passes = DefaultPassBuilder.define_nopython_pipeline(self.state)
        passes.passes = [
            (_PartLowering if step is NativeLowering else step, words)
            for step, words in passes.passes
        ]
        passes.finalize()
        return [passes]


class InlinedPartCompiler(PartCompiler):
    """Compiles a function that is inlined wherever it is called."""

    inlined = True


# Reading one field of a NamedTuple would otherwise count every array in it, atomically, and cost
# ten times the arithmetic. So kernels make no arrays: they work in room that they are given.
_OPTIONS = {"no_cfunc_wrapper": True, "_nrt": False}


def part_options(options: dict[str, Any], forceinline: bool) -> dict[str, Any]:
    """Options of `numba.njit` for a function that only kernels call."""
    compiler = InlinedPartCompiler if forceinline else PartCompiler
    return {**options, **_OPTIONS, "pipeline_class": compiler}


def make_part(function: Callable, options: dict[str, Any], forceinline: bool) -> Any:
    """Return a function for kernels."""
    dispatcher = numba.njit(**part_options(options, forceinline))(function)
    dispatcher.__class__ = _Part
    return dispatcher


def make_kernel(
    function: Callable, options: dict[str, Any], forceinline: bool, extra_stamp: str
) -> Any:
    """Return a function that Python calls, with a cache in our folder.

    Parameters
    ----------
    function : callable
    options : dict
        Of `numba.njit`.
    forceinline : bool
        Inline it into kernels that call it.
    extra_stamp : str
        Stamp of the text outside the package that the function depends on; empty if none.
    """
    dispatcher = numba.njit(**options, **_OPTIONS)(function)
    dispatcher.__class__ = Kernel
    dispatcher.make_part = functools.partial(make_part, function, options, forceinline)
    if cache_directory() is not None or shipped_kernels(package_stamp()) is not None:
        locator = type("_Locator", (_StampedLocator,), {"extra_stamp": extra_stamp})
        impl = type("_Impl", (caching.CompileResultCacheImpl,), {"_locator_classes": [locator]})
        members = {"_impl_class": impl, "foreign": bool(extra_stamp)}
        dispatcher._cache = type("_Cache", (_StampedCache,), members)(function)
    return dispatcher


def entry_point(kernel: Kernel, args: tuple[Any, ...]) -> Callable:
    """Return the compiled form of a kernel for the types of these arguments.

    To find it, Numba looks at every array in every argument of every call, which takes longer
    than a sweep over a few observations does.
    """
    kinds = tuple(map(kernel_type, args))
    kernel.compile(kinds)
    return kernel.overloads[kinds].entry_point


class _Part(CPUDispatcher):
    """A function for kernels: a call from Python would jump to address zero, so it is refused."""

    def get_call_template(self, args: Any, kws: Any) -> Any:
        """Types of a call: a constant is of its plain type, not a reason to compile once more."""
        plain = {name: types.unliteral(kind) for name, kind in kws.items()}
        return super().get_call_template(tuple(map(types.unliteral, args)), plain)

    def __call__(self, *args: Any, **keywords: Any) -> Any:
        raise TypeError(
            f"{self.py_func.__name__} is compiled with internal=True: only kernels can call it"
        )


class Kernel(CPUDispatcher):
    """A function that Python calls; where kernels call it, it is a part of them like any other.

    It is compiled without pauses for garbage. The compiler makes millions of objects, most of
    them to stay: looking through them again and again for cycles takes a tenth of the time.
    """

    make_part: Callable[[], _Part]

    @functools.cached_property
    def part(self) -> _Part:
        """The same function for kernels."""
        return self.make_part()

    def compile(self, sig: Any) -> Any:
        """Compile for a call from Python."""
        collecting = gc.isenabled()
        gc.disable()
        try:
            return super().compile(sig)
        finally:
            if collecting:
                gc.enable()

    def typeof_pyval(self, val: Any) -> Any:
        """Type of an argument that the dispatcher does not know by itself."""
        if isinstance(val, tuple) and hasattr(val, "_fields"):
            return kernel_type(val)
        return super().typeof_pyval(val)

    def get_call_template(self, args: Any, kws: Any) -> Any:
        """Types of a call by a kernel."""
        return self.part.get_call_template(args, kws)

    def get_overload(self, sig: Any) -> Any:
        """The code that such a call is to."""
        return self.part.get_overload(sig)


# --------------------------------------------------------------------------- arguments


@infer_getattr
class _Fields(AttributeTemplate):
    key = StateType

    def generic_resolve(self, state: StateType, name: str) -> Any:
        if name in state.fields:
            return state.types[state.fields.index(name)]
        return None


# Where the pointers are in the structure, by their names in Numba's.
_PLACES = {"state": 0, "fnptr_next_uint64": 1, "fnptr_next_uint32": 2, "fnptr_next_double": 3}
_NAME = "BitGenerator"  # of the capsule


def _unbox(kind: Any, generator: Any, c: Any) -> NativeValue:
    """Fill in Numba's structure of a bit generator from NumPy's."""
    builder, pyapi = c.builder, c.pyapi
    found = cgutils.create_struct_proxy(kind)(c.context, builder)
    found.parent = generator
    failed = cgutils.alloca_once_value(builder, cgutils.true_bit)
    capsule = pyapi.object_getattr_string(generator, "capsule")
    with builder.if_then(cgutils.is_not_null(builder, capsule)):
        name = c.context.insert_const_string(builder.module, _NAME)
        text = ir.IntType(8).as_pointer()
        signature = ir.FunctionType(text, [pyapi.pyobj, text])
        get = cgutils.get_or_insert_function(builder.module, signature, "PyCapsule_GetPointer")
        pointer = builder.call(get, [capsule, name])
        pyapi.decref(capsule)  # the generator keeps it
        with builder.if_then(cgutils.is_not_null(builder, pointer)):
            word = c.context.get_value_type(types.uintp)
            words = builder.bitcast(pointer, word.as_pointer())
            for field, place in _PLACES.items():
                at = builder.gep(words, [ir.Constant(ir.IntType(32), place)])
                setattr(found, field, builder.load(at))
            found.state_address = found.state
            found.bit_generator = builder.ptrtoint(pointer, word)
            builder.store(cgutils.false_bit, failed)
    return NativeValue(found._getvalue(), is_error=builder.load(failed))


# Numba's own way asks Python for each pointer by name, through ctypes, at every call of a kernel.
_BIT_GENERATOR = types.NumPyRandomBitGeneratorType
assert boxing  # where Numba says how it takes arguments, and would not be told twice
_numba_s_own = _unboxers.functions[_BIT_GENERATOR]
_unboxers.functions[_BIT_GENERATOR] = _unbox


# --------------------------------------------------------------------------- cache


class _SealedFiles(caching.IndexDataCacheFile):
    """The index and the entries of one function.

    Entries are named by their content: two processes that save at once cannot put one's code
    under the other's key, which Numba's numbered names allow.
    """

    own = True

    def save(self, key: Any, data: Any) -> None:
        """Write an entry, then the index that names it."""
        packed = dumps(data)
        base = self._index_name.removesuffix(".nbi")
        name = f"{base}.{hashlib.sha256(packed).hexdigest()[:24]}.nbc"
        write_sealed(self._data_path(name), packed)
        entries = {**self._load_index(), key: name}
        self._save_index(entries)
        for path in Path(self._cache_path).glob(f"{glob.escape(base)}.*.nbc"):
            if path.name not in entries.values():
                path.unlink(missing_ok=True)  # its index was lost, or its code was damaged

    def load(self, key: Any) -> Any:
        """The entry of a key, or None; raises where a file is damaged or not ours alone."""
        name = self._load_index().get(key)
        if name is None:
            return None
        return pickle.loads(read_sealed(self._data_path(name), self.own))

    def _load_index(self) -> dict[Any, str]:
        try:
            stamp, entries = pickle.loads(read_sealed(self._index_path, self.own))
        except FileNotFoundError:
            return {}
        except OSError:
            raise
        except Exception as error:
            # Damaged, or it names a class or a module that is gone.
            logger.info("The cached kernels of %s are compiled anew: %r", self._index_name, error)
            return {}
        return entries if stamp == self._source_stamp else {}

    def _save_index(self, overloads: dict[Any, str]) -> None:
        write_sealed(self._index_path, dumps((self._source_stamp, overloads)))


class _ShippedFiles(_SealedFiles):
    """The same of a function whose code came with the package."""

    own = False


class _StampedLocator(caching._CacheLocator):
    """Places a function's cache in our folder, stamped by all sources it may call."""

    extra_stamp = ""

    def __init__(self, py_func: Any, py_file: str) -> None:
        self._py_file = py_file
        self._name = f"{py_func.__module__}.{py_func.__qualname__}"

    def get_cache_path(self) -> str:
        return str(cache_directory())

    def get_source_stamp(self) -> str:
        return package_stamp() + self.extra_stamp

    def get_disambiguator(self) -> str:
        return hashlib.sha256((self._name + self.extra_stamp).encode()).hexdigest()[:10]

    @classmethod
    def from_function(cls, py_func: Any, py_file: str) -> _StampedLocator:
        return cls(py_func, py_file)


def _is_foreign(kind: Any) -> bool:
    """Whether a Numba type holds a NamedTuple defined outside the package."""
    cls = getattr(kind, "instance_class", None)
    if cls is not None and not (cls.__module__ + ".").startswith("cavity."):
        return True
    return any(_is_foreign(item) for item in getattr(kind, "types", ()))


class _StampedCache(caching.FunctionCache):
    """A function's cache: any failure to read or write it means that the function is compiled.

    A user's own types are kept out of the package's entries, where others could not read them.
    """

    foreign = False

    def __init__(self, py_func: Any) -> None:
        super().__init__(py_func)
        # Numba's constructor has made a name of a folder even where there is none.
        self._cache_path = str(cache_directory() or "")
        self._cache_file = self._files(_SealedFiles, self._cache_path)

    def _files(self, kind: type[_SealedFiles], folder: str) -> _SealedFiles:
        stamp = self._impl.locator.get_source_stamp()
        return kind(folder, self._impl.filename_base, stamp)

    def _may_keep(self, sig: Any) -> bool:
        return self.foreign or not any(map(_is_foreign, sig))

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        if not self._may_keep(sig):
            return None
        for load in (self._load_kept, self._load_shipped):
            found = self._or_none(load, sig, target_context)
            if found is not None:
                return found
        return None

    def _load_kept(self, sig: Any, target_context: Any) -> Any:
        return super().load_overload(sig, target_context) if self._cache_path else None

    def _load_shipped(self, sig: Any, target_context: Any) -> Any:
        """The code that came with the package, whose key names another processor."""
        shipped = None if self.foreign else shipped_kernels(package_stamp())
        if shipped is None:
            return None
        target_context.refresh()
        types, (triple, _, _), hashes = self._index_key(sig, target_context.codegen())
        files = self._files(_ShippedFiles, str(shipped.folder))
        data = files.load((types, (triple, shipped.processor, ""), hashes))
        return None if data is None else self._impl.rebuild(target_context, data)

    @staticmethod
    def _or_none(load: Any, sig: Any, target_context: Any) -> Any:
        try:
            return load(sig, target_context)
        except FileNotFoundError:
            return None  # removed by another process: its index is older than the folder
        except OSError as error:
            say_uncached(error)
            return None
        except Exception as error:
            # Damaged, or it names a class or a module that is gone.
            logger.info("A cached kernel is compiled anew: %r", error)
            return None

    def save_overload(self, sig: Any, data: Any) -> None:
        if not (self._may_keep(sig) and self._cache_path):
            return
        try:
            super().save_overload(sig, data)
        except OSError as error:  # a full disk, above all
            say_uncached(error)


# --------------------------------------------------------------------------- LAPACK

assert linalg  # makes this wrapper of SciPy's LAPACK known to the compiler
potrf = types.ExternalFunction(
    "numba_xxpotrf",
    types.intc(types.char, types.char, types.intp, types.CPointer(types.float64), types.intp),
)

# --------------------------------------------------------------------------- trial


class _Pair(NamedTuple):
    values: np.ndarray
    factor: float


def _scaled(pair, at):
    return pair.values[at] * pair.factor


def try_out() -> None:
    """Compile and call a small kernel that uses all of the above, or raise.

    Examples
    --------
    >>> from cavity._numba.private import try_out
    >>> try_out()
    """
    part = make_part(_scaled, {}, True)

    def scaled_and_drawn(pair, rng):
        return part(pair, 1) + 0.0 * rng.random()

    try:
        kernel = make_kernel(scaled_and_drawn, {}, False, "trial")
        args = (_Pair(np.arange(2.0), 3.0), np.random.default_rng(0))
        if entry_point(kernel, args)(*args) != 3.0:
            raise ArithmeticError("a kernel gives a wrong result")
    except Exception:
        _unboxers.functions[_BIT_GENERATOR] = _numba_s_own
        raise
