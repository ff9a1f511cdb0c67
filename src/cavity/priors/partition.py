"""Priors over partitions: what the cluster sizes alone say about the next assignment.

Each prior is a NamedTuple of arrays that kernels read, with two verbs: the weight of every slot
for one more observation, and the log probability of a whole partition (or labelling).
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from cavity._numba.arrays import declare
from cavity._numba.jit import jit
from cavity.interface import log_prior, named_slots, prior_weights, seat_weight


class FixedWeightsState(NamedTuple):
    """Known mixture weights."""

    weights: np.ndarray  # (slots,)


class DirichletState(NamedTuple):
    """Mixture weights with a Dirichlet prior, integrated out.

    ``concentration[0]`` scales ``shape``: the symmetric prior has a shape of ones, so each cluster
    has Dirichlet parameter ``concentration``.
    """

    shape: np.ndarray  # (slots,)
    concentration: np.ndarray  # (1,)


class DirichletProcessState(NamedTuple):
    """The Chinese restaurant process: any number of clusters."""

    concentration: np.ndarray  # (1,)
    free: np.ndarray  # (slots,), a stack of the empty slots: a new cluster takes the last
    n_free: np.ndarray  # (1,), height of the stack


class PitmanYorState(NamedTuple):
    """The two-parameter Chinese restaurant process: power-law cluster sizes."""

    concentration: np.ndarray  # (1,)
    free: np.ndarray  # (slots,)
    n_free: np.ndarray  # (1,)
    discount: np.ndarray  # (1,)


class FiniteState(NamedTuple):
    """A finite mixture whose number of clusters has a prior of its own, summed out.

    K is from 1 to the number of slots that a cluster may take, with probability proportional to a
    power of 1 / K. Weights of the K clusters are symmetric Dirichlet, some of them may be empty,
    and which slots they take is left to chance.
    """

    allowed: np.ndarray  # (slots,), one for a slot that a cluster may take, else zero
    concentration: np.ndarray  # (1,), Dirichlet parameter of each cluster
    power: np.ndarray  # (1,), p(K) is proportional to K to minus this
    n: np.ndarray  # (1,), observations in clusters
    log_new: np.ndarray  # (most,), log V(t + 1) - log V(t), filled when asked for
    made_for: np.ndarray  # (2,), the concentration and the n that these are for


declare(FixedWeightsState, slots={"weights": 0}, constant=("weights",))
declare(DirichletState, slots={"shape": 0}, constant=("shape",))
declare(DirichletProcessState, slots={"free": 0})
declare(PitmanYorState, slots={"free": 0}, constant=("discount",))
declare(FiniteState, slots={"allowed": 0}, constant=("allowed", "power"))

OpenPrior = DirichletProcessState | PitmanYorState
ClosedPrior = FixedWeightsState | DirichletState | FiniteState
PartitionPrior = ClosedPrior | OpenPrior


def is_open(prior: PartitionPrior) -> bool:
    """Whether the number of clusters may grow with the data."""
    return isinstance(prior, OpenPrior)


def fixed_weights(weights: np.ndarray) -> FixedWeightsState:
    """Known mixture weights, normalised."""
    weights = np.asarray(weights, dtype=float)
    return FixedWeightsState(weights / weights.sum())


def dirichlet(
    n_clusters: int, concentration: float = 1.0, shape: np.ndarray | None = None
) -> DirichletState:
    """Dirichlet prior on the weights of `n_clusters` clusters, symmetric unless shaped."""
    shape = np.ones(n_clusters) if shape is None else np.asarray(shape, dtype=float)
    return DirichletState(shape, np.array([float(concentration)]))


def dirichlet_process(n_slots: int, concentration: float = 1.0) -> DirichletProcessState:
    """Chinese restaurant process with room for `n_slots` clusters (the room grows as needed)."""
    return DirichletProcessState(
        np.array([float(concentration)]), np.arange(n_slots)[::-1].copy(), np.array([n_slots])
    )


def pitman_yor(n_slots: int, concentration: float = 1.0, discount: float = 0.25) -> PitmanYorState:
    """Two-parameter Chinese restaurant process with room for `n_slots` clusters."""
    return PitmanYorState(*dirichlet_process(n_slots, concentration), np.array([float(discount)]))


def finite(
    n_clusters: int, n: float, concentration: float = 1.0, power: float = 2.0
) -> FiniteState:
    """Finite mixture of 1 to `n_clusters` clusters, for n observations, or weights of this sum."""
    return FiniteState(
        np.ones(n_clusters),
        np.array([float(concentration)]),
        np.array([float(power)]),
        np.array([float(n)]),
        np.full(n_clusters, np.nan),
        np.full(2, np.nan),
    )


@prior_weights.register(FixedWeightsState)
def _(prior, counts, k, out):
    for j in range(out.shape[0]):
        out[j] = prior.weights[j]
    return True


@named_slots.register(FixedWeightsState)
def _(prior):
    return True


@named_slots.register(DirichletState)
def _(prior):
    return True


@named_slots.register(FiniteState)
def _(prior):
    return True


@seat_weight.register(FixedWeightsState)
def _(prior, counts, n_clusters, k):
    return prior.weights[k]


@log_prior.register(FixedWeightsState)
def _(prior, counts):
    total = 0.0
    for k in range(counts.shape[0]):
        if counts[k] > 0:
            total += counts[k] * math.log(prior.weights[k])
    return total


@prior_weights.register(DirichletState)
def _(prior, counts, k, out):
    concentration = prior.concentration[0]
    for j in range(out.shape[0]):
        out[j] = counts[j] + concentration * prior.shape[j]
    return True


@seat_weight.register(DirichletState)
def _(prior, counts, n_clusters, k):
    return counts[k] + prior.concentration[0] * prior.shape[k]


@log_prior.register(DirichletState)
def _(prior, counts):
    total = 0.0
    mass = 0.0
    n = 0
    for k in range(counts.shape[0]):
        gamma = prior.concentration[0] * prior.shape[k]
        mass += gamma
        n += counts[k]
        if counts[k] > 0:
            total += math.lgamma(gamma + counts[k]) - math.lgamma(gamma)
    return total + math.lgamma(mass) - math.lgamma(mass + n)


@jit(forceinline=True)
def _open_weights(prior, counts, k, discount, out):
    """Occupied slots by size, one empty slot for a new cluster, the other empty ones at zero.

    The empty slots are a stack. The slot that the observation has just emptied goes on top, and
    the top is the new cluster's. So the sampler that conditions on parameters is a Gibbs sampler
    over partition, clusters' parameters and those waiting in the stack (Neal's algorithm 8 with
    one auxiliary cluster): what was passed over stays, and what was given up comes back.
    """
    n_clusters = 0
    for j in range(out.shape[0]):
        if counts[j] > 0:
            out[j] = counts[j] - discount
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
    out[prior.free[top]] = prior.concentration[0] + discount * n_clusters
    return True


@jit
def _open_log_prior(counts, concentration, discount):
    total = 0.0
    n = 0
    n_clusters = 0
    for k in range(counts.shape[0]):
        if counts[k] > 0:
            total += math.log(concentration + discount * n_clusters)
            total += math.lgamma(counts[k] - discount) - math.lgamma(1.0 - discount)
            n_clusters += 1
            n += counts[k]
    return total + math.lgamma(concentration) - math.lgamma(concentration + n)


@prior_weights.register(DirichletProcessState)
def _(prior, counts, k, out):
    return _open_weights(prior, counts, k, 0.0, out)


@seat_weight.register(DirichletProcessState)
def _(prior, counts, n_clusters, k):
    return counts[k] * 1.0 if counts[k] > 0 else prior.concentration[0]


@log_prior.register(DirichletProcessState)
def _(prior, counts):
    return _open_log_prior(counts, prior.concentration[0], 0.0)


@prior_weights.register(PitmanYorState)
def _(prior, counts, k, out):
    return _open_weights(prior, counts, k, prior.discount[0], out)


@seat_weight.register(PitmanYorState)
def _(prior, counts, n_clusters, k):
    discount = prior.discount[0]
    if counts[k] > 0:
        return counts[k] - discount
    return prior.concentration[0] + discount * n_clusters


@log_prior.register(PitmanYorState)
def _(prior, counts):
    return _open_log_prior(counts, prior.concentration[0], prior.discount[0])


@jit(internal=True)
def log_finite(t, n, gamma, power, most):
    """Log V(t), the sum over K of p(K) K!/(K - t)! Gamma(gamma K) / Gamma(gamma K + n).

    The probability of a partition of n observations in t clusters is V(t) times the product of
    Gamma(gamma + size) / Gamma(gamma) over its clusters (Miller and Harrison 2018).
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
    """Weight of each empty slot for one more observation."""
    most = prior.log_new.shape[0]
    if n_clusters >= most:
        return 0.0
    gamma = prior.concentration[0]
    if prior.made_for[0] != gamma or prior.made_for[1] != prior.n[0]:
        prior.made_for[0] = gamma
        prior.made_for[1] = prior.n[0]
        for j in range(most):
            prior.log_new[j] = math.nan
    if math.isnan(prior.log_new[n_clusters]):
        n, power = prior.n[0], prior.power[0]
        more = log_finite(n_clusters + 1, n, gamma, power, most)
        prior.log_new[n_clusters] = more - log_finite(n_clusters, n, gamma, power, most)
    return gamma * math.exp(prior.log_new[n_clusters]) / (most - n_clusters)


