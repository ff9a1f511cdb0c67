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
from typing import Any, NamedTuple

import numpy as np

from cavity.core.arrays import StateError, fitting, flatten, rebuilt, saved_array, slot_axes
from cavity.core.compile import Kernels
from cavity.families.common import draw_empty, draw_from, load_from, log_densities_of_parameters
from cavity.families.normal_inverse_wishart import gaussian_parameters, normal_inverse_wishart
from cavity.models.degrees_of_freedom import draw_df
from cavity.priors.cluster import NIWPrior
from cavity.priors.partition import is_open, renew
from cavity.sampling.sampler import Describe, prior_of_partition
from cavity.scale.atoms import Weights, draw_weights, log_first
from cavity.scale.blocks import PROPOSAL, SWEEP
from cavity.scale.engines import Engine
from cavity.scale.kernel import atoms_of
from cavity.scale.niw import Location
from cavity.scale.passes import Order, Total
from cavity.scale.scouts import Scouts, log_sum
from cavity.scale.split_merge import KINDS, Mixture, SplitMerge
from cavity.scale.tails import (
    TAILS_EVERY,
    Tails,
    choose_rung,
    draw_ladder,
    log_density,
    no_ladder,
)
from cavity.updates import Update

# Rounds of proposals after each sweep of the warm-up; one after each of the others.
WARM_ROUNDS = 2
# Empty slots that an open prior is given while it warms up, and the fewest after.
SPARE, LEAST_SPARE = 6, 2


def densities_of_parameters(q, parameters, counts, kept):
    """Log densities of the occupied slots' parameters, as an entry kernel."""
    return log_densities_of_parameters(q, parameters, counts, kept)


class _Model(NamedTuple):
    """What updates read of a likelihood."""

    alpha: np.ndarray


