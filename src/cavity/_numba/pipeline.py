"""Numba's compiler with what kernels have no use for left out.

* A *part*, called by kernels alone, is linked into them as LLVM code and never made executable.
  So is whatever Numba compiles of its own for a kernel, such as ``max`` or the methods of a
  generator.
* Parts are tidied before they are linked, and optimised with the whole kernel. Numba optimises
  each function alone first.
* Passes for arrays made in a kernel and for functions within functions are left out where there
  are none.
"""

from __future__ import annotations

import contextlib
import types as python_types
from collections.abc import Iterator
from typing import Any

from llvmlite.binding import newpassmanagers
from numba import _dynfunc
from numba.core import ir, types
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import Compiler, CompilerBase, DefaultPassBuilder, Flags
from numba.core.compiler_lock import global_compiler_lock
from numba.core.compiler_machinery import register_pass
from numba.core.typed_passes import InlineOverloads, NativeLowering, NopythonRewrites
from numba.core.types.functions import BaseFunction
from numba.core.untyped_passes import InlineClosureLikes


class _Library(JITCodeLibrary):
    """The code of a kernel."""

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


class _PartLibrary(_Library):
    """Code that is only ever linked into a kernel: never optimised nor made executable alone."""

    def finalize(self) -> None:
        for library in dict.fromkeys(self._linking_libraries):
            if hasattr(library, "_reload_init"):  # since Numba 0.63
                self._reload_init.update(library._reload_init)
            self._final_module.link_in(library._get_module_for_linking(), preserve=True)
        self._finalized = True


@register_pass(mutates_CFG=True, analysis_only=False)
class _KernelLowering(NativeLowering):
    """Lowers a function that Python calls."""

    _name = "cavity_kernel_lowering"

    def run_pass(self, state: Any) -> bool:
        state.library = _Library(state.targetctx.codegen(), state.func_id.func_qualname)
        state.library.enable_object_caching()
        return bool(super().run_pass(state))


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


class _Flags(Flags):
    """Numba's flags, compared without making tables of all of them each time.

    Numba looks for a function that it compiled before by the flags of the caller among other
    things, for every operator of every line: a tenth of its time.
    """

    __slots__ = ()

    def __hash__(self) -> int:
        return _HASH

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Flags):
            return False
        own, its = self._values, other._values
        default = {name: self.options[name].default for name in own.keys() ^ its.keys()}
        return bool({**default, **own} == {**default, **its})


_HASH = hash(Flags())


class KernelCompiler(CompilerBase):
    """Compiles a function that Python calls."""

    lowering: type = _KernelLowering
    inlined = False

    def __init__(
        self,
        typingctx: Any,
        targetctx: Any,
        library: Any,
        args: Any,
        return_type: Any,
        flags: Any,
        locals: Any,
    ) -> None:
        super().__init__(typingctx, targetctx, library, args, return_type, _Flags(flags), locals)

    def define_pipelines(self) -> list[Any]:
        """Numba's passes, but for those without a use here."""
        passes = DefaultPassBuilder.define_nopython_pipeline(self.state)
        # The first joins operations on arrays into one, the second inlines where a caller asks
        # for it in Python's code, which no function here does.
        useless = {NopythonRewrites, InlineOverloads}
        constants = self.state.func_id.code.co_consts
        if not any(isinstance(value, python_types.CodeType) for value in constants):
            useless.add(InlineClosureLikes)
        passes.passes = [
            (self.lowering if step is NativeLowering else step, words)
            for step, words in passes.passes
            if step not in useless
        ]
        passes.finalize()
        return [passes]


class PartCompiler(KernelCompiler):
    """Compiles a function for kernels."""

    lowering = _PartLowering


class InlinedPartCompiler(PartCompiler):
    """Compiles a function that is inlined wherever it is called."""

    inlined = True


class _Remembered:
    """What operators of numbers and arrays give, asked of Numba once for the same types.

    For every operator of every line Numba tries all forms that it has of it, those of texts, sets
    and dates among them, and keeps a note of each that does not fit: a sixth of its time. Only
    what it lowers itself is remembered: forms in Python depend on the caller's flags as well.
    """

    def __init__(self) -> None:
        # By identity, since to compare two functions is dear; each is kept so that it stays its.
        self._known: dict[int, tuple[BaseFunction, dict[Any, Any]]] = {}

    def call_type(self, function: BaseFunction, context: Any, args: Any, kws: Any) -> Any:
        _, known = self._known.setdefault(id(function), (function, {}))
        found = None if kws else known.get(args)
        if found is None:
            found = _ask(function, context, args, kws)
            lowered_by_numba = function.get_impl_key(found) is function.typing_key
            if lowered_by_numba and not kws and all(isinstance(kind, _PLAIN) for kind in args):
                known[args] = found
        return found


_PLAIN = (types.Number, types.Boolean, types.Literal, types.Array, types.BaseTuple)
_ask = BaseFunction.get_call_type
_remembered = _Remembered()


def _call_type(self: BaseFunction, context: Any, args: Any, kws: Any) -> Any:
    return _remembered.call_type(self, context, args, kws)


def _variables(self: ir.Inst, value: Any) -> list[Any]:
    """Variables in a part of an instruction, as Numba finds them, the commonest kinds first.

    Numba asks of every part of every instruction, six times over, what it is not: a twentieth of
    its time.
    """
    kind = type(value)
    if kind is ir.Var:
        return [value]
    if kind in _NO_VARIABLES:
        return []
    if kind is not dict and kind is not list and kind is not tuple:
        return _find_variables(self, value)
    found: list[Any] = []
    for item in value.values() if kind is dict else value:
        if type(item) is ir.Var:
            found.append(item)
        elif type(item) not in _NO_VARIABLES:
            found += _variables(self, item)
    return found


_NO_VARIABLES = {
    *(str, int, float, bool, type(None), python_types.BuiltinFunctionType),
    *(ir.Loc, ir.UndefinedType, ir.Global, ir.Const, ir.Arg),
}
_find_variables = ir.Inst._rec_list_vars


def _define_own(compiler: Any) -> list[Any]:
    """The passes of a function that Numba compiles for a kernel's sake, as a part of it."""
    if not compiler.state.func_id.modname.startswith("numba."):
        return _define_usual(compiler)
    passes = DefaultPassBuilder.define_nopython_pipeline(compiler.state)
    passes.passes = [
        (_PartLowering if step is NativeLowering else step, words) for step, words in passes.passes
    ]
    passes.finalize()
    return [passes]


_define_usual = Compiler.define_pipelines


@contextlib.contextmanager
def numba_s_own_as_parts() -> Iterator[None]:
    """Meanwhile whatever Numba compiles of its own is a part; no other thread compiles."""
    with global_compiler_lock:
        Compiler.define_pipelines = _define_own
        Compiler.inlined = False
        BaseFunction.get_call_type = _call_type
        ir.Inst._rec_list_vars = _variables
        try:
            yield
        finally:
            Compiler.define_pipelines = _define_usual
            del Compiler.inlined
            BaseFunction.get_call_type = _ask
            ir.Inst._rec_list_vars = _find_variables


__all__ = ["InlinedPartCompiler", "KernelCompiler", "PartCompiler", "numba_s_own_as_parts"]
