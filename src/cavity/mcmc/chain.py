"""One chain over partitions: the sweep, then whatever else is unknown."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np

from cavity._numba.arrays import StateError, fitting, flatten, rebuilt, saved_array
from cavity._numba.jit import Kernels
from cavity.collapse.driver import AssembledModel
from cavity.conjugate.common import log_densities_of_parameters
from cavity.interface import log_likelihood
from cavity.mcmc.sweep import sweep
from cavity.moves.move import Move
from cavity.priors.partition import PartitionPrior, cluster_sizes, log_prior, padded, renew
from cavity.updates import Update


def likelihood_of_all(model, parameters, z):
    """Log density of the data given cluster parameters, as an entry kernel."""
    return log_likelihood(model, parameters, z)


def log_densities_of_all(prior, model, q, parameters, z, counts, kept):
    """Log densities of labels, of data given parameters, of these in the prior and in slots."""
    before, after = log_densities_of_parameters(q, parameters, counts, kept)
    return log_prior(prior, counts), log_likelihood(model, parameters, z), before, after


Describe = Callable[["PartitionSampler"], dict[str, np.ndarray]]


class PartitionSampler:
    """A started chain that the runner drives.

    Parameters
    ----------
    parts : AssembledModel
        Likelihood, family and how the two are combined, and the updates that belong to them.
    prior : PartitionPrior
        Slots of the collapse beyond those of a closed prior stay empty.
    z : array of int
        Initial assignments.
    rng : numpy.random.Generator
        The chain's generator.
    updates : iterable of Update
        More to be drawn after each sweep, such as the concentration.
    moves : iterable of Move
        Proposals for many labels at once, tried after each sweep.
    describe : callable, optional
        ``describe(sampler)`` gives the cluster parameters of a kept draw, by name.
    cluster_parameters : tuple of str
        The names that ``describe`` gives with a cluster axis.
    marginal : bool
        Whether the log joint density has cluster parameters integrated out by the collapse, for
        a likelihood that has no ``log_density``.
    from_slots : bool
        Whether the parameters of a cluster, given all else, have the distribution of its slot
        (nearly, under EP): the log joint density without them is then recorded as well.
    """

    def __init__(
        self,
        parts: AssembledModel,
        prior: PartitionPrior,
        z: np.ndarray,
        rng: np.random.Generator,
        *,
        updates: Iterable[Update] = (),
        moves: Iterable[Move] = (),
        describe: Describe | None = None,
        cluster_parameters: tuple[str, ...] = (),
        marginal: bool = False,
        from_slots: bool = False,
    ) -> None:
        self.collapse = parts.collapse
        self.updates = (*parts.updates, *updates)
        self.moves = tuple(moves)
        self.z = np.array(z, dtype=np.int32)
        n_slots = self.collapse.family.natural.shape[0]
        # Slots that fill up a vector are no cluster's.
        self.n_allowed = n_slots if prior.is_open else prior.weights.size
        self.prior = padded(prior, n_slots)
        self.counts = cluster_sizes(self.prior, self.z, n_slots)
        self.order = np.arange(self.z.size, dtype=np.int32)
        self.weights = np.zeros(n_slots)
        self.describe = describe
        self.cluster_parameters = cluster_parameters + tuple(
            name for update in self.updates for name in update.cluster_parameters
        )
        self.marginal = marginal
        self._has_marginal = from_slots
        # Of the state that log_joint saw last.
        self._log_likelihood = self._log_marginal = np.nan
        self._kernels = Kernels()
        self._changed = frozenset().union(*(update.changes for update in self.updates))
        self.collapse.start(self.z, self.counts, rng)
        self.prior = renew(self.prior, self.counts)
        self._draw(rng)

    @property
    def n_slots(self) -> int:
        """Room for so many clusters."""
        return self.counts.size

    @property
    def model(self) -> Any:
        """The likelihood with its data and auxiliary variables."""
        return self.collapse.model

    @property
    def family(self) -> Any:
        """The distribution of every slot's parameters."""
        return self.collapse.family

    @property
    def parameters(self) -> Any:
        """One draw of every slot's parameters."""
        return self.collapse.parameters

    def sweep(self, rng: np.random.Generator) -> None:
        """Visit every observation in a fresh order, try the moves, draw the other variables."""
        self._scan(rng)
        self.follow_up(rng)

    def _scan(self, rng: np.random.Generator) -> None:
        position = 0
        while position < self.z.size:
            state = self.collapse.state
            position = self._kernels.run(
                sweep, state, self.prior, self.z, self.counts, self.order, self.weights, position,
                rng,
            )  # fmt: skip
            if position < 0:
                row = int(self.order[-1 - position])
                raise FloatingPointError(
                    f"no cluster gives observation {row} a finite score; check its values "
                    "against the scale of the others"
                )
            if position < self.z.size:
                self._grow(rng)

    def follow_up(self, rng: np.random.Generator) -> None:
        """All that comes after the scan: moves, then whatever is not a label."""
        self.prior = renew(self.prior, self.counts)
        for move in self.moves:
            move.attempt(self, rng)
        self.prior = renew(self.prior, self.counts)
        self.collapse.settle(self.z, self.counts)
        self._draw(rng)

    def _draw(self, rng: np.random.Generator) -> None:
        """Cluster parameters, and all else before or after them, each given the rest."""
        for update in self.updates:
            if update.first:
                update.draw(self, rng)
        self.collapse.draw_parameters(self.z, rng)
        for update in self.updates:
            if not update.first:
                update.draw(self, rng)
        self.collapse.renew(self.z, self.counts, self._changed, rng)

    def _grow(self, rng: np.random.Generator) -> None:
        """Double the room, once no slot is empty; the slots added are at their prior."""
        old = self.n_slots
        self.collapse.grow(2 * old, rng)
        self.counts = np.concatenate([self.counts, np.zeros_like(self.counts)])
        self.weights = np.zeros(2 * old)
        self.n_allowed = 2 * old
        self.prior = renew(self.prior, self.counts)
        for update in self.updates:
            update.grow(self, old, rng)

    # ------------------------------------------------------------------ what a draw says

    def labels(self) -> np.ndarray:
        """Current slot of every observation."""
        return self.z

    def log_likelihood(self) -> float:
        """Log density of the data given labels and cluster parameters."""
        return float(self._kernels.run(likelihood_of_all, self.model, self.parameters, self.z))

    def log_densities(self) -> tuple[float, float, float, float]:
        """Log densities of labels, of data given parameters, of these in the prior and in slots."""
        densities: tuple[float, float, float, float] = self._kernels.run(
            log_densities_of_all, self.prior, self.model, self.family, self.parameters,
            self.z, self.counts, np.empty(self.family.natural.shape[1]),
        )  # fmt: skip
        return densities

    def log_joint(self) -> float:
        """Log joint density of data, labels, parameters of occupied clusters and all else drawn.

        log p(z) + log p(data | z, parameters) + log p(parameters) + the updates' log prior
        densities: the same function of the state for every collapse, so that chains of different
        ones can be compared. Auxiliary variables and parameters of empty clusters have no part.
        """
        densities = [update.log_density(self) for update in self.updates]
        updates = sum(densities)
        if self.marginal:
            total = self._kernels.run(log_prior, self.prior, self.counts)
            return float(total + updates + self.collapse.log_evidence(self.z, self.counts))
        of_labels, self._log_likelihood, before, after = self.log_densities()
        total = of_labels + updates + self._log_likelihood + before
        # By Bayes' theorem: p(labels, data) = p(labels, data, parameters) / p(parameters | ...).
        self._log_marginal = float(total - after)
        for update, density in zip(self.updates, densities, strict=True):
            collapsed = update.log_collapsed(self)
            if collapsed is not None:
                self._log_marginal = float(of_labels + updates - density + collapsed)
                self._has_marginal = True
        return float(total)

    def log_marginal(self) -> float:
        """Log joint density without cluster parameters, where slots or an update tell it."""
        self.log_joint()
        return self._log_marginal

    def record(self) -> dict[str, np.ndarray]:
        """Cluster parameters, whatever the updates show, log densities and concentration.

        Slots that are no cluster's are left out; those of empty clusters are NaN. The log
        likelihood, and the log joint density without cluster parameters (``log_marginal``), are
        those of the state for which ``log_joint`` was last computed.
        """
        out = {} if self.describe is None else self.describe(self)
        for update in self.updates:
            out |= update.record(self)
        used = self.n_allowed
        if self.prior.is_open:
            used = int(np.flatnonzero(self.counts).max(initial=0)) + 1
        empty = self.counts[:used] == 0
        some_empty = bool(empty.any())
        for name in self.cluster_parameters:
            values = np.array(out[name][:used])
            if some_empty:
                values[empty] = np.nan
            out[name] = values
        if not self.marginal:
            out["log_likelihood"] = np.array(self._log_likelihood)
            if self._has_marginal:
                out["log_marginal"] = np.array(self._log_marginal)
        if self.prior.has_concentration:
            out["concentration"] = self.prior.concentration[0].copy()
        return out

    def keep(self) -> None:
        """Take the current draw into the updates' running summaries."""
        for update in self.updates:
            update.keep(self)

    def summaries(self) -> dict[str, np.ndarray]:
        """Running summaries of the kept draws."""
        return {name: value for u in self.updates for name, value in u.summaries().items()}

    def forget(self) -> None:
        """Begin new running summaries."""
        for update in self.updates:
            update.forget()

    def events(self) -> dict[str, float]:
        """Counters of the collapse, of the updates and of the moves."""
        out = self.collapse.events()
        for update in self.updates:
            out |= update.events()
        for move in self.moves:
            for name, value in move.events().items():  # all of them count seconds
                out[name] = out.get(name, 0.0) + value
        return out

    # ------------------------------------------------------------------ survival

    def state(self) -> dict[str, np.ndarray]:
        """Everything needed to continue."""
        out: dict[str, np.ndarray] = {
            "z": self.z.copy(),
            "counts": self.counts.copy(),
            "order": self.order.copy(),
            **flatten(self.prior, "prior."),
            **{f"collapse.{k}": v for k, v in self.collapse.arrays().items()},
        }
        for update in self.updates:
            out |= {f"update.{update.name}.{k}": v for k, v in update.arrays().items()}
        for move in self.moves:
            out |= {f"move.{move.name}.{k}": v for k, v in move.arrays().items()}
        return out

    def restore(self, state: Mapping[str, np.ndarray]) -> None:
        """Continue from ``state``; one that does not fit is refused, for kernels trust it."""
        z, order = (fitting(saved_array(state, k), getattr(self, k), k) for k in ("z", "order"))
        counts = np.asarray(saved_array(state, "counts"))
        n_slots = counts.size
        if n_slots < self.n_slots or (n_slots > self.n_slots and not self.prior.is_open):
            raise StateError(f"it has room for {n_slots} clusters, not for {self.n_slots}")
        if z.min(initial=0) < 0 or z.max(initial=0) >= n_slots:
            raise StateError("its labels name clusters that it has no room for")
        if not np.array_equal(counts, cluster_sizes(self.prior, z, n_slots)):
            raise StateError("its cluster sizes are not those of its labels")
        if not np.array_equal(np.sort(order), np.arange(z.size)):
            raise StateError("its order of visits is not a permutation")
        prior = rebuilt(renew(self.prior, counts), state, "prior.")
        if prior.is_open and not (
            0 <= prior.n_free[0] <= n_slots and np.all((prior.free >= 0) & (prior.free < n_slots))
        ):
            raise StateError("its list of free clusters names some that it has no room for")
        self.collapse.restore(_below(state, "collapse."), n_slots, z)
        self.z, self.order, self.prior = z, order, prior
        self.counts = counts.astype(self.counts.dtype)
        self.weights = np.zeros(n_slots)
        if prior.is_open:
            self.n_allowed = n_slots
        for update in self.updates:
            update.restore(_below(state, f"update.{update.name}."), self)
        for move in self.moves:
            move.restore(_below(state, f"move.{move.name}."))


def _below(state: Mapping[str, np.ndarray], prefix: str) -> dict[str, np.ndarray]:
    return {k[len(prefix) :]: v for k, v in state.items() if k.startswith(prefix)}


def slots_for(n_clusters: int, prior_is_open: bool) -> int:
    """Room to begin with: exactly the clusters, or some to spare under an open prior."""
    return max(2 * n_clusters, n_clusters + 14) if prior_is_open else n_clusters
