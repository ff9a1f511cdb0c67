"""Relabelling: each draw's clusters matched to those of one reference partition.

For every draw the one-to-one matching that shares most observations with the reference is found
(Hungarian algorithm), the equivalence-classes-representatives idea of Papastamoulis & Iliopoulos
(2010). A draw's cluster that is matched to none keeps the label -1: "elsewhere".
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from cavity.posterior.draws import as_labels, iter_canonical

_DENSE_CELLS = 250_000


@dataclass(frozen=True, eq=False)
class Relabelling:
    """How the clusters of each draw correspond to the reference partition.

    Attributes
    ----------
    reference : array of int, shape (n,)
    labels : array of int, shape (draw, n)
        Each draw in the reference's names; -1 where the draw's cluster matches none.
    slots : array of int, shape (draw, cluster)
        The draw's own label of each reference cluster, -1 where it has none.

    Examples
    --------
    >>> matched = relabel([[4, 4, 0, 1], [1, 1, 1, 0]], [0, 0, 1, 1])
    >>> matched.targets(5).tolist()
    [[1, -1, -1, -1, 0], [1, 0, -1, -1, -1]]
    """

    reference: np.ndarray
    labels: np.ndarray
    slots: np.ndarray

    @property
    def n_clusters(self) -> int:
        """Clusters of the reference."""
        return self.slots.shape[1]

    @cached_property
    def sizes(self) -> np.ndarray:
        """Observations in each reference cluster's match, (draw, cluster); 0 where it has none."""
        out = np.zeros(self.slots.shape, np.int64)
        for d, row in enumerate(self.labels):
            out[d] = np.bincount(row.astype(np.int64) + 1, minlength=self.n_clusters + 1)[1:]
        return out

    @cached_property
    def counts(self) -> np.ndarray:
        """Draws that put each observation in no cluster, and in each one, (n, 1 + cluster)."""
        width = self.n_clusters + 1
        out = np.zeros((self.labels.shape[1], width), np.int32)
        first = width * np.arange(len(out)) + 1
        for row in self.labels:
            out.reshape(-1)[first + row] += 1
        return out

    @property
    def probabilities(self) -> np.ndarray:
        """Share of draws that put each observation in each cluster, (n, cluster).

        What is left of 1 is the share of draws in which its cluster has no match.
        """
        return self.counts[:, 1:] / len(self.labels)

    def targets(self, n_slots: int) -> np.ndarray:
        """The reference's cluster of each slot of each draw, (draw, slot); -1 where it has none.

        Parameters
        ----------
        n_slots : int
            Slots that parameters of the draws have; at least the largest label plus one.
        """
        if n_slots <= self.slots.max():
            raise ValueError(
                f"n_slots is {n_slots}, but a draw has a cluster of label {self.slots.max()}"
            )
        out = np.full((len(self.slots), n_slots), -1, np.int64)
        draw, cluster = np.nonzero(self.slots >= 0)
        out[draw, self.slots[draw, cluster]] = cluster
        return out

    def select(self, values: np.ndarray) -> np.ndarray:
        """Values of shape (draw, slot, ...) reordered to (draw, cluster, ...), NaN if absent."""
        index = np.maximum(self.slots, 0)
        chosen = values[np.arange(len(values))[:, None], index].astype(float)
        chosen[self.slots < 0] = np.nan
        return chosen


def given_matched(inside: np.ndarray) -> np.ndarray:
    """Return probabilities given that the cluster is one of these; equal where none is.

    Examples
    --------
    >>> given_matched(np.array([[0.3, 0.1], [0.0, 0.0]])).round(6).tolist()
    [[0.75, 0.25], [0.5, 0.5]]
    >>> given_matched(np.empty((3, 0))).shape  # every row is noise
    (3, 0)
    """
    total = inside.sum(axis=1, keepdims=True)
    even = np.full(inside.shape, 1.0 / max(inside.shape[1], 1))
    return np.where(total > 0.0, inside / np.where(total > 0.0, total, 1.0), even)


