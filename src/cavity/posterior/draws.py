"""Draws of partitions in canonical form: validated, renamed by first appearance, repeats merged."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from cavity._numba.jit import jit

_CHUNK_CELLS = 4_000_000


class Draws(NamedTuple):
    """Distinct partitions among the draws, with how much of the posterior each one carries."""

    labels: np.ndarray  # (distinct, n), canonical, smallest unsigned type
    weights: np.ndarray  # (distinct,), sums to one
    n_clusters: np.ndarray  # (distinct,)
    which: np.ndarray  # (draws used,) row of `labels` that each draw equals


@jit
def _canonical_rows(rows, lookup, out, n_clusters):
    """Rename each row's labels 0, 1, ... in order of first appearance."""
    for d in range(rows.shape[0]):
        k = 0
        for i in range(rows.shape[1]):
            value = rows[d, i]
            if lookup[value] < 0:
                lookup[value] = k
                k += 1
            out[d, i] = lookup[value]
        for i in range(rows.shape[1]):
            lookup[rows[d, i]] = -1
        n_clusters[d] = k


@jit
def _rows_sizes(rows, n_clusters, counts, largest, entropy):
    """Largest cluster and entropy of sizes of canonical rows; ``counts`` is room, at zero."""
    n = rows.shape[1]
    for d in range(rows.shape[0]):
        for i in range(n):
            counts[rows[d, i]] += 1
        biggest = 0
        h = 0.0
        for k in range(n_clusters[d]):
            biggest = max(biggest, counts[k])
            share = counts[k] / n
            h -= share * math.log(share)
            counts[k] = 0
        largest[d] = biggest
        entropy[d] = max(h, 0.0)


def _refuse(bad: np.ndarray, array: np.ndarray, what: str, remedy: str) -> None:
    """Raise an error that names the first bad value and its place, if there is one."""
    if bad.any():
        at = tuple(np.argwhere(bad)[0].tolist())
        words = zip(("chain", "draw", "observation")[-len(at) :], at, strict=True)
        place = ", ".join(f"{word} {value}" for word, value in words)
        raise ValueError(f"{what} holds {array[at]} at {place}; {remedy}")


def as_labels(values: Any, *, ndim: tuple[int, ...], what: str = "labels") -> np.ndarray:
    """Check an array of labels and store it in the smallest integer type.

    Raises
    ------
    ValueError, TypeError
        With the place of the first offending value and what to do about it.
    """
    try:
        array = np.asarray(values)
        ragged = array.dtype == object
    except ValueError:
        ragged = True
    if ragged:
        raise ValueError(
            f"{what}: chains or draws of different lengths (or missing values) cannot be one "
            "array; cut them to the same number of draws, one label per observation"
        )
    if array.ndim not in ndim:
        shapes = {1: "(n,)", 2: "(draw, n)", 3: "(chain, draw, n)"}
        wanted = " or ".join(shapes[d] for d in ndim)
        hint = ". One partition alone is draws[None, :]" if array.ndim == 1 else ""
        raise ValueError(f"{what} must have shape {wanted}; got {array.shape}{hint}")
    if array.size == 0:
        raise ValueError(f"{what} is empty (shape {array.shape}); at least one draw is needed")
    if array.dtype.kind == "f":
        _refuse(~np.isfinite(array), array, what, "give every observation a label")
        _refuse(
            array != np.floor(array), array, what, "labels must be whole numbers, not probabilities"
        )
        if np.abs(array).max() > 2**53:
            raise ValueError(f"{what} holds values beyond 2**53; rename the clusters 0, 1, ...")
        array = array.astype(np.int64)
    if array.dtype.kind == "b":
        array = array.astype(np.uint8)
    if array.dtype.kind not in "iu":
        raise TypeError(
            f"{what} must be integers, got {array.dtype}; "
            "numpy.unique(values, return_inverse=True) turns names into integers"
        )
    remedy = (
        "labels are 0, 1, 2, ... If a negative label marks noise, give each such observation a "
        "label of its own"
    )
    _refuse(array < 0, array, what, remedy)
    return array.astype(np.min_scalar_type(int(array.max())), copy=False)


