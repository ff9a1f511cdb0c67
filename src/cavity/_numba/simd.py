"""Eight floats side by side: a small Numba type over LLVM's ``<8 x double>``.

LLVM gives up vectorising a loop that reads many arrays, because each might overlap the one it
writes. With explicit lanes there is nothing to prove. On processors without 512-bit vectors LLVM
splits them. Arithmetic mixes lanes and scalars; comparisons give masks for ``select``. The
functions here take scalars as well, so that one polynomial serves both.
"""

from __future__ import annotations

import operator
from typing import Any

from llvmlite import ir
from numba import config, types
from numba.core import cgutils
from numba.extending import intrinsic, lower_builtin, models, register_model, type_callable

WIDTH = 8

_DOUBLES = ir.VectorType(ir.DoubleType(), WIDTH)
_INTEGERS = ir.VectorType(ir.IntType(64), WIDTH)
_BITS = ir.VectorType(ir.IntType(1), WIDTH)


class _Lanes(types.Type):
    """Numba type of eight values of one kind."""


class _Floats(_Lanes):
    def __init__(self) -> None:
        super().__init__("float64x8")


class _Integers(_Lanes):
    def __init__(self) -> None:
        super().__init__("int64x8")


class _Mask(_Lanes):
    def __init__(self) -> None:
        super().__init__("bool1x8")


floats8, integers8, mask8 = _Floats(), _Integers(), _Mask()


def _model(be_type: Any) -> type:
    class Model(models.PrimitiveModel):
        def __init__(self, dmm: Any, fe_type: Any) -> None:
            super().__init__(dmm, fe_type, be_type)

    return Model


register_model(_Floats)(_model(_DOUBLES))
register_model(_Integers)(_model(_INTEGERS))
register_model(_Mask)(_model(_BITS))


def _splat(builder: Any, value: Any, vector_type: Any) -> Any:
    one = builder.insert_element(ir.Constant(vector_type, ir.Undefined), value, cgutils.int32_t(0))
    zeros = ir.Constant(ir.VectorType(ir.IntType(32), WIDTH), [0] * WIDTH)
    return builder.shuffle_vector(one, ir.Constant(vector_type, ir.Undefined), zeros)


def _widen(context: Any, builder: Any, value: Any, from_type: Any, kind: Any) -> Any:
    """A vector of the given kind from a vector or a scalar."""
    if isinstance(from_type, _Lanes):
        return value
    if isinstance(kind, _Floats):
        return _splat(builder, context.cast(builder, value, from_type, types.float64), _DOUBLES)
    return _splat(builder, context.cast(builder, value, from_type, types.int64), _INTEGERS)


def _kind(a: Any, b: Any) -> Any:
    """The lanes type of an operation on these two, or None if it is none of ours."""
    for x, y in ((a, b), (b, a)):
        if isinstance(x, _Floats) and isinstance(y, _Floats | types.Float | types.Integer):
            return floats8
        if isinstance(x, _Integers) and isinstance(y, _Integers | types.Integer):
            return integers8
    return None


