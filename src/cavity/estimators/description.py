"""Cluster parameters that a mixture's chain records for each stored draw."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from cavity._numba.arrays import by_slot
from cavity.collapse.problems import DIAGONAL, FULL, part_at, paths_of
from cavity.conjugate.niw import covariances
from cavity.interface import Also, listed, show
from cavity.mcmc.chain import PartitionSampler
from cavity.posterior.record import CLUSTER_PRIOR, NOISE_WEIGHT
from cavity.priors.partition import PROCESS, seat_weight
from cavity.updates import Update


class ArrayStep(NamedTuple):
    """Shows an array, for kernels."""

    values: np.ndarray


@show.register(ArrayStep)
def _(update, model, family, parameters, prior, counts, out):
    at = 0
    for value in update.values.flat:
        out[at] = value
        at += 1
    return at


class SlotStep(NamedTuple):
    """Shows an array whose last axis is the slots, one slot after another, for kernels.

    Its transpose as an `ArrayStep` would be of another type, with a kernel of its own, where there
    is a single column.
    """

    values: np.ndarray  # (columns, slots)


@show.register(SlotStep)
def _(update, model, family, parameters, prior, counts, out):
    n, n_slots = update.values.shape
    for k in range(n_slots):
        for j in range(n):
            out[k * n + j] = update.values[j, k]
    return n * n_slots


class CovarianceStep(NamedTuple):
    """Shows the covariance of every slot, for kernels."""

    whiten: np.ndarray  # (d, d, slots)
    covariance: np.ndarray  # (slots, d, d), room


@show.register(CovarianceStep)
def _(update, model, family, parameters, prior, counts, out):
    covariances(update.whiten, counts, update.covariance)
    at = 0
    for value in update.covariance.flat:
        out[at] = value
        at += 1
    return at


class WeightStep(NamedTuple):
    """Shows the predictive weight of every slot, and of noise where there may be some.

    Given the sizes. What the weights of occupied slots lack of one is the share of clusters that
    are empty or still to come.
    """

    seats: np.ndarray  # (slots and, under an open prior, all clusters to come,)
    sizes: np.ndarray  # the same


@show.register(WeightStep)
def _(update, model, family, parameters, prior, counts, out):
    seats, sizes = update.seats, update.sizes
    n_slots = counts.shape[0]
    n_clusters = 0
    n = 0.0
    for k in range(n_slots):
        sizes[k] = counts[k]
        n += counts[k]
        n_clusters += counts[k] > 0
    total = 0.0
    for k in range(seats.shape[0]):
        seats[k] = seat_weight(prior, sizes, n_clusters, np.int64(k))
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
        out[at + k] = inside * (seats[k] / total)
    return at + n_slots


def block_names(structure: str) -> tuple[str, ...]:
    """Parameters of a continuous block with a cluster axis, but for those that updates record."""
    extra = {FULL: ("covariance",), DIAGONAL: ("variance",)}
    return ("mean", *extra.get(structure, ()))


def described_block(parameters: Any) -> dict[str, Any]:
    """Return what shows the parameters of every slot of a continuous block, by name."""
    out: dict[str, Any] = {"mean": SlotStep(parameters.mean)}
    if hasattr(parameters, "variance"):
        out["variance"] = SlotStep(parameters.variance)
    elif hasattr(parameters, "whiten"):
        d, _, n_slots = parameters.whiten.shape
        out["covariance"] = CovarianceStep(parameters.whiten, np.empty((n_slots, d, d)))
    return out


class Describer(Update):
    """Shows cluster parameters of a kept draw, part by part, and the natural parameters of priors.

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

    def _shown(self, sampler: PartitionSampler) -> dict[str, Any]:
        """Return what shows the parameters of every slot, by name, in order."""
        out: dict[str, Any] = {}
        for kind, path in self.paths.items():
            parameters = part_at(sampler.parameters, path)
            if kind == "own":
                out |= {name: ArrayStep(value) for name, value in by_slot(parameters).items()}
            elif kind == "categorical":
                out["share"] = SlotStep(parameters.share)
            elif kind == "poisson":
                out["rate"] = SlotStep(parameters.rate)
            elif kind == "negative-binomial":
                out["mean_count"] = SlotStep(parameters.rate)
            else:
                out |= described_block(parameters)
        return out

    def _priors(self, sampler: PartitionSampler) -> list[np.ndarray]:
        """Return the natural parameters of all parts' priors, and what else says them."""
        families = [part_at(sampler.family, path) for path in self.paths.values()]
        common = [getattr(getattr(q, "covariance", None), "prior", None) for q in families]
        both = zip((q.prior for q in families), common, strict=True)
        return [prior for pair in both for prior in pair if prior is not None]

    def kernel(self, chain: Any) -> Also:
        """Return it for kernels."""
        n = chain.counts.size + chain.prior.is_open
        shown = map(ArrayStep, self._priors(chain)), self._shown(chain).values()
        return listed([WeightStep(np.empty(n), np.zeros(n)), *itertools.chain(*shown)])

    def shapes(self, chain: Any) -> dict[str, tuple[int, ...]]:
        """Return shapes of what it shows."""
        out: dict[str, tuple[int, ...]] = {} if chain.prior.noise_slot < 0 else {NOISE_WEIGHT: ()}
        out["weight"] = chain.counts.shape
        out[CLUSTER_PRIOR] = (sum(prior.size for prior in self._priors(chain)),)
        for name, step in self._shown(chain).items():
            out[name] = step.values.shape[::-1] if isinstance(step, SlotStep) else step[-1].shape
        return out

    def __call__(self, sampler: Any) -> dict[str, np.ndarray]:
        """Return all that is shown."""
        return self.record(sampler)
