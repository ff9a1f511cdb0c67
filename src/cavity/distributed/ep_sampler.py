"""One chain by expectation propagation over shards: own sites fresh, those of others stale.

Every shard runs the collapsed scan over its rows against slots that have the prior, its own sites,
and the sum of the others' sites as it was known when the shard began. Whoever has answered begins
anew at once, with the newest sums; nobody may be more than so many sweeps ahead of the slowest, and
while sums are too stale, as when clusters are still on their way, shards take turns.
A sweep of the chain is as many sweeps of shards as there are shards, then one draw of whatever is
not a label, by the coordinator.

Every few sweeps all wait while splits and merges are tried: parameters and weights are drawn, and a
pass with the labels summed out decides, as in the exact sampler. Whoever has one label at a time to
move cannot join two clusters of thousands of rows, nor take one apart. After one that is accepted
every shard begins anew, with labels drawn given the parameters.

With one shard nothing is stale, and this is `collapse="ep"`. With more, what a shard scored its
rows by lags behind: `staleness_kl` is the divergence, in nats and averaged over clusters, of the
slots that all sums now give from those that the shard had at the end of its sweep.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np

from cavity._numba.arrays import StateError, fitting, saved_array
from cavity.collapse.ep import INVALID, LIMITED, REFITTED, UPDATES
from cavity.conjugate.common import draw_from, load_from
from cavity.distributed.blocks import MEASURE, PROPOSAL
from cavity.distributed.clusters import Makeup
from cavity.distributed.coordinator import Coordinator, Passes
from cavity.distributed.crowds import Crowd
from cavity.distributed.df_grid import Tails, choose_rung, draw_ladder
from cavity.distributed.ep_shard import Answer, Told
from cavity.distributed.mixture_weights import draw_weights
from cavity.distributed.pilot import Scouts
from cavity.distributed.sites import divergences, set_slots
from cavity.distributed.split_merge import ROUND
from cavity.mcmc.chain import Describe
from cavity.priors.partition import padded
from cavity.updates import Update

# Sweeps that a shard may be ahead of the slowest: the bound on how old sums are.
MOST_AHEAD = 2
# The bound on how stale they are, in nats for each parameter of a cluster; beyond it shards take
# turns, for one sweep, and for twice as many each time that it is met again at once, up to so many.
MOST_STALE, MOST_TURNS = 0.5, 16
# Sweeps from one projection of a row that stays in its cluster to the next.
REFRESHED_EVERY = 4
# Sweeps from one round of splits and merges to the next, in the warm-up and after it.
WARM_MOVES_EVERY, MOVES_EVERY = 2, 5


class Pace(NamedTuple):
    """How sites are computed, and how stale the others' may be.

    Attributes
    ----------
    every : int
        Sweeps from one projection of a row that stays to the next.
    ahead : int
        Sweeps that a shard may be ahead of the slowest. 0: they sweep one after the other, and
        nothing is stale.
    most_stale : float
        Mean divergence of a sweep, in nats and for each natural parameter of a cluster, above which
        shards take turns in the sweeps that follow.
    delay : int
        Sweeps by which the sums that shards are told are held back: to see what staleness does.
    fraction, damping : float
        Of site updates.
    """

    every: int = REFRESHED_EVERY
    ahead: int = MOST_AHEAD
    most_stale: float = MOST_STALE
    delay: int = 0
    fraction: float = 1.0
    damping: float = 1.0


class StaleEPSampler(Coordinator):
    """A started chain that the runner drives.

    Parameters
    ----------
    engine : Engine
        What makes passes for splits and merges.
    crowd : Crowd
        Who has the shards.
    scouts, makeup, prior, tails, updates, rng, moves, describe, cluster_parameters
        See `Coordinator`; the prior is closed.
    start : array of shape (slots, P)
        Statistics of the scouts under the labels that the chain begins with. The number of slots
        is a multiple of eight.
    n_clusters : int
        Slots that are clusters.
    pace : Pace
    n_adapted : int
        Sweeps at the beginning whose staleness is not that of the draws.
    """

    def __init__(
        self,
        engine: Passes,
        crowd: Crowd,
        scouts: Scouts,
        start: np.ndarray,
        makeup: Makeup,
        prior: Any,
        tails: Tails,
        updates: Iterable[Update],
        rng: np.random.Generator,
        *,
        n_clusters: int,
        pace: Pace | None = None,
        n_adapted: int = 0,
        moves: bool = True,
        describe: Describe | None = None,
        cluster_parameters: tuple[str, ...] = (),
    ) -> None:
        n_slots = len(start)
        super().__init__(
            engine, scouts, makeup, padded(prior, n_slots), tails, updates, n_slots, rng, moves,
            describe, cluster_parameters,
        )  # fmt: skip
        self.crowd, self.pace = crowd, Pace() if pace is None else pace
        self.n_clusters, self.n_adapted = n_clusters, n_adapted
        self._seen: Any = makeup.families(n_slots)[0]
        n_shards, width = len(crowd.sizes), self.family.natural.shape[1]
        self._sums = np.zeros((n_shards, n_slots, width))
        self._sizes = np.zeros((n_shards, n_slots), dtype=np.int64)
        self._labels: list[np.ndarray] = [np.zeros(0, dtype=np.int32)] * n_shards
        self._done = np.zeros(n_shards, dtype=np.int64)
        self._told: list[Told | None] = [None] * n_shards
        self._idle: set[int] = set()
        self._past: deque[tuple[np.ndarray, np.ndarray]] = deque(maxlen=self.pace.delay + 1)
        # Of the labels that each shard had before the sweep that it has answered last: sizes, log
        # density, logarithms for the ladder if it was the present one; which ladder it was told.
        self._sizes_before = np.zeros_like(self._sizes)
        self._log_density = np.full(n_shards, np.nan)
        self._rung_sums: list[np.ndarray | None] = [None] * n_shards
        self._ladder_told = [0] * n_shards
        self._counters = np.zeros(4)
        self._stale = np.zeros(3)  # last, sum, how often
        self._stale_now: list[float] = []  # of the answers of this sweep
        self._turns = np.zeros(3, dtype=np.int64)  # to take, taken last time, in all
        self._n_limited = 0
        self._ladder_number = 0
        # Begin as if the scouts were all there is.
        self.counts = np.rint(start[:, 1]).astype(np.int64)
        self.z = np.zeros(0, dtype=np.int32)
        self._kernels.run(set_slots, self.family, start)
        self._kernels.run(draw_from, self.family, self.parameters, 0, rng)
        self._draw_ladder(rng)
        self._begin([None] * n_shards)
        self._kernels.run(set_slots, self.family, self._sums.sum(axis=0))
        self._draw(rng)

    # ------------------------------------------------------------------ shards

    def _begin(self, labels: list[Any]) -> None:
        """Let all shards begin, and wait for them."""
        log_weight = np.log(np.maximum(self.counts, 0.5))
        log_weight[self.n_clusters :] = -np.inf
        for s, own in enumerate(labels):
            # Sites are made upon the prior: what the others have is not known yet.
            self._told[s] = told = self._tell(s, log_weight)
            self.crowd.begin(s, told, own, int(self._done[s]))
        for _ in labels:
            s, answer = self.crowd.answer()
            self._sums[s], self._sizes[s] = answer.sums, answer.counts
            self._sizes_before[s], self._log_density[s] = answer.counts, answer.log_density
            self._labels[s] = answer.labels
            self._counters += answer.counters
        self._remember()
        self._idle = set(range(len(labels)))
        self._take_sizes()

    def _tell(self, s: int, log_weight: np.ndarray | None = None) -> Told:
        """What a shard is told when it begins a sweep."""
        begun = len(self._past) > 0
        held_back = begun and not self._turns[0]
        sums, sizes = self._past[0] if held_back else (self._sums, self._sizes)
        others, elsewhere = sums.sum(axis=0) - sums[s], sizes.sum(axis=0) - sizes[s]
        if not begun or len(sums) == 1:
            # Not what rounding leaves of it.
            others, elsewhere = np.zeros_like(others), np.zeros_like(elsewhere)
        with np.errstate(divide="ignore"):
            rungs = 1.0 / self.ladder
        return Told(
            self.family.prior.copy(), self.prior, self.model.alpha.copy(),
            self.parameters._replace(
                **{n: getattr(self.parameters, n).copy() for n in self.parameters._fields}
            ),
            np.zeros(0) if log_weight is None else log_weight,
            others, elsewhere, rungs, self.key, self.pace.fraction, self.pace.damping,
            self.pace.every,
        )  # fmt: skip

    def _ask(self) -> None:
        """Let every shard sweep that may."""
        slowest = int(self._done.min())
        in_turn = not self.pace.ahead or self._turns[0] > 0
        ahead = 1 if in_turn else self.pace.ahead
        may = [s for s in sorted(self._idle) if self._done[s] - slowest < ahead]
        if in_turn:
            may = may[:1] if len(self._idle) == len(self._sums) else []
        for s in may:
            self._told[s] = told = self._tell(s)
            self._ladder_told[s] = self._ladder_number
            self._idle.discard(s)
            self.crowd.sweep(s, told)

    def _take(self, s: int, answer: Answer) -> None:
        """Put what a shard has answered in the place of what it answered before."""
        told = self._told[s]
        assert told is not None
        current = self._ladder_told[s] == self._ladder_number
        self._rung_sums[s] = answer.tails if current else None
        self._sizes_before[s] = self._sizes[s]
        self._log_density[s] = answer.log_density
        self._sums[s], self._sizes[s], self._labels[s] = answer.sums, answer.counts, answer.labels
        self._counters += answer.counters
        self._done[s] += 1
        self._idle.add(s)
        self._take_sizes()
        self._n_limited += self._kernels.run(set_slots, self.family, self._sums.sum(axis=0))
        if len(self._sums) > 1:
            self._measure(told, answer)

    def _take_sizes(self) -> None:
        self.counts = self._sizes.sum(axis=0)
        self.z = np.concatenate(self._labels)

    def _measure(self, told: Told, answer: Answer) -> None:
        """How far the slots that a shard had are from what all shards now say."""
        self._seen.prior[:] = told.prior
        self._kernels.run(set_slots, self._seen, told.others + answer.sums)
        out = np.empty(self.n_slots)
        both = np.minimum(self.counts, answer.counts + told.elsewhere)
        self._kernels.run(divergences, self.family, self._seen, both, out)
        stale = float(np.nanmean(out))
        self._stale += stale - self._stale[0], stale, 1.0
        self._stale_now.append(stale)

    def _remember(self) -> None:
        self._past.append((self._sums.copy(), self._sizes.copy()))

    def _wait(self) -> None:
        """Wait until no shard sweeps."""
        while len(self._idle) < len(self._sums):
            self._take(*self.crowd.answer())

    # ------------------------------------------------------------------ a sweep

    def sweep(self, rng: np.random.Generator) -> None:
        """As many sweeps of shards as there are shards, then all but the labels."""
        warm = self.n_sweeps < self.n_adapted
        if self._moves is not None and (
            self.n_sweeps % (WARM_MOVES_EVERY if warm else MOVES_EVERY) == 0
        ):
            self._split_and_merge(rng)
        for _ in self.crowd.sizes:
            if not self.pace.delay:
                self._remember()
            self._ask()
            self._take(*self.crowd.answer())
        if self.pace.delay:
            self._remember()
        self._bound()
        self.n_sweeps += 1
        if self.n_sweeps == self.n_adapted:
            self._stale[1:] = 0.0
        self._draw(rng)

    def _bound(self) -> None:
        """Let shards take turns while their sums would be too stale."""
        to_take, taken, in_all = (int(turns) for turns in self._turns)
        if to_take:
            self._turns[:] = to_take - 1, taken, in_all + 1
        elif self._stale_now:
            most = self.pace.most_stale * self.family.natural.shape[1]
            taken = 0 if np.mean(self._stale_now) <= most else min(max(2 * taken, 1), MOST_TURNS)
            self._turns[:] = taken, taken, in_all
            if taken:
                self._wait()
        self._stale_now.clear()

    def _draw(self, rng: np.random.Generator) -> None:
        found = [sums for sums in self._rung_sums if sums is not None]
        if self.tails.learn is not None and len(found) == len(self._rung_sums):
            sizes = self._sizes_before.sum(axis=0)
            chosen = choose_rung(self.ladder, np.sum(found, axis=0), sizes, self.d, self.tails, rng)
            self.model.alpha[:] = 0.5 * chosen
            self._draw_ladder(rng)
        self._renew_empty_tails(rng)
        self._kernels.run(draw_from, self.family, self.parameters, 0, rng)
        for update in self.updates:
            update.draw(self, rng)
        self._kernels.run(set_slots, self.family, self._sums.sum(axis=0))

    def _split_and_merge(self, rng: np.random.Generator) -> None:
        """Try both kinds; shards begin anew if one is accepted."""
        self._wait()
        self._kernels.run(draw_from, self.family, self.parameters, 0, rng)
        self.weights = draw_weights(self.prior, self.counts, rng)
        self._table = None
        self._log_mixture = self.engine.run(self._order(self._mixture(), MEASURE)).log_mixture
        accepted = None
        for at, kind in enumerate(ROUND):
            accepted = self._try(kind, PROPOSAL + at, None, rng) or accepted
        if accepted is None:
            return
        order, drawn = accepted
        self.counts = np.rint(drawn.statistics[:, 1]).astype(np.int64)
        self._kernels.run(set_slots, self.family, drawn.statistics)
        self._past.clear()
        self._rung_sums = [None] * len(self._rung_sums)
        self._begin([order] * len(self._sums))
        self._kernels.run(set_slots, self.family, self._sums.sum(axis=0))

    def _draw_ladder(self, rng: np.random.Generator) -> None:
        if self.tails.learn is not None:
            self.ladder = draw_ladder(self.model.alpha, self.tails, sum(self.crowd.sizes), rng)
            self._ladder_number += 1
            self._rung_sums = [None] * len(self._rung_sums)

    # ------------------------------------------------------------------ what a draw says

    @property
    def n_used(self) -> int:
        """Slots that are clusters."""
        return self.n_clusters

    def log_joint(self) -> float:
        """Log joint density of data, labels, parameters of occupied clusters and the rest.

        Rows' densities are those of the labels and parameters with which their shards began the
        sweep that they have answered last, and sizes go with these labels.
        """
        self._log_likelihood = float(self._log_density.sum())
        return self._log_joint(self._log_likelihood, self._sizes_before.sum(axis=0))

    def events(self) -> dict[str, float]:
        """Counts of numerical events, staleness, and what befell the workers."""
        out = {
            "updates": float(self._counters[UPDATES]),
            "invalid_cavities": float(self._counters[INVALID]),
            "refitted_sites": float(self._counters[REFITTED]),
            "limited_sites": float(self._counters[LIMITED]),
            "limited_slots": float(self._n_limited),
            "shards": float(len(self._sums)),
        }
        if self._stale[2]:
            out["staleness_kl"] = float(self._stale[1] / self._stale[2])
            out["sweeps_in_turns"] = float(self._turns[2])
        return out | self._move_events() | self.crowd.events()

    def news(self) -> str:
        """Staleness, and what the crowd says."""
        stale = f"stale by {self._stale[0]:.1g} nats" if self._stale[2] else ""
        return ", ".join(part for part in (self.crowd.news(), stale) if part)

    # ------------------------------------------------------------------ survival

    def state(self) -> dict[str, np.ndarray]:
        """Labels of all rows and whatever is not a label; sites are made again from the labels."""
        self._wait()
        return {
            "labels": np.concatenate(self.crowd.labels()),
            "done": self._done.copy(),
            "ladder": self.ladder.copy(),
            "stale": self._stale.copy(),
            "turns": self._turns.copy(),
            "counters": np.append(self._counters, self._n_limited),
            **self._arrays(),
        }

    def restore(self, state: Mapping[str, np.ndarray]) -> None:
        """Continue from ``state``."""
        labels = np.asarray(saved_array(state, "labels"))
        done = np.asarray(saved_array(state, "done")).astype(np.int64)
        if labels.size != sum(self.crowd.sizes) or labels.max(initial=0) >= self.n_clusters:
            raise StateError("its labels are of other rows or clusters")
        if done.size != self._done.size:
            raise StateError(f"it has {done.size} shards, not {self._done.size}")
        self._done, self.ladder = done, np.array(saved_array(state, "ladder"), dtype=float)
        self._stale = fitting(saved_array(state, "stale"), self._stale, "stale")
        self._turns = fitting(saved_array(state, "turns"), self._turns, "turns")
        counters = np.asarray(saved_array(state, "counters"), dtype=float)
        self._past.clear()
        self._rung_sums = [None] * len(self._rung_sums)
        self._restore(state)
        self._kernels.run(load_from, self.family, 0)
        self._begin(np.split(labels, np.cumsum(self.crowd.sizes)[:-1]))
        self._counters, self._n_limited = counters[:4], int(counters[4])
        self._kernels.run(set_slots, self.family, self._sums.sum(axis=0))