def canonical(labels: Any) -> np.ndarray:
    """Labels renamed 0, 1, ... by first appearance, for one partition or an array of them.

    Examples
    --------
    >>> canonical([7, 7, 2, 7])
    array([0, 0, 1, 0], dtype=int32)
    """
    array = as_labels(labels, ndim=(1, 2, 3))
    flat = array.reshape(-1, array.shape[-1])
    out = np.empty(flat.shape, np.int32)
    for start, rows, _ in iter_canonical(flat):
        out[start : start + len(rows)] = rows
    return out.reshape(array.shape)


def iter_canonical(flat: np.ndarray) -> Iterator[tuple[int, np.ndarray, np.ndarray]]:
    """Canonical draws in chunks: (first draw, int32 rows, clusters per row).

    Nothing larger than one chunk is held, so it serves draws of any number and size.
    """
    n_draws, n = flat.shape
    step = max(1, _CHUNK_CELLS // n)
    for start in range(0, n_draws, step):
        rows = flat[start : start + step]
        top = int(rows.max())
        if top > 8 * n + 65_536:
            # Label values far beyond n would need a lookup table of their own size.
            ranks = np.unique(rows, return_inverse=True)[1].reshape(rows.shape)
            rows, top = ranks, int(ranks.max())
        out = np.empty(rows.shape, np.int32)
        n_clusters = np.empty(len(rows), np.int64)
        _canonical_rows(
            np.ascontiguousarray(rows, dtype=np.int64), np.full(top + 1, -1), out, n_clusters
        )
        yield start, out, n_clusters


def size_summaries(flat: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Number of clusters, largest cluster and entropy of sizes (nats) of each draw."""
    n_draws = len(flat)
    n_clusters = np.empty(n_draws, np.int64)
    largest = np.empty(n_draws, np.int64)
    entropy = np.empty(n_draws)
    for start, rows, count in iter_canonical(flat):
        stop = start + len(rows)
        n_clusters[start:stop] = count
        room = np.zeros(count.max(), np.int64)
        _rows_sizes(rows, count, room, largest[start:stop], entropy[start:stop])
    return n_clusters, largest, entropy


def distinct(flat: np.ndarray, max_cells: int | None = None) -> Draws:
    """Merge equal partitions; thin evenly first if there are more than `max_cells` labels."""
    if max_cells is not None and flat.size > max_cells:
        keep = max(min(len(flat), 25), max_cells // flat.shape[1])
        flat = evenly(flat, keep)
    seen: dict[bytes, int] = {}
    rows_kept: list[np.ndarray] = []
    counts: list[int] = []
    which = np.empty(len(flat), np.int64)
    for start, rows, n_clusters in iter_canonical(flat):
        dtype = np.min_scalar_type(int(n_clusters.max()) - 1)
        for d in range(len(rows)):
            key = hashlib.blake2b(rows[d].data, digest_size=16).digest()
            position = seen.setdefault(key, len(counts))
            if position == len(counts):
                rows_kept.append(rows[d].astype(dtype))
                counts.append(int(n_clusters[d]))
            which[start + d] = position
    n_clusters_all = np.array(counts, np.int64)
    labels = np.empty(
        (len(counts), flat.shape[1]), np.min_scalar_type(int(n_clusters_all.max()) - 1)
    )
    for d, row in enumerate(rows_kept):
        labels[d] = row
    weights = np.bincount(which, minlength=len(counts)) / len(which)
    return Draws(labels, weights, n_clusters_all, which)


def subset_of_observations(n: int, n_rows: int, random_state: int = 0) -> np.ndarray:
    """All observations, or a fixed random subset of `n_rows` of them, in order."""
    if n <= n_rows:
        return np.arange(n)
    return np.sort(np.random.default_rng(random_state).choice(n, n_rows, replace=False))


def evenly(draws: np.ndarray, most: int) -> np.ndarray:
    """At most so many of the draws, evenly spaced."""
    if len(draws) <= most:
        return draws
    return draws[np.linspace(0, len(draws) - 1, most).round().astype(int)]
