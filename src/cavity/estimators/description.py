"""Cluster parameters that a mixture's chain records for each stored draw."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from cavity._numba.arrays import by_slot
from cavity._numba.jit import Kernels, jit
from cavity.collapse.parts import part_at, paths_of
from cavity.collapse.structures import DIAGONAL
from cavity.conjugate.niw import GaussianParameters, covariances
from cavity.interface import show
from cavity.mcmc.chain import PartitionSampler
from cavity.posterior.record import CLUSTER_PRIOR, NOISE_WEIGHT
from cavity.predict.covariances import FULL
from cavity.priors.partition import PROCESS, seat_weight

_kernels = Kernels()


class DescriptionStep(NamedTuple):
    """Recorded quantities of `Describer` for full covariances, for kernels."""

    seats: np.ndarray  # (slots and one to come,)
    sizes: np.ndarray  # (slots and one to come,)
    covariance: np.ndarray  # (slots, d, d)


@show.register(DescriptionStep)
def _(update, state, parameters, prior, counts, out):
    seats, sizes, q = update.seats, update.sizes, state.family
    n_slots = counts.shape[0]
    n_clusters = 0
    n = 0.0
    for k in range(n_slots):
        sizes[k] = counts[k]
        n += counts[k]
        n_clusters += counts[k] > 0
    seat_weights(prior, sizes, n_clusters, seats)
    total = 0.0
    for k in range(seats.shape[0]):
        if prior.kind == PROCESS and k < n_slots and counts[k] == 0:
            seats[k] = 0.0
        total += seats[k]
    at = 0
    inside = 1.0
    if prior.noise_slot >= 0:
        a, b = prior.noise_prior[0], prior.noise_prior[1]
        noise = (prior.noise_size[0] + a) / (prior.noise_size[0] + n + a + b)
        out[0] = noise
        inside = 1.0 - noise
        at = 1
    for k in range(n_slots):
        out[at] = inside * (seats[k] / total)
        at += 1
    for p in range(q.prior.shape[0]):
        out[at] = q.prior[p]
        at += 1
    d = parameters.mean.shape[0]
    for k in range(n_slots):
        for j in range(d):
            out[at] = parameters.mean[j, k]
            at += 1
    covariances(parameters.whiten, counts, update.covariance)
    for k in range(n_slots):
        for r in range(d):
            for c in range(d):
                out[at] = update.covariance[k, r, c]
                at += 1
    return at


@jit
def seat_weights(prior, counts, n_clusters, out):
    """Prior weight of one more observation in every slot, as an entry kernel."""
    for k in range(out.shape[0]):
        out[k] = seat_weight(prior, counts, n_clusters, np.int64(k))


def describe_weights(sampler: PartitionSampler) -> np.ndarray:
    """Return predictive weights of the occupied slots given the sizes; NaN for empty slots.

    The remainder is the share of clusters that are empty or new.
    """
    # Under an open prior all clusters to come are one choice; a closed one's have a slot each.
    prior = sampler.prior
    counts = np.append(sampler.counts, [0.0] * prior.is_open)
    occupied = counts > 0
    seats = np.empty(counts.size)
    _kernels.run(seat_weights, prior, counts, np.count_nonzero(occupied), seats)
    if prior.is_open:
        seats[:-1][~occupied[:-1]] = 0.0
    return np.where(occupied, seats / seats.sum(), np.nan)[: sampler.n_slots]


def describe_sizes(sampler: PartitionSampler) -> dict[str, np.ndarray]:
    """Return the predictive weight of every slot, and of noise if included."""
    prior = sampler.prior
    weight = describe_weights(sampler)
    if prior.noise_slot < 0:
        return {"weight": weight}
    a, b = prior.noise_prior
    n = prior.noise_size[0] + sampler.counts.sum()
    noise = (prior.noise_size[0] + a) / (n + a + b)
    return {NOISE_WEIGHT: np.array(noise), "weight": (1.0 - noise) * weight}


def block_names(structure: str) -> tuple[str, ...]:
    """Parameters of a continuous block with a cluster axis, but for those that updates record."""
    extra = {FULL: ("covariance",), DIAGONAL: ("variance",)}
    return ("mean", *extra.get(structure, ()))


def describe_block(parameters: Any, counts: np.ndarray) -> dict[str, np.ndarray]:
    """Parameters of every slot of a continuous block, by name."""
    out = {"mean": parameters.mean.T}
    if hasattr(parameters, "variance"):
        out["variance"] = parameters.variance.T
    elif hasattr(parameters, "whiten"):
        d, _, n_slots = parameters.whiten.shape
        out["covariance"] = np.empty((n_slots, d, d))
        covariances(parameters.whiten, counts, out["covariance"])
    return out


def describe_prior(family: Any) -> np.ndarray:
    """Return natural parameters and other parameters of the prior of cluster parameters."""
    common = getattr(getattr(family, "covariance", None), "prior", np.empty(0))
    return np.concatenate([family.prior, common])


class Describer:
    """Cluster parameters of a stored draw, part by part.

    Parameters
    ----------
    parts : sequence of problems
        The parts of the model.
    """

    def __init__(self, parts: Sequence[Any]) -> None:
        kinds = [part.model for part in parts]
        self.block = block_names(getattr(parts[0], "structure", FULL))
        self.paths = dict(zip(kinds, paths_of(len(kinds)), strict=True))
        own = [part for part in parts if part.model == "own"]
        self.own = tuple(by_slot(own[0].parameters)) if own else ()

    @property
    def names(self) -> tuple[str, ...]:
        """Names of parameters with a cluster axis."""
        out = ["weight"]
        for kind in self.paths:
            out += {
                "own": [*self.own],
                "categorical": ["share"],
                "poisson": ["rate"],
                "negative-binomial": ["mean_count"],
            }.get(kind, [*self.block])
        return tuple(out)

    def kernel(self, sampler: PartitionSampler) -> DescriptionStep | None:
        """Return the describer for kernels, for full covariances only."""
        parameters: Any = sampler.parameters
        if not isinstance(parameters, GaussianParameters):
            return None
        d, n_slots = parameters.mean.shape
        room = np.empty(n_slots + sampler.prior.is_open), np.zeros(n_slots + sampler.prior.is_open)
        return DescriptionStep(*room, np.empty((n_slots, d, d)))

    def __call__(self, sampler: PartitionSampler) -> dict[str, np.ndarray]:
        """Return the parameters of every slot, and the natural parameters of all parts' priors."""
        out = {
            **describe_sizes(sampler),
            CLUSTER_PRIOR: self._prior(sampler.family),
        }
        for kind, path in self.paths.items():
            parameters = part_at(sampler.parameters, path)
            if kind == "own":
                out |= by_slot(parameters)
            elif kind == "categorical":
                out["share"] = parameters.share.T
            elif kind == "poisson":
                out["rate"] = parameters.rate.T
            elif kind == "negative-binomial":
                out["mean_count"] = parameters.rate.T
            else:
                out |= describe_block(parameters, sampler.counts)
        return out

    def _prior(self, family: Any) -> np.ndarray:
        """Return the priors of all parts, one after another."""
        return np.concatenate([describe_prior(part_at(family, at)) for at in self.paths.values()])
