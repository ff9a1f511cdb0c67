"""Partition priors over rows that are not all alike: weights, known labels, a place for noise.

A wrapper of a prior over plain rows.

* A row of weight w counts as w rows that share their label: where one row has the weight x of a
  slot, w have x (x + 1) ... (x + w - 1), a ratio of gamma functions for any w.
* A row whose label is known is in the slot of that label, and in no other.
* A row is noise with a probability that has a beta prior; those that are not follow the prior.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from cavity._numba.arrays import declare
from cavity._numba.jit import jit, verb
from cavity.interface import (
    is_cluster,
    join,
    leave,
    log_prior,
    log_seat,
    named_slots,
    prior_weights,
    row_size,
    row_weights,
    seat_power,
    seat_weight,
)
from cavity.priors.partition import (
    DirichletProcessState,
    DirichletState,
    FiniteState,
    FixedWeightsState,
    PartitionPrior,
    PitmanYorState,
    is_open,
    log_finite,
    padded,
    renew,
)

NO_SLOT = -1


class RowPrior(NamedTuple):
    """A partition prior, and what is known of every row."""

    base: Any
    size: np.ndarray  # (n,), weights
    home: np.ndarray  # (n,), the slot that a row is held in, -1 for none
    noise_slot: np.ndarray  # (1,), -1 for none
    noise_size: np.ndarray  # (1,), weight of the rows that are there
    noise_prior: np.ndarray  # (2,), of the beta distribution

    @property
    def concentration(self) -> np.ndarray:
        """That of the prior, where it has one."""
        return self.base.concentration


declare(RowPrior, slots={}, constant=("size", "home", "noise_slot", "noise_prior"))


class RowPlaces(NamedTuple):
    """What a prior is told of rows that are not all plain, for all chains.

    Attributes
    ----------
    size : array of float, shape (n,)
        Weights.
    home : array of int, shape (n,)
        The slot that a row is held in, -1 for none.
    noise : (float, float) or None
        Beta prior of the share of noise, whose slot is the first; None without noise.
    """

    size: np.ndarray
    home: np.ndarray
    noise: tuple[float, float] | None = None

    def first(self, n: int) -> RowPlaces:
        """Those of the first n rows, none of them held anywhere."""
        return RowPlaces(self.size[:n], np.full(n, NO_SLOT), self.noise)

    @property
    def total(self) -> float:
        """Sum of the weights."""
        return float(self.size.sum())

    def around(self, prior: PartitionPrior, n_slots: int) -> RowPrior:
        """A chain's prior over these rows; the slot of noise comes before those of clusters."""
        base: Any = padded(prior, n_slots)
        if self.noise is not None:
            if isinstance(base, FixedWeightsState):
                base = FixedWeightsState(np.roll(base.weights, 1))
            elif isinstance(base, DirichletState):
                base = base._replace(shape=np.roll(base.shape, 1))
            elif isinstance(base, FiniteState):
                base = base._replace(allowed=np.roll(base.allowed, 1))
        return RowPrior(
            base,
            np.ascontiguousarray(self.size, dtype=float),
            np.ascontiguousarray(self.home, dtype=np.int64),
            np.array([NO_SLOT if self.noise is None else 0], dtype=np.int64),
            np.zeros(1),
            np.array((1.0, 1.0) if self.noise is None else self.noise, dtype=float),
        )


def row_sizes(prior: Any, z: np.ndarray, n_slots: int) -> np.ndarray:
    """Cluster sizes of labels: numbers of rows, or their weights."""
    if not isinstance(prior, RowPrior):
        return np.bincount(z, minlength=n_slots).astype(np.int64)
    sizes = np.bincount(z, prior.size, n_slots)
    noise = int(prior.noise_slot[0])
    if noise >= 0:
        prior.noise_size[0] = sizes[noise]
        sizes[noise] = 0.0
    return sizes


def plain(prior: Any) -> Any:
    """The prior over plain rows that a prior is, or is around."""
    return prior.base if isinstance(prior, RowPrior) else prior


def renew_rows(prior: Any, counts: np.ndarray) -> Any:
    """``renew`` of any prior; the slot of noise is never free, and its rows do not count."""
    if not isinstance(prior, RowPrior):
        return renew(prior, counts)
    if isinstance(prior.base, FiniteState):
        prior.base.n[0] = counts.sum()
    taken = counts.copy()
    if prior.noise_slot[0] >= 0:
        taken[prior.noise_slot[0]] = 1.0
    return prior._replace(base=renew(prior.base, taken))


# --------------------------------------------------------------------------- many at once


@verb
def log_block(base, seat, occupied, w):
    """Log weight of w rows at once in a slot where one has the weight `seat`."""


@verb
def log_seats(base, counts, n):
    """Log of the normaliser of so many rows that come one after another, up to a constant."""


@verb
def set_total(base, n):
    """Tell a prior how many rows are in clusters, where that matters to it."""


@verb
def spare_slot(base):
    """A slot that may be named as the one just left without being taken for an empty one."""


@log_block.register(None)
def _(base, seat, occupied, w):
    return math.lgamma(seat + w) - math.lgamma(seat)


@log_block.register(FixedWeightsState)
def _(base, seat, occupied, w):
    return w * math.log(seat)


