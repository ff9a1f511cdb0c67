"""Checks shared by the generators: each names the argument, what it was, and what it may be."""

from __future__ import annotations

import numbers
from typing import Any

import numpy as np
from numpy.typing import ArrayLike


def as_count(name: str, value: Any, minimum: int = 1) -> int:
    """Return `value` as an int of at least `minimum`."""
    if isinstance(value, bool) or not isinstance(value, numbers.Integral) or value < minimum:
        raise ValueError(f"{name} must be an integer of at least {minimum}; got {value!r}.")
    return int(value)


def as_positive(name: str, value: Any, *, zero: bool = False) -> float:
    """Return `value` as a finite, positive float (zero only where it is allowed)."""
    number = _as_number(name, value)
    if not np.isfinite(number) or number < 0 or (number == 0 and not zero):
        kind = "zero or positive" if zero else "positive"
        raise ValueError(f"{name} must be a finite, {kind} number; got {value!r}.")
    return number


def as_fraction(name: str, value: Any, *, one: bool = False) -> float:
    """Return `value` as a float in [0, 1), or in [0, 1] where one is allowed."""
    number = _as_number(name, value)
    if not 0 <= number < 1 and not (one and number == 1):
        raise ValueError(f"{name} must lie in [0, 1{']' if one else ')'}; got {value!r}.")
    return number


def _as_number(name: str, value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, numbers.Real):
        raise ValueError(f"{name} must be a number; got {value!r}.")
    return float(value)


def as_vector(name: str, value: ArrayLike, length: int, what: str) -> np.ndarray:
    """Return one finite value per item: a number is repeated, an array must have the length."""
    try:
        array = np.asarray(value, dtype=float)
    except (TypeError, ValueError):
        raise ValueError(f"{name} must be a number or {length} numbers; got {value!r}.") from None
    if array.ndim not in (0, 1) or (array.ndim == 1 and array.shape[0] != length):
        raise ValueError(
            f"{name} must be a number or an array of {length} (one per {what}); "
            f"got shape {array.shape}."
        )
    if not np.isfinite(array).all():
        raise ValueError(f"{name} must be finite; got {value!r}.")
    return np.broadcast_to(array, (length,)).copy()


def as_generator(random_state: Any) -> np.random.Generator:
    """Return a Generator from None, an integer, a SeedSequence, a Generator or a RandomState."""
    if isinstance(random_state, np.random.RandomState):
        return np.random.default_rng(random_state.randint(0, 2**31 - 1, size=4))
    try:
        return np.random.default_rng(random_state)
    except (TypeError, ValueError):
        raise ValueError(
            "random_state must be None, a non-negative integer or a numpy Generator; "
            f"got {random_state!r}."
        ) from None


def draw_labels(
    n: int, n_clusters: int, weights: ArrayLike | None, rng: np.random.Generator
) -> np.ndarray:
    """Return n labels: sizes as equal as possible, or drawn with the weights; order shuffled."""
    if weights is None:
        return rng.permutation(np.arange(n) % n_clusters)
    w = as_vector("weights", weights, n_clusters, "cluster")
    if (w < 0).any() or w.sum() <= 0:
        raise ValueError(f"weights must be zero or positive with a positive sum; got {weights!r}.")
    return rng.choice(n_clusters, size=n, p=w / w.sum())
