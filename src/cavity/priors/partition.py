"""Priors over partitions: one struct for all of them, and the functions that kernels call.

Four kinds of prior share the type `PartitionPrior`, so every kernel is compiled once for all:

* ``FIXED``: known mixture weights.
* ``DIRICHLET``: mixture weights with a Dirichlet prior, integrated out. Cluster k has parameter
  ``concentration * weights[k]``.
* ``FINITE``: a finite mixture whose number of clusters K has a prior proportional to
  ``K ** -power`` and is summed out (Miller and Harrison 2018). The weights of the K clusters are
  symmetric Dirichlet, some of the clusters may be empty, and the slots they take are random.
* ``PROCESS``: the Pitman-Yor process, any number of clusters. With a discount of zero it is the
  Dirichlet process.

The same struct describes rows that differ from each other. It is empty in this respect for plain
rows.

* A row whose label is known stays in the slot of that label.
* A row is noise with a probability that has a beta prior; the others follow the prior.

Cluster sizes (``counts``) are numbers of rows, as floats; a row counts once whatever its weight in
the likelihood. Rows that are noise are counted in ``noise_size`` instead.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from cavity._numba.arrays import declare
from cavity._numba.jit import jit

FIXED, DIRICHLET, FINITE, PROCESS = range(4)
NO_SLOT = -1


class PartitionPrior(NamedTuple):
    """A partition prior of one chain; arrays that a kind does not need are empty."""

    kind: int
    weights: np.ndarray  # (slots,) weights, or Dirichlet shape, or 1 for a slot open to clusters
    concentration: np.ndarray  # (1,)
    discount: float
    power: float
    n: np.ndarray  # (1,) observations in clusters, for FINITE
    log_new: np.ndarray  # (most clusters,) log V(t + 1) - log V(t), filled on demand, for FINITE
    log_new_key: np.ndarray  # (2,) concentration and n that log_new was computed for
    free: np.ndarray  # (slots,) stack of the empty slots, for PROCESS: a new cluster takes the top
    n_free: np.ndarray  # (1,) height of the stack
    home: np.ndarray  # (rows,) slot of a known label, -1 for none; empty for plain rows
    noise_slot: int  # -1 for none
    noise_size: np.ndarray  # (1,) rows that are noise
    noise_prior: np.ndarray  # (2,) of the beta distribution

    @property
    def is_open(self) -> bool:
        """Whether the number of clusters may grow with the data."""
        return self.kind == PROCESS

    @property
    def has_concentration(self) -> bool:
        """Whether the prior depends on a concentration."""
        return self.kind != FIXED


declare(
    PartitionPrior,
    slots={"weights": 0, "free": 0},
    constant=("weights", "home", "noise_prior"),
)


def _prior(
    kind: int,
    weights: np.ndarray,
    concentration: float = 1.0,
    *,
    discount: float = 0.0,
    power: float = 0.0,
    n: float = 0.0,
    n_free: int = 0,
) -> PartitionPrior:
    """A prior over plain rows."""
    return PartitionPrior(
        kind=kind,
        weights=np.array(weights, dtype=float),
        concentration=np.array([float(concentration)]),
        discount=float(discount),
        power=float(power),
        n=np.array([float(n)]),
        log_new=np.full(len(weights) if kind == FINITE else 0, np.nan),
        log_new_key=np.full(2, np.nan),
        free=np.arange(n_free)[::-1].copy(),
        n_free=np.array([n_free]),
        home=np.empty(0, dtype=np.int64),
        noise_slot=NO_SLOT,
        noise_size=np.zeros(1),
        noise_prior=np.ones(2),
    )


def fixed_weights(weights: np.ndarray) -> PartitionPrior:
    """Known mixture weights, normalized."""
    weights = np.asarray(weights, dtype=float)
    return _prior(FIXED, weights / weights.sum())


def dirichlet(
    n_clusters: int, concentration: float = 1.0, shape: np.ndarray | None = None
) -> PartitionPrior:
    """Dirichlet prior on the weights of `n_clusters` clusters, symmetric by default."""
    return _prior(DIRICHLET, np.ones(n_clusters) if shape is None else shape, concentration)


def finite(
    n_clusters: int, n: float, concentration: float = 1.0, power: float = 2.0
) -> PartitionPrior:
    """Finite mixture of 1 to `n_clusters` clusters, for n rows."""
    return _prior(FINITE, np.ones(n_clusters), concentration, power=power, n=n)


def dirichlet_process(n_slots: int, concentration: float = 1.0) -> PartitionPrior:
    """Chinese restaurant process with `n_slots` slots (more are added as needed)."""
    return pitman_yor(n_slots, concentration, 0.0)


def pitman_yor(n_slots: int, concentration: float = 1.0, discount: float = 0.25) -> PartitionPrior:
    """Two-parameter Chinese restaurant process with `n_slots` slots."""
    return _prior(PROCESS, np.empty(0), concentration, discount=discount, n_free=n_slots)


def padded(prior: PartitionPrior, n_slots: int) -> PartitionPrior:
    """Return the prior over `n_slots` slots; no cluster may take those added to a closed prior."""
    if prior.is_open:
        return prior
    return prior._replace(weights=np.pad(prior.weights, (0, n_slots - prior.weights.size)))


@jit
def _renew_lists(n, free, n_free, varies, noise_slot, counts):
    """Sum the sizes and list the empty slots, in place."""
    total = 0.0
    empty = 0
    for k in range(counts.shape[0] - 1, -1, -1):
        total += counts[k]
        if free.shape[0] > 0 and counts[k] == 0 and k != noise_slot:
            free[empty] = k
            empty += 1
    if varies:
        n[0] = total
    n_free[0] = empty


@jit(internal=True)
def renew_slots(prior, counts):
    """Call ``renew`` from kernels, with enough memory for every slot."""
    varies = prior.home.shape[0] > 0
    _renew_lists(prior.n, prior.free, prior.n_free, varies, prior.noise_slot, counts)


def renew(prior: PartitionPrior, counts: np.ndarray) -> PartitionPrior:
    """Return the prior with its list of empty slots brought up to date with `counts`."""
    if prior.is_open and prior.free.size != len(counts):
        prior = prior._replace(free=np.zeros(len(counts), dtype=np.int64))
    varies = prior.home.size > 0
    _renew_lists(prior.n, prior.free, prior.n_free, varies, prior.noise_slot, counts)
    return prior


def cluster_sizes(prior: PartitionPrior, z: np.ndarray, n_slots: int) -> np.ndarray:
    """Return the number of rows in every slot; the noise slot has ``noise_size``."""
    sizes = np.bincount(z, minlength=n_slots).astype(float)
    if prior.noise_slot >= 0:
        prior.noise_size[0] = sizes[prior.noise_slot]
        sizes[prior.noise_slot] = 0.0
    return sizes


# --------------------------------------------------------------------------- rows and slots


@jit(internal=True, forceinline=True)
def leave(prior, counts, k):
    """Count one row less in slot k."""
    if k == prior.noise_slot:
        prior.noise_size[0] -= 1.0
    else:
        counts[k] -= 1.0


@jit(internal=True, forceinline=True)
def join(prior, counts, k):
    """Count one row more in slot k."""
    if k == prior.noise_slot:
        prior.noise_size[0] += 1.0
    else:
        counts[k] += 1.0


@jit(internal=True, forceinline=True)
def is_cluster(prior, k):
    """Return whether slot k is a cluster rather than noise."""
    return k != prior.noise_slot


@jit(internal=True, forceinline=True)
def named_slots(prior):
    """Return whether the prior is over labels, which makes slots part of the state."""
    return prior.kind != PROCESS


# --------------------------------------------------------------------------- one more row


@jit(internal=True)
def log_finite(t, n, gamma, power, most):
    """Log V(t), the sum over K of p(K) K!/(K - t)! Gamma(gamma K) / Gamma(gamma K + n).

    The probability of a partition of n observations in t clusters is V(t) times the product of
    Gamma(gamma + size) / Gamma(gamma) over its clusters.
    """
    top = -math.inf
    total = 0.0
    mass = 0.0
    for k in range(1, most + 1):
        mass += float(k) ** -power
    for k in range(max(t, 1), most + 1):
        term = -power * math.log(k) - math.log(mass)
        term += math.lgamma(k + 1.0) - math.lgamma(k - t + 1.0)
        term += math.lgamma(gamma * k) - math.lgamma(gamma * k + n)
        if term > top:
            total = total * math.exp(top - term) + 1.0
            top = term
        else:
            total += math.exp(term - top)
    return top + math.log(total)


@jit(internal=True)
def _new_seat(prior, n_clusters):
    """Weight of each empty slot of a finite mixture for one more observation."""
    most = prior.log_new.shape[0]
    if n_clusters >= most:
        return 0.0
    gamma, n = prior.concentration[0], prior.n[0]
    if prior.log_new_key[0] != gamma or prior.log_new_key[1] != n:
        prior.log_new_key[0] = gamma
        prior.log_new_key[1] = n
        for j in range(most):
            prior.log_new[j] = math.nan
    if math.isnan(prior.log_new[n_clusters]):
        more = log_finite(n_clusters + 1, n, gamma, prior.power, most)
        prior.log_new[n_clusters] = more - log_finite(n_clusters, n, gamma, prior.power, most)
    return gamma * math.exp(prior.log_new[n_clusters]) / (most - n_clusters)


@jit(internal=True)
def _occupied(counts):
    """Number of occupied clusters."""
    n_clusters = 0
    for k in range(counts.shape[0]):
        if counts[k] > 0:
            n_clusters += 1
    return n_clusters


@jit(internal=True, forceinline=True)
def _process_weights(prior, counts, k, out):
    """Occupied slots by size, one empty slot for a new cluster, the other empty ones at zero.

    The empty slots are a stack. The slot that the observation has just emptied goes on top, and
    the top is the new cluster's. So the sampler that conditions on parameters is a Gibbs sampler
    over partition, clusters' parameters and those waiting in the stack (Neal's algorithm 8 with
    one auxiliary cluster): parameters not chosen stay, and those given up come back.
    """
    n_clusters = 0
    for j in range(out.shape[0]):
        if counts[j] > 0:
            out[j] = counts[j] - prior.discount
            n_clusters += 1
        else:
            out[j] = 0.0
    top = prior.n_free[0] - 1
    while top >= 0 and counts[prior.free[top]] > 0:
        top -= 1
    if counts[k] == 0 and (top < 0 or prior.free[top] != k):
        top += 1
        prior.free[top] = k
    prior.n_free[0] = top + 1
    if top < 0:
        return False
    out[prior.free[top]] = prior.concentration[0] + prior.discount * n_clusters
    return True


@jit(internal=True, forceinline=True)
def prior_weights(prior, counts, k, out):
    """Write each slot's prior weight for one plain row that has just left slot k.

    Returns False if an open prior finds no free slot.
    """
    gamma = prior.concentration[0]
    if prior.kind == PROCESS:
        return _process_weights(prior, counts, k, out)
    if prior.kind == FINITE:
        new = _new_seat(prior, _occupied(counts))
        for j in range(out.shape[0]):
            out[j] = counts[j] + gamma if counts[j] > 0 else new * prior.weights[j]
    elif prior.kind == DIRICHLET:
        for j in range(out.shape[0]):
            out[j] = counts[j] + gamma * prior.weights[j]
    else:
        for j in range(out.shape[0]):
            out[j] = prior.weights[j]
    return True


@jit(internal=True)
def _log_normalizer(prior, counts, n):
    """Log normalizer of n rows that come one after another, up to a constant."""
    gamma = prior.concentration[0]
    if prior.kind == PROCESS:
        return math.lgamma(gamma + n)
    if prior.kind == FINITE:
        return -log_finite(_occupied(counts), n, gamma, prior.power, prior.log_new.shape[0])
    if prior.kind == DIRICHLET:
        mass = 0.0
        for k in range(prior.weights.shape[0]):
            mass += gamma * prior.weights[k]
        return math.lgamma(mass + n)
    return 0.0


@jit(internal=True)
def _slot_left(prior, counts):
    """Return a slot to pass as the one left by a noise row; it does not become empty."""
    left = prior.free[prior.n_free[0] - 1] if prior.kind == PROCESS else np.int64(0)
    for j in range(counts.shape[0]):
        if counts[j] > 0:
            left = np.int64(j)
    return left


@jit(internal=True, forceinline=True)
def row_weights(prior, counts, i, k, out):
    """Write each slot's prior weight for row i, which has just left slot k.

    Returns False if an open prior finds no free slot.
    """
    if prior.home.shape[0] == 0:
        return prior_weights(prior, counts, k, out)
    home = prior.home[i]
    if home >= 0:
        for j in range(out.shape[0]):
            out[j] = 0.0
        out[home] = 1.0
        return True
    noise = prior.noise_slot
    if k == noise:
        k = _slot_left(prior, counts)
    n = 0.0
    for j in range(counts.shape[0]):
        n += counts[j]
    prior.n[0] = n + 1.0
    if not prior_weights(prior, counts, k, out):
        return False
    if noise >= 0:
        # A cluster's weight is normalized by how many rows are in clusters, which may change.
        inside = _log_normalizer(prior, counts, n) - _log_normalizer(prior, counts, n + 1.0)
        factor = (n + prior.noise_prior[1]) * math.exp(inside)
        for j in range(out.shape[0]):
            out[j] *= factor
        out[noise] = prior.noise_size[0] + prior.noise_prior[0]
    return True


@jit(internal=True, forceinline=True)
def seat_weight(prior, counts, n_clusters, k):
    """Prior weight of one more plain row in slot k, occupied or not.

    The product over rows that come one after another is the partition's probability, whatever
    their order, up to a factor that depends only on their number.
    """
    gamma = prior.concentration[0]
    if k == prior.noise_slot:
        return 0.0
    if prior.kind == FIXED:
        return prior.weights[k]
    if prior.kind == DIRICHLET:
        return counts[k] + gamma * prior.weights[k]
    if prior.kind == FINITE:
        if counts[k] > 0:
            return counts[k] + gamma
        return _new_seat(prior, n_clusters) * prior.weights[k]
    return counts[k] - prior.discount if counts[k] > 0 else gamma + prior.discount * n_clusters


@jit(internal=True)
def seat_of(prior, counts, n_clusters, i, k):
    """Prior weight of row i in slot k; zero where its label is another one."""
    if prior.home.shape[0] > 0 and prior.home[i] >= 0 and prior.home[i] != k:
        return 0.0
    return seat_weight(prior, counts, n_clusters, k)


@jit(internal=True)
def log_seat(prior, counts, n_clusters, i, k):
    """Log prior weight of row i in slot k; minus infinity where its label is another one."""
    weight = seat_of(prior, counts, n_clusters, i, k)
    return math.log(weight) if weight > 0.0 else -math.inf


# --------------------------------------------------------------------------- all rows


@jit(internal=True)
def _log_clusters(prior, counts):
    """Log prior probability of the rows in clusters."""
    gamma = prior.concentration[0]
    total = 0.0
    mass = 0.0
    n = 0.0
    n_clusters = 0
    for k in range(counts.shape[0]):
        if prior.kind == DIRICHLET:
            mass += gamma * prior.weights[k]
        if not counts[k] > 0:
            continue
        n += counts[k]
        if prior.kind == FIXED:
            total += counts[k] * math.log(prior.weights[k])
        elif prior.kind == PROCESS:
            total += math.log(gamma + prior.discount * n_clusters)
            total += math.lgamma(counts[k] - prior.discount) - math.lgamma(1.0 - prior.discount)
        else:
            own = gamma * prior.weights[k]
            total += math.lgamma(own + counts[k]) - math.lgamma(own)
        n_clusters += 1
    if prior.kind == DIRICHLET:
        total += math.lgamma(mass) - math.lgamma(mass + n)
    elif prior.kind == PROCESS:
        total += math.lgamma(gamma) - math.lgamma(gamma + n)
    elif prior.kind == FINITE:
        most = prior.log_new.shape[0]
        # Several labelings describe the same partition; this is one of them.
        total += math.lgamma(most - n_clusters + 1.0) - math.lgamma(most + 1.0)
        total += log_finite(n_clusters, prior.n[0], gamma, prior.power, most)
    return total


@jit
def log_prior(prior, counts):
    """Log prior probability of the partition with these cluster sizes."""
    if prior.home.shape[0] == 0:
        return _log_clusters(prior, counts)
    n = 0.0
    for k in range(counts.shape[0]):
        n += counts[k]
    prior.n[0] = n
    total = _log_clusters(prior, counts)
    if prior.noise_slot >= 0:
        a, b = prior.noise_prior[0], prior.noise_prior[1]
        m = prior.noise_size[0]
        total += math.lgamma(m + a) + math.lgamma(n + b) - math.lgamma(n + m + a + b)
        total += math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b)
    return total