@jit(internal=True)
def _open_block(seat, occupied, second, w):
    """With the weight `second` of one more row in a slot that has one."""
    if occupied:
        return math.lgamma(seat + w) - math.lgamma(seat)
    return math.log(seat) + math.lgamma(second + w - 1.0) - math.lgamma(second)


@log_block.register(DirichletProcessState)
def _(base, seat, occupied, w):
    return _open_block(seat, occupied, 1.0, w)


@log_block.register(PitmanYorState)
def _(base, seat, occupied, w):
    return _open_block(seat, occupied, 1.0 - base.discount[0], w)


@log_block.register(FiniteState)
def _(base, seat, occupied, w):
    return _open_block(seat, occupied, 1.0 + base.concentration[0], w)


@set_total.register(None)
def _(base, n):
    return None


@set_total.register(FiniteState)
def _(base, n):
    base.n[0] = n


@log_seats.register(None)
def _(base, counts, n):
    return math.lgamma(base.concentration[0] + n)


@log_seats.register(FiniteState)
def _(base, counts, n):
    n_clusters = 0
    for k in range(counts.shape[0]):
        if counts[k] > 0:
            n_clusters += 1
    most = base.log_new.shape[0]
    return -log_finite(n_clusters, n, base.concentration[0], base.power[0], most)


@log_seats.register(DirichletState)
def _(base, counts, n):
    mass = 0.0
    for k in range(base.shape.shape[0]):
        mass += base.concentration[0] * base.shape[k]
    return math.lgamma(mass + n)


@log_seats.register(FixedWeightsState)
def _(base, counts, n):
    return 0.0


@spare_slot.register(None)
def _(base):
    return base.free[base.n_free[0] - 1]


@spare_slot.register(FixedWeightsState)
def _(base):
    return np.int64(0)


@spare_slot.register(DirichletState)
def _(base):
    return np.int64(0)


@spare_slot.register(FiniteState)
def _(base):
    return np.int64(0)


# --------------------------------------------------------------------------- verbs


@leave.register(RowPrior)
def _(prior, counts, i, k):
    if k == prior.noise_slot[0]:
        prior.noise_size[0] -= prior.size[i]
    else:
        counts[k] -= prior.size[i]


@join.register(RowPrior)
def _(prior, counts, i, k):
    if k == prior.noise_slot[0]:
        prior.noise_size[0] += prior.size[i]
    else:
        counts[k] += prior.size[i]


@is_cluster.register(RowPrior)
def _(prior, k):
    return k != prior.noise_slot[0]


@row_weights.register(RowPrior)
def _(prior, counts, i, k, out):
    base = prior.base
    home = prior.home[i]
    if home >= 0:
        for j in range(out.shape[0]):
            out[j] = 0.0
        out[home] = 1.0
        return True
    noise = prior.noise_slot[0]
    left = k
    if k == noise:
        left = spare_slot(base)
        for j in range(counts.shape[0]):
            if counts[j] > 0:
                left = np.int64(j)
    w = prior.size[i]
    n = 0.0
    for j in range(counts.shape[0]):
        n += counts[j]
    set_total(base, n + w)
    if not prior_weights(base, counts, left, out):
        return False
    if noise < 0 and w == 1.0:
        return True
    shift = 0.0
    if noise >= 0:
        a, b = prior.noise_prior[0], prior.noise_prior[1]
        shift = math.lgamma(n + b + w) - math.lgamma(n + b)
        shift += log_seats(base, counts, n) - log_seats(base, counts, n + w)
        size = prior.noise_size[0] + a
        out[noise] = math.exp((math.lgamma(size + w) - math.lgamma(size)) / max(w, 1.0))
    for j in range(out.shape[0]):
        if j != noise and out[j] > 0.0:
            value = shift + log_block(base, out[j], counts[j] > 0, w)
            # As one of max(w, 1) equal factors: see ``pick`` of uneven rows.
            out[j] = math.exp(value / max(w, 1.0))
    return True


@row_size.register(RowPrior)
def _(prior, i):
    return prior.size[i]


@seat_power.register(RowPrior)
def _(prior, i):
    return max(prior.size[i], 1.0)


@log_seat.register(RowPrior)
def _(prior, counts, n_clusters, i, k):
    home = prior.home[i]
    if home >= 0 and home != k:
        return -math.inf
    seat = seat_weight(prior.base, counts, n_clusters, k)
    if prior.size[i] == 1.0:
        return math.log(seat)
    return log_block(prior.base, seat, counts[k] > 0, prior.size[i])


@seat_weight.register(RowPrior)
def _(prior, counts, n_clusters, k):
    if k == prior.noise_slot[0]:
        return 0.0
    return seat_weight(prior.base, counts, n_clusters, k)


@named_slots.register(RowPrior)
def _(prior):
    return named_slots(prior.base)


@log_prior.register(RowPrior)
def _(prior, counts):
    n = 0.0
    for k in range(counts.shape[0]):
        n += counts[k]
    set_total(prior.base, n)
    total = log_prior(prior.base, counts)
    if prior.noise_slot[0] >= 0:
        a, b = prior.noise_prior[0], prior.noise_prior[1]
        m = prior.noise_size[0]
        total += math.lgamma(m + a) + math.lgamma(n + b) - math.lgamma(n + m + a + b)
        total += math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b)
    return total


def prior_is_open(prior: Any) -> bool:
    """Whether the number of clusters may grow with the data."""
    return is_open(plain(prior))
