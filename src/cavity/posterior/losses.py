r"""Losses between partitions, and their expectation over draws.

With :math:`p_{kj}` the share of observations in cluster k of the estimate and cluster j of the
truth, :math:`p_{k\cdot}` and :math:`p_{\cdot j}` its margins, and :math:`b = 2 - a`,

.. math:: L = a \sum_j f(p_{\cdot j}) + b \sum_k f(p_{k\cdot}) - (a + b) \sum_{kj} f(p_{kj})

is the (generalised) variation of information in nats for :math:`f(p) = p \log p`, and the
(generalised) Binder loss, twice the weighted number of misjudged pairs over :math:`n^2`, for
:math:`f(p) = p^2`. `a` is the cost of separating two observations that belong together, `2 - a`
that of joining two that do not; larger `a` gives fewer clusters. The third loss is one minus the
adjusted Rand index.
"""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Real
from typing import Any

import numpy as np

from cavity._numba.jit import jit
from cavity.posterior.draws import as_labels, canonical, iter_canonical

LOSSES = ("vi", "binder", "omari")
# Of every estimate, where nothing else is asked for.
DEFAULT = "omari"


@dataclass(frozen=True)
class Loss:
    """A loss between partitions, with the costs of its two errors.

    Parameters
    ----------
    name : {"vi", "binder", "omari"}
        Variation of information (nats), Binder, or one minus the adjusted Rand index.
    a : float
        For VI and Binder: cost of separating two observations that belong together, between 0 and
        2; joining two that do not costs 2 - a. Above 1 gives fewer clusters, below 1 more.

    Examples
    --------
    >>> Loss("binder", a=1.2)
    Loss(name='binder', a=1.2)
    """

    name: str
    a: float = 1.0

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or self.name not in LOSSES:
            listed = ", ".join(map(repr, LOSSES))
            raise ValueError(f"loss must be one of {listed}, or a Loss; got {self.name!r}")
        number = isinstance(self.a, Real) and not isinstance(self.a, bool)
        if not number or not 0 < self.a < 2:
            raise ValueError(
                f"a of a loss must lie strictly between 0 and 2 (1 weighs both errors alike); got "
                f"{self.a!r}"
            )
        object.__setattr__(self, "a", float(self.a))
        if self.name == "omari" and self.a != 1.0:
            raise ValueError("a has no meaning for the loss 'omari'; use 'vi' or 'binder'")


def as_loss(loss: str | Loss) -> Loss:
    """The loss that a word names, or itself."""
    return loss if isinstance(loss, Loss) else Loss(loss)


def loss_table(name: str, n: int) -> np.ndarray:
    """Values of f at whole counts 0..n, unnormalised: m log m, or m squared."""
    m = np.arange(n + 1, dtype=float)
    if name == "vi":
        return m * np.log(np.maximum(m, 1.0))
    return m * m


@jit(forceinline=True)
def omari_value(together, pairs_c, pairs_z, pairs):
    """One minus the adjusted Rand index from numbers of pairs."""
    if pairs <= 0.0:
        return 0.0
    expected = pairs_c * pairs_z / pairs
    span = 0.5 * (pairs_c + pairs_z) - expected
    if span <= 1e-9 * pairs:
        # Both are one cluster, or both all singletons: they agree.
        return 0.0
    return 1.0 - (together - expected) / span


@jit
def _loss_rows(c, n_c, own, rows, n_rows, table, is_table, a, cross, size_z, out):
    """Loss between the estimate c and each canonical row.

    ``own`` is the estimate's sum of f (its number of pairs for omARI); ``cross`` and ``size_z``
    are rooms for counts, at zero.
    """
    n = c.shape[0]
    top = size_z.shape[0]
    # With few clusters the table of counts is small and summed as a whole; with many, its entries
    # are met one by one while counting, and cleared the same way.
    dense = n_c * top <= 2 * n
    for d in range(rows.shape[0]):
        both = 0.0
        theirs = 0.0
        if dense:
            for i in range(n):
                cross[c[i] * top + rows[d, i]] += 1
            for j in range(n_rows[d]):
                size = 0
                for k in range(n_c):
                    m = cross[k * top + j]
                    cross[k * top + j] = 0
                    size += m
                    both += table[m] if is_table else 0.5 * m * (m - 1)
                theirs += table[size] if is_table else 0.5 * size * (size - 1)
        else:
            for i in range(n):
                cell = c[i] * top + rows[d, i]
                m = cross[cell]
                size = size_z[rows[d, i]]
                both += table[m + 1] - table[m] if is_table else float(m)
                theirs += table[size + 1] - table[size] if is_table else float(size)
                cross[cell] = m + 1
                size_z[rows[d, i]] = size + 1
            for i in range(n):
                cross[c[i] * top + rows[d, i]] = 0
                size_z[rows[d, i]] = 0
        if is_table:
            out[d] = a * theirs + (2.0 - a) * own - 2.0 * both
        else:
            out[d] = omari_value(both, own, theirs, 0.5 * n * (n - 1))


