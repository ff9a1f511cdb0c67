"""One chain over partitions: the sweep, then whatever else is unknown."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np

from cavity._numba.arrays import StateError, fitting, flatten, rebuilt, saved_array
from cavity._numba.jit import Kernels
from cavity.collapse.driver import AssembledModel
from cavity.conjugate.common import log_densities_of_parameters
from cavity.interface import PLACES, Also, End, listed, log_likelihood
from cavity.mcmc import block
from cavity.mcmc.draws import Drawn, current_draw, mark_empty
from cavity.mcmc.sweep import sweep
from cavity.moves.move import Move
from cavity.priors.partition import PartitionPrior, cluster_sizes, log_prior, padded, renew
from cavity.updates import (
    CLUSTER_PRIOR,
    Update,
    arrays_of_updates,
    below,
    restore_updates,
    split_numbers,
)


def likelihood_of_all(model, parameters, z):
    """Log density of the data given cluster parameters, as an entry kernel."""
    return log_likelihood(model, parameters, z)


def log_densities_of_all(prior, model, q, parameters, z, counts, kept):
    """Log densities of labels, of data given parameters, of these in the prior and in slots."""
    before, after = log_densities_of_parameters(q, parameters, counts, kept)
    return log_prior(prior, counts), log_likelihood(model, parameters, z), before, after


Describe = Callable[["PartitionSampler"], dict[str, np.ndarray]]

# A block of sweeps takes about a twentieth of a second: so many cells of rows, clusters and
# columns, and at most so many sweeps.
BLOCK_WORK, MOST_SWEEPS = 700_000, 64


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
        # Of what one draw shows, by name, with so many slots.
        self._shapes: dict[int, dict[str, tuple[int, ...]]] = {}
        # Whether blocks of sweeps run in kernels alone.
        self.in_blocks = self._steps() is not None
        self.collapse.start(self.z, self.counts, rng)
        self.prior = renew(self.prior, self.counts)
        if self.in_blocks:
            self._run_block(self._block(block.DRAW, _NO_SWEEPS), rng)
        else:
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

    @property
    def block_length(self) -> int:
        """Sweeps between which nothing has to be seen: their number follows from sizes alone."""
        if not self.in_blocks:
            return 1
        # The width of natural parameters grows with the square of the columns.
        work = self.z.size * self.n_slots * math.isqrt(2 * self.family.natural.shape[1])
        return min(max(BLOCK_WORK // work, 1), MOST_SWEEPS)

    def sweep(self, rng: np.random.Generator) -> None:
        """Visit every observation in a fresh order, try the moves, draw the other variables."""
        if self.in_blocks:
            self.advance(_ONE_SWEEP, rng)
            return
        self._scan(rng)
        self.follow_up(rng)

    def advance(self, keeps: np.ndarray, rng: np.random.Generator) -> list[Drawn]:
        """Do as many sweeps as `keeps` has entries; return the draws of those that it marks."""
        if not self.in_blocks:
            out = []
            for kept in keeps:
                self.sweep(rng)
                if kept:
                    out.append(current_draw(self))
            return out
        out = []
        done = position = 0
        while done < keeps.size:
            pause = self.collapse.until_diagnosis()
            pause += pause > 0 and position == self.z.size  # a sweep whose scan is done
            room = self._block(block.SWEEPS, keeps[done:], position, pause)
            start = time.perf_counter()
            self._run_block(room, rng)
            if self.moves and room.clock[1] > 0:
                seconds = (time.perf_counter() - start) * room.clock[0] / room.clock[1]
                self.moves[0].seconds += seconds
            if room.at[block.KEPT]:
                out.append(self._drawn(room))
            done += int(room.at[block.DONE])
            position = int(room.at[block.POSITION])
            if position == self.z.size:
                self.collapse.diagnose(self.z, self.counts)
            elif done < keeps.size:
                self._check_score(position)
                self._grow(rng)
        return out

    # ------------------------------------------------------------------ blocks of sweeps

    def _steps(self) -> Any:
        """What is drawn before parameters and after, as two lists for kernels; None if not."""
        if self.marginal or not self.collapse.in_kernels:
            return None
        updates = self._with_kernels()
        described = getattr(self.describe, "kernel", lambda sampler: None)(self)
        if described is None or any(kernel is None for _, kernel in updates):
            return None
        first = [kernel for update, kernel in updates if update.first]
        rest = [kernel for update, kernel in updates if not update.first]
        return Also(listed(first), listed([*rest, described]))

    def _with_kernels(self) -> list[tuple[Update, Any]]:
        """The updates that have something to do, in order, each with its form for kernels."""
        both = [(update, update.kernel(self)) for update in self._in_order()]
        return [(update, kernel) for update, kernel in both if not isinstance(kernel, End)]

    def _block(
        self, task: int, keeps: np.ndarray, position: int = 0, pause: int = 0
    ) -> block.Block:
        n_rows = int(keeps.sum()) + (task == block.SHOW)
        width = 0
        if n_rows:
            width = block.SHOWN + sum(math.prod(s) for s in self._shapes_shown().values())
        return block.Block(
            task=task,
            keeps=np.array(keeps),
            pause=pause,
            new_prior=CLUSTER_PRIOR in self._changed,
            at=np.array([0, position, 0, 0]),
            clock=np.zeros(2, dtype=np.int64),
            order=self.order,
            weights=self.weights,
            slot=np.empty(self.family.natural.shape[1]),
            numbers=np.empty((n_rows, width)),
            labels=np.empty((n_rows, self.z.size), dtype=np.int32),
            sizes=np.empty((n_rows, self.n_slots)),
        )

    def _run_block(self, room: block.Block, rng: np.random.Generator) -> None:
        self._kernels.run(
            block.run_block, self.collapse.state, self.collapse.beside, self.prior, self.z,
            self.counts, listed(move.tries(self) for move in self.moves), self._steps(), room, rng,
        )  # fmt: skip
        failure = int(room.at[block.FAILURE])
        if failure:
            place, what = divmod(abs(failure), PLACES)
            updates = [update for update, _ in self._with_kernels()]
            among = [update for update in updates if update.first == (failure < 0)]
            raise FloatingPointError(among[place].explain(what))

    def _shown(self) -> block.Block:
        """A block that holds the present state as its one draw."""
        room = self._block(block.SHOW, _NO_SWEEPS)
        self._run_block(room, _NO_CHANCE)
        return room

    def _shapes_shown(self) -> dict[str, tuple[int, ...]]:
        """Shapes of what a draw shows, in the order of `_steps`."""
        if self.n_slots not in self._shapes:
            out: dict[str, tuple[int, ...]] = {}
            for update in self._in_order():
                out |= update.shapes(self)
            out |= self.describe.shapes(self)  # type: ignore[union-attr]
            self._shapes[self.n_slots] = out
        return self._shapes[self.n_slots]

    def _in_order(self) -> list[Update]:
        """The updates, those that draw before the cluster parameters first."""
        return sorted(self.updates, key=lambda update: not update.first)

    def _drawn(self, room: block.Block) -> Drawn:
        """The draws of a block, as `log_joint` and `record` have them."""
        # A block that pauses has kept fewer than there is room for.
        n_kept = int(room.at[block.KEPT])
        numbers, sizes = room.numbers[:n_kept], room.sizes[:n_kept]
        out = split_numbers(numbers[:, block.SHOWN :], self._shapes_shown())
        used = self.n_allowed
        if self.prior.is_open:
            used = int(np.flatnonzero((sizes > 0).any(axis=0)).max(initial=0)) + 1
        empty = sizes[:, :used] == 0
        for name in self.cluster_parameters:
            values = out[name][:, :used].copy()
            values[empty] = np.nan
            out[name] = values
        out["log_likelihood"] = numbers[:, block.LOG_LIKELIHOOD]
        if self._has_marginal:
            out["log_marginal"] = numbers[:, block.LOG_MARGINAL]
        if self.prior.has_concentration:
            out["concentration"] = numbers[:, block.CONCENTRATION]
        return Drawn(room.labels[:n_kept], numbers[:, block.LOG_JOINT], out)

    def _check_score(self, position: int) -> None:
        if position < 0:
            row = int(self.order[-1 - position])
            raise FloatingPointError(
                f"no cluster gives observation {row} a finite score; check its values "
                "against the scale of the others"
            )

    def _scan(self, rng: np.random.Generator) -> None:
        position = 0
        while position < self.z.size:
            state = self.collapse.state
            position = self._kernels.run(
                sweep, state, self.prior, self.z, self.counts, self.order, self.weights, position,
                rng,
            )  # fmt: skip
            self._check_score(position)
            if position < self.z.size:
                self._grow(rng)

    def follow_up(self, rng: np.random.Generator) -> None:
        """All that comes after the scan: moves, then whatever is not a label."""
        self.prior = renew(self.prior, self.counts)
        for move in self.moves:
            move.attempt(self, rng)
        self.prior = renew(self.prior, self.counts)
        due = self.collapse.until_diagnosis() == 1
        self.collapse.settle(self.z, self.counts)
        if due:
            self.collapse.diagnose(self.z, self.counts)
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
        if self.in_blocks:
            row = self._shown().numbers[0]
            self._log_marginal = float(row[block.LOG_MARGINAL])
            return float(row[block.LOG_JOINT])
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
        if self.in_blocks:
            return {name: values[0] for name, values in self._drawn(self._shown()).record.items()}
        out = {} if self.describe is None else self.describe(self)
        for update in self.updates:
            out |= update.record(self)
        used = self.n_allowed
        if self.prior.is_open:
            used = int(np.flatnonzero(self.counts).max(initial=0)) + 1
        mark_empty(out, self.cluster_parameters, self.counts[:used])
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
            **arrays_of_updates(self.updates),
        }
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
        self.collapse.restore(below(state, "collapse."), n_slots, z)
        self.z, self.order, self.prior = z, order, prior
        self.counts = counts.astype(self.counts.dtype)
        self.weights = np.zeros(n_slots)
        if prior.is_open:
            self.n_allowed = n_slots
        restore_updates(self.updates, state, self)
        for move in self.moves:
            move.restore(below(state, f"move.{move.name}."))


_ONE_SWEEP, _NO_SWEEPS = np.zeros(1, dtype=bool), np.zeros(0, dtype=bool)
# To show a state takes no random number.
_NO_CHANCE = np.random.default_rng(0)


def slots_for(n_clusters: int, prior_is_open: bool) -> int:
    """Room to begin with: exactly the clusters, or some to spare under an open prior."""
    return max(2 * n_clusters, n_clusters + 14) if prior_is_open else n_clusters