def match(overlap: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """One-to-one matching of rows to columns that shares most; pairs that share none left out."""
    from scipy.optimize import linear_sum_assignment

    rows, columns = linear_sum_assignment(overlap, maximize=True)
    shared = overlap[rows, columns] > 0
    return rows[shared], columns[shared]


def _match_labels(z: np.ndarray, n_z: int, c: np.ndarray, n_c: int) -> tuple[np.ndarray, ...]:
    cell = z.astype(np.int64) * n_c + c
    if n_z * n_c <= _DENSE_CELLS:
        return match(np.bincount(cell, minlength=n_z * n_c).reshape(n_z, n_c))
    # Very many clusters: clusters that are not linked by shared observations match independently.
    from scipy.sparse import coo_matrix
    from scipy.sparse.csgraph import connected_components

    cells, counts = np.unique(cell, return_counts=True)
    row, column = np.divmod(cells, n_c)
    graph = coo_matrix((counts, (row, column + n_z)), shape=(n_z + n_c, n_z + n_c))
    component = connected_components(graph, directed=False)[1][row]
    order = np.argsort(component, kind="stable")
    bounds = np.flatnonzero(np.diff(component[order])) + 1
    rows_out, columns_out = [], []
    for part in np.split(order, bounds):
        r, r_at = np.unique(row[part], return_inverse=True)
        k, k_at = np.unique(column[part], return_inverse=True)
        overlap = np.zeros((len(r), len(k)), np.int64)
        overlap[r_at, k_at] = counts[part]
        rows, columns = match(overlap)
        rows_out.append(r[rows])
        columns_out.append(k[columns])
    return np.concatenate(rows_out), np.concatenate(columns_out)


def relabel(draws: Any, reference: Any, noise: int | None = None) -> Relabelling:
    """Match the clusters of each draw to those of a reference partition.

    Parameters
    ----------
    draws : array of int, shape (draw, n)
    reference : array of int, shape (n,), labels 0..K-1
    noise : int, optional
        Where label 0 of the draws is noise: what noise is in the reference, -1 if no cluster of
        it is. Noise matches noise only.

    Examples
    --------
    >>> relabel([[4, 4, 0, 0], [1, 1, 1, 0]], [0, 0, 1, 1]).labels.tolist()
    [[0, 0, 1, 1], [0, 0, 0, 1]]
    """
    flat = as_labels(draws, ndim=(2,), what="draws")
    c = as_labels(reference, ndim=(1,), what="reference").astype(np.int64)
    if len(c) != flat.shape[1]:
        raise ValueError(f"reference has {len(c)} observations, the draws have {flat.shape[1]}")
    n_c = int(c.max()) + 1
    labels = np.empty(flat.shape, np.min_scalar_type(-max(n_c, 2)))
    slots = np.full((len(flat), n_c), -1, np.int64)
    for start, rows, n_rows in iter_canonical(flat):
        for d, (z, n_z) in enumerate(zip(rows, n_rows, strict=True), start):
            outside = np.zeros(len(c), bool) if noise is None else flat[d] == 0
            both = ~outside if noise is None else ~outside & (c != noise)
            own, matched = _match_labels(z[both], n_z, c[both], n_c)
            names = np.full(n_z, -1, np.int64)
            names[own] = matched
            if noise is not None:
                names[z[outside]] = noise
            labels[d] = names[z]
            value = np.empty(n_z, np.int64)
            value[z] = flat[d]
            slots[d, matched] = value[own]
            if noise is not None and noise >= 0 and outside.any():
                slots[d, noise] = 0
    return Relabelling(c, labels, slots)


def check_level(level: float) -> float:
    """Refuse what is no probability of an interval."""
    if not 0 < level < 1:
        raise ValueError(f"level must lie strictly between 0 and 1; got {level}")
    return level


def population_weights(expected: np.ndarray, n: float) -> np.ndarray:
    """Weights that clusters may have in the population, one for each that is expected.

    Given the sizes of the clusters a weight is Beta, with the expected one as its mean and as many
    parts in all as there are rows (and what the prior adds, about one row, which is left out). The
    draws are the same at every call.

    Parameters
    ----------
    expected : array
        Expected weights given the sizes in a draw; NaN where there is no such cluster.
    n : float
        Number of rows.
    """
    there = np.isfinite(expected)
    mean = np.clip(np.where(there, expected, 0.5), 1e-12, 1.0 - 1e-12)
    drawn = np.random.default_rng(0).beta(n * mean, n * (1.0 - mean))
    return np.where(there, drawn, np.nan)


def relabelled_parameter(
    values: np.ndarray, relabelling: Relabelling, level: float = 0.95
) -> dict[str, np.ndarray]:
    """Posterior mean, standard deviation and equal-tailed interval per cluster.

    Parameters
    ----------
    values : array, shape (draw, slot, ...)
    relabelling : Relabelling
    level : float
        Probability of the interval.

    Returns
    -------
    dict
        ``mean``, ``sd``, ``lower``, ``upper``, each of shape (cluster, ...), over the draws in
        which the cluster has a match.
    """
    tail = 0.5 * (1 - check_level(level))
    chosen = relabelling.select(values)
    out = {key: np.full(chosen.shape[1:], np.nan) for key in ("mean", "sd", "lower", "upper")}
    for k in range(chosen.shape[1]):
        present = chosen[relabelling.slots[:, k] >= 0, k]
        present = present[np.isfinite(present).all(axis=tuple(range(1, present.ndim)))]
        if len(present):
            # Sums and squares of values near 1e300 would overflow.
            size = np.abs(present).max(axis=0)
            size = np.where(size > 0, size, 1.0)
            out["mean"][k] = (present / size).mean(axis=0) * size
            out["sd"][k] = (present / size).std(axis=0) * size
            out["lower"][k], out["upper"][k] = np.quantile(present, [tail, 1 - tail], axis=0)
    return out
