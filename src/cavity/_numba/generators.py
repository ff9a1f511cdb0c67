"""How a random generator reaches compiled code: by NumPy's own structure of pointers.

Numba asks Python for each pointer by name, through ctypes, at every call of a kernel, which takes
longer than the kernels that follow a sweep over few observations do. NumPy hands the same pointers
out in one structure (``bitgen_t`` of its C interface), behind the generator's capsule.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba.core import boxing, cgutils, types
from numba.core.pythonapi import NativeValue, _unboxers

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


def quick_generators() -> None:
    """From now on, compile kernels that take their generator this way."""
    assert boxing  # where Numba says how it takes arguments, and would not be told twice
    _unboxers.functions[types.NumPyRandomBitGeneratorType] = _unbox