@prior_weights.register(FiniteState)
def _(prior, counts, k, out):
    n_clusters = 0
    for j in range(counts.shape[0]):
        if counts[j] > 0:
            n_clusters += 1
    new = _new_seat(prior, n_clusters)
    gamma = prior.concentration[0]
    for j in range(out.shape[0]):
        out[j] = counts[j] + gamma if counts[j] > 0 else new * prior.allowed[j]
    return True


@seat_weight.register(FiniteState)
def _(prior, counts, n_clusters, k):
    if counts[k] > 0:
        return counts[k] + prior.concentration[0]
    return _new_seat(prior, n_clusters) * prior.allowed[k]


@log_prior.register(FiniteState)
def _(prior, counts):
    gamma = prior.concentration[0]
    most = prior.log_new.shape[0]
    total = 0.0
    n_clusters = 0
    for k in range(counts.shape[0]):
        if counts[k] > 0:
            total += math.lgamma(gamma + counts[k]) - math.lgamma(gamma)
            n_clusters += 1
    # Of the labellings that name the same partition, this is one.
    total += math.lgamma(most - n_clusters + 1.0) - math.lgamma(most + 1.0)
    return total + log_finite(n_clusters, prior.n[0], gamma, prior.power[0], most)


def padded(prior: PartitionPrior, n_slots: int) -> PartitionPrior:
    """The same prior over `n_slots` slots; no cluster may take those added to a closed prior."""
    if not isinstance(prior, ClosedPrior):
        return prior
    extra = (0, n_slots - prior[0].size)
    return prior._replace(**{prior._fields[0]: np.pad(prior[0], extra)})


def renew(prior: PartitionPrior, counts: np.ndarray) -> PartitionPrior:
    """Take stock of the empty slots; the result has as many slots as `counts`."""
    if not isinstance(prior, OpenPrior):
        return prior
    empty = np.flatnonzero(counts == 0)[::-1]
    free = np.zeros(counts.size, dtype=np.int64)
    free[: empty.size] = empty
    return prior._replace(free=free, n_free=np.array([empty.size]))