class ShardedSampler:
    """A started chain that the runner drives.

    Parameters
    ----------
    engine : Engine
        With its rows loaded.
    scouts : Scouts
        The rows that the engine follows: proposals are made from them.
    start : array of shape (slots, P)
        Statistics of the scouts under the labels that the chain begins with.
    niw : NIWPrior
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
        See `cavity.sampling.sampler.PartitionSampler`.
    """

    def __init__(
        self,
        engine: Engine,
        scouts: Scouts,
        start: np.ndarray,
        niw: NIWPrior,
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
        self.engine = engine
        self.scouts = scouts
        self.prior = prior
        self.tails = tails
        self.updates = tuple(updates)
        self.describe = describe
        own = () if math.isinf(tails.df) else ("df",)
        self.cluster_parameters = (*cluster_parameters, *own)
        self.n_adapted = n_adapted
        self.d = scouts.d
        n_slots = start.shape[0]
        self.family: Any = normal_inverse_wishart(*niw, n_slots)
        self.parameters: Any = gaussian_parameters(self.d, n_slots)
        self.model = _Model(np.full(n_slots, 0.5 * tails.df))
        first, second = (int(word) for word in rng.integers(0, 2**63, size=2))
        self.key = first, second
        self.n_sweeps = 0
        self._kernels = Kernels()
        has_weights = hasattr(prior, "concentration")
        self._moves = SplitMerge(scouts, engine.n_rows) if moves and has_weights else None
        self._accepted = dict.fromkeys(KINDS, 0)
        self._asked = dict.fromkeys(KINDS, 0)
        self._n_refused = 0
        # Begin as if the scouts were all there is.
        self.statistics = start
        self.counts = np.rint(start[:, 1]).astype(np.int64)
        self.ladder = no_ladder()
        self.tail_sums = no_ladder()
        self.z = np.zeros(0, dtype=np.int32)
        self.weights = Weights(np.full(n_slots, 1.0 / n_slots), 0.0)
        self._fresh = True
        self._table: np.ndarray | None = None
        self._log_marginal = math.nan  # of the state that log_joint saw last
        self._draw_all_but_labels(rng)
        self._take(self._pass(self._mixture(), SWEEP))

    # ------------------------------------------------------------------ the state

    @property
    def n_slots(self) -> int:
        """Room for so many clusters."""
        return self.counts.size

    def _mixture(self) -> Mixture:
        mean, whiten = self.parameters.mean, self.parameters.whiten
        return Mixture(
            self.weights.weight,
            [
                Location(mean[:, k].copy(), whiten[:, :, k].copy(), float(h))
                for k, h in enumerate(self.parameters.half_log_det)
            ],
            self.model.alpha,
        )

    def _set(self, mixture: Mixture) -> None:
        self.weights = self.weights._replace(weight=mixture.weight)
        for k, location in enumerate(mixture.locations):
            self.parameters.mean[:, k] = location.mean
            self.parameters.whiten[:, :, k] = location.whiten
            self.parameters.half_log_det[k] = location.half_log_det

    def _order(self, mixture: Mixture, purpose: int) -> Order:
        atoms = atoms_of(
            mixture.weight,
            np.array([location.mean for location in mixture.locations]),
            np.array([location.whiten for location in mixture.locations]),
            np.array([location.half_log_det for location in mixture.locations]),
            mixture.alpha,
        )
        with np.errstate(divide="ignore"):
            return Order(atoms, 1.0 / self.ladder, self.key, self.n_sweeps, purpose)

    def _pass(self, mixture: Mixture, purpose: int) -> Total:
        return self.engine.run(self._order(mixture, purpose))

    def _take(self, found: Total) -> None:
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
        self.family.natural[:] = self.family.prior + self.statistics
        self._kernels.run(load_from, self.family, 0)

    # ------------------------------------------------------------------ a sweep

    def sweep(self, rng: np.random.Generator) -> None:
        """All but the labels, then a pass, then splits and merges."""
        self._draw_all_but_labels(rng)
        self.n_sweeps += 1
        due = self.tails.learn is not None and self.n_sweeps % TAILS_EVERY == 0
        self.ladder = no_ladder()
        if due:
            self.ladder = draw_ladder(self.model.alpha, self.tails, self.engine.n_rows, rng)
        before = log_first(self.weights, self.counts)
        found = self._pass(self._mixture(), SWEEP)
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
            for at, kind in enumerate(KINDS * rounds):
                self._try(kind, PROPOSAL + at, rng)

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
        if self.tails.learn == "each":
            empty = np.flatnonzero(self.counts == 0)
            self.model.alpha[empty] = 0.5 * draw_df(*self.tails.gamma, empty.size, rng)
        self.prior = renew(self.prior, self.counts)
        self.weights = draw_weights(self.prior, self.counts, rng)

    def _try(self, kind: str, purpose: int, rng: np.random.Generator) -> None:
        """Propose a split or merge; a pass over all rows decides."""
        assert self._moves is not None
        now = self._mixture()
        found = self._moves.propose(
            now, self._scouted(now), self.prior, self.family.prior, kind, rng
        )
        if found is None:
            return
        self._asked[kind] += 1
        drawn = self._pass(found.mixture, purpose)
        weights = self.weights._replace(weight=found.mixture.weight)
        gain = drawn.log_mixture - self._log_mixture - found.scouted
        gain += log_first(weights, np.rint(drawn.statistics[:, 1]))
        gain -= log_first(self.weights, self.counts)
        if math.log1p(-rng.random()) < gain:
            self._accepted[kind] += 1
            self._set(found.mixture)
            self._take(drawn)
            self._table = None

    def _scouted(self, now: Mixture) -> np.ndarray:
        """What the scouts say of the present clusters, computed once."""
        if self._table is None:
            self._table = self.scouts.table(self._order(now, SWEEP).atoms, now.locations)
        return self._table

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
            value._replace(
                **{
                    name: np.ascontiguousarray(np.take(getattr(value, name), slots, axis=axis))
                    for name, axis in slot_axes(value).items()
                }
            )
            for value in (self.family, self.parameters)
        )
        self.model = _Model(self.model.alpha[slots])

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
        total = self._kernels.run(prior_of_partition, self.prior, self.counts)
        total -= float(self.counts[occupied] @ np.log(self.weights.weight[occupied]))
        total += sum((update.log_density(self) for update in self.updates), 0.0)
        before, after = self._kernels.run(
            densities_of_parameters, self.family, self.parameters, self.counts,
            np.empty(self.family.natural.shape[1]),
        )  # fmt: skip
        total += self._log_mixture + self._log_followed()
        total += before + log_density(self.model.alpha, self.counts, self.tails)
        self._log_marginal = float(total - after)
        return float(total)

    def _log_followed(self) -> float:
        """Log probability of the followed rows' labels given the clusters."""
        table = self._scouted(self._mixture())
        own = table[self.z, np.arange(self.z.size)]
        return float((own - log_sum(table)).sum())

    def record(self) -> dict[str, np.ndarray]:
        """Cluster parameters, whatever the updates show, log densities and concentration."""
        out = {} if self.describe is None else self.describe(self)  # type: ignore[arg-type]
        for update in self.updates:
            out |= update.record(self)
        if not math.isinf(self.tails.df):
            out["df"] = 2.0 * self.model.alpha
        used = int(np.flatnonzero(self.counts)[-1]) + 1 if is_open(self.prior) else self.n_slots
        for name in self.cluster_parameters:
            values = np.array(out[name][:used])
            values[self.counts[:used] == 0] = np.nan
            out[name] = values
        out["log_likelihood"] = np.array(self._log_mixture)
        out["log_marginal"] = np.array(self._log_marginal)
        if hasattr(self.prior, "concentration"):
            out["concentration"] = self.prior.concentration[0].copy()
        return out

    def keep(self) -> None:
        """Nothing is summed up on the way."""

    def summaries(self) -> dict[str, np.ndarray]:
        """None."""
        return {}

    def forget(self) -> None:
        """None."""

    def events(self) -> dict[str, float]:
        """Splits and merges, and what befell the workers."""
        out = {"sweeps_refused": float(self._n_refused)} if is_open(self.prior) else {}
        if self._moves is not None:
            for kind in KINDS:
                out[f"{kind}_tries"] = float(self._moves.tried[kind])
                out[f"{kind}_accepted"] = float(self._accepted[kind])
                out[f"{kind}_evidences"] = float(self._asked[kind])
        return out | self.engine.events()

    def news(self) -> str:
        """What a progress bar should say."""
        return self.engine.news()

    # ------------------------------------------------------------------ survival

    def state(self) -> dict[str, np.ndarray]:
        """Everything needed to continue; shards have nothing of it."""
        tried = {} if self._moves is None else self._moves.tried
        return {
            "z": self.z.copy(),
            "statistics": self.statistics.copy(),
            "ladder": self.ladder.copy(),
            "tail_sums": self.tail_sums.copy(),
            "weight": self.weights.weight.copy(),
            "rest": np.array(self.weights.rest),
            "alpha": self.model.alpha.copy(),
            "log_mixture": np.array(self._log_mixture),
            "key": np.array(self.key, dtype=np.int64),
            "n_sweeps": np.array(self.n_sweeps),
            "fresh": np.array(self._fresh),
            "counted": np.array(
                [self._n_refused]
                + [part.get(kind, 0) for part in (tried, self._accepted, self._asked)
                   for kind in KINDS]
            ),
            **flatten(self.prior, "prior."),
            **flatten(self.family, "family."),
            **flatten(self.parameters, "parameters."),
            **{
                f"update.{update.name}.{name}": value
                for update in self.updates
                for name, value in update.arrays().items()
            },
        }  # fmt: skip

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
        alpha = fitting(saved_array(state, "alpha"), self.model.alpha, "alpha")
        self.model = _Model(alpha)
        self._log_mixture = float(saved_array(state, "log_mixture"))
        first, second = (int(word) for word in saved_array(state, "key"))
        self.key = first, second
        self.n_sweeps = int(saved_array(state, "n_sweeps"))
        self._fresh = bool(saved_array(state, "fresh"))
        counted = np.asarray(saved_array(state, "counted")).astype(int).tolist()
        self._n_refused = counted[0]
        parts = [self._accepted, self._asked]
        parts = [{} if self._moves is None else self._moves.tried, *parts]
        for at, part in enumerate(parts):
            part.update(zip(KINDS, counted[1 + 2 * at :], strict=False))
        self.prior = rebuilt(renew(self.prior, self.counts), state, "prior.")
        self.family = rebuilt(self.family, state, "family.")
        self.parameters = rebuilt(self.parameters, state, "parameters.")
        self._table = None
        for update in self.updates:
            prefix = f"update.{update.name}."
            own = {k[len(prefix) :]: v for k, v in state.items() if k.startswith(prefix)}
            update.restore(own, self)
