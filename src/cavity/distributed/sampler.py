"""One chain over rows in shards: labels given drawn parameters, everything else by coordinator.

A sweep is

1. all but the labels given the labels: the prior of the clusters, their parameters, the
   concentration, the weights (every second sweep, where degrees of freedom are learned, these in
   place of the clusters' parameters, with the scale variables summed out);
2. a pass over all rows: labels and scales given all that;
3. proposals of splits and merges, each of which may cost one more pass.

What the runner sees as labels are those of the rows that are followed.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from cavity._numba.arrays import StateError, chosen, fitting, saved_array
from cavity.conjugate.common import draw_empty, draw_from, load_from
from cavity.distributed.blocks import PROPOSAL, SWEEP
from cavity.distributed.clusters import Makeup
from cavity.distributed.coordinator import Coordinator, Model
from cavity.distributed.df_grid import TAILS_EVERY, Tails, choose_rung, draw_ladder, no_ladder
from cavity.distributed.executor import ShardExecutor
from cavity.distributed.mixture_weights import Weights, draw_weights, log_first
from cavity.distributed.passes import PassTotal, run_all
from cavity.distributed.pilot import Scouts, log_sum
from cavity.distributed.split_merge import ROUND
from cavity.mcmc.chain import Describe
from cavity.priors.partition import is_open, renew
from cavity.updates import Update

# Rounds of proposals after each sweep of the warm-up; one after each of the others.
WARM_ROUNDS = 2
# Empty slots that an open prior is given while it warms up, and the fewest after.
SPARE, LEAST_SPARE = 6, 2


class ShardedSampler(Coordinator):
    """A started chain that the runner drives.

    Parameters
    ----------
    executor : ShardExecutor
        With its rows loaded.
    scouts : Scouts
        The rows that the executor follows: proposals are made from them.
    start : array of shape (slots, P)
        Statistics of the scouts under the labels that the chain begins with.
    makeup : Makeup
    prior : NamedTuple
        The partition prior's state, with a slot for every cluster.
    tails : Tails
    updates : iterable of Update
        What learns the priors.
    rng : numpy.random.Generator
    n_adapted : int
        Sweeps at the beginning in which the number of slots follows the clusters.
    moves : bool
        Whether splits and merges are tried.
    describe : callable, optional
        See `cavity.mcmc.chain.PartitionSampler`.
    """

    def __init__(
        self,
        executor: ShardExecutor,
        scouts: Scouts,
        start: np.ndarray,
        makeup: Makeup,
        prior: Any,
        tails: Tails,
        updates: Iterable[Update],
        rng: np.random.Generator,
        *,
        n_adapted: int = 0,
        moves: bool = True,
        describe: Describe | None = None,
        cluster_parameters: tuple[str, ...] = (),
    ) -> None:
        n_slots = start.shape[0]
        super().__init__(
            executor, scouts, makeup, prior, tails, updates, n_slots, rng, moves, describe,
            cluster_parameters,
        )  # fmt: skip
        self.n_adapted = n_adapted
        self._n_refused = 0
        # Begin as if the scouts were all there is.
        self.statistics = start
        self.counts = np.rint(start[:, 1]).astype(np.int64)
        self.tail_sums = no_ladder()
        self.z = np.zeros(0, dtype=np.int32)
        self.weights = Weights(np.full(n_slots, 1.0 / n_slots), 0.0)
        self._fresh = True
        self._draw_all_but_labels(rng)
        self._take(self._pass())

    # ------------------------------------------------------------------ the state

    def _pass(self) -> PassTotal:
        return run_all(self.executor, self._request(self._mixture(), SWEEP, self.ladder))

    def _take(self, found: PassTotal) -> None:
        """Make what a pass has drawn the state."""
        self.statistics = found.statistics
        self.counts = np.rint(found.statistics[:, 1]).astype(np.int64)
        self.tail_sums = found.tails
        self.z = found.labels
        self._log_mixture = found.log_mixture
        self._fresh = True
        self._load()

    def _load(self) -> None:
        """Bring the slots in line with prior and statistics."""
        self.family.natural[:] = self.family.prior + self.statistics[:, self.scouts.shape.lead :]
        self._kernels.run(load_from, self.family, 0)

    # ------------------------------------------------------------------ a sweep

    def sweep(self, rng: np.random.Generator) -> None:
        """All but the labels, then a pass, then splits and merges."""
        self._draw_all_but_labels(rng)
        self.n_sweeps += 1
        due = self.tails.learn is not None and self.n_sweeps % TAILS_EVERY == 0
        self.ladder = no_ladder()
        if due:
            self.ladder = draw_ladder(self.model.alpha, self.tails, self.executor.n_rows, rng)
        before = log_first(self.weights, self.counts)
        found = self._pass()
        after = log_first(self.weights, np.rint(found.statistics[:, 1]))
        if after >= before or math.log1p(-rng.random()) < after - before:
            self._take(found)
        else:
            # The labels stay; what was learned of the densities is of the parameters alone.
            self._n_refused += 1
            self._log_mixture = found.log_mixture
            self.tail_sums = no_ladder()
        self._table = None
        if self._moves is not None:
            rounds = WARM_ROUNDS if self.n_sweeps <= self.n_adapted else 1
            for at, kind in enumerate(ROUND * rounds):
                accepted = self._try(kind, PROPOSAL + at, self.ladder, rng)
                if accepted is not None:
                    self._take(accepted)

    def _draw_all_but_labels(self, rng: np.random.Generator) -> None:
        if is_open(self.prior):
            self._make_room()
        if len(self.tail_sums):
            # The scales were summed out: until a pass has drawn new ones, clusters stay.
            self.model.alpha[:] = 0.5 * choose_rung(
                self.ladder, self.tail_sums, self.counts, self.d, self.tails, rng
            )
            self.tail_sums = no_ladder()
            self._fresh = False
        elif self._fresh:
            self._load()
            for update in self.updates:
                if update.first:
                    update.draw(self, rng)
            self._kernels.run(draw_from, self.family, self.parameters, 0, rng)
        for update in self.updates:
            if not update.first:
                update.draw(self, rng)
        self._kernels.run(draw_empty, self.family, self.parameters, self.counts, rng)
        self._renew_empty_tails(rng)
        self.prior = renew(self.prior, self.counts)
        self.weights = draw_weights(self.prior, self.counts, rng)

    # ------------------------------------------------------------------ room

    def _make_room(self) -> None:
        """Slots for a few new clusters: as many as there are clusters and some, in warm-up."""
        occupied = np.flatnonzero(self.counts)
        wanted = occupied.size + SPARE
        adapting = self.n_sweeps < self.n_adapted
        if self.n_slots - occupied.size >= LEAST_SPARE and not (
            adapting and self.n_slots != wanted
        ):
            return
        empty = np.flatnonzero(self.counts == 0)[:SPARE]
        kept = np.sort(np.concatenate([occupied, empty]))
        place = np.full(self.n_slots, -1, dtype=np.int32)
        place[kept] = np.arange(kept.size)
        if self.z.size:
            self.z = place[self.z]
        slots = np.concatenate([kept, np.full(wanted - kept.size, kept[-1])])
        added = np.arange(wanted) >= kept.size
        counts, statistics = self.counts[slots], self.statistics[slots]
        if len(self.tail_sums) == place.size > 1:
            self.tail_sums, self.ladder = self.tail_sums[slots], self.ladder[slots]
        self._choose(slots)
        self.counts = np.where(added, 0, counts)
        self.statistics = np.where(added[:, None], 0.0, statistics)
        self.prior = renew(self.prior, self.counts)

    def _choose(self, slots: np.ndarray) -> None:
        """Keep these slots of family, parameters and degrees of freedom, in this order."""
        self.family, self.parameters = (
            chosen(value, slots) for value in (self.family, self.parameters)
        )
        self.model = Model(self.model.alpha[slots])

    # ------------------------------------------------------------------ what a draw says

    def log_joint(self) -> float:
        """Log joint density of data, followed labels, parameters of occupied clusters, the rest.

        Weights are integrated out, and so are the labels of rows that are not followed: with
        log p(labels) - sum of log weights = log p(weights) - log p(weights | sizes).
        """
        occupied = np.flatnonzero(self.counts)
        of_labels = float(self.counts[occupied] @ np.log(self.weights.weight[occupied]))
        self._log_likelihood = self._log_mixture
        return self._log_joint(self._log_mixture + self._log_followed() - of_labels)

    def _log_followed(self) -> float:
        """Log probability of the followed rows' labels given the clusters."""
        table = self._scouted(self._mixture())
        own = table[self.z, np.arange(self.z.size)]
        return float((own - log_sum(table)).sum())

    def events(self) -> dict[str, float]:
        """Splits and merges, and what befell the workers."""
        out = {"sweeps_refused": float(self._n_refused)} if is_open(self.prior) else {}
        return out | self._move_events() | self.executor.events()

    def news(self) -> str:
        """What a progress bar should say."""
        return self.executor.status()

    # ------------------------------------------------------------------ survival

    def state(self) -> dict[str, np.ndarray]:
        """Everything needed to continue; shards have nothing of it."""
        return {
            "z": self.z.copy(),
            "statistics": self.statistics.copy(),
            "ladder": self.ladder.copy(),
            "tail_sums": self.tail_sums.copy(),
            "weight": self.weights.weight.copy(),
            "rest": np.array(self.weights.rest),
            "fresh": np.array(self._fresh),
            "refused": np.array(self._n_refused),
            **self._arrays(),
        }

    def restore(self, state: Mapping[str, np.ndarray]) -> None:
        """Continue from ``state``."""
        statistics = np.asarray(saved_array(state, "statistics"), dtype=float)
        n_slots = len(statistics)
        if n_slots != self.n_slots and not is_open(self.prior):
            raise StateError(f"it has room for {n_slots} clusters, not for {self.n_slots}")
        if statistics.shape[1:] != self.statistics.shape[1:]:
            raise StateError("its statistics are of other columns")
        self.z = fitting(saved_array(state, "z"), self.z, "z")
        if self.z.min(initial=0) < 0 or self.z.max(initial=0) >= n_slots:
            raise StateError("its labels name clusters that it has no room for")
        slots = np.minimum(np.arange(n_slots), self.n_slots - 1)
        self._choose(slots)
        self.statistics = statistics
        self.counts = np.rint(statistics[:, 1]).astype(np.int64)
        self.ladder = np.array(saved_array(state, "ladder"), dtype=float)
        self.tail_sums = np.array(saved_array(state, "tail_sums"), dtype=float)
        weight = fitting(saved_array(state, "weight"), np.zeros(n_slots), "weight")
        self.weights = Weights(weight, float(saved_array(state, "rest")))
        self._fresh = bool(saved_array(state, "fresh"))
        self._n_refused = int(saved_array(state, "refused"))
        self.prior = renew(self.prior, self.counts)
        self._restore(state)
