"""Numba's compiler with what kernels have no use for left out.

* A *part*, called by kernels alone, is linked into them as LLVM code and never made executable.
* Parts are tidied before they are linked, and optimised with the whole kernel. Numba optimises
  each function alone first.
* Passes for arrays made in a kernel and for functions within functions are left out where there
  are none.
"""

from __future__ import annotations

import types as python_types
from typing import Any

from llvmlite.binding import newpassmanagers
from numba import _dynfunc
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import CompilerBase, DefaultPassBuilder
from numba.core.compiler_machinery import register_pass
from numba.core.typed_passes import InlineOverloads, NativeLowering, NopythonRewrites
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


class KernelCompiler(CompilerBase):
    """Compiles a function that Python calls."""

    lowering: type = _KernelLowering
    inlined = False

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


__all__ = ["InlinedPartCompiler", "KernelCompiler", "PartCompiler"]
