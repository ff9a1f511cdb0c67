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
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from cavity._numba.arrays import (
    StateError,
    chosen,
    fitting,
    flatten,
    rebuilt,
    saved_array,
)
from cavity._numba.jit import Kernels
from cavity.conjugate.common import (
    draw_empty,
    draw_from,
    load_from,
    log_densities_of_parameters,
)
from cavity.distributed.blocks import PROPOSAL, SWEEP
from cavity.distributed.clusters import ComponentPriors
from cavity.distributed.df_grid import (
    DF_EVERY,
    DFSettings,
    choose_df,
    draw_df_grid,
    log_density,
    no_df_grid,
)
from cavity.distributed.executor import ShardExecutor
from cavity.distributed.kernel import components_of
from cavity.distributed.mixture_weights import Weights, draw_weights, log_first
from cavity.distributed.passes import PassTotal, ShardRequest, run_all
from cavity.distributed.pilot import PilotSample, log_sum
from cavity.distributed.split_merge import ACCEPTED, PASSES, ROUND, Mixture, SplitMerge
from cavity.likelihoods.degrees_of_freedom import draw_df
from cavity.mcmc.chain import Describe
from cavity.mcmc.draws import mark_empty
from cavity.priors.partition import log_prior, renew
from cavity.updates import Update, arrays_of_updates, restore_updates

# Rounds of proposals after each sweep of the warm-up; one after each of the others.
WARM_ROUNDS = 2
# Empty slots that an open prior is given while it warms up, and the fewest after.
SPARE, LEAST_SPARE = 6, 2


def densities_of_parameters(q, parameters, counts, kept):
    """Log densities of the occupied slots' parameters, as an entry kernel."""
    return log_densities_of_parameters(q, parameters, counts, kept)


class Model(NamedTuple):
    """What updates read of a likelihood."""

    alpha: np.ndarray


@dataclass(frozen=True)
class ShardedMixture:
    """Model that a chain over shards samples.

    Attributes
    ----------
    component_priors : ComponentPriors
        Prior of the clusters' parameters.
    prior : NamedTuple
        State of the partition prior, with a slot for every cluster.
    tails : DFSettings
    updates : iterable of Update
        Updates that learn the priors.
    describe : callable, optional
        See `cavity.mcmc.chain.PartitionSampler`.
    cluster_parameters : tuple of str
        Names that it returns with a cluster axis.
    """

    component_priors: ComponentPriors
    prior: Any
    tails: DFSettings
    updates: Iterable[Update] = ()
    describe: Describe | None = None
    cluster_parameters: tuple[str, ...] = ()


