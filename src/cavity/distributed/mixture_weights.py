"""Weights of the clusters that rows may go to, drawn given cluster sizes.

Under a closed prior every slot is a cluster, and the weights given the sizes are Dirichlet. Where
the number of clusters has a prior of its own it is drawn first, given how many have rows, and some
of the empty slots, at random, are the others (telescoping; Fruehwirth-Schnatter and others 2021).

Under the Dirichlet process G = sum of pi_k over the occupied clusters + pi_* G', with weights
(pi, pi_*) ~ Dirichlet(sizes, concentration) and G' a process of its own, whose first atoms, broken
off a stick, fill the M slots. Rows then go to the M atoms alone, which must be so chosen that the
step leaves the posterior as it is. With E the empty atoms, R what is left of the stick, and atoms
put to empty slots at random, the joint density of sizes and weights is

    concentration^M R^(concentration - 1) / M!  prod over atoms of 1/pi  prod over rows of pi_z  Q,

where Q is the probability that sampling without replacement, by weight, meets all of E before the
rest R. So labels drawn independently are accepted with probability min(1, Q' / Q): no truncation.
Q = integral over t of R exp(-R t) prod over E of (1 - exp(-pi_e t)).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.special import gammaln

from cavity.priors.partition import DIRICHLET, FINITE, FIXED, PROCESS, PartitionPrior

# Weight of a slot that is no cluster's while a finite mixture has fewer of them: no row goes there.
ABSENT = 1e-301


class Weights(NamedTuple):
    """Weights of all slots, and what of the stick is beyond them."""

    weight: np.ndarray
    rest: float


def draw_weights(prior: PartitionPrior, counts: np.ndarray, rng: np.random.Generator) -> Weights:
    """Weights of every slot given the cluster sizes."""
    if prior.kind == FIXED:
        return Weights(prior.weights.copy(), 0.0)
    if prior.kind == DIRICHLET:
        shape = counts + prior.concentration[0] * prior.weights
        weight = _normalised(log_gammas(shape, rng))
        return Weights(np.where(prior.weights > 0.0, weight, ABSENT), 0.0)
    occupied = np.flatnonzero(counts)
    vacant = counts == 0
    if prior.kind == FINITE:
        vacant &= prior.weights > 0.0
    empty = rng.permutation(np.flatnonzero(vacant))
    if prior.kind == FINITE:
        chosen = np.append(occupied, empty[: _number(prior, counts, rng) - occupied.size])
        out = np.full(counts.size, ABSENT)
        shape = counts[chosen] + prior.concentration[0]
        out[chosen] = _normalised(log_gammas(shape, rng))
        return Weights(out, 0.0)
    concentration = float(prior.concentration[0])
    shares = _normalised(log_gammas(np.append(counts[occupied], concentration), rng))
    out = np.zeros(counts.size)
    out[occupied] = shares[:-1]
    rest = float(shares[-1])
    for e in empty:
        broken = rng.beta(1.0, concentration)
        out[e] = max(rest * broken, 1e-300)
        rest = max(rest * (1.0 - broken), 1e-300)
    return Weights(out, rest)


def _number(prior: PartitionPrior, counts: np.ndarray, rng: np.random.Generator) -> int:
    """How many clusters there are, some of them empty, given the sizes of the others."""
    t = np.count_nonzero(counts)
    k = np.arange(t, int(prior.weights.sum()) + 1)
    gamma = float(prior.concentration[0])
    log_p = -prior.power * np.log(k) + gammaln(k + 1.0) - gammaln(k - t + 1.0)
    log_p += gammaln(gamma * k) - gammaln(gamma * k + counts.sum())
    share = np.cumsum(np.exp(log_p - log_p.max()))
    return int(k[np.searchsorted(share, rng.random() * share[-1])])


def log_gammas(shape: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Logarithms of gamma variates; small shapes would underflow."""
    shape = np.maximum(shape, 1e-12)
    boost = np.log1p(-rng.random(shape.size)) / shape
    return np.log(rng.standard_gamma(shape + 1.0)) + boost


def _normalised(log_values: np.ndarray) -> np.ndarray:
    values = np.exp(log_values - log_values.max())
    return np.maximum(values / values.sum(), 1e-300)


def log_first(weights: Weights, counts: np.ndarray) -> float:
    """Log Q: that all empty atoms are met before the rest of the stick."""
    empty = weights.weight[counts == 0]
    if weights.rest <= 0.0 or empty.size == 0:
        return 0.0
    # In x = log(R t): the integrand falls off doubly exponentially above, as a power below.
    ratio = empty / weights.rest
    x = np.linspace(-40.0, 4.0, 2001)
    with np.errstate(divide="ignore", over="ignore"):
        t = np.exp(x)
        log_f = x - t + np.log(-np.expm1(-np.multiply.outer(t, ratio))).sum(axis=1)
    top = log_f.max()
    return float(top + np.log(np.exp(log_f - top).sum() * (x[1] - x[0])))


def log_weight_density(prior: PartitionPrior, weight: np.ndarray, slots: np.ndarray) -> float:
    """Log prior density of the weights of some slots, given their sum and all else.

    Where their number is unknown, that of the number as well.
    """
    if prior.kind == FIXED:
        return 0.0
    if prior.kind == FINITE:
        slots = slots[weight[slots] > ABSENT]
        shape = float(prior.concentration[0])
        return (shape - 1.0) * float(np.log(weight[slots]).sum()) + _log_number(prior, weight)
    log_weight = np.log(weight[slots])
    if prior.kind == DIRICHLET:
        shape = prior.concentration[0] * prior.weights[slots]
        return float(((shape - 1.0) * log_weight).sum())
    return float(-log_weight.sum())


def _log_number(prior: PartitionPrior, weight: np.ndarray) -> float:
    """Log prior of how many clusters there are and which slots they take, with their constant."""
    k, most = np.count_nonzero(weight > ABSENT), int(prior.weights.sum())
    gamma = float(prior.concentration[0])
    value = -prior.power * np.log(k) + gammaln(k + 1.0) + gammaln(most - k + 1.0)
    return float(value + gammaln(gamma * k) - k * gammaln(gamma))


def is_counted(prior: PartitionPrior) -> bool:
    """Whether a slot without a cluster has no weight: how many have one has a prior of its own."""
    return prior.kind == FINITE


def empty_shape(prior: PartitionPrior) -> float:
    """Shape of the weight of a slot without rows, for a proposal of it."""
    if prior.kind == DIRICHLET:
        return float(min(prior.concentration[0], 1.0))
    return 1.0


def is_supported(prior: PartitionPrior) -> bool:
    """Whether weights can be drawn under this prior."""
    return prior.kind != PROCESS or prior.discount == 0.0
