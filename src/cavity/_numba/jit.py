"""The one way this package compiles code: flags and verbs in a single place.

Why each flag is what it is:

* ``error_model="numpy"``: a division that may raise stops LLVM from vectorising a loop.
* fastmath is the three flags that cannot break NaN and infinity handling (``contract``, ``nsz``,
  ``arcp``); ``reassoc`` is opt-in, for reductions whose order does not matter.
* ``nogil=True``: chains run in threads.

Kernels are compiled by way of Numba's internals (``_numba/private.py``), which halves the time.
Where these are not what they were, or with ``CAVITY_PLAIN_NUMBA=1``, `numba.njit` does it alone.
With ``NUMBA_DISABLE_JIT=1`` kernels run in Python, for debuggers and for measuring coverage.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import inspect
import os
import sys
from collections.abc import Callable, Set
from typing import Any

import numba
from llvmlite import ir
from numba import types
from numba.extending import intrinsic, overload

from cavity._numba.cache import cache_directory, logger

_NEWEST_TESTED = (0, 68)  # release of Numba whose internals are known to be as they should


def _private() -> Any:
    """Return the module of all that uses Numba's internals; None where it cannot be used."""
    if os.environ.get("CAVITY_PLAIN_NUMBA") or numba.config.DISABLE_JIT:
        return None
    try:
        from cavity._numba import private

        if tuple(map(int, numba.__version__.split(".")[:2])) > _NEWEST_TESTED:
            private.try_out()
    except Exception as error:  # whatever another Numba may raise
        logger.warning(
            "Numba %s is newer than this release of cavity and differs inside (%r): compiling "
            "takes longer.", numba.__version__, error,
        )  # fmt: skip
        return None
    return private


private = _private()
_FLAGS = {"contract", "nsz", "arcp"}


def _options(reassoc: bool = False) -> dict[str, Any]:
    flags = _FLAGS | {"reassoc"} if reassoc else _FLAGS
    return {"nogil": True, "error_model": "numpy", "fastmath": flags}


def jit(
    func: Callable | None = None,
    *,
    reassoc: bool = False,
    internal: bool = False,
    forceinline: bool = False,
) -> Any:
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
        its own, so a small function costs more to call than to run.
    """
    if func is None:
        return functools.partial(jit, reassoc=reassoc, internal=internal, forceinline=forceinline)
    options = _options(reassoc)
    if private is not None and internal:
        return private.make_part(func, options, forceinline)
    return _kernel(func, _stamp(_foreign_text(func)), options, forceinline)


def _kernel(func: Callable, stamp: str, options: dict[str, Any], forceinline: bool = False) -> Any:
    if private is not None:
        return private.make_kernel(func, options, forceinline, stamp)
    # Numba's cache notices no edit of another module: ours has a folder for each state of the
    # package's sources, and what depends on a user's is not kept.
    folder = None if stamp else cache_directory()
    usual = numba.config.CACHE_DIR
    numba.config.CACHE_DIR = usual if folder is None else str(folder)
    try:
        return numba.njit(**options, forceinline=forceinline, cache=folder is not None)(func)
    finally:
        numba.config.CACHE_DIR = usual


@intrinsic
def wide_vectors(typingctx: Any) -> Any:
    """Ask LLVM for 512-bit vectors in the calling kernel, where the processor has them.

    LLVM prefers 256-bit vectors by default; loops of polynomials run 1.6 times faster with the
    full width. The request has no effect on processors without them, nor on results.
    """

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        # llvmlite knows only plain attribute names; this one is a key and a value.
        with contextlib.suppress(TypeError):
            set.add(builder.function.attributes, '"prefer-vector-width"="512"')
        return context.get_dummy_value()

    return types.void(), codegen


@intrinsic
def cycles(typingctx: Any) -> Any:
    """Return the processor's count of cycles, for shares of a kernel's time."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        kind = ir.FunctionType(ir.IntType(64), ())
        return builder.call(builder.module.declare_intrinsic("llvm.readcyclecounter", (), kind), ())

    return types.int64(), codegen


if numba.config.DISABLE_JIT:
    wide_vectors = bool  # does nothing
    cycles = int


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

    if numba.config.DISABLE_JIT:

        @functools.wraps(stub)
        def stub_in_python(first: Any, *rest: Any) -> Any:
            registered = record.implementations
            return registered[type(first) if type(first) in registered else None](first, *rest)

        stub = stub_in_python
    options = _options()
    if private is None:
        options["forceinline"] = True
    else:
        options = private.part_options(options, True)
    overload(stub, jit_options=options, strict=False)(choose)

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
        _entries[key] = _kernel(kernel, stamp, _options())
    return _entries[key]


class Kernels:
    """Entry kernels, each bound to the types of the arguments that it was first called with.

    The arguments of one chain keep their types, though arrays give way to larger ones. So the
    compiled form is looked up once; arguments of other types must go to kernels of their own.
    """

    def __init__(self) -> None:
        self._bound: dict[Callable, Callable] = {}

    def run(self, kernel: Callable, *args: Any) -> Any:
        """Call the compiled form of a kernel."""
        bound = self._bound.get(kernel)
        if bound is None:
            bound = kernel if hasattr(kernel, "py_func") else compiled(kernel, args)
            if private is not None:
                bound = private.entry_point(bound, args)
            self._bound[kernel] = bound
        return bound(*args)


__all__ = [
    "Kernels",
    "cache_directory",
    "compiled",
    "cycles",
    "jit",
    "verb",
    "wide_vectors",
]