class ShardedSampler:
    """A started chain that the runner drives.

    Its state is held by this process, a few kilobytes; shards hold rows only. The labels that the
    runner sees are those of the followed rows.

    Parameters
    ----------
    executor : ShardExecutor
        With its rows loaded.
    pilot : PilotSample
        The followed rows, from which splits and merges are proposed.
    start : array of shape (slots, P)
        Statistics of the followed rows under the labels that the chain begins with.
    mixture : ShardedMixture
    rng : numpy.random.Generator
    n_adapted : int
        Sweeps at the beginning in which the number of slots follows the clusters.
    moves : bool
        Whether splits and merges are tried.
    """

    def __init__(
        self,
        executor: ShardExecutor,
        pilot: PilotSample,
        start: np.ndarray,
        mixture: ShardedMixture,
        rng: np.random.Generator,
        *,
        n_adapted: int = 0,
        moves: bool = True,
    ) -> None:
        n_slots = start.shape[0]
        self.executor, self.pilot = executor, pilot
        self.prior, self.tails, self.component_priors = (
            mixture.prior,
            mixture.tails,
            mixture.component_priors,
        )
        self.updates, self.describe = tuple(mixture.updates), mixture.describe
        own = () if math.isinf(self.tails.df) else ("df",)
        self.cluster_parameters = (*mixture.cluster_parameters, *own)
        self.d = pilot.d
        self.family: Any
        self.parameters: Any
        self.family, self.parameters = self.component_priors.families(n_slots)
        self.model = Model(np.full(n_slots, 0.5 * self.tails.df))
        first, second = (int(word) for word in rng.integers(0, 2**63, size=2))
        self.key = first, second
        self.n_sweeps, self.n_adapted = 0, n_adapted
        self._n_refused = 0
        self._kernels = Kernels()
        self._log_likelihood = math.nan
        self._log_marginal = math.nan  # of the state that log_joint saw last
        self._log_mixture = math.nan  # of all rows, labels summed out
        self.df_grid = no_df_grid()
        has_weights = self.prior.has_concentration
        self._moves = SplitMerge(pilot, executor.n_rows) if moves and has_weights else None
        self._table: np.ndarray | None = None
        # Begin as if the pilot sample were all there is.
        self.statistics = start
        self.counts = np.rint(start[:, 1]).astype(np.int64)
        self.tail_sums = no_df_grid()
        self.z = np.zeros(0, dtype=np.int32)
        self.weights = Weights(np.full(n_slots, 1.0 / n_slots), 0.0)
        self._fresh = True
        self._draw_all_but_labels(rng)
        self._take(self._pass())

    # ------------------------------------------------------------------ the state

    @property
    def n_slots(self) -> int:
        """Scratch for so many clusters."""
        return self.counts.size

    @property
    def n_used(self) -> int:
        """Slots that a record tells of."""
        return int(np.flatnonzero(self.counts)[-1]) + 1 if self.prior.is_open else self.n_slots

    def _renew_empty_tails(self, rng: np.random.Generator) -> None:
        """Degrees of freedom of clusters without rows, from their prior."""
        if self.tails.learn == "each":
            empty = np.flatnonzero(self.counts == 0)
            self.model.alpha[empty] = 0.5 * draw_df(*self.tails.gamma, empty.size, rng)

    def _pass(self) -> PassTotal:
        return run_all(self.executor, self._request(self._mixture(), SWEEP, self.df_grid))

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
        self.family.natural[:] = self.family.prior + self.statistics[:, self.pilot.shape.lead :]
        self._kernels.run(load_from, self.family, 0)

    # ------------------------------------------------------------------ a sweep

    def sweep(self, rng: np.random.Generator) -> None:
        """All but the labels, then a pass, then splits and merges."""
        self._draw_all_but_labels(rng)
        self.n_sweeps += 1
        due = self.tails.learn is not None and self.n_sweeps % DF_EVERY == 0
        self.df_grid = no_df_grid()
        if due:
            self.df_grid = draw_df_grid(self.model.alpha, self.tails, self.executor.n_rows, rng)
        before = log_first(self.weights, self.counts)
        found = self._pass()
        after = log_first(self.weights, np.rint(found.statistics[:, 1]))
        if after >= before or math.log1p(-rng.random()) < after - before:
            self._take(found)
        else:
            # The labels stay; what was learned of the densities is of the parameters alone.
            self._n_refused += 1
            self._log_mixture = found.log_mixture
            self.tail_sums = no_df_grid()
        self._table = None
        if self._moves is not None:
            rounds = WARM_ROUNDS if self.n_sweeps <= self.n_adapted else 1
            for at, kind in enumerate(ROUND * rounds):
                accepted = self._try(kind, PROPOSAL + at, self.df_grid, rng)
                if accepted is not None:
                    self._take(accepted)

    def _draw_all_but_labels(self, rng: np.random.Generator) -> None:
        if self.prior.is_open:
            self._make_room()
        if len(self.tail_sums):
            # The scales were summed out: until a pass has drawn new ones, clusters stay.
            self.model.alpha[:] = 0.5 * choose_df(
                self.df_grid, self.tail_sums, self.counts, self.d, self.tails, rng
            )
            self.tail_sums = no_df_grid()
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

    # ------------------------------------------------------------------ splits and merges

    def _mixture(self) -> Mixture:
        locations = self.component_priors.locations(self.parameters, self.n_slots)
        return Mixture(self.weights.weight, locations, self.model.alpha)

    def _set(self, mixture: Mixture) -> None:
        self.weights = self.weights._replace(weight=mixture.weight)
        self.component_priors.set_locations(self.parameters, mixture.locations)

    def _request(
        self, mixture: Mixture, purpose: int, df_grid: np.ndarray | None = None
    ) -> ShardRequest:
        mean, whiten, half_log_det, log_share, log_rate = (
            np.array(part) for part in zip(*mixture.locations, strict=True)
        )
        components = components_of(
            mixture.weight, mean, whiten, half_log_det, mixture.alpha, log_share, log_rate
        )
        inverse_df = no_df_grid() if df_grid is None else 1.0 / df_grid
        return ShardRequest(components, inverse_df, self.key, self.n_sweeps, purpose)

    def _try(
        self, kind: str, purpose: int, df_grid: np.ndarray | None, rng: np.random.Generator
    ) -> PassTotal | None:
        """Propose a split or merge; what a pass over all rows has drawn, if it was accepted."""
        assert self._moves is not None
        now = self._mixture()
        found = self._moves.propose(
            now, self._pilot_table(now), self.prior, self.family.prior, kind, rng
        )
        if found is None:
            return None
        self._moves.counts[kind][PASSES] += 1
        request = self._request(found.mixture, purpose, df_grid)
        drawn = run_all(self.executor, request)
        weights = self.weights._replace(weight=found.mixture.weight)
        gain = drawn.log_mixture - self._log_mixture - found.pilot_gain
        gain += log_first(weights, np.rint(drawn.statistics[:, 1]))
        gain -= log_first(self.weights, self.counts)
        if not math.log1p(-rng.random()) < gain:
            return None
        self._moves.counts[kind][ACCEPTED] += 1
        self._set(found.mixture)
        self._log_mixture = drawn.log_mixture
        self._table = None
        return drawn

    def _pilot_table(self, now: Mixture) -> np.ndarray:
        """What the pilot sample say of the present clusters, computed once."""
        if self._table is None:
            self._table = self.pilot.table(self._request(now, 0).components, now.locations)
        return self._table

    def _move_counts(self) -> dict[str, np.ndarray]:
        """Return how often splits and merges were tried, accepted, and weighed by a pass."""
        return {} if self._moves is None else self._moves.counts

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
            self.tail_sums, self.df_grid = self.tail_sums[slots], self.df_grid[slots]
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

    def labels(self) -> np.ndarray:
        """Current slot of every followed row."""
        return self.z

    def log_joint(self) -> float:
        """Log joint density of data, followed labels, parameters of occupied clusters, the rest.

        Weights are integrated out, and so are the labels of rows that are not followed: with
        log p(labels) - sum of log weights = log p(weights) - log p(weights | sizes).
        """
        occupied = np.flatnonzero(self.counts)
        of_labels = float(self.counts[occupied] @ np.log(self.weights.weight[occupied]))
        self._log_likelihood = self._log_mixture
        total = self._log_mixture + self._log_followed() - of_labels
        total += self._kernels.run(log_prior, self.prior, self.counts)
        total += sum((update.log_density(self) for update in self.updates), 0.0)
        before, after = self._kernels.run(
            densities_of_parameters, self.family, self.parameters, self.counts,
            np.empty(self.family.natural.shape[1]),
        )  # fmt: skip
        total += before + log_density(self.model.alpha, self.counts, self.tails)
        self._log_marginal = float(total - after)
        return float(total)

    def _log_followed(self) -> float:
        """Log probability of the followed rows' labels given the clusters."""
        table = self._pilot_table(self._mixture())
        own = table[self.z, np.arange(self.z.size)]
        return float((own - log_sum(table)).sum())

    def events(self) -> dict[str, float]:
        """Splits and merges, and what befell the workers."""
        out = {"sweeps_refused": float(self._n_refused)} if self.prior.is_open else {}
        for kind, counts in self._move_counts().items():
            for part, number in zip(("tries", "accepted", "evidences"), counts, strict=True):
                out[f"{kind}_{part}"] = float(number)
        return out | self.executor.events()

    def news(self) -> str:
        """What a progress bar should say."""
        return self.executor.status()

    def record(self) -> dict[str, np.ndarray]:
        """Cluster parameters, whatever the updates show, log densities and concentration."""
        out = {} if self.describe is None else self.describe(self)  # type: ignore[arg-type]
        for update in self.updates:
            out |= update.record(self)
        if not math.isinf(self.tails.df):
            out["df"] = 2.0 * self.model.alpha
        mark_empty(out, self.cluster_parameters, self.counts[: self.n_used])
        out["log_likelihood"] = np.array(self._log_likelihood)
        out["log_marginal"] = np.array(self._log_marginal)
        if self.prior.has_concentration:
            out["concentration"] = self.prior.concentration[0].copy()
        return out

    def keep(self) -> None:
        """Nothing is summed up on the way."""

    def summaries(self) -> dict[str, np.ndarray]:
        """None."""
        return {}

    def forget(self) -> None:
        """None."""

    # ------------------------------------------------------------------ survival

    def state(self) -> dict[str, np.ndarray]:
        """Everything needed to continue; shards have nothing of it."""
        return {
            "z": self.z.copy(),
            "statistics": self.statistics.copy(),
            "df_grid": self.df_grid.copy(),
            "tail_sums": self.tail_sums.copy(),
            "weight": self.weights.weight.copy(),
            "rest": np.array(self.weights.rest),
            "fresh": np.array(self._fresh),
            "refused": np.array(self._n_refused),
            "key": np.array(self.key, dtype=np.int64),
            "n_sweeps": np.array(self.n_sweeps),
            "alpha": self.model.alpha.copy(),
            "log_likelihood": np.array(self._log_likelihood),
            "log_mixture": np.array(self._log_mixture),
            "moved": np.array([*self._move_counts().values()], dtype=np.int64),
            **flatten(self.prior, "prior."),
            **flatten(self.family, "family."),
            **flatten(self.parameters, "parameters."),
            **arrays_of_updates(self.updates),
        }

    def restore(self, state: Mapping[str, np.ndarray]) -> None:
        """Continue from ``state``."""
        statistics = np.asarray(saved_array(state, "statistics"), dtype=float)
        n_slots = len(statistics)
        if n_slots != self.n_slots and not self.prior.is_open:
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
        self.df_grid = np.array(saved_array(state, "df_grid"), dtype=float)
        self.tail_sums = np.array(saved_array(state, "tail_sums"), dtype=float)
        weight = fitting(saved_array(state, "weight"), np.zeros(n_slots), "weight")
        self.weights = Weights(weight, float(saved_array(state, "rest")))
        self._fresh = bool(saved_array(state, "fresh"))
        self._n_refused = int(saved_array(state, "refused"))
        self.prior = renew(self.prior, self.counts)
        self.model = Model(fitting(saved_array(state, "alpha"), self.model.alpha, "alpha"))
        self._log_likelihood = float(saved_array(state, "log_likelihood"))
        self._log_mixture = float(saved_array(state, "log_mixture"))
        counts = [*self._move_counts().values()]
        moved = fitting(saved_array(state, "moved"), np.array(counts, dtype=np.int64), "moved")
        for own, saved in zip(counts, moved, strict=True):
            own[:] = saved
        self._table = None
        first, second = (int(word) for word in saved_array(state, "key"))
        self.key = first, second
        self.n_sweeps = int(saved_array(state, "n_sweeps"))
        self.prior = rebuilt(self.prior, state, "prior.")
        self.family = rebuilt(self.family, state, "family.")
        self.parameters = rebuilt(self.parameters, state, "parameters.")
        restore_updates(self.updates, state, self)