def losses_to_rows(
    labels: np.ndarray, rows: np.ndarray, n_rows: np.ndarray, loss: Loss
) -> np.ndarray:
    """Loss of one canonical partition against canonical rows."""
    n = len(labels)
    out = np.empty(len(rows))
    is_table = loss.name != "omari"
    n_labels, top = int(labels.max()) + 1, int(n_rows.max())
    if n_labels * top > 50_000_000:
        # Two partitions of very many clusters: count over their meet instead of a full table.
        return np.array([_loss_pair_sparse(labels, row, loss) for row in rows])
    table = loss_table(loss.name, n if is_table else 0)
    sizes = np.bincount(labels)
    own = float(table[sizes].sum() if is_table else 0.5 * np.sum(sizes * (sizes - 1.0)))
    _loss_rows(
        labels.astype(np.int32),
        n_labels,
        own,
        rows.astype(np.min_scalar_type(top - 1), copy=False),
        n_rows,
        table,
        is_table,
        loss.a,
        np.zeros(n_labels * top, np.int32),
        np.zeros(top, np.int64),
        out,
    )
    if is_table:
        out /= float(n) if loss.name == "vi" else float(n) ** 2
    return np.maximum(out, 0.0)


def _loss_pair_sparse(c: np.ndarray, z: np.ndarray, loss: Loss) -> float:
    n = len(c)
    size_c, size_z = np.bincount(c), np.bincount(z)
    cell = c.astype(np.int64) * len(size_z) + z
    cross = np.unique(cell, return_counts=True)[1]
    if loss.name == "omari":
        pairs = [0.5 * float(np.sum(s * (s - 1.0))) for s in (cross, size_c, size_z)]
        return omari_value(*pairs, 0.5 * n * (n - 1))
    table = loss_table(loss.name, n)
    value = loss.a * table[size_z].sum() + (2 - loss.a) * table[size_c].sum()
    return (value - 2.0 * table[cross].sum()) / (n if loss.name == "vi" else float(n) ** 2)


def losses_to_draws(labels: Any, draws: Any, loss: Loss) -> np.ndarray:
    """Loss of a partition as the estimate, against each of many draws (draw, n) as the truth."""
    flat = as_labels(draws, ndim=(2, 3), what="draws")
    flat = flat.reshape(-1, flat.shape[-1])
    c = canonical(as_labels(labels, ndim=(1,)))
    if len(c) != flat.shape[1]:
        raise ValueError(f"labels has {len(c)} observations, the draws have {flat.shape[1]}")
    out = np.empty(len(flat))
    for start, rows, n_rows in iter_canonical(flat):
        out[start : start + len(rows)] = losses_to_rows(c, rows, n_rows, loss)
    return out


def expected_loss(labels: Any, draws: Any, *, loss: str | Loss = DEFAULT) -> float:
    """Posterior expected loss of a partition, from the draws themselves.

    Parameters
    ----------
    labels : array of int, shape (n,)
        The partition.
    draws : array of int, shape (draw, n) or (chain, draw, n)
        Draws of partitions.
    loss : {"vi", "binder", "omari"} or Loss

    Examples
    --------
    >>> expected_loss([0, 0, 1], [[0, 0, 1], [5, 5, 2]])
    0.0
    >>> round(expected_loss([0, 0, 0], [[0, 0, 1]], loss="binder"), 4)
    0.4444
    """
    return float(losses_to_draws(labels, draws, as_loss(loss)).mean())


def partition_distance(first: Any, second: Any, *, loss: str | Loss = "vi") -> float:
    """Loss of one partition as an estimate of another; VI by default.

    Examples
    --------
    >>> partition_distance([0, 0, 1, 1], [1, 1, 0, 0])
    0.0
    """
    second = as_labels(second, ndim=(1,))
    return float(losses_to_draws(first, second[None], as_loss(loss))[0])
