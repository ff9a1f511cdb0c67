"""The one way this package compiles code: flags and verbs in a single place.

Why each flag is what it is:

* ``error_model="numpy"``: a division that may raise stops LLVM from vectorising a loop.
* fastmath is the three flags that cannot break NaN and infinity handling (``contract``, ``nsz``,
  ``arcp``); ``reassoc`` is opt-in, for reductions whose order does not matter.
* ``nogil=True``: chains run in threads.
* no reference counts: reading one field of a NamedTuple would otherwise count every array in it,
  atomically, and cost ten times the arithmetic. So kernels make no arrays: they work in room that
  they are given.

Where compiled code is kept between processes is the business of ``_numba/cache.py``.
"""

from __future__ import annotations

import functools
import gc
import hashlib
import inspect
import sys
from collections.abc import Callable, Set
from typing import Any

import numba
from numba.core import types
from numba.core.registry import CPUDispatcher
from numba.extending import intrinsic, overload

from cavity._numba.cache import cache_directory, enable_cache
from cavity._numba.generators import quick_generators
from cavity._numba.pipeline import (
    InlinedPartCompiler,
    KernelCompiler,
    PartCompiler,
)
from cavity._numba.structs import kernel_type

if numba.config.DISABLE_JIT:
    raise OSError(
        "cavity cannot run with NUMBA_DISABLE_JIT=1, for its kernels exist in compiled form only; "
        "unset that variable (or disable_jit in .numba_config.yaml) and start Python again."
    )

quick_generators()

_FLAGS = {"contract", "nsz", "arcp"}


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


class _Kernel(CPUDispatcher):
    """A function that Python calls; where kernels call it, it is a part of them like any other.

    It is compiled without pauses for garbage. The compiler makes millions of objects, most of
    them to stay: looking through them again and again for cycles takes a tenth of the time.
    """

    options: dict[str, Any]

    @functools.cached_property
    def part(self) -> _Part:
        """The same function for kernels."""
        return _part(self.py_func, **self.options)

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


def _options(
    reassoc: bool = False, forceinline: bool = False, internal: bool = False
) -> dict[str, Any]:
    options: dict[str, Any] = {
        "no_cfunc_wrapper": True,
        "nogil": True,
        "error_model": "numpy",
        "fastmath": _FLAGS | {"reassoc"} if reassoc else _FLAGS,
        "_nrt": False,
        "pipeline_class": KernelCompiler,
    }
    if internal:
        options["pipeline_class"] = InlinedPartCompiler if forceinline else PartCompiler
    return options


def jit(func: Callable | None = None, **options: Any) -> Any:
    """Compile a kernel with the package's flags and its stamped cache.

    Parameters
    ----------
    func : callable
        The kernel.
    reassoc : bool
        Let sums be reordered (for scalar reductions only).
    internal : bool
        Only other kernels call it; a call from Python is refused. To them every function is a
        part: linked into them and never made executable alone, which halves the time to compile.
    forceinline : bool
        Always inline into the caller. Numba passes every field of a NamedTuple as arguments of
        its own, so a small verb costs more to call than to run.
    """
    if func is None:
        return functools.partial(jit, **options)
    if options.pop("internal", False):
        return _part(func, **options)
    return _kernel(func, _stamp(_foreign_text(func)), **options)


def _part(func: Callable, **options: Any) -> Any:
    dispatcher = numba.njit(**_options(**options, internal=True))(func)
    dispatcher.__class__ = _Part
    return dispatcher


def _kernel(func: Callable, stamp: str, **options: Any) -> Any:
    dispatcher = numba.njit(**_options(**options))(func)
    dispatcher.__class__ = _Kernel
    dispatcher.options = options
    enable_cache(dispatcher, stamp)
    return dispatcher


@intrinsic
def wide_vectors(typingctx: Any) -> Any:
    """Ask LLVM for 512-bit vectors in the calling kernel, where the processor has them.

    LLVM prefers 256-bit vectors by default; loops of polynomials run 1.6 times faster with the
    full width. The request has no effect on processors without them, nor on results.
    """

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        # llvmlite knows only plain attribute names; this one is a key and a value.
        set.add(builder.function.attributes, '"prefer-vector-width"="512"')
        return context.get_dummy_value()

    return types.void(), codegen


