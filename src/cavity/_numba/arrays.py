"""Nested NamedTuples of arrays: copy, grow along the slots, take apart and put together again."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np


class StateError(ValueError):
    """A saved state does not fit the run that is to continue from it; the message says where."""


_SLOT_AXES: dict[type, dict[str, int]] = {}
_CONSTANT: dict[type, tuple[str, ...]] = {}
_TIES: dict[type, Callable[[Any], Any]] = {}


def declare(
    cls: type,
    *,
    slots: dict[str, int],
    constant: tuple[str, ...] = (),
    tie: Callable[[Any], Any] | None = None,
) -> None:
    """Say which arrays of a NamedTuple have a slot axis (and which one), and which are data.

    The arrays of a class that was never declared are all data: neither grown nor saved. Where some
    arrays are views of others, `tie` makes them so again in a state that was put together anew.
    """
    _SLOT_AXES[cls] = slots
    _CONSTANT[cls] = constant
    if tie is not None:
        _TIES[cls] = tie


def _tied(value: Any) -> Any:
    tie = _TIES.get(type(value))
    return value if tie is None else tie(value)


def _changeable(value: Any, name: str) -> bool:
    constant = _CONSTANT.get(type(value))
    return constant is not None and name not in constant


def _is_tuple(value: Any) -> bool:
    return isinstance(value, tuple) and hasattr(value, "_fields")


def grown(value: Any, n_slots: int) -> Any:
    """The same state with room for `n_slots` clusters; a new slot repeats the last one."""

    def pad(item: np.ndarray, axis: int) -> np.ndarray:
        if item.shape[axis] == 0:  # not in use
            return item
        room = [(0, 0)] * item.ndim
        room[axis] = (0, n_slots - item.shape[axis])
        return np.pad(item, room, mode="edge")

    return _with_slots(value, pad)


def chosen(value: Any, slots: np.ndarray) -> Any:
    """The same state with these of its slots, in this order."""
    return _with_slots(value, lambda item, axis: np.take(item, slots, axis=axis))


def _with_slots(value: Any, change: Callable[[np.ndarray, int], np.ndarray]) -> Any:
    """The same state with every array of slots changed along that axis."""
    axes = _SLOT_AXES.get(type(value), {})
    changes: dict[str, Any] = {}
    for name in value._fields:
        item = getattr(value, name)
        if _is_tuple(item):
            changes[name] = _with_slots(item, change)
        elif name in axes:
            changes[name] = np.ascontiguousarray(change(item, axes[name]))
    return _tied(value._replace(**changes))


def slot_axes(value: Any) -> dict[str, int]:
    """Which arrays of a NamedTuple have a slot axis, and which one it is."""
    return dict(_SLOT_AXES.get(type(value), {}))


def by_slot(value: Any) -> dict[str, np.ndarray]:
    """The arrays of a NamedTuple that have a slot axis, as views with that axis first."""
    axes = _SLOT_AXES.get(type(value), {})
    return {name: np.moveaxis(getattr(value, name), axis, 0) for name, axis in axes.items()}


def flatten(value: Any, prefix: str = "") -> dict[str, np.ndarray]:
    """Copies of every array that a sampler may change, by dotted name."""
    out: dict[str, np.ndarray] = {}
    for name in value._fields:
        item = getattr(value, name)
        if _is_tuple(item):
            out |= flatten(item, f"{prefix}{name}.")
        elif isinstance(item, np.ndarray) and _changeable(value, name):
            out[prefix + name] = item.copy()
    return out


def n_slots_of(value: Any) -> int | None:
    """Room of a state along its slots, where it has any array with that axis."""
    axes = _SLOT_AXES.get(type(value), {})
    for name in value._fields:
        item = getattr(value, name)
        if name in axes:
            return int(item.shape[axes[name]])
        if _is_tuple(item) and (found := n_slots_of(item)) is not None:
            return found
    return None


def fitting(array: Any, like: np.ndarray, name: str) -> np.ndarray:
    """A copy of a saved array that has the shape and kind of `like`, or an error that says why."""
    array = np.asarray(array)
    if array.shape != like.shape or array.dtype.kind != like.dtype.kind:
        raise StateError(
            f"its array {name} is {array.dtype} of shape {array.shape}, where this run has "
            f"{like.dtype} of shape {like.shape}"
        )
    return np.array(array, dtype=like.dtype, order="C")


def saved_array(arrays: Mapping[str, np.ndarray], name: str) -> np.ndarray:
    """A saved array by name, or an error that says it is not there."""
    if name not in arrays:
        raise StateError(f"it has no array {name}")
    return arrays[name]


def rebuilt(value: Any, arrays: Mapping[str, np.ndarray], prefix: str = "") -> Any:
    """The state `value` with its changeable arrays taken (copied) from ``flatten``'s result.

    Kernels index without looking: every array must have the shape that `value` has, so a state
    whose slots have grown is given a `value` of as many (`grown`), its unsaved scratch included.
    """
    changes: dict[str, Any] = {}
    for name in value._fields:
        item = getattr(value, name)
        if _is_tuple(item):
            changes[name] = rebuilt(item, arrays, f"{prefix}{name}.")
        elif isinstance(item, np.ndarray) and _changeable(value, name):
            changes[name] = fitting(saved_array(arrays, prefix + name), item, prefix + name)
    return _tied(value._replace(**changes))


def copied(value: Any) -> Any:
    """A deep copy, but for the data."""
    return rebuilt(value, flatten(value))