def _binary(op: Any, emit: dict[type, Any], result: Any = None) -> None:
    """Register an operator: typing, and code for floats and integers."""

    @type_callable(op)
    def of(context: Any) -> Any:
        def typer(a: Any, b: Any) -> Any:
            kind = _kind(a, b)
            return None if kind is None or type(kind) not in emit else result or kind

        return typer

    def lower(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        kind = _kind(*sig.args)
        a, b = (_widen(context, builder, v, t, kind) for v, t in zip(args, sig.args, strict=True))
        return emit[type(kind)](builder, a, b)

    for pair in ((_Lanes, types.Any), (types.Any, _Lanes), (_Lanes, _Lanes)):
        lower_builtin(op, *pair)(lower)


_binary(
    operator.add, {_Floats: lambda b, x, y: b.fadd(x, y), _Integers: lambda b, x, y: b.add(x, y)}
)
_binary(
    operator.sub, {_Floats: lambda b, x, y: b.fsub(x, y), _Integers: lambda b, x, y: b.sub(x, y)}
)
_binary(operator.mul, {_Floats: lambda b, x, y: b.fmul(x, y)})
_binary(operator.truediv, {_Floats: lambda b, x, y: b.fdiv(x, y)})
_binary(operator.and_, {_Integers: lambda b, x, y: b.and_(x, y)})
_binary(operator.or_, {_Integers: lambda b, x, y: b.or_(x, y)})
_binary(operator.lshift, {_Integers: lambda b, x, y: b.shl(x, y)})
_binary(operator.rshift, {_Integers: lambda b, x, y: b.lshr(x, y)})
_binary(operator.ge, {_Floats: lambda b, x, y: b.fcmp_ordered(">=", x, y)}, mask8)
_binary(operator.gt, {_Floats: lambda b, x, y: b.fcmp_ordered(">", x, y)}, mask8)
_binary(operator.lt, {_Floats: lambda b, x, y: b.fcmp_ordered("<", x, y)}, mask8)
_binary(operator.eq, {_Floats: lambda b, x, y: b.fcmp_ordered("==", x, y)}, mask8)


@intrinsic
def select(typingctx: Any, condition: Any, a: Any, b: Any) -> Any:
    """``a if condition else b``, without a branch; lane by lane for a mask."""
    if isinstance(condition, _Mask):

        def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
            x, y = (_widen(context, builder, args[j], sig.args[j], floats8) for j in (1, 2))
            return builder.select(args[0], x, y)

        return floats8(condition, a, b), codegen

    def scalar(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        return builder.select(args[0], args[1], args[2])

    return types.float64(types.boolean, types.float64, types.float64), scalar


@intrinsic
def float_bits(typingctx: Any, x: Any) -> Any:
    """The 64 bits of a float, as an integer."""
    lanes = isinstance(x, _Floats)
    target = _INTEGERS if lanes else ir.IntType(64)

    def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        return builder.bitcast(args[0], target)

    return (integers8(floats8) if lanes else types.int64(types.float64)), codegen


@intrinsic
def bits_float(typingctx: Any, x: Any) -> Any:
    """The float with these 64 bits."""
    lanes = isinstance(x, _Integers)
    target = _DOUBLES if lanes else ir.DoubleType()

    def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        return builder.bitcast(args[0], target)

    return (floats8(integers8) if lanes else types.float64(types.int64)), codegen


@intrinsic
def load8(typingctx: Any, array: Any, start: Any) -> Any:
    """Elements start..start+7 of a contiguous one-dimensional array of floats."""

    def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        data = context.make_array(sig.args[0])(context, builder, args[0]).data
        pointer = builder.gep(data, [args[1]])
        pointer = builder.bitcast(pointer, _DOUBLES.as_pointer())
        return builder.load(pointer, align=8)

    return floats8(array, types.int64), codegen


@intrinsic
def store8(typingctx: Any, array: Any, start: Any, value: Any) -> Any:
    """Write eight elements from `start` on."""

    def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        data = context.make_array(sig.args[0])(context, builder, args[0]).data
        pointer = builder.gep(data, [args[1]])
        pointer = builder.bitcast(pointer, _DOUBLES.as_pointer())
        builder.store(args[2], pointer, align=8)
        return context.get_dummy_value()

    return types.void(array, types.int64, floats8), codegen


@intrinsic
def splat8(typingctx: Any, x: Any) -> Any:
    """The same value in every lane."""

    def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        return _splat(builder, args[0], _DOUBLES)

    return floats8(types.float64), codegen


@intrinsic
def repeat8(typingctx: Any, array: Any, at: Any) -> Any:
    """One element of a contiguous one-dimensional array of floats, in every lane.

    Unlike an index in brackets `at` cannot count from the end, and is not looked at.
    """

    def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        data = context.make_array(sig.args[0])(context, builder, args[0]).data
        return _splat(builder, builder.load(builder.gep(data, [args[1]])), _DOUBLES)

    return floats8(array, types.int64), codegen


@intrinsic
def ramp8(typingctx: Any) -> Any:
    """The numbers 0 to 7."""

    def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        return ir.Constant(_DOUBLES, [float(j) for j in range(WIDTH)])

    return floats8(), codegen


def _by_halves(builder: Any, value: Any, join: Any) -> Any:
    """One value from eight lanes, joined half with half."""
    width = WIDTH
    while width > 1:
        width //= 2
        index = ir.VectorType(ir.IntType(32), width)
        halves = [
            builder.shuffle_vector(
                value, value, ir.Constant(index, list(range(start, start + width)))
            )
            for start in (0, width)
        ]
        value = join(*halves)
    return builder.extract_element(value, cgutils.int32_t(0))


@intrinsic
def sum8(typingctx: Any, x: Any) -> Any:
    """Sum of the lanes, by halves."""

    def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        return _by_halves(builder, args[0], builder.fadd)

    return types.float64(floats8), codegen


@intrinsic
def max8(typingctx: Any, x: Any) -> Any:
    """Largest of the lanes, by halves; a NaN loses against any number in its place."""

    def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        def larger(a: Any, b: Any) -> Any:
            return builder.select(builder.fcmp_ordered(">", a, b), a, b)

        return _by_halves(builder, args[0], larger)

    return types.float64(floats8), codegen


@intrinsic
def first8(typingctx: Any, mask: Any) -> Any:
    """Index of the first true lane; 8 if there is none."""

    def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        bits = builder.zext(builder.bitcast(args[0], ir.IntType(WIDTH)), ir.IntType(64))
        sentinel = ir.Constant(ir.IntType(64), 1 << WIDTH)
        return builder.cttz(builder.or_(bits, sentinel), ir.Constant(ir.IntType(1), 1))

    return types.int64(mask8), codegen


if config.DISABLE_JIT:
    from cavity._numba.simd_python import (
        bits_float,
        first8,
        float_bits,
        load8,
        max8,
        ramp8,
        repeat8,
        select,
        splat8,
        store8,
        sum8,
    )


def whole_vectors(n: int) -> int:
    """The next length that is a whole number of vectors.

    Examples
    --------
    >>> whole_vectors(9)
    16
    """
    return -(-n // WIDTH) * WIDTH


def require_whole(n: int) -> None:
    """Refuse a length that eight lanes would overrun."""
    if n % WIDTH:
        raise ValueError(f"the number of slots must be a multiple of {WIDTH}, not {n}")


__all__ = [
    "WIDTH",
    "bits_float",
    "first8",
    "float_bits",
    "load8",
    "max8",
    "ramp8",
    "repeat8",
    "require_whole",
    "select",
    "splat8",
    "store8",
    "sum8",
    "whole_vectors",
]
