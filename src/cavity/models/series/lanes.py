"""Eight floats that travel together through a kernel.

A Kalman filter is sequential in time, so what can run side by side is the clusters. A compiler
asked to vectorise a short inner loop over clusters pays for loading, storing and alias checks at
every time step; a value of this type stays in a register for the whole series.

``load(array, i)`` reads elements i..i+7 of a one-dimensional contiguous array of floats,
``store(array, i, lanes)`` writes them, ``splat(x)`` repeats a number; ``+ - *`` work lane by
lane. Nothing checks bounds: the caller pads its arrays to a multiple of ``WIDTH``.
"""

from __future__ import annotations

import operator
from typing import Any

from llvmlite import ir
from numba.core import types
from numba.extending import intrinsic, models, overload, register_model

WIDTH = 8

_VECTOR = ir.VectorType(ir.DoubleType(), WIDTH)
_FLAGS = ("contract", "nsz", "arcp")


class LanesType(types.Type):
    """Numba's type of ``WIDTH`` floats in one register."""

    def __init__(self) -> None:
        super().__init__(name=f"Lanes{WIDTH}")


_lanes = LanesType()


@register_model(LanesType)
class _LanesModel(models.PrimitiveModel):
    def __init__(self, dmm: Any, fe_type: Any) -> None:
        super().__init__(dmm, fe_type, _VECTOR)


def _pointer(context: Any, builder: Any, array_type: Any, array: Any, index: Any) -> Any:
    data = context.make_array(array_type)(context, builder, array).data
    return builder.bitcast(builder.gep(data, [index]), _VECTOR.as_pointer())


@intrinsic
def load(typingctx: Any, array: Any, index: Any) -> Any:
    """Elements ``index .. index + 7`` of a contiguous one-dimensional array."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        # Aligned to a float only: rows of a user's array start anywhere.
        return builder.load(
            _pointer(context, builder, signature.args[0], args[0], args[1]), align=8
        )

    return _lanes(array, types.intp), codegen


@intrinsic
def store(typingctx: Any, array: Any, index: Any, value: Any) -> Any:
    """Write eight lanes to elements ``index .. index + 7``."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        pointer = _pointer(context, builder, signature.args[0], args[0], args[1])
        builder.store(args[2], pointer, align=8)
        return context.get_dummy_value()

    return types.void(array, types.intp, _lanes), codegen


@intrinsic
def splat(typingctx: Any, x: Any) -> Any:
    """The same number in every lane."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        undefined = ir.Constant(_VECTOR, ir.Undefined)
        index = ir.IntType(32)
        first = builder.insert_element(undefined, args[0], ir.Constant(index, 0))
        zeros = ir.Constant(ir.VectorType(index, WIDTH), [0] * WIDTH)
        return builder.shuffle_vector(first, undefined, zeros)

    return _lanes(types.float64), codegen


def _arithmetic(instruction: str) -> Any:
    @intrinsic
    def operation(typingctx: Any, x: Any, y: Any) -> Any:
        def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            return getattr(builder, instruction)(args[0], args[1], flags=_FLAGS)

        return _lanes(_lanes, _lanes), codegen

    return operation


_add = _arithmetic("fadd")
_sub = _arithmetic("fsub")
_mul = _arithmetic("fmul")


@overload(operator.add)
def _lanes_add(x, y):
    if isinstance(x, LanesType) and isinstance(y, LanesType):
        return lambda x, y: _add(x, y)
    return None


@overload(operator.sub)
def _lanes_sub(x, y):
    if isinstance(x, LanesType) and isinstance(y, LanesType):
        return lambda x, y: _sub(x, y)
    return None


@overload(operator.mul)
def _lanes_mul(x, y):
    if isinstance(x, LanesType) and isinstance(y, LanesType):
        return lambda x, y: _mul(x, y)
    return None
