"""One chain over partitions: the sweep, then what the collapse does not integrate out."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from cavity.core.arrays import StateError, fitting, flatten, rebuilt, saved_array
from cavity.core.compile import compiled
from cavity.priors.concentration import update_concentration
from cavity.priors.partition import PartitionPrior, is_open, padded, renew
from cavity.sampling.sweep import sweep
from cavity.verbs import log_prior


def prior_of_partition(prior, counts):
    """Log prior probability of cluster sizes (or labels), as an entry kernel."""
    return log_prior(prior, counts)


class PartitionSampler:
    """A started chain that the runner drives.

    Parameters
    ----------
    collapse : EPCollapse, ConjugateCollapse or NaiveCollapse
        Likelihood, family and how the two are combined.
    prior : NamedTuple
        The partition prior. Slots of the collapse beyond a closed prior's stay empty.
    z : array of int
        Initial assignments.
    rng : numpy.random.Generator
        The chain's generator.
    concentration_prior : (float, float), optional
        Shape and rate of the concentration's Gamma prior; None keeps the concentration fixed.
    describe : callable, optional
        ``describe(sampler)`` gives the cluster parameters of a kept draw, by name.
    cluster_parameters : tuple of str
        The names that ``describe`` gives with a cluster axis.
    """

    def __init__(
        self,
        collapse: Any,
        prior: PartitionPrior,
        z: np.ndarray,
        rng: np.random.Generator,
        *,
        concentration_prior: tuple[float, float] | None = None,
        describe: Callable[[PartitionSampler], dict[str, np.ndarray]] | None = None,
        cluster_parameters: tuple[str, ...] = (),
    ) -> None:
        self.collapse = collapse
        self.z = np.array(z, dtype=np.int32)
        n_slots = collapse.state.scores.size
        self.prior: Any = padded(prior, n_slots)
        self.counts = np.bincount(self.z, minlength=n_slots).astype(np.int64)
        self.order = np.arange(self.z.size, dtype=np.int32)
        self.weights = np.zeros(n_slots)
        self.concentration_prior = concentration_prior
        self.describe = describe
        self.cluster_parameters = cluster_parameters
        collapse.start(self.z, self.counts, rng)
        self.prior = renew(self.prior, self.counts)

    @property
    def n_slots(self) -> int:
        """Room for so many clusters."""
        return self.counts.size

    def sweep(self, rng: np.random.Generator) -> None:
        """Visit every observation in a fresh order, then draw the other variables."""
        position = 0
        while position < self.z.size:
            state = self.collapse.state
            position = compiled(sweep, (state, self.prior))(
                state, self.prior, self.z, self.counts, self.order, self.weights, position, rng
            )
            if position < 0:
                row = int(self.order[-1 - position])
                raise FloatingPointError(
                    f"no cluster gives observation {row} a finite score; check its values "
                    "against the scale of the others"
                )
            if position < self.z.size:
                self._grow(rng)
        self.collapse.refresh(self.z, self.counts, rng)
        self.prior = renew(self.prior, self.counts)
        if self.concentration_prior is not None:
            shape, rate = self.concentration_prior
            compiled(update_concentration, self.prior)(self.prior, self.counts, shape, rate, rng)

    def _grow(self, rng: np.random.Generator) -> None:
        """Double the room, once no slot is empty; the slots added are at their prior."""
        old = self.n_slots
        self.collapse.grow(2 * old, rng)
        self.counts = np.concatenate([self.counts, np.zeros(old, dtype=np.int64)])
        self.weights = np.zeros(2 * old)
        self.prior = renew(self.prior, self.counts)

    def labels(self) -> np.ndarray:
        """Current slot of every observation."""
        return self.z

    def log_joint(self) -> float:
        """Log prior of the partition plus the collapse's log likelihood."""
        log_p = compiled(prior_of_partition, self.prior)(self.prior, self.counts)
        return float(log_p) + self.collapse.log_likelihood(self.z, self.counts)

    def record(self) -> dict[str, np.ndarray]:
        """Cluster parameters, and the concentration where there is one."""
        out = {} if self.describe is None else self.describe(self)
        if hasattr(self.prior, "concentration"):
            out["concentration"] = self.prior.concentration[0].copy()
        return out

    def keep(self) -> None:
        """No running summaries."""

    def events(self) -> dict[str, float]:
        """Counters of the collapse."""
        return self.collapse.events()

    def state(self) -> dict[str, np.ndarray]:
        """Everything needed to continue."""
        return {
            "z": self.z.copy(),
            "counts": self.counts.copy(),
            "order": self.order.copy(),
            **flatten(self.prior, "prior."),
            **{f"collapse.{k}": v for k, v in self.collapse.arrays().items()},
        }

    def restore(self, state: Mapping[str, np.ndarray]) -> None:
        """Continue from ``state``; one that does not fit is refused, for kernels trust it."""
        z, order = (fitting(saved_array(state, k), getattr(self, k), k) for k in ("z", "order"))
        counts = np.asarray(saved_array(state, "counts"))
        n_slots = counts.size
        if n_slots < self.n_slots or (n_slots > self.n_slots and not is_open(self.prior)):
            raise StateError(f"it has room for {n_slots} clusters, not for {self.n_slots}")
        if z.min(initial=0) < 0 or z.max(initial=0) >= n_slots:
            raise StateError("its labels name clusters that it has no room for")
        if not np.array_equal(counts, np.bincount(z, minlength=n_slots)):
            raise StateError("its cluster sizes are not those of its labels")
        if not np.array_equal(np.sort(order), np.arange(z.size)):
            raise StateError("its order of visits is not a permutation")
        prior = rebuilt(renew(self.prior, counts), state, "prior.")
        if is_open(prior) and not (
            0 <= prior.n_free[0] <= n_slots and np.all((prior.free >= 0) & (prior.free < n_slots))
        ):
            raise StateError("its list of free clusters names some that it has no room for")
        prefix = "collapse."
        self.collapse.restore(
            {k[len(prefix) :]: v for k, v in state.items() if k.startswith(prefix)}, n_slots
        )
        self.z, self.order, self.prior = z, order, prior
        self.counts = counts.astype(np.int64)
        self.weights = np.zeros(n_slots)


def slots_for(n_clusters: int, prior_is_open: bool) -> int:
    """Room to begin with: exactly the clusters, or some to spare under an open prior."""
    return max(2 * n_clusters, n_clusters + 14) if prior_is_open else n_clusters


__all__ = ["PartitionSampler", "is_open", "slots_for"]