class Verb:
    """A function that each model, family or collapse implements for its own NamedTuple.

    Inside kernels a verb is an ordinary call, resolved at compile time from the class of its
    first argument. ``register`` adds an implementation; one registered for `None` is the default.
    """

    def __init__(self, stub: Callable) -> None:
        self.name = stub.__name__
        self.__doc__ = stub.__doc__
        self.signature = inspect.signature(stub)
        self.implementations: dict[type | None, Callable] = {}


_VERBS: dict[str, Verb] = {}
_foreign_sources: dict[type | None, set[str]] = {}


def verb(stub: Callable) -> Any:
    """Declare a verb: a function without a body whose implementations are registered per class."""
    record = Verb(stub)
    _VERBS[f"{stub.__module__}.{stub.__name__}"] = record

    def choose(*args: Any) -> Callable | None:
        first = args[0]
        cls = getattr(first, "instance_class", None)
        return record.implementations.get(cls, record.implementations.get(None))

    overload(stub, jit_options=_options(forceinline=True, internal=True), strict=False)(choose)

    def register(cls: type | None) -> Callable[[Callable], Callable]:
        def decorate(implementation: Callable) -> Callable:
            record.implementations[cls] = implementation
            _foreign_sources.setdefault(cls, set()).update(_foreign_text(implementation))
            return implementation

        return decorate

    stub.register = register  # type: ignore[attr-defined]
    stub.verb = record  # type: ignore[attr-defined]
    return stub


@functools.cache
def _foreign_text(function: Callable) -> frozenset[str]:
    """The text that a function outside the package depends on: its module's, if it can be had."""
    module = function.__module__ or ""
    if module == "cavity" or module.startswith("cavity."):
        return frozenset()
    try:
        text = inspect.getsource(sys.modules[module])
    except (OSError, TypeError, KeyError):
        text = repr(function.__code__.co_code) + repr(function.__code__.co_consts)
    return frozenset([text])


def _stamp(texts: Set[str]) -> str:
    return hashlib.sha256("\0".join(sorted(texts)).encode()).hexdigest()[:16] if texts else ""


def _texts_of(value: Any) -> set[str]:
    """Sources outside the package of the verbs of the classes in a (nested) NamedTuple."""
    found: set[str] = set()
    if isinstance(value, tuple):
        found |= _foreign_sources.get(type(value), set())
        for item in value:
            found |= _texts_of(item)
    return found


_entries: dict[tuple[Callable, str], Any] = {}


def compiled(kernel: Callable, state: Any) -> Any:
    """The compiled form of an engine kernel for a state that may hold classes of a user's module.

    For classes of this package it is one dispatcher for all; for foreign ones a dispatcher of its
    own whose cache is stamped with the text of the modules that implement its verbs.
    """
    stamp = _stamp(_texts_of(state) | _foreign_text(kernel))
    key = (kernel, stamp)
    if key not in _entries:
        _entries[key] = _kernel(kernel, stamp)
    return _entries[key]


class Kernels:
    """Entry kernels, each bound to the types of the arguments that it was first called with.

    To find the compiled form, Numba looks at every array in every argument of every call, which
    takes longer than a sweep over a few observations does. The arguments of one chain keep their
    types, though arrays give way to larger ones. So the form is looked up once; arguments of
    other types must go to kernels of their own.
    """

    def __init__(self) -> None:
        self._bound: dict[Callable, Callable] = {}

    def run(self, kernel: Callable, *args: Any) -> Any:
        """Call the compiled form of a kernel."""
        bound = self._bound.get(kernel)
        if bound is None:
            dispatcher = kernel if isinstance(kernel, _Kernel) else compiled(kernel, args)
            types_of_all = tuple(map(kernel_type, args))
            dispatcher.compile(types_of_all)
            bound = self._bound[kernel] = dispatcher.overloads[types_of_all].entry_point
        return bound(*args)


__all__ = [
    "Kernels",
    "cache_directory",
    "compiled",
    "jit",
    "verb",
    "wide_vectors",
]
