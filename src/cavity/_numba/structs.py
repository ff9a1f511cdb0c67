"""How kernels are given NamedTuples: by address.

Numba gives a kernel every number of every array in a NamedTuple as an argument of its own, some
hundreds of them, and so again wherever one function hands the tuple on to another. Most of the
compiler's time went there, and much of a small function's. Here a kernel called from Python
gets the address of a structure with all of it, made for that call and constant while it runs, and
takes from it what it reads.

A NamedTuple that a kernel makes itself is a value as ever.
"""

from __future__ import annotations

import hashlib
from typing import Any

import numba
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import NativeValue, lower_getattr_generic, models, register_model, unbox


class StateType(types.Type):
    """The type of a NamedTuple that is given by address."""

    def __init__(self, instance_class: type, members: tuple[Any, ...]) -> None:
        self.instance_class = instance_class
        self.fields: tuple[str, ...] = instance_class._fields  # type: ignore[attr-defined]
        self.types = members
        self._hash = hash((instance_class, members))
        # Names are part of every symbol, so that they had better be short.
        text = f"{instance_class.__module__}.{instance_class.__qualname__}({members})"
        digest = hashlib.sha256(text.encode()).hexdigest()[:12]
        super().__init__(f"{instance_class.__name__}.{digest}")

    @property
    def key(self) -> Any:
        """What makes two types the same."""
        return self.instance_class, self.types

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        return self is other or super().__eq__(other)

    def __reduce__(self) -> Any:
        return StateType, (self.instance_class, self.types)


def kernel_type(value: Any) -> Any:
    """The type of an argument of a kernel.

    Examples
    --------
    >>> from typing import NamedTuple
    >>> class Pair(NamedTuple):
    ...     first: int
    ...     second: float
    >>> kernel_type(Pair(1, 2.0)).types
    (int64, float64)
    """
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return StateType(type(value), tuple(map(kernel_type, value)))
    return numba.typeof(value)


_WORD = ir.IntType(64)


def _words(kind: Any) -> int:
    """Words that hold a value of an LLVM type, every scalar in one of its own."""
    if isinstance(kind, ir.ArrayType):
        return int(kind.count) * _words(kind.element)
    if isinstance(kind, ir.BaseStructType):
        return sum(map(_words, kind.elements))
    return 1


@register_model(StateType)
class _StateModel(models.PrimitiveModel):
    """The address of so many words; a state within a state is part of them."""

    def __init__(self, dmm: Any, fe_type: StateType) -> None:
        self.starts: list[int] = []
        end = 0
        for kind in fe_type.types:
            model = dmm.lookup(kind)
            self.starts.append(end)
            is_state = isinstance(kind, StateType)
            end += model.n_words if is_state else _words(model.get_data_type())
        self.n_words = end
        super().__init__(dmm, fe_type, ir.ArrayType(_WORD, end).as_pointer())


def _place(builder: Any, address: Any, start: int, kind: Any) -> Any:
    """The address of a value of an LLVM type that begins at a word of a structure."""
    word = cgutils.gep_inbounds(builder, address, 0, start)
    return word if kind == _WORD else builder.bitcast(word, kind.as_pointer())


@lower_getattr_generic(StateType)
def _field(context: Any, builder: Any, kind: StateType, address: Any, name: str) -> Any:
    at = kind.fields.index(name)
    member = kind.types[at]
    start = context.data_model_manager[kind].starts[at]
    # LLVM may read a structure whenever it likes, before the branch that needs it too.
    for argument in builder.function.args:
        if argument.type == address.type:
            argument.attributes.dereferenceable = 8 * address.type.pointee.count
    if isinstance(member, types.Array):
        return _array(context, builder, member, address, start)
    if isinstance(member, StateType):
        return _place(builder, address, start, context.get_value_type(member).pointee)
    place = _place(builder, address, start, context.get_data_type(member))
    return _constant(builder, context.unpack_value(builder, member, place))


def _constant(builder: Any, value: Any) -> Any:
    """Tell LLVM that what was loaded is the same whenever it is loaded."""
    if isinstance(value, ir.instructions.LoadInstr):
        value.set_metadata("invariant.load", builder.module.add_metadata([]))
    return value


def _array(context: Any, builder: Any, kind: Any, address: Any, start: int) -> Any:
    """An array, of which no more is read than indexing may need."""
    whole = context.get_value_type(kind)
    item = context.get_data_type(kind.dtype)
    itemsize = kind.dtype.bitwidth // 8 if isinstance(kind.dtype, types.Number) else None
    if itemsize is None:
        itemsize = context.get_abi_sizeof(item)

    def read(word: int, of: Any = _WORD) -> Any:
        return _constant(builder, builder.load(_place(builder, address, start + word, of)))

    # In Numba's order: two owners, items, bytes of an item, data, lengths and strides of axes.
    size = ir.Constant(_WORD, itemsize)
    owners = [ir.Constant(whole.elements[at], None) for at in range(2)]
    rest = [ir.Constant(part, ir.Undefined) for part in whole.elements[4:]]
    array = ir.Constant(whole, [*owners, ir.Constant(_WORD, ir.Undefined), size, *rest])
    array = builder.insert_value(array, read(4, item.as_pointer()), 4)
    for axis in range(kind.ndim):
        length = read(5 + axis)
        array = builder.insert_value(array, length, (5, axis))
        # The last axis of a contiguous array is that of neighbours.
        near = kind.layout == "C" and axis == kind.ndim - 1
        stride = size if near else read(5 + kind.ndim + axis)
        array = builder.insert_value(array, stride, (6, axis))
    return builder.insert_value(array, length if kind.ndim == 1 else read(2), 2)


@unbox(StateType)
def _unbox(kind: StateType, obj: Any, c: Any) -> NativeValue:
    address = cgutils.alloca_once(c.builder, c.context.get_value_type(kind).pointee)
    failed = cgutils.alloca_once_value(c.builder, cgutils.false_bit)
    _fill(kind, obj, c, address, 0, failed)
    return NativeValue(address, is_error=c.builder.load(failed))


def _fill(kind: StateType, obj: Any, c: Any, address: Any, start: int, failed: Any) -> None:
    """Write a NamedTuple into a structure; a tuple of another length is an error."""
    builder = c.builder
    size = c.pyapi.tuple_size(obj)
    fits = builder.icmp_unsigned("==", size, ir.Constant(size.type, len(kind.fields)))
    with builder.if_else(fits, likely=True) as (then, otherwise):
        with then:
            starts = c.context.data_model_manager[kind].starts
            for at, (member, word) in enumerate(zip(kind.types, starts, strict=True)):
                item = c.pyapi.tuple_getitem(obj, at)
                if isinstance(member, StateType):
                    _fill(member, item, c, address, start + word, failed)
                    continue
                native = c.unbox(member, item)
                with builder.if_then(native.is_error, likely=False):
                    builder.store(cgutils.true_bit, failed)
                place = _place(builder, address, start + word, c.context.get_data_type(member))
                c.context.pack_value(builder, member, native.value, place)
        with otherwise:
            c.pyapi.err_format(
                "PyExc_ValueError",
                f"expected {len(kind.fields)} fields of {kind.instance_class.__name__}, got %zd",
                size,
            )
            builder.store(cgutils.true_bit, failed)


__all__ = ["StateType", "kernel_type"]
