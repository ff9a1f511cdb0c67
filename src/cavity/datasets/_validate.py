"""Checks shared by the generators: each names the argument, what it was, and what it may be."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike


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
